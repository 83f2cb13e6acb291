"""What a watched training is warned of: which checks fire at a look, leaks, and weights that do not move. Each once."""

import warnings
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from walkback.checks import Thresholds, fires_at, judge
from walkback.plain import one_line
from walkback.probes.backward_listener import Heard
from walkback.records import Moment
from walkback.records.moment import CREDIT
from walkback.records.readers.watch_log import WatchHeader, WatchLook, evidence_of_watch

LEAK, FLOOR = "leak", "reference floor"
STILL = 10  # steps without a change in any weight of the blocks, after which somebody should know
OTHER_CREDIT = ("what arrives at the blocks in your backward pass is not what the model's own backward pass delivers "
              "(local losses, or credits of your own): no cosine is taken of it; wb.audit takes credits=")  # fmt: skip
CROSSES = ("crosses", "carried by hand")


class WatchWarning(UserWarning):
    """A check fired in a watched training, or a look failed."""


class Alarms:
    """The warnings of one watched training. They wait until `emit`, so that none interrupts a look."""

    def __init__(self, header: WatchHeader, model: nn.Module, blocks: Sequence[nn.Module], thresholds: Thresholds):
        self.header, self.blocks, self.thresholds = header, blocks, thresholds
        self.fired: dict[str, int] = {}
        self.other_credit = False  # whether the loop's credit is not what the model's own backward pass delivers
        self._model, self._parameters = model, dict(model.named_parameters())
        self._sums: list[Tensor] | None = None
        self._moved_at = 0
        self._warned: set[str] = set()
        self._waiting: list[str] = []

    def warn(self, key: str, words: str) -> None:
        """Say this once, when the look is over."""
        if key not in self._warned:
            self._warned.add(key)
            self._waiting.append(f"walkback: {one_line(words)}")

    def emit(self) -> None:
        """Say what waits."""
        waiting, self._waiting = self._waiting, []
        for words in waiting:
            warnings.warn(WatchWarning(words), stacklevel=4)

    def of_the_loop(self, moment: Moment, heard: Heard) -> tuple[Moment, list[str]]:
        """The moment without cosines, where what arrives in the loop's backward is not what was compared."""
        if moment.cosine_out is None:
            return moment, []
        if all(size is None for size in heard.arrived):
            if self.other_credit:  # as it was when the backward pass was last seen
                return moment.changed(**dict.fromkeys(CREDIT)), [OTHER_CREDIT]
            return moment, ["credit: the model's own backward pass on the probe; that of the loop was not seen"]
        for block, (size, record) in enumerate(zip(heard.arrived, moment.cosine_out, strict=True)):
            if size is None or record is None or record.status in ("not available", "not proved"):
                continue
            arrives = record.status != "zero credit"
            if not self.trains(block):
                continue
            crosses = heard.crosses[block] if block < len(heard.crosses) else "crosses"
            if arrives != (size != 0) or (arrives and crosses == "does not cross"):
                return moment.changed(**dict.fromkeys(CREDIT)), [OTHER_CREDIT]
        return moment, []

    def trains(self, block: int) -> bool:
        """Whether anything can be trained in this block or those before it."""
        return any(p.requires_grad for each in self.blocks[: block + 1] for p in each.parameters())

    def fires(self, moment: Moment, heard: Heard, first: Moment | None) -> list[str]:
        """The checks that fire at this moment; `first`: the moment of the first look."""
        moment, _ = self.of_the_loop(moment, heard)
        answers = fires_at(moment, self.thresholds, self.header.residual, first if self.header.at_init else None)
        leaks = self.header.local and any(c in CROSSES for c in heard.crosses)
        return [*(name for name, answer in answers.items() if answer), *([LEAK] if leaks else [])]

    def about(self, look: WatchLook, fires: list[str], first: WatchLook | None) -> None:
        """Prepare the warnings of one look."""
        borders = [f"{above} into {below}" for below, above in pairwise(self.header.blocks)]
        for name in fires:
            if name == FLOOR:
                norm = look.moment.gradient_norms[-1] if look.moment.gradient_norms else None
                self.warn(name, f"step {look.step}: ‖g_L‖ is {norm or 0:.2g}, below the published floor. "
                                "Our protocol judges precision, not size, so this only warns.")  # fmt: skip
                continue
            self.fired.setdefault(name, look.step)
            if name == LEAK:
                places = [border + " (carried by hand)" * (c == "carried by hand")
                          for border, c in zip(borders, look.crosses, strict=True) if c in CROSSES]  # fmt: skip
                self.warn(name, f"step {look.step}: a gradient leaks from {', '.join(places)} although local=True. "
                                "Detach the input of each block; otherwise this is backprop.")  # fmt: skip
                continue
            looks = [first, look] if first is not None and self.header.at_init else [look]
            findings = judge(evidence_of_watch(self.header, looks), self.thresholds).findings
            words = next((finding.says for finding in findings if finding.check == name), "")
            self.warn(name, f"step {look.step}: {name} fires. {words}")
        sides = {c in CROSSES for b, c in enumerate(look.crosses) if c != "not seen" and self.trains(b)}
        if len(sides) > 1 and not self.header.local:
            cut = [border for border, c in zip(borders, look.crosses, strict=True) if c == "does not cross"]
            if cut:
                self.warn("mixed", f"step {look.step}: the gradient crosses between some blocks but not from "
                                   f"{', '.join(cut)}. Check where a detach() is missing or too many.")  # fmt: skip

    def weights(self, step: int, alive: bool) -> None:
        """Warn of weights that are replaced, or that do not change. `alive`: whether anything lies in their .grad."""
        now = dict(self._model.named_parameters())
        other = [name for name, p in now.items() if p.requires_grad and self._parameters.get(name, p) is not p]
        if other:
            self.warn("replaced", f"step {step}: {other[0]}{f' (and {len(other) - 1} more)' if len(other) > 1 else ''} "
                                  "was replaced by another tensor after the watch began. An optimizer built before "
                                  "trains the old tensor, which the model no longer uses; build it again.")  # fmt: skip
        trained = [p.detach() for block in self.blocks for p in block.parameters() if p.requires_grad]
        sums = [torch.stack([p.double().sum(), p.double().square().sum()]).cpu() for p in trained]
        before, self._sums = self._sums, sums
        if before is None or len(before) != len(sums) or not alive or not all(map(torch.equal, before, sums)):
            self._moved_at = step
        elif sums and step - self._moved_at >= STILL:
            self.warn("still", f"step {step}: no trainable weight of the blocks changed since step {self._moved_at}, "
                               "although there are gradients. Does the optimizer have these parameters?")  # fmt: skip
