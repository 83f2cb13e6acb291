"""A training of somebody's own loop as a folder: training.json, model.safetensors, predictions.npy. No torch is read.

An audit of a loop keeps one such folder per training: the subject, its frozen twin and its upper half, the same by
backprop, the net without its blocks, the control of noise, and the net at init. The record is written last, each file
whole or absent, so a folder without a record was not finished. Nothing is unpickled. `Loop` makes subjects of them.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from walkback.errors import RecordError
from walkback.files import make_folder, sweep, write_whole
from walkback.records import invariants
from walkback.records.checkpoint import checkpoint_bytes, digest, header_bytes, parsed_header
from walkback.records.consistency import flaws_of_values
from walkback.records.evidence import Baseline, BaselineName, Evidence
from walkback.records.folder import find_folders
from walkback.records.invariants import Broken, broken
from walkback.records.moment import Moment, Standing, Training, check_gamma, credited
from walkback.records.predictions import PREDICTIONS, Predictions, most_frequent, read_predictions
from walkback.records.rates import TRIAL_SEED, TRIALS, Choice, effort_of
from walkback.records.record import Record, read_record
from walkback.records.schema import BLOCKS, Share, Size, Whole
from walkback.records.subjects import Subject

if TYPE_CHECKING:
    from torch import Tensor

RECORD, WEIGHTS = "training.json", "model.safetensors"
NOISE = "random"
AGAIN = "undo the edit, or move the folder away and give the same call again: it trains what is missing"
Who = Literal["subject", "bp", "random", "init"]
Part = Literal["all", "half", "frozen", "none"]  # the blocks that train: all, the upper half, none; or there are none
Arm = tuple[Who, Part]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Status = Literal["finished", "diverged", "not frozen", "failed"]


class LoopSetting(Record):
    """What all trainings of one audit share. Another setting is another folder."""

    name: Name
    blocks: Annotated[list[Name], Meta(min_length=1, max_length=BLOCKS)]
    residual: bool | None  # whether the blocks add to a stream; None: not stated
    sources: dict[str, str]  # by argument, a hash of its source and of what that refers to in the same file
    parameters: str  # a hash of the names and shapes of all parameters and buffers
    bp: Literal["your own loop", "a plain loop of ours"] | None  # None: there is no reference
    recipe: str  # of the plain loop
    test: str  # a hash of the test samples
    samples: Whole  # of the test
    probed: Whole  # the first so many of them, on which norms, gradients and cosines are taken
    loss: Literal["cross-entropy", "cross-entropy per place", "your own"]
    metric: str | None
    credits: Literal["your function", "backward"] | None
    doubts: list[str]  # what keeps the subject from holding: samples that are in test and in train_batches
    lr: float | None = None  # one learning rate that every training was given
    validation: str | None = None  # a hash of the samples by which learning rates are chosen

    def hash(self) -> str:
        """Ten hex digits that name this setting."""
        later = {name for name in ("lr", "validation") if getattr(self, name) is None}  # they rename no earlier one
        words = json.dumps({n: v for n, v in self.as_dict().items() if n not in later}, sort_keys=True)
        return hashlib.sha256(words.encode()).hexdigest()[:10]


class LoopTraining(Record, kw_only=True):
    """One training: what it was, how it ended, and what was measured."""

    schema: Literal["walkback.training/1"] = "walkback.training/1"
    setting: LoopSetting
    who: Who
    part: Part
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    status: Status
    why: str  # of a training that failed, diverged or is no baseline
    accuracy: Share | None  # on the whole test
    loss: float | None
    moments: list[Moment]  # at init (epoch 0) and at the end; of baselines none
    init: str  # a hash of the weights and buffers at init
    weights: str  # the same at the end
    moved: list[Size | None]  # by block ‖w − w_0‖ / ‖w_0‖ over its parameters; None: not known
    elsewhere: Size | None  # the same over all other parameters
    noise: Literal["gradients", "movements"] | None  # what was replaced by noise, in the control
    source: str | None = None  # a hash of make_shallow, of a net without blocks; None: walkback took its blocks out
    notes: list[str]
    seconds: Size
    predictions: str | None = None  # the sha256 of predictions.npy; None: recorded before walkback 0.3, or no classes
    made: dict[str, str]  # versions
    lr: float | None = None  # the learning rate that it was given; None: that of the loop itself
    held_out: Whole | None = None  # of a trial of that rate: how many samples the accuracy is of, instead of the test
    standing: Standing | None = None  # whether the credits that are compared are what trained; None: not asked
    standing_why: str = ""

    def possible(self) -> None:
        """What was measured is of its net and its end."""
        blocks = len(self.setting.blocks) if self.part != "none" else 0
        if self.part == "none" and (self.who != "bp" or self.moments):
            words = "a net without blocks is a baseline by bp, of which nothing but its accuracy is measured"
            raise Broken("blocks", words)
        if self.source is not None and self.part != "none":
            raise Broken("blocks", "it names make_shallow, and its blocks are there")
        if self.status != "failed" and len(self.moved) != blocks:
            raise Broken("blocks", f"moved has {len(self.moved)} entries, and the net has {blocks} blocks")
        for place, moment in enumerate(self.moments):
            for name, count in moment.block_counts().items():
                if count != blocks:
                    raise Broken("blocks", f"{name} of moment {place} is of {count} blocks, not {blocks}")
            for _, name, words in flaws_of_values(moment):
                raise Broken(name, words)
            check_gamma(moment)
        if self.status == "finished":
            still = blocks if self.who == "init" or self.part == "frozen" else blocks // 2 if self.part == "half" else 0
            for block, moved in enumerate(self.moved[:still]):
                if moved:
                    raise Broken("result", f"block {block} is frozen, and moved by {moved:g}")
            if any(value is not None and not math.isfinite(value) for value in (*self.moved, self.elsewhere)):
                raise Broken("result", "it finished, and its weights are not finite")
            if self.part == "none" and not self.elsewhere:
                raise Broken("result", "it has no blocks, and nothing of it was trained")
        if self.status == "failed" and (self.moments or self.accuracy is not None):
            raise Broken("result", "it failed, and something was measured of it")
        if self.predictions is not None and self.accuracy is None:
            raise Broken("predictions", "it names predictions, and has no accuracy")
        last = self.moments[-1] if self.moments else self
        if repr((last.accuracy, last.loss)) != repr((self.accuracy, self.loss)):  # as text, NaN is itself
            raise Broken("result", "its last moment has another accuracy or loss")
        whole = self.setting.metric is None and self.setting.loss == "cross-entropy"
        if whole and self.accuracy is not None and math.isfinite(self.accuracy):
            samples = self.held_out or self.setting.samples
            right = self.accuracy * samples
            if abs(right - round(right)) > 1e-6:
                raise Broken("test-size", f"{self.accuracy!r} of {samples} test samples is {right:.3f} samples")
            if self.loss is not None and math.isfinite(self.loss):
                invariants.cross_entropy(self.loss)
                invariants.enough_loss(self.accuracy, self.loss)

    def hash(self) -> str:
        """Ten hex digits that name this training: its setting, who, part and seed."""
        rate = [] if self.lr is None else [self.lr, self.held_out]
        words = json.dumps([self.setting.hash(), self.who, self.part, self.seed, *rate])
        return hashlib.sha256(words.encode()).hexdigest()[:10]

    def label(self) -> str:
        """A name for tables and messages."""
        return label_of(self.who, self.part, self.seed, self.lr)

    def folder(self) -> str:
        """The folder's name: readable in front, the hash behind."""
        return f"{self.who}-{self.part}-s{self.seed}-{self.hash()}"

    def place(self, out: Path) -> Path:
        """Where it belongs among the trainings of an audit: trials lie apart."""
        return (out if self.held_out is None else out / TRIALS) / self.folder()


