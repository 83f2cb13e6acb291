"""The strangers' models of the tests, audited: what each check answers, with numbers that every machine agrees on."""

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

import test_model_as_it_was as as_it_was
import test_model_cut as cut
import test_model_fooled as fooled
import test_model_init as begun
import test_model_inputs as inputs
import test_model_outputs as outputs
import test_model_seeds as seeds
import walkback as wb
from oracle_text import lines_of, rounded
from strangers import Net, Tokens, data
from walkback.errors import WalkbackError

Asked = tuple[str, Callable[[], Any]]
SMALL = 1e-4  # below it a number is mostly rounding, and each processor rounds in its own way


def asked() -> Iterator[Asked]:
    """Every audit by its name: models, outputs, batches, credits, inits and copies as strangers have them."""

    def ask(model: Any, batches: Any, blocks: Any = "layers.*", **options: Any) -> Callable[[], Any]:
        given = {"residual": True, "describe": False} | options
        return lambda: wb.audit(
            model if isinstance(model, list) else model(), batches() if callable(batches) else batches, blocks, **given
        )

    yield "net", ask(Net, [data()])
    yield "net, residual not stated", ask(Net, [data()], residual=None)
    yield "restless", ask(as_it_was.Restless, [data()])
    ids = torch.arange(60).reshape(12, 5) % 7
    yield "tokens", ask(Tokens, [(ids, ids)])
    yield "tokens, a table", ask(Tokens, [{"input_ids": ids, "labels": ids}])
    for name, (shape, options, _) in outputs.SHAPES.items():
        yield f"output: {name}", ask(lambda shape=shape: Net(shape), [data()], **options)
    for name, (batches, _) in inputs.GIVEN.items():
        yield f"batches: {name}", ask(inputs.ByKeyword, batches, max_samples=24)
    for name, make in {"whole": cut.Net, **cut.CUTS}.items():
        yield f"cut: {name}", ask(make, [(cut.X, cut.Y)], "blocks.*")
    kinds: dict[str, Any] = {"net": fooled.Net, "autocast": fooled.Cast, "weight norm": fooled.normed}
    for name, kind in kinds.items():
        yield f"fooled: {name}", lambda kind=kind: fooled.judged(kind)
    changes: dict[str, dict[str, Any]] = {
        "published": {"protocol": "published"}, "three samples": {"batches": [[t[:3] for t in fooled.data()]]},
        "one class": {"batches": [(fooled.data()[0], torch.ones_like(fooled.data()[1]))], "accuracy": None},
        "failing credits": {"credits": fooled.fails}, "own gradients": {"credits": fooled.gradients},
        "signs": {"credits": lambda *given: [g.sign().long() for g in fooled.gradients(*given)]},
        "turned around": {"credits": lambda *given: [-g for g in fooled.gradients(*given)]},
        "no better than frozen": {"frozen": [0.8, 0.82]}, "no baselines": dict.fromkeys(fooled.MEANS),
        "five seeds": {"seeds": 5},
    }  # fmt: skip
    for name, options in changes.items():
        yield f"fooled: {name}", lambda options=options: fooled.judged(**options)
    for factor, init in itertools.product((1.0, 80.0), (None, begun.made)):
        models = [begun.trained(seed, factor) for seed in begun.SEEDS]
        name = f"init: {'not given' if init is None else 'given'}, a block times {factor:g}"
        yield name, ask(models, [begun.batch()], ["1", "2", "3"], residual=False, init=init)
    copies: dict[str, Any] = {
        "three trainings": lambda m: Net(seed=1), "one twice": lambda m: m, "nudged": seeds.nudged,
        "other head": seeds.other_head, "permuted": seeds.permuted,
    }  # fmt: skip
    for name, copy in copies.items():
        first = Net(seed=0)
        models = [first, copy(first), Net(seed=2)]
        yield f"seeds: {name}", ask(models, [data(64)], credits=seeds.backprop, **seeds.GOOD)


def coarse(value: Any) -> Any:
    """The same tree with two significant digits of every number, and none of those that are next to nothing."""
    if isinstance(value, dict):
        return {key: coarse(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return [coarse(inside) for inside in value]
    if isinstance(value, float) and math.isfinite(value):
        return rounded(value, 2) if abs(value) >= SMALL else 0.0
    return value


def strangers() -> str:
    """For each audit its verdict and the short lines of every finding; or the first line of the refusal."""
    lines = []
    for name, ask in asked():
        try:
            with warnings.catch_warnings(action="ignore"):
                found = ask()
        except WalkbackError as error:
            lines += [name, f"  refused: {str(error).splitlines()[0].partition(' (test_')[0]}"]
            continue
        subject = found.subjects[0] if hasattr(found, "subjects") else found
        lines += [name, *lines_of(coarse(subject.as_dict()), brief=True, without=("name", "protocol"))]
    return "\n".join(lines) + "\n"
