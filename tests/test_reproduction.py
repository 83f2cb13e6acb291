"""The reproduction page: written from records made up here, so that what it must say is known beforehand."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import made_up
from walkback.cli import app
from walkback.records import Environment, IdentityRecord, ReadingRecord, Run, Sitting, Snapshot, Valued
from walkback.records.training import Contents
from walkback.train import plan
from walkback_paper import Extent, studies
from walkback_paper import published as paper
from walkback_paper.agreement import of_direction, of_range, of_size, of_spread
from walkback_paper.reproduced import claims
from walkback_paper.reproduced.commands import to_continue
from walkback_paper.reproduced.found import EP32, FA, METHODS, SCALED, Found
from walkback_paper.reproduced.layers import Small, noise_said
from walkback_paper.reproduced.statements import depth_against, noise
from walkback_paper.reproduced.words import Writer
from walkback_paper.reproduction import SECTIONS, page

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


def section(runs: list[Run], title: str) -> str:
    return page(runs).partition(f"\n## {title}")[2].partition("\n## ")[0]


def run_with(runs: list[Run]) -> str:
    """The commands that trained what is there."""
    return page(runs).partition("```console\n")[2].partition("```")[0]


def continued(runs: list[Run]) -> str:
    """The commands that train what is missing."""
    return page(runs).partition("What trains the runs that are missing here:")[2].partition("```\n\n")[0]


def row(text: str, name: str) -> list[str]:
    """The cells of the line that begins with that name."""
    lines = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    assert len(lines) == 1, (name, text)
    return [cell.strip() for cell in lines[0].strip("|").split("|")]


MAIN = [
    *seeds("bp", 0.612, 0.616, 0.618), *seeds("fa", 0.500, 0.505, 0.510), *seeds("dfa", 0.300, 0.304, 0.310, net=BLOWN),
    *seeds("bp", 0.384, 0.386, 0.388, train_last=0), *seeds("fa", 0.370, 0.374, 0.378, train_last=0),
    *seeds("dfa", 0.347, 0.349, 0.352, train_last=0),
]  # fmt: skip


# Nothing, one seed, three seeds


def test_without_runs_everything_is_missing_and_the_published_figures_stand():
    text = page([])
    assert "No run that this page asks for is there." in text
    assert row(section([], "Accuracy"), "BP") == ["BP", "0.615 ± 0.004", "0.613", "missing", "0", "missing"]
    for name, claim in (("EP", "0.316 ± 0.037"), ("Credit Bridge", "0.289 ± 0.031"), ("State Bridge", "0.205 ± 0.039")):
        assert row(section([], "Accuracy"), name) == [name, claim, "–", "missing", "0", "missing"]
    assert "FA: no seed is there with two settings" in text
    assert "nan" not in text.lower()
    for kind in ("Agree", "Differ", "inside", "outside", "confirmed"):
        assert f"**{kind}**" not in text


def test_one_seed_is_held_against_one_more_published_seed():
    text = section([made("bp", 0.614), made("fa", 0.447)], "Accuracy")
    # mean ± 4.303·std·√(4/3): .615 ± .0199 and .401 ± .0447
    assert row(text, "BP")[3:] == ["0.614", "1", "one seed: inside 0.595 to 0.635"]
    assert row(text, "FA")[3:] == ["0.447", "1", "one seed: outside 0.356 to 0.446"]


def test_three_seeds_agree_or_differ_by_their_intervals():
    text = section(MAIN, "Accuracy")
    # published .615 ± 4.303·.004/√3 = .605 … .625; ours .61533 ± 4.303·.003055/√3
    assert row(text, "BP")[3:] == ["0.615 ± 0.003", "3", "not told apart: 0.605 to 0.625, ours 0.608 to 0.623"]
    assert row(text, "FA")[3:] == ["0.505 ± 0.005", "3", "differ: 0.379 to 0.423, ours 0.493 to 0.517"]
    short = section(MAIN, "In short")
    assert "- **Not told apart** (intervals overlap): BP accuracy; DFA accuracy; DFA k = 0 accuracy" in short
    assert "- **Differ** (intervals do not overlap): FA accuracy" in short
    assert "BP 3, FA 3, EP 0, EP in float32 0, DFA 3, Credit Bridge 0, State Bridge 0." in short


def test_an_agreement_by_width_alone_says_so():
    told = of_spread(paper.MeanStd(0.401, 0.009), [0.447, 0.479])
    assert told.kind == "not told apart"
    assert "our mean lies outside the published interval" in told.words
    short = section([made("fa", 0.447), made("fa", 0.479, 123)], "In short")
    assert "FA accuracy (our mean lies outside the published interval)" in short


# What is missing, and what cannot be used


def test_a_missing_cell_is_named_and_the_others_stay():
    runs = [run for run in MAIN if not (run.config.rule == "fa" and run.config.train_last == 0)]
    text = section(runs, "Which frozen net")
    assert row(text, "ours, its own, FA-trained frozen net")[1:4] == ["missing", "missing", "0"]
    assert row(text, "ours, the DFA-trained frozen net")[3] == "3"
    assert row(section(runs, "Accuracy"), "FA k = 0")[3] == "missing"


def test_runs_that_did_not_finish_are_left_out_and_named():
    runs = [
        made("bp", 0.614), made("bp", 0.2, 123, status=None), made("dfa", 0.1, status="diverged", says="diverged at 3"),
    ]  # fmt: skip
    text = page(runs)
    assert "bp in ResMLP d = 256, L = 4, 100 epochs, seed 123 (unfinished, 1 of 100 epochs)" in text
    assert "dfa in ResMLP d = 256, L = 4, 100 epochs, seed 42 (diverged at 3)" in text
    assert row(section(runs, "Accuracy"), "BP")[3:5] == ["0.614", "1"]
    assert row(section(runs, "Accuracy"), "DFA")[3] == "missing"


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 99}, {"lr": 2e-3}, {"penalty": 0.5}, {"train_last": 3}, {"normalize": "batch"},
        {"net_options": {"width": 128}}, {"net_options": {"skip": False}}, {"stop_when_fired": True},
    ],
    ids=str,
)  # fmt: skip
def test_runs_are_found_by_their_config_and_no_other_stands_in(settings: dict[str, Any]):
    text = section([made("dfa", 0.3, **settings)], "Accuracy")
    assert row(text, "DFA")[3] == "missing"


def test_a_run_that_was_killed_on_its_way_does_not_tell_how_long_one_takes():
    whole, torn = made("bp", 0.614), made("bp", 0.614, 123)
    assert torn.environment is not None
    (sitting,) = torn.environment.sittings
    torn.environment.sittings[:] = [sitting.changed(seconds=None), sitting.changed(seconds=9.0)]
    text = page([whole, torn])
    assert "2 of ResMLP d = 256, L = 4 for 100 epochs (10 min). Together at least 10 min 09 s" in text
    assert "100 epochs (no times)" in page([torn])


def test_a_run_that_is_there_twice_counts_once():
    once = page([made("bp", 0.614), made("fa", 0.447)])
    assert page([made("bp", 0.614), made("fa", 0.447), made("bp", 0.614)]) == once
    assert "There twice with different ends" in page([made("bp", 0.614), made("bp", 0.615)])


def test_the_order_of_the_runs_does_not_matter():
    assert page(MAIN[::-1]) == page(MAIN)


# Sizes


def test_norms_without_a_spread_get_a_factor():
    assert of_size(1e5, [1e4, 4e4]).words == "a factor 5.0 apart, ours smaller"
    assert of_size(paper.LAST_HIDDEN["dfa"], [9e8]).kind == "near"  # 1.8 times the nearer end
    assert of_size(1.0, [2.04]).words == "a factor 2.04 apart, ours larger"
    assert of_size(1.0, [0.0]).kind == of_size(1.0, [math.inf]).kind == "apart"


def test_the_penaltys_gradient_is_converted_to_our_batch():
    """9e-7 in a mean over 2048 is 1.44e-5 in one over 128: a net with that gradient is as published."""
    penalised = {"epochs": 30, "penalty": 1e-2}
    same = made("dfa", 0.36, net=(9.0, 2.0, 1.44e-5), **penalised)
    unconverted = made("dfa", 0.36, net=(9.0, 2.0, 9e-7), **penalised)
    name = "DFA ‖g_L‖, λ = 0.01"
    assert row(section([same], "Penalty"), name)[1:] == ["1.4e-05", "1.4e-05", "1", "within a factor 2"]
    assert row(section([unconverted], "Penalty"), name)[4] == "a factor 16 apart, ours smaller"


# Sentences follow the numbers


def test_the_choice_of_the_frozen_net_decides_only_where_it_does():
    """FA stands 13 points above its own frozen net; above a bp-trained one of .50 it stands 0.5."""
    title, said = "Which frozen net", "Our protocol, our runs: "
    assert said + "open against each of the 3 that are there. Nothing is settled by any." in section(MAIN, title)
    strong = [run for run in MAIN if not (run.config.rule == "bp" and run.config.train_last == 0)]
    strong += seeds("bp", 0.495, 0.500, 0.505, train_last=0)
    text = section(strong, title)
    assert (
        said + "open against its own, FA-trained frozen net and the DFA-trained frozen net; fires against the "
        "BP-trained frozen net. **The choice decides.**" in text
    )
    assert "By our protocol FA's own frozen net judges: depth is open." in text  # three seeds cannot show that it holds
    assert row(text, "ours, the BP-trained frozen net")[4:] == ["fires", "fires"]
    assert "passes against the DFA-trained frozen net; fires against the BP-trained one" in text  # as published


def test_depth_with_another_frozen_net_takes_the_common_seeds():
    evidence = Found(MAIN).evidence(FA)
    assert evidence is not None
    ours, published = depth_against(evidence, {42: 0.4, 123: 0.41})
    assert ours.value == pytest.approx(0.0975)
    assert published.value == pytest.approx(0.0975)
    assert depth_against(evidence, {7: 0.4})[0].outcome == "open"


@pytest.mark.parametrize(
    ("chord", "clamped", "says", "kind"),
    [
        (1e-6, 1e-7, "small, and not noise.", "not confirmed"),
        (0.3, 1.0, "is noise.", "confirmed"),
        (None, 0.0, "nothing can be said", "open"),
    ],
)
def test_small_or_noise_is_told_by_the_chord(chord: float | None, clamped: float, says: str, kind: str):
    runs = seeds("dfa", 0.3, 0.31, 0.30, net=BLOWN, chord=chord, clamped=clamped)
    assert says in section(runs, "Small, or noise?")
    lines = [line for line in section(runs, "In short").splitlines() if "numerical noise" in line]
    assert len(lines) == 1
    assert kind in lines[0].replace("**", "")


def test_small_or_noise_where_runs_differ_and_where_the_meter_is_blind():
    says = noise_said([Small("a", 1e-6, 1.0), Small("b", 0.5, 1.0), Small("c", None, None)], 1, 0.01, 1e-7)
    assert "noise in b; small, and not noise, in a" in says
    assert "off by more than 0.01 in a (by 1.00)" in says
    assert "DFA runs that end above 1e-07: 1." in says
    assert "not measured: c" in says
    says = noise_said([Small("a", 1e-6, 1e-7)], 0, 0.01, 1e-7)
    assert "even a meter that clamps is off by 1.0e-07 at most" in says


SMALL, LARGE = BLOWN, HEALTHY  # below the floor, and above it


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        ([], "missing"),
        ([(LARGE, 0.3), (LARGE, 1e-6)], "open"),  # nothing is below the floor, whatever its direction
        ([(SMALL, None), (SMALL, None)], "open"),  # below it, and nobody measured
        ([(SMALL, 0.3), (SMALL, 0.5), (SMALL, 1.2)], "confirmed"),
        ([(SMALL, 1e-6), (SMALL, 1e-4)], "not confirmed"),
        ([(SMALL, 0.3), (SMALL, 1e-6)], "open"),  # noise in one seed, and not in the other
        ([(SMALL, 1e-6), (SMALL, 0.3), (SMALL, 0.3)], "open"),  # no vote: one seed against two
        ([(SMALL, 0.3), (LARGE, 1e-6)], "confirmed"),  # the precise one does not count, because it is large
        ([(SMALL, 1e-6), (LARGE, 0.3), (SMALL, None)], "not confirmed"),
    ],
)
def test_planted_small_gradients_of_mixed_runs_are_noise_only_if_all_of_them_are(
    ends: list[tuple[tuple[float, float, float], float | None]], kind: str
):
    runs = [made("dfa", 0.3, seed, net=net, chord=chord) for (net, chord), seed in zip(ends, SEEDS, strict=False)]
    assert noise(Found(runs)).kind == kind
    others = [*seeds("bp", 0.6, 0.6, net=SMALL, chord=0.3), made("dfa", 0.3, net=SMALL, chord=0.3, lr=2e-3)]
    assert noise(Found([*runs, *others])).kind == kind  # neither other rules nor runs that the page does not ask for


def test_planted_small_gradients_of_two_nets_are_taken_together():
    gains = made("dfa", 0.3, net=SMALL, chord=0.3, net_options={"gains": True})
    noisy, precise = made("dfa", 0.3, net=SMALL, chord=0.3), made("dfa", 0.3, net=SMALL, chord=1e-6)
    assert noise(Found([noisy, gains])).kind == "confirmed"
    assert noise(Found([precise, gains])).kind == "open"
    assert noise(Found([noisy])).note == "one seed"
    assert noise(Found([noisy, gains])).note == ""


def test_first_firings_and_what_stopping_there_costs():
    def dfa(gain: float, *epochs: int) -> list[Run]:
        return [
            made("dfa", 0.30, seed, net=BLOWN, course={epoch - 1: (0.2, HEALTHY), epoch: (0.30 + gain, BLOWN)})
            for seed, epoch in zip(SEEDS, epochs, strict=True)
        ]

    text = section(dfa(0.01, 4, 4, 3), "First firings")
    assert (
        "| DFA | D2, N = 128 | 4 / 4 / 3 | 42: 4 · 123: 4 · 456: 3 | not told apart: 2.2 to 5.1, ours 2.2 to 5.1 |"
        in text
    )
    assert (
        "| not told apart: 4.7 to 13.3, ours 2.2 to 5.1; our mean lies outside the published interval |" in text
    )  # D1
    assert "DFA, N = 128: 96 % saved, +0 points from the published 96 %. At no loss: shown: +1.0 points" in text
    lower = section(dfa(-0.01, 40, 41, 42), "First firings")
    dates = "42: 40 · 123: 41 · 456: 42"
    assert f"| DFA | D2, N = 128 | 4 / 4 / 3 | {dates} | differ: 2.2 to 5.1, ours 38.5 to 43.5 |" in lower
    assert "DFA, N = 128: 59 % saved, -37 points" in lower
    assert "At no loss: the opposite is shown: -1.0 points" in lower
    assert "it never fires in seeds 42 and 123" in section(seeds("dfa", 0.3, 0.3), "First firings")


def test_without_the_terminal_norm_the_published_order_is_checked_by_seed():
    def at(epoch: int, seed: int, gradient: float, **options: Any) -> Run:
        net = (9.0, 100.0, gradient)
        return made("dfa", 0.3, seed, net=net, course={epoch: (0.3, net)}, **options)

    bare = {"net_options": {"terminal_norm": False}}
    later = [at(8, 42, 1e-9), at(11, 123, 1e-9), at(20, 42, 1e-3, **bare), at(30, 123, 1e-3, **bare)]
    text = section(later, "First firings")
    assert (
        "| DFA, no terminal norm | D1 | fires, later | 42: 20 · 123: 30 | yes: it fires, later in 2 of 2 seeds |"
        in text
    )
    for n in (128, 1024):
        assert f"| DFA, no terminal norm | D2, N = {n} | never | 42: never · 123: never | yes: never, 2 seeds |" in text
    sooner = [at(8, 42, 1e-9), at(4, 42, 1e-9, **bare)]
    text = section(sooner, "First firings")
    assert "no: it fires, later in 0 of 1 seeds" in text
    assert "no: it fires at 42: 4" in text


def test_the_penaltys_statements_flip_with_the_numbers():
    short = {"epochs": 30}

    def runs(with_it: float, net: tuple[float, float, float]) -> list[Run]:
        return [
            *seeds("dfa", 0.30, 0.301, 0.302, **short), *seeds("bp", 0.58, 0.585, 0.59, **short),
            *seeds("dfa", with_it, with_it + 0.001, with_it + 0.003, net=net, penalty=1e-2, **short),
            *seeds("dfa", 0.348, 0.349, 0.350, train_last=0, **short),
            *seeds("bp", 0.384, 0.386, 0.388, train_last=0, **short),
        ]  # fmt: skip

    as_published = section(runs(0.359, HEALTHY), "Penalty")
    assert "the penalty helps DFA. Ours, λ = 0.01 over λ = 0: shown: +5.9 points" in as_published
    assert "with the penalty D1 does not fire, or nearly. Ours, published protocol: yes: it passes" in as_published
    assert "yes: it fires, 3 seeds" in as_published
    assert "By our protocol depth fires." in as_published
    assert "the penalty costs BP. Ours, λ = 0.01 over λ = 0: missing" in as_published
    other = section(runs(0.45, BLOWN), "Penalty")
    assert "D1 does not fire, or nearly. Ours, published protocol: no: it fires" in other
    assert "no: it passes, 3 seeds" in other
    assert row(other, "DFA accuracy, λ = 0.01, 30 epochs")[4].startswith("differ")
    assert row(other, "DFA accuracy, λ = 0.01, 100 epochs")[2] == "missing"
    assert "D3 still fires, 100 epochs (+1.4 points over the frozen net). Ours: missing." in other


def test_the_penalty_at_full_length_is_held_against_frozen_nets_as_long():
    """Those of 30 epochs lie higher here: who took them would see it fall short."""
    decoys = [*seeds("dfa", 0.5, 0.5, 0.5, train_last=0, epochs=30), *seeds("bp", 0.6, 0.6, 0.6, epochs=30)]
    long = seeds("dfa", 0.400, 0.402, 0.401, penalty=1e-2)
    text = section([*MAIN, *decoys, *long], "Penalty")
    assert "D3 still fires, 100 epochs (+1.4 points over the frozen net). Ours, published protocol: no: it pa" in text
    assert "By our protocol depth is open." in text
    assert "D3 still fires, 30 epochs. Ours: missing." in text
    command = "walkback train --data cifar10 --rules dfa --seeds 42,123,456 --penalty 0.01\n"
    assert command in run_with([*MAIN, *long])
    assert command not in continued([*MAIN, *long])
    assert command not in run_with(MAIN)
    assert command in continued(MAIN)


def test_the_ladders_statements_flip_with_the_numbers():
    text = section(MAIN, "Ladder")
    assert "k = 4: shown: -4.5 points" in text
    assert "Missing: k = 1, k = 2 and k = 3." in text
    assert "BP's climb from k = 0 to k = L at d = 256, in points: not told apart: +22.0 to +23.0, ours +22.9" in text
    short = section(MAIN, "In short")
    assert "lean **their way**: DFA is best at k = 0 at d = 256" in short  # not shown while rungs are missing
    rungs = [run for k in (1, 2, 3) for run in seeds("dfa", 0.330, 0.331, 0.332, train_last=k)]
    line = next(each for each in section(MAIN + rungs, "In short").splitlines() if "**confirmed**" in each)
    assert "DFA is best at k = 0 at d = 256" in line
    better = [run for run in MAIN if run.config.rule != "dfa" or run.config.train_last == 0]
    better += seeds("dfa", 0.40, 0.41, 0.40)
    assert "k = 4: the opposite is shown: +5.4 points" in section(better, "Ladder")
    wide = {"epochs": 30, "net_options": {"width": 512, "depth": 2}}
    nothing = [made("fa", 0.355, **wide), made("fa", 0.350, train_last=0, **wide)]
    assert "for nothing: one seed, in its direction: +0.5 points" in section(nothing, "Ladder")


def test_a_climb_beyond_the_published_range_differs():
    assert of_range(0.22, 0.23, [0.20, 0.201, 0.202]).kind == "differ"
    assert of_range(0.22, 0.23, [0.225]).kind == "inside"
    assert of_direction([0.01, 0.011], -1, 0.02).kind == "confirmed"


def test_alignment_at_one_block_is_told_by_the_null():
    first = section(seeds("dfa", 0.3, 0.3, cosines=[0.4, 0.001, 0.0, 0.0]), "Cosine")
    assert "DFA is aligned at its first block alone. Ours, by the null: yes: block 0 in every seed" in first
    every = section(seeds("dfa", 0.3, 0.3, cosines=[0.4, 0.2, 0.2, 0.2]), "Cosine")
    assert "Ours, by the null: no: block 0, 1, 2 and 3 in every seed" in every
    none = section(seeds("dfa", 0.3, 0.3, cosines=[0.0, 0.0, 0.0, 0.0]), "Cosine")
    assert "Ours, by the null: no: no block in every seed" in none


def test_identity_is_read_from_its_record():
    record = IdentityRecord(images=256, branch=[0.098, 0.097, 0.099, 0.101], moved=0.2, cosine=0.98)
    text = section([made("bp", 0.39, train_last=0, identity=record)], "A net at init")
    assert row(text, "‖f_0‖/‖h_0‖")[1:] == [".096–.100", "0.098", "1", "within a factor 2"]
    assert "‖f_0‖/‖h_0‖ 1.00;" in text
    assert "‖f_3‖/‖h_3‖ 1.01;" in text
    assert row(section([made("bp", 0.39, train_last=0)], "A net at init"), "cos(h_L, h_0)")[2] == "missing"


def test_the_transformer_has_its_section():
    runs = [vit("bp", 2.0), vit("dfa", 100.0)]
    text = section(runs, "ViT-Mini")
    assert row(text, "BP")[1:4] == ["4", "0.400", "144"]
    assert "growth of BP in a ViT is at most 25. Ours: yes: 2.0 at most" in text
    assert "no: 30 at most" in section([vit("bp", 30.0)], "ViT-Mini")
    assert "Ours: missing." in section([], "ViT-Mini")


def vit(rule: str, grows: float) -> Run:
    run = made(rule, 0.4, epochs=4)
    config = plan(data="cifar10", net="vit-mini", rules=[rule], seeds=[42], epochs=4)[0]
    moments = [snapshot(4, epoch, 0.4, (9.0, grows, 1e-4), [0.5] * 4, 42) for epoch in range(5)]
    return Run(run.path, config, run.environment, run.result, Contents(moments, run.probes))


# What we think


def test_opinions_follow_the_figures():
    title, gains = "What differs", {"net_options": {"gains": True}}

    def net(top: float, gradient: float) -> tuple[float, float, float]:
        return (1.0, top**0.25, gradient)

    as_published = section(seeds("fa", 0.39, 0.40, 0.41, net=net(1e5, 8.9e-7)), title)
    assert "Nothing of FA is left to explain." in as_published
    assert "we do not know for sure" not in as_published
    off = section(seeds("fa", 0.50, 0.50, 0.51, net=net(1e3, 1e-4)), title)
    usual = "cosine decay, embedding from its own matrix"
    assert row(off, usual)[9] == "the accuracy, the stream and the gradient"
    assert "- FA accuracy; FA ‖h_L‖; FA ‖g_L‖: we do not know for sure" in off
    assert "*Opinion:*" not in off  # nothing was tried
    tried = [made("fa", 0.5, net=net(1e3, 1e-4)), made("fa", 0.4, net=net(1e5, 8.9e-7), **gains)]
    assert f"*Opinion:* {usual}, trained gains may be the difference." in section(tried, title)

    def dfa(without: tuple[float, float, float], trained: tuple[float, float, float]) -> str:
        return section([made("dfa", 0.3, net=without), made("dfa", 0.3, net=trained, **gains)], title)

    between = dfa(net(1e7, 5e-8), net(1e10, 1e-10))
    assert "lie between ours without and with trained gains, seed 42: ‖h_L‖ and ‖g_L‖." in between
    assert "what was tried does not explain DFA, and we do not know what does" in between
    assert "Nothing of DFA is left to explain." in dfa(net(4.5e8, 4e-9), net(1e10, 1e-10))
    beyond = dfa(net(1e10, 1e-10), net(1e11, 1e-11))
    assert "with trained gains, seed 42: none." in beyond
    assert "‖h_L‖ 4–5e8: cosine decay;" in beyond


def test_reasons_are_told_of_claims_that_differ_alone():
    """DFA's date of D2 at N = 128 differs, at N = 1024 it agrees: only the first has a reason."""
    between = (9.0, 1.1, 3e-7)
    course = {4: (0.3, between), 20: (0.3, BLOWN)}
    text = section([made("dfa", 0.3, seed, net=BLOWN, course=course) for seed in SEEDS], "What differs")
    line = next(line for line in text.splitlines() if "do not say theirs" in line)
    assert line.startswith("- DFA first D2, N = 128: ")