def label_of(who: Who, part: Part, seed: int, lr: float | None = None) -> str:
    """What a training is, in words.

    >>> label_of("subject", "frozen", 42)
    'subject with its blocks frozen, seed 42'
    """
    parts = {"all": "", "half": " with the lower half of its blocks frozen", "frozen": " with its blocks frozen",
             "none": " without its blocks"}  # fmt: skip
    rate = "" if lr is None else f", rate {lr:g}"
    return f"{'net at init' if who == 'init' else who}{parts[part]}, seed {seed}{rate}"


def find_loop_trainings(*places: Path | str) -> list[Path]:
    """The folders of such trainings among `places` and directly inside them, in order of their names."""
    return find_folders(RECORD, *(place for place in map(Path, places) if place.is_dir()))


def read_loop_training(path: Path | str) -> tuple[LoopTraining, Predictions | None]:
    """A training's record and final predictions; refused if they cannot be true (see invariants.py)."""
    path = Path(path)
    file = path / RECORD
    record = read_record(LoopTraining, file, AGAIN)
    if record is None:
        raise RecordError(f"{path} is not a training: it has no {RECORD}", "give a folder of such trainings")
    if path.name != record.folder():
        words = f"{file} was edited, or its folder renamed: it belongs in {record.folder()}"
        raise RecordError(broken("folder", words), AGAIN)
    _, state = parsed_header(header_bytes(path / WEIGHTS)) or ([], None)
    for name, value in {"training": record.hash(), "weights": record.weights}.items():
        if state is not None and state.get(name) != value:
            words = f"{path / WEIGHTS}: {name} is {state.get(name)!r}, and the record's is {value!r}"
            raise RecordError(broken("checkpoint", words), AGAIN)
    return record, read_predictions(path, record, record.setting.samples, AGAIN)


