"""The studies: what they declare, what they say when runs are not there, and the whole of each in a small budget."""

import dataclasses
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console

from commands import walkback
from conftest import STUDIED
from fake_runs import write_run
from latex_sound import compiles, sound
from walkback.probes import identity
from walkback.records import read_run
from walkback.report.tables import Stat, Table, gain
from walkback.train import plan
from walkback_paper import STUDIES, Extent, carry_out, draw, gather, nothing, tables
from walkback_paper import hero as hero_study
from walkback_paper.figures import curve, draw_steps, figure, save, style
from walkback_paper.quantities import QUANTITIES
from walkback_paper.snapshot import _epochs, _stops

ROOT = Path(__file__).parents[2]
EVERY = (
    "audit", "controls", "hero", "known", "ladder", "panel", "partial", "penalty", "scan", "schedule", "snapshot",
    "utility",
)  # fmt: skip
SMALL = Extent(quick=True, seeds=(42,), epochs=1, rules=("dfa",))


# --- end to end -----------------------------------------------------------------------------------------------------


def test_every_study_is_there():
    assert sorted(STUDIES.names()) == list(EVERY)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in STUDIED else pytest.mark.slow) for name in EVERY]
)
def test_a_study_runs_from_the_command_line_to_its_figures_and_tables(request, name):
    root, said = request.getfixturevalue("carried_out" if name in STUDIED else "all_carried_out")
    study = STUDIES.get(name)
    there = gather(study, SMALL, root / "runs")
    assert not there.gaps
    for drawn in study.figures:
        for kind, head in (("pdf", b"%PDF"), ("png", b"\x89PNG")):
            assert (root / f"figures/quick/{drawn}.{kind}").read_bytes().startswith(head)
    for table in study.tables(there):
        assert table.title in said
        assert table.rows
        assert all(len(row) == len(table.headings) for row in table.rows)
        assert len(table.csv().splitlines()) == len(table.rows) + 1


def test_nothing_is_trained_twice(carried_out):
    """Studies share their runs by config; each was worked on in one sitting from its first step to its last."""
    root, _ = carried_out
    runs = [read_run(path) for path in sorted((root / "runs").iterdir()) if path.is_dir()]
    each = [STUDIES.get(name).configs(SMALL, root / "runs") for name in STUDIED]
    wanted = {config.hash() for configs in each for config in configs}
    assert {run.config.hash() for run in runs} == wanted
    assert len(runs) == len(wanted) < sum(map(len, each))
    for run in runs:
        (sitting,) = run.environment.sittings
        assert (sitting.from_step, sitting.to_step) == (0, run.result.steps)


def test_run_again_trains_nothing_and_says_the_same(carried_out):
    root, _ = carried_out
    before = {path: path.stat().st_mtime_ns for path in (root / "runs").rglob("*.json*")}
    words = ("study", "run", "hero", "--quick", "--seeds", "42,", "--epochs", "1", "--to", "again")
    done = walkback(*words, cwd=root)
    assert done.returncode == 0, done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in (root / "runs").rglob("*.json*")}
    assert (root / "again/hero.pdf").read_bytes() == (root / "figures/quick/hero.pdf").read_bytes()


def test_tables_need_records_alone(carried_out):
    """Exported records, without a checkpoint, in another folder: the same tables."""
    root, _ = carried_out
    assert not list((root / "results").rglob("*.safetensors"))
    for name in STUDIED:
        study = STUDIES.get(name)
        here, there = (gather(study, SMALL, root / place) for place in ("results", "runs"))
        for exported, own in zip(study.tables(here), study.tables(there), strict=True):
            assert exported.csv() == own.csv()


