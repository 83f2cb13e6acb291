"""From token and image features to one row per sample, (N, d); and the matching reduction of their gradients.

    as is     (N, d)
    cls       the first token of (N, T, d); g is that token's gradient
    last      the last token, which in a causal model depends on all the others; g is that token's gradient
    mean      over the tokens of (N, T, d), or the positions of (N, C, H, W); g is the *sum* of their gradients, because
              only then ⟨g, δ⟩ is the change of the loss when every token moves by δ, which moves their mean by δ
    flatten   everything in one row
    auto      (N, d): as is. (N, T, d): cls if the model has a parameter of one token with such a name (cls_token,
              class_token, class_embedding, …) or a flag use_cls that is on, else mean. Images and the rest: flatten

A 3-d feature counts as tokens; for (N, channels, length) of a 1-d convolution use "flatten".
"""

from torch import Tensor, nn, zeros_like

from walkback.errors import BadValue
from walkback.registry import nearest

REDUCTIONS = ("auto", "cls", "last", "mean", "flatten")
ONE_TOKEN = ("cls", "last")
CLS_NAMES = ("cls", "cls_token", "class_token", "cls_tok", "cls_emb", "cls_embed", "cls_embedding", "class_embedding")
CLS_FLAGS = ("use_cls", "use_cls_token", "has_cls_token", "with_cls_token", "cls_token", "class_token")


def has_cls_token(model: nn.Module) -> bool:
    """Whether a parameter is a cls token by its name and shape, or a flag says that there is one (use_cls=True).

    A name that merely contains "cls" (cls_weights, cls_head) says nothing.
    """
    for part in model.modules():
        flagged = any(vars(part).get(name) is True for name in CLS_FLAGS)
        token = any(
            name.lower() in CLS_NAMES and t is not None and t.dim() > 0 and t.numel() == t.shape[-1]
            for name, t in part._parameters.items()
        )
        if flagged or token:
            return True
    return False


def reduction_of(dims: int, asked: str, cls: bool) -> str:
    """The way a feature of `dims` dimensions becomes one row per sample, given the option `asked`.

    >>> reduction_of(2, "mean", False), reduction_of(3, "auto", True), reduction_of(4, "auto", True)
    ('as is', 'cls', 'flatten')
    """
    if asked not in REDUCTIONS:
        raise BadValue(f"no reduction is named {asked!r}", nearest(asked, REDUCTIONS))
    if dims <= 2:
        return "as is"
    if asked in ONE_TOKEN and dims != 3:
        which = "first" if asked == "cls" else "last"
        says = f"{asked} takes the {which} token of (N, T, d), and this feature has {dims} dimensions"
        raise BadValue(says, "use flatten")
    if asked == "auto":
        return "flatten" if dims != 3 else "cls" if cls else "mean"
    return asked


def reduce_hidden(h: Tensor, how: str) -> Tensor:
    """The feature as (N, d)."""
    if how in ONE_TOKEN:
        return h[:, 0 if how == "cls" else -1]
    if how == "mean":
        return h.mean(1) if h.dim() == 3 else h.flatten(2).mean(2)
    return h if h.dim() == 2 else h.reshape(len(h), -1)


def reduce_gradient(g: Tensor, how: str) -> Tensor:
    """The gradient (or credit) for a move of the reduced feature: as `reduce_hidden`, but the *sum* for "mean".

    >>> import torch
    >>> g = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])  # one sample, two tokens
    >>> reduce_gradient(g, "mean"), reduce_gradient(g, "cls")
    (tensor([[4., 6.]]), tensor([[1., 2.]]))
    """
    if how == "mean":
        return g.sum(1) if g.dim() == 3 else g.flatten(2).sum(2)
    return reduce_hidden(g, how)


def lift(delta: Tensor, like: Tensor, how: str) -> Tensor:
    """The move of the whole feature that moves its reduction by `delta`: ⟨reduce_gradient(G), δ⟩ = ⟨G, lift(δ)⟩."""
    if how in ONE_TOKEN:
        moved = zeros_like(like)
        moved[:, 0 if how == "cls" else -1] = delta
        return moved
    if how == "mean":
        shape = (len(delta), 1, -1) if like.dim() == 3 else (*delta.shape, *(1 for _ in like.shape[2:]))
        return delta.reshape(shape).expand_as(like)
    return delta.reshape(like.shape)
