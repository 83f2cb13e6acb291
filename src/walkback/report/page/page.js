/* Values on pointing: the mark nearest to the pointer tells what it shows. Without this the marks have titles. */
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-hidden", "true");
  tip.hidden = true;
  document.body.append(tip);
  let lit = null;
  const hide = () => {
    tip.hidden = true;
    if (lit) lit.classList.remove("lit");
    lit = null;
  };
  const words = new WeakMap();
  for (const svg of document.querySelectorAll("figure svg")) {
    let marks = null;
    svg.addEventListener("pointermove", (event) => {
      if (marks === null) {
        marks = [...svg.querySelectorAll("path")].filter((mark) => mark.firstElementChild);
        for (const mark of marks) {
          words.set(mark, mark.firstElementChild.textContent);
          mark.firstElementChild.remove();
        }
      }
      let best = null;
      let least = 30;
      for (const mark of marks) {
        const box = mark.getBoundingClientRect();
        const away = Math.hypot(event.clientX - box.x - box.width / 2, event.clientY - box.y - box.height / 2);
        if (away < least) [best, least] = [mark, away];
      }
      if (best === lit && lit) return;
      hide();
      if (!best) return;
      lit = best;
      lit.classList.add("lit");
      tip.textContent = words.get(best);
      tip.hidden = false;
      const box = best.getBoundingClientRect();
      const left = box.x + box.width / 2 - tip.offsetWidth / 2;
      tip.style.left = `${Math.max(4, Math.min(left, document.documentElement.clientWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${box.y > tip.offsetHeight + 12 ? box.y - tip.offsetHeight - 8 : box.bottom + 8}px`;
    });
    svg.addEventListener("pointerleave", hide);
  }
  addEventListener("scroll", hide, { passive: true });
  addEventListener("keydown", (event) => event.key === "Escape" && hide());

  /* On paper everything is open. */
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
  });
})();
