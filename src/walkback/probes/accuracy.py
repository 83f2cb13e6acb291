"""What the net gets right: accuracy and mean loss over whole batches."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.probes.undisturbed import undisturbed


def accuracy_and_loss(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """The share of samples whose largest logit is the label's, and the mean cross-entropy.

    A sample with a logit that is not a number is not right.
    """
    right, total, loss = 0, 0, 0.0
    with undisturbed(net), torch.inference_mode():
        for inputs, labels in batches:
            logits = net(inputs)
            hit = (logits.argmax(1) == labels) & logits.isfinite().all(1)
            right += int(hit.sum())
            total += len(labels)
            loss += float(F.cross_entropy(logits, labels, reduction="sum"))
    return right / total, loss / total
