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
from walkback.report.tables import Stat, Table
from walkback.train import plan
from walkback_paper import STUDIES, Extent, carry_out, draw, gather, nothing, tables
from walkback_paper import hero as hero_study
from walkback_paper.figures import curve, draw_steps, figure, save, style

ROOT = Path(__file__).parents[2]
EVERY = (
    "audit", "controls", "hero", "known", "ladder", "panel", "partial", "penalty", "scan", "schedule", "snapshot",
    "utility",
)  # fmt: skip
SMALL = Extent(quick=True, seeds=(42,), epochs=1, rules=("dfa",))


@pytest.fixture(scope="module")
def committed():
    """Every study with the committed records."""
    return {name: gather(STUDIES.get(name), Extent(), ROOT / "results") for name in EVERY}


@pytest.fixture(scope="module")
def committed_tables(committed):
    return [table for name, there in committed.items() for table in tables(STUDIES.get(name), there)]


# --- end to end -----------------------------------------------------------------------------------------------------


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
    kept = json.loads(
        (gather(STUDIES.get("ladder"), SMALL, root / "runs")["d256 bp k=0"][0].path / "identity.json").read_text()
    )
    assert (kept["schema"], kept["images"], len(kept["branch"])) == ("walkback.identity/1", 256, 4)
    before = {path: path.stat().st_mtime_ns for path in (root / "runs").rglob("*.json*")}
    words = ("study", "run", "hero", "--quick", "--seeds", "42,", "--epochs", "1", "--to", "again", "--jobs", "1")
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
    words = ["study", "run", "hero", "--quick", "--seeds", "42,", "--epochs", "1", "--jobs"]
    command = [sys.executable, "-c", "from walkback.cli import main; main()", *words, "2"]
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
    study, extent = STUDIES.get("hero"), Extent(quick=True, seeds=(42,), epochs=1)
    assert len(done) < len(study.configs(extent))
    assert gather(study, extent, tmp_path / "runs").gaps

    again = walkback(*words, "1", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert not gather(study, extent, tmp_path / "runs").gaps
    for folder, moment in done.items():
        assert (folder / "result.json").stat().st_mtime_ns == moment
        assert len(read_run(folder).environment.sittings) == 1
    for config in study.configs(extent):
        run = read_run(tmp_path / "runs" / config.folder())
        assert [s.epoch for s in run.snapshots] == [0, 1]


# --- what is not there ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_with_no_run_a_study_is_one_sentence_and_its_tables_and_figures_could_be_made(name, tmp_path):
    study, extent = STUDIES.get(name), Extent(quick=True)
    there = gather(study, extent, tmp_path)
    assert tables(study, there) == draw(study, there, tmp_path / "figures") == []
    assert nothing(study, there) == f"No run of {name} is finished: `walkback study run {name} --quick` trains them."
    console = Console(file=io.StringIO(), width=200)
    carry_out(dataclasses.replace(study, measure=None), extent, [tmp_path], tmp_path / "figures", console)
    assert console.file.getvalue().strip() == nothing(study, there)
    assert not (tmp_path / "figures").exists()
    if name == "known":  # its small loops take seconds: test_study_known.py
        return
    assert len(there.gaps) == sum(arm.count for arm in there.arms.values())
    notes = " ".join(note for table in study.tables(there) for note in table.notes)
    assert "not trained" in notes
    assert f"walkback study run {name} --quick` continues" in notes
    for make in study.figures.values():
        with style():
            assert "not trained" in make(there).texts[0].get_text()


def test_gaps_have_a_reason_and_what_diverged_is_judged_but_not_drawn(tmp_path):
    """In either order of the folders, the one that has a finished run is read."""
    study, extent = STUDIES.get("hero"), Extent(epochs=4)
    arms = {arm.name: arm for arm in study.arms(extent)}
    fine, diverged, partial = arms["dfa"].configs
    a, b = tmp_path / "a", tmp_path / "b"
    write_run(a, fine, accuracy=0.3)
    write_run(b, fine, status=None, until=1)
    write_run(a, diverged, status="diverged", until=2)
    write_run(a, partial, status=None, until=3)
    damaged = write_run(a, arms["bp"].configs[0])
    (damaged / "snapshots.jsonl").write_text("{torn\n{torn\n")
    there = gather(study, extent, b, a)
    assert there.gaps == gather(study, extent, a, b).gaps
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
    evidence, judgement = hero_study.subjects(there)["dfa"]
    assert [seed.ended for seed in evidence.seeds] == ["finished", "diverged"]
    assert judgement.verdict != "holds"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "laddr"], "did you mean ladder"),
        (["draw"], "no study is given"),
        (["table", "hero", "--seeds", "x"], "not a number"),
        (["run", "hero", "--quick", "--epochs", "0"], "epochs"),
        (["run", "hero", "--quick", "--jobs", "0"], "jobs"),
        (["draw", "hero", "--from", str(ROOT / "results"), "--to", "in the way"], "cannot write"),
    ],
)
def test_mistakes_are_told_without_a_traceback(words, told, tmp_path):
    (tmp_path / "in the way").write_text("a file")
    done = walkback("study", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


# --- what is declared -----------------------------------------------------------------------------------------------


def test_the_published_runs_are_declared_and_shared():
    """By the recipe: CIFAR-10, three seeds, 100 epochs (30 in the penalty grid and for d=512, 4 for the ViT)."""
    short = {"utility": ("dfa λ=0.01", "dfa frozen short", "bp short", "bp frozen short")}
    main = {c.hash() for c in plan(data="cifar10", rules=["bp", "fa", "dfa"], seeds=3)}
    for name in ("snapshot", "penalty", "partial", "hero", "ladder", "utility"):
        penalised = name in ("penalty", "partial")
        assert penalised or main <= {c.hash() for c in STUDIES.get(name).configs(Extent())}
        for arm in STUDIES.get(name).arms(Extent()):
            if arm.configs[0].net not in ("resmlp", "vit-mini"):
                continue  # the other nets of the paper: one seed, few epochs
            assert [c.seed for c in arm.configs] == [42, 123, 456]
            for c in arm.configs:
                thirty = c.net_options["width"] == 512 or penalised or arm.name in short.get(name, ())
                assert c.epochs == (4 if c.net == "vit-mini" else 30 if thirty else 100), (name, arm.name)
                assert (c.data, c.augment, c.batch_size, c.lr, c.weight_decay) == ("cifar10", True, 128, 1e-3, 0.01)


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


def test_a_table_as_csv_has_the_numbers_and_as_markdown_the_words():
    table = Table("t", "Title", ["rule", "accuracy"], [["a|b", Stat((0.5, 0.7))], ["dfa", None]], ["A note."])
    assert table.csv().splitlines() == [
        "rule,accuracy,accuracy std,accuracy n", f"a|b,0.6,{statistics.stdev([0.5, 0.7])!r},2", "dfa,,,0",
    ]  # fmt: skip
    assert "| a\\|b | 0.600 ± 0.141 |" in table.markdown()
    assert table.markdown().endswith("A note.")


def test_a_curve_over_seeds_is_the_mean_and_std_of_the_logarithm_and_what_is_no_number_is_a_gap(tmp_path):
    configs = plan(rules=["bp"], seeds=[1, 2], epochs=2)
    runs = [
        read_run(write_run(tmp_path, c, stream=s, gradient=0.0)) for c, s in zip(configs, (91.0, 9991.0), strict=True)
    ]
    found = curve(runs, lambda s: s.hidden_norms[-1], log=True)
    assert found.epochs == [0, 1, 2]
    assert found.middle[-1] == pytest.approx(1000)
    assert found.low[-1] == pytest.approx(10 ** (3 - 2**0.5))
    assert found.high[0] == found.low[0] == pytest.approx(9)
    assert curve(runs, lambda s: s.hidden_norms[-1], log=False).middle[-1] == pytest.approx((100 + 10000) / 2)
    assert all(v != v for v in curve(runs, lambda s: s.gradient_norms[0], log=True).middle)
    with style():
        axes = figure(3, 2).subplots()
        draw_steps(axes, [0, 1, 2], [Stat((1.0,)), None, Stat((float("nan"),))], hero_study.INKS["bp"])
        assert [y == y for y in axes.lines[0].get_ydata()] == [True, False, False]


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
    study, extent = STUDIES.get("snapshot"), Extent(seeds=(42,), epochs=8)
    (config,) = next(arm for arm in study.arms(extent) if arm.name == "dfa in ResMLP").configs
    write_run(tmp_path, config, stream=800.0, accuracy=0.8)
    fired, stopping, _ = study.tables(gather(study, extent, tmp_path))
    row = next(row for row in fired.rows if row[:2] == ["ResMLP", "DFA"])
    assert row[2:5] == ["5", "never", "not measured"]
    row = next(row for row in stopping.rows if row[:2] == ["ResMLP", "DFA"])
    assert [cell.values for cell in row[2:5]] == [(1 - 5 / 8,), (0.5,), (0.8,)]


def test_second_implementation_identity_sample_by_sample():
    generator = torch.Generator().manual_seed(0)
    h = [torch.randn(5, 3, generator=generator)]
    f = [0.1 * torch.randn(5, 3, generator=generator) for _ in range(2)]
    for branch in f:
        h.append(h[-1] + branch)

    def middle(values):
        return sorted(map(float, values))[2]

    branches, moved, cosine = identity(h, f)
    for found, branch, state in zip(branches, f, h, strict=False):
        assert found == pytest.approx(middle(a.norm() / b.norm() for a, b in zip(branch, state, strict=True)))
    pairs = list(zip(h[2], h[0], strict=True))
    assert moved == pytest.approx(middle((a - b).norm() / b.norm() for a, b in pairs))
    assert cosine == pytest.approx(middle(a @ b / a.norm() / b.norm() for a, b in pairs))


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


def test_golden_the_committed_tables_are_what_the_committed_records_give(committed_tables):
    """`walkback study table all --from results --format markdown --to docs/tables` writes these files."""
    written = {path.stem: path.read_text() for path in (ROOT / "docs/tables").glob("*.md")}
    for table in committed_tables:
        assert table.notes[-1].startswith("Thresholds walkback-3; trained with walkback 0.1.0, torch 2.13.0")
    assert written == {table.name: table.markdown() + "\n" for table in committed_tables}


@pytest.mark.latex
def test_the_latex_of_every_study_is_sound_and_compiles(committed_tables, tmp_path):
    pieces = [table.latex() for table in committed_tables]
    for piece in pieces:
        sound(piece)
    compiles(pieces, tmp_path)


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


def test_the_committed_figures_are_drawn_and_no_legend_is_cut_off(committed):
    """Each that shows something, and none of a study without runs. Levels are named in the legend, beside no line."""
    names = set()
    for study, there in ((STUDIES.get(each), there) for each, there in committed.items()):
        for name, make in study.figures.items() if there.every() else ():
            with style():
                fig = make(there)
                fig.draw_without_rendering()
            names.add(name)
            for legend in fig.legends:
                box = legend.get_window_extent()
                assert 0 <= box.x0 < box.x1 <= fig.bbox.x1, name
                assert all(axes.get_tightbbox().y1 <= box.y0 + 1 for axes in fig.axes), name
            if study.name == "snapshot":
                named = [text.get_text() for text in fig.legends[0].get_texts()]
                assert "published floor" in named
                if name == "snapshot":  # fa has runs with a terminal norm and none without: it is drawn, so it is named
                    assert {"BP", "FA", "DFA"} <= set(named)
                assert {text.get_text() for axes in fig.axes for text in axes.texts} <= {"no finished run"}
                floors = [line for axes in fig.axes for line in axes.lines if line.get_label() == "published floor"]
                assert {tuple(line.get_ydata()) for line in floors} == {(1e-7, 1e-7)}
    for kind in ("pdf", "png"):
        assert {path.stem for path in (ROOT / "docs/figures").glob(f"*.{kind}")} == names