@pytest.mark.slow
def test_figures_need_records_alone(all_carried_out, tmp_path):
    root, _ = all_carried_out
    words = ("study", "draw", "all", "--quick", "--seeds", "42,", "--epochs", "1", "--rules", "dfa")
    done = walkback(*words, "--from", str(root / "results"), "--to", "drawn", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for path in (root / "figures/quick").glob("*.png"):
        assert (tmp_path / "drawn" / path.name).read_bytes() == path.read_bytes(), path.name


def test_killed_and_started_again_trains_nothing_twice(tmp_path):
    """SIGKILL, to the whole group, when some runs are done: those are not touched again, the others come to an end."""
    words = ["study", "run", "penalty", "--quick", "--seeds", "42,", "--epochs", "2", "--jobs", "2"]
    command = [sys.executable, "-c", "from walkback.cli import main; main()", *words]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob("runs/*/result.json"))) < 3:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = {path.parent: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/result.json")}
    study, extent = STUDIES.get("penalty"), Extent(quick=True, seeds=(42,), epochs=2)
    assert len(done) < len(study.configs(extent))
    assert gather(study, extent, tmp_path / "runs").gaps

    again = walkback(*words, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert not gather(study, extent, tmp_path / "runs").gaps
    for folder, moment in done.items():
        assert (folder / "result.json").stat().st_mtime_ns == moment
        assert len(read_run(folder).environment.sittings) == 1
    for config in study.configs(extent):
        run = read_run(tmp_path / "runs" / config.folder())
        assert [s.epoch for s in run.snapshots] == [0, 1, 2]


# --- what is not there ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in EVERY if name != "known"])  # its small loops: test_study_known.py
def test_with_no_run_at_all_everything_is_drawn_and_says_what_is_missing(name, tmp_path):
    (tmp_path / "runs").mkdir()
    study = STUDIES.get(name)
    there = gather(study, Extent(), tmp_path / "runs")
    assert len(there.gaps) == sum(arm.count for arm in there.arms.values())
    tables = study.tables(there)
    notes = " ".join(note for table in tables for note in table.notes)
    assert "not trained" in notes
    assert f"walkback study run {name}" in notes
    assert all(path.exists() for path in draw(study, there, tmp_path / "figures"))


def test_missing_diverged_partial_and_damaged_runs_are_gaps_with_a_reason(tmp_path):
    study, extent = STUDIES.get("hero"), Extent(epochs=4)
    arms = {arm.name: arm for arm in study.arms(extent)}
    fine, diverged, partial = arms["dfa"].configs
    write_run(tmp_path, fine, accuracy=0.3)
    write_run(tmp_path, diverged, status="diverged", until=2)
    write_run(tmp_path, partial, status=None, until=3)
    damaged = write_run(tmp_path, arms["bp"].configs[0])
    (damaged / "snapshots.jsonl").write_text("{torn\n{torn\n")
    there = gather(study, extent, tmp_path)
    assert there.accuracy("dfa") == {42: 0.3}
    why = {(gap.arm, gap.seed): gap.why for gap in there.gaps}
    assert why["dfa", 123] == "diverged at epoch 3: planted"
    assert why["dfa", 456] == "unfinished (3 of 4 epochs)"
    assert why["fa", 42] == "not trained"
    assert why["bp", 42].startswith("cannot be read")
    note = there.note("Words.")
    for words in ("diverged at epoch 3", "unfinished (3 of 4 epochs)", "not trained"):
        assert words in note
        assert any(words in line for table in study.tables(there) for line in table.notes)
    with style():
        fig = study.figures["hero"](there)
    said = " ".join(" ".join(text.get_text() for text in fig.texts).split())
    assert "diverged at epoch 3: planted: dfa (seed 123)" in said


def test_a_diverged_run_is_not_drawn_and_still_judged(tmp_path):
    """Two good seeds do not make a subject hold whose third diverged."""
    study, extent = STUDIES.get("hero"), Extent(epochs=1)
    arms = {arm.name: arm for arm in study.arms(extent)}
    for config in arms["fa"].configs[:2]:
        write_run(tmp_path, config)
    write_run(tmp_path, arms["fa"].configs[2], status="diverged", until=0)
    there = gather(study, extent, tmp_path)
    assert [run.config.seed for run in there["fa"]] == [42, 123]
    evidence, judgement = hero_study.subjects(there)["fa"]
    assert [seed.ended for seed in evidence.seeds] == ["finished", "finished", "diverged"]
    assert judgement.verdict != "holds"


def test_a_finished_run_is_found_in_whichever_folder_has_it(tmp_path):
    study, extent = STUDIES.get("hero"), Extent(seeds=(42,), epochs=2)
    config = next(arm for arm in study.arms(extent) if arm.name == "bp").configs[0]
    write_run(tmp_path / "a", config, status=None, until=1)
    write_run(tmp_path / "b", config, accuracy=0.6)
    for places in (("a", "b"), ("b", "a")):
        assert gather(study, extent, *(tmp_path / place for place in places)).accuracy("bp") == {42: 0.6}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "laddr"], "did you mean ladder"),
        (["draw"], "no study is given"),
        (["table", "hero", "--seeds", "x"], "not a number"),
        (["run", "hero", "--quick", "--epochs", "0"], "epochs"),
        (["run", "hero", "--quick", "--jobs", "0"], "jobs"),
    ],
)
def test_mistakes_are_told_without_a_traceback(words, told, tmp_path):
    done = walkback("study", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_figures_that_cannot_be_written_are_told(tmp_path):
    (tmp_path / "figures").write_text("a file is in the way")
    done = walkback("study", "draw", "hero", "--from", str(ROOT / "results"), cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "Remedy" in done.stderr


# --- what is declared -----------------------------------------------------------------------------------------------


def test_the_published_runs_are_declared():
    """By the recipe: CIFAR-10, three seeds, 100 epochs (30 in the penalty grid and for d=512, 4 for the ViT)."""
    short = {"utility": ("dfa λ=0.01", "dfa frozen short", "bp short", "bp frozen short")}
    epochs: dict[tuple[str, int], int] = {}
    for name in ("snapshot", "penalty", "partial", "hero", "ladder", "utility"):
        for arm in STUDIES.get(name).arms(Extent()):
            if arm.configs[0].net not in ("resmlp", "vit-mini"):
                continue  # the other nets of the paper: one seed, few epochs
            assert [c.seed for c in arm.configs] == [42, 123, 456]
            for c in arm.configs:
                wide, penalised = c.net_options["width"] == 512, name in ("penalty", "partial")
                thirty = wide or penalised or arm.name in short.get(name, ())
                assert c.epochs == (4 if c.net == "vit-mini" else 30 if thirty else 100), (name, arm.name)
                epochs[name, c.epochs] = epochs.get((name, c.epochs), 0) + 1
                assert (c.data, c.augment, c.batch_size, c.lr, c.weight_decay) == ("cifar10", True, 128, 1e-3, 0.01)
    assert epochs == {  # each of the budgets is really there
        ("snapshot", 100): 18, ("snapshot", 4): 6, ("penalty", 30): 36, ("partial", 30): 36, ("hero", 100): 30,
        ("ladder", 100): 45, ("ladder", 30): 27, ("utility", 100): 48, ("utility", 30): 12,
    }  # fmt: skip


def test_studies_share_the_main_audits_runs():
    main = {c.hash() for c in plan(data="cifar10", rules=["bp", "fa", "dfa"], seeds=3)}
    for name in ("snapshot", "hero", "ladder", "utility"):
        assert main <= {c.hash() for c in STUDIES.get(name).configs(Extent())}


def test_a_quick_study_is_the_same_story_on_embedded_data():
    for name in ("snapshot", "penalty", "partial", "hero", "ladder", "utility"):
        full, quick = (STUDIES.get(name).arms(Extent(quick=q)) for q in (False, True))
        assert [arm.name for arm in full] == [arm.name for arm in quick]
        for one, other in zip(full, quick, strict=True):
            for a, b in zip(one.configs, other.configs, strict=True):
                if a.net not in ("resmlp", "vit-mini"):
                    continue  # nets without one width
                assert (a.rule, a.net, a.penalty, a.net_options["depth"]) == (
                    b.rule, b.net, b.penalty, b.net_options["depth"],
                )  # fmt: skip
                assert (a.train_last, 2 * b.net_options["width"]) == (b.train_last, a.net_options["width"])
                assert b.data in ("mnist1d", "digits")


# --- the numbers ----------------------------------------------------------------------------------------------------


def test_a_curve_over_seeds_is_the_mean_and_std_of_the_logarithm(tmp_path):
    configs = plan(rules=["bp"], seeds=[1, 2], epochs=2)
    runs = [read_run(write_run(tmp_path, c, stream=s)) for c, s in zip(configs, (91.0, 9991.0), strict=True)]
    found = curve(runs, lambda s: s.hidden_norms[-1], log=True)
    assert found.epochs == [0, 1, 2]
    assert found.middle[-1] == pytest.approx(1000)
    assert found.low[-1] == pytest.approx(10 ** (3 - 2**0.5))
    assert found.high[0] == found.low[0] == pytest.approx(9)
    plain = curve(runs, lambda s: s.hidden_norms[-1], log=False)
    assert plain.middle[-1] == pytest.approx((100 + 10000) / 2)


def test_what_is_not_a_number_is_a_gap_in_a_curve(tmp_path):
    (config,) = plan(rules=["bp"], seeds=[1], epochs=2)
    run = read_run(write_run(tmp_path, config, gradient=0.0))
    assert all(v != v for v in curve([run], lambda s: s.gradient_norms[0], log=True).middle)
    assert curve([run], lambda s: s.gradient_norms[0], log=False).middle == [0, 0, 0]
    with style():
        fig = figure(3, 2)
        axes = fig.subplots()
        draw_steps(axes, [0, 1, 2], [Stat((1.0,)), None, Stat((float("nan"),))], hero_study.INKS["bp"])
        assert [y == y for y in axes.lines[0].get_ydata()] == [True, False, False]


def test_a_stat_tells_what_its_kind_asks_for():
    assert str(Stat((0.5, 0.6, 0.7))) == "0.600 ± 0.100"
    assert str(Stat((1e2, 1e4), "size")) == "1000 (100–1.0e+04)"
    assert str(Stat((0.1,), "points")) == "+10.0"
    assert str(Stat(())) == "–"
    assert str(Stat((float("nan"), 1.0))) == "not finite"
    added = gain([0.5, 0.6, 0.7], [0.4, 0.5, 0.6])
    assert added.mean == pytest.approx(0.1)
    assert added.interval == pytest.approx((0.1, 0.1))
    assert gain([0.5], [0.4]).interval is None


def test_a_table_as_csv_has_the_numbers_and_as_markdown_the_words():
    table = Table("t", "Title", ["rule", "accuracy"], [["a|b", Stat((0.5, 0.7))], ["dfa", None]], ["A note."])
    assert table.csv().splitlines() == [
        "rule,accuracy,accuracy std,accuracy n", f"a|b,0.6,{statistics.stdev([0.5, 0.7])!r},2", "dfa,,,0",
    ]  # fmt: skip
    assert "| a\\|b | 0.600 ± 0.141 |" in table.markdown()
    assert table.markdown().endswith("A note.")


def test_the_ladder_gains_are_paired_by_seed(tmp_path):
    study, extent = STUDIES.get("ladder"), Extent(seeds=(1, 2), epochs=1)
    arms = {arm.name: arm for arm in study.arms(extent)}
    for k, accuracies in ((0, (0.30, 0.20)), (1, (0.35, 0.27))):
        for config, accuracy in zip(arms[f"d256 fa k={k}"].configs, accuracies, strict=True):
            write_run(tmp_path, config, accuracy=accuracy)
    (ladder, _) = study.tables(gather(study, extent, tmp_path))
    row = next(row for row in ladder.rows if row[1:3] == ["FA", "1"])
    assert row[3].values == (0.35, 0.27)
    assert row[4].values == pytest.approx((0.05, 0.07))
    assert row[5] == "2"
    absent = next(row for row in ladder.rows if row[1:3] == ["FA", "2"])
    assert (absent[3], absent[4], absent[5]) == (None, None, "0 of 2")


def test_first_firings_and_what_stopping_there_saves(tmp_path):
    """Growth over one block first exceeds 50 where 9 + 800·epoch/8 > 450: at epoch 5; half of the accuracy is there."""
    (config,) = plan(rules=["dfa"], seeds=[42], epochs=8)
    run = read_run(write_run(tmp_path, config, stream=800.0, accuracy=0.8))
    from walkback.checks import first_fired
    from walkback.records import subjects_of_runs

    first = first_fired(subjects_of_runs([run])[0].evidence)
    assert _epochs(first["scale"]) == "5"
    assert _epochs(first["reference floor"]) == "never"
    assert _epochs(first["reference"]) == "not measured"
    assert _stops([run], first) == [(1 - 5 / 8, 0.5, 0.8)]


def test_identity_by_hand():
    """Second implementation: sample by sample, in Python's own arithmetic."""
    generator = torch.Generator().manual_seed(0)
    h = [torch.randn(5, 3, generator=generator)]
    f = []
    for _ in range(2):
        f.append(0.1 * torch.randn(5, 3, generator=generator))
        h.append(h[-1] + f[-1])

    def norm(v):
        return sum(x * x for x in v) ** 0.5

    def middle(values):
        return sorted(values)[2]

    rows = [[t.double().tolist() for t in (*h, *f)]]
    h0, h1, h2, f0, f1 = rows[0]
    branch, moved, cosine = identity(h, f)
    assert branch[0] == pytest.approx(middle(norm(a) / norm(b) for a, b in zip(f0, h0, strict=True)))
    assert branch[1] == pytest.approx(middle(norm(a) / norm(b) for a, b in zip(f1, h1, strict=True)))
    moves = [norm([x - y for x, y in zip(a, b, strict=True)]) / norm(b) for a, b in zip(h2, h0, strict=True)]
    assert moved == pytest.approx(middle(moves))
    cosines = [sum(x * y for x, y in zip(a, b, strict=True)) / norm(a) / norm(b) for a, b in zip(h2, h0, strict=True)]
    assert cosine == pytest.approx(middle(cosines))


def test_the_identity_is_kept_beside_the_frozen_runs(carried_out):
    root, _ = carried_out
    there = gather(STUDIES.get("ladder"), SMALL, root / "runs")
    (run,) = there["d256 bp k=0"]
    kept = json.loads((run.path / "identity.json").read_text())
    assert kept["schema"] == "walkback.identity/1"
    assert kept["images"] == 256
    assert len(kept["branch"]) == 4
    assert all(0 < ratio < 0.5 for ratio in kept["branch"])
    assert kept["cosine"] > 0.9


# --- how figures are kept -------------------------------------------------------------------------------------------


def test_a_figure_is_saved_twice_with_the_same_bytes_and_a_note_that_fits(tmp_path):
    with style():
        fig = figure(3.4, 2, "word " * 60)
        fig.subplots().plot([1, 2])
        one = [path.read_bytes() for path in save(fig, tmp_path / "one", "f")]
        two = [path.read_bytes() for path in save(fig, tmp_path / "two", "f")]
        note = fig.texts[0].get_window_extent(FigureCanvasAgg(fig).get_renderer())
    assert one == two
    assert note.x0 >= 0
    assert note.x1 <= fig.bbox.x1
    assert note.y1 <= fig.axes[0].get_tightbbox().y0 + 1


def test_golden_the_committed_tables_are_what_the_committed_records_give():
    """`walkback study table all --from results --format markdown --to docs/tables` writes these files."""
    written = {path.stem: path.read_text() for path in (ROOT / "docs/tables").glob("*.md")}
    given = {}
    for name in EVERY:
        study = STUDIES.get(name)
        there = gather(study, Extent(), ROOT / "results")
        trained = "; trained with walkback 0.1.0, torch 2.13.0"
        for table in tables(study, there):
            assert table.notes[-1].startswith(f"Thresholds walkback-3{trained}")
            given[table.name] = table.markdown() + "\n"
    assert written == given


@pytest.mark.latex
def test_the_latex_of_every_study_is_sound_and_compiles(tmp_path):
    pieces = [
        table.latex()
        for name in EVERY
        for table in tables(STUDIES.get(name), gather(STUDIES.get(name), Extent(), ROOT / "results"))
    ]
    for piece in pieces:
        sound(piece)
    compiles(pieces, tmp_path)


def test_the_committed_figures_are_those_of_the_studies():
    """Each that shows something, and none of a study without runs."""
    names = set()
    for study in map(STUDIES.get, EVERY):
        there = gather(study, Extent(), ROOT / "results")
        for name, make in study.figures.items() if there.every() else ():
            with style():
                names |= {name} if make(there) is not None else set()
    for kind in ("pdf", "png"):
        assert {path.stem for path in (ROOT / "docs/figures").glob(f"*.{kind}")} == names


@pytest.mark.parametrize("name", EVERY)
def test_a_study_without_runs_is_one_sentence(name, tmp_path):
    study, extent = STUDIES.get(name), Extent(quick=True)
    there = gather(study, extent, tmp_path)
    assert tables(study, there) == draw(study, there, tmp_path / "figures") == []
    assert nothing(study, there) == f"No run of {name} is finished: `walkback study run {name} --quick` trains them."
    console = Console(file=io.StringIO(), width=200)
    carry_out(dataclasses.replace(study, measure=None), extent, [tmp_path], tmp_path / "figures", console)
    assert console.file.getvalue().strip() == nothing(study, there)
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize("name", ["snapshot", "snapshot-vit", "architectures"])
def test_levels_are_named_by_the_legend_and_no_line_runs_through_words(name):
    study = STUDIES.get("snapshot")
    with style():
        fig = study.figures[name](gather(study, Extent(), ROOT / "results"))
        fig.draw_without_rendering()
    (legend,) = fig.legends
    named = [text.get_text() for text in legend.get_texts()]
    assert "published floor" in named
    if name == "snapshot":  # fa has runs with a terminal norm and none without: its line is drawn, so it is named
        assert {"BP", "FA", "DFA"} <= set(named)
    assert {text.get_text() for axes in fig.axes for text in axes.texts} <= {"no finished run"}
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= fig.bbox.x1
    assert all(axes.get_tightbbox().y1 <= box.y0 + 1 for axes in fig.axes)
    floors = [line for axes in fig.axes for line in axes.lines if line.get_label() == "published floor"]
    assert floors
    assert {tuple(line.get_ydata()) for line in floors} == {(1e-7, 1e-7)}


@pytest.mark.parametrize("name", ["ladder", "penalty", "schedule"])
def test_no_legend_is_cut_off(name):
    study = STUDIES.get(name)
    for make in study.figures.values():
        with style():
            fig = make(gather(study, Extent(), ROOT / "results"))
            fig.draw_without_rendering()
        for legend in fig.legends:
            box = legend.get_window_extent()
            assert 0 <= box.x0 < box.x1 <= fig.bbox.x1


def test_one_seed_is_drawn_hollow_and_captioned(tmp_path):
    study, extent = STUDIES.get("ladder"), Extent(seeds=(1, 2), epochs=1)
    arms = {arm.name: arm for arm in study.arms(extent)}
    for k in (0, 1):
        write_run(tmp_path, arms[f"d512 bp k={k}"].configs[0], accuracy=0.3)
        for config in arms[f"d256 bp k={k}"].configs:
            write_run(tmp_path, config, accuracy=0.3 + config.seed / 100)
    with style():
        fig = study.figures["ladder"](gather(study, extent, tmp_path))
    several, one = (axes.containers[0][0] for axes in fig.axes[:2])
    assert (several.get_markerfacecolor(), one.get_markerfacecolor()) == (hero_study.INKS["bp"].colour, "white")
    assert "One seed, hollow: d512 bp k=1; d512 bp k=0." in " ".join(fig.texts[0].get_text().split())


def test_quantities_are_declared_once_and_found_by_name():
    assert QUANTITIES.get("stream").axis == "‖h$_L$‖"
    assert QUANTITIES.get("accuracy").log is False
    assert len({QUANTITIES.get(name).symbol for name in QUANTITIES.names()}) == len(QUANTITIES.names())
