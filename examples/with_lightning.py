"""A Lightning module, trained by backprop, with a callback that watches it."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import walkback as wb

digits = wb.load_data("digits")
train_x, test_x = ((split.inputs.float().flatten(1) - 5) / 6 for split in (digits.train, digits.test))
train_y, test_y = digits.train.labels, digits.test.labels


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(4))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def make_model(seed):
    torch.manual_seed(seed)
    return Classifier()


def train(model, seed, *callbacks):
    torch.manual_seed(seed)
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = pl.Trainer(max_epochs=5, accelerator="cpu", callbacks=list(callbacks), **quiet)
    trainer.fit(model, DataLoader(TensorDataset(train_x, train_y), batch_size=64, shuffle=True))


# --- what is added for walkback
if __name__ == "__main__":
    probe = (test_x[:128], test_y[:128])
    callback = wb.lightning_callback("layers.*", probe=probe, log="lightning.jsonl", residual=False)
    train(make_model(0), 0, callback)
    how = {"train_bp": train, "credits": "backward", "residual": False, "seeds": 3, "out": "runs/lightning"}
    audit = wb.audit_training(make_model, train, [(test_x, test_y)], "layers.*", name="Lightning", **how)
    print(audit.subjects[0].says)