def test_every_claim_of_a_figure_names_runs_a_quantity_and_what_is_published():
    """The register can be read by a program: every entry has a label, and says how it is settled."""
    found = [value for name, value in vars(claims).items() if name.isupper()]
    every: list[claims.Claim] = []
    while found:
        each = found.pop()
        if isinstance(each, claims.Claim):
            every.append(each)
        elif isinstance(each, Mapping):
            found += each.values()
        elif isinstance(each, tuple | list):
            found += [part for part in each if not isinstance(part, str)]
    counted = [claim for claim in every if claim.published is not None or claim.check is not None]
    assert len(counted) > 100
    assert all(claim.label for claim in counted)
    assert all(claim.published is None or claim.check is None for claim in counted)
    noted = page([]).partition("**Missing** on our side: ")[2].partition(".\n\n## ")[0].split("; ")
    assert {claim.label for claim in counted if claim.counted} - {"DFA is best at k = 0 at d = 256"} <= {*noted}


def test_other_sizes_of_fa_are_found_and_judged_like_everything_else():
    file = f"{Path(__file__).parents[1] / SCALED}"
    near, far = (1.0, 1e5**0.25, 8.9e-7), (1.0, 1e3**0.25, 1e-4)
    ours, still = made("fa", 0.5, net=far), made(file, 0.49, net=far, rule_options={"gain": 5})
    text = section([ours, still], "What differs")
    everything = "the accuracy, the stream and the gradient"
    usual = row(text, "cosine decay, embedding from its own matrix")
    assert (usual[1:4], usual[8:]) == (["0.500", "1000", "1.0e-04"], ["1", everything])
    cells = row(text, "matrices × 5")
    assert (cells[1:4], cells[5], cells[8:]) == (["0.490", "1000", "1.0e-04"], "+0.500", ["1", everything])
    assert "*Opinion:* what was tried does not explain FA, and we do not know what does." in text
    explained = section([ours, still, made(file, 0.4, net=near, rule_options={"top": 1 / 128})], "What differs")
    assert row(explained, "credit ÷ 128")[9] == "nothing"
    assert "*Opinion:* credit ÷ 128 may be the difference." in explained
    assert f"--rules {SCALED} --seed 42 --rule-option gain=5\n" in page([ours, still])
    for other in ({"epochs": 30}, {"normalize": "batch"}):
        told = section([ours, made(file, 0.4, net=near, rule_options={"gain": 5}, **other)], "What differs")
        assert "| matrices × 5 |" not in told


