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

  /* On paper everything is open, but for the parts of many subjects. */
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open]):not(.subject)")];
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
  });

  /* Sort by a column: the heading is a button. Empty cells stay at the end. */
  for (const table of document.querySelectorAll("table[data-sort]")) {
    const body = table.tBodies[0];
    if (body.rows.length < 4) continue;
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const value = (row) => row.cells[column].dataset.value;
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
          const order = x - y || String(x).localeCompare(String(y), "en", { numeric: true });
          return up ? order : -order;
        });
        body.append(...rows);
      });
    });
  }

  /* Find subjects among many, by name and by verdict; tables and parts follow alike. */
  const rows = [...document.querySelectorAll("[data-place]")];
  const heat = document.querySelector("table.heat");
  if (heat && heat.tBodies[0].rows.length > 12) {
    const finder = document.createElement("div");
    finder.className = "finder";
    finder.setAttribute("role", "search");
    const search = document.createElement("input");
    search.type = "search";
    search.setAttribute("aria-label", "Find subjects by name");
    search.placeholder = "Find subjects by name";
    finder.append(search);
    const verdicts = [...new Set(rows.map((row) => row.dataset.verdict))];
    const boxes = verdicts.map((verdict) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = true;
      box.value = verdict;
      label.append(box, ` ${verdict}`);
      finder.append(label);
      return box;
    });
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    finder.append(count);
    const names = new Map();
    for (const row of heat.tBodies[0].rows) names.set(row.dataset.place, row.cells[0].textContent.toLowerCase());
    const all = names.size;
    const find = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const chosen = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
      const shown = new Set();
      for (const row of rows) {
        const name = names.get(row.dataset.place);
        row.hidden = !chosen.has(row.dataset.verdict) || !words.every((word) => name.includes(word));
        if (!row.hidden) shown.add(row.dataset.place);
      }
      count.textContent = shown.size === all ? "" : `${shown.size} of ${all}`;
    };
    search.addEventListener("input", find);
    for (const box of boxes) box.addEventListener("change", find);
    heat.parentElement.before(finder);
  }

  /* A link to a folded part opens it. */
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    const folded = target && target.closest("details");
    if (folded && !folded.open) {
      folded.open = true;
      folded.scrollIntoView();
    }
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
