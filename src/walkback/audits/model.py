"""The second door: somebody's own trained nn.Module, looked into through its named blocks."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from walkback.audits.given_models import doubts, one_sided, repeated, same_weights, too_few
from walkback.audits.spine import audit_subjects
from walkback.checks import DEFAULT, Audit, Protocol, Thresholds
from walkback.checks.finding import by_text, points
from walkback.errors import BadValue
from walkback.loops.model_measured import BACKWARD, at_init, guarded, measured, name_of, scored
from walkback.loops.true_gradient import Asked
from walkback.probes import Look
from walkback.probes.detect_task import Metric, Task, settle
from walkback.probes.forward_switches import uncompiled
from walkback.probes.inputs import MAX_SAMPLES, gather
from walkback.probes.null import Redraw
from walkback.probes.outputs import Asked as Output
from walkback.probes.outputs import PerSampleLoss
from walkback.probes.preserve import undisturbed
from walkback.probes.unwrap import unwrapped
from walkback.records import Baseline, BaselineName, Evidence, Moment, Subject, Training
from walkback.records.moment import Standing
from walkback.records.predictions import MOST_CLASSES, most_frequent

Credits = Callable[[nn.Module, Any, Tensor], Sequence[Tensor]]
HALVES: tuple[BaselineName, ...] = ("half", "half_bp")
Accuracies = float | Sequence[float] | Mapping[int, float]
Models = nn.Module | Sequence[nn.Module] | Mapping[int, nn.Module]
ALONE = "No controls were trained: this audit is only as good as what it was given."


def audit(
    model: Models,
    batches: Any,
    blocks: str | Sequence[str],
    *,
    name: str = "your model",
    residual: bool | None = None,
    init: Models | Callable[[int], nn.Module] | None = None,
    credits: Credits | Literal["backward"] | None = None,
    redraw: Redraw | None = None,
    accuracy: Accuracies | None = None,
    frozen: Accuracies | None = None,
    bp: Accuracies | None = None,
    frozen_bp: Accuracies | None = None,
    shallow: Accuracies | None = None,
    half: Accuracies | None = None,
    half_bp: Accuracies | None = None,
    reduction: str = "auto",
    loss: PerSampleLoss | None = None,
    output: Output = None,
    metric: Metric | None = None,
    max_samples: int | None = MAX_SAMPLES,
    describe: bool = True,
    thresholds: Thresholds = DEFAULT,
    protocol: Protocol = "ours",
) -> Audit:
    """Judge a trained model of yours, or one per seed, through its named blocks. Nothing of it is changed.

    model      one model, a list of them (one per seed), or a table {seed: model}
    batches    held-out data, 1,000 samples or so: pairs (inputs, labels), a DataLoader, a Dataset, or one pair
    blocks     a wildcard over module names ("layers.*"), or a list of names, from the input to the output
    residual   whether the blocks add to a stream; if not given, a large growth cannot be judged
    init       the same models at their random init, or a function seed → model; scale needs it where there is no stream
    credits    a function (model, inputs, labels) → a_0 … a_{L−1}, if the model was trained by such; "backward": what
               the model's own backward pass delivers at its blocks, for models that override it
    redraw     a function (model, inputs, labels, draw) → the same with fresh feedback, for a null that is shown; Γ is
               judged against the credits turned by random rotations
    accuracy   test accuracies by seed; by default the accuracy on `batches`
    frozen     … of the same net with its blocks left at init, trained by the same rule
    bp, frozen_bp, shallow   … trained by backprop; with frozen blocks; without blocks. Accuracy can hold by baselines
               that are given by seed, for five seeds or more; by one number for all of them it stays open
    half, half_bp   … with only the upper half of the blocks trained (the last ⌈L/2⌉), by the same rule; by backprop
    describe   whether perturbation correlation and nudging are measured, which are described and not judged
    loss       (output, labels) → one loss per sample; by default cross-entropy, of classes or of one class per token
    output     where in the model's output the logits are: a key, an attribute, an index, or a function
    metric     (output, labels) → a score per sample, or one number for the batch, between 0 and 1 and larger is better
    max_samples   no more than so many are looked at; None: all of them
    """
    if isinstance(credits, str) and credits != BACKWARD:
        raise BadValue(f"credits={credits!r} is not known", 'give a function, or credits="backward"')
    opened = {seed: unwrapped(one) for seed, one in _by_seed(model).items()}
    notes = [(str(seed), note) for seed, (_, found) in opened.items() for note in found]
    models = {seed: inside for seed, (inside, _) in opened.items()}
    same = repeated(models)
    notes += [(str(seed), f"the same model as seed {other}, counted once") for seed, other in same.items()]
    if accuracy is not None and metric is not None:
        raise BadValue("accuracy and metric are both given", "give the scores, or the function that measures them")
    lists: dict[BaselineName, Accuracies | None] = {
        "frozen": frozen, "bp": bp, "frozen_bp": frozen_bp, "shallow": shallow, "half": half, "half_bp": half_bp,
    }  # fmt: skip
    looks: dict[int, Look] = {}
    seeds: list[Training] = []
    begun = _inits(init, list(models))
    given = _accuracies(accuracy, list(models), "accuracy") if accuracy is not None else {}
    labels = [*models, *(seed for seed in given if seed not in models)]
    with undisturbed(), uncompiled(*models.values()):  # a loader that shuffles draws random numbers
        first = next(iter(models.values()))
        gathered = gather(batches, first, max_samples, own_loss=loss is not None)
        task = settle(first, gathered.batches, output, loss)
        useless = "" if task.dense else too_few(task.batches, thresholds["depth.margin"])
        if metric is None and loss is None and not task.dense:
            useless = one_sided(task.batches, task.classes, gathered.stopped) or useless
        compared = any(lists[key] is not None for key in ("frozen", "frozen_bp", "shallow", "half"))
        for seed, one in models.items():
            value = given.pop(seed, None)
            if seed in same:
                continue
            reading, remarks = task.reading(one), list[str]()
            own = guarded(credits, remarks) if callable(credits) else credits
            fresh = None if redraw is None else guarded(redraw, remarks, "redraw")
            asked = Asked(task.batches, blocks, own, fresh, reduction, task.loss, describe, residual)
            with undisturbed(one, whole=True):  # one memory of the weights serves all that follows
                found = measured(reading, asked)
                if accuracy is None:
                    value, more = scored(reading, found.seen, task, metric)
                    value, remarks = (None if useless and compared else value), remarks + more
            looks[seed] = found.seen
            notes += [(str(seed), note) for note in (*found.notes, *remarks)]
            moments = [found.moment.changed(accuracy=value)]
            if seed in begun:
                moments.insert(0, _begun(begun[seed], one, seed, task, asked))
            # Credits in another order are not those that trained: Γ is open, and accuracy is not touched.
            why = "; ".join(found.doubts)
            standing: Standing | None = "in part" if why else None
            seeds.append(Training(seed=seed, moments=moments, standing=standing, standing_why=why))
    seeds += [Training(seed=seed, moments=[Moment(accuracy=value)]) for seed, value in given.items()]
    depths = {seed: len(seen.layers) for seed, seen in looks.items()}
    for key in HALVES:
        if 1 in depths.values() and lists[key] is not None:
            raise BadValue(f"{key} is given, and a net of one block has no lower half", "leave it out")
    if len(set(depths.values())) > 1:
        counts = ", ".join(f"seed {seed} {depth}" for seed, depth in depths.items())
        raise BadValue(f"the models differ in their number of blocks: {counts}", "audit them separately")
    baselines = {
        # A number stands for all seeds, without a spread; a list or table is paired with them.
        key: Baseline.number(_share(value, key)) if _alone(value)
        else Baseline.by_seed(_accuracies(value, labels, key), typed=True)
        for key, value in lists.items() if value is not None
    }  # fmt: skip
    if useless and accuracy is None:
        then = "accuracy counts as not known, and depth is not judged" if compared else "the accuracy here tells little"
        task.notes.append(f"{useless}: {then}")
    if metric is not None and accuracy is None and baselines:
        task.notes.append(
            f"a point is 0.01 of the metric {name_of(metric)}; the limit of {points(thresholds['depth.margin'])} "
            "points was set for accuracy, so choose one that fits with thresholds="
        )
    evidence = Evidence(
        name=name, depth=next(iter(depths.values())), residual=residual, seeds=seeds, baselines=baselines,
        classes=task.classes, chance=_guessing(task) if metric is None and loss is None else None,
        notes=[*gathered.notes, *task.notes, *by_text(notes)],
        doubts=doubts(models, blocks, seeds, same),
    )  # fmt: skip
    judged = audit_subjects([Subject(name, evidence)], thresholds, protocol, alone=ALONE)
    return judged.with_records(layers={seed: [seen.start, *seen.layers] for seed, seen in looks.items()})


def _guessing(task: Task) -> float | None:
    """The accuracy of one who always names the most frequent class; None where a label is no class of its sample."""
    if task.dense or task.classes is None or not 0 < task.classes <= MOST_CLASSES:
        return None
    return most_frequent(bytes(label for _, labels in task.batches for label in labels.tolist()))


def _inits(init: Models | Callable[[int], nn.Module] | None, seeds: Sequence[int]) -> dict[int, nn.Module]:
    """The models at init by seed; one alone is taken for every seed."""
    if init is None:
        return {}
    if isinstance(init, nn.Module):
        return dict.fromkeys(seeds, init)
    if callable(init):
        return {seed: init(seed) for seed in seeds}
    given = _by_seed(init)
    if not isinstance(init, Mapping) and len(given) == len(seeds):
        given = dict(zip(seeds, given.values(), strict=True))
    lacking = [str(seed) for seed in seeds if seed not in given]
    if lacking:
        raise BadValue(
            f"init has no model for seed {', '.join(lacking)}", "give one per seed, or a function seed → model"
        )
    return {seed: given[seed] for seed in seeds}


def _begun(start: nn.Module, trained: nn.Module, seed: int, task: Task, asked: Asked) -> Moment:
    """What is measured of a model at init, which must be the same net and not the trained one."""
    start, _ = unwrapped(start)
    if same_weights(list(start.parameters()), list(trained.parameters())):
        raise BadValue(
            f"the model given as init of seed {seed} has the weights of the trained one",
            "give the model as it was before training: build it again with the same seed",
        )
    shapes = [[tuple(p.shape) for p in each.parameters()] for each in (start, trained)]
    if shapes[0] != shapes[1]:
        raise BadValue(
            f"the model given as init of seed {seed} has other parameters than the trained one",
            "give the same net as it was before training",
        )
    with undisturbed(start, whole=True), uncompiled(start):
        return at_init(task.reading(start), asked)


def _by_seed(model: Models) -> dict[int, nn.Module]:
    if isinstance(model, nn.Module):
        return {0: model}
    if not isinstance(model, Iterable):
        raise BadValue(f"a {type(model).__name__} cannot be audited", "give one nn.Module, or one per seed")
    models = {_seed(key): each for key, each in (model.items() if isinstance(model, Mapping) else enumerate(model))}
    if not models or not all(isinstance(each, nn.Module) for each in models.values()):
        kinds = ", ".join(type(each).__name__ for each in models.values()) or "nothing"
        raise BadValue(f"models to audit are nn.Modules, and these are: {kinds}", "give one nn.Module, or one per seed")
    return models


def _accuracies(given: Accuracies, seeds: Sequence[int], what: str) -> dict[int, float | None]:
    """Accuracies by seed: a table as it is; a list in the order of the models, further ones as further seeds."""
    if isinstance(given, str):
        raise BadValue(f"{what} is the text {given[:40]!r}", "give a number, or one per seed")
    if isinstance(given, Mapping):
        return {_seed(seed): _share(value, what) for seed, value in given.items()}
    several: Any = [given] if _alone(given) else given
    values = [_share(value, what) for value in several]
    if not values:
        raise BadValue(f"{what} is an empty list", "give at least one number, or leave it out")
    further = [n for n in range(len(seeds) + len(values)) if n not in seeds]
    return dict(zip([*seeds, *further], values, strict=False))


def _alone(given: Any) -> bool:
    """Whether it is one number: Python's, or numpy's or torch's without dimensions."""
    return isinstance(given, int | float) or getattr(given, "ndim", None) == 0


def _share(value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise BadValue(f"{what} has {value!r}, which is not a number", "give accuracies between 0 and 1") from error
    if math.isfinite(number) and not 0 <= number <= 1:
        raise BadValue(f"{what} has {number:g}, and an accuracy is between 0 and 1", "divide percentages by 100")
    return number


def _seed(key: Any) -> int:
    if not str(key).removeprefix("-").isdecimal():
        raise BadValue(f"{key!r} is not a seed", "name seeds by whole numbers, as in {42: ..., 123: ...}")
    return int(key)
