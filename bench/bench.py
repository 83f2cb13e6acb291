"""Speed as ratios, measured in one process: `make bench` prints a table and writes bench.json.

Candidates are alternated in short bursts and compared by their medians, so that a busy machine slows all of them
alike. The net is ResMLP d=256 L=4 on CIFAR-shaped batches of 128, one thread.
"""

import itertools
import json
import multiprocessing as mp
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F

from door import candidates as door_candidates
from walkback.data import Dataset, Split
from walkback.data.batches import TrainBatches
from walkback.files import write_whole
from walkback.nets import make_net
from walkback.probes import feedback_null, net_precision, observe, quantities
from walkback.rules import RULES, Batch, Clock, Rule, make_rule
from walkback.rules.layerwise import LayerFeedback
from walkback.train import cores, plan
from walkback.train.environment import keep_memory
from walkback.train.streams import stream
from walkback.train.trainer import AdamW, Trainer
from watching import ratios as watch_ratios

BATCH, WIDTH, DEPTH, CLASSES, SHAPE = 128, 256, 4, 10, (3, 32, 32)

LAYERWISE = [name for name in RULES.names() if issubclass(RULES.get(name), LayerFeedback)]
"""Feedback in place of transposes: a backward pass like any other, so it should cost about the same."""

OTHERS = [name for name in RULES.names() if name not in ("bp", "fa", "dfa", "random")]
"""Rules whose cost is printed, in BP steps, without a goal."""

GOALS = {
    "dfa_vs_torch_bp": ("≤", 1.0, "our dfa step / a plain PyTorch BP step with fused AdamW"),
    "fa_vs_torch_bp": ("≤", 1.0, "our fa step / the same"),
    "bp_vs_torch_bp": ("≤", 1.05, "our bp step / the same"),
    "recipe_vs_dfa": ("≥", 2.0, "the recipe as published (optimizer and second forward per block) / our dfa step"),
    "dfa_vs_gemm": ("≤", 1.7, "our dfa step / its bare matrix products"),
    "input_share": ("≤", 0.1, "gather, crop, flip, normalise / our dfa step"),
    "snapshot_in_steps": ("≤", 12.0, "a snapshot on 1,024 images / our dfa step"),
    "audit_vs_fwdbwd": ("≤", 3.0, "all judged probes of a dfa net / a forward and backward over the same 1,280 images"),
    "audit_fa_vs_fwdbwd": ("≤", 3.0, "the same of an fa net, whose null draws cost the most"),
    "precision_vs_fwdbwd": ("", 0.0, "the float64 precision probe / the same, told apart"),
    "door_vs_passes": ("≤", 5.0, "all that is judged of a stranger's model at L = 24 / a pass over the same images"),
    "door_credits_vs_passes": ("≤", 5.0, "the same with its credits"),
    "door_backward_vs_passes": ("≤", 5.0, 'the same with credits="backward"'),
    "watch_at_50": (
        "≤",
        0.05,
        "what wb.watch adds to a loop of vit-mini at every=50, as a share",
    ),
    "watch_resmlp_at_50": ("", 0.0, "the same of resmlp d=512, whose many weights make a look dear"),
    "watch_between": ("≤", 0.01, "what it adds to a step between looks"),
    "watch_proof_in_steps": ("", 0.0, "a look that takes finite differences (the looks 0, 1, 4, 16, …) / a step"),
    **{
        f"{name}_vs_torch_bp": ("≤", 1.3, f"our {name} step / the same")
        if name in LAYERWISE
        else ("", 0.0, f"our {name} step / a plain PyTorch BP step")
        for name in OTHERS
    },
    "two_runs_vs_one": ("≥", 1.8, "throughput of two runs at once / of one (needs two free cores)"),
}


def data() -> Dataset:
    generator = torch.Generator().manual_seed(0)

    def split(count: int) -> Split:
        inputs = torch.randint(0, 256, (count, *SHAPE), generator=generator, dtype=torch.uint8)
        return Split(inputs, torch.randint(0, CLASSES, (count,), generator=generator))

    return Dataset("bench", split(20000), split(1024), CLASSES, SHAPE, (0.49, 0.48, 0.45), (0.25, 0.24, 0.26), True, "")


Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


