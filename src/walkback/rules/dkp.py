"""Direct Kolen–Pollack learning (Webster, Choi & Ahn 2021): direct feedback alignment whose feedback is learned."""

from typing import Any

import torch
from torch import Tensor, nn

from walkback.nets import Net
from walkback.rules.base import RULES, Credits, Rule
from walkback.rules.signal import Signal


class DKP(Rule):
    """Direct Kolen–Pollack: B_l learns as if it were the transpose of a readout placed on block l's output.

    credit      a_l = B_l e,  e = softmax(logits) − onehot(y). B_l is d×C, drawn as dfa's with std 1/√C, and moves along
                ΔB_l ∝ −h_{l+1} ⊗ e: the gradient of ⟨e, B_lᵀ h_{l+1}⟩ with e and h_{l+1} fixed
    needs       the output error and the block's own output; no weights. B_l is learned
    normalize   none: the error's own size reaches the blocks
    embedding   a_0, the same credit as block 0. If h_0 has another width, its own B, which learns from h_0
    readout     (head and terminal norm) the gradient of the loss
    differs     the run's AdamW moves B_l, with its learning rate, schedule and decay; the paper has SGD and
                Kolen–Pollack's decay. The head of this net reads LN(h_L), B_l learns from h_{l+1} without a norm
    source      Webster, Choi & Ahn 2021, Learning the connections in direct feedback alignment
    """

    def __init__(self, net: Net, generator: torch.Generator, **common: Any):
        super().__init__(net, generator, **common)
        first, *outputs = net.widths
        self.embeds = any(True for _ in net.embed.parameters()) and first != outputs[0]
        draw = [torch.randn(d, net.classes, generator=generator) for d in [*outputs, *([first] if self.embeds else [])]]
        self.B = nn.ParameterList(B * net.classes**-0.5 for B in draw)

    def credits(self, signal: Signal) -> Credits:
        """a_l = B_l e, and the objective whose gradient at B_l is the mean of h_{l+1} ⊗ e."""
        outputs = [*signal.hidden[1:], *([signal.hidden[0]] if self.embeds else [])]
        with torch.enable_grad():
            loss = signal.error.new_zeros(())
            for B, h in zip(self.B, outputs, strict=True):
                loss = loss + ((h @ B) * signal.error).sum(1).mean()
        blocks: list[Tensor] = [signal.error @ B.detach().T for B in self.B]
        embed = blocks.pop() if self.embeds else None
        return Credits(blocks, embed, loss=loss)


RULES.add("dkp", DKP)
