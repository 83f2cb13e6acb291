"""wb.transformers_callback in trainings by a real `Trainer`. Oracles: the same without it, and a plain loop."""

import warnings

import pytest
import torch
from torch.utils.data import Dataset

import walkback as wb
from walkback.audits.alarms import WatchWarning
from walkback.errors import BadValue
from walkback.probes.backward_listener import COMPILED
from walkback.records import read_log

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

WORDS, LENGTH = 40, 8
SHAPE = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 16, "max_position_embeddings": LENGTH, "num_labels": 2}  # fmt: skip
DRAWN = torch.randint(2, WORDS, (96, LENGTH), generator=torch.Generator().manual_seed(0))
LABELS = (DRAWN[:, 0] > WORDS // 2).long()
PROBE = {"input_ids": DRAWN[64:], "attention_mask": torch.ones_like(DRAWN[64:]), "labels": LABELS[64:]}


class Sentences(Dataset):
    def __init__(self, causal=False):
        self.causal = causal

    def __len__(self):
        return 64

    def __getitem__(self, place):
        ids = DRAWN[place]
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "labels": ids if self.causal else LABELS[place],
        }


def bert():
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(transformers.BertConfig(**SHAPE))  # with its dropout


def gpt():
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=16, n_layer=2, n_head=2)
    return transformers.GPT2LMHeadModel(config)


def fit(model, tmp_path, *callbacks, causal=False, **options):
    given = {"per_device_train_batch_size": 8, "max_steps": 6, "report_to": [], "use_cpu": True, "seed": 1,
             "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no", "learning_rate": 1e-2}  # fmt: skip
    args = transformers.TrainingArguments(output_dir=str(tmp_path), **given | options)
    trainer = transformers.Trainer(model, args, train_dataset=Sentences(causal), callbacks=list(callbacks))
    trainer.train()
    return trainer


def same_with_and_without(make, blocks, tmp_path, options, **ours):
    ends, callback = [], None
    for watching in (False, True):
        model = make()
        callback = wb.transformers_callback(blocks, every=2, show=False, log=tmp_path / "run.jsonl", **ours)
        fit(model, tmp_path, *[callback] * watching, **options)
        ends.append([*(p.detach().clone() for p in model.parameters()), torch.rand(3)])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
    return callback.watch


