"""The nets by name, and the way in for a net that lives in somebody's own file."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.nets.base import NETS, Net, check_options, defaults, looking
from walkback.own import from_file, in_file, source_hash


def register_net(name: str, net: type[Net]) -> type[Net]:
    """Make a net of yours known by `name` to everything in this process."""
    if not _is_net(net):
        raise BadValue(f"{net!r} is not a net", "derive it from walkback.Net; docs/bring-your-net.md shows one")
    return NETS.add(name, net)


def find_net(name: str) -> type[Net]:
    """A registered name (`resmlp`), or a class in a file (`my_net.py:MyNet`)."""
    if not in_file(name):
        return NETS.get(name)
    remedy = "derive a class from walkback.Net there; docs/bring-your-net.md shows one"
    found: type[Net] = from_file(name, "net", _is_net, "path/to/my_net.py:MyNet", remedy)
    return found


def _is_net(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Net) and thing is not Net


def net_source(name: str) -> str | None:
    """A hash of the source of a net that is not ours, so that an edited net is a different run; None for ours."""
    return source_hash(name, find_net(name))


def make_net(name: str, shape: tuple[int, ...], classes: int, options: Mapping[str, Any]) -> Net:
    """Build a net for inputs of `shape`; its weights come from torch's global random state."""
    family = find_net(name)
    check_options(f"net {name}", family, options)
    family.check({**defaults(family), **options})
    net = family(shape, classes, **options)
    if family.__module__.partition(".")[0] != "walkback":
        check_promises(name, net)
    return net


def check_promises(name: str, net: Net) -> None:
    """What a net of somebody's own must keep, looked at once: parts, shapes, and a home for every parameter."""
    for part, kind in (("embed", nn.Module), ("blocks", nn.ModuleList), ("readout", nn.Module)):
        if not isinstance(getattr(net, part, None), kind):
            raise BadValue(
                f"net {name} has no {part} that is an nn.{kind.__name__}", "docs/bring-your-net.md shows one"
            )
    homeless = [n for n, _ in net.named_parameters() if n.partition(".")[0] not in ("embed", "blocks", "readout")]
    if homeless:
        raise BadValue(
            f"net {name} has parameters outside embed, blocks and readout, which no rule would train: "
            f"{', '.join(homeless[:3])}",
            "move them into a block: a learned shortcut belongs to the branch, not to the join",
        )
    if any(not any(True for _ in block.parameters()) for block in net.blocks):
        raise BadValue(f"net {name} has a block without parameters", "let every block be something that can learn")
    try:
        logits = _logits(net)
    except BadValue:
        raise
    except Exception as error:
        raise BadValue(
            f"net {name} does not run on inputs of shape {net.shape}: {type(error).__name__}: {error}",
            "mend it, or choose data of another shape",
        ) from error
    if logits.shape != (2, net.classes):
        raise BadValue(
            f"net {name} gives {tuple(logits.shape)} for 2 samples of {net.classes} classes",
            f"let the readout give (N, {net.classes})",
        )


def _logits(net: Net) -> Tensor:
    """The logits of two black images; the widths are looked at on the way."""
    assert net.widths
    with looking(net) as black:
        logits: Tensor = net(black)
    return logits
