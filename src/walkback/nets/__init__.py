"""The nets: one file a family, each offering embed, blocks, readout and a site for its credits."""

from walkback.nets import resmlp as resmlp
from walkback.nets import vit_mini as vit_mini
from walkback.nets.base import NETS, Net, check_options, defaults, make_net

__all__ = ["NETS", "Net", "check_options", "defaults", "make_net"]