def write_training(
    out: Path, record: LoopTraining, tensors: Mapping[str, "Tensor"] | None, predicted: bytes | None = None
) -> Path:
    """Keep a training: weights and predictions first, the record last."""
    path = record.place(out)
    make_folder(path)
    sweep(path)
    for name in (RECORD, WEIGHTS, PREDICTIONS):  # of an earlier one; a record never lies beside other weights
        (path / name).unlink(missing_ok=True)
    if predicted is not None:
        write_whole(path / PREDICTIONS, predicted, follow=False)
    if tensors is not None:
        state = {"training": record.hash(), "weights": record.weights}
        write_whole(path / WEIGHTS, checkpoint_bytes(tensors, state), follow=False)
    write_whole(path / RECORD, record.indented() + b"\n", follow=False)
    return path


def digest_of(tensors: Mapping[str, "Tensor"]) -> str:
    """A hash of weights, by name, shape and bits."""
    return digest(tensors)[:16]


# --- subjects ---------------------------------------------------------------------------------------------------------

# By who is judged its baselines, as who trained which part. Noise that arrives at frozen blocks changes nothing: the
# subject's frozen twin is that of the noise.
BY_TASK: dict[BaselineName, Arm] = {
    "bp": ("bp", "all"), "frozen_bp": ("bp", "frozen"), "half_bp": ("bp", "half"), "shallow": ("bp", "none"),
}  # fmt: skip
BASELINES: dict[Who, dict[BaselineName, Arm]] = {
    "subject": BY_TASK | {"frozen": ("subject", "frozen"), "half": ("subject", "half")},
    "bp": BY_TASK | {"frozen": ("bp", "frozen"), "half": ("bp", "half")},
    "random": BY_TASK | {"frozen": ("subject", "frozen")},
}
Notes = list[tuple[int | None, str]]  # each with the seed that it is about