def test_a_rule_that_has_only_the_name_of_fa_with_other_sizes_is_passed_over(tmp_path: Path):
    file_name, name = Path(SCALED).name.split(":")
    file = tmp_path / file_name
    file.write_text(f"import walkback as wb\nclass {name}(wb.Rule):\n    def credits(self, signal): ...\n")
    text = section([made("fa", 0.5), made(f"{file}:{name}", 0.4)], "What differs")
    assert not [line for line in text.splitlines() if line.startswith(("| matrices", "| credit", "| none"))]


def test_the_command_for_trained_gains_is_there_with_its_seeds():
    gains = {"net_options": {"gains": True}}
    text = page([made("fa", 0.4, 42, **gains), made("fa", 0.4, 123, **gains)])
    assert "walkback train --data cifar10 --rules fa --seeds 42,123 --gains" in text
    assert "--gains" not in run_with(MAIN)


# The paper's other methods


def everyone() -> list[Run]:
    """All methods as they are published, but for EP in float32, with the frozen net that the paper holds them to."""
    return [
        *MAIN, *seeds("ep", 0.31, 0.32, 0.33, net=(9.0, 4.5, 1.5e-4)), *seeds("cb", 0.28, 0.29, 0.30, net=BLOWN),
        *seeds("sb", 0.20, 0.21, 0.22, net=BLOWN),
    ]  # fmt: skip


