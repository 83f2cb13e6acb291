"""known: subjects whose answer is known beforehand, and what the audit makes of them. It audits the auditor.

Some are trained as any run is, on MNIST (quick: on MNIST-1D and the 8×8 digits). The others are small loops, and
evidence made by hand (`planted`), the same in both. A case that comes out otherwise is printed so; nothing is tuned.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from walkback.audits import control_bp
from walkback.checks import Judgement, judge
from walkback.nets import defaults, find_net
from walkback.records import BaselineName, Evidence
from walkback.report import Cell, Table
from walkback.train import SEEDS, seed_list
from walkback_paper import planted
from walkback_paper.base import Arm, Collected, Extent, Study, finding, register

FEW = 5  # seeds: fewer can show neither that accuracy holds nor that Γ is even


# By name what is trained in full, and what else in quick. The same nets and budgets for a subject and its baselines.
MLP: Mapping[str, Any] = {"net": "mlp", "net_options": {"width": 100, "depth": 3, "activation": "tanh"}}
RECIPES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "mlp": ({**MLP, "data": "mnist", "epochs": 10}, {"data": "mnist1d", "quick_epochs": 16, "lr": 0.01}),
    "mlp, 3 epochs": ({**MLP, "data": "mnist", "epochs": 3}, {"data": "mnist1d", "quick_epochs": 4, "lr": 0.01}),
    "fitted": (
        {"net": "mlp", "net_options": {"width": 100, "depth": 3, "activation": "relu"}, "data": "mnist", "epochs": 40,
         "schedule": "constant"},
        {"data": "digits", "quick_epochs": 150},
    ),
    "deep": ({"data": "mnist", "net_options": {"width": 128, "depth": 12}, "epochs": 5},
             {"data": "mnist1d", "quick_epochs": 4}),
    "random labels": ({**MLP, "data": "mnist", "epochs": 5, "labels": "random"},
                      {"data": "mnist1d", "quick_epochs": 5}),
    "mnist1d": ({"data": "mnist1d", "net_options": {"width": 64}, "epochs": 16, "lr": 0.003}, {}),
    "cifar10": ({"data": "cifar10", "net": "small-cnn", "epochs": 30}, {}),
}  # fmt: skip
SHALLOW_RATE = 3e-2  # softmax regression on MNIST-1D, where .001 is far too small for it
FULL_ONLY = ("mnist1d", "cifar10")
GAMMA_ALONE = ("bp, fitted", "bp, deep", "fg, mlp")  # judged beside nothing: only Γ is asked of them


def _parts(arm: str) -> dict[BaselineName, str]:
    """The arms that one is judged beside, by their role."""
    rule, _, recipe = arm.partition(", ")
    return {} if arm in GAMMA_ALONE else {
        "frozen": f"{rule} frozen, {recipe}", "bp": f"bp, {recipe}", "frozen_bp": f"bp frozen, {recipe}",
        "shallow": f"shallow, {recipe}",
    }  # fmt: skip


def _arm(extent: Extent, name: str) -> Arm:
    """An arm by its name: a rule, or the shallow net; frozen or not; and the recipe."""
    who, _, recipe = name.partition(", ")
    rule, frozen = who.removesuffix(" frozen"), who.endswith(" frozen")
    full, quick = RECIPES[recipe]
    settings: dict[str, Any] = {**full, **(quick if extent.quick else {})}
    if rule == "shallow":
        family = find_net(settings.get("net", "resmlp"))
        options = family.shallow({**defaults(family), **settings.get("net_options", {})})
        rule, settings = "bp", settings | {"net_options": options}
        settings |= {"lr": SHALLOW_RATE} if settings["data"] == "mnist1d" else {}
    return extent.arm(name, rule, train_last=0 if frozen or who == "shallow" else None, **settings)


def arms(extent: Extent) -> list[Arm]:
    """Every subject with its baselines, each arm once; five seeds unless others are asked for."""
    extent = replace(extent, seeds=tuple(seed_list(FEW))) if extent.seeds == SEEDS else extent
    subjects = [case.of for case in CASES if isinstance(case.of, str)]
    if extent.quick:
        subjects = [arm for arm in subjects if arm.partition(", ")[2] not in FULL_ONLY]
    names = dict.fromkeys(name for arm in subjects for name in (arm, *_parts(arm).values()))
    return [_arm(extent, name) for name in names]


def accuracy(judgement: Judgement) -> str:
    """The answer on accuracy, with the points over the frozen and over the shallow net."""
    depth = finding(judgement, "depth")
    gains = [] if depth is None else [depth.parts[name].value for name in ("frozen", "shallow") if name in depth.parts]
    points = f" ({', '.join(f'{100 * gain:+.1f}' for gain in gains if gain is not None)})" if gains else ""
    return f"{judgement.answer}{points}"


def gamma(judgement: Judgement) -> str:
    """The answer on Γ."""
    assert judgement.verdicts is not None
    return f"Γ {judgement.verdicts.gamma}"


def both(judgement: Judgement) -> str:
    """The two."""
    return f"{accuracy(judgement)}; {gamma(judgement)}"


def small(judgement: Judgement) -> str:
    """Γ's size, and what chance says of it."""
    found = finding(judgement, "chance")
    if found is None or found.value is None:
        return "Γ not known"
    return f"Γ {found.value:.3f}, chance {found.outcome}{', small' if found.value < found.threshold else ''}"


def symptom(judgement: Judgement) -> str:
    """The answer on accuracy, and what scale says beside it."""
    scale = finding(judgement, "scale")
    return f"{accuracy(judgement)}; scale {scale.outcome if scale else '–'}"