@dataclass(frozen=True)
class Loop:
    """The trainings of one audit of a loop."""

    setting: LoopSetting
    records: Sequence[LoopTraining]
    choices: Mapping[Arm, Choice] = field(default_factory=dict)  # of the rates that were tried, by arm
    predicted: Mapping[str, Predictions] = field(default_factory=dict)  # by the hash of the training

    def of(self, who: Who, part: Part = "all") -> list[LoopTraining]:
        """Those of one net, by seed in the order that they are trained in."""
        return [record for record in self.records if (record.who, record.part) == (who, part)]

    def hits(self, record: LoopTraining) -> bytes | None:
        """Which test samples a training got right; None where that was not recorded, or is not here."""
        return found.hits if (found := self.predicted.get(record.hash())) else None

    @property
    def failed(self) -> list[LoopTraining]:
        """Those that did not come to an end, or are no baseline."""
        return [record for record in self.records if record.status in ("failed", "not frozen")]

    def subjects(self, alone: bool = True) -> list[Subject]:
        """The subject and the controls. `alone`: no other subjects are judged with them, which may have their names."""
        inits = [Training(seed=r.seed, moments=r.moments) for r in self.of("init") if r.moments]
        names: dict[Literal["bp", "random", ""], str] = {"": self.setting.name, "bp": "bp", "random": NOISE}
        found = []
        for control, name in names.items():
            if self.of(who := control or "subject"):
                title = name if alone or not control else f"{name} of {self.setting.name}"
                found.append(Subject(
                    title, self.evidence(who, name), control=control, setting=self.setting.hash(),
                    setting_name=self.setting.name, inits=inits,
                ))  # fmt: skip
        return found

    def evidence(self, who: Who, name: str) -> Evidence:
        """What the trainings say of the subject, or of a control."""
        setting, doubts, notes = self.setting, list(self.setting.doubts), Notes()
        seeds = self._seeds(who, doubts, notes)
        baselines: dict[BaselineName, Baseline] = {}
        for key, (whose, part) in BASELINES[who].items():
            if not self.of(whose, part) or (key in ("half", "half_bp") and len(setting.blocks) == 1):
                continue
            baselines[key] = self._baseline(key, whose, part, notes)
            ends = [twin.weights for twin in self.of(whose, part) if twin.weights]
            if len(set(ends)) < len(ends) and not doubts:
                doubts.append(broken("same-records", f"two seeds of the baseline {key} end with the same weights"))
        labels = {found.labels for found in self.predicted.values()}
        if len(labels) > 1:
            doubts.append(broken("same-data", "its trainings have predictions of test samples with other labels"))
        effort = None
        if (who, "all") in self.choices:
            arms: dict[str, Arm] = {"subject": (who, "all"), **{str(key): BASELINES[who][key] for key in baselines}}
            tuned = {key: (self.of(*arm)[0].lr, self.choices.get(arm)) for key, arm in arms.items()}
            effort = effort_of(tuned, [t.seed for t in seeds if t.seed is not None])
        return Evidence(
            name=name, depth=len(setting.blocks), residual=setting.residual, seeds=seeds, baselines=baselines,
            effort=effort, chance=most_frequent(next(iter(labels))) if labels else None,
            notes=_by_text(notes, len(seeds)), doubts=doubts,
        )  # fmt: skip

    def _seeds(self, who: Who, doubts: list[str], notes: Notes) -> list[Training]:
        """The trainings of a subject, no copy twice."""
        seeds: list[Training] = []
        owners: dict[str, int] = {}
        for record in self.of(who):
            if record.weights and record.weights in owners:
                both = f"seeds {owners[record.weights]} and {record.seed}"
                doubts.append(broken("same-records", f"{both} end with the same weights, so they are one training"))
                continue
            owners[record.weights] = record.seed
            standing, why = record.standing, record.standing_why
            if who == "subject" and self.setting.credits == "backward" and standing is None:
                standing, why = "in part", "whether the backward pass that was measured trained the net is not recorded"
            seeds.append(Training(
                seed=record.seed, moments=credited(record.moments, standing), hits=self.hits(record),
                ended=record.status if record.status in ("finished", "diverged") else "stopped",
                predicted=record.predictions is not None, standing=standing, standing_why=why,
            ))  # fmt: skip
            notes += [(record.seed, note) for note in record.notes]
            notes += [(record.seed, f"the training {record.status}: {record.why}")] if record.why else []
        starts = [record.init for record in self.of(who) if record.init]
        if len(starts) > 1 and len(set(starts)) == 1:
            notes.append((None, "every seed starts with the same weights, so the spread over seeds is only the loop's"))
        return seeds

    def _baseline(self, key: BaselineName, whose: Who, part: Part, notes: Notes) -> Baseline:
        """The accuracies of a baseline; None, with a note, where a training is none."""
        twins = self.of(whose, part)
        # It begins as the net that it is a baseline of; one without blocks begins with other weights.
        starts = {record.seed: record.init for record in self.of(whose)} if part not in ("none", "all") else {}
        accuracy: dict[int, float | None] = {}
        for twin in twins:
            why = ""
            if twin.status != "finished":
                why = twin.why or twin.status
            elif starts.get(twin.seed, twin.init) != twin.init:
                why = ("it began with other weights than the net that it is a baseline of. make_model(seed) must build "
                       "the same untrained net each time that it is called")  # fmt: skip
            if why:
                notes.append((twin.seed, f"the baseline {key} is not used: {why}"))
            elif part != "all":
                notes += [(twin.seed, f"baseline {key}: {note}") for note in twin.notes]
            accuracy[twin.seed] = None if why else twin.accuracy
        if len({twin.source for twin in twins}) > 1:
            accuracy = dict.fromkeys(accuracy)
            words = f"the baseline {key} is not used: its seeds are by different make_shallow. Give the same call again"
            notes.append((None, words))
        right = {str(twin.seed): self.hits(twin) for twin in twins if twin.predictions is not None}
        return Baseline.by_seed(accuracy).changed(hits=right)


