"""Evidence refuses what cannot be meant, keeps what is not finite, and is read from our own run folders."""

import math
from typing import Any, get_type_hints

import pytest
from msgspec import ValidationError

import made_up
from walkback.errors import RecordError
from walkback.records import (
    Baseline,
    DeepProbes,
    Evidence,
    IdentityRecord,
    Moment,
    Null,
    Precision,
    Record,
    Run,
    RunConfig,
    Snapshot,
    Subject,
    Training,
    Valued,
    evidence_of_runs,
)
from walkback.records.folder import Contents
from walkback.records.record import lists_of, parse
from walkback.records.schema import OutputProbes

NAN = math.nan
COSINE = made_up.cosine(0.5)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"accuracy": 61.5}, "a percentage"),
        ({"accuracy": -0.1}, "a share between 0 and 1"),
        ({"hidden_norms": [1.0, -2.0]}, "a size cannot be negative"),
        ({"gradient_at": {2: -1.0}}, "a size cannot be negative"),
        ({"hidden_norms": [1.0]}, "by hidden_norms the net has no blocks"),
        ({"hidden_norms": [1.0, 2.0], "cosine": [COSINE.as_dict()] * 2}, "hidden_norms means 1, cosine means 2"),
        ({"gradient_norms": [1.0, 2.0], "rho": [0.1] * 3}, "gradient_norms means 1, rho means 3"),
        ({"hidden_norms": [1.0, 2.0], "deepest_hidden": 2.0}, "deepest_hidden is for logs that do not state L"),
        ({"gradient_norms": [1.0, 2.0], "gradient_at": {1: 2.0}}, "gradient_at is for logs that do not state L"),
        ({"epoch": -1}, ">= 0"),
        ({"reference_batch": 0}, ">= 1"),
        ({"what": 1}, "unknown field `what`"),
    ],
)
def test_a_moment_that_cannot_be_is_refused(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        Moment.from_plain(fields)


def test_what_is_not_finite_is_kept_and_written_as_text() -> None:
    kept = Moment(accuracy=NAN, hidden_norms=[NAN, math.inf, None], loss=-math.inf, gamma=NAN)
    text = kept.text()
    assert '"accuracy":"NaN"' in text
    assert '"hidden_norms":["NaN","Infinity",null]' in text
    again = parse(Moment, text.encode(), "it")
    assert again.text() == text
    assert again.accuracy is not None
    assert math.isnan(again.accuracy)


def test_empty_lists_say_nothing() -> None:
    assert Moment(hidden_norms=[], gradient_at={}, cosine=[], null=[], rho=[]) == Moment()
    with pytest.raises(AttributeError, match="immutable"):
        Moment().epoch = 3  # type: ignore[misc]


def test_evidence_that_disagrees_with_itself_is_refused() -> None:
    two = Training(seed=1, moments=[Moment(hidden_norms=[1.0, 1.0, 1.0])])
    three = Training(seed=2, moments=[Moment(cosine=[COSINE] * 3)])
    with pytest.raises(ValueError, match="hidden_norms of seed 1, moment 0 means 2, cosine of seed 2"):
        Evidence(name="x", seeds=[two, three])
    with pytest.raises(ValueError, match="depth means 4, hidden_norms of seed 1, moment 0 means 2"):
        Evidence(name="x", depth=4, seeds=[two])
    with pytest.raises(ValueError, match="seed 1 is there twice"):
        Evidence(name="x", seeds=[two, two])
    with pytest.raises(ValueError, match="cannot have 0 blocks"):
        Evidence(name="x", depth=0)
    with pytest.raises(ValueError, match="baselines: thawed is not one of frozen"):
        Evidence(name="x", baselines={"thawed": Baseline.number(0.3)})  # type: ignore[dict-item]
    assert Evidence(name="x", seeds=[Training(moments=[Moment()]), three]).blocks == 3
    assert Evidence(name="x", depth=7).blocks == 7
    assert Evidence(name="x", seeds=[Training(moments=[Moment()])]).blocks is None
    seeds = [Training(seed=42), Training(), Training(moments=[Moment(epoch=1), Moment(epoch=2)])]
    evidence = Evidence(name="x", seeds=seeds)
    assert evidence.labels() == ["42", "?2", "?3"]
    assert [seed.final.epoch for seed in evidence.seeds] == [None, None, 2]


def test_baselines() -> None:
    assert Baseline.number(0.349).alone
    assert Baseline.by_seed({-1: 0.3, 2: None}).accuracy == {"-1": 0.3, "2": None}
    assert not Baseline.by_seed({1: 0.3}, typed=True).alone
    assert not Baseline(accuracy={"?": 0.3}).alone
    with pytest.raises(ValueError, match="cannot be combined with others"):
        Baseline(accuracy={"?": 0.3, "1": 0.3})
    with pytest.raises(ValueError, match="'one' is not"):
        Baseline(accuracy={"one": 0.3})
    with pytest.raises(ValueError, match="it is empty"):
        Baseline(accuracy={})
    with pytest.raises(ValueError, match="a percentage"):
        Baseline.number(34.9)


def test_records_of_precision_and_null() -> None:
    with pytest.raises(ValueError, match="negative"):
        Precision(chord=-1.0, clamped=0.0, samples=1, status="ok")
    with pytest.raises(ValueError, match="negative"):
        Null(mean=0.0, std=-1.0, n=20, kind="k")


# --- from run folders -----------------------------------------------------------------------------------------------


def config(**changes: Any) -> RunConfig:
    fields: dict[str, Any] = {
        "data": "mnist1d", "augment": False, "net": "resmlp", "net_options": {"depth": 2, "skip": True}, "rule": "dfa",
        "rule_options": {"normalize": "sample"}, "seed": 1, "epochs": 3, "batch_size": 128, "lr": 1e-3,
        "weight_decay": 0.0, "penalty": 0.0, "train_last": 2, "probe_images": 64,
    }  # fmt: skip
    return RunConfig(**fields | changes)


def snapshot(epoch: int, accuracy: float) -> Snapshot:
    return made_up.snapshot(epoch, accuracy, [1.0, 2.0, 3.0], [0.1, 0.2, 0.3], [0.5] * 2)


def run(
    accuracy: float = 0.5,
    status: str | None = "finished",
    notes: tuple[str, ...] = (),
    probes: DeepProbes | None = None,
    **changes: Any,
) -> Run:
    snapshots = [snapshot(0, 0.1), snapshot(3, accuracy)]
    made = made_up.run(config(**changes), snapshots, probes, status)
    return Run(made.path, made.config, None, made.result, Contents(snapshots, probes, notes))


BP = {"rule": "bp", "rule_options": {}}


def test_a_run_folder_is_evidence_of_everything_it_has() -> None:
    found = evidence_of_runs("dfa", [run(), run(0.6, seed=2)])
    assert (found.name, found.rule, found.depth, found.residual, found.classes) == ("dfa", "dfa", 2, True, 10)
    assert [seed.seed for seed in found.seeds] == [1, 2]
    assert [seed.ended for seed in found.seeds] == ["finished", "finished"]
    final = found.seeds[1].final
    assert (final.epoch, final.accuracy, final.loss, final.gamma, final.reference_batch) == (3, 0.6, 1.0, 0.5, 128)
    assert (final.hidden_norms, final.gradient_norms) == ([1.0, 2.0, 3.0], [0.1, 0.2, 0.3])
    assert final.cosine == final.cosine_out == [COSINE] * 2
    assert final.precision is None
    assert final.null is None
    assert len(found.seeds[0].moments) == 2
    assert found.baselines == {}
    assert found.notes == []


def test_what_was_measured_at_the_end_is_of_the_last_moment() -> None:
    null, good = Null(mean=0.0, std=0.1, n=20, kind="k"), Valued(value=0.5, status="ok")
    precise = Precision(chord=1e-7, clamped=0.0, samples=9, status="ok")
    probes = DeepProbes(
        step=30, images=64, precision=[precise.changed(chord=0.9)] * 2 + [precise], null=[null] * 2,
        null_out=[null] * 2, null_gamma=null, drift=Valued(value=NAN, status="not finite"), drift_batches=1,
        rho=[good, Valued(value=NAN, status="zero credit")], nudging=[good] * 2, functional_images=9,
    )  # fmt: skip
    first, last = evidence_of_runs("dfa", [run(probes=probes)]).seeds[0].moments
    assert (first.precision, first.null) == (None, None)
    assert (last.precision, last.null, last.null_out, last.null_gamma) == (precise, [null] * 2, [null] * 2, null)
    assert (last.drift, last.rho, last.nudging) == (None, [0.5, None], [0.5, 0.5])
    stale = evidence_of_runs("dfa", [run(probes=probes.changed(step=20))])
    assert stale.seeds[0].final.precision is None


def test_baselines_are_found_among_the_other_runs() -> None:
    others = [
        run(0.30, train_last=0),
        run(0.31, train_last=0, seed=2),
        run(0.35, train_last=0, **BP),
        run(0.70, **BP),
        run(0.60, train_last=1, **BP),  # its upper half
        run(0.99, train_last=0, epochs=9),  # another budget
        run(0.99, train_last=0, rule="fa"),  # another rule's
        run(0.99, penalty=0.1, **BP),
    ]
    found = evidence_of_runs("dfa", [run(), run(seed=2)], others)
    assert {name: b.accuracy for name, b in found.baselines.items()} == {
        "frozen": {"1": 0.30, "2": 0.31}, "frozen_bp": {"1": 0.35}, "bp": {"1": 0.70}, "half_bp": {"1": 0.60},
    }  # fmt: skip
    assert not any(b.typed for b in found.baselines.values())


def test_a_frozen_net_serves_every_penalty() -> None:
    """No block trains in it, so the penalty has nothing to act on: those of two λ are one net, seed by seed."""
    frozen = [
        run(0.30, train_last=0, penalty=0.5),
        run(0.31, train_last=0, seed=2),
        run(0.99, None, train_last=0, penalty=0.5, seed=2),  # not finished: gives way to the finished one
        run(0.35, train_last=0, penalty=0.5, **BP),
    ]
    for others in (frozen, frozen[::-1]):
        found = evidence_of_runs("dfa", [run(penalty=0.01), run(penalty=0.01, seed=2)], others)
        accuracies = {name: b.accuracy for name, b in found.baselines.items()}
        assert accuracies == {"frozen": {"1": 0.30, "2": 0.31}, "frozen_bp": {"1": 0.35}}
        assert found.notes == []


def test_the_task_is_told_by_bp_without_a_penalty() -> None:
    """Or by bp with the subject's own λ where that one gives no interval; never by a mixture, nor by another λ."""
    plain = [run(0.70, **BP), run(0.71, seed=2, **BP), run(0.72, seed=3, **BP)]
    own = [run(0.50 + seed / 100, seed=seed, penalty=0.1, **BP) for seed in (1, 2, 3, 4)]
    another = [run(0.99, seed=seed, penalty=0.01, **BP) for seed in (1, 2, 3, 4, 5)]

    def task(*others: Run) -> dict[str, float | None] | None:
        found = evidence_of_runs("dfa", [run(penalty=0.1)], others).baselines.get("bp")
        return None if found is None else found.accuracy

    assert task(*own, *another, *plain) == {"1": 0.70, "2": 0.71, "3": 0.72}
    assert task(*plain[:2], *own) == {"1": 0.70, "2": 0.71}
    assert task(*plain[:1], *own, *another) == {"1": 0.51, "2": 0.52, "3": 0.53, "4": 0.54}
    assert task(*plain[:1], *own[:1]) == {"1": 0.70}
    assert task(run(0.7, None, **BP), run(0.7, None, seed=2, **BP), *own[:2]) == {"1": 0.51, "2": 0.52}
    assert task(*another) is None


def test_bp_with_a_penalty_is_held_against_the_plain_one_which_is_its_own_measure_of_the_task() -> None:
    others = [run(0.35, train_last=0, **BP), run(0.70, **BP), run(0.71, seed=2, **BP)]
    found = evidence_of_runs("bp", [run(0.36, penalty=0.1, **BP), run(0.36, penalty=0.1, seed=2, **BP)], others)
    assert found.baselines["bp"].accuracy == {"1": 0.70, "2": 0.71}
    assert found.baselines["frozen"] == found.baselines["frozen_bp"]
    found = evidence_of_runs("bp", [run(0.7, **BP)], [run(0.35, train_last=0, **BP), run()])
    accuracies = {name: b.accuracy["1"] for name, b in found.baselines.items()}
    assert accuracies == {"bp": 0.7, "frozen": 0.35, "frozen_bp": 0.35}
    assert evidence_of_runs("frozen", [run(train_last=0)]).baselines == {}, "a frozen net is not its own baseline"


def test_baselines_may_be_given_outright() -> None:
    given = {"shallow": [run(0.2, net_options={"depth": 1, "skip": True})], "frozen": [run(0.3, train_last=0)]}
    found = evidence_of_runs("dfa", [run()], [run(0.1, train_last=0)], baselines=given)  # type: ignore[arg-type]
    assert found.baselines["shallow"].accuracy == {"1": 0.2}
    assert found.baselines["frozen"].accuracy == {"1": 0.3}
    assert Subject("dfa", runs=[run()], given={"frozen": Baseline.number(0.3)}).evidence.baselines["frozen"].typed
    with pytest.raises(RecordError, match="two runs of the baseline shallow have seed 1"):
        evidence_of_runs("dfa", [run()], baselines={"shallow": [run(), run(0.1)]})


def test_what_did_not_finish_is_said_and_its_accuracy_left_out_of_a_baseline() -> None:
    others = [run(0.3, status=None, train_last=0), run(0.3, status="diverged", train_last=0, seed=2)]
    found = evidence_of_runs("dfa", [run(status=None, notes=("torn",)), run(status="diverged", seed=2)], others)
    assert [seed.ended for seed in found.seeds] == ["stopped", "diverged"]
    assert found.baselines["frozen"].accuracy == {"1": None, "2": None}
    assert found.notes == [
        "seed 1: torn",
        "seed 1 is not finished; it is judged at its last snapshot",
        "the baseline frozen of seed 1 is not finished: its accuracy is left out",
        "the baseline frozen of seed 2 diverged: its accuracy is left out",
    ]


def test_runs_that_are_not_one_subject_are_refused() -> None:
    with pytest.raises(RecordError, match="no run is given for x"):
        evidence_of_runs("x", [])
    with pytest.raises(RecordError, match="differ in more than the seed"):
        evidence_of_runs("x", [run(), run(seed=2, epochs=9)])
    with pytest.raises(RecordError, match="have the same seed"):
        evidence_of_runs("x", [run(), run()])


def test_depth_and_residual_are_those_of_the_config() -> None:
    plain = evidence_of_runs("x", [run(net_options={"depth": 2, "skip": False})])
    assert plain.residual is False
    other = evidence_of_runs("x", [run(net="somebody's", net_options={}, blocks=2, residual=False)])
    assert (other.depth, other.residual) == (2, False)
    with pytest.raises(ValueError, match="blocks"):
        run(net="somebody's", net_options={})


@pytest.mark.parametrize("model", [Snapshot, DeepProbes, OutputProbes, IdentityRecord, Moment])
def test_every_list_of_a_net_states_whether_it_runs_over_its_states_or_its_blocks(model: type[Record]) -> None:
    """Its length is checked by that alone, in a record and against the config."""
    hints = {name: str(hint) for name, hint in get_type_hints(model).items()}
    assert {name for name, hint in hints.items() if "list[" in hint and "dict[" not in hint} == {*dict(lists_of(model))}
