"""Nets whose truth is known by construction, judged through the Python door: real modules, real tensors.

Each defect is planted in a net that holds otherwise: the check that should see it is seen to fire, and to pass after
the repair. Accuracy is answered by depth alone: a defect of the stream, the reference or the credits is a symptom, or
an answer on Γ. The trained nets are of an ordinary loop, as a user would write it.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import walkback as wb
from walkback.checks import DEFAULT, Finding, Judgement

SEEDS = (42, 123, 456, 7, 8)
NAMED = "seeds 42, 123, 456, 7 and 8"
WIDTH, DEPTH, CLASSES, INPUTS, SAMPLES = 32, 4, 5, 12, 128
FIRES, PASSES, OPEN = "fires", "passes", "open"
CHECKS = ("depth", "scale", "reference")  # those that the credits have no part in

# Accuracies with which depth passes: every planted defect below is the only one.
GOOD: dict[str, Any] = {
    "accuracy": [0.60, 0.61, 0.60, 0.605, 0.60], "frozen": [0.35, 0.352, 0.348, 0.35, 0.351],
    "shallow": [0.45, 0.452, 0.448, 0.45, 0.451], "bp": [0.615, 0.61, 0.62, 0.613, 0.616],
    "frozen_bp": [0.38, 0.385, 0.382, 0.381, 0.383], "half": [0.57, 0.581, 0.57, 0.572, 0.571],
    "half_bp": [0.59, 0.586, 0.594, 0.59, 0.591],
}  # fmt: skip


class Block(nn.Module):
    """h + f(h), with f = W2·GELU(W1·LN(h)); `gain` multiplies what leaves the block."""

    def __init__(self, width: int, gain: float = 1.0):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        nn.init.normal_(self.down.weight, std=0.01)
        nn.init.zeros_(self.down.bias)
        self.gain = gain

    def forward(self, h: Tensor) -> Tensor:
        return self.gain * (h + self.down(F.gelu(self.up(self.norm(h)))))


class Times(nn.Module):
    """A block that only multiplies: its growth is known to the last bit if the factor is a power of two."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, h: Tensor) -> Tensor:
        return h * self.factor


class Stack(nn.Module):
    """embed, blocks, LayerNorm, head; `stages` is the order in which the blocks are called."""

    def __init__(self, inputs: int = INPUTS, width: int = WIDTH, depth: int = DEPTH, classes: int = CLASSES):
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)
        self.stages: list[int] = list(range(depth))
        self.lost = 0.0  # added to the logits and taken away again

    def states(self, x: Tensor) -> list[Tensor]:
        found = [self.embed(x)]
        for stage in self.stages:
            found.append(self.blocks[stage](found[-1]))
        return found

    def readout(self, h: Tensor) -> Tensor:
        return (self.head(self.norm(h)) + self.lost) - self.lost

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.states(x)[-1])


def backprop(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    """The credit of backprop itself: the gradient of each sample's loss at the blocks' outputs."""
    assert isinstance(model, Stack)
    states = model.states(x)
    return list(torch.autograd.grad(F.cross_entropy(model.readout(states[-1]), y, reduction="sum"), states[1:]))


def stack(seed: int, change: Callable[[Stack], object] = lambda _: None, **sizes: int) -> Stack:
    torch.manual_seed(seed)
    model = Stack(**sizes)
    with torch.no_grad():
        change(model)
    return model


def held_out(samples: int = SAMPLES, seed: int = 7) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, INPUTS, generator=generator)
    y = torch.randint(CLASSES, (samples,), generator=generator)
    return list(zip(x.split(32), y.split(32), strict=True))


def judged(
    change: Callable[[Stack], object] | Sequence[Callable[[Stack], object]] = lambda _: None, **options: Any
) -> Judgement:
    """The judgement of planted nets, one a seed; one change is for all of them, several are one a seed."""
    changes = [change] * len(SEEDS) if callable(change) else list(change)
    models = {seed: stack(seed, one) for seed, one in zip(SEEDS, changes, strict=True)}
    given = {"residual": True, "credits": backprop, "name": "planted", "describe": False, **GOOD} | options
    found = wb.audit(models, held_out(), "blocks.*", **given)
    assert found.not_controlled == ["planted"]
    return found.subjects[0]


