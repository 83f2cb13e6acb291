"""Feedback alignment in its original form (Lillicrap et al. 2016): a fixed random matrix for every weight matrix."""

from walkback.rules.base import RULES
from walkback.rules.layerwise import DrawnFeedback


class FALayer(DrawnFeedback):
    """Feedback alignment, Lillicrap's: a fixed random matrix replaces every transposed weight, layer by layer.

    update      δ_x = Bᵀ δ_y for every product y = W x, and ∂W = δ_y xᵀ;  B Gaussian, with the std that W had at init
    needs       of W only the std of each matrix at init; the output error, one backward pass
    credit      what arrives at a block's output, for probes; through a skip connection it arrives unchanged
    normalize   none
    embedding   what arrives at h_0
    readout     learns from the error itself; below it the error goes through the head's own feedback weight, and
                the exact backward pass of the terminal norm. `readout=exact`: through the head's own weights
    differs     the paper has plain nets, no norms, and B uniform. `fa` carries credit from block to block by one
                matrix, and has the exact gradient at the top; here every weight inside a block has its own matrix
    source      Lillicrap, Cownden, Tweed & Akerman 2016, Nature Communications 7:13276
    """


RULES.add("fa-layer", FALayer)
