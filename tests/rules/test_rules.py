"""The rules: their formulas are tested in test_step; here their promises, registry, options and foreign files."""

from pathlib import Path

import pytest
import torch

import walkback as wb
from walkback.errors import BadValue, UnknownName
from walkback.nets import defaults, make_net
from walkback.rules import RULES, Batch, find_rule, make_rule, normalize_credit, probe_signal, rule_source

SCALED = "docs/tried/fa_scaled.py:ScaledFA"
NET = make_net("resmlp", (5,), 4, {"width": 20, "depth": 3})


def signal(seed=0, count=6):
    generator = torch.Generator().manual_seed(seed)

    def rows(d):
        return torch.randn(count, d, generator=generator)

    hidden = [rows(NET.width) for _ in range(NET.depth + 1)]
    gradients = [rows(NET.width) for _ in range(NET.depth + 1)]
    labels = torch.randint(NET.classes, (count,), generator=generator)
    batch = Batch(rows(5), labels, torch.Generator().manual_seed(seed))
    return probe_signal(NET, batch, rows(NET.classes), hidden, gradients)


@pytest.mark.parametrize("name", ["dfa", "dfa-plain", "fa"])
def test_property_feedback_is_fixed_saved_and_drawn_from_its_stream(name):
    one = make_rule(name, NET, torch.Generator().manual_seed(1), {})
    same = make_rule(name, NET, torch.Generator().manual_seed(1), {})
    other = make_rule(name, NET, torch.Generator().manual_seed(2), {})
    assert list(one.state_dict()) == ["B"]
    assert torch.equal(one.B, same.B)
    assert not torch.equal(one.B, other.B)
    assert torch.equal(one(signal()).blocks[0], one(signal()).blocks[0])
    std = NET.classes**-0.5 if name != "fa" else NET.width**-0.5
    assert float(one.B.std()) == pytest.approx(std, rel=0.2)


def test_second_implementation_dfa_as_it_was_proposed_is_the_projected_error_itself():
    """Nøkland's a_l = B_l e, sample by sample; dfa is the same divided by its RMS, from the same matrices."""
    seen = signal()
    plain, scaled = (make_rule(name, NET, torch.Generator().manual_seed(1), {}) for name in ("dfa-plain", "dfa"))
    assert torch.equal(plain.B, scaled.B)
    for block in range(NET.depth):
        for sample in range(6):
            a = [sum(float(b * e) for b, e in zip(row, seen.error[sample], strict=True)) for row in plain.B[block]]
            torch.testing.assert_close(plain(seen).blocks[block][sample], torch.tensor(a))
            rms = (sum(x * x for x in a) / len(a)) ** 0.5
            torch.testing.assert_close(scaled(seen).blocks[block][sample], torch.tensor(a) / (rms + 1e-6))
    other = make_rule("dfa", NET, torch.Generator().manual_seed(1), {"normalize": "none"})
    assert torch.equal(other(seen).blocks, plain(seen).blocks)


def test_property_a_small_error_gives_a_small_credit_in_dfa_plain_and_not_in_dfa():
    def size(name, scale):
        generator = torch.Generator().manual_seed(0)
        batch = Batch(torch.zeros(6, 5), torch.zeros(6, dtype=torch.long), generator)
        logits = torch.zeros(6, NET.classes)
        logits[:, 0] = scale  # all are of class 0, so that the error falls
        rows = [torch.zeros(6, NET.width)] * (NET.depth + 1)
        seen = probe_signal(NET, batch, logits, rows, rows)
        return float(make_rule(name, NET, torch.Generator().manual_seed(1), {})(seen).blocks.norm())

    assert size("dfa-plain", 6.0) < 0.02 * size("dfa-plain", 0.0)
    assert size("dfa", 6.0) == pytest.approx(size("dfa", 0.0), rel=0.01)


def test_second_implementation_fa_with_its_sizes_free_is_fa_where_they_are_one():
    file = f"{Path(__file__).parents[2] / SCALED}"

    def credits(name, **options):
        got = make_rule(name, NET, torch.Generator().manual_seed(1), options)(signal())
        return [got.embed, *got.blocks]

    fa, scaled = credits("fa"), credits(file, gain=5.0, top=0.5)
    assert all(torch.equal(a, b) for a, b in zip(fa, credits(file), strict=True))
    for steps, a, b in zip((3, 2, 1, 0), fa, scaled, strict=True):
        torch.testing.assert_close(b, 0.5 * 5.0**steps * a, rtol=1e-5, atol=1e-4)
    assert not torch.equal(fa[0], scaled[0])


