"""The studies: one file each, a declaration of what is run, compared and drawn; drawing needs records alone."""

# Importing a study registers it; this order is that of the list.
from walkback.studies import snapshot as snapshot  # isort: skip
from walkback.studies import penalty as penalty  # isort: skip
from walkback.studies import partial as partial  # isort: skip
from walkback.studies import hero as hero  # isort: skip
from walkback.studies import ladder as ladder  # isort: skip
from walkback.studies import utility as utility  # isort: skip
from walkback.studies.base import STUDIES, Arm, Extent, Gap, Gathered, Study, gather
from walkback.studies.carry_out import carry_out, catalogue, draw, tables

__all__ = ["STUDIES", "Arm", "Extent", "Gap", "Gathered", "Study", "carry_out", "catalogue", "draw", "gather", "tables"]
