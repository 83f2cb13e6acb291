"""A card per rule: what it uses, found by intervention on a small net, and what a step of it costs.

The rule is asked twice, as it is when new and after a short training with the clock run to its end: a warm-up is over
by then, and learned feedback has learned something. The cards of an audit's rules lie beside its runs, in cards.json.
"""

import copy
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BadValue, RecordError, WalkbackError
from walkback.files import is_folder
from walkback.nets import Net, defaults, find_net, make_net
from walkback.own import as_written
from walkback.probes.step_cost import products_and_memory
from walkback.probes.transport import (
    Question,
    RuleOnNet,
    TooNarrow,
    condition,
    immediate,
    in_block,
    inputs_of,
    questions,
    turned,
    uses_labels,
)
from walkback.probes.update import alignment
from walkback.records import Card, RunConfig, Transport, find_runs, read_run
from walkback.records.card import read_cards, write_cards
from walkback.rules import START, Batch, Clock, Rule, make_rule, rule_source
from walkback.train.environment import arithmetic
from walkback.train.trainer import AdamW

NET, SHAPE, CLASSES = "resmlp", (24,), 6
WIDTH, WIDE = 96, 256  # wide: for a rule that runs the net some twenty to sixty times per step
# Blocks far from the identity: else every credit is near backprop's.
SIZES = {"width": WIDTH, "depth": 3, "down_std": 0.1}
SAMPLES = 4  # few: the rest of a layer's inputs is free to be turned
STEPS, TRAINING_BATCH, LR, DECAY = 8, 16, 3e-3, 0.01
LARGE_BATCHES = 3  # of COST_BATCH samples: from so many a rule can know what it cannot know from a few
COST_SHAPE, COST_BATCH = (784,), 128
ROUNDS, BURST = 5, 3


def make_card(rule: str, options: Mapping[str, Any] | None = None, *, timed: bool = True) -> Card:
    """The card of a rule by name, or of a class in a file (`my_rule.py:MyRule`)."""
    given, family = dict(options or {}), find_net(NET)
    facts: dict[str, Any] = {
        "rule": as_written(rule), "rule_options": given, "rule_source": rule_source(rule),
        "net": family.words({**defaults(family), **SIZES}),
    }  # fmt: skip
    with arithmetic():
        try:
            try:
                found = what_it_uses(rule, given)
            except TooNarrow:
                found = what_it_uses(rule, given, width=WIDE)
            except RuntimeError:  # a rule that makes float32 of its own cannot be asked in float64
                found = what_it_uses(rule, given, dtype=torch.float32)
            return Card(**facts, **found, **step_cost(rule, given, NET, timed=timed))
        except WalkbackError as error:
            return Card(**facts, refused=error.what)
        except Exception as error:
            if rule_source(rule) is None:
                raise
            return Card(**facts, refused=f"it fails: {type(error).__name__}: {error}")


# One step of a training: the net's numbers before it and after the update, and all that went through each layer.
Step = tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]
State = dict[str, Tensor]  # what a rule has learned and keeps