def test_every_published_method_has_its_cells():
    runs = everyone()
    accuracies = section(runs, "Accuracy")
    for name in ("EP", "Credit Bridge", "State Bridge"):
        assert row(accuracies, name)[5].startswith("not told apart")
    assert row(section(runs, "Size of the stream"), "EP, ours (n = 3)")[6] == "within a factor 2"  # 9 · 4.5⁴ = 3690
    assert row(section(runs, "Size of the true"), "EP, ours (n = 3)")[6] == "within a factor 2"
    verdicts = section(runs, "Verdicts")
    assert row(verdicts, "State Bridge")[5] == row(verdicts, "Credit Bridge")[5] == "yes: 3 of 3 fire, 3 seeds"
    assert row(verdicts, "the full protocol")[1:] == ["3 of 5", "4 of 5", "EP, DFA, Credit Bridge and State Bridge"]
    assert row(verdicts, "accuracy")[1:] == ["0 of 5", "0 of 5", "nobody"]


def test_the_published_protocol_takes_one_frozen_net_for_every_rule():
    """EP stands 5 points below the net whose rest DFA trained and 11 above its own: by the paper depth fires."""
    runs = [*everyone(), *seeds("ep", 0.20, 0.21, 0.22, train_last=0)]
    cells = row(section(runs, "Verdicts"), "EP")
    assert cells[1:3] == ["holds", "walked back (D3 fires)"]
    assert "depth" not in cells[3]
    assert cells[5] == "no: 3 seeds"


