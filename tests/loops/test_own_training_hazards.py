"""Loops that would fool an audit: frozen twins that move, noise that is not used, caches, copies, swapped blocks."""

import sys

import pytest
import torch

import own_loops as loops
from walkback.audits.user_training import find_job
from walkback.loops.job import Wanted
from walkback.loops.trainings import in_order


def trained(folder, train, who="subject", part="all", seed=42, make=loops.make_model):
    """The record of one training."""
    job = find_job(loops.test, "blocks.*", "loop", True, seed, None, make_model=make, train=train, epochs=1)
    return in_order(job, Wanted(who, part, seed), folder)


def test_bit_for_bit_a_frozen_twin_stays_at_init(tmp_path):
    record = trained(tmp_path, loops.train, part="frozen")
    assert (record.status, record.moved) == ("finished", [0, 0])
    assert record.elsewhere > 0
    half = trained(tmp_path, loops.train, part="half")
    assert half.moved[0] == 0 < half.moved[1]


@pytest.mark.parametrize(
    "train", [loops.ignores_flags, loops.decays_all, loops.swaps_blocks], ids=lambda train: train.__name__
)
@pytest.mark.parametrize("part", ["frozen", "half"])
def test_a_loop_that_moves_frozen_blocks_is_named(tmp_path, train, part):
    record = trained(tmp_path, train, part=part)
    assert record.status == "not frozen"
    assert "blocks.0.up.weight" in record.why
    assert "requires_grad" in record.why


def test_a_baseline_that_moved_is_not_used(tmp_path):
    """Blocks that move make a frozen twin better than chance: the audit must not take it for the baseline."""
    import walkback as wb

    options = {"train_bp": loops.train, "seeds": 2, "out": tmp_path, "reach": False, "say": None, "jobs": 1}
    audit = wb.audit_training(loops.make_model, loops.ignores_flags, loops.test, residual=True, **options)
    depth = next(f for f in audit.subjects[0].findings if f.check == "depth")
    assert (depth.outcome, depth.basis) == ("open", "bound"), "the shallow net alone shows nothing"
    assert "frozen" not in depth.parts
    assert any("the loop changed frozen parameters (blocks.0" in problem for problem in audit.problems)
    assert any("the baseline frozen is not used" in note for note in audit.subjects[0].notes)
    assert next(f for f in audit.subjects[1].findings if f.check == "depth").basis == "exact", "bp's own is sound"


def test_a_cache_by_seed_gives_the_twin_trained_blocks_and_is_noticed(tmp_path):
    loops.CACHE.clear()
    assert trained(tmp_path, loops.caches).status == "finished"
    assert trained(tmp_path, loops.caches, part="frozen").status == "not frozen"


def test_a_checkpoint_that_is_read_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = (trained(tmp_path, loops.reads_checkpoint, seed=seed) for seed in (42, 123))
    assert first.weights == second.weights, "which the evidence says: see test_seeds_that_agree_are_one_training"
    assert trained(tmp_path, loops.reads_checkpoint, part="frozen").status == "not frozen"


def test_a_cached_model_is_no_untrained_twin(tmp_path):
    """make_model gives back the trained net: its twin begins with other weights, and is no baseline."""
    import walkback as wb

    loops.MADE.clear()
    options = {"train_bp": None, "seeds": 1, "out": tmp_path, "reach": False, "say": None, "jobs": 1}
    audit = wb.audit_training(loops.cached_model, loops.train, loops.test, residual=True, **options)
    assert any("began with other weights" in note for note in audit.subjects[0].notes)


def test_weights_that_are_a_plain_attribute_cannot_be_frozen(tmp_path):
    assert trained(tmp_path, loops.train, part="frozen", make=loops.plain_model).status == "finished"
    record = trained(tmp_path, loops.moves_attribute, part="frozen", make=loops.plain_model)
    assert record.status == "not frozen"
    assert "plain attribute" in record.why


def test_running_statistics_may_move_and_are_noted(tmp_path):
    record = trained(tmp_path, loops.train, part="frozen", make=loops.normed_model)
    assert (record.status, record.moved) == ("finished", [0, 0])
    assert any("running statistics" in note for note in record.notes)


def test_feedback_that_learns_in_a_frozen_block_does_no_harm(tmp_path):
    """A buffer that takes no part in the forward pass may move."""

    def make(seed):
        model = loops.Net()
        model.blocks[0].register_buffer("feedback", torch.zeros(8))
        return model

    def train(model, seed):
        loops.train(model, seed)
        model.blocks[0].feedback += 1

    record = trained(tmp_path, train, part="frozen", make=make)
    assert record.status == "finished"
    assert any("blocks.0.feedback moved in frozen blocks and take no part" in note for note in record.notes)


