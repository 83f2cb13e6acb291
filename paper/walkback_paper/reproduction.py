"""reproduction: our figures beside the published ones, as a Markdown page written from records alone.

Runs are found by their config. Every sentence that rests on a comparison is chosen by that comparison, so that other
records give another page and never a false one. What is not there is named as missing.
"""

from collections.abc import Callable, Sequence

from walkback.checks import DEFAULT, two_sided
from walkback.records import Run, sittings_of
from walkback.report import duration
from walkback_paper import published as paper
from walkback_paper.agreement import CONFIDENCE, NEAR
from walkback_paper.base import net_words
from walkback_paper.reproduced.commands import beside_studies, to_continue
from walkback_paper.reproduced.controls import controls, precisions
from walkback_paper.reproduced.depth import init, ladder, penalty, vit
from walkback_paper.reproduced.firings import firings
from walkback_paper.reproduced.found import BP, DATA, METHODS, Found
from walkback_paper.reproduced.layers import cosines, gradient, noise, stream
from walkback_paper.reproduced.main_audit import accuracies, frozen_nets, short, verdicts
from walkback_paper.reproduced.tried import differences
from walkback_paper.reproduced.words import Writer, percent
from walkback_paper.sizing import seconds_of

SECTIONS: Sequence[tuple[str, Callable[[Writer], list[str]]]] = (
    ("Accuracy", accuracies),
    ("Which frozen net decides FA's verdict", frozen_nets),
    ("Verdicts and decision utility", verdicts),
    ("The same methods after 30 epochs", short),
    ("EP in float64 and float32", precisions),
    ("Size of the stream, ‖h_l‖", stream),
    ("Size of the true gradient, ‖g_l‖ at N = 128", gradient),
    ("Cosine of credit and gradient, by block", cosines),
    ("Small, or noise?", noise),
    ("First firings", firings),
    ("Penalty", penalty),
    ("Ladder", ladder),
    ("A net at init", init),
    ("Controls", controls),
    ("ViT-Mini", vit),
    ("What differs, what was tried, what we think", differences),
)


def page(runs: Sequence[Run]) -> str:
    """The whole page. Runs that are not there are named as missing; none is guessed."""
    writer = Writer(Found(runs))
    found = writer.found
    sections = [[f"## {title}", *write(writer)] for title, write in SECTIONS]
    counts = ", ".join(f"{method.name} {found.of(method).n}" for method in METHODS)
    return "\n\n".join([
        "# Reproduction",
        f"Published figures: {paper.CITATION}. They are what the authors report, typed in from the paper and its "
        "drafts. Everything else on this page is computed from records by the last command below. Two choices that the "
        "figures leave open follow quick trainings made before this tool, because they fitted better: no trained gains "
        "in the blocks, and FA's credit not normalised. Nothing else was tuned to agree.",
        "## How it was run",
        f"```console\n{_commands(found)}\n```",
        _recipe(found), _times(found), _rule(),
        "*Earlier re-run*: quick trainings of seed 42, made before this tool; neither published nor among these "
        "records. A cell without a finished run says *missing*.",
        *_continued(found),
        "## In short",
        f"Finished seeds of the main audit: {counts}.",
        writer.ledger.says(),
        *(part for section in sections for part in section),
    ])  # fmt: skip


def _commands(found: Found) -> str:
    return "\n".join([
        f"walkback data fetch {DATA}",
        "walkback study run all",
        *beside_studies(found),
        "walkback export runs --to results",
        "walkback reproduction results",
    ])  # fmt: skip


def _continued(found: Found) -> list[str]:
    """What would train the runs that are missing."""
    commands = "\n".join(to_continue(found))
    return [f"What trains the runs that are missing here:\n\n```console\n{commands}\n```"] if commands else []


def _recipe(found: Found) -> str:
    config = found.of(BP).config
    return (
        f"Unless it says otherwise: {net_words(config)}, CIFAR-10 with crops and flips, {config.epochs} epochs, AdamW "
        f"{config.lr:g} with weight decay {config.weight_decay:g} and cosine decay, batch {config.batch_size}. Norms "
        f"are medians over the first {config.probe_images:,} test images; gradients are stated as in a batch-mean loss "
        f"over N = {DEFAULT['reference.batch']:g}. *Trained gains*: the LayerNorms inside the blocks train gains and "
        "biases (ours have none unless it says so). *k*: the last k blocks train, the others stay at their random "
        "init; embedding, terminal norm and head always train. *D1, D2, D3*: the published checks of growth, of the "
        "gradient's size, and of depth."
    )


def _rule() -> str:
    n, sure = paper.SEEDS, percent(CONFIDENCE)
    return (
        f"*Agreement.* A published mean ± std over {n} seeds has the {sure} Student-t interval mean ± t·std/√{n} (t = "
        f"{two_sided(CONFIDENCE, n - 1):.2f}); two or more seeds of ours have theirs likewise. The figures are *not "
        "told apart* if the intervals overlap, otherwise they *differ*. With three seeds the intervals are wide: a "
        "true difference of three standard deviations overlaps in most cases, so overlap is no agreement. One seed of "
        f"ours is compared with the interval for one more published seed, mean ± t·std·√(1 + 1/{n}), which is wider "
        "still: *inside* or *outside*. A published figure without a spread can be neither: of sizes we give the factor "
        "between them (ours is the geometric mean, with the smallest and largest seed), called *within a factor "
        f"{NEAR:g}* or by how much they are *apart*; of others the difference. A *statement* about a direction is "
        "shown only if the whole interval of our paired differences lies on its side. A dash in a published column: "
        "not in our reference, which does not mean that it was not published."
    )


def _times(found: Found) -> str:
    used = found.used()
    sentences = [_used(used)] if used else ["No run that this page asks for is there."]
    sentences += [f"Left out: {'; '.join(found.left_out)}."] if found.left_out else []
    if found.doubtful:
        sentences.append(f"There twice with different ends, of which one is taken: {'; '.join(found.doubtful)}.")
    sentences += [f"Given, and without a place on this page: {found.others()}."] if found.others() else []
    return " ".join(sentences)


def _used(used: Sequence[Run]) -> str:
    kinds: dict[str, list[Run]] = {}
    for run in used:
        kinds.setdefault(f"{net_words(run.config)} for {run.config.epochs} epochs", []).append(run)
    counted = "; ".join(f"{len(runs)} of {kind}{_each(runs)}" for kind, runs in kinds.items())
    sittings = sittings_of(*used)
    if not sittings:
        return f"Runs used: {counted}."
    least = "at least " if any(sitting.seconds is None for sitting in sittings) else ""
    total = duration(sum(sitting.seconds or 0 for sitting in sittings))
    threads = ", one thread each" if {sitting.threads for sitting in sittings} == {1} else ""
    torch = ", ".join(sorted({f"torch {sitting.torch}" for sitting in sittings}))
    return f"Runs used: {counted}. Together {least}{total}{threads} ({torch})."


def _each(runs: Sequence[Run]) -> str:
    """How long they took. Of a run that was killed on its way a part is unknown: it does not stand for the others."""
    spent = [seconds for run in runs if (seconds := seconds_of(run)) is not None]
    if not spent:
        return " (no times)"
    low, high = duration(min(spent)), duration(max(spent))
    return f" ({low})" if low == high else f" ({low} to {high} each)"
