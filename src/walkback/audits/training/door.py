"""The third door: somebody's own loop, trained here with its baselines and controls, and judged."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from walkback.audits import adaptive_seeds
from walkback.audits.samples import one_sided, too_few
from walkback.audits.spine import audit_subjects
from walkback.audits.training.folder import check_folder, only_writer
from walkback.audits.training.job import Batches, Job, Make, Train, Wanted, fingerprint_of, overlap
from walkback.audits.training.one import SETTLED, Unusable, failed_record, made, parameters_of, shapes_of
from walkback.audits.training.plain import RATE, MakeOptimizer, epoch_of, repeatable
from walkback.audits.training.pool import Tally, TrainingEnd, here_as_before, sendable, train_all
from walkback.audits.training.rates import ONE, check_rate, choices_of, rate_of, trials_left, tune
from walkback.audits.training.source import fingerprint
from walkback.checks import DEFAULT, Audit, Protocol, Thresholds
from walkback.checks.looks import USUAL_MOST, looks_up_to
from walkback.errors import BadValue, WalkbackError
from walkback.probes.blame import own_line
from walkback.probes.blocks import find_blocks
from walkback.probes.inputs import gather
from walkback.probes.modules import CreditFunction, PerSampleLoss, on_tensors
from walkback.probes.outputs import Asked as Output
from walkback.probes.redrawn import Redraw
from walkback.probes.task import Metric, settle
from walkback.records import doubts_of
from walkback.records.loop_training import (
    NOISE,
    Loop,
    LoopSetting,
    LoopTraining,
    Part,
    Who,
    find_loop_trainings,
    label_of,
    read_loop_training,
    read_loops,
    write_training,
)
from walkback.report.numbers import duration
from walkback.train import seed_list
from walkback.train.crew import cores

TEST_SAMPLES, PROBED = 20_000, 512
PARTS: Sequence[tuple[Who, Part]] = (
    ("subject", "all"), ("bp", "all"), ("subject", "frozen"), ("bp", "none"), ("bp", "frozen"), ("random", "all"),
    ("subject", "half"), ("bp", "half"),
)  # fmt: skip
NO_REFERENCE = (
    "No bp reference can be trained, because neither train_bp nor train_batches is given. So accuracy and the lower "
    "half stay open, and the audit is invalid. Γ is judged."
)


def audit_training(
    make_model: Make,
    train: Train,
    test: Any,
    blocks: str | Sequence[str] = "blocks.*",
    *,
    train_bp: Train | None = None,
    make_bp_model: Make | None = None,
    make_shallow: Make | None = None,
    train_batches: Any = None,
    optimizer: MakeOptimizer | None = None,
    epochs: int = 10,
    seeds: int | Sequence[int] | Literal["auto"] = "auto",
    max_seeds: int | None = None,
    out: Path | str = "runs/mine",
    residual: bool | None = None,
    credits: CreditFunction | Literal["backward"] | None = None,
    redraw: Redraw | None = None,
    name: str = "your training",
    reach: bool = True,
    reduction: str = "auto",
    loss: PerSampleLoss | None = None,
    output: Output = None,
    metric: Metric | None = None,
    max_samples: int | None = TEST_SAMPLES,
    jobs: int | None = None,
    thresholds: Thresholds = DEFAULT,
    protocol: Protocol = "ours",
    say: Callable[[str], object] | None = lambda line: print(line, file=sys.stderr, flush=True),
    files: Sequence[str] = (),
    validation: Any = None,
    lr: float | None = None,
) -> Audit:
    """Train your model by your own loop, with its baselines and controls, and judge it: all three answers in one call.

    make_model   seed → the untrained nn.Module, the same for the same seed
    train        (model, seed) → None: your loop; it trains the model that it is given
    test         batches (inputs, labels) that are not trained on, as for `wb.audit`; or a function that returns them
    blocks       a wildcard over module names, or a list of names, from the input to the output
    train_bp     the same by backprop. Not given, a plain loop trains on `train_batches` (batches, or a function
                 seed → batches, gone through once per epoch) for `epochs` with `optimizer` (a function of a list of
                 parameters; Adam with a rate of 0.001)
    make_bp_model   the same net for backprop, for models whose own backward pass is overridden
    make_shallow   seed → the same net without its blocks, which backprop trains too; not given, blocks whose output
                 has the shape of their input are replaced by nn.Identity
    seeds        how many, or which; "auto": three, then more while an answer is open, up to `max_seeds` (12)
    out          a folder for the trained models and their records. The same call continues what was interrupted
    reach        False: the upper halves are not trained (two of eight trainings per seed), the lower half stays open
    max_samples  the accuracy is taken on so many test samples at most (None: all), everything else on the first 512
    jobs         processes at once (one per core), if your functions are in a file that can be imported
    say          is given progress as lines; None: nothing is said
    files        files to import in every process, for functions in modules that have no importable name
    validation   batches that are neither trained on nor tested on. With them, and a `train` that takes (model, seed,
                 lr), every net is tried at several learning rates first and trained at the best of its own; so is bp,
                 if train_bp or optimizer takes lr too
    lr           one learning rate for all, for a `train` that takes it

    residual, credits, redraw, reduction, loss, output and metric are as for `wb.audit`. Per seed are trained: your
    model; the same with its blocks frozen, and with the lower half of them frozen; these three by backprop; the net
    without its blocks by backprop; and yours with noise for credit.
    """
    talk = say or (lambda _: None)
    looks = _looks(seeds, max_seeds)
    given = seeds if not isinstance(seeds, str) else looks[0]
    fixed = None if looks or isinstance(given, int) else [*dict.fromkeys(_whole(given))]
    count = given if isinstance(given, int) else len(given)
    job = _job(
        make_model, train, test, blocks, (fixed or seed_list(max(count, 1)))[0], max_samples, name,
        make_bp_model=make_bp_model, make_shallow=make_shallow, train_bp=train_bp,
        train_batches=repeatable(train_batches), optimizer=optimizer, epochs=epochs, credits=credits, redraw=redraw,
        reduction=reduction, loss=loss, output=output, metric=metric, residual=residual, files=tuple(files),
        validation=validation, lr=lr,
    )  # fmt: skip
    if few := too_few(job.batches, thresholds["depth.margin"]):
        raise BadValue(f"test cannot show what is asked: {few}", "give more test samples")
    folder = Path(out)
    with only_writer(folder):
        check_folder(folder, job.setting)
        trainings = _Trainings(job, folder, jobs, reach, fixed, talk)
        counts = dict.fromkeys(("subject", "bp", "random"), count)
        if job.setting.bp is None:
            talk(NO_REFERENCE)
            counts.pop("bp")
        if job.takes_rate("subject") and job.validation is None and lr is None:
            talk(ONE)
        talk(trainings.coming(counts))
        trainings.tune(counts)
        limits = adaptive_seeds.planned(folder, looks, count, thresholds, {})

        def judged(counts: Mapping[str, int]) -> Audit:
            return audit_subjects(trainings.carry_out(counts).subjects(), limits, protocol)

        audit = adaptive_seeds.settle(judged, counts, {"subject": job.setting.name}, looks, talk)
        audit.write(folder)
        failed = [f"{record.label()}: {record.why}" for record in trainings.read().failed]
        problems = [*dict.fromkeys([*failed, *doubts_of(audit.evidence)])]
        return audit.with_records(folder=folder, problems=problems, source=[str(folder)])


def _looks(seeds: Any, max_seeds: int | None) -> tuple[int, ...]:
    if isinstance(seeds, str):
        if seeds != "auto":
            raise BadValue(f"seeds={seeds!r} is not known", 'give a number, a list of seeds, or "auto"')
        return looks_up_to(USUAL_MOST if max_seeds is None else max_seeds)
    if max_seeds is not None:
        raise BadValue("max_seeds has no effect with a fixed number of seeds", "leave it out")
    if isinstance(seeds, int) and (isinstance(seeds, bool) or seeds < 1):
        raise BadValue(f"{seeds} seeds cannot be trained", "ask for at least 1")
    if not isinstance(seeds, int) and not list(seeds):
        raise BadValue("no seed is given", "give at least one")
    return ()


def _whole(seeds: Sequence[Any]) -> list[int]:
    if not all(isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**63 for seed in seeds):
        raise BadValue(f"seeds must be whole numbers from 0; got {list(seeds)!r}", "as in seeds=[42, 7]")
    return list(seeds)


def _job(
    make_model: Make, train: Train, test: Any, blocks: str | Sequence[str], seed: int, max_samples: int | None,
    name: str, **more: Any,
) -> Job:  # fmt: skip
    """The user's functions, tried once: a net is built, the test batches are read, and the setting is settled."""
    functions = {"make_model": make_model, "train": train, "train_bp": more["train_bp"],
                 "make_bp_model": more["make_bp_model"], "optimizer": more["optimizer"], "redraw": more["redraw"],
                 "loss": more["loss"], "metric": more["metric"]}  # fmt: skip
    make_shallow = more["make_shallow"]
    for argument, function in (functions | {"make_shallow": make_shallow}).items():
        needed = argument in ("make_model", "train")
        if not callable(function) and (needed or function is not None):
            raise BadValue(f"{argument} is a {type(function).__name__}, not a function", f"give a function {argument}")
    credits = more["credits"]
    if credits is not None and credits != "backward" and not callable(credits):
        raise BadValue(f"credits={credits!r} is not known", 'give a function, or credits="backward"')
    if name in ("bp", NOISE) or not 0 < len(name) <= 200:
        raise BadValue(f"name={name!r}: bp and random are the names of the controls", "give another name")
    if not isinstance(more["epochs"], int) or more["epochs"] < 1:
        raise BadValue(f"epochs={more['epochs']!r}", "give a whole number of at least 1")
    residual, validation, lr = more.pop("residual"), more.pop("validation", None), more.pop("lr", None)
    bp: Any = "your own loop" if more["train_bp"] is not None else None
    recipe = ""
    if bp is None and more["train_batches"] is not None:
        own = "your optimizer" if more["optimizer"] is not None else f"Adam with a rate of {RATE:g}"
        bp, recipe = "a plain loop of ours", f"{own}, {more['epochs']} epochs"
    setting = LoopSetting(
        name=name, blocks=[], residual=None if residual is None else bool(residual), sources={}, parameters="", bp=bp,
        recipe=recipe, test="", samples=0, probed=0, loss="your own",
        metric=None if more["metric"] is None else getattr(more["metric"], "__name__", "metric"),
        credits=None if credits is None else "backward" if credits == "backward" else "your function", doubts=[],
        lr=float(lr) if isinstance(lr, int | float) else lr,
    )  # fmt: skip
    with here_as_before():
        trial = made(Job(make_model, train, setting, [], [], **more), Wanted("init", "all", seed))
        found = [*find_blocks(trial, blocks)]
        parameters_of(trial, found)
        whole, probed = _test(test, trial, max_samples, more["loss"] is not None)
        task = settle(trial, whole, more["output"], more["loss"])
        if alone := one_sided(task.batches, None if more["metric"] else task.classes, False):
            raise BadValue(f"test cannot show what is asked: {alone}", "give test samples of every class")
        choosing = None if validation is None else _chosen_by(validation, trial, whole, more["loss"] is not None)
        doubts = _overlap(whole, more["train_batches"], trial, seed, more["loss"] is not None)
    sources = {key: fingerprint(value) for key, value in (functions | {"credits": credits, "output": more["output"],
               "train_batches": more["train_batches"]}).items() if callable(value)}  # fmt: skip
    setting = setting.changed(
        blocks=found, sources=sources, parameters=shapes_of(trial), test=fingerprint_of(whole),
        samples=sum(len(y) for _, y in whole), probed=sum(len(y) for _, y in probed), doubts=doubts,
        loss="your own" if more["loss"] is not None else "cross-entropy per place" if task.dense else "cross-entropy",
        validation=None if choosing is None else fingerprint_of(choosing),
    )  # fmt: skip
    # Another make_shallow is another shallow net, and no other audit: all other trainings stay what they are.
    more["shallow_source"] = None if make_shallow is None else fingerprint(make_shallow)
    job = Job(make_model, train, setting, whole, probed, validation=choosing, **more)
    check_rate(job, lr)
    return job