def batches() -> Batches:
    """Many batches in turn: a net that learns one by heart ends in denormal numbers, which no real training sees."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(64, BATCH, *SHAPE, generator=generator)
    labels = torch.randint(0, CLASSES, (64, BATCH), generator=generator)
    return itertools.cycle(zip(images, labels, strict=True))


def net() -> nn.Module:
    torch.manual_seed(0)
    return make_net("resmlp", SHAPE, CLASSES, {"width": WIDTH, "depth": DEPTH})


def torch_bp(batch: Batches) -> Callable[[], None]:
    """What anybody would write."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)

    def step() -> None:
        x, y = next(batch)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def ours(name: str, batch: Batches) -> Callable[[], None]:
    model = net()
    rule = make_rule(name, model, torch.Generator().manual_seed(1), {})
    learned = {f"rule.{k}": p for k, p in rule.named_parameters()}
    optimizer = AdamW({**dict(model.named_parameters()), **learned}, weight_decay=0.01)
    generator, clock = torch.Generator(), Clock(step=1, steps=2)  # past any warm-up

    def step() -> None:
        x, y = next(batch)
        optimizer.zero_grad()
        rule.backward(model, Batch(x, y, generator, clock))
        optimizer.step(1e-3)
        rule.after_step(model)

    return step


def recipe(batch: Batches) -> Callable[[], None]:
    """DFA as it is usually published: one optimizer per part, a second forward for each local loss."""
    model = net()
    generator = torch.Generator().manual_seed(1)
    feedback = [torch.randn(WIDTH, CLASSES, generator=generator) / CLASSES**0.5 for _ in range(DEPTH)]
    settings = {"lr": 1e-3, "weight_decay": 0.01}
    optimizers = [
        torch.optim.AdamW(part.parameters(), **settings) for part in (model.embed, *model.blocks, model.readout)
    ]

    def step() -> None:
        x, y = next(batch)
        with torch.no_grad():
            states = [model.embed(x)]
            for block in model.blocks:
                states.append(states[-1] + block(states[-1]))
            error = F.softmax(model.readout(states[-1]), 1) - F.one_hot(y, CLASSES).float()
        credits = []
        for B in feedback:
            a = error @ B.t()
            credits.append(a / (a.pow(2).mean(1, keepdim=True).sqrt() + 1e-6))
        for layer, block in enumerate(model.blocks):
            optimizers[1 + layer].zero_grad()
            (block(states[layer]) * credits[layer]).sum(1).mean().backward()
            optimizers[1 + layer].step()
        optimizers[0].zero_grad()
        (model.embed(x) * credits[0]).sum(1).mean().backward()
        optimizers[0].step()
        optimizers[-1].zero_grad()
        F.cross_entropy(model.readout(states[-1]), y).backward()
        optimizers[-1].step()

    return step


def bare_products() -> Callable[[], None]:
    """The matrix products that a dfa step cannot do without: embedding, blocks, head, credits; nothing else."""
    x, w = torch.randn(BATCH, 3072), torch.randn(WIDTH, 3072)
    h, v = torch.randn(BATCH, WIDTH), torch.randn(WIDTH, WIDTH)
    e, head, B = torch.randn(BATCH, CLASSES), torch.randn(CLASSES, WIDTH), torch.randn(DEPTH, CLASSES, WIDTH)

    def step() -> None:
        _ = x @ w.T
        for _ in range(DEPTH):
            _ = h @ v.T  # up
            _ = h @ v.T  # down
        _ = h @ head.T
        _ = e @ B
        _ = e.T @ h  # the head's gradient, and what the terminal norm receives
        _ = e @ head
        for _ in range(DEPTH):
            _ = h.T @ h  # down's gradient
            _ = h @ v  # back through down
            _ = h.T @ h  # up's gradient
        _ = h.T @ x

    return step


def input_pipeline(dataset: Dataset) -> Callable[[], None]:
    source, order, position = TrainBatches(dataset, augment=True), torch.randperm(20000), 0

    def step() -> None:
        nonlocal position
        position = (position + BATCH) % 19000
        source.batch(order[position : position + BATCH], stream(0, "augment", position))

    return step


def snapshot(dataset: Dataset) -> Callable[[], None]:
    """All that a snapshot measures, on 1,024 images."""
    (config,) = plan(data="cifar10", rules=["dfa"], net_options={"width": WIDTH, "depth": DEPTH})
    trainer = Trainer(config, dataset)
    trainer.one_epoch(lambda: None)
    return trainer.snapshot


def audit_probes(name: str, images: torch.Tensor, labels: torch.Tensor) -> Callable[[], object]:
    """All judged probes: norms, cosines at both places, fresh-feedback null."""
    model = net()
    rule = make_rule(name, model, torch.Generator().manual_seed(1), {})

    def fresh(draw: int) -> Rule:
        return make_rule(name, model, torch.Generator().manual_seed(100 + draw), {})

    def probed() -> None:
        draws = torch.Generator().manual_seed(2)
        quantities(observe(model, rule, images, labels, draws))
        feedback_null(model, rule, fresh, images, labels, draws)

    return probed


def forward_backward(images: torch.Tensor, labels: torch.Tensor) -> Callable[[], object]:
    """What one pass over the images costs anyhow, in batches of 128."""
    model = net()

    def step() -> None:
        model.zero_grad()
        for x, y in zip(images.split(BATCH), labels.split(BATCH), strict=True):
            F.cross_entropy(model(x), y).backward()

    return step


