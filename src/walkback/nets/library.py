"""The nets by name, and nets in a user's own file."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.nets.base import NETS, Net, check_options, defaults, looking
from walkback.own import Classes, is_ours

CLASSES = Classes(NETS, Net, "docs/bring-your-net.md")
find_net, net_source = CLASSES.find, CLASSES.source


def register_net(name: str, net: type[Net]) -> type[Net]:
    """Register your own net under `name` in this process."""
    return CLASSES.add(name, net)


def make_net(name: str, shape: tuple[int, ...], classes: int, options: Mapping[str, Any]) -> Net:
    """Build a net for inputs of `shape`; its weights come from torch's global random state."""
    family = find_net(name)
    check_options(f"net {name}", family, options)
    resolved = {**defaults(family), **options}
    family.check(resolved)
    if is_ours(family):
        return family(shape, classes, **options)
    try:
        net = family(shape, classes, **options)
    except BadValue:
        raise
    except Exception as error:
        raise BadValue(
            f"net {name} could not be built for inputs of shape {tuple(shape)}: {type(error).__name__}: {error}",
            "fix it, or choose data of another shape",
        ) from error
    check_promises(name, net, resolved)
    return net


def check_promises(name: str, net: Net, options: Mapping[str, Any]) -> None:
    """Check a user's net once: its parts, its parameters, what it declares, how it runs."""
    for part, kind in (("embed", nn.Module), ("blocks", nn.ModuleList), ("readout", nn.Module)):
        if not isinstance(getattr(net, part, None), kind):
            raise BadValue(f"net {name} has no {part} that is an nn.{kind.__name__}", f"{CLASSES.shown} shows one")
    _check_parameters(name, net)
    _check_words(name, net, options)
    try:
        logits = _run_once(name, net)
    except BadValue:
        raise
    except Exception as error:
        raise BadValue(
            f"net {name} does not run on inputs of shape {net.shape}: {type(error).__name__}: {error}",
            "fix it, or choose data of another shape",
        ) from error
    if logits.shape != (2, net.classes):
        raise BadValue(
            f"net {name} gives {tuple(logits.shape)} for 2 samples of {net.classes} classes",
            f"let the readout return (N, {net.classes})",
        )


def _check_parameters(name: str, net: Net) -> None:
    """Check that every parameter is in a part that some credit reaches."""
    homeless = [n for n, _ in net.named_parameters() if n.partition(".")[0] not in ("embed", "blocks", "readout")]
    if homeless:
        raise BadValue(
            f"net {name} has parameters outside embed, blocks and readout, which no rule would train: "
            f"{', '.join(homeless[:3])}",
            "move them into a block: a learned shortcut belongs to the branch, not to the join",
        )
    if any(not any(True for _ in block.parameters()) for block in net.blocks):
        raise BadValue(f"net {name} has a block without parameters", "give every block parameters")
    if not any(True for _ in net.readout.parameters()):
        raise BadValue(f"net {name} has a readout without parameters", "end it with a layer that learns")


def _check_words(name: str, net: Net, options: Mapping[str, Any]) -> None:
    """Check that the class methods agree with what was built: runs and baselines are planned by them."""
    stated, built = type(net).blocks_in(options), net.depth
    if stated != built:
        raise BadValue(
            f"net {name} says that it has {stated} blocks with these options, and has {built}", "fix blocks_in"
        )
    if type(net).residual_in(options) != net.residual:
        raise BadValue(
            f"net {name} says residual={type(net).residual_in(options)} with these options, and was built with "
            f"residual={net.residual}",
            "fix residual_in, or set `residual` on the class",
        )


def _run_once(name: str, net: Net) -> Tensor:
    """The logits of two random images, state by state: nothing may change in place or be drawn at random."""
    assert net.widths
    with looking(net) as black:
        images = torch.randn_like(black)
        h = net.embed(images)
        adds = []
        for layer, block in enumerate(net.blocks):
            before = h.clone()
            f = block(h)
            branch = f.clone()
            after = net.join(layer, h, f)
            if not torch.equal(h, before) or not torch.equal(f, branch):
                raise BadValue(
                    f"block {layer} of net {name}, or its join, changes its input, the hidden state, in place",
                    "use nn.ReLU() without inplace=True, and h + f, not h += f",
                )
            adds.append(after.shape != f.shape or not torch.equal(after, f))
            h = after
        # A residual net may have a block that only reshapes; a plain one has no stream at all.
        if adds and any(adds) != net.residual:
            raise BadValue(
                f"net {name} says residual={net.residual}, and its join returns "
                f"{'f alone in every block' if net.residual else f'more than f in block {adds.index(True)}'}",
                f"say residual = {not net.residual}, or fix join",
            )
        before = h.clone()
        logits: Tensor = net.readout(h)
        if not torch.equal(h, before):
            raise BadValue(f"the readout of net {name} changes h_L in place", "use nn.ReLU() without inplace=True")
        drawn = torch.get_rng_state()
        copy.deepcopy(net).train()(images)  # a copy: BatchNorm's statistics would change
        if not torch.equal(drawn, torch.get_rng_state()):
            raise BadValue(
                f"net {name} draws random numbers in training: a rule that runs it twice would see two nets, and a "
                "resumed run would not be the same",
                "leave dropout out (p = 0)",
            )
    return logits
