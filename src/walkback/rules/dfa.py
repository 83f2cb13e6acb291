"""Direct feedback alignment (Nøkland 2016): the output error, projected straight to every block."""

from typing import Any

import torch
from torch import Tensor

from walkback.nets import Net
from walkback.rules.base import RULES, Credits, Rule
from walkback.rules.signal import Signal


class DFA(Rule):
    """Direct feedback alignment, normalised per sample: each block gets the output error through its own fixed matrix.

    credit      a_l = B_l e,  e = softmax(logits) − onehot(y),  B_l a fixed d×C Gaussian with std 1/√C
    needs       the output error; no weights
    normalize   sample: each sample's a_l divided by its RMS (+1e-6), as in the published audit
    embedding   a_0, the same credit as block 0
    readout     (head and terminal norm) the gradient of the loss
    differs     the original has one matrix per layer and no normalisation (`dfa-plain` here); this has one
                per block, as in the audit's paper: inside a block autograd carries the credit down. Divided by its RMS,
                the credit does not get smaller as the net learns, so nothing bounds a residual stream
    source      Nøkland 2016, NeurIPS (arXiv:1609.01596); in this form Hao, Wan & Zhai, arXiv:2606.21126

    If h_0 and block 0's output differ in width, the embedding has its own matrix.
    """

    default_normalize = "sample"

    def __init__(self, net: Net, generator: torch.Generator, **common: Any):
        super().__init__(net, generator, **common)
        first, *outputs = net.widths
        std = net.classes**-0.5
        self.B = self.feedbacks([(width, net.classes) for width in outputs], [std] * len(outputs))
        embeds = any(True for _ in net.embed.parameters())
        self.B_embed = self.feedback(first, net.classes, std=std) if embeds and first != outputs[0] else None

    def credits(self, signal: Signal) -> Credits:
        """a_l = B_l e."""
        return self.project(signal.error)

    def project(self, rows: Tensor) -> Credits:
        """B_l applied to each row of (N, C), for every block and, if it has its own matrix, the embedding."""
        embed = None if self.B_embed is None else rows @ self.B_embed.T
        if isinstance(self.B, Tensor):
            return Credits(rows @ self.B.mT, embed)  # (N, C) @ (L, C, d): all blocks at once
        return Credits([rows @ self.B[block].T for block in range(len(self.B))], embed)


RULES.add("dfa", DFA)
