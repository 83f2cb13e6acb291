"""The card: what a rule uses is found by intervention. Planted rules that hide it are exposed, honest ones are not."""

import io
import itertools
import json
import random
import re
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.nn import functional as F

import walkback as wb
from rules_page import CARDS, ENTRIES, PAGE, between, entries, lacking, stated
from walkback.audits.rule_cards import make_card, what_it_uses
from walkback.cli import app
from walkback.errors import BadValue, UnknownName
from walkback.nets import make_net
from walkback.own import is_ours
from walkback.probes.step_cost import products_and_memory
from walkback.probes.transport import TooNarrow, condition, inputs_of, questions, replaced, turned
from walkback.records.card import Card
from walkback.report.cards import cards_table, print_cards, sheet
from walkback.rules import RULES, Credits, Rule
from walkback.rules.layerwise import DrawnFeedback, LayerFeedback

PLACES = ("inside", "blocks", "readout")
numbers = itertools.count()


def uses(rule, **options):
    """What is found of a rule by name, or of a planted class."""
    if not isinstance(rule, str):
        name = f"planted-{next(numbers)}"
        wb.register_rule(name, rule)
        rule = name
    return what_it_uses(rule, options)


def places(found):
    return tuple(found[place] for place in PLACES)


# The interventions themselves.


def test_property_weights_turned_behind_the_data_change_no_hidden_state_and_no_norm():
    torch.manual_seed(0)
    net = make_net("resmlp", (24,), 6, {"width": 32, "depth": 2}).double()
    condition(net)
    x = torch.randn(4, 24).double()
    with torch.no_grad(), inputs_of(net) as seen:
        before = net(x)
    layers = questions(net)["blocks"][0].modules(net)
    draws = torch.Generator().manual_seed(1)
    new = {m: turned(m.weight.detach(), torch.cat(seen[m]), 1.5, draws) for m in layers}
    for layer, weight in new.items():
        assert float(weight.norm()) == pytest.approx(float(layer.weight.detach().norm()), rel=1e-9)
        assert float(((weight - layer.weight).norm() / layer.weight.norm()).detach()) > 0.5
        assert float((weight.sign() != layer.weight.sign()).double().mean()) > 0.1
    kept = [m.weight.detach().clone() for m in layers]
    with replaced(new), torch.no_grad():
        torch.testing.assert_close(net(x), before, rtol=1e-9, atol=1e-11)
    assert all(torch.equal(a, m.weight) for a, m in zip(kept, layers, strict=True))
    with pytest.raises(BadValue, match="nothing is left"):
        turned(torch.randn(3, 4), torch.randn(9, 4), 1.0, draws)


def test_closed_form_expense():
    a, b = torch.randn(5, 6), torch.randn(6, 7)
    flops, peak = products_and_memory(lambda: (a @ b).relu().sum())
    assert flops == 2 * 5 * 6 * 7
    assert peak == 4 * (35 + 35)  # the product is freed before the sum is there
    grown = torch.zeros(5, 7)
    assert products_and_memory(lambda: grown.addmm_(a, b))[0] == 2 * 5 * 6 * 7


# Our rules.

EXPECTED = {
    "bp": ("full", "full", "full"),
    "dfa": ("full", "none", "none"),
    "fa": ("full", "none", "full"),
    "fa-layer": ("none", "none", "none"),
    "usf": ("signs", "signs", "signs"),
    "kp": ("learned", "learned", "learned"),
    "mirror": ("learned", "learned", "learned"),
    **dict.fromkeys(("pepita", "drtp", "mono-forward"), ("full", "none", "none")),
}


def test_known_answer_an_exact_readout_is_said():
    assert places(uses("fa-layer", readout="exact")) == ("none", "none", "full")


# Rules that hide what they use.


def feedback(stand_ins):
    """A rule of fixed random feedback, as it says, and of what stand_ins(rule, net, weights, drawn) gives."""

    class Planted(DrawnFeedback):
        def stand_ins(self, net, generator):
            return stand_ins(self, net, self.weights(net), super().stand_ins(net, generator))

    return Planted


def kept(rule, net, weights, drawn):
    """The transposes at the first step, and for good."""
    if not hasattr(rule, "first"):
        rule.first = {n: w.clone() for n, w in weights.items()}
    return rule.first


