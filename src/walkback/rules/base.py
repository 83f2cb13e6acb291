"""The base class of all rules: a rule puts gradients into a net's parameters, and gives each block its credit.

By default the first follows from the second. Block l minimises the batch mean of ⟨f_l(h_l), a_l⟩ + λ‖f_l(h_l)‖², with
h_l and a_l fixed. The gradient of that at f_l is (a_l + 2λ f_l)/N, so no objective is needed: the credits
are passed to autograd as the gradients of the branches, together with the loss, which trains only the readout.
Blocks are cut from each other, so ONE backward call does what one optimizer and one backward per block would do. (For a
rule that asks for the gradient at h_L, the readout's part of that call is done first.)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net, check_options
from walkback.own import Classes
from walkback.registry import nearest
from walkback.rules.signal import Batch, Signal, output_error


@dataclass(frozen=True)
class Credits:
    """A rule's answer, in the scale of each sample's own loss: (N, d_{l+1}) for block l, (N, d_0) for the embedding.

    blocks    a_0 … a_{L−1}: a sequence of L, or one tensor (L, N, d). None for a block without credit
    embed     the embedding's; None: the same as block 0's
    loss      a rule that learns (its nn.Parameters) puts its own objective here; it joins the one backward call
    at_input  the credits to compare with g_l at the block's *input*, if they are not those that train it (bp)
    kind      which of a rule's credits these are, if it has several (a warm-up); recorded with each snapshot

    Block l then minimises the batch mean of ⟨f_l(h_l), a_l⟩, the embedding that of ⟨h_0, a⟩.
    """

    blocks: Sequence[Tensor | None] | Tensor
    embed: Tensor | None = None
    loss: Tensor | None = None
    at_input: Sequence[Tensor] | None = None
    kind: str | None = None

    def for_embedding(self, width: int) -> Tensor | None:
        """The embedding's credit, if there is one of its width."""
        credit = self.blocks[0] if self.embed is None and len(self.blocks) else self.embed
        return credit if credit is not None and credit.shape[1] == width else None


NORMALIZATIONS = ("none", "sample", "batch")


def check_normalization(how: str) -> str:
    """`how`, if it is a known normalisation."""
    if how not in NORMALIZATIONS:
        raise BadValue(f"no normalization is named {how!r}", nearest(str(how), NORMALIZATIONS))
    return how


def normalize_credit(credit: Tensor, how: str) -> Tensor:
    """`sample`: each row divided by its own RMS (+1e-6); `batch`: all by the RMS of the whole; `none`: unchanged.

    >>> normalize_credit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), "sample").round(decimals=4)
    tensor([[0.8485, 1.1314],
            [0.0000, 0.0000]])
    """
    if how == "none":
        return credit
    over = (-1,) if how == "sample" else (-2, -1)
    count = math.prod(credit.shape[axis] for axis in over)
    rms: Tensor = torch.linalg.vector_norm(credit, dim=over, keepdim=True) / count**0.5
    return credit / (rms + 1e-6)


class Feedbacks(nn.Module):
    """Fixed feedback weights of several sizes, one after the other; they are saved with the run."""

    def __init__(self, weights: Sequence[Tensor]):
        super().__init__()
        for place, weight in enumerate(weights):
            self.register_buffer(str(place), weight)

    def __len__(self) -> int:
        return len(self._buffers)

    def __getitem__(self, place: int) -> Tensor:
        weight = self._buffers[str(range(len(self))[place])]
        assert weight is not None
        return weight


