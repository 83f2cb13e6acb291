"""BioTorch (pip install --no-deps biotorch==0.0.16): its modules override the backward pass.

So the credit is "backward", and the reference is measured by finite differences. `python with_biotorch.py fa` audits
another of its rules.
"""

import sys

import torch
from biotorch.module.biomodule import BioModule
from torch import nn
from torch.nn import functional as F

import walkback as wb

RULE = sys.argv[1] if len(sys.argv) > 1 else "dfa"  # or fa, usf, frsf, brsf
digits = wb.load_data("digits")
train_x, test_x = ((split.inputs.float().flatten(1) - 5) / 6 for split in (digits.train, digits.test))
train_y, test_y = digits.train.labels, digits.test.labels


def make_plain(seed):
    torch.manual_seed(seed)
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(4)]
    return nn.Sequential(*blocks, nn.Linear(64, 10))


def make_model(seed):
    return BioModule(make_plain(seed), mode=RULE, output_dim=10 if RULE == "dfa" else None)


def train(model, seed, watch=None):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    order = torch.Generator().manual_seed(seed)
    model.train()
    for _ in range(8):
        for rows in torch.randperm(len(train_x), generator=order).split(64):
            x, y = train_x[rows], train_y[rows]
            dfa = RULE == "dfa" and isinstance(model, BioModule)
            output = model(x, y, F.cross_entropy) if dfa else model(x)
            optimizer.zero_grad()
            F.cross_entropy(output, y).backward()
            if watch is not None:
                watch.step()
            optimizer.step()


# --- what is added for walkback
def make_bp(seed):
    return BioModule(make_plain(seed), mode="backpropagation")


def batch(x, y):  # in training mode, their module for dfa takes the targets and the loss as well
    return ({"x": x, "targets": y, "loss_function": F.cross_entropy}, y) if RULE == "dfa" else (x, y)


blocks = ["module.0", "module.1", "module.2", "module.3"]
if __name__ == "__main__":
    model = make_model(0)
    with wb.watch(model, blocks, probe=batch(test_x[:128], test_y[:128]), log=f"{RULE}.jsonl", residual=False) as watch:
        train(model, 0, watch)
    test = [batch(test_x, test_y)]
    how = {"make_bp_model": make_bp, "train_bp": train, "credits": "backward", "residual": False, "seeds": 3}
    audit = wb.audit_training(make_model, train, test, blocks, out=f"runs/{RULE}", name=RULE, **how)
    print(audit.subjects[0].says)