def _chosen_by(validation: Any, model: nn.Module, test: Batches, own_loss: bool) -> Batches:
    """The samples by which learning rates are chosen; none of them may be in test."""
    whole, _ = _test(validation, model, None, own_loss, "validation")
    both = overlap(whole, test)
    if both:
        raise BadValue(
            f"{both} samples of validation are also in test, by which no learning rate may be chosen",
            "hold validation out of what train trains on",
        )
    return whole


def _test(test: Any, model: nn.Module, most: int | None, own_loss: bool, name: str = "test") -> tuple[Batches, Batches]:
    """The test samples, and the first of them, which are probed."""
    try:
        batches = test() if callable(test) and not hasattr(test, "__iter__") else test
        # Copies: a loop that changes its test samples in place must not change what is measured.
        whole = [(on_tensors(x, Tensor.clone), y.clone()) for x, y in gather(batches, model, most, own_loss).batches]
    except WalkbackError as error:
        if "no samples" not in error.what:
            raise
        raise BadValue(
            f"{name} has no samples: it is empty, or an exhausted iterator",
            "give a list of batches, a DataLoader, or a function that returns them",
        ) from error
    except Exception as error:
        raise BadValue(f"{name} could not be read: {own_line(error)}", "fix it") from error
    return whole, gather(whole, model, PROBED, own_loss).batches