class Rule(nn.Module):
    """Base of all rules. A rule's tensors (buffers: fixed feedback; parameters: learned) are saved with the run.

    Write `credits`, and walkback does the training. Or write `backward`, for a rule without credits. Read sizes from
    the net in __init__ (`net.widths`, `net.depth`, `net.classes`), and do not keep the net. Options are keyword
    arguments with defaults; take `**common` as well and pass it on, for those that every rule has. That is `normalize`,
    whose default each class sets.
    """

    default_normalize: ClassVar[str] = "none"
    added: ClassVar[Mapping[str, Any]] = {}
    """Options added after runs were recorded, with the value that means "as before"; see `Net.added`."""
    fresh_is_null: ClassVar[bool] = True
    """Whether this rule, with everything drawn again, knows nothing about the gradient: the null of updates and inputs.
    False if a fresh draw is already aligned (an inverse that starts near the identity) or hardly matters."""

    def __init__(self, net: Net, generator: torch.Generator, *, normalize: str | None = None):
        super().__init__()
        del net
        self.generator = generator
        self.normalize = check_normalization(self.default_normalize if normalize is None else normalize)

    def feedback(self, *size: int, std: float) -> nn.Buffer:
        """Fixed Gaussian feedback weights. Keep them as an attribute: then they are saved with the run."""
        return nn.Buffer(torch.randn(size, generator=self.generator) * std)

    def feedbacks(self, sizes: Sequence[tuple[int, int]], std: Sequence[float]) -> nn.Buffer | Feedbacks:
        """One matrix of each size: one tensor if all sizes are equal, which is faster; otherwise one tensor each."""
        if len(set(sizes)) <= 1 and len(set(std)) <= 1:
            return self.feedback(len(sizes), *(sizes[0] if sizes else (0, 0)), std=std[0] if std else 0.0)
        return Feedbacks([torch.randn(s, generator=self.generator) * x for s, x in zip(sizes, std, strict=True)])

    def credits(self, signal: Signal) -> Credits:
        """The credits before normalisation. A rule without credits is compared by its update."""
        return Credits([None] * signal.net.depth)

    def forward(self, signal: Signal) -> Credits:
        """The credits as they train the net."""
        return self.normalized(self.raw(signal))

    def raw(self, signal: Signal) -> Credits:
        """The credits before normalisation, one per block."""
        raw = self.credits(signal)
        if len(raw.blocks) != signal.net.depth:
            raise BadValue(
                f"rule {type(self).__name__} gives {len(raw.blocks)} credits for {signal.net.depth} blocks",
                "give one credit per block, or None for a block without credit",
            )
        return raw

    def normalized(self, raw: Credits) -> Credits:
        """Credits normalised as the option `normalize` says: over each sample, or over all samples given."""
        if self.normalize == "none":
            return raw
        embed = None if raw.embed is None else normalize_credit(raw.embed, self.normalize)
        blocks = raw.blocks
        if not isinstance(blocks, Tensor):
            given = [a for a in blocks if a is not None]
            if len(given) == len(blocks) and len({a.shape for a in given}) == 1:
                blocks = torch.stack(given)
        if isinstance(blocks, Tensor):
            return replace(raw, blocks=normalize_credit(blocks, self.normalize), embed=embed)
        each = [None if a is None else normalize_credit(a, self.normalize) for a in blocks]
        return replace(raw, blocks=each, embed=embed)

    def backward(self, net: Net, batch: Batch) -> Tensor:
        """Put gradients into the parameters of `net`, and of the rule; returns the batch's mean loss, detached."""
        start = net.embed(batch.inputs)
        stream, branches = [start.detach()], []
        for layer, block in enumerate(net.blocks):
            branches.append(block(stream[-1]))
            stream.append(net.join(layer, stream[-1], branches[-1].detach()))
        top = stream[-1].detach().requires_grad_()
        logits = net.readout(top)
        loss = F.cross_entropy(logits, batch.labels)

        def top_gradient() -> Tensor:
            """For rules that ask for ∂ℓ/∂h_L: do the readout's part of the backward pass first, and only once."""
            loss.backward()  # type: ignore[no-untyped-call]
            assert top.grad is not None
            return net.gradient_rows(top.grad) * len(batch.labels)  # the mean's gradient is 1/N of each sample's own

        error = partial(output_error, logits, batch.labels)
        credits = self(Signal(net, stream, batch, error=error, top=top_gradient))

        share = 1 / len(batch.labels)
        stacked = credits.blocks
        if isinstance(stacked, Tensor):
            stacked = stacked * share
        else:
            stacked = [None if a is None else a * share for a in stacked]
        roots: list[Tensor] = []
        gradients: list[Tensor | None] = []
        if start.requires_grad:
            roots.append(net.embed_rows(start))
            gradients.append(self._embed_credit(credits, stacked, roots[0], share))
        if top.grad is None:
            roots.append(loss)
            gradients.append(None)
        for layer, (branch, credit) in enumerate(zip(branches, stacked, strict=True)):
            if branch.requires_grad and credit is not None:  # a frozen block has nothing to learn
                at = net.rows(branch)
                if credit.shape != at.shape:
                    raise BadValue(
                        f"rule {type(self).__name__} gives block {layer} a credit of shape {tuple(credit.shape)}, and "
                        f"its output has rows of shape {tuple(at.shape)}",
                        "give a_l as wide as the block's output: net.widths[l + 1]",
                    )
                roots.append(at)
                gradients.append(credit + at.detach() * (2 * batch.penalty * share) if batch.penalty else credit)
        if credits.loss is not None:
            roots.append(credits.loss)
            gradients.append(None)
        torch.autograd.backward(roots, gradients)
        return loss.detach()

    def _embed_credit(
        self, credits: Credits, stacked: Sequence[Tensor | None] | Tensor, rows: Tensor, share: float
    ) -> Tensor:
        credit = stacked[0] if credits.embed is None else credits.embed * share
        if credit is None or credit.shape != rows.shape:
            raise BadValue(
                f"rule {type(self).__name__} has no credit for the embedding, whose rows are {rows.shape[1]} wide",
                "give Credits(..., embed=...) of that width",
            )
        return credit

    def after_step(self, net: Net) -> None:
        """Called after every optimizer step, and never by a probe: learned feedback, moving averages, counters."""

    def beside(self, trained: "Rule") -> None:
        """Called on a rule with fresh feedback that is compared with `trained` in a null, on the trained net.

        If the size of the feedback was read from the net at init, take it from `trained`.
        """


