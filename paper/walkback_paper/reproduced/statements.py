"""Published statements that no single number settles: what our runs say of each, as a word and in words."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from walkback.checks import DEFAULT, Finding, Judgement, depth, first_fired, judge, listed, reference, scale, seeds_said
from walkback.records import Baseline, BaselineName, CosineRecord, Evidence, NullRecord, Run, evidence_of_runs
from walkback.report import Stat, gain
from walkback_paper import published as paper
from walkback_paper.agreement import MISSING, Agreement, of_direction, of_fact, of_spread, seeds_counted, together
from walkback_paper.quantities import GRADIENT, GROWTH
from walkback_paper.reproduced.found import BP, DFA, VARIANTS, Found, Ours, Trained, paired

Check = Callable[[Found], Agreement]
Dates = Mapping[int, int | None]  # by seed the first epoch; None: never
BATCH, LOG = int(DEFAULT["reference.batch"]), paper.LOG_BATCH
OPEN = ("open", "inconclusive")  # ours, and the published protocol's word for it
BAND = 3  # standard deviations of the null that a block's cosine must clear it by
D1, D2, D2_LOG = "D1", f"D2, N = {BATCH}", f"D2, N = {LOG}"
DATES: Mapping[str, Mapping[str, Sequence[int]]] = {
    D1: paper.FIRST_GROWTH,
    D2: paper.FIRST_FLOOR,
    D2_LOG: paper.FIRST_FLOOR,
}


def is_(outcome: str) -> str:
    """An outcome as a verb."""
    return outcome if outcome in ("passes", "fires") else f"is {outcome}"


def spared(outcome: str, words: str, n: int) -> Agreement:
    """A check of which it is published that it does not fire."""
    return of_fact(None if outcome in OPEN else outcome != "fires", words, n)


# Verdicts


def as_they_judge(found: Found, evidence: Evidence, frozen: Ours) -> Judgement:
    """The published protocol, which takes one frozen net for every rule: the one whose rest DFA trained, if there."""
    accuracy = found.of(frozen).accuracy()
    if accuracy:
        baselines = {**evidence.baselines, "frozen": Baseline.by_seed(accuracy)}
        evidence = evidence.changed(baselines=baselines)
    return judge(evidence, protocol="published")


def verdict(method: Ours, found: Found) -> Agreement:
    """A published verdict, against that of the published protocol on our runs."""
    evidence, claim = found.evidence(method), paper.VERDICTS[method.rule]
    if evidence is None:
        return MISSING
    judged, n = as_they_judge(found, evidence, DFA.but(k=0)), len(evidence.seeds)
    words, outcomes = seeds_counted(judged.accuracy.n), {f.check: f.outcome for f in judged.findings}
    if claim == "holds":
        return of_fact(None if judged.verdict == "inconclusive" else judged.verdict == "holds", words, n)
    if claim == "D2 does not fire":
        return spared(outcomes["reference"], f"D2 {is_(outcomes['reference'])}, {words}", n)
    fires = [outcome for outcome in outcomes.values() if outcome == "fires"]
    denied = [outcome for outcome in outcomes.values() if outcome not in ("fires", "inconclusive")]
    holds = False if denied else True if len(fires) == len(outcomes) else None
    return of_fact(holds, f"{len(fires)} of {len(outcomes)} fire, {words}", n)


def depth_against(evidence: Evidence, base: Mapping[int, float]) -> tuple[Finding, Finding]:
    """What `depth` says by our protocol and by the published one with `base` as the frozen net, on common seeds."""
    seeds = [s for s in evidence.seeds if s.seed in base]
    baselines: dict[BaselineName, Baseline] = {k: b for k, b in evidence.baselines.items() if k == "shallow"}
    bp, frozen_bp = evidence.baselines.get("bp"), evidence.baselines.get("frozen_bp")
    if bp is not None and frozen_bp is not None:
        both = [seed for seed in bp.accuracy if seed in frozen_bp.accuracy]
        if both:
            baselines["bp"] = Baseline(accuracy={seed: bp.accuracy[seed] for seed in both})
            baselines["frozen_bp"] = Baseline(accuracy={seed: frozen_bp.accuracy[seed] for seed in both})
    if seeds:
        baselines["frozen"] = Baseline.by_seed({s.seed: base[s.seed] for s in seeds if s.seed is not None})
    replaced = evidence.changed(seeds=seeds, baselines=baselines)
    return depth(replaced), depth(replaced, protocol="published")


# Cosines and noise


def clear(group: Trained, cosine: str = "cosine", null: str = "null") -> list[tuple[int, int]]:
    """By block: in how many seeds the cosine clears its null, of those in which that is known."""
    counts = []
    for block in range(group.config.blocks):
        probed = [(getattr(run.snapshots[-1], cosine)[block], getattr(run.probes, null)[block])
                  for run in group.runs if run.probes is not None]  # fmt: skip
        known = [answer for pair in probed if (answer := _clears(*pair)) is not None]
        counts.append((sum(known), len(known)))
    return counts


def _clears(cosine: CosineRecord, null: NullRecord | None) -> bool | None:
    """Whether a cosine is above its null; a credit or gradient that is dead is not. None: not known."""
    if cosine.status != "ok" or cosine.value is None:
        return False if cosine.status in ("zero credit", "zero gradient", "below precision") else None
    return None if null is None or null.n < 2 else cosine.value > null.mean + BAND * null.std


def aligned_alone(ours: Ours, block: int, found: Found) -> Agreement:
    """One block is aligned, and the others are not: by the null, in every seed."""
    group = found.of(ours)
    if not group.n:
        return MISSING
    counts = clear(group)
    aligned = block % len(counts)
    always = [b for b, (clears, n) in enumerate(counts) if n and clears == n]
    never = [b for b, (clears, n) in enumerate(counts) if n and not clears]
    others = [b for b in range(len(counts)) if b != aligned]
    denied = aligned in never or bool(set(others) & set(always))
    holds = False if denied else True if always == [aligned] and never == others else None
    words = f"block {listed([str(b) for b in always])}" if always else "no block"
    return of_fact(holds, f"{words} in every seed that tells ({max(n for _, n in counts)})", group.n)


def noise(found: Found) -> Agreement:
    """Whether the gradients of DFA that end below the floor have lost their direction."""
    ends = [run for m in VARIANTS if m.rule == "dfa" for run in found.of(m).runs]
    below = [chord(run) for run in ends if GRADIENT.last(run) < DEFAULT["reference.floor"]]
    measured = {c > DEFAULT["reference.chord"] for c in below if c is not None}
    if not measured:
        return Agreement("open", "") if ends else MISSING
    note = "one seed" if len(below) == 1 else ""
    return Agreement("open" if len(measured) > 1 else "confirmed" if True in measured else "not confirmed", "", note)


def chord(run: Run) -> float | None:
    """How far float32 turns the gradient at h_L; None if that was not measured."""
    top = None if run.probes is None else run.probes.precision[-1]
    return top.chord if top is not None and top.status == "ok" else None


# Through time


def first(group: Trained) -> dict[str, Dates]:
    """When D1 and D2 first fired, D2 with ‖g_L‖ stated at our N and at that of the logs; nothing without runs."""
    if not group.n:
        return {}
    evidence = evidence_of_runs(group.config.rule, group.runs)
    ours, logs = first_fired(evidence), first_fired(evidence, DEFAULT.but("reference.batch", LOG))
    dated = {D1: ours["scale"], D2: ours["reference floor"], D2_LOG: logs["reference floor"]}
    return {code: {int(seed): epoch for seed, epoch in each.epochs.items()} for code, each in dated.items()}


def by_seed(dates: Dates) -> str:
    """Dates in a cell.

    >>> by_seed({42: 8, 123: None})
    '42: 8 · 123: never'
    """
    return " · ".join(f"{seed}: {'never' if epoch is None else epoch}" for seed, epoch in dates.items())


def dated(ours: Ours, code: str, claim: Sequence[int], found: Found) -> Agreement:
    """Published first epochs of three seeds against ours; an empty claim says never."""
    dates = first(found.of(ours)).get(code)
    if dates is None:
        return MISSING
    fired = [float(epoch) for epoch in dates.values() if epoch is not None]
    never = [str(seed) for seed, epoch in dates.items() if epoch is None]
    if not claim:
        words = f"it fires at {by_seed(dates)}" if fired else f"never, {seeds_counted(len(dates))}"
        return of_fact(not fired, words, len(dates))
    if never:
        return Agreement("differ" if len(dates) > 1 else "outside", f"it never fires in {seeds_said(never)}")
    return of_spread(paper.MeanStd(statistics.fmean(claim), statistics.stdev(claim)), fired, ".1f")


def fires_later(ours: Ours, than: Ours, found: Found) -> Agreement:
    """D1 fires in every seed, and later than in the same seed of other runs."""
    dates, others = first(found.of(ours)).get(D1), first(found.of(than)).get(D1, {})
    if dates is None:
        return MISSING
    never = [str(seed) for seed, epoch in dates.items() if epoch is None]
    if never:
        return of_fact(False, f"it never fires in {seeds_said(never)}", len(dates))
    pairs = [(a, others[seed]) for seed, a in dates.items() if seed in others]
    if not pairs:
        return of_fact(None, "it fires; with the terminal norm no such seed is there", len(dates))
    later = sum(b is not None and a is not None and a > b for a, b in pairs)
    return of_fact(later == len(pairs), f"it fires, later in {later} of {len(pairs)} seeds", len(dates))


def stops(group: Trained, code: str) -> dict[int, tuple[int, float, float] | None]:
    """By seed the first epoch at which D1 or `code` fired, the accuracy then and at the end; None: never."""
    found: dict[int, tuple[int, float, float] | None] = {}
    dates = first(group)
    for run in group.runs:
        seed = run.config.seed
        epochs = [date for of in (D1, code) if (date := dates[of][seed]) is not None]
        then = next((s.accuracy for s in run.snapshots if epochs and s.epoch == min(epochs)), None)
        found[seed] = None if then is None else (min(epochs), then, run.snapshots[-1].accuracy)
    return found


def stopping(ours: Ours, code: str, found: Found) -> Agreement:
    """Stopping at the first firing costs no accuracy."""
    return of_direction([round(s[1] - s[2], 12) for s in stops(found.of(ours), code).values() if s is not None], 1)


def fired_by(ours: Sequence[Ours], code: str, epoch: int, found: Found) -> Agreement:
    """A check has fired by that epoch, in every seed of all these runs."""
    dates: dict[int, int | None] = {}
    for each in ours:
        dates |= first(found.of(each)).get(code, {})
    if not dates:
        return MISSING
    return of_fact(all(d is not None and d <= epoch for d in dates.values()), by_seed(dates), len(dates))


def grows_at_most(ours: Sequence[Ours], most: float, found: Found) -> Agreement:
    """No block grows the stream by more, at any epoch."""
    grown = [max(map(GROWTH.pick, run.snapshots)) for each in ours for run in found.of(each).runs]
    words = f"{Stat((max(grown),), 'size')} at most, at any epoch" if grown else ""
    return of_fact(max(grown) <= most, words, len(grown)) if grown else MISSING


def quiet_at_init(found: Found) -> Agreement:
    """Neither D1 nor D2 fires of a net at random init."""
    starts = [run.snapshots[0] for run in found.of(BP.but(k=0)).runs if run.snapshots[0].epoch == 0]
    limit, floor = DEFAULT["scale.growth"], DEFAULT["reference.floor"]
    quiet = all(GROWTH.pick(start) <= limit and GRADIENT.pick(start) >= floor for start in starts)
    return of_fact(quiet, seeds_counted(len(starts)), len(starts)) if starts else MISSING


# The penalty and the ladder


def penalty_spares(ours: Ours, which: str, found: Found) -> Agreement:
    """D1 or D2 does not fire of the runs with a penalty."""
    group = found.of(ours)
    if not group.n:
        return MISSING
    ask = {"D1": scale, "D2": reference}[which]
    outcome = ask(evidence_of_runs(ours.name, group.runs), DEFAULT, "published").outcome
    return spared(outcome, f"it {is_(outcome)}", group.n)


def penalty_depth(found: Found, ours: Ours) -> tuple[Finding, Finding, Stat] | None:
    """`depth` by both protocols and the margin, over the frozen net of as many epochs whose rest DFA trained."""
    budget = {"epochs": ours.settings["epochs"]}
    dfa, frozen = found.of(ours), found.of(DFA.but(k=0, **budget))
    bp, frozen_bp = found.of(BP.but(**budget)), found.of(BP.but(k=0, **budget))
    margins = [*paired(dfa, frozen).values()]
    if not margins:
        return None
    given: dict[BaselineName, Baseline] = {}
    if bp.n and frozen_bp.n:
        given = {"bp": Baseline.by_seed(bp.accuracy()), "frozen_bp": Baseline.by_seed(frozen_bp.accuracy())}
    evidence = evidence_of_runs(ours.name, dfa.runs, baselines=given)
    return *depth_against(evidence, frozen.accuracy()), gain(margins, [0.0] * len(margins))


def still_fires(ours: Ours, found: Found) -> Agreement:
    """With a penalty D3 still fires, by the published protocol."""
    judged = penalty_depth(found, ours)
    if judged is None:
        return MISSING
    _, published, margin = judged
    words = f"it {is_(published.outcome)}, {seeds_counted(margin.n)}"
    return of_fact(published.outcome == "fires", words, margin.n)


def best_at_zero(rungs: Sequence[Ours], found: Found) -> Agreement:
    """A rule is best with no block trained; with rungs missing it cannot be shown, and may still be denied."""
    base, *others = map(found.of, rungs)
    over = {k: [*paired(group, base).values()] for k, group in enumerate(others, 1)}
    parts = {k: of_direction(gains, -1) for k, gains in over.items() if gains}
    lacking = [f"k = {k}" for k in over if k not in parts]
    kind = together([*parts.values()])
    words = "; ".join(f"k = {k}: {part.words}" for k, part in parts.items()) or "–"
    missing = f". Missing: {listed(lacking)}" if lacking else ""
    return Agreement("leaning" if kind == "confirmed" and lacking else kind, words + missing)


def gains_a_part(ends: tuple[Ours, Ours], whole: tuple[Ours, Ours], found: Found) -> Agreement:
    """From its first to its second runs a rule gains, and less than another does."""
    own, other = (paired(*(found.of(each) for each in reversed(pair))) for pair in (ends, whole))
    rises = of_direction([*own.values()], 1)
    less = of_direction([v - other[seed] for seed, v in own.items() if seed in other], -1)
    kind = "missing" if MISSING in (rises, less) else together([rises, less])
    return Agreement(kind, f"{rises.words}; over BP's gain: {less.words}")