class AfterWarmUp(DrawnFeedback):
    """Random until the first third is over."""

    late = False

    def backward(self, net, batch):
        self.late = batch.clock.progress > 0.3
        return super().backward(net, batch)

    def stand_ins(self, net, generator):
        return self.weights(net) if self.late else super().stand_ins(net, generator)


class Copies(DrawnFeedback):
    """Random feedback, drawn to the transposes after every step by `rate`; at `init` it is the transposes."""

    rate, init = 0.0, False

    def __init__(self, net, generator):
        super().__init__(net, generator)
        if self.init:
            self.draw(net, 1.0)

    @torch.no_grad()
    def draw(self, net, rate):
        for name, weight in self.weights(net).items():
            self.B[name].lerp_(weight, rate)

    def after_step(self, net):
        self.draw(net, self.rate)


def copies(rate, *, init=False):
    return type("Planted", (Copies,), {"rate": rate, "init": init})


class Unrepeatable(DrawnFeedback):
    """Feedback that wanders, as nobody can repeat: of this nothing may be said."""

    chance = random.SystemRandom()

    @torch.no_grad()
    def after_step(self, net):
        for name in self.fed:
            self.B[name].mul_(1 + 0.1 * self.chance.random())


@pytest.mark.parametrize(
    ("rule", "transport", "backprop"),
    [
        (feedback(lambda rule, net, weights, drawn: weights), "full", True),
        (feedback(lambda rule, net, weights, drawn: weights if net.training else drawn), "full", True),
        (feedback(lambda rule, net, weights, drawn: {n: b + 0.01 * weights[n] for n, b in drawn.items()}), "full",
         False),
        (feedback(kept), "full", True),
        (AfterWarmUp, "full", True),
        (feedback(lambda rule, net, weights, drawn: {n: b.abs() * weights[n].sign() for n, b in drawn.items()}),
         "signs", False),
        (copies(0.0, init=True), "init", True),
        (copies(1.0), "taken", False),  # those of the step before
        (copies(1e-3), "taken", False),
        (copies(1.0, init=True), "taken", True),
    ],
    ids=["always", "in training", "a hundredth", "kept", "after warm-up", "signs", "at init", "copied", "slowly",
         "twice"],
)  # fmt: skip
def test_planted_rules_that_say_random_and_use_the_weights_are_exposed(rule, transport, backprop):
    """Kolen–Pollack's and the mirror's, which hear of the weights by activity and error alone, are not (EXPECTED)."""
    found = uses(rule)
    assert places(found) == (transport,) * 3
    assert Card(rule="planted", net="", **found).is_backprop == backprop


class Estimates(LayerFeedback):
    """Every weight as least squares give it from what went into its layer and came out of it, in this batch."""

    def backward(self, net, batch):
        self.seen_inputs = [batch.inputs]
        return super().backward(net, batch)

    def credits(self, signal):
        self.seen_inputs = [signal.inputs]
        return super().credits(signal)

    def stand_ins(self, net, generator):
        seen = {}
        handles = [
            part.register_forward_hook(lambda part, args, y, name=name: seen.update({name: (args[0], y)}))
            for name, part in net.named_modules() if isinstance(part, nn.Linear)
        ]  # fmt: skip
        with torch.no_grad():
            net(self.seen_inputs.pop())
        for handle in handles:
            handle.remove()
        found = {}
        for name in self.fed:
            x, y = seen[name.removesuffix(".weight")]
            with_bias = torch.cat([x, x.new_ones(len(x), 1)], 1)
            found[name] = (torch.linalg.pinv(with_bias, rtol=1e-9) @ y)[:-1].T.detach()
        return found


def test_planted_weights_estimated_from_a_batchs_activity_show_in_the_update_at_a_training_batch():
    """It reads no weight, and of four samples it knows little; of a training batch it does what backprop does."""
    found = uses(Estimates)
    card = Card(rule="planted", net="", products=1, time=1, memory=1, **found)
    assert places(found) == ("none",) * 3
    assert max(min(values) for values in card.alignment.values()) < 0.95
    assert card.nearness > 0.99
    assert dict(sheet(card))["backprop"].count("0.99") + dict(sheet(card))["backprop"].count("1.000") >= 3
    (row,) = cards_table([card]).rows
    assert row[5] in {f"{card.nearness:.3f}", "yes"}


