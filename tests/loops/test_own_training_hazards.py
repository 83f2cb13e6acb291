"""Loops that would fool an audit: frozen twins that move, noise that is not used, caches, copies, swapped blocks."""

import os
import sys
from pathlib import Path

import pytest
import torch

import own_loops as loops
from own_audits import audited, finding, trained
from walkback.loops.noise import _like, noisy_gradients

# --- blocks that are frozen -------------------------------------------------------------------------------------------


def test_bit_for_bit_a_frozen_twin_stays_at_init(tmp_path):
    record = trained(tmp_path, loops.train, part="frozen")
    assert (record.status, record.moved) == ("finished", [0, 0])
    assert record.elsewhere > 0
    half = trained(tmp_path, loops.train, part="half")
    assert half.moved[0] == 0 < half.moved[1]


def caches(model, seed):
    loops.CACHE.clear()
    loops.caches(loops.make_model(seed), seed)  # as the subject's own training left it
    loops.caches(model, seed)


def without_skipping(model, seed):
    torch.autograd.grad(model(loops.X[:8]).sum(), list(model.parameters()))


@pytest.mark.parametrize(
    ("train", "part", "status", "words"),
    [
        (loops.ignores_flags, "frozen", "not frozen", ["blocks.0.up.weight", "requires_grad"]),
        (loops.decays_all, "half", "not frozen", ["blocks.0.up.weight", "requires_grad"]),
        (loops.swaps_blocks, "frozen", "not frozen", ["blocks.0.up.weight", "requires_grad"]),
        (loops.swaps_blocks, "half", "not frozen", ["blocks.0.up.weight", "requires_grad"]),
        (caches, "frozen", "not frozen", ["frozen parameters"]),
        (loops.copy_and_load, "frozen", "finished", []),
        (without_skipping, "frozen", "failed", ["requires_grad=False", "torch.autograd.grad("]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_loop_that_moves_frozen_blocks_is_named(tmp_path, train, part, status, words):
    record = trained(tmp_path, train, part=part)
    assert record.status == status
    assert all(word in record.why for word in words), record.why


def test_a_baseline_that_moved_is_not_used(tmp_path):
    """Blocks that move make a frozen twin better than chance: the audit must not take it for the baseline."""
    audit = audited(tmp_path, loops.ignores_flags)
    depth = finding(audit)
    assert (depth.outcome, depth.basis) == ("open", "bound"), "the shallow net alone shows nothing"
    assert "frozen" not in depth.parts
    assert any("the loop changed frozen parameters (blocks.0" in problem for problem in audit.problems)
    assert any("the baseline frozen is not used" in note for note in audit.subjects[0].notes)
    assert finding(audit, subject=1).basis == "exact", "bp's own is sound"


def test_a_checkpoint_that_is_read_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = (trained(tmp_path, loops.reads_checkpoint, seed=seed) for seed in (42, 123))
    assert first.weights == second.weights, "which the evidence says: see test_seeds_that_agree_are_one_training"
    assert trained(tmp_path, loops.reads_checkpoint, part="frozen").status == "not frozen"


def test_a_cached_model_is_no_untrained_twin(tmp_path):
    """make_model gives back the trained net: its twin begins with other weights, and is no baseline."""
    loops.MADE.clear()
    audit = audited(tmp_path, loops.train, make=loops.cached_model, train_bp=None, seeds=1)
    assert any("began with other weights" in note for note in audit.subjects[0].notes)


def test_weights_that_are_a_plain_attribute_cannot_be_frozen(tmp_path):
    assert trained(tmp_path, loops.train, part="frozen", make=loops.plain_model).status == "finished"
    record = trained(tmp_path, loops.moves_attribute, part="frozen", make=loops.plain_model)
    assert record.status == "not frozen"
    assert "plain attribute" in record.why


def with_feedback(seed):
    model = loops.Net()
    model.blocks[0].register_buffer("feedback", torch.zeros(8))
    return model


def learns_feedback(model, seed):
    loops.train(model, seed)
    model.blocks[0].feedback += 1


@pytest.mark.parametrize(
    ("train", "make", "words"),
    [
        (loops.train, loops.normed_model, "running statistics"),
        (learns_feedback, with_feedback, "blocks.0.feedback moved in frozen blocks and take no part"),
    ],
    ids=["running statistics", "feedback that learns"],
)
def test_what_is_no_learning_may_move_in_a_frozen_block_and_is_noted(tmp_path, train, make, words):
    record = trained(tmp_path, train, part="frozen", make=make)
    assert (record.status, record.moved) == ("finished", [0, 0])
    assert any(words in note for note in record.notes)


# --- noise ------------------------------------------------------------------------------------------------------------


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
    gradient = torch.randn(5, 7) * 3
    noise = _like(gradient, torch.Generator().manual_seed(0))
    assert torch.linalg.vector_norm(noise) == pytest.approx(float(torch.linalg.vector_norm(gradient)), rel=1e-5)
    assert not _like(torch.zeros(3), torch.Generator()).any()


def test_noise_that_nobody_used_is_known(tmp_path):
    """Hooks that fire in a backward pass whose gradients are thrown away prove nothing."""

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


# --- what a loop does -------------------------------------------------------------------------------------------------


def test_one_training_is_a_function_of_its_seed_and_a_copy_that_is_loaded_back_is_honest(tmp_path):
    one, other = (trained(tmp_path, loops.train, seed=seed) for seed in (1, 2))
    assert one.weights == trained(tmp_path, loops.train, seed=1).weights != other.weights
    assert one.weights == trained(tmp_path, loops.copy_and_load, seed=1).weights


def exits(model, seed):
    loops.train(model, seed)
    sys.exit(0)


@pytest.mark.parametrize(
    ("train", "status", "why", "note"),
    [
        (loops.head_only, "finished", "", "train moved no parameter of any block"),
        (loops.diverges, "diverged", "blocks.0.up.weight is not finite after training", ""),
        (exits, "failed", "train ends the program: SystemExit: 0", ""),
    ],
)
def test_how_it_ended_is_recorded(tmp_path, train, status, why, note):
    record = trained(tmp_path, train)
    assert record.status == status
    assert why in record.why
    assert not note or note in record.notes
    assert record.accuracy == {"diverged": 0, "failed": None}.get(status, record.accuracy)


def test_a_loop_that_changes_the_test_samples_changes_no_measurement(tmp_path):
    (x, y), plain = loops.test[0], trained(tmp_path, loops.train)
    given = [(x.clone(), y.clone())]

    def train(model, seed):
        given[0][0].zero_()
        given[0][1].zero_()
        loops.train(model, seed)

    record = trained(tmp_path, train, test=given)
    assert (record.accuracy, record.loss) == (plain.accuracy, plain.loss)


def test_a_loop_that_changes_the_folder_leaves_its_record_where_it_belongs(tmp_path, monkeypatch):
    def train(model, seed):
        os.chdir("/")
        loops.train(model, seed)

    monkeypatch.chdir(tmp_path)
    record = trained(Path("runs"), train)
    assert (tmp_path / "runs" / record.folder() / "training.json").exists()
    assert Path.cwd() == tmp_path
