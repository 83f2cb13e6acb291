"""Direct random target projection (Frenkel, Lefebvre & Bol 2021): the label, projected straight to every block."""

from torch.nn import functional as F

from walkback.rules.base import RULES, Credits
from walkback.rules.dfa import DFA
from walkback.rules.signal import Signal


class DRTP(DFA):
    """Direct random target projection: every block gets the label through its own fixed random matrix.

    credit      a_l = −B_l y*,  y* the one-hot label,  B_l a fixed d×C Gaussian with std 1/√C, drawn as dfa's. The minus
                sign is that of e = softmax − y* at the true class
    needs       only the label: no weights, no error, no forward pass above the block
    normalize   none: every sample of a class gets the same column of B_l
    embedding   a_0, the same credit as block 0; its own matrix if h_0 has another width
    readout     (head and terminal norm) the gradient of the loss
    differs     the paper has one matrix per layer, here one per block; inside a block autograd carries the credit down.
                The credit does not depend on what the net has learned and never gets smaller, so nothing bounds a
                residual stream
    source      Frenkel, Lefebvre & Bol 2021, Frontiers in Neuroscience 15:629892
    """

    default_normalize = "none"

    def credits(self, signal: Signal) -> Credits:
        """a_l = −B_l y*."""
        return self.project(-F.one_hot(signal.labels, signal.net.classes).to(signal.states[0]))


RULES.add("drtp", DRTP)