def finding(judgement: Judgement, check: str) -> Finding:
    return next(f for f in judgement.findings if f.check == check)


def outcomes(judgement: Judgement) -> dict[str, str]:
    return {f.check: f.outcome for f in judgement.findings if f.check in CHECKS}


def but(**differs: str) -> dict[str, str]:
    return dict.fromkeys(CHECKS, PASSES) | differs


def gain(block: int, factor: float) -> Callable[[Stack], object]:
    return lambda model: setattr(model.blocks[block], "gain", factor)


@pytest.fixture(scope="module")
def sound():
    """Without a defect: what every repair comes back to."""
    return judged()


def test_planted_sound_nets_hold(sound):
    """The ground on which every defect below is planted."""
    found = sound
    assert outcomes(found) == but()
    assert (found.verdict, found.decided_by, found.accuracy.n) == ("holds", ["depth"], len(SEEDS))
    assert (found.answer, found.symptoms) == ("holds at one rate", [])
    assert all(finding(found, check).basis == "exact" for check in CHECKS)
    spread = finding(found, "spread")
    assert (spread.value, spread.low, found.median_cosine) == pytest.approx((4.0, 4.0, 1.0), abs=1e-4)
    # However clear the lower half's gain is: without predictions the noise of the test samples is not known.
    assert (finding(found, "reach").low > 0.005, found.verdicts.lower_half) == (True, OPEN)
    assert "no predictions were recorded" in finding(found, "reach").says


# --- scale ----------------------------------------------------------------------------------------------------------


def test_planted_scaled_stream_fires_and_passes_after_the_repair():
    sick, well = judged(gain(2, 60.0)), judged(gain(2, 1.1))
    assert outcomes(sick) == but(scale=FIRES)
    assert (sick.verdict, sick.decided_by) == ("holds", ["depth"]), "a symptom explains and never decides"
    assert sick.symptoms == [finding(sick, "scale").says]
    assert "60" in finding(sick, "scale").says
    assert "on every seed (limit 50×)" in finding(sick, "scale").says
    assert finding(sick, "scale").value == pytest.approx(60, rel=0.01)
    assert outcomes(well) == but()
    assert well.symptoms == []
    assert finding(well, "scale").value == pytest.approx(1.1, rel=0.01)
    assert well.verdict == "holds"


def test_planted_growth_of_exactly_the_limit_passes_and_a_bit_more_fires():
    """A factor of 64 is exact in floating point: the measured growth is 64.0 and nothing else."""

    def change(model: Stack) -> None:
        model.blocks[1] = Times(64.0)

    at, below = (
        judged(change, credits=None, thresholds=DEFAULT.but("scale.growth", t)) for t in (64.0, math.nextafter(64.0, 0))
    )
    assert finding(at, "scale").value == finding(below, "scale").value == 64.0
    assert finding(at, "scale").outcome == PASSES
    assert finding(below, "scale").outcome == FIRES
    assert finding(judged(change, credits=None), "scale").stable_range == (None, 64.0)


def test_planted_block_that_explodes_and_one_that_shrinks_are_not_averaged():
    def change(model: Stack) -> None:
        model.blocks[1], model.blocks[2] = Times(128.0), Times(1 / 128)

    found = judged(change)
    assert outcomes(found)["scale"] == FIRES
    assert finding(found, "scale").value == 128.0


# --- the stream is not one, or not said to be -----------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.0, 60.0])
def test_planted_stream_that_is_not_said_to_be_one(factor):
    """What grows may be no stream, and is not accused; what is quiet may be a plain net that was quieter at init."""
    found = judged(gain(1, factor), residual=None)
    assert outcomes(found) == but(scale=OPEN)
    assert found.symptoms == []
    assert "it is not known whether the net is one" in finding(found, "scale").says


# --- reference ------------------------------------------------------------------------------------------------------


def lose(amount: float) -> Callable[[Stack], object]:
    return lambda model: setattr(model, "lost", amount)


