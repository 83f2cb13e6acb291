"""The reproduction page: written from records made up here, so that what it must say is known beforehand."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from scipy.stats import ttest_ind

import made_up
from walkback.cli import app
from walkback.records import Environment, IdentityRecord, Run, Sitting, Snapshot, Valued, subject_of
from walkback.records.folder import Contents
from walkback.train import plan
from walkback_paper import Extent, studies
from walkback_paper.published import DATA, PUBLISHED, PublishedCell, compare, compare_layers, welch
from walkback_paper.reproduction import OurRuns, largest, page, row

SEEDS = (42, 123, 456)
HEALTHY = (9.0, 1.1, 4e-4)  # ‖h_0‖, growth of every block, ‖g_l‖
BLOWN = (9.0, 100.0, 1e-9)


def snapshot(
    depth: int, epoch: int, accuracy: float, net: tuple[float, float, float], cosines: list[float], seed: int
) -> Snapshot:
    first, grows, gradient = net
    return made_up.snapshot(
        epoch, accuracy, [first * grows**layer for layer in range(depth + 1)], [gradient] * (depth + 1), cosines,
        images=1024, step=epoch, loss=1.5 + seed / 1e6, branch_norms=[first] * depth,
    )  # fmt: skip


def made(
    rule: str, accuracy: float, seed: int = 42, *, net: tuple[float, float, float] = HEALTHY,
    course: Mapping[int, tuple[float, tuple[float, float, float]]] | None = None, cosines: list[float] | None = None,
    chord: float | None = 1e-6, clamped: float = 1e-7, identity: IdentityRecord | None = None,
    status: Any = "finished", says: str = "", **settings: Any,
) -> Run:  # fmt: skip
    """A run that ends with that accuracy and net; `course` gives other moments by epoch, `settings` as for `plan`."""
    config = plan(data="cifar10", rules=[rule], seeds=[seed], **{"epochs": 100} | settings)[0]
    depth = config.net_options["depth"]
    cosines = [0.5] * depth if cosines is None else cosines
    moments = {0: (0.1, HEALTHY), **(course or {}), config.epochs: (accuracy, net)}
    snapshots = [snapshot(depth, epoch, a, n, cosines, seed) for epoch, (a, n) in sorted(moments.items())]
    rho, nudging = ([Valued(value=value, status="ok")] * depth for value in (0.9, -0.1))
    deep = None if chord is None else made_up.probes(snapshots[-1], chord, clamped, rho=rho, nudging=nudging)
    sitting = Sitting(
        started="", ended="", from_step=0, to_step=1, seconds=600.0, walkback="", commit=None, python="", torch="9.9",
        platform="", cpu="", threads=1, device="cpu",
    )  # fmt: skip
    result = None if status is None else made_up.result(snapshots[-1], status, says)
    environment = Environment(data_fingerprint="", sittings=[sitting])
    return Run(
        Path("a-name-that-tells-nothing"), config, environment, result, Contents(snapshots, deep, identity=identity)
    )


def seeds(rule: str, *accuracy: float, **settings: Any) -> list[Run]:
    return [made(rule, a, seed, **settings) for a, seed in zip(accuracy, SEEDS, strict=False)]


MAIN = [
    *seeds("bp", 0.612, 0.616, 0.618), *seeds("fa", 0.500, 0.505, 0.510), *seeds("dfa", 0.300, 0.304, 0.310, net=BLOWN),
    *seeds("bp", 0.384, 0.386, 0.388, train_last=0), *seeds("fa", 0.370, 0.374, 0.378, train_last=0),
    *seeds("dfa", 0.347, 0.349, 0.352, train_last=0),
]  # fmt: skip


# The comparison


def claim(**fields: Any) -> PublishedCell:
    return PublishedCell("a cell", "bp", fields.pop("of", "accuracy"), **fields)


def test_second_implementation_welch_is_scipys():
    theirs, ours = [0.5851, 0.5845, 0.5863], [0.581, 0.584, 0.578]
    spread = float(numpy.std(theirs, ddof=1))
    interval = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert welch(float(numpy.mean(theirs)), spread, 3, ours) == pytest.approx(tuple(interval))


def test_closed_form_one_seed_of_ours_is_taken_to_spread_as_theirs():
    """t(2) = 4.3027; the difference of a mean of three and of one has the variance s² (1/3 + 1)."""
    half = 4.302653 * 0.009 * math.sqrt(4 / 3)
    assert welch(0.401, 0.009, 3, [0.447]) == pytest.approx((0.046 - half, 0.046 + half), rel=1e-5)


def test_property_three_standard_deviations_are_missed_one_time_in_three():
    """As the page says; by three seeds on either side. And equal means are told apart in at most 5 %."""
    draw = numpy.random.default_rng(0)

    def told_apart(shift: float) -> float:
        a, b = draw.normal(size=(400, 3)), draw.normal(shift, size=(400, 3))
        ends = [welch(float(x.mean()), float(x.std(ddof=1)), 3, y.tolist()) for x, y in zip(a, b, strict=True)]
        return sum(low > 0 or high < 0 for low, high in ends) / 400

    assert told_apart(0.0) < 0.06
    assert told_apart(3.0) == pytest.approx(2 / 3, abs=0.07)


@pytest.mark.parametrize(
    ("fields", "form", "ours", "text"),
    [
        ({"value": 0.615, "spread": 0.004}, "share", [0.612, 0.616, 0.618],
         "+0.0 points (-0.8 to +0.9): not told apart"),
        ({"value": 0.401, "spread": 0.009}, "share", [0.5, 0.505, 0.51], "+10.4 points (+8.6 to +12.2): told apart"),
        ({"value": 0.401, "spread": 0.009}, "share", [0.447], "+4.6 points (+0.1 to +9.1): told apart"),
        ({"value": 0.61, "spread": 0.007}, "share", [0.575, 0.59, 0.587], "-2.6 points (-4.3 to -0.9): told apart"),
        ({"value": 0.585}, "share", [0.59, 0.592], "+0.6 points"),
        ({"of": "Γ", "value": 0.25}, "cosine", [0.36, 0.38], "+0.120"),
        ({"value": 1e5}, "size", [1e4, 4e4], "a factor 5.0 below"),
        ({"value": 1.0}, "size", [2.04], "a factor 2.0 above"),
        ({"low": 4e8, "high": 5e8}, "size", [4.2e8], "inside"),
        ({"low": 4e8, "high": 5e8}, "size", [1e9], "a factor 2.0 above"),
        ({"value": 1.0}, "size", [0.0], "zero or not a number"),
        ({"most": 11}, "size", [0.9, 12.0], "not as published"),
        ({"least": 694}, "size", [700.0, 8000.0], "as published"),
        ({"of": "first D1", "each": [8, 11, 8]}, "share", [9, 10, 8], "+0.0 epochs (-3.5 to +3.5): not told apart"),
        ({"of": "first D1", "each": [8, 11, 8]}, "share", [9, math.inf], "not as published: not in 1 of 2 seeds"),
        ({"of": "first D1", "never": True}, "share", [math.inf] * 3, "as published"),
        ({"of": "first D1", "never": True}, "share", [math.inf, 7.0], "not as published"),
        ({"value": 0.37, "unlike": "one seed"}, "share", [0.394], "not comparable: one seed"),
        ({"value": 0.615, "spread": 0.004}, "share", [], "missing"),
        ({"value": 0.615, "spread": 0.004}, "share", [math.inf], "not as published: not in 1 of 1 seeds"),
    ],
)  # fmt: skip
def test_a_figure_is_compared_as_its_kind_asks(fields, form, ours, text):
    """The fourth's own intervals overlap (.593 to .627, ours .565 to .603): that of the difference decides."""
    assert compare(claim(**fields), form, ours).text == text