def test_ep_in_float32_is_a_method_of_its_own():
    single = seeds("ep", 0.30, 0.31, 0.32, **EP32.settings)
    text = section(single, "Accuracy")
    assert row(text, "EP")[3] == "missing"
    assert row(text, "EP in float32")[3] == "0.310 ± 0.010"


def zeros(runs: list[Run], shares: list[float]) -> list[Run]:
    """The same runs whose last snapshots count so many credits that are exactly zero."""
    counted = {"zero credits": [ReadingRecord(value=share, status="ok") for share in shares]}
    for run in runs:
        run.snapshots[-1] = run.snapshots[-1].changed(measured=counted)
    return runs


LONG_STREAM, SHORT_STREAM = (9.0, 5.0, 1e-4), (9.0, 1.5, 3e-4)  # ‖h_L‖ = 5625 and 46
IN_FLOAT32 = {"rule_options": {"precision": "float32"}}


@pytest.mark.parametrize(
    ("accuracy", "net", "shares", "sentences"),
    [
        ((0.31, 0.32, 0.31), LONG_STREAM, [0.9, 0.5, 0.2, 0.1], (
            "exactly zero in float32: most in block 0 (90 %), lower blocks first",
            "float32 is lower in accuracy: shown: -15.7 points",
            "its stream is larger: yes: 1.2e+02, 1.2e+02, 1.2e+02 times, 3 seeds",
            "accuracy 0.316: float32; ‖h_L‖ 3e3–8e3: float32; ‖g_L‖ 1–2e-4: float32.",
        )),
        ((0.48, 0.49, 0.47), SHORT_STREAM, [0.0, 0.0, 0.1, 0.0], (
            "most in block 2 (10 %), not lower blocks first", "float32 is lower in accuracy: the opposite is shown",
            "its stream is larger: no: 1, 1, 1 times",
            "accuracy 0.316: float64; ‖h_L‖ 3e3–8e3: both alike; ‖g_L‖ 1–2e-4: both alike.",
        )),
        ((0.48, 0.49, 0.47), SHORT_STREAM, [0.0] * 4, ("in no block",)),
        ((), SHORT_STREAM, [], ("No seed is there in both precisions",) * 2),
    ],
    ids=["drowned", "kept", "nothing lost", "not there"],
)  # fmt: skip
def test_the_inference_on_eps_precision_follows_the_records(accuracy, net, shares, sentences):
    single = zeros(seeds("ep", *accuracy, net=net, **IN_FLOAT32), shares)
    text = section([*seeds("ep", 0.47, 0.48, 0.46, net=SHORT_STREAM), *single], "EP in float64")
    for sentence in sentences:
        assert text.count(sentence) >= sentences.count(sentence)