def _overlap(test: Batches, train_batches: Any, model: nn.Module, seed: int, own_loss: bool) -> list[str]:
    if train_batches is None:
        return []
    try:
        train = gather(epoch_of(train_batches, seed), model, 200_000, own_loss).batches
    except WalkbackError:
        raise
    except Exception as error:
        raise BadValue(f"train_batches could not be read: {own_line(error)}", "fix it") from error
    both, samples = overlap(test, train), sum(len(y) for _, y in test)
    words = f"{both} of {samples} test samples are also in train_batches, so that accuracy is not of unseen samples"
    return [words] if both else []


class _Trainings:
    """Trains what is missing, and reads all that was trained."""

    def __init__(
        self, job: Job, folder: Path, jobs: int | None, reach: bool, fixed: list[int] | None,
        say: Callable[[str], object],
    ):  # fmt: skip
        if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
            raise BadValue(f"{jobs} jobs cannot train anything", "give jobs=1 or more")
        self.job, self.folder, self.say, self.fixed = job, folder, say, fixed
        self.jobs = cores() if jobs is None else jobs
        self.parts = [each for each in PARTS if each[1] != "half" or (reach and len(job.setting.blocks) > 1)]
        if self.jobs > 1:
            content, why = sendable(job)
            if content is None:
                self.jobs = 1
                say(f"Trained one after the other: {why}. In a file, `walkback audit FILE` uses every core.")
        self.tried: set[Wanted] = set()
        self.choices = choices_of(job, folder)
        self.progress = Tally(say, self.jobs)

    def tune(self, counts: Mapping[str, int]) -> None:
        """Choose the learning rates, where they can be chosen."""

        def train(trials: Sequence[Wanted]) -> None:
            self.progress.expect(len(trials))
            if trials:
                train_all(self.job, trials, self.folder, self.jobs, self._note)

        self.choices = tune(self.job, self._arms(counts), self.folder, train)
        if self.choices:
            words = (f"{label_of(*arm, 0).partition(', ')[0]} {c.words()}" for arm, c in self.choices.items())
            self.say(f"Learning rates: {'; '.join(words)}.")

    def coming(self, counts: Mapping[str, int]) -> str:
        """What is left to train, in a line; with the minutes, once some trainings show how long one takes."""
        done = self._done()
        runs, trials = self._missing(self._wanted(counts), done), trials_left(self.job, self._arms(counts), self.folder)
        left, known = len(runs) + len(trials), [record.seconds for record in done if record.who != "init"]
        pace = f", about {duration(left * sum(known) / len(known) / min(self.jobs, left))}" if known and left else ""
        return f"To train: {f'{len(trials)} trials of learning rates and ' * bool(trials)}{len(runs)} trainings{pace}."

    def _arms(self, counts: Mapping[str, int]) -> list[tuple[Who, Part]]:
        return [(who, part) for who, part in self.parts if who in counts]

    def _missing(self, wanted: Sequence[Wanted], done: Sequence[LoopTraining]) -> list[Wanted]:
        present = {
            (r.who, r.part, r.seed, r.lr) for r in done
            if r.status in SETTLED and r.held_out is None
            and (r.part != "none" or r.source == self.job.shallow_source)
        }  # fmt: skip
        return [w for w in wanted if (w.who, w.part, w.seed, w.lr) not in present and w not in self.tried]

    def carry_out(self, counts: Mapping[str, int]) -> Loop:
        """Train what these numbers of seeds still need."""
        missing = self._missing(self._wanted(counts), self._done())
        self.tried |= {*missing}  # what failed is tried again by the next call, not at every look
        self.progress.expect(len(missing))
        if missing:
            train_all(self.job, missing, self.folder, self.jobs, self._note)
        loop = self.read()
        if not any(record.status != "failed" for record in loop.of("subject")):
            first = loop.of("subject")[0]
            raise WalkbackError(
                f"no training of the subject finished; {first.label()}: {first.why}",
                "fix the cause and give the same call again; finished trainings are kept",
            )
        return loop

    def read(self) -> Loop:
        """All that is in the folder."""
        return read_loops(find_loop_trainings(self.folder))[0]

    def _done(self) -> list[LoopTraining]:
        return [read_loop_training(path)[0] for path in find_loop_trainings(self.folder)]

    def _wanted(self, counts: Mapping[str, int]) -> list[Wanted]:
        seeds = {who: self.fixed or seed_list(n) for who, n in counts.items()}
        most = max(seeds.values(), key=len)
        found = [
            Wanted(who, part, seed) for seed in most for who, part in self.parts if seed in seeds.get(who, [])
        ]  # fmt: skip
        found = [w._replace(lr=rate_of(self.job, (w.who, w.part), self.choices)) for w in found]
        return [*dict.fromkeys([found[0], Wanted("init", "all", most[0]), *found])]

    def _note(self, outcome: TrainingEnd) -> None:
        record = outcome.record
        if record is None:
            record = failed_record(self.job, outcome.wanted, outcome.why)
            write_training(self.folder, record, None)
        self.progress.note(outcome._replace(record=record))
        if (record.who, record.part, record.status) == ("subject", "all", "failed"):
            for mark, remedy in UNUSABLE.items():
                if mark in record.why:
                    raise Unusable(f"{record.label()}: {record.why}", remedy)


UNUSABLE = {
    "returned a new model": "train the model that train is given: copy the weights into it with model.load_state_dict "
    "at the end",
    "it trains nothing": "let train change the parameters of the model that it is given, in place",
    "changes the net": "build the net in make_model, and let train change its weights only",
}
