"""Somebody's own loop, trained here with its baselines and controls, and judged: what `wb.audit_training` does."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from walkback.audits import adaptive_seeds
from walkback.audits.given_models import one_sided, too_few
from walkback.audits.spine import audit_subjects
from walkback.checks import DEFAULT, Audit, Protocol, Thresholds
from walkback.checks.sequential import USUAL_MOST, looks_up_to
from walkback.errors import BadValue, WalkbackError
from walkback.loops.fingerprints import Batches, fingerprint, fingerprint_of, overlap
from walkback.loops.job import RATE, Job, Make, MakeOptimizer, Train, Wanted, epoch_of, optimizer_of, repeatable
from walkback.loops.one_training import made, parameters_of, shapes_of
from walkback.loops.scorer import ModelScorer
from walkback.loops.trainings import Trainings, check_folder, here_as_before
from walkback.probes.detect_task import Metric, settle
from walkback.probes.inputs import gather, on_tensors
from walkback.probes.look import CreditFunction
from walkback.probes.null import Redraw
from walkback.probes.outputs import Asked as Output
from walkback.probes.outputs import PerSampleLoss
from walkback.probes.unwrap import find_blocks
from walkback.probes.user_errors import own_line
from walkback.records import doubts_of
from walkback.records.loop_training import NOISE, LoopSetting
from walkback.train import seed_list

TEST_SAMPLES, PROBED = 20_000, 512
NO_REFERENCE = (
    "No bp reference can be trained, because neither train_bp nor train_batches is given. So accuracy and the lower "
    "half stay open, and the audit is invalid. Γ is judged."
)
ONE_RATE = (
    "train takes lr, and no samples are given to choose it by, so every net trains at the loop's own rate. Give "
    "validation, batches that are neither trained on nor tested on, or fix it with lr."
)
FUNCTIONS = ("make_model", "train", "train_bp", "make_bp_model", "optimizer", "redraw", "loss", "metric")


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
    looks, count, fixed = _seeds(seeds, max_seeds)
    job = find_job(
        test, blocks, name, residual, (fixed or seed_list(count))[0], max_samples, validation, lr,
        make_model=make_model, train=train, make_bp_model=make_bp_model, make_shallow=make_shallow, train_bp=train_bp,
        train_batches=repeatable(train_batches), optimizer=optimizer, epochs=epochs, credits=credits, redraw=redraw,
        reduction=reduction, loss=loss, output=output, metric=metric, files=tuple(files),
    )  # fmt: skip
    if few := too_few(job.batches, thresholds["depth.margin"]):
        raise BadValue(f"test cannot show what is asked: {few}", "give more test samples")
    folder = Path(out)
    with Trainings(job, folder, jobs, reach, fixed, talk) as trainings, trainings.crew:
        check_folder(folder, job.setting)
        counts = dict.fromkeys(("subject", "bp", "random"), count)
        if job.setting.bp is None:
            talk(NO_REFERENCE)
            counts.pop("bp")
        if job.takes_rate("subject") and job.validation is None and lr is None:
            talk(ONE_RATE)
        talk(trainings.coming(counts))
        trainings.tune(counts)
        limits = adaptive_seeds.planned(folder, looks, count, thresholds, {})

        def judged(counts: Mapping[str, int]) -> tuple[Audit, Mapping[str, str]]:
            subjects = trainings.carry_out(counts).subjects()
            return audit_subjects(subjects, limits, protocol), {"subject": subjects[0].name}

        audit = adaptive_seeds.settle(judged, counts, looks, talk)
        audit.write(folder)
        failed = [f"{record.label()}: {record.why}" for record in trainings.read().failed]
        problems = [*dict.fromkeys([*failed, *doubts_of(audit.evidence)])]
        return audit.with_records(folder=folder, problems=problems, source=[str(folder)])


def _seeds(seeds: Any, max_seeds: int | None) -> tuple[tuple[int, ...], int, list[int] | None]:
    """The numbers of seeds at which it looks (none: they are fixed), with how many it begins, and which where given."""
    if isinstance(seeds, str) and seeds == "auto":
        looks = looks_up_to(USUAL_MOST if max_seeds is None else max_seeds)
        return looks, looks[0], None
    seeds = seeds.tolist() if hasattr(seeds, "tolist") else seeds  # numpy's numbers and arrays
    if isinstance(seeds, str) or not isinstance(seeds, int | Iterable):
        raise BadValue(f"seeds={seeds!r} is not known", 'give a number, a list of seeds, or "auto"')
    if max_seeds is not None:
        raise BadValue("max_seeds has no effect with a fixed number of seeds", "leave it out")
    if isinstance(seeds, int):
        if isinstance(seeds, bool) or seeds < 1:
            raise BadValue(f"{seeds} seeds cannot be trained", "ask for at least 1")
        return (), seeds, None
    listed = [*dict.fromkeys(seeds)]
    if not listed:
        raise BadValue("no seed is given", "give at least one")
    if not all(isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**63 for seed in listed):
        raise BadValue(f"seeds must be whole numbers from 0; got {listed!r}", "as in seeds=[42, 7]")
    return (), len(listed), listed


def find_job(
    test: Any, blocks: str | Sequence[str], name: str, residual: bool | None, seed: int, max_samples: int | None,
    validation: Any = None, lr: float | None = None, **given: Any,
) -> Job:  # fmt: skip
    """The user's functions, tried once: a net is built, the test batches are read, and the setting is settled.

    given   what a `Job` has of the user, by name; make_model and train at least
    """
    first = Job(setting=_setting(given, name, residual, lr), **given)
    own_loss = first.loss is not None
    with here_as_before():
        trial = made(first, Wanted("init", "all", seed))
        found = [*find_blocks(trial, blocks)]
        parameters_of(trial, found)
        whole, probed = _test(test, trial, max_samples, own_loss)
        task = settle(trial, whole, first.output, first.loss)
        if alone := one_sided(task.batches, None if first.metric else task.classes, False):
            raise BadValue(f"test cannot show what is asked: {alone}", "give test samples of every class")
        choosing = None if validation is None else _test(validation, trial, None, own_loss, "validation")[0]
        if choosing is not None and (both := overlap(choosing, whole)):
            raise BadValue(
                f"{both} samples of validation are also in test, by which no learning rate may be chosen",
                "hold validation out of what train trains on",
            )
        doubts = _overlap(whole, first.train_batches, trial, seed, own_loss)
    hashed = (*FUNCTIONS, "credits", "output", "train_batches")
    setting = first.setting.changed(
        blocks=found, sources={key: fingerprint(given[key]) for key in hashed if callable(given.get(key))},
        parameters=shapes_of(trial), test=fingerprint_of(whole), samples=sum(len(y) for _, y in whole),
        probed=sum(len(y) for _, y in probed), doubts=doubts,
        loss="your own" if own_loss else "cross-entropy per place" if task.dense else "cross-entropy",
        validation=None if choosing is None else fingerprint_of(choosing),
    )  # fmt: skip
    # Another make_shallow is another shallow net, and no other audit: all other trainings stay what they are.
    source = None if first.make_shallow is None else fingerprint(first.make_shallow)
    job = replace(first, setting=setting, batches=whole, probed=probed, validation=choosing, shallow_source=source)
    job.check_rate(lr)
    with here_as_before():
        ModelScorer(job, trial).begun(trial)  # refuses blocks in another order than they are called
        if setting.bp == "a plain loop of ours":
            optimizer_of(job, trial, **({"lr": lr or RATE} if job.takes_rate("bp") and (lr or job.can_choose) else {}))
    return job


def _setting(given: Mapping[str, Any], name: str, residual: bool | None, lr: float | None) -> LoopSetting:
    """What the arguments alone say of the setting; they are checked."""
    for argument in (*FUNCTIONS, "make_shallow"):
        function, needed = given.get(argument), argument in ("make_model", "train")
        if not callable(function) and (needed or function is not None):
            raise BadValue(f"{argument} is a {type(function).__name__}, not a function", f"give a function {argument}")
    credits, epochs, metric = given.get("credits"), given.get("epochs", 10), given.get("metric")
    if credits is not None and credits != "backward" and not callable(credits):
        raise BadValue(f"credits={credits!r} is not known", 'give a function, or credits="backward"')
    if name in ("bp", NOISE) or not 0 < len(name) <= 200:
        raise BadValue(f"name={name!r}: bp and random are the names of the controls", "give another name")
    if not isinstance(epochs, int) or epochs < 1:
        raise BadValue(f"epochs={epochs!r}", "give a whole number of at least 1")
    bp: Any = "your own loop" if given.get("train_bp") is not None else None
    recipe = ""
    if bp is None and given.get("train_batches") is not None:
        own = "your optimizer" if given.get("optimizer") is not None else f"Adam with a rate of {RATE:g}"
        bp, recipe = "a plain loop of ours", f"{own}, {epochs} epochs"
    return LoopSetting(
        name=name, blocks=[], residual=None if residual is None else bool(residual), sources={}, parameters="", bp=bp,
        recipe=recipe, test="", samples=0, probed=0, loss="your own",
        metric=None if metric is None else getattr(metric, "__name__", "metric"),
        credits=None if credits is None else "backward" if credits == "backward" else "your function", doubts=[],
        lr=float(lr) if isinstance(lr, int | float) else lr,
    )  # fmt: skip


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """An error of the user's own batches names the line where it is."""
    try:
        yield
    except WalkbackError as error:
        if "no samples" not in error.what:
            raise
        raise BadValue(
            f"{name} has no samples: it is empty, or an exhausted iterator",
            "give a list of batches, a DataLoader, or a function that returns them",
        ) from error
    except Exception as error:
        raise BadValue(f"{name} could not be read: {own_line(error)}", "fix it") from error


def _test(test: Any, model: nn.Module, most: int | None, own_loss: bool, name: str = "test") -> tuple[Batches, Batches]:
    """The test samples, and the first of them, which are probed."""
    with _readable(name):
        batches = test() if callable(test) and not hasattr(test, "__iter__") else test
        # Copies: a loop that changes its test samples in place must not change what is measured.
        whole = [(on_tensors(x, Tensor.clone), y.clone()) for x, y in gather(batches, model, most, own_loss).batches]
    return whole, gather(whole, model, PROBED, own_loss).batches


def _overlap(test: Batches, train_batches: Any, model: nn.Module, seed: int, own_loss: bool) -> list[str]:
    if train_batches is None:
        return []
    with _readable("train_batches"):
        train = gather(epoch_of(train_batches, seed), model, 200_000, own_loss).batches
    both, samples = overlap(test, train), sum(len(y) for _, y in test)
    words = f"{both} of {samples} test samples are also in train_batches, so that accuracy is not of unseen samples"
    return [words] if both else []