def test_a_list_is_compared_layer_by_layer():
    cosines = claim(of="cosines", value=[0.1, 0.9])
    assert compare_layers(cosines, "cosine", [[0.2, 0.2], [0.9, 0.7]]).text == "+0.100 -0.100"
    assert compare_layers(cosines, "cosine", [[], []]).text == "missing"
    assert compare_layers(claim(of="gradients", value=[1e-4, 1e-4]), "size", [[2e-4], [1e-4]]).text == "× 2.0 1.0"


# The page


def line(runs: list[Run], name: str) -> list[str]:
    """What the page says of a cell: published, ours, the comparison."""
    (found,) = [line for line in page(runs).splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in found.strip("|").split("|")][1:]


def test_every_cell_names_a_quantity_and_a_recipe_that_exist_and_without_runs_each_is_missing():
    assert len({cell.cell for cell in PUBLISHED}) == len(PUBLISHED) > 70
    for cell in PUBLISHED:
        assert cell.source
        assert row(OurRuns([]), cell).found.word == "missing", cell.cell
        kinds = [cell.value is not None, bool(cell.each), cell.low is not None, cell.never]
        kinds += [cell.least is not None or cell.most is not None]
        assert sum(kinds) == 1, cell.cell
        assert cell.spread is None or cell.seeds > 1
    assert line([], "EP, accuracy") == ["0.316 ± 0.037", "missing", "missing"]
    assert "The largest differences" not in page([])


