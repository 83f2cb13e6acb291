"""The second door: somebody's own trained nn.Module, looked into through its named blocks."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from walkback.checks import DEFAULT, Audit, Protocol, Thresholds, judge
from walkback.checks.finding import by_text
from walkback.errors import BadValue, WalkbackError
from walkback.probes import (
    Cosine,
    Look,
    Precision,
    credit_cosine,
    drift,
    gamma,
    gradient_norm,
    look,
    median_norm,
    module_precision,
    nudging,
    perturbation,
    random_null,
    replay_module,
)
from walkback.probes.modules import PerSampleLoss
from walkback.records import (
    Baseline,
    BaselineName,
    CosineRecord,
    Evidence,
    Moment,
    NullRecord,
    PrecisionRecord,
    SeedEvidence,
)

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
    credits: Credits | None = None,
    accuracy: Accuracies | None = None,
    frozen: Accuracies | None = None,
    bp: Accuracies | None = None,
    frozen_bp: Accuracies | None = None,
    shallow: Accuracies | None = None,
    half: Accuracies | None = None,
    half_bp: Accuracies | None = None,
    reduction: str = "auto",
    loss: PerSampleLoss | None = None,
    thresholds: Thresholds = DEFAULT,
    protocol: Protocol = "ours",
) -> Audit:
    """Judge a trained model of yours, or one a seed, through its named blocks. Nothing of it is changed.

    model      one model, a list of them (one a seed), or a table {seed: model}
    batches    (inputs, labels) of held-out data, 1,000 samples or so
    blocks     a wildcard over module names ("layers.*"), or a list of names, from the input to the output
    residual   whether the blocks add to a stream; not said, a large growth cannot be judged
    credits    a function (model, inputs, labels) → a_0 … a_{L−1}, if the model was trained by such
    accuracy   test accuracies by seed; by default the accuracy on `batches`
    frozen     … of the same net with its blocks left at init, trained by the same rule
    bp, frozen_bp, shallow   … trained by backprop; with frozen blocks; without blocks
    half, half_bp   … with only the upper half of the blocks trained (the last ⌈L/2⌉), by the same rule; by backprop
    """
    models = _by_seed(model)
    kept = _kept(batches)
    notes: list[tuple[str, str]] = []
    depths: dict[int, int] = {}
    seeds = []
    given = _accuracies(accuracy, list(models), "accuracy") if accuracy is not None else {}
    for seed, one in models.items():
        seen = look(one, kept, blocks, credits=credits, reduction=reduction, loss=loss)
        depths[seed] = len(seen.layers)
        notes += [(str(seed), note) for note in _notes(seen)]
        precise = module_precision(one, kept, blocks, reduction=reduction, loss=loss)
        moment = _moment(one, seen, precise[-1], kept, blocks, reduction, loss)
        value = given.pop(seed, seen.accuracy if accuracy is None else None)
        seeds.append(SeedEvidence(seed=seed, moments=[moment.model_copy(update={"accuracy": value})]))
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


def _notes(seen: Look) -> list[str]:
    rows = [seen.start, *seen.layers]
    odd = [f"{row.name}: {row.status}" + (f" ({row.note})" if row.note else "") for row in rows if row.status != "ok"]
    told = [f"{row.name}: {row.note}" for row in rows if row.status == "ok" and row.note]
    ways = sorted({row.reduction for row in seen.layers if row.reduction})
    return [
        *([f"layers not covered: {'; '.join(odd)}"] if odd else []),
        f"{len(seen.covered)} of {len(seen.layers)} blocks covered; features taken by: {', '.join(ways) or 'nothing'}",
        *told,
        *seen.notes,
    ]


def _moment(
    model: nn.Module,
    seen: Look,
    precise: Precision,
    batches: Sequence[tuple[Any, Tensor]],
    blocks: str | Sequence[str],
    reduction: str,
    loss: PerSampleLoss | None,
) -> Moment:
    """What a look at a model tells, as evidence; a layer that could not be measured is None."""
    fields: dict[str, Any] = {
        "loss": seen.loss,
        "hidden_norms": [None if h is None else median_norm(h) for h in seen.hidden],
        "gradient_norms": [None if g is None else gradient_norm(g) for g in seen.gradients],
        "reference_batch": 128,
        "precision": PrecisionRecord.of(precise),
    }
    middle = seen.gradients[len(seen.layers) // 2]
    if middle is not None:
        turned = drift(middle)
        fields["drift"] = turned.value if turned.status == "ok" else None
    if seen.credits is not None:
        at, out = _cosines(seen.credits, seen.gradients[:-1]), _cosines(seen.credits, seen.gradients[1:])
        null = random_null(seen.gradients, torch.Generator().manual_seed(0))
        fields |= {
            "cosine": [CosineRecord.of(c) for c in at],
            "cosine_out": [CosineRecord.of(c) for c in out],
            "gamma": gamma(at)[0],
            "null": [NullRecord.of(n) for n in null.at_input],
            "null_out": [NullRecord.of(n) for n in null.at_output],
            "null_gamma": NullRecord.of(null.gamma),
        }
        fields |= _functional(model, seen, batches, blocks, reduction, loss)
    return Moment(**fields)


def _cosines(credits: Sequence[Tensor | None], gradients: Sequence[Tensor | None]) -> list[Cosine]:
    found = []
    for a, g in zip(credits, gradients, strict=True):
        if a is None or g is None or a.shape != g.shape:
            found.append(Cosine(math.nan, 0, 0 if g is None else len(g), "not available"))
        else:
            found.append(credit_cosine(a, g))
    return found


def _functional(
    model: nn.Module,
    seen: Look,
    batches: Sequence[tuple[Any, Tensor]],
    blocks: str | Sequence[str],
    reduction: str,
    loss: PerSampleLoss | None,
) -> dict[str, Any]:
    """Perturbation correlation and nudging on the first batch; described, so that their failure is no failure."""
    inputs, labels = batches[0]
    assert seen.credits is not None
    few = [None if a is None else a[: len(labels)] for a in seen.credits]
    try:
        replay = replay_module(model, inputs, labels, blocks, reduction=reduction, loss=loss)
        rho = perturbation(few, replay.hidden, replay.loss_from, torch.Generator().manual_seed(1))
        moved = nudging(few, replay.hidden, replay.loss_from)
    except (WalkbackError, RuntimeError, ValueError, TypeError):
        return {}
    return {
        "rho": [r.value if r.status == "ok" else None for r in rho],
        "nudging": [n.value if n.status == "ok" else None for n in moved],
    }
