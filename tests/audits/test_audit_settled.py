"""Audits that add seeds until they are settled, over run folders whose numbers the tests choose: nothing is trained."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import walkback as wb
from report_material import write_run
from walkback.audits import judge_paths, report_paths, rules_audit
from walkback.checks import DEFAULT, Audit
from walkback.checks.sequential import looks_of
from walkback.cli import app
from walkback.errors import BadValue, WalkbackError
from walkback.records import Moment, RunConfig, find_runs, read_run
from walkback.records.looks import read_looks
from walkback.report.page.reproduce import commands
from walkback.train import Event

LEARNED = [0.9] * 4
HIDDEN = [0.0, 0.0, 0.0, 0.9]
NOWHERE = [0.0] * 4
Gains = dict[str, tuple[float, float, float]]  # by rule: over its frozen net, of its lower half, and their spread

SHARP: Gains = {"bp": (0.2, 0.05, 0.001), "random": (-0.03, 0.0, 0.001), "dfa": (-0.03, 0.0, 0.001)}


class World:
    """What training would give. Accuracies are a function of the config; events and configs are kept."""

    def __init__(self, gains: Gains, cosines: dict[str, Any] | None = None, stops_after: int | None = None):
        self.gains, self.cosines, self.stops_after = gains, cosines or {}, stops_after
        self.trained: list[RunConfig] = []

    def accuracy(self, c: RunConfig) -> float:
        if not c.blocks:
            return 0.3
        over_frozen, lower, spread = self.gains[c.rule]
        noise = random.Random(f"{c.rule} {c.seed}").gauss(0, spread)
        half = random.Random(f"half {c.rule} {c.seed}").gauss(0, spread)
        own = 0.4 + over_frozen + noise
        own = own if c.train_last == c.blocks else own - lower - half
        return 0.4 if c.train_last == 0 else round(own, 4)  # of 10,000 test samples

    def train_all(self, configs, out, *, tell, **_):
        runs = []
        for index, c in enumerate(configs):
            if self.stops_after is not None and len(self.trained) >= self.stops_after:
                tell(Event(index, "stopped", says="stopped"))
                runs.append(None)
                continue
            path = Path(out) / c.folder()
            if not path.exists():
                self.trained.append(c)
                cosines = self.cosines.get(c.rule, LEARNED if c.rule == "bp" else NOWHERE)
                cosines = cosines(c.seed) if callable(cosines) else cosines
                write_exactly(Path(out), c, self.accuracy(c), cosines)
            tell(Event(index, "finished", says="finished"))
            runs.append(read_run(path))
        return runs

    def seeds(self, rule: str) -> int:
        return len({c.seed for c in self.trained if c.rule == rule and c.train_last == c.blocks > 0})


def write_exactly(out: Path, c: RunConfig, accuracy: float, cosines: list[float]) -> None:
    """A finished run whose last accuracy is that, to the digit."""
    path = write_run(out, c, 1.1, accuracy, cosines if c.blocks else [])
    run = read_run(path)
    last = run.snapshots[-1].changed(accuracy=accuracy)
    (path / "snapshots.jsonl").write_text("".join(s.text() + "\n" for s in [*run.snapshots[:-1], last]))
    (path / "result.json").write_text(run.result.changed(accuracy=accuracy).text())


@pytest.fixture
def audited(monkeypatch, tmp_path):
    """`audited(world, …)`: the audit, the lines that were said, and the configs that were expected."""
    monkeypatch.setattr(rules_audit, "_init", lambda *_: Moment())

    def run(world: World, rules=("dfa",), seeds: Any = "auto", out: Path = tmp_path / "runs", **options: Any):
        monkeypatch.setattr(rules_audit, "train_all", world.train_all)
        lines: list[str] = []
        expected: list[RunConfig] = []
        found = wb.audit_rules(
            list(rules), out=out, seeds=seeds, say=lines.append, expect=expected.extend, epochs=2, data="mnist1d-10k",
            net_options={"width": 8, "depth": 4}, **options,
        )  # fmt: skip
        return found, lines, expected

    return run


# --- who gets seeds -------------------------------------------------------------------------------------------------


def test_what_is_settled_by_three_seeds_gets_no_more(audited, tmp_path):
    world = World(SHARP)
    found, lines, expected = audited(world)
    assert found.valid, found.says
    assert {rule: world.seeds(rule) for rule in SHARP} == {"bp": 3, "random": 3, "dfa": 3}
    assert expected == world.trained
    assert lines == ["Settled: dfa (walked back, 3 seeds)."]
    assert Audit.read(tmp_path / "runs") == found


def test_only_what_is_undecided_gets_seeds_with_its_baselines(audited):
    world = World(SHARP | {"dfa": (0.0, 0.0, 0.015)})
    found, lines, _ = audited(world)
    n = world.seeds("dfa")
    assert n in (5, 8)
    assert (world.seeds("bp"), world.seeds("random")) == (n, 3)  # bp, with which it is compared, has as many
    counts = Counter((c.rule, c.train_last) for c in world.trained if c.blocks)
    assert counts["dfa", 4] == counts["dfa", 2] == counts["dfa", 0] == n
    assert counts["bp", 4] == counts["bp", 2] == counts["bp", 0] == n
    assert len({c.seed for c in world.trained if not c.blocks}) == n
    assert (found.subjects[0].verdict, found.subjects[0].accuracy.n) == ("walked back", n)
    assert lines[0].startswith("dfa, 3 seeds: depth is ")
    assert "would settle it" in lines[0]
    assert lines[-1].startswith(f"Settled: dfa (walked back, {n} seeds)")


@pytest.mark.parametrize("settings", [{"penalty": 0.1}, {"schedule": "constant"}])
def test_planted_a_subject_whose_name_is_not_its_rules_gets_seeds_too(audited, settings):
    """It is called "dfa λ=0.1"."""
    world = World(SHARP | {"dfa": (0.0, 0.0, 0.015)})
    found, lines, _ = audited(world, **settings)
    assert world.seeds("dfa") == world.seeds("bp") > 3
    assert found.subjects[0].verdict == "walked back"
    assert lines[-1].startswith(f"Settled: {found.subjects[0].name} (walked back")


def test_noise_gets_seeds_as_a_subject_and_none_as_a_control(audited, tmp_path):
    gains = SHARP | {"random": (0.0, 0.0, 0.015)}
    world = World(gains)
    found, _, _ = audited(world)
    assert world.seeds("random") == 3
    assert found.valid, found.says
    subject = World(gains)
    audited(subject, ["random"], out=tmp_path / "as a subject")
    assert subject.seeds("random") > 3


def test_noise_that_is_shown_to_gain_is_not_found_out(audited):
    """With three seeds nothing can hold; by its intervals it gains all the same, and the audit is invalid."""
    found, _, _ = audited(World(SHARP | {"random": (0.1, 0.0, 0.001)}))
    assert not found.valid
    assert "random: expected neither holds nor even, got it is shown to gain by depth" in found.says


def test_a_task_that_needs_no_depth_has_no_reference(audited):
    found, lines, _ = audited(World(dict.fromkeys(SHARP, (0.0, 0.0, 0.001))))
    assert not found.valid
    assert "bp: expected gains by depth, Γ even, got it gains " in found.says
    assert "dfa stays open, and more seeds would not settle it. " in lines[0]


def test_a_subject_that_beats_bp_makes_it_no_reference(audited):
    found, _, _ = audited(World(SHARP | {"bp": (0.15, 0.05, 0.001), "fa": (0.19, 0.05, 0.001)}), ["fa"])
    assert not found.valid
    assert "fa is better than bp by +" in found.says


def test_the_limit_ends_it_and_it_is_said_after_three_seeds(audited):
    """A margin at what is required: nothing settles it. Twelve seeds, no more, and told in time."""
    world = World(SHARP | {"dfa": (0.0195, -0.1, 0.02)}, {"dfa": LEARNED})
    found, lines, _ = audited(world, thresholds=DEFAULT.but("reach.margin", 0.9))
    assert found.subjects[0].verdict == "open"
    assert world.seeds("dfa") == 12
    told = [line for line in lines if line.startswith("dfa, 3 seeds: depth")]
    assert "more than --max-seeds 12" in told[0]
    assert "train longer (--epochs), test on more images, or raise --max-seeds" in told[0]
    assert lines[-1].endswith("; the limit of 12 seeds is reached.")


@pytest.mark.parametrize(("most", "expected"), [(3, 3), (4, 4), (7, 7), (14, 14)])
def test_a_limit_that_is_no_usual_look_is_the_last_look(audited, most, expected):
    world = World(SHARP | {"dfa": (0.0195, -0.1, 0.02)}, {"dfa": LEARNED})
    found, _, _ = audited(world, thresholds=DEFAULT.but("reach.margin", 0.9), max_seeds=most)
    assert world.seeds("dfa") == expected
    assert looks_of(found.thresholds)[-1] == most
    assert found.thresholds["depth.confidence"] == pytest.approx(1 - 0.05 / max(4, len(looks_of(found.thresholds))))


def test_gamma_gets_no_seeds_of_its_own(audited):
    """One seed of dfa has credit in all blocks and the others in one: Γ is open, and accuracy is settled."""
    world = World(SHARP, {"dfa": lambda seed: LEARNED if seed == 42 else HIDDEN})
    found, _, _ = audited(world)
    assert found.subjects[0].verdicts.gamma == "open"
    assert world.seeds("dfa") == 3


def test_what_gains_clearly_gets_the_five_seeds_that_it_takes_to_hold(audited):
    world = World(SHARP | {"fa": (0.1, 0.05, 0.001)}, {"fa": LEARNED})
    found, _, _ = audited(world, ["fa"])
    assert world.seeds("fa") == world.seeds("bp") == 5
    assert found.subjects[0].verdict == "holds"


def test_the_lower_half_gets_seeds_only_where_they_may_settle_it(audited, tmp_path):
    near = World(SHARP | {"fa": (0.1, 0.009, 0.006)}, {"fa": LEARNED})
    audited(near, ["fa"])
    assert near.seeds("fa") > 5
    hopeless = World(SHARP | {"fa": (0.1, 0.006, 0.02)}, {"fa": LEARNED})
    audited(hopeless, ["fa"], out=tmp_path / "hopeless")
    assert hopeless.seeds("fa") == 5


# --- the same answer, whenever it is asked --------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1, 20, 38, 41])
def test_killed_and_called_again_it_gives_the_same_answer(audited, tmp_path, after):
    gains = SHARP | {"dfa": (0.0, 0.0, 0.015), "random": (0.0, 0.0, 0.012)}
    whole, _, expected = audited(World(gains), out=tmp_path / "whole")
    assert after < len(expected)
    first = World(gains, stops_after=after)
    with pytest.raises(WalkbackError, match="runs did not finish"):
        audited(first)
    second = World(gains)
    again, _, _ = audited(second)
    assert again == whole
    assert len(first.trained) + len(second.trained) == len(expected)


def test_more_seeds_that_were_there_already_are_not_looked_at(audited, tmp_path):
    """Twelve seeds lie in the folder; the looks still begin with three."""
    gains = SHARP | {"dfa": (0.0, 0.0, 0.015)}
    fresh, _, _ = audited(World(gains), out=tmp_path / "fresh")
    audited(World(gains), seeds=12)
    found, _, _ = audited(World(gains))
    assert found == fresh


def test_judged_again_from_the_folder_it_is_the_same(audited, tmp_path):
    gains = SHARP | {"dfa": (0.0, 0.0, 0.015), "random": (0.0, 0.0, 0.012)}
    found, _, _ = audited(World(gains))
    again = judge_paths(tmp_path / "runs")
    assert (again.thresholds, again.controls) == (found.thresholds, found.controls)
    assert {s.name: s for s in again.subjects}["dfa"] == found.subjects[0]
    found = report_paths(tmp_path / "runs")
    (line,), unsaid = commands(found, found.cases, found.runs)
    assert unsaid in ([], ["probe_images=1024"])
    assert line[line.index("--seeds") : line.index("--seeds") + 4] == ["--seeds", "auto", "--max-seeds", "12"]


def test_an_unfinished_audit_is_judged_by_its_looks(audited, tmp_path):
    """Stopped by hand after a look that somebody liked: looks.json says so, and the intervals stay wide."""
    gains = SHARP | {"dfa": (0.0, 0.0, 0.015)}
    with pytest.raises(WalkbackError):
        audited(World(gains, stops_after=38))
    assert read_looks(tmp_path / "runs").looks == [3, 5, 8, 12]
    assert Audit.read(tmp_path / "runs") is None
    for given in (None, DEFAULT):
        found = judge_paths(tmp_path / "runs", thresholds=given)
        assert found.thresholds["depth.confidence"] == 0.9875
        assert "seeds auto up to 12" in found.thresholds.version


def test_exported_runs_take_the_looks_with_them(audited, tmp_path):
    audited(World(SHARP))
    app(("export", str(tmp_path / "runs"), "--to", str(tmp_path / "sent")), result_action="return_value")
    assert looks_of(judge_paths(tmp_path / "sent").thresholds) == (3, 5, 8, 12)


def test_every_number_of_seeds_that_follows_looks_is_a_look(audited, tmp_path):
    gains = SHARP | {"dfa": (0.0, 0.0, 0.015)}
    audited(World(gains))
    for seeds, looks in ((4, (3, 4, 5, 8, 12)), (6, (3, 4, 5, 6, 8, 12))):
        fixed, _, _ = audited(World(gains), seeds=seeds)
        assert looks_of(fixed.thresholds) == looks
        assert fixed.thresholds["depth.confidence"] == pytest.approx(1 - 0.05 / len(looks))
    assert looks_of(judge_paths(tmp_path / "runs").thresholds) == looks
    elsewhere, _, _ = audited(World(gains), seeds=4, out=tmp_path / "elsewhere")
    assert elsewhere.thresholds == DEFAULT


def test_a_limit_can_be_raised_to_12_and_beyond_the_intervals_widen(audited, tmp_path):
    """Up to four looks have the same intervals. A fifth changes them, whichever came first."""
    gains = SHARP | {"dfa": (0.0195, -0.1, 0.02)}
    how = {"thresholds": DEFAULT.but("reach.margin", 0.9)}
    straight, _, _ = audited(World(gains, {"dfa": LEARNED}), out=tmp_path / "straight", **how)
    audited(World(gains, {"dfa": LEARNED}), max_seeds=5, **how)
    raised, _, _ = audited(World(gains, {"dfa": LEARNED}), **how)
    assert raised == straight
    audited(World(gains, {"dfa": LEARNED}), out=tmp_path / "ten", max_seeds=10, **how)
    fifth, _, _ = audited(World(gains, {"dfa": LEARNED}), out=tmp_path / "ten", **how)
    assert looks_of(fifth.thresholds) == (3, 5, 8, 10, 12)
    beyond, _, _ = audited(World(gains, {"dfa": LEARNED}), max_seeds=14, **how)
    assert beyond.thresholds["depth.confidence"] == fifth.thresholds["depth.confidence"] == pytest.approx(0.99)
    assert Audit.read(tmp_path / "runs") == beyond


def test_a_fixed_number_of_seeds_has_no_looks(audited, tmp_path):
    found, lines, expected = audited(World(SHARP), seeds=4)
    assert lines == []
    assert (found.thresholds, found.subjects[0].accuracy.n) == (DEFAULT, 4)
    assert read_looks(tmp_path / "runs").looks == []
    assert len(find_runs(tmp_path / "runs")) == len(expected)


def test_the_published_protocol_has_no_interval_to_settle(audited):
    world = World(SHARP | {"dfa": (0.0, 0.0, 0.015)})
    found, _, _ = audited(world, protocol="published")
    assert world.seeds("dfa") == 3
    assert found.protocol == "published"


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("train", "--seeds", "auto"), "--seeds auto is for `walkback audit`"),
        (("study", "run", "ladder", "--seeds", "auto"), "--seeds auto is for `walkback audit`"),
        (("audit", "--seeds", "auto", "--max-seeds", "2"), "at most 2"),
        (("audit", "--seeds", "3", "--max-seeds", "5"), "give --seeds auto with --max-seeds"),
        (("simulate", "--trials", "0"), "give --trials 1 or more"),
    ],
)
def test_error_words_that_do_not_go_together(words, why):
    with pytest.raises(BadValue, match=why):
        app(words, result_action="return_value")


def test_an_open_finding_comes_with_the_seeds_it_would_take(audited, capsys):
    from rich.console import Console

    from walkback.report.audit_words import print_audit

    found, _, _ = audited(World(SHARP | {"dfa": (0.0, 0.0, 0.015)}), seeds=3)
    print_audit(found, Console(width=200))
    said = capsys.readouterr().out
    assert "seeds would settle it; there are 3" in said