def measure(candidates: dict[str, Callable[[], object]], rounds: int, burst: int) -> dict[str, float]:
    """The median milliseconds of each, from bursts in alternation; the first of a burst warms its caches."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(rounds + 1):
        for name, step in candidates.items():
            step()
            for _ in range(burst):
                began = time.perf_counter()
                step()
                if turn:  # the first round is warm-up
                    times[name].append((time.perf_counter() - began) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def _throughput(barrier: object, seconds: float, answers: object) -> None:
    torch.set_num_threads(1)
    step = ours("dfa", batches())
    for _ in range(20):
        step()
    barrier.wait()
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        step()
        count += 1
    answers.put(count / (time.perf_counter() - began))


def throughput(processes: int, seconds: float) -> float:
    """Steps a second of so many processes at once, together."""
    context = mp.get_context("spawn")
    barrier, answers = context.Barrier(processes), context.Queue()
    started = [context.Process(target=_throughput, args=(barrier, seconds, answers)) for _ in range(processes)]
    for process in started:
        process.start()
    total = sum(answers.get() for _ in started)
    for process in started:
        process.join()
    return total


def main() -> None:
    quick = "--quick" in sys.argv
    torch.set_num_threads(1)
    keep_memory()  # for all alike
    rounds = 3 if quick else 12
    batch = batches()
    console, dataset = Console(highlight=False), data()
    steps = {
        "torch_bp": torch_bp(batch), "bp": ours("bp", batch), "fa": ours("fa", batch), "dfa": ours("dfa", batch),
        "recipe": recipe(batch), "gemm": bare_products(), "input": input_pipeline(dataset),
        **{name: ours(name, batch) for name in OTHERS},
    }  # fmt: skip
    console.print(f"measuring {rounds} rounds of {len(steps)} candidates, one thread …")
    ms = measure(steps, rounds, burst=12)
    paired = measure({"dfa": steps["dfa"], "snapshot": snapshot(dataset)}, rounds, burst=3)
    ms["snapshot"] = paired["snapshot"]
    ratio = {
        "dfa_vs_torch_bp": ms["dfa"] / ms["torch_bp"], "fa_vs_torch_bp": ms["fa"] / ms["torch_bp"],
        "bp_vs_torch_bp": ms["bp"] / ms["torch_bp"], "recipe_vs_dfa": ms["recipe"] / ms["dfa"],
        "dfa_vs_gemm": ms["dfa"] / ms["gemm"], "input_share": ms["input"] / ms["dfa"],
        "snapshot_in_steps": paired["snapshot"] / paired["dfa"],
        **{f"{name}_vs_torch_bp": ms[name] / ms["torch_bp"] for name in OTHERS},
    }  # fmt: skip
    images, labels = torch.randn(1280, *SHAPE), torch.randint(0, CLASSES, (1280,))
    model = net()
    bp = make_rule("bp", model, torch.Generator(), {})

    def precise() -> None:
        gradients = observe(model, bp, images, labels, torch.Generator()).gradients
        net_precision(model, images, labels, gradients)

    probes = measure(
        {
            "fwdbwd": forward_backward(images, labels), "audit": audit_probes("dfa", images, labels),
            "audit_fa": audit_probes("fa", images, labels), "precision": precise,
        }, rounds, burst=2,
    )  # fmt: skip
    ms |= probes
    ratio |= {f"{name}_vs_fwdbwd": probes[name] / probes["fwdbwd"] for name in ("audit", "audit_fa", "precision")}
    door = measure(door_candidates(), 1 if quick else 3, burst=1)
    ms |= door
    ratio |= {f"{name}_vs_passes": value / door["passes"] for name, value in door.items() if name != "passes"}
    ratio |= watch_ratios(1 if quick else 4)
    if cores() >= 2:
        seconds = 2.0 if quick else 6.0
        pairs = [(throughput(1, seconds), throughput(2, seconds)) for _ in range(1 if quick else 3)]
        ratio["two_runs_vs_one"] = statistics.median(two / one for one, two in pairs)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("ratio", "measured", "goal", ""):
        table.add_column(heading, justify="right" if heading == "measured" else "left")
    for name, value in ratio.items():
        sign, goal, words = GOALS[name]
        met = value <= goal if sign == "≤" else value >= goal
        table.add_row(name, f"{value:.3f}", f"{sign} {goal:g} {'✓' if met else '✗'}" if sign else "–", words)
    console.print(table)
    console.print("medians in ms: " + ", ".join(f"{name} {value:.2f}" for name, value in ms.items()))
    write_whole(Path("bench.json"), (json.dumps({"ms": ms, "ratio": ratio}, indent=1) + "\n").encode())
    console.print("written to bench.json")


if __name__ == "__main__":
    main()
