"""Are the seeds different trainings? The same model twice would feign a certainty that nobody has."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from walkback.checks.by_seed import seeds_said
from walkback.errors import BadValue
from walkback.probes.inputs import on_tensors
from walkback.probes.outputs import Logits
from walkback.probes.preserve import undisturbed
from walkback.probes.unwrap import find_blocks
from walkback.probes.user_errors import blamed
from walkback.records import Moment, Training

CLOSE = 1e-5  # relative: weights or measurements that differ by less are of one training, rounded or permuted

Credits = Callable[[nn.Module, Any, Tensor], Sequence[Tensor | None]]


def repeated(models: Mapping[int, nn.Module]) -> dict[int, int]:
    """The seeds whose model is that of an earlier seed, each with that seed: the same object, or the same weights."""
    found: dict[int, int] = {}
    for seed, model in models.items():
        for other, earlier in models.items():
            if other == seed:
                break
            if other not in found and same_weights(_weights([model]), _weights([earlier]), model is earlier):
                found[seed] = other
                break
    return found


def _weights(parts: Iterable[nn.Module]) -> list[Tensor]:
    return [p.detach() for part in parts for p in part.parameters()]


def same_weights(one: Sequence[Tensor], other: Sequence[Tensor], empty: bool = False) -> bool:
    """Whether all weights agree: ‖a − b‖ ≤ 1e-5 ‖a‖ in every tensor. Without any weights the answer is `empty`.

    Two trainings differ by far more in at least one tensor; a copy, a cast or a last digit does not.
    """
    if len(one) != len(other) or not one:
        return empty and len(one) == len(other)
    return all(a.shape == b.shape and _near(a, b) for a, b in zip(one, other, strict=True))


def _near(a: Tensor, b: Tensor) -> bool:
    if a.device != b.device:
        b = b.to(a.device)
    if not a.is_floating_point():
        return torch.equal(a, b)
    a, b = a.detach().double(), b.detach().double()
    apart = float(torch.linalg.vector_norm(torch.nan_to_num(a) - torch.nan_to_num(b)))
    return apart <= CLOSE * float(torch.linalg.vector_norm(torch.nan_to_num(a)))


def doubts(
    models: Mapping[int, nn.Module], blocks: str | Sequence[str], seeds: Sequence[Training], same: Mapping[int, int]
) -> list[str]:
    """Why these seeds are not different trainings, in sentences; a subject with one of them never holds."""
    found = [
        f"{seeds_said([str(other), str(seed)])} are the same model; give one model per training"
        for seed, other in same.items()
    ]
    alone = {seed: _weights(find_blocks(m, blocks).values()) for seed, m in models.items() if seed not in same}
    found += [
        f"{seeds_said([str(a), str(b)])} have the same weights in every block, so they count as one training"
        for a, b in _pairs(list(alone)) if same_weights(alone[a], alone[b])
    ]  # fmt: skip
    if not found:
        moments = {each.seed: each.final for each in seeds if each.seed in alone}
        found += [
            f"{seeds_said([str(a), str(b)])} measure the same at every layer, so they are one training"
            for a, b in _pairs(list(moments)) if same_moment(moments[a], moments[b])
        ]  # fmt: skip
    return found


def _pairs(keys: Sequence[Any]) -> list[tuple[Any, Any]]:
    return [(a, b) for place, a in enumerate(keys) for b in keys[place + 1 :]]


def same_moment(one: Moment, other: Moment) -> bool:
    """Whether loss, ‖h_l‖ and ‖g_l‖ agree to 1e-5 at every layer: also a net whose units are permuted does that."""
    numbers = [[m.loss, *(m.hidden_norms or []), *(m.gradient_norms or [])] for m in (one, other)]
    known = [[v for v in each if v is not None and math.isfinite(v) and v] for each in numbers]
    if len(known[0]) < 3 or [v is None for v in numbers[0]] != [v is None for v in numbers[1]]:
        return False
    return len(known[0]) == len(known[1]) and all(
        math.isclose(a, b, rel_tol=CLOSE) for a, b in zip(*known, strict=True)
    )


def guarded(credits: Callable[..., Any], notes: list[str], name: str = "credits") -> Callable[..., list[Tensor | None]]:
    """Your function of credits, called with your model, and everything that it changes put back after every batch.

    What it returns is copied first, because it may be part of what is put back.
    """

    def safe(reading: nn.Module, inputs: Any, labels: Tensor, *draw: int) -> list[Tensor | None]:
        model = reading.model if isinstance(reading, Logits) else reading
        with undisturbed(model, whole=True) as changes:
            with blamed(name):
                given = credits(model, on_tensors(inputs, Tensor.clone), labels.clone(), *draw)
                given = list(given) if isinstance(given, Iterator) else given
            if isinstance(given, Tensor | str | Mapping) or not isinstance(given, Iterable):
                raise BadValue(f"{name} gives a {type(given).__name__}", "give a list with one credit per block")
            found = [None if a is None else _as_tensor(a, name).detach().clone() for a in given]
        notes.extend(note for note in changes.notes(f"the function {name}") if note not in notes)
        return found

    return safe


def _as_tensor(credit: Any, name: str) -> Tensor:
    """A credit as a tensor of real numbers."""
    try:
        found = credit if isinstance(credit, Tensor) else torch.as_tensor(credit)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadValue(f"{name} gives a {type(credit).__name__} as a credit", "give tensors of numbers") from error
    if found.is_complex():
        raise BadValue(f"{name} gives complex credits", "give real numbers: a loss is real, and so is its gradient")
    return found if found.is_floating_point() else found.float()