def control(judgement: Judgement) -> str:
    """Whether bp's control accepts it, by its accuracy alone."""
    found = control_bp(judgement)
    return f"{'passes' if found.ok else 'fails'}: {found.got.partition(';')[0]}"


def because(*phrases: str) -> Callable[[Judgement], str]:
    """The answer on accuracy, and which of some phrases are in the reason."""

    def read(judgement: Judgement) -> str:
        depth = finding(judgement, "depth")
        found = [phrase for phrase in phrases if depth is not None and phrase in depth.says]
        return "; ".join([accuracy(judgement), *found])

    return read


@dataclass(frozen=True)
class Exam:
    """What is judged, what must come out, and how that is read: right if all of `has` is in it, and none of `lacks`.

    of  the arm that is trained, "rule, recipe"; or what gives evidence, or an answer
    """

    words: str
    expected: str
    made: str  # trained, a small loop, or by hand
    of: str | Callable[[], Evidence | str]
    read: Callable[[Judgement], str] = both
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def got(self, g: Collected) -> str | None:
        """What came out; None: its runs are not there."""
        if isinstance(self.of, str):
            found: Evidence | str | None = g.evidence(self.of, _parts(self.of)) if self.of in g.arms else None
        else:
            found = self.of()
        return self.read(judge(found)) if isinstance(found, Evidence) else found

    def right(self, got: str) -> bool:
        """Whether that is as expected."""
        return all(word in got for word in self.has) and not any(word in got for word in self.lacks)


LOOP, HAND, TRAINED = "a small loop", "by hand", "trained"
CASES = (
    Exam("fa-layer, MLP 3×100 tanh", "accuracy holds, Γ even", TRAINED, "fa-layer, mlp", both, ("holds", "Γ even")),
    Exam("dfa-plain (Nøkland), same", "accuracy holds", TRAINED, "dfa-plain, mlp", accuracy, ("holds",)),
    Exam("dfa normalised per sample, same, few epochs", "walked back", TRAINED, "dfa, mlp, 3 epochs", accuracy,
         ("walked back",)),
    Exam("bp, MLP 3×100 ReLU, fitted to a loss near 0", "Γ even", TRAINED, "bp, fitted", gamma, ("Γ even",)),
    Exam("bp, 12 blocks", "Γ even", TRAINED, "bp, deep", gamma, ("Γ even",)),
    Exam("forward gradient", "Γ small, above chance", TRAINED, "fg, mlp", small, ("chance passes, small",)),
    Exam("bp on random labels", "accuracy does not hold", TRAINED, "bp, random labels", accuracy, (), ("holds",)),
    Exam("usf, MNIST-1D", "none beforehand", TRAINED, "usf, mnist1d"),
    Exam("kp, MNIST-1D", "none beforehand", TRAINED, "kp, mnist1d"),
    Exam("dfa, small-cnn, CIFAR-10", "none beforehand", TRAINED, "dfa, cifar10"),
    Exam("exact bp, one block a step in turn", "not walked back, Γ even", LOOP, planted.in_turn, both, ("Γ even",),
         ("walked back",)),
    Exam("+g on 65 % of the samples, −10 g on the rest", "walked back, Γ open", LOOP, planted.climbing, both,
         ("walked back", "Γ open")),
    Exam("bp on a linear teacher", "open: no depth is needed", LOOP, planted.linear_teacher,
         because("needs no depth", "does not need this depth", "worse than no depth"), ("open", "depth")),
    Exam("bp that overfits 300 samples", "bp's control fails", LOOP, planted.overfitting, control, ("fails",)),
    Exam("a rule that diverges on one seed in ten", "the share of failing seeds is stated", HAND,
         planted.fails_on_one_in_ten, because("1 of 10; their share is at most 39 %"), ("1 of 10",)),
    Exam("three blocks aligned, one opposed", "Γ not even", HAND, planted.one_opposed, gamma, (), ("Γ even",)),
    Exam("bp with a small embedding: one block grows 76×", "holds; scale fires", HAND, planted.small_embedding,
         symptom, ("holds", "scale fires")),
    Exam("local losses that show the true gradient to a probe", "not seen", LOOP,
         partial(planted.witnessed, local=True), has=("not seen",)),
    Exam("random feedback hidden inside a block's backward", "not seen", LOOP,
         partial(planted.witnessed, hidden=True), has=("not seen",)),
    *(
        Exam(f"bp with {words}", "seen", LOOP, partial(planted.witnessed, **options), has=("seen",), lacks=("not",))
        for words, options in (
            ("tied weights", {"tied": True}), ("coupled decay", {"decay": 0.5}),
            ("clipping", {"clip": True}), ("bfloat16", {"half": True}),
        )
    ),
)  # fmt: skip


def tables(g: Collected) -> list[Table]:
    """Every case: what is expected, and what came out."""
    rows: list[list[Cell]] = []
    for case in CASES:
        got = case.got(g)
        verdict = None if got is None else "yes" if case.right(got) else "no"
        rows.append([case.words, case.made, case.expected, got, "–" if case.expected.startswith("none") else verdict])
    data = "MNIST-1D and the 8×8 digits, half as wide" if g.extent.quick else "MNIST, unless it says otherwise"
    notes = g.notes(
        f"Trained: as any run, on {data}, {FEW} seeds, every net at one rate. A small loop: written here, on drawn "
        "samples. By hand: evidence made so. In brackets the points over the frozen and over the shallow net. No run: "
        "the case is not judged.",
    )
    return [Table("known", "Known answers", ["case", "made", "expected", "got", "as expected"], rows, notes)]


register(Study("known", "Does the audit give the answers that are known beforehand?", arms, tables, place=70))
