"""Planted: strangers' models, samples and functions that would fool an audit of a model, each with its known answer."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import walkback as wb
from walkback.errors import BadValue

WIDTH, NAMES = 16, ["1", "2", "3"]
MEANS = {"accuracy": 0.8, "frozen": 0.2, "shallow": 0.25, "bp": 0.9, "frozen_bp": 0.2, "half": 0.3, "half_bp": 0.3}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, h: Tensor) -> Tensor:
        return h + 0.5 * torch.tanh(self.linear(h))


class Net(nn.Sequential):
    def __init__(self, block: Any = Block, seed: int = 0) -> None:
        torch.manual_seed(seed)
        super().__init__(nn.Linear(4, WIDTH), *(block() for _ in NAMES), nn.Linear(WIDTH, 3))


def data(count: int = 128) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(3)
    return torch.randn(count, 4, generator=draw), torch.randint(3, (count,), generator=draw)


def judged(kind: Any = Net, batches: Any = None, seeds: int = 2, **options: Any) -> Any:
    numbers = {name: [mean + 0.01 * (n % 2) for n in range(seeds)] for name, mean in MEANS.items()}
    given = {"residual": True, "credits": "backward", "describe": False, **numbers} | options
    models = [kind(seed=seed) for seed in range(seeds)]
    (subject,) = wb.audit(models, [data()] if batches is None else batches, NAMES, **given).subjects
    return subject


def finding(subject: Any, check: str) -> Any:
    return next(f for f in subject.findings if f.check == check)


def healthy(subject: Any) -> bool:
    """Whether the reference and the stream are sound, and the credit is the gradient in every block."""
    sound = all(finding(subject, check).outcome == "passes" for check in ("reference", "scale"))
    return sound and subject.median_cosine > 0.999 and finding(subject, "spread").value > 2.999


def gradients(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    states = [model[0](x)]
    for name in NAMES:
        states.append(model[int(name)](states[-1]))
    return list(torch.autograd.grad(F.cross_entropy(model[-1](states[-1]), y, reduction="sum"), states[1:]))


def test_known_answer_a_healthy_net_holds() -> None:
    found = judged(seeds=5)
    assert (found.verdict, found.answer) == ("holds", "holds at one rate")
    assert healthy(found)
    assert judged().verdict == "open", "two seeds show nothing"


# --- which argument is the state ------------------------------------------------------------------------------------


class Told(Block):
    """A block that takes its state among other things."""

    def forward(self, *args: Any, h: Any = None, **_: Any) -> Tensor:
        given = args[-1] if h is None else h
        return super().forward(given[0] if isinstance(given, tuple) else given)


@pytest.mark.parametrize(
    "pass_on",
    [
        lambda block, h: block(torch.full((len(h), 3), 1e-6), h),  # a condition, and next to nothing
        lambda block, h: block(torch.ones(len(h), dtype=torch.long), h),  # a mask
        lambda block, h: block(scale=torch.full((len(h), 3), 1e-6), h=h),
        lambda block, h: block((h, None)),
    ],
)
def test_second_way_the_state_is_found_among_the_arguments(pass_on: Any) -> None:
    class Passing(Net):
        def __init__(self, seed: int) -> None:
            super().__init__(Told, seed)

        def forward(self, x: Tensor) -> Tensor:
            h = self[0](x)
            for name in NAMES:
                h = pass_on(self[int(name)], h)
            return self[-1](h)

    plain, found = judged(), judged(Passing)
    assert healthy(found)
    assert finding(found, "scale").value == finding(plain, "scale").value


# --- precision ------------------------------------------------------------------------------------------------------


class Cast(Net):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x)


def test_a_healthy_net_under_autocast_is_not_walked_back() -> None:
    inside = judged(Cast)
    with torch.autocast("cpu", torch.bfloat16):
        around = judged()
    for subject in (inside, around):
        assert finding(subject, "reference").outcome == "passes"
        assert "float32 without autocast" in finding(subject, "reference").says
        assert any("autocast itself changes the direction of the deepest gradient" in note for note in subject.notes)
    with torch.autocast("cpu", torch.bfloat16):  # torch's own again
        assert torch.nn.functional.linear(torch.ones(1, 2), torch.ones(1, 2)).dtype == torch.bfloat16


def normed(seed: int) -> nn.Module:
    model = Net(seed=seed)
    for name in NAMES:
        nn.utils.weight_norm(model[int(name)].linear)
    return model


class Checkpointed(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self[0](x)
        for name in NAMES:
            h = checkpoint(self[int(name)], h, use_reentrant=True)
        return self[-1](h)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("kind", [normed, Checkpointed])
def test_second_way_models_that_hide_from_a_copy_or_a_gradient(kind: Any) -> None:
    plain, found = judged(), judged(kind)
    assert healthy(found)
    assert finding(found, "reference").value == pytest.approx(finding(plain, "reference").value, rel=0.5)
    assert (
        checkpoint(torch.sin, torch.ones(2, requires_grad=True), use_reentrant=True)
        .grad_fn.name()
        .startswith("CheckpointFunction")
    )  # torch's own again


def test_a_loss_with_class_weights_runs_in_float64_as_well() -> None:
    weights = torch.tensor([1.0, 2.0, 3.0])
    module = judged(loss=nn.CrossEntropyLoss(weight=weights, reduction="none"))
    assert finding(module, "reference").outcome == "passes"
    closure = judged(loss=lambda out, labels: F.cross_entropy(out, labels, weight=weights, reduction="none"))
    assert "the function loss does not run in float64" in str(finding(closure, "reference").warnings)


# --- samples that show nothing --------------------------------------------------------------------------------------

x, y = data()


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        ([(x[:3], y[:3])], "there are 3 different samples, so an accuracy goes in steps of 33.3 points"),
        ([(x[:1].expand(128, 4), y)], "there is 1 different sample among 128"),
        ([(x, torch.ones_like(y))], "every label is class 1, which an answer that never changes gets right"),
    ],
)
def test_an_accuracy_that_shows_nothing_is_not_known(batches: Any, words: str) -> None:
    subject = judged(batches=batches, accuracy=None)
    assert (subject.verdict, finding(subject, "depth").outcome) == ("open", "open")
    assert not {"frozen", "shallow"} & {*finding(subject, "depth").parts}
    assert any(note.startswith(words) for note in subject.notes)


def test_sorted_samples_that_go_on_are_not_the_task() -> None:
    order = y.argsort()
    many = [(x[order], y[order])] * 3
    cut = judged(batches=many, accuracy=None, max_samples=80)
    assert any("hold 2 of 3 classes, and more samples follow: they are sorted" in note for note in cut.notes)
    assert finding(cut, "depth").value is None
    whole = judged(batches=many, accuracy=None)
    assert finding(whole, "depth").value is not None


# --- credits --------------------------------------------------------------------------------------------------------


def test_credits_of_other_samples_are_not_even_and_say_nothing_about_accuracy() -> None:
    own = judged(credits=gradients, seeds=5)
    assert own.verdict == "holds"
    # A gradient that most samples share: then the credit of any other sample has a cosine far above its null.
    batches = [(x, torch.where(torch.arange(128) % 8 == 0, y, torch.zeros_like(y)))]
    others = judged(batches=batches, seeds=5, credits=lambda m, a, b: [g.roll(1, 0) for g in gradients(m, a, b)])
    assert others.median_cosine > 0.5
    assert (others.verdict, others.verdicts.gamma) == ("holds", "open")
    words = "no closer to the gradient of their own sample than to that of any other"
    assert any(words in note for note in others.notes)


def test_credits_may_be_whole_numbers_or_come_one_by_one() -> None:
    signs = judged(credits=lambda m, a, b: [g.sign().long() for g in gradients(m, a, b)])
    assert finding(signs, "spread").value > 2.9
    assert healthy(judged(credits=lambda m, a, b: (g for g in gradients(m, a, b))))


def fails(*_: Any) -> Any:
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"credits": fails}, "the function credits raised KeyError: 'no such thing' \\(test_model_fooled.py, line"),
        ({"redraw": fails}, "the function redraw raised KeyError"),
        ({"loss": fails}, "the function loss raised KeyError"),
        ({"metric": fails, "accuracy": None}, "the function metric raised KeyError"),
        ({"metric": lambda *_: "good", "accuracy": None}, "metric gives a str"),
        ({"loss": lambda *_: None}, "the loss gives NoneType for 128 samples"),
        ({"credits": lambda *_: ["a", "b", "c"]}, "credits gives a str as a credit"),
        ({"credits": lambda m, a, b: [1j * g for g in gradients(m, a, b)]}, "credits gives complex credits"),
        ({"frozen": "0.6"}, "frozen is the text '0.6'"),
    ],
)
def test_a_function_that_fails_is_told_as_its_own(options: Any, words: str) -> None:
    with pytest.raises(BadValue, match=words):
        judged(**options)


def test_a_scripted_block_is_refused() -> None:
    model = Net()
    model[2] = torch.jit.script(model[2])
    with pytest.raises(BadValue, match="a part of it, is scripted or traced"):
        wb.audit(model, [data()], NAMES)


class Whole(Net):
    """In the manner of libraries: the forward pass takes the labels and gives the loss."""

    def forward(self, x: Tensor, labels: Any = None) -> Any:
        logits = super().forward(x)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def test_a_forward_that_needs_the_labels_is_told_how_to_get_them() -> None:
    with pytest.raises(BadValue, match="the model fails on the first batch: TypeError") as told:
        judged(Whole, batches=[{"x": x, "labels": y}])
    assert '({"x": inputs, "labels": labels}, labels)' in told.value.remedy
    assert healthy(judged(Whole, batches=[({"x": x, "labels": y}, y)]))
