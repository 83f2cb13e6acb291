"""Material for pages: run folders made without training, and names as a stranger might choose them."""

import math
import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import made_up
from fake_runs import share, sizes
from walkback.audits import judge_paths
from walkback.checks import Control
from walkback.records import Environment, Null, RunConfig, Sitting
from walkback.records.consistency import scheduled
from walkback.records.predictions import PREDICTIONS, digest, packed
from walkback.records.schema import Reading

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(2)>',
    "' onmouseover='alert(3)",
    "javascript:alert(4)",
    "]]><!-- --!><iframe src=//evil.example>",
    "</title></style><style>*{display:none}</style>",
    "\u202egnp.exe\u2066\x00\x07\x1b[31m\ud800",
    "&lt;b&gt; &amp;quot; {{7*7}}",
    "W" * 3000,
    "שלום עולם",
]
KEPT = TemporaryDirectory()  # until the tests end
UNTRAINED = Null(mean=0.0, std=0.01, n=20, kind="random directions")


def config(rule: str = "dfa", seed: int = 1, epochs: int = 4, depth: int = 3, **changes) -> RunConfig:
    fields = {
        "data": "mnist1d", "augment": False, "net": "resmlp",
        "net_options": {"width": 128, "depth": depth, "terminal_norm": True, "gains": False, "skip": True},
        "rule": rule, "rule_options": {} if rule == "bp" else {"normalize": "sample" if rule == "dfa" else "none"},
        "seed": seed, "epochs": epochs, "batch_size": 128, "lr": 1e-3, "weight_decay": 0.01, "penalty": 0.0,
        "train_last": depth, "probe_images": 512,
    }  # fmt: skip
    return RunConfig(**fields | changes)


def write_run(
    out: Path,
    c: RunConfig,
    grows: float,
    reaches: float,
    cosines: list[float],
    *,
    predicts: bool = False,
    **sitting: str,
) -> Path:
    """A folder as a training would leave it: the stream grows, the accuracy climbs, and the probes have measured.

    predicts   whether its final predictions are kept, of as many classes in turn as digits
    """
    dice = random.Random(f"{c.hash()}")
    depth = c.net_options["depth"]
    steps, _, images = sizes(c)
    folder = out / c.folder()
    folder.mkdir(parents=True)
    snapshots = []
    for epoch in range(c.epochs + 1):
        done = epoch / c.epochs
        block = 1 + (grows - 1) * done
        hidden = [9.0 * (block if layer else 1.0) * dice.uniform(0.98, 1.02) for layer in range(depth + 1)]
        values = [min(1.0, v + dice.gauss(0, 0.005)) for v in cosines]
        snapshots.append(made_up.snapshot(
            epoch, share(c, 0.1 + (reaches - 0.1) * math.sqrt(done) + dice.uniform(0, 0.004)), hidden,
            [1e-3 / h for h in hidden], values, images=images, step=steps * epoch, lr=scheduled(c, epoch),
            train_loss=1.0 if epoch else None, branch_norms=hidden[1:],
            cosine_embed=made_up.cosine(values[0] if values else 0.5, images),
        ))  # fmt: skip
    last = snapshots[-1]
    updates = [Reading(value=c.value, status="ok", null=UNTRAINED) for c in last.cosine_out]
    deep = {"output": made_up.output(last, 3e-7), "measured": {"update": updates}} if depth else {}
    probes = made_up.probes(snapshots[-1], 3e-7, **deep)
    result = made_up.result(snapshots[-1], says=f"finished {c.epochs} epochs")
    if predicts:
        predicted, sha = predictions(c, result.accuracy)
        result = result.changed(predictions=sha)
        (folder / PREDICTIONS).write_bytes(predicted)
    where = {"started": "a", "walkback": "0.9.1", "commit": "abc123", "python": "3.11.7", "torch": "2.13.0",
             "platform": "Linux-x", "cpu": "a processor", "device": "cpu"}  # fmt: skip
    sat = Sitting(**where | sitting, ended="b", from_step=0, to_step=steps * c.epochs, seconds=12.0, threads=1)
    files = {"config": c, "probes": probes, "result": result,
             "environment": Environment(data_fingerprint="f1" * 8, sittings=[sat])}  # fmt: skip
    for name, record in files.items():
        (folder / f"{name}.json").write_text(record.text())
    (folder / "snapshots.jsonl").write_text("".join(s.text() + "\n" for s in snapshots))
    return folder


def predictions(c: RunConfig, accuracy: float) -> tuple[bytes, str]:
    """What predictions.npy holds of a run with that accuracy, wrong where its seed says; and its hash."""
    _, test, _ = sizes(c)
    labels = [n % 10 for n in range(test)]
    wrong = set(random.Random(c.seed).sample(range(test), test - round(accuracy * test)))
    content = packed([(label + (n in wrong)) % 10 for n, label in enumerate(labels)], labels)
    return content, digest(content)


def write_runs(out: Path, seeds: int = 3, epochs: int = 4, depth: int = 3, controls: bool = False) -> Path:
    """bp holds at one rate, fa's Γ is carried by one block, dfa blows up and does worse than its frozen net.

    With baselines: fa lies above its frozen net, and below the shallow one.

    controls   random credit is there too: then it and bp are controls, which behave if there are five seeds
    """
    rules = {
        "bp": (1.3, 0.60, 0.55, 0.40, [0.95] * depth),
        "fa": (1.8, 0.48, 0.44, 0.38, [0.0] * (depth - 1) + [0.99]),
        "dfa": (200.0, 0.30, 0.27, 0.34, [0.4] + [0.0] * (depth - 1)),
    } | ({"random": (1.1, 0.20, 0.25, 0.30, [0.0] * depth)} if controls else {})
    for rule, (grows, reaches, half, frozen, cosines) in rules.items():
        for seed in range(1, seeds + 1):
            same = {"rule": rule, "seed": seed, "epochs": epochs, "depth": depth}
            write_run(out, config(**same), grows, reaches, cosines)
            write_run(out, config(**same, train_last=(depth + 1) // 2), grows, half, cosines)
            write_run(out, config(**same, train_last=0), 1.0, frozen, cosines)
            if rule == "bp":
                write_run(out, config(**same | {"depth": 0}), 1.0, 0.5, [])
    return out


def write_many(out: Path, subjects: int = 20, seeds: int = 3, epochs: int = 100) -> Path:
    """As many subjects as that, which differ in their penalty."""
    for number in range(subjects):
        for seed in range(seeds):
            c = config("bp" if number == 0 else "dfa", seed, epochs, 4, penalty=number * 1e-4)
            write_run(out, c, 1.2 + number, 0.3, [0.4, 0.1, 0.0, 0.0])
    return out


@cache
def demo_audit() -> Path:
    """An audit.json as `walkback audit` leaves it, of `write_runs`: five seeds, three subjects and three controls."""
    folder = Path(KEPT.name)
    audit = judge_paths(write_runs(folder / "runs", seeds=5, epochs=2))
    controls = [
        Control(name="bp", expected="holds", got="holds", ok=True),
        Control(name="random", expected="neither holds nor even", got="walked back, Γ chance", ok=True),
        Control(name="net at init", expected="measurable", got="measurable", ok=True),
    ]
    controlled = {"valid": True, "not_controlled": [], "controls": controls, "settings": []}
    audit.changed(**controlled, says="Every control behaved as expected.").write(folder / "audit")
    return folder / "audit/audit.json"
