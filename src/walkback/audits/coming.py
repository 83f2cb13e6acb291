"""What an audit will train, for how long, and what it will keep, before it starts. Nothing is trained or written.

A net's time is that of earlier runs of it in the folder; else a few steps and one snapshot of it are timed here.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Literal

from walkback.audits.rules_audit import audit_plan, looks_for
from walkback.audits.trials import check_free, grid_of, longer, opponents, rates_in, trial
from walkback.data import load
from walkback.records import RunConfig, find_runs, read_head, sittings_of
from walkback.records.config_names import hash_with
from walkback.records.rates import ANY_RATE, NOTHING_TRIED, TRIAL_SEED, TRIALS
from walkback.report.writing import duration
from walkback.train import Trainer, arithmetic, cores
from walkback.train.configs import MOST, beyond

STEPS = 5  # that are timed, of each net
PATIENCE = 3.0  # seconds: a net that was not timed by then is taken to need the mean of the others
STARTS = 3.0  # seconds until processes train
AT_THE_END = 6  # snapshots take about as long as what is measured once, at the end
HERE = (None, "processes", "serial")  # executors that train on this machine


Pace = tuple[float, float, float]  # of a net: seconds per epoch, seconds beside them, bytes with the optimizer's state
Load = tuple[int, float | None, float]  # trainings: how many, seconds by one process (None: not known), bytes


def coming(
    rules: Sequence[str],
    *,
    out: Path,
    rates: Literal["auto", "one"] = "one",
    seeds: int | Sequence[int] | Literal["auto"] = 3,
    max_seeds: int | None = None,
    jobs: int | None = None,
    data_folder: Path | None = None,
    device: str = "cpu",
    executor: str | None = None,
    executor_options: Mapping[str, Any] | None = None,  # noqa: ARG001 - taken as audit_rules takes it
    **settings: Any,
) -> list[str]:
    """What `audit_rules` of the same will do, in lines."""
    looks = looks_for(seeds, max_seeds)
    trials: list[RunConfig] = []
    chosen, grown = NOTHING_TRIED, 1.0
    arms = audit_plan(rules, seeds=[TRIAL_SEED], **settings)
    if rates == "auto":
        check_free(settings, seeds)
        chosen = rates_in(out)
        grid = grid_of(arms, chosen)
        trials = [trial(arm, rate) for arm in arms for rate in grid]
        bests = [chosen.best(nets) or nets[-1] for nets in opponents(arms)]
        trials += {each.hash(): each for each in map(partial(longer, rates=chosen), bests)}.values()
        settled = all(map(chosen.of, arms)) and not beyond(grid, map(chosen.of, arms))
        grown = 1.0 if settled else max(len(grid), MOST) / len(grid)
    counts: Any = [looks[0], looks[-1]] if looks else [seeds, seeds]
    few, many = (audit_plan(rules, seeds=count, rates=chosen, **settings) for count in counts)
    paces = _paces(arms, out, data_folder, device)
    tried = _load(trials, out / TRIALS, paces, kept=False)
    runs, most = (_load(configs, out, paces, kept=True) for configs in (few, many))
    if not tried[0] + runs[0]:
        return ["Nothing is left to train of what is sure to be needed."]
    words = [f"{_count(tried[0], 'trial')} of learning rates"] if tried[0] else []
    words += [f"{_count(runs[0], 'run')} with {_count(len({c.seed for c in few}), 'seed')}"] if runs[0] else []
    here = (jobs or cores()) if executor in HERE else 0
    lines = [f"To train: {' and '.join(words)}. It takes {_amount(tried, runs, here)}, in {out}."]
    limits = [f"{MOST} rates"] if grown > 1 else []
    limits += [f"{looks[-1]} seeds"] if looks else []
    if limits:
        lines.append(f"With {' and '.join(limits)}, which is the most: {_amount(tried, most, here, grown)}.")
    return lines


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _amount(trials: Load, runs: Load, processes: int, times: float = 1.0) -> str:
    """Minutes and megabytes of both, of the trials so many times."""
    total = trials[2] * times + runs[2]
    size = f"{total / 1e6:,.0f} MB" if total > 2e6 else f"{total / 1e6:.1f} MB"
    if trials[1] is None or runs[1] is None:
        return f"a time that is not known here, and {size}"
    seconds = trials[1] * times + runs[1]
    if not processes:
        return f"about {duration(seconds)} of one process, and {size}"
    each = "one process" if processes == 1 else f"{processes} processes"
    return f"about {duration(STARTS + seconds / processes)} on {each}, and {size}"


def _load(configs: Iterable[RunConfig], out: Path, paces: Mapping[str, Pace], kept: bool) -> Load:
    """Of what is not there yet."""
    left = [c for c in configs if not (out / c.folder() / "result.json").exists()]
    known = [(c, pace) for c in left if (pace := paces.get(_net(c))) is not None]
    size = sum(12e3 + 1.7e3 * c.epochs + (weights if kept else 0) for c, (_, _, weights) in known)
    seconds = sum(beside + epoch * c.epochs for c, (epoch, beside, _) in known) if len(known) == len(left) else None
    return len(left), seconds, size


def _net(config: RunConfig) -> str:
    return hash_with(config, {**ANY_RATE, "epochs": 1})


def _paces(arms: Sequence[RunConfig], out: Path, data_folder: Path | None, device: str) -> dict[str, Pace]:
    """How fast each arm trains; nothing where that cannot be found out here."""
    before = _before(out, device)
    found: dict[str, Pace] = {}
    began = time.monotonic()
    try:
        dataset = load(arms[0].data, data_folder)
        for arm in arms:
            if not found or time.monotonic() - began < PATIENCE:
                found[_net(arm)] = _timed(arm, dataset, device, before.get(_net(arm)))
    except Exception:  # data that are not here, a device, a net that does not fit: training says which
        return {}
    epoch, beside, weights = (sum(each) / len(found) for each in zip(*found.values(), strict=True))
    usual = epoch, beside, weights
    return {_net(arm): found.get(_net(arm), usual) for arm in arms}


def _before(out: Path, device: str) -> dict[str, float]:
    """Seconds per epoch of the runs that are there, by net."""
    places = [place for place in (out, out / TRIALS) if place.is_dir()]
    found: dict[str, list[float]] = {}
    for run in map(read_head, find_runs(*places)) if places else ():
        seconds = [s.seconds for s in sittings_of(run) if s.seconds is not None and s.device == device]
        if run.result is not None and run.result.status == "finished" and seconds:
            found.setdefault(_net(run.config), []).append(sum(seconds) / run.config.epochs)
    return {net: median(times) for net, times in found.items()}


class _Enough(Exception):
    pass


def _timed(arm: RunConfig, dataset: Any, device: str, before: float | None) -> Pace:
    """A few steps and a snapshot, unless earlier runs tell; the net is thrown away."""
    with arithmetic():
        trainer = Trainer(arm, dataset, device)
        weights = sum(tensor.numel() * tensor.element_size() for tensor in trainer.tensors().values())
        if before is not None:
            return before, 0.0, weights
        moments = [time.perf_counter()]

        def between() -> None:
            moments.append(time.perf_counter())
            if len(moments) > STEPS:
                raise _Enough

        with suppress(_Enough):
            trainer.one_epoch(between)
        gaps = [after - earlier for earlier, after in pairwise(moments)]
        began = time.perf_counter()
        trainer.snapshot()
        seen = time.perf_counter() - began
    return median(gaps[1:] or gaps) * trainer.steps_per_epoch + seen, AT_THE_END * seen, weights