# --- rules by name, and rules in a user's own file --------------------------------------------------------------------

RULES: Classes[Rule] = Classes("rule", Rule, "docs/write-a-rule.md")
find_rule, rule_source = RULES.find, RULES.source


def register_rule(name: str, rule: type[Rule]) -> type[Rule]:
    """Register your own rule under `name` in this process."""
    return RULES.add(name, rule)


def make_rule(name: str, net: Net, generator: torch.Generator, options: Mapping[str, Any]) -> Rule:
    """Build a rule for a net and draw its feedback weights from `generator`."""
    kind = find_rule(name)
    check_options(f"rule {name}", kind, options)
    rule = kind(net, generator, **options)
    _check_saved(name, rule, net)
    return rule


def _check_saved(name: str, rule: Rule, net: Net) -> None:
    """Refuse a rule that keeps the net, or tensors that no checkpoint would save."""
    if any(part is net for part in rule.modules()):
        raise BadValue(
            f"rule {name} keeps the net", "read its sizes in __init__; `backward` and `credits` are given it"
        )
    for key in vars(rule).keys() - vars(torch.nn.Module()).keys():
        value = vars(rule)[key]
        if _holds_tensors(value):
            raise BadValue(
                f"rule {name} keeps tensors in {key}, a plain {type(value).__name__}: they would not be saved with the "
                "run, and a resumed run would go on with others",
                "keep them as self.B = self.feedback(...), self.feedbacks(...), nn.Buffer, nn.ParameterList or "
                "nn.ModuleList",
            )


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, torch.Tensor | torch.nn.Module):
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()
    return any(_holds_tensors(item) for item in items)
