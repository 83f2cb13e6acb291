"""Nets of which only the upper half trains: found among runs, read from ladders, given for a model; no subjects."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

import walkback as wb
from report_material import config, write_run
from walkback.audits import audit_plan
from walkback.checks import judge, reach
from walkback.errors import BadValue
from walkback.records import Evidence, Run, evidence_of_log, half, read_run, subjects_of_runs


def trained(place: Path, rule: str, last: int, reaches: float, depth: int = 4, **changes: Any) -> list[Run]:
    """Three seeds of a net whose last blocks train."""
    configs = [config(rule, seed, depth=depth, train_last=last, **changes) for seed in (1, 2, 3)]
    return [read_run(write_run(place, c, 1.2, reaches, [0.9] * depth)) for c in configs]


def evidences(runs: list[Run]) -> list[Evidence]:
    return [subject.evidence for subject in subjects_of_runs(runs)]


def means(evidence: Evidence) -> dict[str, float]:
    return {
        name: sum(v for v in b.accuracy.values() if v is not None) / len(b.accuracy)
        for name, b in evidence.baselines.items()
    }


@pytest.mark.parametrize(("depth", "rung"), [(2, 1), (3, 2), (4, 2), (5, 3)])
def test_the_upper_half_is_found_by_its_config_and_is_no_subject(tmp_path: Path, depth: int, rung: int) -> None:
    assert half(depth) == rung
    runs = list(itertools.chain.from_iterable(
        trained(tmp_path, rule, last, reaches, depth)
        for rule, last, reaches in (
            ("fa", depth, 0.50), ("fa", rung, 0.45), ("fa", 0, 0.30), ("bp", depth, 0.62), ("bp", rung, 0.55),
        )
    ))  # fmt: skip
    found = {e.name: e for e in evidences(runs)}
    assert list(found) == ["fa", "bp"]
    for name, own in (("fa", 0.45), ("bp", 0.55)):
        assert means(found[name])["half"] == pytest.approx(own, abs=0.005)
        assert means(found[name])["half_bp"] == pytest.approx(0.55, abs=0.005)
        assert found[name].trained is None
        assert reach(found[name]).value == pytest.approx(0.05 if name == "fa" else 0.07, abs=0.01)


def test_other_rungs_and_rungs_alone_stay_subjects(tmp_path: Path) -> None:
    runs = [*trained(tmp_path, "fa", 4, 0.5), *trained(tmp_path, "fa", 3, 0.5), *trained(tmp_path, "bp", 2, 0.55)]
    found = {e.name: e for e in evidences(runs)}
    assert set(found) == {"fa", "fa k=3", "bp k=2"}
    assert found["fa k=3"].trained == 3
    assert "half" not in found["fa k=3"].baselines
    assert "half" not in found["fa"].baselines
    assert "half_bp" not in found["fa"].baselines  # bp's own full net is not there to hold it against
    finding = next(f for f in judge(found["fa"]).findings if f.check == "reach")
    assert finding.outcome == "open"
    assert "--train-last 2" in finding.says


def test_a_net_of_another_penalty_or_budget_is_not_its_upper_half(tmp_path: Path) -> None:
    runs = [
        *trained(tmp_path, "dfa", 4, 0.5, penalty=0.1), *trained(tmp_path, "dfa", 2, 0.3),
        *trained(tmp_path, "dfa", 2, 0.4, penalty=0.1, epochs=5),
    ]  # fmt: skip
    found = {e.trained: e for e in evidences(runs)}
    assert "half" not in found[None].baselines


def test_what_bps_lower_half_brings_is_shown_by_two_nets_of_one_penalty(tmp_path: Path) -> None:
    """bp with λ = 0.1 in both, and without a penalty in full only: the two that go together are taken, or neither."""
    runs = [
        *trained(tmp_path, "dfa", 4, 0.5, penalty=0.1), *trained(tmp_path, "bp", 4, 0.6),
        *trained(tmp_path, "bp", 2, 0.2, penalty=0.1),
    ]  # fmt: skip
    (subject,) = [e for e in evidences(runs) if e.rule == "dfa"]
    assert means(subject)["bp"] == pytest.approx(0.6, abs=0.005)
    assert "half_bp" not in subject.baselines
    more = [*runs, *trained(tmp_path, "bp", 2, 0.58)]
    (subject,) = [e for e in evidences(more) if e.rule == "dfa"]
    assert means(subject)["half_bp"] == pytest.approx(0.58, abs=0.005)


def test_an_audit_trains_the_rung_of_every_subject_and_of_bp_but_not_of_the_control() -> None:
    def rungs(**options: Any) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for c in audit_plan(["dfa"], seeds=1, data="mnist1d", epochs=1, **options):
            found.setdefault(c.label().split()[0] if "shallow" not in c.label() else "shallow", []).append(c.train_last)
        return found

    assert rungs() == {"dfa": [4, 2, 0], "bp": [4, 2, 0], "random": [4, 0], "shallow": [0]}
    assert rungs(net_options={"depth": 1}) == {"dfa": [1, 0], "bp": [1, 0], "random": [1, 0], "shallow": [0]}
    assert rungs(net_options={"depth": 3})["dfa"] == [3, 2, 0]


def ladder(*rungs: int, depth: int | None = 4) -> list[Evidence]:
    rungs_of = {
        method: {str(k): {str(seed): {"final_acc": 0.3 + 0.1 * k / 4 + seed / 1000} for seed in (1, 2)} for k in rungs}
        for method in ("bp", "dfa")
    }
    return evidence_of_log({"results": rungs_of} | ({} if depth is None else {"config": {"L": depth}}))


def test_a_ladder_in_a_log_brings_its_middle_rung() -> None:
    for each in (*ladder(0, 1, 2, 3, 4), *ladder(0, 1, 2, 3, 4, depth=None)):
        assert means(each)["half"] == means(each)["half_bp"] == pytest.approx(0.3515)
    for each in (*ladder(0, 1, 3, 4), *ladder(0, 1, depth=1)):
        assert "half" not in each.baselines
    assert [(e.trained, "half" in e.baselines) for e in ladder(0, 1, 2, 3)] == [(3, False), (3, False)]


def model(blocks: int, seed: int = 0) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(blocks + 1)), torch.nn.Linear(4, 2))


def test_a_model_may_bring_both() -> None:
    batches = [(torch.randn(16, 4), torch.randint(0, 2, (16,)))]
    own, bp = [0.6, 0.61, 0.605], [0.7, 0.71, 0.705]
    given = {"accuracy": own, "half": own, "bp": bp, "half_bp": [0.5, 0.62, 0.56]}
    names = [str(n) for n in range(1, 3)]
    models = [model(2, seed=seed) for seed in range(3)]
    found = wb.audit(models, batches, blocks=names, **given)
    finding = next(f for f in found.subjects[0].findings if f.check == "reach")
    assert finding.outcome == "open"  # bp's halves differ by +9 to +20 points: an interval from below 0
    found = wb.audit(models, batches, blocks=names, **given | {"half_bp": [0.6, 0.61, 0.605]})
    finding = next(f for f in found.subjects[0].findings if f.check == "reach")
    assert finding.outcome == "fires"
    with pytest.raises(BadValue, match="a net of one block has no lower half"):
        wb.audit(model(1), batches, blocks=["1"], half=0.5)