def test_the_shorter_budget_stands_beside_and_is_not_held_against():
    runs = seeds("sb", 0.5, 0.51, 0.52, epochs=30)
    text = section(runs, "The same methods after 30 epochs")
    assert row(text, "State Bridge")[1:3] == ["0.205 ± 0.039", "0.510 ± 0.010"]
    assert row(text, "Credit Bridge")[2] == "missing"
    assert row(section(runs, "Accuracy"), "State Bridge")[3] == "missing"
    lines = [
        line for line in section(runs, "In short").splitlines() if line.startswith("- ") and "State Bridge" in line
    ]
    beside, missing = lines  # what is published of the penalty's grid is of 30 epochs too
    assert "State Bridge accuracy, λ = 0, 30 epochs." in beside
    assert "**Missing**" in missing


# The N of the published logs


def test_d2_is_dated_at_both_n():
    """3e-7 at N = 128 is 3.75e-8 at N = 1024: below the floor of 1e-7 there alone."""
    between = (9.0, 1.1, 3e-7)
    runs = [
        made("dfa", 0.3, seed, net=BLOWN, course={date: (0.3, between), 20: (0.3, BLOWN)})
        for seed, date in zip(SEEDS, (4, 4, 3), strict=True)
    ]
    text = section(runs, "First firings")
    assert "| DFA | D2, N = 128 | 4 / 4 / 3 | 42: 20 · 123: 20 · 456: 20 | differ" in text
    assert "| DFA | D2, N = 1024 | 4 / 4 / 3 | 42: 4 · 123: 4 · 456: 3 | not told apart" in text
    assert "DFA, N = 128: 80 % saved" in text
    assert "DFA, N = 1024: 96 % saved" in text