def test_ours_stands_beside_what_is_published_whatever_the_order_and_a_copy_counts_once():
    found = line(MAIN, "BP, accuracy")
    assert found == ["0.615 ± 0.004", "0.615 ± 0.003", "+0.0 points (-0.8 to +0.9): not told apart"]
    assert line(MAIN, "FA over the DFA-trained frozen net")[:2] == ["+5.2", "+15.6 ± 0.3"]
    assert page(MAIN[::-1]) == page(MAIN)
    assert page([made("bp", 0.614, chord=None), made("bp", 0.614)]) == page([made("bp", 0.614)])


def test_runs_that_did_not_finish_are_left_out_and_named():
    runs = [made("bp", 0.614), made("bp", 0.2, 123, status=None),
            made("dfa", 0.1, status="diverged", says="diverged at 3")]  # fmt: skip
    text = page(runs)
    assert "Left out: bp, 100 epochs, seed 123 (unfinished); dfa, 100 epochs, seed 42 (diverged at 3)." in text
    assert line(runs, "BP, accuracy")[1] == "0.614 (n = 1)"
    assert line(runs, "DFA, accuracy")[1] == "missing"


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 99}, {"lr": 2e-3}, {"penalty": 0.5}, {"train_last": 3}, {"normalize": "batch"},
        {"net_options": {"width": 128}}, {"stop_when_fired": True},
    ],
    ids=str,
)  # fmt: skip
def test_runs_are_found_by_their_config_and_no_other_stands_in(settings: dict[str, Any]):
    runs = OurRuns([made("dfa", 0.3, **settings)])
    assert runs.of("dfa", {}, 100) == []


def test_a_shorter_budget_stands_in_only_where_the_cell_says_so_and_is_named():
    runs = [*seeds("ep", 0.58, 0.58, 0.59, epochs=30), *seeds("fa", 0.4, 0.4, 0.41, epochs=30)]
    assert line(runs, "EP, accuracy")[1] == "0.583 ± 0.006 (30 epochs)"
    assert line(runs, "FA, accuracy")[1] == "missing"
    assert line([*runs, made("ep", 0.31)], "EP, accuracy")[1] == "0.310 (n = 1)"


def test_gradients_are_stated_at_the_n_of_the_cell():
    """9e-7 in a mean over 2048 is 1.44e-5 in one over 128: a net with that gradient is as published."""
    penalised = {"epochs": 30, "penalty": 1e-2}
    name = "DFA, λ = .01, ‖g_L‖ at N = 2048"
    assert line([made("dfa", 0.36, net=(9.0, 2.0, 1.44e-5), **penalised)], name)[2] == "a factor 1.0 above"
    assert line([made("dfa", 0.36, net=(9.0, 2.0, 9e-7), **penalised)], name)[2] == "a factor 16 below"
    fa = [made("fa", 0.4, net=(9.0, 1.1, 7.12e-6))]
    assert line(fa, "FA, ‖g_L‖, if that is at N = 1024")[2] == "a factor 1.0 below"
    assert line(fa, "FA, ‖g_L‖")[2] == "a factor 8.0 above"


def test_d2_is_dated_at_both_n():
    """3e-7 at N = 128 is 3.75e-8 at N = 1024: below the floor of 1e-7 there alone."""
    between = (9.0, 1.1, 3e-7)
    runs = [
        made("dfa", 0.3, seed, net=BLOWN, course={date: (0.31, between), 20: (0.3, BLOWN)})
        for seed, date in zip(SEEDS, (4, 4, 3), strict=True)
    ]
    assert line(runs, "DFA, D2 first fires, at N = 128")[1] == "20 / 20 / 20"
    assert line(runs, "DFA, D2 first fires, at N = 1024 as the logs")[1:] == [
        "4 / 4 / 3", "+0.0 epochs (-1.3 to +1.3): not told apart"
    ]  # fmt: skip
    stopping = "stopping DFA at its first firing (N = 1024), "
    assert line(runs, f"{stopping}accuracy there over the end")[1] == "+1.0 ± 0.0"
    assert line(runs, f"{stopping}share of epochs saved")[1] == "0.963 ± 0.006"
    assert line(runs, "DFA, D1 first fires")[1] == "20 / 20 / 20"
    assert line(seeds("bp", 0.6, 0.6), "BP, D1 first fires")[1:] == ["never (n = 2)", "as published"]