def test_property_random_is_fresh_every_step():
    rule = make_rule("random", NET, torch.Generator(), {})
    one, two = signal(0), signal(0)
    two.generator.manual_seed(9)
    assert not torch.equal(rule(one).blocks[0], rule(two).blocks[0])
    assert not rule.state_dict()


def test_closed_form_normalizations():
    a = torch.tensor([[3.0, 4.0], [30.0, 40.0]])
    sample = normalize_credit(a, "sample")
    torch.testing.assert_close(sample.square().mean(1), torch.ones(2), rtol=1e-5, atol=1e-5)
    batch = normalize_credit(a, "batch")
    assert float(batch.square().mean()) == pytest.approx(1, rel=1e-5)
    torch.testing.assert_close(batch[1] / batch[0], torch.full((2,), 10.0))
    stacked = torch.stack([a, 7 * a])
    torch.testing.assert_close(normalize_credit(stacked, "batch")[1], batch)
    assert torch.equal(normalize_credit(a, "none"), a)


def test_error_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="did you mean dfa"):
        find_rule("dffa")
    with pytest.raises(BadValue, match="normalize"):
        make_rule("dfa", NET, torch.Generator(), {"normalise": "sample"})
    with pytest.raises(BadValue, match="sample"):
        make_rule("dfa", NET, torch.Generator(), {"normalize": "sampel"})
    with pytest.raises(BadValue, match="bp"):
        make_rule("bp", NET, torch.Generator(), {"normalize": "sample"})


RULE_FILE = '''
import torch
from walkback import Rule, Credits

class Mine(Rule):
    """Nothing."""
    def credits(self, signal):
        zero = torch.zeros_like(signal.hidden[0])
        return Credits([zero] * signal.net.depth, embed=zero)
'''


def test_foreign_rule_from_a_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(RULE_FILE)
    assert find_rule(f"{file}:Mine").__name__ == "Mine"
    assert find_rule(str(file)).__name__ == "Mine"  # it is the only one
    before = rule_source(f"{file}:Mine")
    file.write_text(RULE_FILE + "\n# edited\n")
    assert rule_source(f"{file}:Mine") != before  # an edited rule is another run
    assert rule_source("dfa") is None


@pytest.mark.parametrize(
    ("content", "name", "word"),
    [
        (RULE_FILE, "mine.py:Mien", "did you mean"),
        ("x = 1", "mine.py:Mine", "derive"),
        ("def (", "mine.py:Mine", "SyntaxError"),
        ("import nothing_like_this", "mine.py:Mine", "nothing_like_this"),
        (RULE_FILE, "other.py:Mine", "rule file other.py does not exist"),
    ],
)
def test_error_foreign_rule_says_what_is_wrong(tmp_path, monkeypatch, content, name, word):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(content)
    with pytest.raises(wb.WalkbackError) as caught:
        find_rule(name)
    assert word in str(caught.value)


def test_register_rule_takes_rules_only_and_names_once():
    class A(wb.Rule):
        pass

    class B(wb.Rule):
        pass

    wb.register_rule("test-rule", A)
    wb.register_rule("test-rule", A)
    assert "test-rule" in RULES
    with pytest.raises(BadValue, match="already"):
        wb.register_rule("test-rule", B)
    with pytest.raises(BadValue, match="not a rule"):
        wb.register_rule("other", dict)


def test_closed_form_a_rule_that_passes_common_on_has_the_options_of_the_class_above():
    class Mine(wb.Rule):
        def __init__(self, net, generator, *, gain=1.0, **common):
            super().__init__(net, generator, **common)

    class Same(Mine):
        pass

    class Other(Same):
        def __init__(self, net, generator, *, top=2, gain=3.0, **common):
            super().__init__(net, generator, gain=gain, **common)

    class Closed(Mine):
        def __init__(self, net, generator, *, top=2):
            super().__init__(net, generator)

    assert defaults(Mine) == defaults(Same) == {"normalize": None, "gain": 1.0}
    assert defaults(Other) == {"normalize": None, "gain": 3.0, "top": 2}
    assert defaults(Closed) == {"top": 2}
    assert defaults(lambda *, a=1, **more: None) == {"a": 1}
    net = make_net("resmlp", (5,), 3, {"width": 4, "depth": 1})
    assert Other(net, torch.Generator(), normalize="batch").normalize == "batch"
    with pytest.raises(TypeError, match="scale"):
        Other(net, torch.Generator(), scale=1)