@pytest.mark.parametrize(
    ("end", "start", "says"),
    [
        (3.6e-4, 7.8e-3, "at N = 1024 and not at N = 128: D2 is to be compared at N = 1024."),
        (4.0e-5, 1.1e-3, "at N = 128 and not at N = 1024: D2 is to be compared at N = 128."),
        (4.0e-5, 7.8e-3, "Ours do not tell which N the logs are at."),
    ],
)
def test_the_n_of_the_logs_is_told_by_sizes(end: float, start: float, says: str):
    run = made("bp", 0.6, net=(9.0, 1.1, end))
    run.snapshots[0] = run.snapshots[0].changed(gradient_norms=[start] * 5)
    assert says in section([run], "First firings")


def test_without_bp_the_n_of_the_logs_is_not_told():
    assert "Ours are missing, so nothing can be said of it here." in section([], "First firings")


def test_fas_gradient_is_held_against_either_n():
    """7.1e-6 at N = 128 is the published 8.9e-7 if that is at N = 1024."""
    text = section([made("fa", 0.4, net=(9.0, 1.1, 7.12e-6))], "Size of the true")
    assert "FA, ours to 7.1e-06: within a factor 2; to 8.9e-7: a factor 8.0 apart, ours larger." in text


def test_the_transformers_date_is_told_at_both_n():
    run = vit("dfa", 2.0)
    run.snapshots[2:] = [s.changed(gradient_norms=[3e-7] * 5) for s in run.snapshots[2:]]
    text = section([run], "ViT-Mini")
    assert "within 3 epochs. Ours at N = 1024: yes: 42: 2; at N = 128: no: 42: never." in text
    assert "Ours at N = 1024: missing" in section([], "ViT-Mini")


# Schedule, embedding, controls


