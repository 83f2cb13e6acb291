"""Evidence with what curves are drawn from, and no more: thousands of moments fit into memory."""

from walkback.records.evidence import BARE, Evidence, Moment
from walkback.records.quick import trusted

THIN = {"epoch", "accuracy", "loss", "reference_batch", "gamma", "cosine_out", "deepest_hidden", "deepest_gradient"}


def thinned(evidence: Evidence) -> Evidence:
    """Evidence whose moments between the first and the last have what curves are drawn from.

    Norms of the last state alone, and the cosines at the blocks' outputs. Of lists whose last entry is not known
    nothing is taken away.
    """
    seeds = [seed.model_copy(update={"moments": [*map(_thin, seed.moments[:-1]), *seed.moments[-1:]]})
             for seed in evidence.seeds]  # fmt: skip
    return evidence.model_copy(update={"seeds": seeds})


def _thin(moment: Moment) -> Moment:
    hidden, gradient = moment.hidden_norms, moment.gradient_norms
    if moment.epoch == 0 or not hidden or not gradient or hidden[-1] is None or gradient[-1] is None:
        return moment
    names = ("epoch", "accuracy", "loss", "reference_batch", "gamma", "cosine_out")
    kept = {name: getattr(moment, name) for name in names}
    return trusted(Moment, BARE | kept | {"deepest_hidden": hidden[-1], "deepest_gradient": gradient[-1]}, THIN)