@pytest.mark.parametrize(
    ("train", "way"),
    [
        (loops.train, "gradients"),
        (loops.by_hand, "gradients"),  # a hook on the tensor sees what autograd.grad returns
        (loops.fills_grad, "gradients"),
        (loops.without_autograd, "movements"),
        (loops.copy_and_load, "movements"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_noise_is_used_by_every_kind_of_loop(tmp_path, train, way):
    """What the blocks learn from noise does not go where the rule's own training goes."""
    record = trained(tmp_path, train, who="random")
    assert (record.status, record.noise) == ("finished", way)
    assert all(moved > 0 for moved in record.moved)
    subject = trained(tmp_path, train)
    assert record.weights != subject.weights
    assert record.init == subject.init


def test_noise_in_the_place_of_gradients_has_their_norm():
    from walkback.loops.noise import _like

    gradient = torch.randn(5, 7) * 3
    noise = _like(gradient, torch.Generator().manual_seed(0))
    assert torch.linalg.vector_norm(noise) == pytest.approx(float(torch.linalg.vector_norm(gradient)), rel=1e-5)
    assert not _like(torch.zeros(3), torch.Generator()).any()


def test_noise_that_nobody_used_is_known(tmp_path):
    """Hooks that fire in a backward pass whose gradients are thrown away prove nothing."""
    from walkback.loops.noise import noisy_gradients

    def looks_only(model, seed):
        loops.without_autograd(model, seed)
        for x, y in loops.batches(seed):
            torch.nn.functional.cross_entropy(model(x), y).backward()

    model = loops.make_model(0)
    blocks = {name: p for name, p in model.named_parameters() if name.startswith("blocks")}
    with noisy_gradients(blocks, 1) as noise:
        looks_only(model, 0)
    assert noise.sums["backward"], "it arrived"
    assert not noise.consumed(dict(model.named_parameters()))
    assert trained(tmp_path, looks_only, who="random").noise == "movements"


def test_noise_cannot_be_given_to_blocks_that_are_swapped(tmp_path):
    record = trained(tmp_path, loops.swaps_blocks, who="random")
    assert record.status == "failed"
    assert "new modules" in record.why


def test_a_loop_that_trains_its_head_alone_is_noted(tmp_path):
    record = trained(tmp_path, loops.head_only)
    assert record.moved == [0, 0]
    assert "train moved no parameter of any block" in record.notes


def test_weights_that_are_not_finite_are_a_divergence(tmp_path):
    record = trained(tmp_path, loops.diverges)
    assert (record.status, record.why) == ("diverged", "blocks.0.up.weight is not finite after training")
    assert record.accuracy == 0


def test_a_copy_that_is_loaded_back_is_an_honest_loop(tmp_path):
    direct, copied = trained(tmp_path, loops.train), trained(tmp_path, loops.copy_and_load)
    assert direct.weights == copied.weights
    assert trained(tmp_path, loops.copy_and_load, part="frozen").status == "finished"


def test_an_error_of_the_frozen_twin_says_what_is_different_there(tmp_path):
    def train(model, seed):
        torch.autograd.grad(model(loops.X[:8]).sum(), list(model.parameters()))

    record = trained(tmp_path, train, part="frozen")
    assert record.status == "failed"
    assert "requires_grad=False" in record.why
    assert "torch.autograd.grad(" in record.why


def test_one_training_is_a_function_of_its_seed(tmp_path):
    one, again, other = (trained(tmp_path, loops.train, seed=seed) for seed in (1, 1, 2))
    assert one.weights == again.weights != other.weights


def test_a_loop_that_ends_the_program_is_a_failed_training(tmp_path):
    def train(model, seed):
        loops.train(model, seed)
        sys.exit(0)

    record = trained(tmp_path, train)
    assert record.status == "failed"
    assert "train ends the program: SystemExit: 0" in record.why


def test_a_loop_that_changes_the_test_samples_changes_no_measurement(tmp_path):
    (x, y), plain = loops.test[0], trained(tmp_path, loops.train)
    given = [(x.clone(), y.clone())]

    def train(model, seed):
        given[0][0].zero_()
        given[0][1].zero_()
        loops.train(model, seed)

    job = find_job(given, "blocks.*", "loop", True, 42, None, make_model=loops.make_model, train=train, epochs=1)
    record = in_order(job, Wanted("subject", "all", 42), tmp_path)
    assert (record.accuracy, record.loss) == (plain.accuracy, plain.loss)
