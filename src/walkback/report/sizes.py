"""A run's net in words, as far as it is known without running anybody's file."""

from walkback.records import RunConfig


def net_sizes(config: RunConfig) -> str:
    """The sizes of a net that is known here by name; of another the number of its blocks."""
    from walkback.nets import NETS, defaults  # here: most of what is judged is shown without torch

    if config.net not in NETS:
        return f"L = {config.blocks}"
    family = NETS.get(config.net)
    return family.sizes({**defaults(family), **config.net_options})
