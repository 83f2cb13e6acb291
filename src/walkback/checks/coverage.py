"""coverage: in how many blocks does the credit point where the gradient does, beyond what chance would give?

Γ is an average over blocks. It can be well above zero while one block carries it and the others learn from noise.
A rule without credits is judged by its updates.
"""

import statistics
from collections.abc import Mapping, Sequence

from walkback.checks.base import Check, Date, register
from walkback.checks.by_seed import by_text
from walkback.checks.covering import UPDATE, Compared, Cover, clear_blocks, compared, cover, held
from walkback.checks.finding import Finding, Outcome, Protocol, agreed, known, listed, stable_range
from walkback.checks.thresholds import OURS, Limit, Thresholds
from walkback.records.evidence import Evidence, Moment

SHARE, BAND = "coverage.share", "coverage.band"
NOT_PUBLISHED = "The published protocol does not ask in how many blocks credit clears its null."
ZEROS = "zero credits"  # a probe of one file
FEW_ZEROS = 0.01


def _find(evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
    """Fires if Γ is above its null while at most half of the blocks are, on every seed; see docs/checks.md."""
    share, band = thresholds[SHARE], thresholds[BAND]
    moments = [seed.final for seed in evidence.seeds]
    # Where it is not known whether there is a stream, input and output must say the same.
    kinds = (True, False) if evidence.residual is None else (evidence.residual,)
    held_by = {kind: [held(moment, kind) for moment in moments] for kind in kinds}
    every_held = [one for those in held_by.values() for one in those]

    def outcome(at: float, width: float) -> Outcome:
        if evidence.blocks == 1 or protocol == "published":
            return "not applicable"
        return agreed([one.outcome(at, width) for one in every_held])

    covers = [one.cover(band) for one in held_by[kinds[0]]]
    found = outcome(share, band)
    every = bool(covers) and all(c.blocks for c in covers)
    blocks_known = every and not any(None in c.blocks for c in covers)
    shown = every and evidence.blocks != 1  # one block is not asked, and so has no share
    gammas_known = all(c.positive is not None for c in covers)
    exact = evidence.blocks == 1 or (blocks_known and (found == "passes" or gammas_known))
    counts = [count / len(c.blocks) for c in covers if c.blocks for count in range(len(c.blocks) + 1)]
    low, high = stable_range(lambda at: outcome(at, band), counts, share)
    by_share = (low or None, None if high == 1 else high)  # a share ends at 0 and 1
    widths = [width for kind in (True, False) for moment in moments for width in _widths(compared(moment, kind))]
    narrow, wide = stable_range(lambda width: outcome(share, width), widths, band)
    by_band = (narrow if narrow is not None and narrow > 0 else None, wide)
    return Finding(
        check="coverage", outcome=found, basis="exact" if exact else "missing" if found == "inconclusive" else "bound",
        value=statistics.median(c.sure for c in covers) if blocks_known and shown else None,
        low=min(c.sure for c in covers) if shown else None,
        high=max(c.possible for c in covers) if shown else None,
        threshold=share, stable_range=by_share, ranges={SHARE: by_share, BAND: by_band},
        says=NOT_PUBLISHED if protocol == "published" else _says(evidence, covers, found, thresholds, kinds[0]),
        warnings=_warnings(evidence, band),
    )  # fmt: skip


def _widths(found: Compared) -> list[float]:
    """The band widths at which a block, or Γ, would stop to clear its null."""
    pairs = list(zip(found.values or [], found.nulls or [], strict=False))
    values = [(c.value, null) for c, null in pairs if c is not None and null is not None]
    if found.mean is not None and found.null_mean is not None:
        values.append((found.mean, found.null_mean))
    return [(value - null.mean) / null.std for value, null in values if null.std > 0]


def _says(evidence: Evidence, covers: Sequence[Cover], found: Outcome, limits: Thresholds, residual: bool) -> str:
    if evidence.blocks == 1:
        return "The net has one block, so Γ is no average and hides nothing."
    found_in = [compared(seed.final, residual) for seed in evidence.seeds]
    what = "updates" if any(one.place == "update" for one in found_in) else "cosines"
    if not any(c.blocks for c in covers):
        aside = "The rule has no credits, and the" if what == "updates" else "The"
        return f"{aside} {what} of the blocks are not known."
    if not any(one.nulls and any(one.nulls) for one in found_in):
        return f"The {what} of the blocks are known, but not the null to compare them with."
    each = {label: _seed_said(c) for label, c in zip(evidence.labels(), covers, strict=True)}
    same = len(set(each.values())) == 1
    blocks = next(iter(each.values())) if same else "; ".join(f"seed {label}: {said}" for label, said in each.items())
    share = limits[SHARE]
    part = f"{share:.0%} of the blocks"
    if found == "inconclusive" and evidence.residual is None and len({c.outcome(share) for c in covers}) == 1:
        told = {
            "fires": f"Γ is positive, and credit reaches at most {part}: {blocks}. In a residual net that fires",
            "passes": f"Credit clears its null in more than {part}: {blocks}. In a residual net that passes",
        }.get(covers[0].outcome(share))
        if told:
            return (
                f"{told}, but at the blocks' output the answer differs or is not settled. It is not known whether the "
                "net is residual: say so with residual=."
            )
    finals = [seed.final for seed in evidence.seeds]
    if found == "inconclusive" and any(held(final, residual).arrives(share, limits[BAND]) for final in finals):
        return (
            f"At the blocks' input, where Γ is taken, not every seed reaches more than {part}: {blocks}. At their "
            "output, where credit acts, it reaches more. So it is not shown that Γ hides anything."
        )
    place = ", at the blocks' output," if any(one.place == "output" for one in found_in) else ""
    not_agreed = "The seeds do not agree on whether"
    of_credit, of_updates = {
        "fires": (f"The positive Γ hides that credit{place} reaches at most {part}",
                  f"Their average clears its null, and hides that they do so in at most {part}"),
        "passes": (f"Credit{place} clears its null in more than {part}",
                   f"They clear their null in more than {part}"),
        "away": (f"Γ{place} is below its own null: on average credit points away from the gradient",
                 "On average they point away from the gradient"),
        "not applicable": (f"Γ{place} is not above its own null, so credit does not explain what was learned",
                           "Their average does not clear its null, so they do not explain what was learned"),
        "inconclusive": (f"{not_agreed} credit{place} reaches more than {part}, or not all is known",
                         f"{not_agreed} they clear their null in more than {part}, or not all is known"),
    }["away" if found == "not applicable" and all(c.away for c in covers) else found]  # fmt: skip
    if what == "updates":
        return f"The rule has no credits, so its updates are compared with the gradient. {of_updates}: {blocks}."
    return f"{of_credit}: {blocks}."


def _seed_said(c: Cover) -> str:
    """Which blocks are covered and which are not known."""
    clear = [str(block) for block, state in enumerate(c.blocks) if state]
    unknown = [str(block) for block, state in enumerate(c.blocks) if state is None]
    said = f"{len(clear)} of {len(c.blocks)} covered"
    said += f" ({_named(clear)})" if clear else ""
    said += f", {_named(unknown)} not known" if unknown else ""
    return said + (", Γ or its null not known" if c.positive is None else "")


def _named(blocks: list[str]) -> str:
    return ("block " if len(blocks) == 1 else "blocks ") + listed(blocks)


def _warnings(evidence: Evidence, band: float) -> list[str]:
    """Blocks without a number, by name and reason; where the output would tell something else; credits of zero."""
    told: list[tuple[str, str]] = []
    for label, seed in evidence.labelled():
        moment = seed.final
        found = compared(moment, evidence.residual)
        dead = [
            f"block {n} ({c.status})" for n, c in enumerate(found.values or []) if c is not None and c.status != "ok"
        ]
        if dead:
            told.append((label, f"no cosine in {listed(dead)}"))
        inside = clear_blocks(found.values, found.nulls, band) if found.place == "input" else []
        outside = clear_blocks(moment.cosine_out, moment.null_out or moment.null, band)
        if inside and outside and None not in inside + outside and inside != outside:
            there = [str(block) for block, state in enumerate(outside) if state]
            which = _named(there) if there else "no block"
            told.append((label, f"at the blocks' output credit covers {which}"))
        told += [
            (
                label,
                f"{100 * zeros.value:.3g} % of the credits of block {n} are exactly zero; were they lost to rounding?",
            )
            for n, zeros in enumerate(moment.measured.get(ZEROS, []))
            if zeros.status == "ok" and known(zeros.value) and zeros.value > FEW_ZEROS
        ]
    return by_text(told)


class Coverage(Check):
    """The share of blocks whose credit clears its null."""

    name = "coverage"
    place = 4
    asks = "In how many blocks does credit arrive?"
    raised = "Γ is positive on every seed, and at most half of the blocks clear their null, also at their output"
    heading = "blocks"
    quantity: Mapping[Protocol, str] = {"ours": "the share of blocks whose credit clears its null"}
    not_asked = "The published protocol does not ask in how many blocks credit arrives."
    form = "share"
    share_of = "of blocks"
    tests_claim = True
    figure = "cosines"
    limits: Mapping[str, Limit] = {
        BAND: Limit(3, OURS, "not calibrated: standard deviations of the null, conventional for 'not by chance'"),
        SHARE: Limit(
            0.5, OURS, "the published cosines, one covered block of four in FA and DFA and all of them in BP",
            same_answer=(0.25, 1), allowed=(0, 1), form="percent",
        ),
    }  # fmt: skip
    dates = (Date("coverage", "coverage", "gamma", "coverage"),)
    judged = "The share of blocks whose cosine clears its null. One dot is one seed; the bar spans them."
    layers = (
        "The cosine of {of} and true gradient in each block, {title}, on every seed. The grey bar behind a mark is its "
        "null: what credit that learned nothing gives, mean ± {band} standard deviations. Filled: above it. Hollow: "
        "not above it. Γ, on the right, is the average."
    )
    means: Mapping[Outcome, str] = {
        "fires": "Aggregation collapse: the average hides that credit reaches only a part of the net.",
        "passes": "In more than the required share of the blocks, credit points where the gradient does, beyond "
        "chance.",
        "inconclusive": "The seeds differ, or a cosine or its null was not measured.",
        "not applicable": "Γ hides nothing here. But credit that covers so little does not explain what is learned "
        "either, so the subject cannot hold.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Report the cosine of every block instead of Γ.",
        "inconclusive": "If the seeds differ, train more of them. If a cosine or its null is missing, keep the "
        "feedback weights and measure both in every block. Say whether the net has a residual stream.",
        "not applicable": "Check the order, the sign and the feedback weights of the credits. If they are what trained "
        "the net, claim no credit assignment by them.",
    }

    find = staticmethod(_find)

    def phrase(self, finding: Finding) -> str:
        """How many blocks credit reaches, and whether Γ hides it."""
        if finding.low is None or finding.high is None:
            return "in how many blocks credit arrives is not known"
        low, high = (f"{100 * end:.0f}" for end in (finding.low, finding.high))
        if finding.outcome == "inconclusive" and low != high:
            why = "depending on the seed" if finding.basis == "exact" else "as far as is known"
            return f"credit reaches {low} to {high} % of its blocks, {why}"
        share = f"{high} %" if low == high else f"{low} to {high} %"
        reached = "no block" if high == "0" else "every block" if low == "100" else f"{share} of its blocks"
        if finding.outcome == "fires":
            return f"Γ hides that credit reaches {'' if high == '0' else 'only '}{reached}"
        return f"credit reaches {reached}"

    def contradicts(self, finding: Finding) -> str | None:
        """Credit that reaches no more than the required share, and is no average either, explains nothing."""
        if finding.outcome != "not applicable" or finding.high is None:
            return None
        return "credit does not clear its null on average, nor in enough blocks to explain what is learned"

    def fires_at(
        self, moment: Moment, thresholds: Thresholds, residual: bool | None, start: Moment | None
    ) -> Mapping[str, bool | None]:
        """Where the null was recorded: whether Γ hides that credit does not arrive."""
        del start
        if moment.null_gamma is None and not (moment.null or moment.null_out or moment.measured.get(UPDATE)):
            return {self.name: None}  # without any null nothing is covered, nor hidden
        kinds = (True, False) if residual is None else (residual,)
        found = agreed([held(moment, kind).outcome(thresholds[SHARE], thresholds[BAND]) for kind in kinds])
        one = 1 in moment.block_counts().values()
        return {self.name: None if one or found == "inconclusive" else found == "fires"}

    def by_seed(self, evidence: Evidence, thresholds: Thresholds) -> Mapping[str, float | None]:
        """The share that is covered for certain."""
        covers = {label: cover(seed.final, thresholds[BAND], evidence.residual)
                  for label, seed in evidence.labelled()}  # fmt: skip
        return {label: c.sure if c.blocks else None for label, c in covers.items()}


coverage = register(Coverage())
