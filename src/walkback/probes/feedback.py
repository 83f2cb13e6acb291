"""The fresh-feedback null: the cosine that a rule has with feedback weights it was never trained with."""

from collections.abc import Callable

import torch
from torch import Tensor

from walkback.nets import Net
from walkback.probes.null import (
    DRAWS,
    FRESH,
    RANDOM,
    SAMPLES,
    TURNED,
    Draws,
    NullReport,
    random_draw,
    report_of,
    row_norms,
)
from walkback.probes.observe import credits_of, one_pass
from walkback.probes.undisturbed import undisturbed
from walkback.rules import START, Batch, Clock, Credits, Rule


def turned(credit: Tensor, generator: torch.Generator) -> Tensor:
    """The credits turned by one random orthogonal map for all samples: columns in random order, with random signs.

    Norms and what the samples' credits have in common stay as they are, so the spread of its cosines is that of fresh
    feedback. Directions drawn for each sample would average out, and give a null far too narrow.

    >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.equal(turned(rows, torch.Generator()) @ turned(rows, torch.Generator()).T, rows @ rows.T)
    True
    """
    width = credit.shape[1]
    order = torch.randperm(width, generator=generator)
    signs = torch.randint(0, 2, (width,), generator=generator) * 2 - 1
    return credit[:, order.to(credit.device)] * signs.to(credit)


def feedback_null(
    net: Net,
    rule: Rule,
    make_fresh: Callable[[int], Rule],
    inputs: Tensor,
    labels: Tensor,
    generator: torch.Generator,
    *,
    clock: Clock = START,
    draws: int = DRAWS,
    samples: int = SAMPLES,
) -> NullReport:
    """The cosines with `draws` fresh rules in place of the trained one: make_fresh(0), make_fresh(1), …

    Only the feedback differs between draws; samples, net and the rule's own random stream stay the same. A block whose
    redrawn credit is the real one, bit for bit, hears nothing of the feedback (every block of bp, the last one of fa):
    its null is of random directions, Gaussian and fresh for every sample. Of a rule whose fresh draw is no null
    (`Rule.fresh_is_null`), the real credits are turned. Uses the first `samples` samples.
    """
    with undisturbed(net, rule), torch.enable_grad():
        inputs, labels = inputs[:samples], labels[:samples]
        seen = one_pass(net, inputs, labels)
        gradients = seen.gradients
        own, start = torch.Generator(generator.device), generator.get_state()  # the caller's stream is not moved by it

        def credits(one: Rule) -> Credits:
            own.set_state(start)
            return credits_of(one, net, Batch(inputs, labels, own, clock), seen)

        real, places, kinds = credits(rule), (Draws(gradients[:-1]), Draws(gradients[1:])), [RANDOM] * net.depth
        directions = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=generator)))
        if not rule.fresh_is_null:
            kinds = [TURNED] * net.depth
        for draw in range(draws):
            if rule.fresh_is_null:
                fresh = credits(make_fresh(draw).to(inputs.device).eval())
            else:
                fresh = Credits([None if a is None else turned(a, directions) for a in real.blocks])
            for block in range(net.depth):
                a, b = fresh.blocks[block], real.blocks[block]
                anew = kinds[block] == RANDOM and draw == 0
                if anew and a is not None and b is not None and not torch.equal(a, b):
                    kinds[block] = FRESH
                if kinds[block] == RANDOM:
                    random_draw(places, block, gradients[block], gradients[block + 1], directions)
                    continue
                norms = None if a is None else row_norms(a)
                places[1].add(block, a, norms)
                places[0].add(block, *((a, norms) if fresh.at_input is None else (fresh.at_input[block],)))
    return report_of(places, kinds)