def _by_text(notes: Notes, count: int) -> list[str]:
    """Each note once, with its seeds in front; one of all seeds, if there are several, without them."""
    seeds: dict[str, list[int | None]] = {}
    for seed, text in notes:
        seeds.setdefault(text, []).append(seed)
    found = []
    for text, given in seeds.items():
        known = list(dict.fromkeys(seed for seed in given if seed is not None))
        every = not known or 1 < count <= len(known)
        found.append(text if every else f"seed{'s' * (len(known) > 1)} {', '.join(map(str, known))}: {text}")
    return found


def read_loops(paths: Iterable[Path]) -> list[Loop]:
    """The trainings of these folders, one loop per setting, in the order of their seeds."""
    paths = list(paths)
    trials = sorted({place for path in paths if (place := path.parent / TRIALS).is_dir()})  # they lie beside the others
    tried = [read_loop_training(path)[0] for path in find_loop_trainings(*trials)]
    groups: dict[str, list[tuple[LoopTraining, Predictions | None]]] = {}
    for path in paths:
        record, predicted = read_loop_training(path)
        groups.setdefault(record.setting.hash(), []).append((record, predicted))
    found = []
    for trainings in groups.values():
        setting = trainings[0][0].setting
        choices = own_choices(r for r in tried if r.setting == setting)
        records = sorted((record for record, _ in trainings), key=lambda r: r.seed)
        records = [r for r in records if (choice := choices.get((r.who, r.part))) is None or choice.lr in (None, r.lr)]
        count = Counter(f"{r.who} {r.part} {r.seed}" for r in records)
        for twice in (name for name in count if count[name] > 1):
            raise RecordError(f"the training {twice} is there twice", AGAIN)
        if records:
            found.append(Loop(setting, records, choices, {r.hash(): p for r, p in trainings if p is not None}))
    return found


def own_choices(trials: Iterable[LoopTraining]) -> dict[Arm, Choice]:
    """What the trials of each net of a loop say: the best accuracy on the samples that are for it."""
    found: dict[Arm, dict[float, LoopTraining]] = {}
    for record in trials:
        if record.held_out is not None and record.lr is not None and record.seed == TRIAL_SEED:
            found.setdefault((record.who, record.part), {})[record.lr] = record
    choices = {}
    for arm, by_rate in found.items():
        known = {lr: r.accuracy for lr, r in by_rate.items() if r.status == "finished" and r.accuracy is not None}
        choices[arm] = Choice(known, [lr for lr in by_rate if lr not in known], [], frozenset({(TRIAL_SEED, 0.0)}))
    return choices