class CardBench:
    """A small net, and a rule that can be built, trained and asked on it."""

    def __init__(self, rule: str, options: Mapping[str, Any], width: int, dtype: torch.dtype):
        self.rule, self.options, self.dtype = rule, options, dtype
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.net = make_net(NET, SHAPE, CLASSES, {**SIZES, "width": width}).to(dtype)
        condition(self.net)
        self.origin = copy.deepcopy(self.net)  # `net` itself is changed by the questions
        draws = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(SAMPLES, *SHAPE, generator=draws).to(dtype)
        self.labels = torch.arange(SAMPLES) % CLASSES
        self.others = (self.labels + 1 + torch.arange(SAMPLES) % 2) % CLASSES
        self.batches = [
            (torch.randn(TRAINING_BATCH, *SHAPE, generator=draws).to(dtype), torch.arange(TRAINING_BATCH) % CLASSES)
            for _ in range(STEPS)
        ]

    def build(self, net: Net | None = None, state: State | None = None) -> Rule:
        """The rule on the net as it was at first, with the same draws; then with a state that it learned."""
        model = self.origin if net is None else net
        made = make_rule(self.rule, model, torch.Generator().manual_seed(2), self.options).to(self.dtype)
        if state is not None:
            made.load_state_dict(state)
        return made

    def twin(self, question: Question) -> Net:
        """The net with the entries of the layers in question in another order: their distribution alone is kept."""
        twin, draws = copy.deepcopy(self.origin), torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in (layer.weight for layer in question.modules(twin)):
                order = torch.randperm(weight.numel(), generator=draws)
                weight.copy_(weight.flatten()[order].view_as(weight))
        return twin

    @cached_property
    def usual(self) -> tuple[Net, State, list[Step]]:
        """The net, the rule's state and the steps of the usual training."""
        net = copy.deepcopy(self.origin)
        return net, *self.train(net)

    @cached_property
    def again(self) -> State:
        """The rule's state after the usual training once more."""
        return self.train(copy.deepcopy(self.origin))[0]

    def train(self, net: Net, behind: Question | None = None) -> tuple[State, list[Step]]:
        """Train `net` by the rule for a few steps: the rule's state, and the steps.

        behind  the training has the same data, activity and errors as the usual one, and other weights in these layers
        """
        rule, steps = self.build(), list[Step]()
        named = {f"net.{k}": p for k, p in net.named_parameters()}
        named |= {f"rule.{k}": p for k, p in rule.named_parameters() if p.requires_grad}
        optimizer = AdamW(named, DECAY)
        layers = {name: m for name, m in net.named_modules() if isinstance(m, nn.Linear)}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            for step, (inputs, labels) in enumerate(self.batches):
                optimizer.zero_grad()
                draws = torch.Generator().manual_seed(100 + step)
                if behind is not None:
                    self._put(net, step, False, behind)
                before = copy.deepcopy(net.state_dict())
                with inputs_of(net) as seen:
                    rule.backward(net, Batch(inputs, labels, draws, Clock(step, STEPS, step, STEPS)))
                    optimizer.step(LR)
                    if behind is not None:
                        self._put(net, step, True, behind)
                    after = copy.deepcopy(net.state_dict())
                    rule.after_step(net)
                steps.append((before, after, {n: torch.cat(seen[m]) for n, m in layers.items() if m in seen}))
        return {key: value.clone() for key, value in rule.state_dict().items()}, steps

    def _put(self, net: Net, step: int, after: bool, question: Question) -> None:
        """Put a net where the usual training is before or after a step, but for the layers in question.

        These are turned behind all that goes through them in the step. The other numbers are those of the usual
        training: what the net itself learns from the turned weights is not asked here.
        """
        usual = self.usual[2][step]
        net.load_state_dict(usual[after])
        draws = torch.Generator().manual_seed(step)
        with torch.no_grad():
            for name in question.layers:
                if name in usual[2]:
                    weight = net.get_parameter(f"{name}.weight")
                    weight.copy_(turned(weight.detach(), usual[2][name], math.pi / 2, draws))


def what_it_uses(
    rule: str, options: Mapping[str, Any], *, width: int = WIDTH, dtype: torch.dtype = torch.float64
) -> dict[str, Any]:
    """All of a card but the costs, by the names of its fields."""
    lab = CardBench(rule, options, width, dtype)
    later, state, _ = lab.usual
    later = copy.deepcopy(later)
    condition(later)
    new = RuleOnNet(lab.net, lab.build, lab.inputs, lab.labels, START)
    trained = RuleOnNet(
        later, lambda: lab.build(state=state), lab.inputs, lab.labels, Clock(STEPS - 1, STEPS, STEPS - 1, STEPS)
    )
    moments = {"new": new, "trained": trained}
    places = {place: _transport(lab, new, trained, asked) for place, asked in questions(lab.net).items()}
    made = new.make()
    return {
        **places,
        "labels": any(uses_labels(subject, lab.others) for subject in moments.values()),
        "repeatable": new.noise(list(new.usual)) == 0,
        "alignment": {moment: _alignment(subject) for moment, subject in moments.items()},
        "in_training": {moment: _in_training(subject) for moment, subject in moments.items()},
        **_shares(new),
        "learned": sum(p.numel() for p in made.parameters()),
        "fixed": sum(b.numel() for b in made.buffers() if b.is_floating_point()),
    }