@pytest.mark.parametrize(("chord", "word"), [(1e-6, "not as published"), (0.3, "as published"), (None, "missing")])
def test_small_or_noise_is_decided_by_the_chord(chord: float | None, word: str):
    """A small gradient is noise only if float32 has lost its direction, in every seed that measured it."""
    (cell,) = [cell for cell in PUBLISHED if cell.of == "chord"]
    runs = seeds("dfa", 0.3, 0.31, 0.30, net=BLOWN, chord=chord)
    assert row(OurRuns(runs), cell).found.word == word
    exact = made("dfa", 0.3, 456, net=BLOWN, chord=1e-6)
    assert row(OurRuns([*runs[:2], exact]), cell).found.word == "not as published"


def test_verdicts_are_those_of_the_published_protocol_against_the_dfa_trained_frozen_net():
    assert line(MAIN, "BP, verdict") == ["holds", "holds", "as published"]
    assert line(MAIN, "DFA, verdict") == ["D1, D2, D3 fire", "D1, D2, D3 fire", "as published"]
    assert line(MAIN, "FA, verdict") == ["D2 does not fire", "holds", "as published"]
    weak = [*MAIN, *seeds("ep", 0.35, 0.355, 0.351), *seeds("ep", 0.20, 0.21, 0.22, train_last=0)]
    assert line(weak, "EP, verdict")[1:] == ["D3 fires", "not as published"]  # 15 points over its own frozen net


def test_what_was_measured_at_init_is_read_from_the_frozen_net():
    identity = IdentityRecord(images=256, branch=[0.097, 0.098, 0.099, 0.102], moved=0.2, cosine=0.98)
    runs = [made("bp", 0.38, train_last=0, identity=identity), made("bp", 0.61)]
    assert line(runs, "‖f_l‖/‖h_l‖ at init")[1:] == ["0.097 0.098 0.099 0.102 (n = 1)", "+0.000 +0.000 +0.000 +0.002"]
    assert line(runs, "cos(h_L, h_0) at init")[1] == "0.980 (n = 1)"
    assert line(runs, "‖h_L‖ at init")[1] == "13 (n = 1)"  # 9 · 1.1⁴: the net at epoch 0


def test_the_largest_differences_are_two_accuracies_and_three_sizes_in_order():
    runs = [*MAIN, *seeds("cb", 0.1, 0.12, 0.11), *seeds("dfa", 0.33, 0.33, 0.33, net_options={"terminal_norm": False})]
    rows = largest([row(OurRuns(runs), cell) for cell in PUBLISHED if cell.title == "The main audit"])
    assert [r.cell.cell for r in rows[:2]] == ["Credit Bridge, accuracy", "FA, accuracy"]
    assert rows[2].cell.cell == "DFA without terminal norm, ‖h_L‖"
    assert [r.cell.of == "accuracy" for r in rows] == [True, True, False, False, False]
    fars = [r.found.far for r in rows]
    assert fars == sorted(fars[:2], reverse=True) + sorted(fars[2:], reverse=True)
    text = page(runs)
    assert text.count("\n- **") == 5
    assert "- **Credit Bridge, accuracy**: published 0.289 ± 0.031, ours 0.110 ± 0.010: -17.9 points" in text


def test_second_implementation_the_commands_train_all_that_the_page_compares():
    """Each command of the page is read by the command line's own parser; together they plan every run of a cell."""
    (block,) = re.findall(r"```console\n(.*?)```", page([]), re.S)
    planned: set[str] = set()
    declared = {subject_of(c) for study in studies() for c in study.configs(Extent())}
    for command in block.splitlines():
        words = command.split()[1:]
        if words[0] != "train":
            continue
        _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        asked = bound.arguments["recipe"]
        configs = plan(rules=asked.rules.split(","), train_last=bound.arguments.get("train_last"), **asked.settings())
        assert not {subject_of(config) for config in configs} & declared, command
        planned |= {subject_of(config) for config in configs}
    wanted = [(cell.rule, {"epochs": cell.epochs, **cell.set}) for cell in PUBLISHED]
    wanted += [(cell.over["rule"], {"epochs": cell.epochs, **cell.over}) for cell in PUBLISHED if cell.over]
    wanted += [(entry["rule"], entry["set"]) for entry in DATA["tried"]]
    for rule, settings in wanted:
        settings = {"data": "cifar10", "net_options": {}, **settings}
        settings.pop("rule", None)
        (config,) = plan(rules=[rule], seeds=[0], **settings)
        assert subject_of(config) in declared | planned, (rule, settings)
