"""The base class of all nets: embed → blocks → readout, and one row per sample from each feature; nets by name."""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.nets.reduction import lift, reduce_gradient, reduce_hidden
from walkback.own import Classes, is_ours
from walkback.registry import nearest


class Net(nn.Module):
    """h_0 = embed(x);  h_{l+1} = join(l, h_l, f_l(h_l)), l = 0..L−1;  logits = readout(h_L).

    `blocks[l]` computes f_l alone; the join is done here, so a rule can train each block separately. A family is
    one file: build `embed`, `blocks` and `readout`, and set how its features become rows.

    residual    True: blocks add to a stream, h + f.  False: a plain net, whose block *is* the next state
    reduction   how a feature becomes one row per sample: "as is" (N, d), "cls", "mean" or "flatten"
    widths      d_0 … d_L, the widths of those rows, measured

    `residual` and `reduction` are set by the class, or by its __init__. Parameters live in embed, blocks and readout.
    """

    embed: nn.Module
    blocks: nn.ModuleList
    readout: nn.Module
    residual: bool = True
    reduction: str = "as is"
    title: ClassVar[str] = ""
    """The family's name in captions; the class's own name if it is empty."""
    images: ClassVar[bool] = False
    """Whether the inputs must be images."""
    wholes: ClassVar[dict[str, int]] = {"width": 1, "depth": 0}
    """Options that are whole numbers, with the least that each can be."""
    added: ClassVar[Mapping[str, Any]] = {}
    """Options added after runs were recorded, with the value that means "as before". A run's config leaves out an
    option with that value, so a new option renames no run."""

    def __init__(self, shape: tuple[int, ...], classes: int):
        super().__init__()
        self.shape = tuple(shape)
        self.classes = classes

    @property
    def depth(self) -> int:
        """The number of blocks, L."""
        return len(self.blocks)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """d_0 … d_L: the widths of the rows of h_0 … h_L, from one pass over two black images."""
        with looking(self) as black:
            states, _ = self.unroll(self.embed(black))
        return tuple(self.rows(h).shape[1] for h in states)

    @property
    def width(self) -> int:
        """The width d of all rows; an error if they differ."""
        if len(set(self.widths)) > 1:
            raise BadValue(f"the widths of this net differ: {list(self.widths)}", "read net.widths, one per state")
        return self.widths[0]

    @property
    def credited_at_input(self) -> bool:
        """Whether a block's credit can be compared with the gradient at the block's input, as published.

        It needs a stream of one width, whose gradient hardly changes over a block. Otherwise a credit is
        compared where it acts, at the block's output.
        """
        return self.residual and len(set(self.widths)) == 1

    def join(self, layer: int, h: Tensor, f: Tensor) -> Tensor:
        """The next hidden state: h + f in a residual net, f in a plain one. Override it if shapes change."""
        del layer
        return h + f if self.residual else f

    def rows(self, h: Tensor) -> Tensor:
        """A feature as one row per sample, (N, d): where norms are taken and credits act."""
        return reduce_hidden(h, self.reduction)

    def gradient_rows(self, g: Tensor) -> Tensor:
        """The gradient with respect to a move of the rows; for "mean" that is the sum over positions."""
        return reduce_gradient(g, self.reduction)

    def lift(self, delta: Tensor, like: Tensor) -> Tensor:
        """The move of a whole feature that moves its rows by `delta`."""
        return lift(delta, like, self.reduction)

    def embed_rows(self, h: Tensor) -> Tensor:
        """Where the embedding receives its credit: one row per sample, (N, d_0)."""
        return self.rows(h)

    def embed_gradient(self, g: Tensor) -> Tensor:
        """The gradient with respect to a move of `embed_rows`, from the gradient at the whole of h_0."""
        return self.gradient_rows(g)

    def read(self, rows: Tensor) -> Tensor:
        """The logits from the rows of h_L alone, for rules that predict h_L."""
        if self.reduction != "as is":
            raise BadValue(
                f"the readout of {type(self).__name__} reads more than one row per sample",
                "use another rule, or a net that defines `read`",
            )
        logits: Tensor = self.readout(rows)
        return logits

    def unroll(self, h: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """From h_0 on, in one graph: the hidden states h_0 … h_L and the branches f_0 … f_{L−1}."""
        stream, branches = [h], []
        for layer, block in enumerate(self.blocks):
            branches.append(block(stream[-1]))
            stream.append(self.join(layer, stream[-1], branches[-1]))
        return stream, branches

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        logits: Tensor = self.readout(self.unroll(self.embed(x))[0][-1])
        return logits

    # What a family knows about its options before any net is built.

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Refuse options that no net can be built with. By default it checks those in `wholes`, if it has them."""
        for name, least in cls.wholes.items():
            value = options.get(name, least)
            if type(value) is not int or value < least:
                usual = f"write --net-option {name}={defaults(cls).get(name)}"
                raise BadValue(
                    f"{name} must be a whole number of at least {least}, not {value!r}",
                    f"give another --{name}" if name in Net.wholes else usual,
                )

    @classmethod
    def blocks_in(cls, options: Mapping[str, Any]) -> int:
        """How many blocks a net with these options has. Override it if there is no option `depth`."""
        if "depth" not in options:
            raise BadValue(
                f"{cls.__name__} does not say how many blocks it has",
                "give it an option `depth`, or a classmethod blocks_in(options)",
            )
        return int(options["depth"])

    @classmethod
    def residual_in(cls, options: Mapping[str, Any]) -> bool:
        """Whether a net with these options is residual."""
        return bool(options.get("skip", cls.residual))

    @classmethod
    def shallow(cls, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """The options of the same net without its blocks, a baseline; None if there is no such net."""
        return {**options, "depth": 0} if "depth" in options else None

    @classmethod
    def small(cls, width: int) -> dict[str, Any]:
        """The options of a net of this width, for small data; empty if the family has no such option."""
        return {"width": width} if "width" in defaults(cls) else {}

    @classmethod
    def sizes(cls, options: Mapping[str, Any]) -> str:
        """The sizes in words, for captions."""
        width = [f"d = {options['width']}"] if "width" in options else []
        return ", ".join([*width, f"L = {cls.blocks_in(options)}"])

    @classmethod
    def words(cls, options: Mapping[str, Any]) -> str:
        """Name and sizes in words, for captions."""
        return f"{cls.title or cls.__name__} {cls.sizes(options)}"

    @classmethod
    def quick(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a smaller net of this kind, for quick studies. By default: half the width."""
        return {**options, "width": options["width"] // 2} if "width" in options else dict(options)


@contextmanager
def looking(net: Net) -> Iterator[Tensor]:
    """Two black images to run a net on, in evaluation mode, without gradients; modes and random state are restored."""
    like = next(net.parameters())
    modes = [(part, part.training) for part in net.modules()]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            net.eval()
            yield torch.zeros(2, *net.shape, dtype=like.dtype, device=like.device)
        finally:
            for part, mode in modes:
                part.training = mode


class OncePerStep:
    """Update BatchNorm's running statistics once per step, in the first pass, however often a rule runs the net."""

    def __init__(self, net: nn.Module):
        self.norms = [m for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self.norms = [m for m in self.norms if m.track_running_stats]
        for norm in self.norms:
            norm.register_forward_hook(self._seen)

    @staticmethod
    def _seen(norm: nn.Module, args: object, output: object) -> None:
        del args, output
        if norm.training:
            norm.track_running_stats = False  # type: ignore[assignment]

    def begin(self) -> None:
        """Begin a new step: the next pass updates the statistics."""
        for norm in self.norms:
            norm.track_running_stats = True


def defaults(maker: Callable[..., Any]) -> dict[str, Any]:
    """The keyword options of a net or rule with their defaults.

    A class whose __init__ takes `**common` passes it on, so it has the options of the class above it as well.
    """
    parameters = inspect.signature(maker).parameters.values()
    own = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    if not isinstance(maker, type) or all(p.kind is not p.VAR_KEYWORD for p in parameters):
        return own
    writes = next(place for place, kind in enumerate(maker.__mro__) if "__init__" in vars(kind))
    return {**defaults(maker.__mro__[writes + 1]), **own}


def recorded(options: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a run's config keeps them: without later ones that mean "as before".

    >>> recorded({"width": 8, "down_std": 0.01}, {"down_std": 0.01})
    {'width': 8}
    """
    return {name: value for name, value in options.items() if name not in added or added[name] != value}


def check_options(what: str, maker: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse an option that `maker` does not have."""
    known = defaults(maker)
    for option in options:
        if option not in known:
            raise BadValue(f"{what} has no option {option!r}", nearest(option, known) if known else "it has none")


# --- nets by name, and nets in a user's own file ----------------------------------------------------------------------

NETS: Classes[Net] = Classes("net", Net, "docs/bring-your-net.md")
find_net, net_source = NETS.find, NETS.source


def register_net(name: str, net: type[Net]) -> type[Net]:
    """Register your own net under `name` in this process."""
    return NETS.add(name, net)


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
            raise BadValue(f"net {name} has no {part} that is an nn.{kind.__name__}", f"{NETS.shown} shows one")
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
