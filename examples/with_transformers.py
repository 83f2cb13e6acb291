"""A Hugging Face model with random weights, trained by its `Trainer`, with a callback that watches it."""

import torch
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

import walkback as wb

digits = wb.load_data("digits")
train_x, test_x = ((split.inputs.float().view(-1, 1, 8, 8) - 5) / 6 for split in (digits.train, digits.test))
train_y, test_y = digits.train.labels, digits.test.labels
SHAPE = {
    "image_size": 8,
    "patch_size": 4,
    "num_channels": 1,
    "num_labels": 10,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


def make_model(seed):
    torch.manual_seed(seed)
    return ViTForImageClassification(ViTConfig(**SHAPE))


def train(model, seed, *callbacks):
    rows = [{"pixel_values": x, "labels": y} for x, y in zip(train_x, train_y)]
    args = TrainingArguments(
        "trainer",
        num_train_epochs=5,
        per_device_train_batch_size=64,
        learning_rate=2e-3,
        seed=seed,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    Trainer(model, args, train_dataset=rows, callbacks=list(callbacks)).train()


# --- what is added for walkback
if __name__ == "__main__":
    probe = {"pixel_values": test_x[:128], "labels": test_y[:128]}
    callback = wb.transformers_callback("vit.layers.*", probe=probe, log="vit.jsonl", residual=True)
    train(make_model(0), 0, callback)
    test = [({"pixel_values": test_x}, test_y)]
    how = {"train_bp": train, "credits": "backward", "residual": True, "seeds": 3, "out": "runs/vit"}
    audit = wb.audit_training(make_model, train, test, "vit.layers.*", name="ViT", **how)
    print(audit.subjects[0].says)