def test_closed_form_the_cosine_in_training_is_that_of_the_rules_step():
    """bp 1, its reverse −1; a rule that is backprop in large batches alone is seen to be."""

    class Reversed(Rule):
        sign = -1

        def backward(self, net, batch):
            loss = F.cross_entropy(net(batch.inputs), batch.labels)
            loss.backward()
            for p in net.parameters():
                p.grad.mul_(self.sign if len(batch.labels) < 100 else 1)
            return loss.detach()

    found = uses(Reversed)
    assert found["alignment"]["new"] == pytest.approx([-1] * 3)
    assert found["in_training"]["new"] == pytest.approx([1] * 3)
    assert Card(rule="planted", net="", **found).is_backprop


# Rules that must not be accused.


# Random feedback, as large as the weights are now: it reads one number of each matrix.
Scaled = feedback(lambda rule, net, weights, drawn: {n: b * weights[n].norm() for n, b in drawn.items()})


class Noisy(Rule):
    """Credits that nobody can repeat."""

    chance = random.SystemRandom()

    def credits(self, signal):
        h = signal.hidden[0]
        return Credits([h * 0 + 1 + 0.1 * self.chance.random() for _ in signal.net.blocks], embed=h * 0 + 1)


class OwnPass(Rule):
    """As PEPITA, a second pass on the input plus the error; but the rule computes it by itself from the weights."""

    def __init__(self, net, generator):
        super().__init__(net, generator)
        self.F = self.feedback(24, net.classes, std=0.05)

    def credits(self, signal):
        net = signal.net
        with torch.no_grad():
            h = F.linear(signal.inputs + signal.error @ self.F.T, net.embed[1].weight, net.embed[1].bias)
            moved = [h]
            for block in net.blocks:
                inner = F.gelu(F.linear(F.layer_norm(h, (h.shape[1],)), block.up.weight, block.up.bias))
                h = h + inner @ block.down.weight.T + block.down.bias
                moved.append(h)
        top = moved[-1] @ net.readout[1].weight.T  # and looks at where it leads
        embed, *blocks = [(a - b) * (1 + top.mean()) for a, b in zip(signal.hidden, moved, strict=True)]
        return Credits(blocks, embed)


class ManyPasses(Rule):
    """Many passes over noisy inputs; a block is told how its output moved."""

    def credits(self, signal):
        total = [0 * h for h in signal.hidden]
        with torch.no_grad():
            for _ in range(24):
                noise = torch.randn(signal.inputs.shape, generator=signal.generator).to(signal.inputs)
                moved, _ = signal.net.unroll(signal.net.embed(signal.inputs + noise))
                total = [t + a - b for t, a, b in zip(total, signal.hidden, moved, strict=True)]
        return Credits(total[1:], total[0])


@pytest.mark.parametrize("rule", [Scaled, Noisy, OwnPass, Unrepeatable])
def test_planted_rules_that_use_no_weights_above_are_not_accused(rule):
    found = uses(rule)
    if rule is Unrepeatable:
        assert "taken" not in places(found)
        return
    assert places(found)[1:] == ("none", "none")
    if rule is not Noisy:  # inside its blocks, noise hides what exact backprop does with a credit
        assert found["inside"] == ("full" if rule is OwnPass else "none")
    assert not found["labels"]
    assert found["repeatable"] == (rule is not Noisy)


@pytest.mark.slow
def test_planted_a_rule_of_many_passes_is_asked_on_a_wider_net():
    wb.register_rule("many-passes", ManyPasses)
    with pytest.raises(TooNarrow):
        uses("many-passes")
    card = make_card("many-passes", timed=False)
    assert (card.refused, card.blocks, card.readout) == (None, "none", "none")


# Foreign rules, and what is printed.

FLOAT32 = '''
import torch
from walkback import Rule, Credits

class Mine(Rule):
    """It makes float32 of everything."""
    def __init__(self, net, generator):
        super().__init__(net, generator)
        self.widths = net.widths
    def credits(self, signal):
        g = torch.Generator().manual_seed(3)
        B = torch.randn(signal.net.width, signal.net.classes, generator=g)
        return Credits([signal.error @ B.T] * signal.net.depth)

class Broken(Rule):
    """It fails."""
    def backward(self, net, batch):
        raise KeyError("nothing here")
'''