def _transport(lab: CardBench, new: RuleOnNet, trained: RuleOnNet, asked: Sequence[Question]) -> Transport:
    """The strongest that is found; what is weaker is not looked for."""
    now = {found for subject in (new, trained) for found in immediate(subject, asked)}
    if now != {"none"}:
        return "full" if "full" in now else "signs"

    def differs(subject: RuleOnNet, question: Question, **built: Any) -> bool:
        """Whether the rule, built so, answers differently: on one net only its own state can make the difference."""
        return subject.notices(subject.answer(make=lambda: lab.build(**built)), question.watched)

    def follows(question: Question) -> bool:
        """Whether what the rule keeps follows these weights where neither activity nor error does.

        A training that does not give the same state twice cannot tell.
        """
        if differs(trained, question, state=lab.again):
            return False
        return differs(trained, question, state=lab.train(copy.deepcopy(lab.origin), behind=question)[0])

    keeps = bool(lab.usual[1])
    if keeps and any(map(follows, asked)):
        return "taken"
    if any(differs(new, question, net=lab.twin(question)) for question in asked):
        return "init"  # it copied something of these weights when it was built
    learned = keeps and any(differs(trained, q, state=lab.train(lab.twin(q))[0]) for q in asked)
    return "learned" if learned else "none"


def _alignment(subject: RuleOnNet) -> list[float]:
    """The cosine of the update with the true gradient, by block."""
    answer, truth = subject.usual, subject.truth()
    found = []
    for block in range(subject.net.depth):
        u, g = (torch.cat([given[n].flatten() for n in in_block(subject.net, block)]) for given in (answer, truth))
        found.append(alignment(u, g).value)
    return found


def _in_training(subject: RuleOnNet) -> list[float]:
    """The alignment at batches as large as those of a training, block by block the median."""
    draws, found = torch.Generator().manual_seed(11), []
    for _ in range(LARGE_BATCHES):
        inputs = torch.randn(COST_BATCH, *subject.inputs.shape[1:], generator=draws).to(subject.inputs)
        labels = torch.arange(COST_BATCH) % subject.net.classes
        found.append(_alignment(replace(subject, inputs=inputs, labels=labels)))
    return [statistics.median(values) for values in zip(*found, strict=True)]


def _shares(subject: RuleOnNet) -> dict[str, int]:
    """How many of the net's numbers the rule trains, how many have the true gradient's direction, how many nothing."""
    counts, truth = {"by_rule": 0, "by_gradient": 0, "untrained": 0}, subject.truth()
    for name, _ in subject.net.named_parameters():
        update = subject.usual[name].flatten()
        along = alignment(update, truth[name].flatten())
        exact = along.status == "ok" and along.value > 1 - 1e-6
        counts["by_gradient" if exact else "by_rule" if update.any() else "untrained"] += len(update)
    return counts


