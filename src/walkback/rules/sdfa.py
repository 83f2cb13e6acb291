"""Direct feedback alignment by the error's sign (Frenkel, Lefebvre & Bol 2021)."""

from walkback.rules.base import RULES, Credits
from walkback.rules.dfa import DFA
from walkback.rules.signal import Signal


class SignDFA(DFA):
    """Direct feedback alignment with the sign of the error: the size of the error does not matter.

    credit      a_l = B_l sign(e),  e = softmax(logits) − onehot(y),  B_l a fixed d×C Gaussian with std 1/√C, as dfa's.
                In a classifier sign(e) is −1 at the label and +1 elsewhere: it says the same as the label
    needs       the signs of the output error; no weights
    normalize   none: with C classes all ±1, a_l has RMS 1 on average
    embedding   a_0, the same credit as block 0; its own matrix if h_0 has another width
    readout     (head and terminal norm) the gradient of the loss
    differs     one matrix per block, not per layer; inside a block autograd carries the credit down. The credit does
                not get smaller as the net learns, so nothing bounds a residual stream
    source      Frenkel, Lefebvre & Bol 2021, Frontiers in Neuroscience 15:629892, as the step from DFA to DRTP
    """

    default_normalize = "none"

    def credits(self, signal: Signal) -> Credits:
        """a_l = B_l sign(e)."""
        return self.project(signal.error.sign())


RULES.add("sdfa", SignDFA)