def test_planted_gradient_that_is_noise_fires_and_passes_after_the_repair(sound):
    """Logits as a difference of huge numbers: float32 rounds them to multiples of 8, float64 does not."""
    sick, well = judged(lose(2.0**26)), sound
    assert outcomes(sick)["reference"] != PASSES
    assert sick.verdict == "holds", "an instrument's fault accuses nobody"
    assert sick.verdicts.gamma in ("not measurable", OPEN)
    assert finding(sick, "reference").value > 0.1
    assert "rounding to float32 turns its direction by " in finding(sick, "reference").says
    assert "not below the published floor" in finding(sick, "reference").says  # of a good size, and yet noise
    published = judged(lose(2.0**26), protocol="published", credits=None)
    assert finding(published, "reference").outcome == PASSES
    assert finding(well, "reference").outcome == PASSES
    assert finding(well, "reference").value < 1e-5


def test_planted_gradient_that_is_tiny_and_precise_passes_with_a_warning(sound):
    """Behind a LayerNorm ‖g_L‖ goes with 1/‖h‖: 1e8 leaves 1e-10, of which float32 knows every digit it has."""

    def change(model: Stack) -> None:
        model.embed.weight.mul_(1e8)
        model.embed.bias.mul_(1e8)

    ours, published = judged(change), judged(change, protocol="published", credits=None)
    assert finding(ours, "reference").outcome == PASSES
    assert finding(ours, "reference").value < 1e-5
    assert "below the published floor of 1e-07" in finding(ours, "reference").says
    (warning,) = finding(ours, "reference").warnings
    assert warning.startswith(f"{NAMED}: below the published floor.")
    assert "F.cosine_similarity clamps small norms, and would be off by" in warning
    assert "Neither a large stream nor a small loss explains it." in warning
    assert ours.verdict == "holds"
    assert finding(published, "reference").outcome == FIRES
    assert published.verdict == "walked back"
    assert finding(sound, "reference").warnings == []
    assert finding(judged(protocol="published", credits=None), "reference").outcome == PASSES


def test_planted_gradient_small_because_the_stream_is_large_says_so():
    found = judged(gain(3, 1e8))
    assert outcomes(found) == but(scale=FIRES)
    warnings = finding(found, "reference").warnings
    assert warnings
    assert all("It is small because the stream is large (at its end " in w for w in warnings)


def test_planted_gradient_of_exactly_zero_is_no_reference():
    found = judged(lambda model: model.head.weight.zero_())
    assert outcomes(found) == but(reference=FIRES)
    assert finding(found, "reference").says.startswith("The deepest gradient is exactly zero")
    assert finding(found, "reference").warnings[0] == f"{NAMED}: no precision, zero gradient"
    assert (found.verdict, found.verdicts.gamma) == ("holds", "not measurable")


# --- what is not finite ---------------------------------------------------------------------------------------------


def test_planted_nan_in_one_layer_is_open_and_named():
    def change(model: Stack) -> None:
        model.blocks[2].down.weight[0, 0] = math.nan

    found = judged([change if seed == 123 else lambda _: None for seed in SEEDS])
    assert found.verdicts.gamma == OPEN
    assert outcomes(found)["scale"] == OPEN
    assert "not settled in seed 123" in finding(found, "scale").says
    assert any(w.startswith("seed 123: the norm of h_3 is nan") for w in finding(found, "scale").warnings)
    assert "seed 123" in finding(found, "reference").says
    (note,) = (n for n in found.notes if "not seen" in n)
    assert note.startswith("seed 123: layers not seen: ")
    assert "blocks.2, blocks.3: not finite (hidden state)" in note
    assert finding(judged(change, credits=None), "scale").outcome == OPEN  # in every seed: still nobody is accused
    measured = judged(change, accuracy=None)  # a net that gives NaN is wrong on every sample
    assert (measured.accuracy.mean, measured.verdict) == (0.0, "walked back")


