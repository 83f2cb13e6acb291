"""Direct feedback alignment as it was proposed (Nøkland 2016): the projected error, not normalised."""

from walkback.rules.base import RULES
from walkback.rules.dfa import DFA


class PlainDFA(DFA):
    """Direct feedback alignment, Nøkland's: every block gets B_l e as it is, and the credit shrinks with the error.

    credit      a_l = B_l e,  e = softmax(logits) − onehot(y),  B_l a fixed d×C Gaussian with std 1/√C, drawn as dfa's
    needs       the output error; no weights
    normalize   none: a sample that is nearly right hardly moves a block. `dfa` divides each sample's a_l by its RMS
    embedding   a_0, the same credit as block 0; its own matrix if h_0 has another width
    readout     (head and terminal norm) the gradient of the loss
    differs     the paper has one matrix per layer, here one per block; inside a block autograd carries the credit down
    source      Nøkland 2016, NeurIPS (arXiv:1609.01596)
    """

    default_normalize = "none"


RULES.add("dfa-plain", PlainDFA)
