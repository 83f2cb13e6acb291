"""The nets: one file per family, found by walking this folder; each offers embed, blocks, readout and rows."""

from walkback.nets.base import (
    NETS,
    Net,
    OncePerStep,
    check_options,
    defaults,
    find_net,
    make_net,
    net_source,
    recorded,
    register_net,
)
from walkback.registry import walk

walk("walkback.nets")

__all__ = [
    "NETS", "Net", "OncePerStep", "check_options", "defaults", "find_net", "make_net", "net_source", "recorded",
    "register_net",
]  # fmt: skip
