"""The pitfalls of published audits as questions, each answered from the records: yes is as it should be."""

from walkback.checks import Audit, judge
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import known, listed, range_words
from walkback.checks.stream import growth
from walkback.records import Cosine
from walkback.report.answers import effort_words, finding_of
from walkback.report.case import Case

Answered = tuple[str | None, str]  # yes, no or not known, with the reason


def pitfalls(case: Case, audit: Audit) -> list[tuple[str, str | None, str]]:
    """Every question with its answer and the reason, in the order of the protocol. The published one knows fewer."""
    ours = case.judgement.protocol == "ours"
    found: list[tuple[str, Answered]] = [
        ("Are gradient norms stated at one reference batch?", _one_batch(case)),
        ("Is the frozen baseline measured, with the seeds of the subject?", _frozen_by_seed(case)),
        *([("Is the net without its blocks compared with as well?", _shallow(case)),
           ("Has every net in a comparison its own learning rate, chosen by as many trials?", _rates(case))]
          if ours else []),
        ("Is the answer on accuracy the same by either frozen net, the rule's own and the one that bp trained?",
         _either_frozen(case, audit)),
        ("Is the growth over every block known, and not inferred from a mean over blocks?", _growth(case)),
        ("Is the cosine computed without a clamp (eps)?", _no_clamp(case)),
        ("Is the precision of the reference gradient measured, float32 against float64?", _precision(case)),
        ("Is the credit scored with the feedback weights that trained the net, and are they saved?",
         _own_feedback(case)),
        ("Are samples without a credit or a gradient left out, and counted?", _dead_samples(case)),
        ("Is the interval of the gain by Student's t over the seeds, and not a percentile bootstrap?",
         _students_t(case, audit)),
        ("Is Γ reported with the values of its blocks?", _gamma_by_block(case)),
        *([("Is the training free of symptoms (accuracy at chance, a stream that blows up, exact zeros, divergence)?",
            _symptoms(case))] if ours else []),
    ]  # fmt: skip
    return [(asks, *answered) for asks, answered in found]


def _one_batch(case: Case) -> Answered:
    normed = [m for m in case.finals if m.gradient_norms or m.gradient_at or m.deepest_gradient is not None]
    if not normed:
        return None, "no gradient norm is recorded"
    stated = [m.reference_batch for m in normed if m.reference_batch is not None]
    if len(stated) < len(normed):
        return None, "the norms are recorded without their batch N, and ‖g‖ goes with 1/N"
    batches = sorted(set(stated))
    if len(batches) > 1:
        return "no", f"they are stated at N = {listed([str(b) for b in batches])}"
    return "yes", f"N = {batches[0]}"


def _frozen_by_seed(case: Case) -> Answered:
    frozen = case.evidence.baselines.get("frozen")
    if frozen is None:
        return None, "the rule's own frozen net is not recorded"
    if frozen.alone:
        number = next(iter(frozen.accuracy.values()))
        return "no", f"it is one number typed in, {number}, without seeds or spread"
    lacking = [label for label in case.evidence.labels() if not known(frozen.accuracy.get(label))]
    if lacking:
        return "no", f"it lacks the accuracy of seed {listed(lacking)}"
    return "yes", f"n = {len(frozen.accuracy)}{', given by seed and not measured here' if frozen.typed else ''}"


def _shallow(case: Case) -> Answered:
    shallow = case.gain_over("shallow")
    if shallow is None or shallow.value is None:
        return None, "no shallow net is recorded"
    return "yes", f"training the blocks gains {100 * shallow.value:+.1f} points over it"


def _rates(case: Case) -> Answered:
    if case.judgement.rates is None:
        return None, "nothing is compared"
    equal = len(set(case.judgement.trials.values())) <= 1
    return "yes" if case.judgement.rates == "tuned" and equal else "no", effort_words(case.judgement)


def _either_frozen(case: Case, audit: Audit) -> Answered:
    evidence, judged = case.evidence, case.judgement
    own, other = evidence.baselines.get("frozen"), evidence.baselines.get("frozen_bp")
    if own is None or other is None:
        missing = [words for words, net in (("its own", own), ("bp's", other)) if net is None]
        return None, f"missing: {listed(missing)}"
    swapped = evidence.changed(baselines={**evidence.baselines, "frozen": other})
    by_other = judge(swapped, audit.thresholds, judged.protocol)
    found = [finding_of(judgement, "depth") for judgement in (judged, by_other)]
    outcomes = [f"{f.check} {f.outcome}" if f else "not asked" for f in found]
    says = f"by its own, which judges: {outcomes[0]}, {judged.verdict}; by bp's: {outcomes[1]}, {by_other.verdict}"
    return "yes" if judged.verdict == by_other.verdict else "no", says


