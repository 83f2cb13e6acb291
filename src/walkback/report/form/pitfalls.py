"""The pitfalls of published audits as questions, each answered from the records: yes is as it should be."""

from walkback.checks import Audit, judge
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import known, listed, range_words
from walkback.checks.scale import growth
from walkback.report.answers import effort_words
from walkback.report.case import Case, gain_over
from walkback.report.form.shapes import Pitfall
from walkback.report.summary import finding_of


def pitfalls(case: Case, audit: Audit) -> list[Pitfall]:
    """Every question, in the order of the protocol: gradients, frozen nets, growth, cosines, intervals, Γ."""
    return [
        _one_batch(case), _frozen_by_seed(case), *_shallow_and_rates(case), _either_frozen(case, audit), _growth(case),
        _no_clamp(case), _precision(case), _own_feedback(case), _dead_samples(case), _students_t(case, audit),
        _gamma_by_block(case), *_symptoms(case),
    ]  # fmt: skip


def _one_batch(case: Case) -> Pitfall:
    asks = "Are gradient norms stated at one reference batch?"
    normed = [m for m in case.finals if m.gradient_norms or m.gradient_at or m.deepest_gradient is not None]
    if not normed:
        return Pitfall(asks, "not known", "no gradient norm is recorded")
    stated = [m.reference_batch for m in normed if m.reference_batch is not None]
    if len(stated) < len(normed):
        return Pitfall(asks, "not known", "the norms are recorded without their batch N, and ‖g‖ goes with 1/N")
    batches = sorted(set(stated))
    if len(batches) > 1:
        return Pitfall(asks, "no", f"they are stated at N = {listed([str(b) for b in batches])}")
    return Pitfall(asks, "yes", f"N = {batches[0]}")


def _frozen_by_seed(case: Case) -> Pitfall:
    asks = "Is the frozen baseline measured, with the seeds of the subject?"
    frozen = case.evidence.baselines.get("frozen")
    if frozen is None:
        return Pitfall(asks, "not known", "the rule's own frozen net is not recorded")
    if frozen.alone:
        number = next(iter(frozen.accuracy.values()))
        return Pitfall(asks, "no", f"it is one number typed in, {number}, without seeds or spread")
    lacking = [label for label in case.evidence.labels() if not known(frozen.accuracy.get(label))]
    if lacking:
        return Pitfall(asks, "no", f"it lacks the accuracy of seed {listed(lacking)}")
    typed = ", given by seed and not measured here" if frozen.typed else ""
    return Pitfall(asks, "yes", f"n = {len(frozen.accuracy)}{typed}")


def _shallow_and_rates(case: Case) -> list[Pitfall]:
    """The published protocol knows neither."""
    if case.judgement.protocol == "published":
        return []
    asks, shallow = "Is the net without its blocks compared with as well?", case.gain_over("shallow")
    compared = Pitfall(asks, "not known", "no shallow net is recorded")
    if shallow is not None and shallow.value is not None:
        compared = Pitfall(asks, "yes", f"training the blocks gains {100 * shallow.value:+.1f} points over it")
    asks, rates = "Has every net in a comparison its own learning rate, chosen by as many trials?", case.judgement.rates
    if rates is None:
        return [compared, Pitfall(asks, "not known", "nothing is compared")]
    equal = len(set(case.judgement.trials.values())) <= 1
    return [compared, Pitfall(asks, "yes" if rates == "tuned" and equal else "no", effort_words(case.judgement))]


def _symptoms(case: Case) -> list[Pitfall]:
    """What the judgement noted beside its answers."""
    if case.judgement.protocol == "published":
        return []
    asks = "Is the training free of symptoms (accuracy at chance, a stream that blows up, exact zeros, divergence)?"
    noted, scale = case.judgement.symptoms, finding_of(case.judgement, "scale")
    if not noted and (scale is None or scale.basis == "missing"):
        return [Pitfall(asks, "not known", "the norms of the hidden states are not there")]
    return [Pitfall(asks, "no" if noted else "yes", " ".join(noted) or "none was found in what is recorded")]


def _either_frozen(case: Case, audit: Audit) -> Pitfall:
    asks = "Is the answer on accuracy the same by either frozen net, the rule's own and the one that bp trained?"
    evidence, judged = case.evidence, case.judgement
    own, other = evidence.baselines.get("frozen"), evidence.baselines.get("frozen_bp")
    if own is None or other is None:
        missing = [words for words, net in (("its own", own), ("bp's", other)) if net is None]
        return Pitfall(asks, "not known", f"missing: {listed(missing)}")
    swapped = evidence.changed(baselines={**evidence.baselines, "frozen": other})
    by_other = judge(swapped, audit.thresholds, judged.protocol)
    found = [gain_over(judgement, "frozen") for judgement in (judged, by_other)]
    outcomes = [f"{f.check} {f.outcome}" if f else "not asked" for f in found]
    same = judged.verdict == by_other.verdict
    says = f"by its own, which judges: {outcomes[0]}, {judged.verdict}; by bp's: {outcomes[1]}, {by_other.verdict}"
    return Pitfall(asks, "yes" if same else "no", says)


