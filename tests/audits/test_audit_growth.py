"""A block answers for itself: growth from its own input, token by token; what is dead is named."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import walkback as wb
from walkback.checks import Judgement
from walkback.probes import look
from walkback.probes.norms import block_growth, sample_sizes, token_norms

WIDTH, CLASSES, TOKENS = 8, 3, 20


class Times(nn.Module):
    def __init__(self, factor: float = 1.0, token: int | None = None, shift: float = 0.0):
        super().__init__()
        self.factor, self.token, self.shift = factor, token, shift

    def forward(self, h: Tensor) -> Tensor:
        if self.token is None:
            return h * self.factor + self.shift
        gain = torch.ones(h.shape[1]).to(h)
        gain[self.token] = self.factor
        return h * gain[:, None] + self.shift


class Chain(nn.Module):
    """Blocks with something between the first and the second."""

    def __init__(self, first: nn.Module, second: nn.Module, between: Callable[[Tensor], Tensor] = lambda h: h):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([first, second])
        self.between, self.norm, self.head = between, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.blocks[1](self.between(self.blocks[0](x))))
        return self.head(h.mean(1) if h.dim() == 3 else h)


def data(*shape: int) -> list[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(1)
    return [(torch.randn(32, *shape, generator=draw), torch.randint(CLASSES, (32,), generator=draw))]


def judged(model: nn.Module, *shape: int, **options: Any) -> Judgement:
    return wb.audit(model, data(*shape), "blocks.*", residual=True, describe=False, **options).subjects[0]


def growth(judgement: Judgement) -> tuple[str, float | None]:
    (found,) = (f for f in judgement.findings if f.check == "scale")
    return found.outcome, None if found.value is None else round(found.value, 3)


def test_what_lies_between_two_blocks_accuses_nobody() -> None:
    scaled = judged(Chain(Times(2.0), Times(3.0), lambda h: 1000 * h), WIDTH)
    assert growth(scaled) == ("passes", 3.0)
    (note,) = (n for n in scaled.notes if "between" in n and "factor" in n)
    assert "the size changes between blocks.0 and blocks.1 by a factor of 1e+03; this is counted for no block" in note
    assert growth(judged(Chain(Times(2.0), Times(60.0), lambda h: h / 1000), WIDTH)) == ("fires", 60.0)
    assert not any("factor" in n for n in judged(Chain(Times(2.0), Times(3.0)), WIDTH).notes)


def test_a_projection_and_a_pool_between_blocks() -> None:
    wide = nn.Linear(4, WIDTH)
    assert growth(judged(Chain(Times(2.0), Times(3.0), wide), 4))[0] == "passes"
    pooled = judged(Chain(Times(2.0), Times(3.0), lambda h: 100 * h.mean(1)), TOKENS, WIDTH)
    assert growth(pooled) == ("passes", 3.0)


def test_blocks_named_by_their_branch_alone_are_said_to_receive_something_else() -> None:
    """The skip passes outside, and growth would be of something else."""

    class Skips(Chain):
        def forward(self, x: Tensor) -> Tensor:
            h = x + self.blocks[0](x)
            return self.head(h + self.blocks[1](h))

    notes = judged(Skips(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)), WIDTH).notes
    assert any("blocks.1 receives something else: is there a skip between?" in note for note in notes)


def test_one_exploding_token_among_many_is_seen() -> None:
    assert growth(judged(Chain(Times(60.0, token=7), Times()), TOKENS, WIDTH)) == ("fires", 60.0)
    assert growth(judged(Chain(Times(1.5, token=7), Times()), TOKENS, WIDTH))[0] == "passes"


def test_tokens_that_cancel_in_the_mean_are_seen() -> None:
    """The mean over tokens stays where it was; every token is 100 times larger around it."""

    class Spread(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            middle = h.mean(1, keepdim=True)
            return middle + 100 * (h - middle)

    model = Chain(Spread(), Times())
    seen = look(model, data(TOKENS, WIDTH), "blocks.*")
    assert torch.allclose(seen.hidden[0], seen.hidden[1], atol=1e-4)
    assert growth(judged(model, TOKENS, WIDTH))[0] == "fires"


def test_closed_form_of_token_growth() -> None:
    quiet = torch.ones(3, 10, 4)
    loud = quiet.clone()
    loud[:, 1:] *= 80  # all but one, beside a huge one
    huge = quiet.clone()
    huge[:, 0] *= 1e6
    loud[:, 0] *= 1e6
    assert block_growth(huge, loud, "mean", False).tolist() == [80.0] * 3
    small = quiet.clone()
    small[:, 3] *= 1e-3  # a small token that becomes as large as its neighbours
    assert block_growth(small, quiet, "mean", False).tolist() == pytest.approx([10.0] * 3)
    assert block_growth(quiet, loud[:, :4], "mean", False).tolist() == [1e6] * 3  # another number of tokens
    assert block_growth(0 * quiet, 0 * quiet, "mean", False).isnan().all()
    padded = quiet.clone()
    padded[:, 2:] = 0
    assert block_growth(padded, 2 * padded, "mean", False).tolist() == [2.0] * 3
    assert block_growth(quiet.long(), quiet, "mean", False) is None
    assert block_growth(quiet[:2], quiet, "mean", False) is None
    image = torch.ones(2, 4, 3, 3)
    assert token_norms(image, "mean").tolist() == [[2.0] * 9] * 2
    assert sample_sizes(image, "flatten").tolist() == [6.0, 6.0]
    assert sample_sizes(loud, "cls").tolist() == [2e6] * 3


def test_growth_from_nothing_is_not_known() -> None:
    assert growth(judged(Chain(Times(0.0), Times(1.0, shift=1.0)), WIDTH))[0] == "open"


class Deaf(nn.Module):
    """Gives a constant, or nothing."""

    def __init__(self, value: float):
        super().__init__()
        self.value = value

    def forward(self, h: Tensor) -> Tensor:
        return 0 * h + self.value


@pytest.mark.parametrize("credits", [None, "backward"])
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (Times(2.0), Deaf(0.0), "blocks.1 is dead: its output is zero for every sample"),
        (Times(2.0), Deaf(1.0), "blocks.1 is dead: it gives every sample the same output"),
        (Times(2.0), Deaf(1.0), "blocks.0: its gradient is exactly zero for 100% of the samples"),
        (Times(2.0), nn.Identity(), "blocks.1 is dead: it returns its input unchanged"),
    ],
    ids=["zero", "constant", "no gradient", "identity"],
)
def test_dead_blocks_are_named_with_or_without_credits(first: Any, second: Any, words: str, credits: Any) -> None:
    found = judged(Chain(first, second), WIDTH, credits=credits)
    assert any(words in note for note in found.notes)
    well = judged(Chain(Times(2.0), Times(3.0)), WIDTH, credits=credits)
    assert not any("dead" in note or "exactly zero" in note for note in well.notes)
    assert any("2 of 2 blocks seen" in note for note in well.notes)
