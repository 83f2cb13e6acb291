"""The second door: somebody's own trained nn.Module, looked into through its named blocks."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from walkback.audits.measured import BACKWARD, Asked, measured
from walkback.checks import DEFAULT, Audit, Protocol, Thresholds, judge
from walkback.checks.finding import by_text
from walkback.errors import BadValue
from walkback.probes.modules import PerSampleLoss
from walkback.probes.redrawn import Redraw
from walkback.records import Baseline, BaselineName, Evidence, Moment, SeedEvidence

Credits = Callable[[nn.Module, Any, Tensor], Sequence[Tensor]]
HALVES: tuple[BaselineName, ...] = ("half", "half_bp")
Accuracies = float | Sequence[float] | Mapping[int, float]


def audit(
    model: nn.Module | Sequence[nn.Module] | Mapping[int, nn.Module],
    batches: Iterable[tuple[Any, Tensor]],
    blocks: str | Sequence[str],
    *,
    name: str = "your model",
    residual: bool | None = None,
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
    describe: bool = True,
    thresholds: Thresholds = DEFAULT,
    protocol: Protocol = "ours",
) -> Audit:
    """Judge a trained model of yours, or one a seed, through its named blocks. Nothing of it is changed.

    model      one model, a list of them (one a seed), or a table {seed: model}
    batches    (inputs, labels) of held-out data, 1,000 samples or so
    blocks     a wildcard over module names ("layers.*"), or a list of names, from the input to the output
    residual   whether the blocks add to a stream; not said, a large growth cannot be judged
    credits    a function (model, inputs, labels) → a_0 … a_{L−1}, if the model was trained by such; "backward": what
               the model's own backward pass delivers at its blocks, for models that override it
    redraw     a function (model, inputs, labels, draw) → the same with fresh feedback, for the null; without it the
               credits are turned by random rotations
    accuracy   test accuracies by seed; by default the accuracy on `batches`
    frozen     … of the same net with its blocks left at init, trained by the same rule
    bp, frozen_bp, shallow   … trained by backprop; with frozen blocks; without blocks
    describe   whether perturbation correlation and nudging are measured, which are told and not judged
    half, half_bp   … with only the upper half of the blocks trained (the last ⌈L/2⌉), by the same rule; by backprop
    """
    if isinstance(credits, str) and credits != BACKWARD:
        raise BadValue(f"credits={credits!r} is not known", 'give a function, or credits="backward"')
    models = _by_seed(model)
    kept = _kept(batches)
    notes: list[tuple[str, str]] = []
    depths: dict[int, int] = {}
    seeds = []
    given = _accuracies(accuracy, list(models), "accuracy") if accuracy is not None else {}
    for seed, one in models.items():
        found = measured(one, Asked(kept, blocks, credits, redraw, reduction, loss, describe, residual))
        depths[seed] = found.depth
        notes += [(str(seed), note) for note in found.notes]
        value = given.pop(seed, found.accuracy if accuracy is None else None)
        seeds.append(SeedEvidence(seed=seed, moments=[found.moment.model_copy(update={"accuracy": value})]))
    seeds += [SeedEvidence(seed=seed, moments=[Moment(accuracy=value)]) for seed, value in given.items()]
    lists: dict[BaselineName, Accuracies | None] = {
        "frozen": frozen, "bp": bp, "frozen_bp": frozen_bp, "shallow": shallow, "half": half, "half_bp": half_bp,
    }  # fmt: skip
    for key in HALVES:
        if 1 in depths.values() and lists[key] is not None:
            raise BadValue(f"{key} is given, and a net of one block has no lower half", "leave it out")
    if len(set(depths.values())) > 1:
        counts = ", ".join(f"seed {seed} {depth}" for seed, depth in depths.items())
        raise BadValue(f"the models differ in their number of blocks: {counts}", "audit them apart")
    labels = [each.seed for each in seeds]
    baselines = {key: _baseline(value, labels, key) for key, value in lists.items() if value is not None}
    evidence = Evidence(
        name=name, depth=next(iter(depths.values())), residual=residual, seeds=seeds, baselines=baselines,
        notes=by_text(notes),
    )  # fmt: skip
    return Audit(
        valid=True, says="Judged as it was given: no controls were trained.", protocol=protocol,
        thresholds=thresholds, controls=[], subjects=[judge(evidence, thresholds, protocol)],
    )  # fmt: skip


def _by_seed(model: nn.Module | Sequence[nn.Module] | Mapping[int, nn.Module]) -> dict[int, nn.Module]:
    if isinstance(model, nn.Module):
        return {0: model}
    if not isinstance(model, Iterable):
        raise BadValue(f"a {type(model).__name__} is no model to audit", "give one nn.Module, or one a seed")
    models = {_seed(key): each for key, each in (model.items() if isinstance(model, Mapping) else enumerate(model))}
    if not models or not all(isinstance(each, nn.Module) for each in models.values()):
        kinds = ", ".join(type(each).__name__ for each in models.values()) or "nothing"
        raise BadValue(f"models to audit are nn.Modules, and these are: {kinds}", "give one nn.Module, or one a seed")
    return models


def _kept(batches: Iterable[tuple[Any, Tensor]]) -> list[tuple[Any, Tensor]]:
    """The batches, which are gone through more than once, without those that hold no sample."""
    if not isinstance(batches, Iterable):
        raise BadValue(f"batches is a {type(batches).__name__}", "give an iterable of (inputs, labels) pairs")
    kept = []
    for batch in batches:
        labels = batch[1] if isinstance(batch, tuple | list) and len(batch) == 2 else None
        if isinstance(labels, Tensor) and labels.dim() == 0:
            raise BadValue("a batch has one label without a batch dimension", "give labels (N,), one a sample")
        if not (isinstance(labels, Tensor) and len(labels) == 0):
            kept.append(batch)
    return kept


def _baseline(given: Accuracies, seeds: Sequence[int | None], what: str) -> Baseline:
    """A number stands for all seeds, without a spread; a list or table is paired with them."""
    if _alone(given):
        return Baseline.number(_share(given, what))
    return Baseline.by_seed(_accuracies(given, seeds, what), typed=True)


def _accuracies(given: Accuracies, seeds: Sequence[int | None], what: str) -> dict[int, float | None]:
    """Accuracies by seed: a table as it is; a list in the order of the models, further ones as further seeds."""
    if isinstance(given, Mapping):
        return {_seed(seed): _share(value, what) for seed, value in given.items()}
    several: Any = [given] if _alone(given) else given
    values = [_share(value, what) for value in several]
    if not values:
        raise BadValue(f"{what} is an empty list", "give at least one number, or leave it out")
    known = [seed for seed in seeds if seed is not None]
    further = [n for n in range(len(known) + len(values)) if n not in known]
    return dict(zip([*known, *further], values, strict=False))


def _alone(given: Any) -> bool:
    """Whether it is one number: Python's, or numpy's or torch's without dimensions."""
    return isinstance(given, int | float) or getattr(given, "ndim", None) == 0


def _share(value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise BadValue(f"{what} has {value!r}, which is no number", "give accuracies between 0 and 1") from error
    if math.isfinite(number) and not 0 <= number <= 1:
        raise BadValue(f"{what} has {number:g}, and an accuracy is between 0 and 1", "divide percentages by 100")
    return number


def _seed(key: Any) -> int:
    if not str(key).removeprefix("-").isdecimal():
        raise BadValue(f"{key!r} is no seed", "name seeds by whole numbers, as in {42: ..., 123: ...}")
    return int(key)
