"""The fresh-feedback null: the cosine that a rule has with feedback weights it was never trained with."""

from collections.abc import Callable

import torch
from torch import Tensor

from walkback.nets import Net
from walkback.probes.null import DRAWS, RANDOM, SAMPLES, Draws, NullReport, random_draw, report_of, row_norms
from walkback.probes.observe import one_pass
from walkback.probes.undisturbed import undisturbed
from walkback.rules import Credits, Rule, output_error, probe_signal

FRESH = "fresh feedback"


def feedback_null(
    net: Net,
    rule: Rule,
    make_fresh: Callable[[int], Rule],
    inputs: Tensor,
    labels: Tensor,
    generator: torch.Generator,
    *,
    draws: int = DRAWS,
    samples: int = SAMPLES,
) -> NullReport:
    """The cosines with `draws` fresh rules in place of the trained one: make_fresh(0), make_fresh(1), …

    Only the feedback differs between draws; samples, net and the rule's own random stream stay the same. A block whose
    redrawn credit is the real one, bit for bit, hears nothing of the feedback (every block of bp, the last one of fa):
    its null is of random directions, Gaussian and fresh for every sample. Uses the first `samples` samples.
    """
    with undisturbed(net, rule), torch.enable_grad():
        inputs, labels = inputs[:samples], labels[:samples]
        _, hidden, _, gradients = seen = one_pass(net, inputs, labels)
        error = output_error(seen.logits, labels)
        own, start = torch.Generator(generator.device), generator.get_state()  # the caller's stream is not moved by it

        def credits_of(one: Rule) -> Credits:
            own.set_state(start)
            credits: Credits = one(probe_signal(net, error, hidden, own, gradients))
            return credits

        real, places, kinds = credits_of(rule), (Draws(gradients[:-1]), Draws(gradients[1:])), [RANDOM] * net.depth
        directions = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))
        for draw in range(draws):
            fresh = credits_of(make_fresh(draw).to(error.device).eval())
            for block in range(net.depth):
                if draw == 0 and not torch.equal(fresh.blocks[block], real.blocks[block]):
                    kinds[block] = FRESH
                if kinds[block] == RANDOM:
                    random_draw(places, block, gradients[block], gradients[block + 1], directions)
                    continue
                credit = fresh.blocks[block].detach()
                norms = row_norms(credit)
                places[1].add(block, credit, norms)
                if fresh.at_input is not None:
                    credit = fresh.at_input[block].detach()
                    norms = row_norms(credit)
                places[0].add(block, credit, norms)
    return report_of(places, kinds)
