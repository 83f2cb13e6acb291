"""Forward gradient at activities (Baydin et al. 2022; Ren et al. 2023): one derivative along random directions."""

import torch
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from walkback.rules.base import RULES, Credits, Rule
from walkback.rules.ep import fixed
from walkback.rules.signal import Signal


class ForwardGradient(Rule):
    """Forward gradient: the loss's slope along one random direction of all states, times that direction.

    credit      a_l = D v_l,  D = Σ_k ⟨g_k, v_k⟩ over h_0 … h_L, from one Jacobian–vector product;  v ~ N(0, I), drawn
                again for every sample, state and step
    needs       the weights, forwards only: the tangents pass through them. No backward pass between blocks
    normalize   none
    embedding   its own: D times the direction at h_0
    readout     (head and terminal norm) the gradient of the loss
    differs     Ren et al. add local losses, groups and patches, which make the variance smaller; here is the plain
                estimate. Inside a block autograd carries the credit down
    source      Ren, Kornblith, Liao & Hinton 2023, Scaling forward gradient with local losses (arXiv:2210.03310);
                Baydin et al. 2022, Gradients without backpropagation (arXiv:2202.08587)

    The mean of the credit over many draws is the gradient. One draw is nearly orthogonal to it: the cosine falls like
    one over the root of how many numbers are moved. So a small Γ here is neither chance nor a fault. In a net that
    mixes samples (BatchNorm) D is the slope along the directions of the whole batch, and noisier.
    """

    fresh_is_null = False  # nothing is kept that could be drawn again: another draw is as good as this one

    def credits(self, signal: Signal) -> Credits:
        """One pass with tangents from h_0 up, the weights fixed."""
        net, free = signal.net, [h.detach() for h in signal.states]
        blocks = [fixed(block, free[0].dtype) for block in net.blocks]
        read = fixed(net.readout, free[0].dtype)
        directions = [torch.randn(h.shape, generator=signal.generator).to(h) for h in free]
        if not any(True for _ in net.embed.parameters()):  # nothing learns from it, and it would be noise for the rest
            directions[0] = torch.zeros_like(free[0])
        # torch's faster attention has no forward derivative
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), forward_ad.dual_level():
            moves = [forward_ad.make_dual(torch.zeros_like(v), v) for v in directions]  # type: ignore[no-untyped-call]
            h = free[0] + moves[0]
            for layer, block in enumerate(blocks):
                h = net.join(layer, h, block(h)) + moves[layer + 1]
            losses = F.cross_entropy(read(h), signal.labels, reduction="none")
            slopes = forward_ad.unpack_dual(losses).tangent  # type: ignore[no-untyped-call]
        embed, *rest = (net.gradient_rows(v * slopes.view(-1, *[1] * (v.dim() - 1))) for v in directions)
        return Credits(rest, embed)


RULES.add("fg", ForwardGradient)