HOSTS = {
    "plain": {},
    "accumulated": {"gradient_accumulation_steps": 2},
    "bf16": {"bf16": True},
    "checkpointed": {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
}


@pytest.mark.parametrize("host", HOSTS)
def test_second_run_the_same_bits_with_and_without(host, tmp_path):
    watch = same_with_and_without(bert, "bert.encoder.layer.*", tmp_path, HOSTS[host], probe=PROBE, residual=False)
    assert [look.step for look in watch.looks] == [0, 2, 4, 6]
    assert all(look.crosses == ["crosses"] for look in watch.looks[:-1])
    assert all(size > 0 for look in watch.looks[:-1] for size in look.arrived)
    assert watch.looks[0].moment.gamma == pytest.approx(1)  # with dropout in its attention
    assert read_log(tmp_path / "run.jsonl")[0].seeds[0].ended == "finished"


def test_blocks_that_give_tuples_and_a_causal_loss(tmp_path):
    """A language model: its loss is that of the next token, and the probe is measured by the same."""
    probe = {"input_ids": DRAWN[64:], "labels": DRAWN[64:]}
    watch = same_with_and_without(gpt, "transformer.h.*", tmp_path, {"causal": True}, probe=probe, residual=True)
    with torch.no_grad():
        own = float(gpt().eval()(**probe).loss)
    assert watch.looks[0].moment.loss == pytest.approx(own, rel=1e-5)
    assert watch.looks[0].moment.gamma == pytest.approx(1)
    assert watch.looks[0].crosses == ["crosses"]


def test_closed_form_the_gradient_of_a_plain_loop(tmp_path):
    """What arrives in the trainer's backward is what retain_grad shows in a loop of ours, dropout off."""
    seen = []

    class Order(transformers.TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, **others):
            model.bert.embeddings.word_embeddings.register_forward_pre_hook(lambda m, given: seen.append(given[0]))

    config = transformers.BertConfig(**SHAPE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(config)
    callback = wb.transformers_callback("bert.encoder.layer.*", probe=PROBE, every=1, show=False)
    fit(model, tmp_path, callback, Order(), max_steps=1)
    torch.manual_seed(0)
    twin = transformers.BertForSequenceClassification(config).train()
    rows = [int((ids == DRAWN).all(1).nonzero()[0, 0]) for ids in next(s for s in seen if len(s) == 8)]
    states = []
    for layer in twin.bert.encoder.layer:
        layer.register_forward_hook(lambda m, given, out: states.append(out[0] if isinstance(out, tuple) else out))
    twin(input_ids=DRAWN[rows], attention_mask=torch.ones_like(DRAWN[rows]), labels=LABELS[rows])
    for h in states:
        h.retain_grad()
    torch.nn.functional.cross_entropy(twin.classifier(twin.bert.pooler(states[-1])), LABELS[rows]).backward()
    assert callback.watch.looks[0].arrived == pytest.approx([float(h.grad.norm()) for h in states], rel=1e-4)


def test_a_resumed_training_counts_on(tmp_path):
    fit(bert(), tmp_path, save_strategy="steps", save_steps=3, max_steps=3)
    callback = wb.transformers_callback("bert.encoder.layer.*", probe=PROBE, every=2, show=False)
    args = transformers.TrainingArguments(output_dir=str(tmp_path), max_steps=6, report_to=[], use_cpu=True, seed=1,
                                          disable_tqdm=True, save_strategy="no", logging_strategy="no",
                                          per_device_train_batch_size=8)  # fmt: skip
    trainer = transformers.Trainer(bert(), args, train_dataset=Sentences(), callbacks=[callback])
    trainer.train(resume_from_checkpoint=True)
    assert [look.step for look in callback.watch.looks] == [3, 5, 6]


def test_planted_a_leak_stops_the_trainer_and_its_repair_does_not(tmp_path):
    """Trained as by local losses, with the detach forgotten; behind it the lower layer receives nothing."""
    ours = {"probe": PROBE, "every": 1, "show": False, "residual": False, "local": True, "stop_when_fired": True}
    callback = wb.transformers_callback("bert.encoder.layer.*", **ours)
    with pytest.warns(WatchWarning, match="a gradient leaks"):
        trainer = fit(bert(), tmp_path, callback)
    assert trainer.state.global_step == 1
    assert callback.watch.end.ended == "stopped"
    model = bert()
    model.bert.encoder.layer[1].register_forward_pre_hook(lambda layer, given: (given[0].detach(), *given[1:]))
    callback = wb.transformers_callback("bert.encoder.layer.*", **ours)
    assert fit(model, tmp_path, callback).state.global_step == 6
    assert callback.watch.looks[0].crosses == ["does not cross"]
    assert [c.status for c in callback.watch.looks[0].moment.cosine_out] == ["zero credit", "ok"]
    assert callback.watch.fired == {}, "Γ is an answer of several seeds, and no alarm of one look"


def test_planted_growth_stops_the_trainer(tmp_path):
    model = gpt()
    model.transformer.h[1].register_forward_hook(
        lambda block, given, out: (500 * out[0], *out[1:]) if isinstance(out, tuple) else 500 * out
    )
    callback = wb.transformers_callback("transformer.h.*", probe={"input_ids": DRAWN[64:], "labels": DRAWN[64:]},
                                        every=1, show=False, residual=True, stop_when_fired=True)  # fmt: skip
    with pytest.warns(WatchWarning, match="scale fires"):
        trainer = fit(model, tmp_path, callback, causal=True)
    assert trainer.state.global_step == 1
    assert callback.watch.end.ended == "stopped"


def test_what_cannot_be_watched_is_refused_or_said(tmp_path):
    callback = wb.transformers_callback("bert.encoder.layer.*", probe=PROBE, show=False)
    args = type("Args", (), {"deepspeed": "ds.json", "fsdp": [], "torch_compile": False})
    state = type("State", (), {"global_step": 0})
    with pytest.raises(BadValue, match="deepspeed splits the parameters"):
        callback.on_train_begin(args, state, None, model=bert())
    args.deepspeed, args.torch_compile = None, True
    callback.on_train_begin(args, state, None, model=bert())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WatchWarning)
        callback.on_pre_optimizer_step(args, state, None)
    assert COMPILED in callback.watch.looks[0].notes