def test_a_rule_in_a_file_that_knows_float32_alone_and_one_that_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FLOAT32)
    card = make_card("mine.py:Mine", timed=False)
    assert (card.refused, card.blocks, card.readout) == (None, "none", "none")
    assert card.rule == "mine.py:Mine"
    assert card.rule_source
    broken = make_card("mine.py:Broken", timed=False)
    assert "KeyError" in broken.refused
    assert "mine.py:Broken: it fails" in cards_table([card, broken]).markdown()


def test_the_command_prints_a_sheet_of_80_columns_and_json(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    app(["card", "usf"], result_action="return_value")
    said = capsys.readouterr().out
    assert "signs of the weights" in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 80
    app(["card", "usf", "--rule-option", "readout=exact", "--format", "json"], result_action="return_value")
    (card,) = json.loads(capsys.readouterr().out)
    assert (card["blocks"], card["readout"], card["rule_options"]) == ("signs", "full", {"readout": "exact"})
    assert 0.3 < card["time"] < 5
    assert card["products"] == pytest.approx(1.0)
    with pytest.raises(UnknownName, match="did you mean usf"):
        app(["card", "usff"], result_action="return_value")


def a_card(rule="mono-forward", **changes):
    facts = {
        "rule": rule, "net": "ResMLP d = 96, L = 3", "inside": "learned", "blocks": "learned", "readout": "learned",
        "alignment": {"new": [0.1, 0.2], "trained": [0.3, -0.4]}, "by_rule": 9, "by_gradient": 1, "products": 12.34,
        "time": 11.1, "memory": 10.2,
    }  # fmt: skip
    return Card(**facts | changes)


def test_the_table_fits_80_columns():
    said = io.StringIO()
    print_cards([a_card(), a_card("bp")], "text", Console(file=said, width=80))
    assert "each row is a list" not in said.getvalue()
    assert max(map(len, said.getvalue().splitlines())) <= 80
    assert dict(sheet(a_card(repeatable=False)))["caution"]


def rows_of(text):
    table = between(text, CARDS).splitlines()
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("|")]
    return {line[0]: line[1:] for line in lines[2:]}


OURS = [name for name in RULES.names() if is_ours(RULES.get(name))]


def test_golden_every_rule_has_its_row_in_the_documents():
    assert set(rows_of(PAGE.read_text())) == set(OURS), "write it anew: make rules-page"


@pytest.mark.parametrize("name", OURS)
def test_every_rule_states_its_formula_what_it_needs_and_where_it_differs(name):
    assert lacking(name) == []


def test_golden_the_entries_in_the_documents_are_what_the_rules_state():
    assert between(PAGE.read_text(), ENTRIES) == f"\n{entries(OURS)}\n", "write it anew: make rules-page"


def test_a_docstring_becomes_an_entry_with_its_code(monkeypatch):
    """Planted: a field of three lines, code, a word that Markdown would take for emphasis, and a paragraph after it."""

    class Planted:
        """A rule. It is
        planted.

        credit      a_l = *B*
                    goes on with `x=1` there
        needs       nothing

        More of it.
        """

    monkeypatch.setitem(RULES._things, "planted", Planted)
    found = stated("planted")
    assert found.pop("summary") == "A rule. It is planted."
    assert found.pop("text").startswith("A rule. It is planted. credit")
    assert found == {"credit": "a_l = *B* goes on with `x=1` there", "needs": "nothing"}
    assert lacking("planted") == ["normalize", "embedding", "readout", "differs", "source"]
    text = entries(["planted"])
    assert text == "#### planted\n\nA rule. It is planted.\n\n- *credit*: a_l = \\*B\\* goes on with `x=1` there"


@pytest.mark.parametrize("name", OURS)
def test_golden_the_row_in_the_documents_is_what_the_card_says(name):
    """All that is found by intervention, exactly; flops and memory nearly; time depends on the machine."""
    written = rows_of(PAGE.read_text())[name]
    card = make_card(name, timed=False)
    (row,) = cards_table([card]).rows
    found = list(row[1:])
    assert written[:6] == found[:6]
    for place in (6, 8):
        assert float(written[place]) == pytest.approx(float(found[place]), rel=0.1)
    assert re.fullmatch(r"\d+\.\d\d", written[7])
    assert (card.inside, card.blocks, card.readout) == EXPECTED.get(name, tuple(written[:3]))
    assert card.is_backprop == (name == "bp")
    net = make_net("resmlp", (24,), 6, {"width": 96, "depth": 3})
    assert card.parameters == sum(p.numel() for p in net.parameters())
    assert (card.by_rule == 0) == (name == "bp")
