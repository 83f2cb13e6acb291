"""The register of claims: what was published, which of our runs and which quantity it is held against, and how.

To add one, add an entry to the list of its section. What is published is typed into `report/published.py`, with its
source; its kind (a mean ± std, a size, a bound, a direction …) says how ours is compared. A statement that no single
number settles names a function of `statements.py` instead. `reason` is printed where ours differ.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from walkback.checks import DEFAULT
from walkback.records import IdentityRecord
from walkback.report import Stat, text
from walkback_paper import published as paper
from walkback_paper.published import Bound, Direction, Figure, Number, SizeRange
from walkback_paper.quantities import ACCURACY, DEEP_COSINE, GAMMA, GRADIENT, GROWTH, STREAM, Quantity
from walkback_paper.reproduced import statements as say
from walkback_paper.reproduced.found import BP, CB, DFA, FA, LADDER, METHODS, SB, SHALLOW, VARIANTS, Found, Ours


@dataclass(frozen=True)
class Claim:
    """One published figure or statement, and what of ours it is held against.

    label      what it is called where all claims are counted
    ours       our runs
    what       their quantity, at the end or after `epoch` epochs
    published  the figure; None: nothing is, and ours stands alone
    over       of a gain in accuracy: the runs that it is taken over, seed by seed
    check      of a statement: what settles it
    row        what its row is called; `earlier`: the same in the earlier re-run; `counted`: whether "In short" has it
    lead       words before, `more` and `after` words that carry a fact beside it, where it stands in a sentence
    reason     what we think, where ours differ
    """

    label: str
    ours: Ours
    what: Quantity = ACCURACY
    published: Figure | None = None
    over: Ours | None = None
    check: say.Check | None = None
    epoch: int | None = None
    row: str = ""
    earlier: float | None = None
    counted: bool = True
    lead: str = ""
    more: str = ""
    after: Callable[[Found], str] | None = None
    reason: str = ""


BATCH, LOG = say.BATCH, paper.LOG_BATCH
UNKNOWN = "we do not know for sure; what was tried, and how near it comes, is below"

# The main audit: 100 epochs, three seeds.
ACCURACIES = (
    *(
        Claim(f"{m.name} accuracy", m, ACCURACY, paper.ACCURACY[m.rule], row=m.name, reason=UNKNOWN,
              earlier=paper.EARLIER_ACCURACY.get(m.rule) if m.plain else None)
        for m in VARIANTS
    ),
    *(
        Claim(f"{m.name} k = 0 accuracy", m.but(k=0), ACCURACY, paper.ACCURACY.get(key), row=f"{m.name} k = 0",
              earlier=paper.EARLIER_ACCURACY.get(key))
        for m in METHODS for key in [f"{m.rule} k=0" if m.plain else ""]
    ),
    Claim("shallow accuracy", SHALLOW, row=SHALLOW.name),
)  # fmt: skip
CLEARS = Claim(
    f"FA clears the DFA-trained frozen net by {100 * DEFAULT['depth.margin']:g} points", FA, ACCURACY,
    Direction(1, DEFAULT["depth.margin"]), over=DFA.but(k=0),
)  # fmt: skip
VERDICTS = {m: Claim(f"verdict on {m.name}", m, check=partial(say.verdict, m)) for m in METHODS}

# Sizes, by layer at the end, and what the published thresholds were calibrated on.
TOPS = {
    quantity: {
        m: Claim(f"{m.name} {quantity.symbol}", m, quantity, claims[m.rule], reason=UNKNOWN)
        for m in VARIANTS if m.rule in claims
    }
    for quantity, claims in ((STREAM, paper.LAST_HIDDEN), (GRADIENT, paper.LAST_GRADIENT))
}  # fmt: skip
IN_TIME = tuple(
    Claim(f"{m.name} ‖h_L‖ after {epoch} epochs", m, STREAM, SizeRange(size, size, text(Stat((size,), "size"))),
          epoch=epoch, counted=epoch != 100)  # the end is counted by layer already
    for m in VARIANTS if m.rule == "dfa" for epoch, size in paper.DFA_STREAM.items()
)  # fmt: skip


def _calibrated(m: Ours, what: Quantity, name: str, healthy: float, failed: float) -> Claim:
    """Of the methods that are published to hold, or to fail by all checks; of others nothing is."""
    verdict = paper.VERDICTS[m.rule]
    if verdict not in ("holds", "D1, D2, D3 fire"):
        return Claim("", m, what, row=m.name)
    value, whose = (healthy, "healthy nets") if verdict == "holds" else (failed, "failed nets")
    above = value == max(healthy, failed)
    label = f"{name} of {m.name} is {'at least' if above else 'at most'} {value:g}"
    return Claim(label, m, what, Bound(value, above, whose), row=m.name, reason=UNKNOWN)


CALIBRATED = {
    GROWTH: [_calibrated(m, GROWTH, "growth", paper.HEALTHY_GROWTH, paper.FAILED_GROWTH) for m in VARIANTS],
    GRADIENT: [_calibrated(m, GRADIENT, "‖g_L‖", paper.HEALTHY_GRADIENT, paper.FAILED_GRADIENT) for m in VARIANTS],
}
AS_LOG = paper.AtBatch(paper.LAST_GRADIENT["fa"].low, LOG).at(BATCH)  # FA's ‖g_L‖ if it was taken from a log
FROM_A_LOG = tuple(
    Claim(f"{m.name} ‖g_L‖ if published at N = {LOG}", m, GRADIENT, SizeRange(AS_LOG, AS_LOG, f"{AS_LOG:.1e}"))
    for m in VARIANTS if m.rule == "fa"
)  # fmt: skip
GAMMAS = {
    m: Claim(f"{m.name} Γ", m, GAMMA, Number(paper.GAMMA[m.rule], "+.3f", "cosine"))
    for m in VARIANTS if m.rule in paper.GAMMA
}  # fmt: skip
PATTERNS = (
    Claim("DFA is aligned at its first block alone", DFA, check=partial(say.aligned_alone, DFA, 0),
          lead=", by the null"),
    Claim("FA is aligned at its last block alone", FA, check=partial(say.aligned_alone, FA, -1), lead=", by the null",
          reason="a small cosine can lie above what chance gives; the null tells that, its size does not"),
)  # fmt: skip
NOISE = Claim("DFA's gradient at h_L is numerical noise", DFA, GRADIENT, check=say.noise,
              reason="it is small, and float32 has its direction right (*Small, or noise?*)")  # fmt: skip

# Through time.
LOG_SIZES = tuple(
    Claim(f"‖g_L‖ of the published logs, {name}, ours at N = {LOG}", BP, GRADIENT, figure, epoch=epoch, row=name)
    for name, figure, epoch in (
        ("BP at the end", paper.LOG_GRADIENT["bp"], None), ("at init", paper.LOG_INIT_GRADIENT, 0),
    )
)  # fmt: skip
BARE = {m: m.but(f"{m.name}, no terminal norm", net_options={"terminal_norm": False}) for m in LADDER}
OTHER_N = "the date depends on N, and the published logs do not say theirs (*First firings*)"


def _dated(m: Ours, code: str) -> Claim:
    claim = say.DATES[code].get(m.rule)
    if claim is None:
        return Claim("", m, row=DASH_ROW)
    label = f"{m.name} first {code}" + ("" if claim else ": never")
    shown = " / ".join(map(str, claim)) or "never"
    return Claim(
        label, m, check=partial(say.dated, m, code, claim), row=shown, reason=OTHER_N if code == say.D2 else UNKNOWN
    )


DASH_ROW = "–"
FIRST = {(m, code): _dated(m, code) for m in VARIANTS for code in say.DATES}
FIRST |= {(BARE[m], code): Claim("", BARE[m], row=DASH_ROW) for m in (BP, FA) for code in say.DATES}
FIRST |= {
    (BARE[DFA], code): Claim(f"DFA without terminal norm: {label}", BARE[DFA], row=shown, check=check, reason=UNKNOWN)
    for code, label, shown, check in (
        (say.D1, "D1 fires later", "fires, later", partial(say.fires_later, BARE[DFA], DFA)),
        *(
            (code, f"{code}, never fires", "never", partial(say.dated, BARE[DFA], code, ()))
            for code in (say.D2, say.D2_LOG)
        ),
    )
}
STOPPING = {
    (m, n): Claim(f"stopping {m.name} at its first firing (N = {n}) costs no accuracy", m,
                  check=partial(say.stopping, m, code))
    for m in VARIANTS if m.rule == "dfa" for n, code in ((BATCH, say.D2), (LOG, say.D2_LOG))
}  # fmt: skip

# The penalty λ‖f_l‖².
LAMBDA, SHORT, LONG = paper.PENALTY, paper.PENALTY_EPOCHS, 100


def penalised(m: Ours, strength: float, epochs: int = SHORT) -> Ours:
    """The runs of one rule with that λ."""
    return m.but(penalty=strength, epochs=epochs)


RESCUED, RESCUED_LONG = penalised(DFA, LAMBDA), penalised(DFA, LAMBDA, LONG)
_at = paper.PENALTY_GRADIENT.at(BATCH)
PENALTY = (
    *(
        Claim(f"{m.name} accuracy, λ = {strength:g}, {SHORT} epochs", penalised(m, strength), ACCURACY, claims[m.rule])
        for m in (DFA, BP, CB, SB)
        for strength, claims in ((0.0, paper.PENALTY_WITHOUT), (LAMBDA, paper.PENALTY_WITH))
    ),
    Claim(f"DFA ‖h_L‖, λ = {LAMBDA:g}", RESCUED, STREAM, paper.PENALTY_HIDDEN, reason=UNKNOWN),
    Claim(f"DFA ‖g_L‖, λ = {LAMBDA:g}", RESCUED, GRADIENT, SizeRange(_at, _at, f"{_at:.1e}")),
    Claim(f"DFA deep cosine, λ = {LAMBDA:g}", RESCUED, DEEP_COSINE, paper.PENALTY_DEEP_COSINE),
    Claim(f"DFA accuracy, λ = {LAMBDA:g}, {LONG} epochs", RESCUED_LONG, ACCURACY, paper.PENALTY_LONG),
)  # fmt: skip


def _margin(ours: Ours) -> Callable[[Found], str]:
    def after(found: Found) -> str:
        judged = say.penalty_depth(found, ours)
        if judged is None:
            return ""
        by_us, _, margin = judged
        return (
            f"; {text(margin)} points over the frozen net, whose rest DFA trained without penalty. By our protocol "
            f"depth {say.is_(by_us.outcome)}"
        )

    return after


_longer = f" ({100 * (paper.PENALTY_LONG.mean - paper.ACCURACY['dfa k=0'].mean):+.1f} points over the frozen net)"
PENALTY_SAYS = (
    *(
        Claim(label, penalised(m, LAMBDA), ACCURACY, Direction(sign), over=penalised(m, 0.0),
              lead=f", λ = {LAMBDA:g} over λ = 0")
        for m, sign, label in ((DFA, 1, "the penalty helps DFA"), (BP, -1, "the penalty costs BP"))
    ),
    *(
        Claim(f"with the penalty {code} does not fire", RESCUED, check=partial(say.penalty_spares, RESCUED, code),
              lead=", published protocol", more=", or nearly")
        for code in ("D1", "D2")
    ),
    *(
        Claim(f"with the penalty D3 still fires, {epochs} epochs", ours, check=partial(say.still_fires, ours),
              after=_margin(ours), lead=", published protocol", more=more)
        for ours, epochs, more in ((RESCUED, SHORT, ""), (RESCUED_LONG, LONG, _longer))
    ),
)  # fmt: skip

# The depth ladder: accuracy with the last k blocks trained.
RUNGS = {
    (width, m): [m.but(k=k, epochs=epochs, net_options={"width": width, "depth": blocks}) for k in range(blocks + 1)]
    for width, blocks, epochs in ((256, 4, 100), (512, 2, 30)) for m in LADDER
}  # fmt: skip
ANCHORS = tuple(
    Claim(
        f"ladder anchor {m.name}{' k = 0' if k == 0 else ''}", m.but(k=k), ACCURACY, Number(paper.LADDER_ANCHORS[key])
    )
    for m, k, key in ((BP, None, "bp"), (FA, None, "fa"), (DFA, None, "dfa"), (DFA, 0, "dfa k=0"))
)


def _climb(width: int) -> Claim:
    label = f"BP's climb from k = 0 to k = L at d = {width}"
    return Claim(label, RUNGS[width, BP][-1], ACCURACY, paper.LADDER_CLIMB, over=RUNGS[width, BP][0])


def _falls(width: int) -> Claim:
    return Claim(f"DFA is best at k = 0 at d = {width}", DFA, check=partial(say.best_at_zero, RUNGS[width, DFA]),
                 lead=", over k = 0", more=", and falls once any block trains")  # fmt: skip


def _ends(width: int, m: Ours) -> tuple[Ours, Ours]:
    return RUNGS[width, m][0], RUNGS[width, m][-1]


LADDERS = {
    256: (
        _climb(256), _falls(256),
        Claim("FA gains a part of what BP does at d = 256", FA, lead=", from k = 0 to k = L",
              check=partial(say.gains_a_part, _ends(256, FA), _ends(256, BP))),
    ),
    512: (
        _climb(512), _falls(512),
        Claim("FA gains nothing at d = 512", RUNGS[512, FA][-1], ACCURACY, Direction(-1, DEFAULT["depth.margin"]),
              over=RUNGS[512, FA][0], lead=f", with less than {100 * DEFAULT['depth.margin']:g} points for nothing"),
    ),
}  # fmt: skip

# A net at random init, and the ViT-Mini.
INIT = Claim("at random init neither D1 nor D2 fires", BP.but(k=0), check=say.quiet_at_init)
VIT_EPOCHS = 4
VIT = {m: m.but(net="vit-mini", epochs=VIT_EPOCHS, wanted=False) for m in LADDER}
VIT_GROWTH = Claim(f"growth of BP in a ViT is at most {paper.HEALTHY_GROWTH_VIT:g}", VIT[BP],
                   check=partial(say.grows_at_most, [VIT[BP]], paper.HEALTHY_GROWTH_VIT))  # fmt: skip
_by = paper.VIT_FIRST_FLOOR
VIT_DATE = Claim(f"D2 fires of DFA in a ViT within {_by} epochs, at N = {LOG}", VIT[DFA],
                 check=partial(say.fired_by, [VIT[DFA]], say.D2_LOG, _by))  # fmt: skip


def _at_init(symbol: str, pick: Callable[[IdentityRecord], float]) -> Quantity:
    return Quantity(symbol, symbol, "share", lambda _: math.nan, partly=True,
                    at_end=lambda run: math.nan if run.identity is None else pick(run.identity))  # fmt: skip


_FROZEN = BP.but(k=0)
INIT_SIZES = (
    *(
        Claim(f"{what.symbol} at init", _FROZEN, what, claim, row=what.symbol)
        for what, claim in (
            *((_at_init(f"‖f_{b}‖/‖h_{b}‖", lambda r, b=b: r.branch[b]), paper.IDENTITY_BRANCH) for b in range(4)),  # type: ignore[misc]
            (_at_init("‖h_L − h_0‖/‖h_0‖", lambda r: r.moved), paper.IDENTITY_MOVED),
            (_at_init("cos(h_L, h_0)", lambda r: r.cosine), paper.IDENTITY_COSINE),
        )
    ),
    Claim("‖h_L‖ at init", _FROZEN, replace(STREAM, form="share"), paper.INIT_HIDDEN, epoch=0, row=STREAM.symbol),
    Claim("‖g_L‖ at init", _FROZEN, GRADIENT, paper.INIT_GRADIENT, epoch=0, row=GRADIENT.symbol),
)

# What the published recipe leaves open: each setting that was tried, the usual one first.
_SCHEDULES = {"cosine decay": {}, "constant rate": {"schedule": "constant"}}
_EMBEDS = {"embedding from its own matrix": {}, "embedding from a_0": {"rule_options": {"embed": "block"}}}
_SETTINGS: Mapping[Ours, Mapping[str, Mapping[str, Any]]] = {
    DFA: _SCHEDULES,
    FA: {
        f"{rate}, {embed}": {**of_rate, **of_rule}
        for embed, of_rule in _EMBEDS.items() for rate, of_rate in _SCHEDULES.items()
    },
}  # fmt: skip
TRIED = {m: {name: m.but(**settings) for name, settings in every.items()} for m, every in _SETTINGS.items()}
TRIED_GAINS = {  # shown where they are there
    m: {f"{name}, trained gains": m.but(wanted=False, net_options={"gains": True}, **s) for name, s in every.items()}
    for m, every in _SETTINGS.items()
}
TRIED_CLAIMS = tuple(
    Claim(f"{m.name}, {name}: {what.symbol}", ours, what, published[m.rule], reason=UNKNOWN)
    for m, every in TRIED.items() for name, ours in [*every.items()][1:]
    for what, published in ((ACCURACY, paper.ACCURACY), (STREAM, paper.LAST_HIDDEN), (GRADIENT, paper.LAST_GRADIENT))
)  # fmt: skip