def test_schedule_and_embedding_are_compared_on_the_seeds_that_all_have():
    title, constant, block = "What differs", {"schedule": "constant"}, {"rule_options": {"embed": "block"}}
    usual = seeds("dfa", 0.30, 0.31, 0.32, net=(9.0, 40.0, 1e-8))
    fits = made("dfa", 0.305, net=(9.0, 84.0, 4.2e-9), cosines=[0.4, 0.0, 0.0, 0.0], **constant)  # 9 · 84⁴ = 4.5e8
    text = section([*usual, fits], title)
    assert row(text, "constant rate")[9] == "nothing"
    assert row(text, "cosine decay")[9] == "the stream and the gradient"
    assert (
        "Nearest to the published figure, seed 42: accuracy 0.306: constant rate; ‖h_L‖ 4–5e8: constant rate; ‖g_L‖ "
        "4.2e-9: constant rate; cosines: constant rate." in text
    )
    assert "As published in accuracy, stream and gradient: constant rate." in text
    short = section([*usual, fits], "In short")
    assert "DFA, constant rate: accuracy" in short
    assert "DFA: no seed is there with two settings" in section(usual, title)
    assert "Missing: constant rate." in section(usual, title)
    worse = made("dfa", 0.2, net=(9.0, 2.0, 1e-3), **constant)
    assert "As published in accuracy, stream and gradient: no setting." in section([*usual, worse], title)
    fa = [made("fa", 0.45), made("fa", 0.43, net=(9.0, 10.0, 8e-6), **block, **constant)]  # 9 · 10⁴ = 9e4
    told = section(fa, title)
    assert row(told, "constant rate, embedding from a_0")[9] == "the gradient"
    assert "With the published ‖g_L‖ at N = 1024, within a factor 2 of it: constant rate, embedding from a_0." in told
    assert "Missing: constant rate, embedding from its own matrix; cosine decay, embedding from a_0." in told


def test_controls_stand_beside_their_twins():
    plain = {"skip": False, "down_std": 0.5}
    runs = [
        made("fa", 0.45, epochs=30), made("fa", 0.11, epochs=30, labels="random"),
        made("fa", 0.40, epochs=30, net_options=plain), made("fa", 0.44, net_options={"terminal_norm": False}),
    ]  # fmt: skip
    text = section(runs, "Controls")
    assert "| random labels | FA | 30 | 0.110 | -34.0 |" in text
    assert "| no residual | FA | 30 | 0.400 | -5.0 |" in text
    assert "| no terminal norm | FA | 100 | 0.440 | missing |" in text
    assert "| no terminal norm | FA | 30 | missing |" in text
    assert "No seed more than 2 points above it? Yes, FA." in text
    learned = section([made("fa", 0.2, epochs=30, labels="random")], "Controls")
    assert "No seed more than 2 points above it? **No**: FA (+10.0 points)." in learned


def test_random_credit_must_be_found_out():
    frozen = seeds("random", 0.347, 0.349, 0.350, train_last=0)
    back = section([*MAIN, *frozen, *seeds("random", 0.20, 0.21, 0.22)], "Controls")
    must = "must neither hold nor have an even Γ. "
    assert must + "It does neither: published protocol walked back (D3 fires)" in back
    held = section([*MAIN, *frozen, *seeds("random", 0.50, 0.51, 0.52)], "Controls")
    assert must + "**By one it does**" in held
    assert must + "Ours: missing." in section(MAIN, "Controls")


def test_the_penalty_of_the_bridges_has_its_place():
    runs = [made("cb", 0.2, epochs=30), made("cb", 0.26, epochs=30, penalty=1e-2)]
    text = section(runs, "Penalty")
    assert row(text, "Credit Bridge accuracy, λ = 0.01, 30 epochs")[1:4] == ["0.360 ± 0.004", "0.260", "1"]
    assert "Credit Bridge, λ = 0.01 over λ = 0, points: published +15.0, the means alone; ours +6.0." in text
    assert "nothing is published" not in text
    assert row(text, "State Bridge accuracy, λ = 0, 30 epochs")[2] == "missing"


# What trains the missing runs


def test_second_implementation_the_commands_train_exactly_what_is_missing():
    """Each command is read by the command line's own parser, and plans the runs that the page asks for."""
    found = Found([])
    page([])
    writer = Writer(found)
    for title, write in SECTIONS:
        assert write(writer), title
    declared = {config.folder() for study in studies() for config in study.configs(Extent())}
    named: set[str] = set()
    for command in to_continue(found):
        words = command.split()[1:]
        if words[:2] == ["study", "run"]:
            named |= {c.folder() for name in words[2:] for c in studies(name)[0].configs(Extent())}
            continue
        _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        asked = bound.arguments["recipe"]
        last = bound.arguments.get("train_last")
        configs = plan(rules=asked.rules.split(","), train_last=last, **asked.settings())
        assert not {config.folder() for config in configs} & declared, command
        named |= {config.folder() for config in configs}
    for group in found.wanted():
        folders = {group.config.changed(seed=seed).folder() for seed in SEEDS}
        assert folders & declared <= named
        assert folders & declared or folders <= named, group.config.label()
    assert len(found.wanted()) > 2 * len(METHODS)


def test_what_is_there_is_not_asked_for_again():
    rules = ("cb", "sb")
    penalised = [run for rule in rules for run in seeds(rule, 0.3, 0.3, 0.3, penalty=0.01, epochs=30)]
    line = "walkback train --data cifar10 --rules cb,sb --seeds 42,123,456 --penalty 0.01 --epochs 30\n"
    assert line in continued(MAIN)
    assert line not in continued([*MAIN, *penalised])
    assert line in run_with([*MAIN, *penalised])