def _growth(case: Case) -> Answered:
    grown = [growth(moment) for moment in case.finals]
    if not any(g.low is not None for g in grown):
        return None, "the norms of the hidden states are not there"
    if all(g.high is not None for g in grown):
        return "yes", f"the largest is {range_words([g.high for g in grown if g.high is not None])}"
    lows = [g.low for g in grown if g.low is not None]
    return "no", f"not every norm is recorded: some block grows by at least {range_words(lows)}"


def _no_clamp(case: Case) -> Answered:
    if not _scored(case):
        return None, case.silent
    off = [m.precision.clamped for m in case.finals if m.precision is not None and m.precision.status == "ok"]
    words = f"F.cosine_similarity would be off by {range_words(off)} at g_L" if off else ""
    return "yes", words or "what a clamp does is not measured"


def _precision(case: Case) -> Answered:
    found = [m.reference or m.precision for m in case.finals]
    chords = [p.chord for p in found if p is not None and p.status == "ok"]
    if found and len(chords) == len(found):
        return "yes", f"its direction at g_L is off by {range_words(chords)}"
    if not case.runs:
        return None, case.silent
    why = [p.status if p is not None else "no end was reached" for p in found if p is None or p.status != "ok"]
    return "no", f"not on every seed: {listed(list(dict.fromkeys(why)))}"


def _own_feedback(case: Case) -> Answered:
    cosines = _scored(case)
    if not cosines:
        return None, case.silent
    if any(cosine.status == "not available" for cosine in cosines):
        return "no", "the credit of some block was not available"
    if case.feedback is None:
        return "yes", "scored by the rule as it trains; its weights are in the run's checkpoint"
    if not case.feedback:
        return "yes", "no credit comes through feedback weights"
    return "yes", "scored by the rule as it trains; fresh weights serve as a null alone"


def _dead_samples(case: Case) -> Answered:
    cosines = _scored(case)
    if not cosines:
        return None, case.silent
    dead, total = max((cosine.total - cosine.alive, cosine.total) for cosine in cosines)
    return "yes", f"at most {dead} of {total} in a block" if dead else f"there is none among {total} in any block"


def _students_t(case: Case, audit: Audit) -> Answered:
    found, n = case.gain_over("frozen"), case.judgement.accuracy.n
    if case.judgement.protocol == "published":
        return "no", "the published protocol compares means alone"
    if found is None or found.value is None:
        return None, "there is no gain over a frozen net to give an interval of"
    if found.low is None or found.high is None:
        return "no", f"{'one seed gives' if n == 1 else f'{n} seeds give'} no interval"
    ends = f"{100 * found.low:+.1f} to {100 * found.high:+.1f} points, {100 * found.threshold:g} are required"
    return "yes", f"{100 * audit.thresholds[CONFIDENCE]:.4g}%, n = {n}: {ends}"


def _gamma_by_block(case: Case) -> Answered:
    if not any(known(moment.gamma) for moment in case.finals):
        return None, "no Γ is recorded"
    lists = [moment.cosine for moment in case.finals if known(moment.gamma)]
    if any(not cosines or None in cosines for cosines in lists):
        return "no", "only the average is recorded, not the values of the blocks"
    left = [c.status for cosines in lists for c in cosines or [] if c is not None and c.status != "ok"]
    return "yes", "in the table above" + (f"; without a value: {listed(list(dict.fromkeys(left)))}" if left else "")


def _symptoms(case: Case) -> Answered:
    noted, scale = case.judgement.symptoms, finding_of(case.judgement, "scale")
    if not noted and (scale is None or scale.basis == "missing"):
        return None, "the norms of the hidden states are not there"
    return "no" if noted else "yes", " ".join(noted) or "none was found in what is recorded"


def _scored(case: Case) -> list[Cosine]:
    """The cosines of all blocks and seeds, where walkback measured them: then it is known how."""
    found = [cosine for moment in case.finals for cosine in moment.cosine or [] if cosine is not None]
    return found if case.runs else []