def step_cost(
    rule: str,
    options: Mapping[str, Any],
    net: str,
    *,
    sizes: Mapping[str, Any] | None = None,
    shape: tuple[int, ...] = COST_SHAPE,
    classes: int = CLASSES,
    batch: int = COST_BATCH,
    timed: bool = True,
) -> dict[str, Any]:
    """Products, time and memory of a step relative to bp's; by default on the family's own sizes and a batch of 128.

    memory  weights and learned numbers with AdamW's two moments, what the rule keeps, and the peak within the step
    """
    steps, whole, products = {}, {}, {}
    both: tuple[tuple[str, Mapping[str, Any]], ...] = (("bp", {}), (rule, options))
    for name, given in both:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = make_net(net, shape, classes, sizes or {})
        step, kept = _step(name, given, model, shape, batch)
        step()
        steps[name] = step
        products[name], peak = products_and_memory(step)
        whole[name] = kept + peak
    ratio: float | None = None
    if timed:
        times = _times(steps)
        ratio = times[rule] / times["bp"]
    return {"products": products[rule] / products["bp"], "time": ratio, "memory": whole[rule] / whole["bp"]}


def _step(
    name: str, options: Mapping[str, Any], model: Net, shape: tuple[int, ...], batch: int
) -> tuple[Callable[[], None], int]:
    rule = make_rule(name, model, torch.Generator().manual_seed(2), options)
    learned = {f"rule.{k}": p for k, p in rule.named_parameters() if p.requires_grad}
    optimizer = AdamW({**dict(model.named_parameters()), **learned}, DECAY)
    draws = torch.Generator().manual_seed(1)
    inputs, labels = torch.randn(batch, *shape, generator=draws), torch.arange(batch) % model.classes

    def step() -> None:
        optimizer.zero_grad()
        rule.backward(model, Batch(inputs, labels, draws, Clock(1, 2)))
        optimizer.step(1e-3)
        rule.after_step(model)

    numbers = [*model.parameters(), *rule.parameters()]
    kept = 3 * sum(p.nbytes for p in numbers) + sum(b.nbytes for b in rule.buffers())
    return step, kept


def _times(steps: Mapping[str, Callable[[], None]]) -> dict[str, float]:
    """The median time of each, in bursts in turn: a busy machine slows all alike."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            for _ in range(BURST):
                began = time.perf_counter()
                step()
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(found) for name, found in times.items()}


# --- the cards of an audit --------------------------------------------------------------------------------------------


def card_key(rule: str, options: object, source: str | None) -> str:
    """What a card is of: a rule, its options, and the code of one that is not ours."""
    return json.dumps([rule, options, source], sort_keys=True, default=str)


def measure_cards(
    configs: Iterable[RunConfig], folder: Path | str, *, say: Callable[[str], object] = lambda _: None
) -> list[Card]:
    """Measure a card for each rule of these configs that has none in the folder yet, and write all to cards.json."""
    wanted = {card_key(c.rule, c.rule_options, c.rule_source): c for c in configs}
    try:
        kept = read_cards(folder) or []
    except RecordError:  # it is measured again and replaced
        kept = []
    known = {card_key(card.rule, card.rule_options, card.rule_source): card for card in kept}
    lacking = [key for key in wanted if key not in known]
    for place, key in enumerate(lacking, 1):
        config = wanted[key]
        say(f"card {place} of {len(lacking)}: what {config.rule} uses and costs")
        known[key] = make_card(config.rule, config.rule_options)
    if lacking:
        write_cards(folder, list(known.values()))
    return [known[key] for key in wanted]


def cards_of_folder(
    folder: Path, rules: Sequence[str] = (), *, say: Callable[[str], object] = lambda _: None
) -> list[Card]:
    """Measure the cards of the rules whose runs are in a folder; of some of them, if they are named."""
    if not is_folder(folder):
        raise BadValue(f"{folder} is not a folder", "name a folder that holds runs")
    configs = [read_run(path).config for path in find_runs(folder)]
    if not configs:
        raise BadValue(f"no runs in {folder}", "give a folder that `walkback train` or `walkback audit` made")
    missing = [rule for rule in rules if rule not in {config.rule for config in configs}]
    if missing:
        raise BadValue(f"no run in {folder} was trained by {missing[0]}", "leave the rules out to measure all of them")
    return measure_cards([c for c in configs if not rules or c.rule in rules], folder, say=say)