def _growth(case: Case) -> Pitfall:
    asks = "Is the growth over every block known, and not inferred from a mean over blocks?"
    grown = [growth(moment) for moment in case.finals]
    if not any(g.low is not None for g in grown):
        return Pitfall(asks, "not known", "the norms of the hidden states are not there")
    if all(g.high is not None for g in grown):
        return Pitfall(asks, "yes", f"the largest is {range_words([g.high for g in grown if g.high is not None])}")
    lows = [g.low for g in grown if g.low is not None]
    return Pitfall(asks, "no", f"not every norm is recorded: some block grows by at least {range_words(lows)}")


def _no_clamp(case: Case) -> Pitfall:
    asks = "Is the cosine computed without a clamp (eps)?"
    if not _has_cosines(case):
        return Pitfall(asks, "not known", "no cosine of a block is recorded")
    off = [m.precision.clamped for m in case.finals if m.precision is not None and m.precision.status == "ok"]
    would = (
        f"F.cosine_similarity would be off by {range_words(off)} at g_L" if off else "what a clamp does is not measured"
    )
    return Pitfall(asks, "yes", would) if case.runs else Pitfall(asks, "not known", case.silent)


def _precision(case: Case) -> Pitfall:
    asks = "Is the precision of the reference gradient measured, float32 against float64?"
    found = [m.reference or m.precision for m in case.finals]
    chords = [p.chord for p in found if p is not None and p.status == "ok"]
    if found and len(chords) == len(found):
        return Pitfall(asks, "yes", f"its direction at g_L is off by {range_words(chords)}")
    if not case.runs:
        return Pitfall(asks, "not known", case.silent)
    why = [p.status if p is not None else "no end was reached" for p in found if p is None or p.status != "ok"]
    return Pitfall(asks, "no", f"not on every seed: {listed(list(dict.fromkeys(why)))}")


def _own_feedback(case: Case) -> Pitfall:
    asks = "Is the credit scored with the feedback weights that trained the net, and are they saved?"
    if not case.runs or not _has_cosines(case):
        return Pitfall(asks, "not known", case.silent)
    statuses = {c.status for m in case.finals for c in m.cosine or [] if c is not None}
    if "not available" in statuses:
        return Pitfall(asks, "no", "the credit of some block was not available")
    if case.feedback is None:
        return Pitfall(asks, "yes", "scored by the rule as it trains; its weights are in the run's checkpoint")
    if not case.feedback:
        return Pitfall(asks, "yes", "no credit comes through feedback weights")
    return Pitfall(asks, "yes", "scored by the rule as it trains; fresh weights serve as a null alone")


def _dead_samples(case: Case) -> Pitfall:
    asks = "Are samples without a credit or a gradient left out, and counted?"
    if not case.runs or not _has_cosines(case):
        return Pitfall(asks, "not known", case.silent)
    counted = [(c.total - c.alive, c.total) for m in case.finals for c in m.cosine or [] if c is not None]
    dead, total = max(counted)
    if not dead:
        return Pitfall(asks, "yes", f"there is none among {total} in any block")
    return Pitfall(asks, "yes", f"at most {dead} of {total} in a block")


def _students_t(case: Case, audit: Audit) -> Pitfall:
    asks = "Is the interval of the gain by Student's t over the seeds, and not a percentile bootstrap?"
    found, n = case.gain_over("frozen"), case.judgement.accuracy.n
    if case.judgement.protocol == "published":
        return Pitfall(asks, "no", "the published protocol compares means alone")
    if found is None or found.low is None or found.high is None:
        if found is not None and found.value is not None:
            return Pitfall(asks, "no", f"{_count(n)} no interval")
        return Pitfall(asks, "not known", "there is no gain over a frozen net to give an interval of")
    ends = f"{100 * found.low:+.1f} to {100 * found.high:+.1f} points, {100 * found.threshold:g} are required"
    return Pitfall(asks, "yes", f"{100 * audit.thresholds[CONFIDENCE]:.4g}%, n = {n}: {ends}")


def _gamma_by_block(case: Case) -> Pitfall:
    asks = "Is Γ reported with the values of its blocks?"
    if not any(known(moment.gamma) for moment in case.finals):
        return Pitfall(asks, "not known", "no Γ is recorded")
    lists = [moment.cosine for moment in case.finals if known(moment.gamma)]
    if any(not cosines or None in cosines for cosines in lists):
        return Pitfall(asks, "no", "only the average is recorded, not the values of the blocks")
    left = [c.status for cosines in lists for c in cosines or [] if c is not None and c.status != "ok"]
    out = f"; without a value: {listed(list(dict.fromkeys(left)))}" if left else ""
    return Pitfall(asks, "yes", f"in the table above{out}")


def _has_cosines(case: Case) -> bool:
    return any(c is not None for moment in case.finals for c in moment.cosine or [])


def _count(n: int) -> str:
    return "one seed gives" if n == 1 else f"{n} seeds give"