def test_planted_infinite_activations_are_open():
    """An overflow does not say by how much; what was measured before it does."""

    def overflow(model: Stack) -> None:
        model.blocks[2] = Times(1e39)

    def explode(model: Stack) -> None:
        model.blocks[1], model.blocks[2] = Times(1e38), Times(1e38)

    found = judged(overflow)
    assert found.symptoms == []
    assert finding(found, "scale").outcome == OPEN
    assert any("the norm of h_3 is inf, and is treated as not known" in w for w in finding(found, "scale").warnings)
    assert finding(judged(explode, credits=None), "scale").outcome == FIRES


# --- Γ --------------------------------------------------------------------------------------------------------------


def only(*blocks: int, other: Callable[[Tensor], Tensor]) -> Any:
    """Backprop's credit in some blocks, something else in the others."""

    def credits(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
        return [a if n in blocks else other(a) for n, a in enumerate(backprop(model, x, y))]

    return credits


def noise(a: Tensor) -> Tensor:
    return torch.randn(a.shape, generator=torch.Generator().manual_seed(len(a)))


@pytest.mark.parametrize("other", [noise, torch.zeros_like], ids=["noise", "zero"])
def test_planted_credit_in_one_block_of_four_is_seen_and_in_three_it_is_most(other):
    """Γ says how it is spread; it never changes the answer on accuracy."""
    sick, well = judged(credits=only(0, other=other)), judged(credits=only(0, 1, 3, other=other))
    assert outcomes(sick) == outcomes(well) == but()
    assert finding(sick, "spread").high < 2.5
    assert sick.verdicts.gamma != "even"
    assert finding(sick, "spread").value == pytest.approx(1, abs=0.3)
    assert finding(well, "spread").low > 2.5
    assert finding(well, "spread").value == pytest.approx(3, abs=0.3)
    assert sick.verdict == well.verdict == "holds"


def test_planted_three_blocks_aligned_and_one_opposed_are_not_even():
    """A block that points away counts against: N is (3 − 1)²/4 = 1."""
    opposed = judged(credits=only(0, 1, 3, other=torch.neg))
    assert finding(opposed, "spread").value == pytest.approx(1, abs=1e-3)
    assert opposed.verdicts.gamma != "even"


def test_planted_block_with_a_branch_of_exactly_zero_changes_nothing():
    def change(model: Stack) -> None:
        model.blocks[1].down.weight.zero_()

    found = judged(change)
    assert outcomes(found) == but()
    assert finding(found, "scale").value < 1.1


def test_planted_random_credit_lies_at_its_null():
    found = judged(credits=only(other=noise))
    assert outcomes(found) == but()
    assert abs(found.median_cosine) < 0.1
    assert finding(found, "chance").outcome != PASSES
    assert found.verdicts.gamma in ("chance", OPEN)


def test_planted_sign_flipped_credit_speaks_for_no_block():
    found = judged(credits=only(other=torch.neg), describe=True)
    assert outcomes(found) == but()
    assert (finding(found, "spread").value, found.median_cosine) == pytest.approx((0.0, -1.0), abs=1e-4)
    assert finding(found, "chance").outcome != PASSES
    assert found.verdicts.gamma in ("chance", OPEN)
    for values in found.described.rho.values():
        assert all(value < -0.9 for value in values)
    for values in found.described.nudging.values():
        assert all(value > 0 for value in values)


def test_planted_credit_saved_for_some_blocks_only_leaves_it_open():
    """Of the block that is known nothing is said alone: that would be another average."""

    def some(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor | None]:
        return [a if n == 1 else None for n, a in enumerate(backprop(model, x, y))]

    found = judged(credits=some)
    assert outcomes(found) == but()
    assert (found.verdicts.gamma, finding(found, "spread").value) == (OPEN, None)


def test_planted_credit_that_climbs_the_loss_on_a_few_samples_is_not_even():
    """+g on two thirds of the samples and −10 g on the rest: a mean of cosines sees no sizes."""

    def climbs(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
        factor = torch.where(torch.arange(len(x)) % 3 == 0, -10.0, 1.0).unsqueeze(1)
        return [a * factor for a in backprop(model, x, y)]

    found = judged(credits=climbs)
    assert found.median_cosine > 0.2
    assert found.verdicts.gamma == OPEN


# --- blocks that cannot be measured ---------------------------------------------------------------------------------


def share(model: Stack) -> None:
    model.blocks[2] = model.blocks[1]


def share_copies(model: Stack) -> None:
    model.blocks[2] = copy.deepcopy(model.blocks[1])


def skip_last(model: Stack) -> None:
    model.stages = [0, 1, 2]


def padded(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor | None]:
    known: list[Tensor | None] = list(backprop(model, x, y))
    return known + [None] * (DEPTH - len(known))


@pytest.mark.parametrize(
    ("sick", "well", "word"),
    [
        (share, share_copies, "blocks.1: called 2 times"),
        (skip_last, lambda _: None, "blocks.3: not reached"),
    ],
    ids=["reused", "never reached"],
)
def test_planted_block_that_cannot_be_measured_is_a_row_that_says_why(sick, well, word):
    found = judged(sick, credits=padded)
    assert found.verdicts.gamma == OPEN
    assert finding(found, "scale").outcome == OPEN
    assert any(word in note for note in found.notes)
    assert not any("4 of 4 blocks seen" in note for note in found.notes)
    repaired = judged(well)
    assert (outcomes(repaired), repaired.verdict) == (but(), "holds")
    assert not any("not seen" in note for note in repaired.notes)


# --- trained by an ordinary loop ------------------------------------------------------------------------------------


class Nets(NamedTuple):
    """Nets of one kind, and how well they do on the test data."""

    models: dict[int, nn.Module]
    accuracy: dict[int, float]


def mnist1d() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    data = wb.load_data("mnist1d")
    return data.train.inputs, data.train.labels, data.test.inputs, data.test.labels


def blobs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A task that embed and head solve alone: well separated clouds, one a class."""
    generator = torch.Generator().manual_seed(0)
    centres = 4 * torch.randn(10, 40, generator=generator)
    y = torch.randint(10, (1500,), generator=generator)
    x = centres[y] + torch.randn(1500, 40, generator=generator)
    return x[:1000], y[:1000], x[1000:], y[1000:]


def trained(
    data: tuple[Tensor, Tensor, Tensor, Tensor],
    how: str,
    epochs: int,
    change: Callable[[Stack], object] = lambda _: None,
) -> Nets:
    """An ordinary loop. how: bp; frozen or half (all blocks, or the lower one, stay at init); shallow (without them);
    flipped (blocks go up the gradient)."""
    inputs, labels, test, answers = data
    models: dict[int, nn.Module] = {}
    accuracy = {}
    for seed in SEEDS:
        model = stack(seed, change, inputs=40, width=40, depth=2, classes=10)
        model.stages = [] if how == "shallow" else model.stages
        model.blocks.requires_grad_(how not in ("frozen", "shallow"))
        model.blocks[0].requires_grad_(how not in ("frozen", "half", "shallow"))
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=8e-3)
        for _ in range(epochs):
            for batch in torch.randperm(len(inputs)).split(128):
                optimizer.zero_grad()
                F.cross_entropy(model(inputs[batch]), labels[batch]).backward()
                if how == "flipped":
                    for parameter in model.blocks.parameters():
                        parameter.grad.neg_()
                optimizer.step()
        with torch.no_grad():
            accuracy[seed] = (model(test).argmax(1) == answers).double().mean().item()
        models[seed] = model
    return Nets(models, accuracy)


@pytest.fixture(scope="module")
def hard():
    """MNIST-1D, where depth matters: nets by backprop, with all or the lower block frozen, and by a flipped credit."""
    data = mnist1d()
    return data, {how: trained(data, how, epochs=4) for how in ("bp", "frozen", "shallow", "flipped")}


def judge_trained(nets: Nets, data: tuple[Tensor, Tensor, Tensor, Tensor], **options: Any) -> Judgement:
    test = list(zip(data[2].split(100), data[3].split(100), strict=True))
    given = {"residual": True, "credits": backprop, "describe": False} | options
    return wb.audit(nets.models, test, "blocks.*", **given).subjects[0]


def baselines_of(nets: dict[str, Nets]) -> dict[str, Any]:
    """Those of a loop of backprop, by seed."""
    names = {"frozen": "frozen", "frozen_bp": "frozen", "shallow": "shallow", "bp": "bp"}
    return {name: nets[how].accuracy for name, how in names.items()}


def test_planted_healthy_net_by_backprop_holds(hard):
    data, nets = hard
    known = baselines_of(nets)
    found = judge_trained(nets["bp"], data, **known)
    assert outcomes(found) == but(), finding(found, "depth").says
    assert found.verdict == "holds"
    measured = sum(nets["bp"].accuracy.values()) / len(SEEDS)
    assert found.accuracy.mean == pytest.approx(measured)  # measured, as we measured it
    assert finding(found, "depth").value > 0.05
    # Without any one of the baselines it stays open: who passes must pass over all of them.
    for name in known:
        less = {key: value for key, value in known.items() if key != name}
        assert judge_trained(nets["bp"], data, credits=None, **less).verdict == OPEN, name


def test_planted_blocks_trained_the_wrong_way_are_walked_back_by_depth(hard):
    data, nets = hard
    known = baselines_of(nets)
    flipped = judge_trained(nets["flipped"], data, credits=only(other=torch.neg), **known)
    assert finding(flipped, "depth").outcome == FIRES
    assert (flipped.verdict, flipped.decided_by) == ("walked back", ["depth"])
    assert "where bp gains" in finding(flipped, "depth").says
    alone = judge_trained(nets["flipped"], data, credits=None, frozen=known["frozen"])
    assert finding(alone, "depth").outcome == OPEN
    assert "Not here: shallow, bp and frozen of bp" in finding(alone, "depth").says


def test_planted_blocks_of_exactly_zero_gain_nothing(hard):
    """A net whose blocks are zero and stay so is its own frozen net: the gain is 0 on every seed."""

    def empty(model: Stack) -> None:
        for block in model.blocks:
            block.down.weight.zero_()
            block.down.bias.zero_()

    data, nets = hard
    zero = trained(data, "frozen", epochs=2, change=empty)
    test = [(data[2], data[3])]
    assert all(torch.equal(m.states(data[2])[0], m.states(data[2])[-1]) for m in zero.models.values())
    known = baselines_of(nets) | {"frozen": zero.accuracy}
    found = wb.audit(zero.models, test, "blocks.*", residual=True, **known).subjects[0]
    depth = finding(found, "depth")
    frozen = depth.parts["frozen"]
    assert (depth.outcome, frozen.value, frozen.low, frozen.high) == (FIRES, 0.0, 0.0, 0.0)
    assert "every seed has the same gain; are they different trainings?" in depth.warnings
    assert finding(found, "scale").value == 1.0
    assert found.verdict == "walked back"
    repaired = judge_trained(nets["bp"], data, credits=None, **known)
    assert finding(repaired, "depth").outcome == PASSES


def test_planted_easy_task_holds_nobody_and_accuses_nobody():
    """No depth is needed: bp itself gains less than 2 points over its frozen net, and over no blocks at all."""
    data = blobs()
    easy = {how: trained(data, how, epochs=4) for how in ("bp", "frozen", "shallow")}
    assert min(easy["frozen"].accuracy.values()) > 0.97
    found = judge_trained(easy["bp"], data, **baselines_of(easy))
    assert outcomes(found) == but(depth=OPEN)
    assert found.verdict == OPEN
    assert "the task does not need this depth. Choose a harder task." in finding(found, "depth").says
    assert not finding(found, "depth").wants_seeds


def test_planted_one_block_has_no_lower_half_and_no_average():
    models = {seed: stack(seed, depth=1) for seed in SEEDS}
    known = {name: value for name, value in GOOD.items() if not name.startswith("half")}
    found = wb.audit(models, held_out(), "blocks.*", residual=True, credits=backprop, **known).subjects[0]
    assert (found.verdict, found.verdicts.lower_half) == ("holds", "not asked")
    assert "one block" in finding(found, "spread").says
