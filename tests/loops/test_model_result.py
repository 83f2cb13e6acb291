"""What wb.audit gives back: three lines, a table for notebooks, the page, the rows per block, and other metrics."""

import json
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import walkback as wb
from strangers import CLASSES, WIDTH, Net, data
from walkback.checks import Audit, Control
from walkback.errors import BadValue
from walkback.probes import look, median_norm

X, Y = data(64)
NASTY = "<script>alert(1)</script>\x1b[31m\nsecond"


def ones(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    return [torch.ones(len(x), WIDTH), None]  # type: ignore[list-item]


@pytest.fixture(scope="module")
def audit() -> Audit:
    models = {42: Net(seed=1), 7: Net(seed=2)}
    return wb.audit(models, [(X, Y)], "layers.*", residual=True, credits=ones, name="mine", frozen=[0.2, 0.21])


def test_repr_is_three_lines_whatever_the_name(audit: Audit) -> None:
    first, second, third = repr(audit).splitlines()
    assert str(audit) == repr(audit)
    assert first.startswith("mine: accuracy open, lower half open, Γ ")
    assert "(2 seeds, accuracy 0." in first
    assert "✓ scale passes (" in second
    assert "spread" in second
    assert audit.subjects[0].says in third
    assert "No controls were trained" in third
    nasty = wb.audit(Net(), [(X, Y)], "layers.*", name=NASTY)
    assert len(repr(nasty).split("\n")) == 3
    assert "\x1b" not in repr(nasty)
    assert "accuracy 0." in repr(nasty).split("\n")[0]
    failed = Control(name="bp", expected="gains", got="nothing", ok=False)
    assert "invalid audit" in repr(nasty.changed(valid=False, controls=[failed])).split("\n")[0]


def test_html_for_notebooks_is_small_and_escaped(audit: Audit) -> None:
    html = audit._repr_html_()
    assert "‖h‖" in html
    assert "layers.1" in html
    assert len(html) < 20_000
    nasty = wb.audit(Net(), [(X, Y)], "layers.*", name=NASTY)._repr_html_()
    allowed = ["div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "span", "ul", "li", "i", "sub"]
    assert set(re.findall(r"<(\w+)", nasty)) <= {*allowed}
    assert "&lt;script&gt;" in nasty
    deep = wb.audit([Net(seed=s) for s in range(3)], [(X, Y)], "layers.*")
    deep.with_records(layers={seed: layers * 30 for seed, layers in deep.layers.items()})
    assert "210 more rows in audit.blocks()" in deep._repr_html_()


def test_the_page_is_the_page_of_walkback_report_and_the_file_is_read_again(audit: Audit, tmp_path: Any) -> None:
    content = audit.to_html(tmp_path / "deep" / "mine.html").read_text()
    assert content.startswith("<!doctype html>")
    assert "Audit of mine" in content
    assert "growth" in content.lower()
    assert audit.to_html(str(tmp_path / "again.html")).read_text() == content
    audit.write(tmp_path)
    read = Audit.read(tmp_path)
    assert type(read) is Audit
    assert (read == audit, audit == read) == (True, True)
    assert audit not in (wb.audit(Net(), [(X, Y)], "layers.*"), "audit")


def test_second_implementation_rows_per_block(audit: Audit) -> None:
    rows = audit.blocks()
    assert [(row["seed"], row["block"], row["name"]) for row in rows] == [
        (seed, *place) for seed in (42, 7) for place in ((-1, "input of layers.0"), (0, "layers.0"), (1, "layers.1"))
    ]
    seen = look(Net(seed=1), [(X, Y)], "layers.*")
    assert [row["h_norm"] for row in rows[:3]] == [median_norm(h) for h in seen.hidden]
    assert rows[0]["shape"] == (WIDTH,)
    moment = audit.evidence.seeds[0].final
    cosine, null = moment.cosine[0], moment.null[0]
    assert rows[1]["cosine"] == cosine.value
    assert rows[1]["z"] == (cosine.value - null.mean) / null.std
    assert (rows[2]["cosine"], rows[2]["z"], rows[0]["cosine"]) == (None, None, None)
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert json.loads(json.dumps(rows))


# --- tasks without accuracy -----------------------------------------------------------------------------------------


def regression(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().sum(1)


def near(output: Tensor, target: Tensor) -> Tensor:
    """One score per sample."""
    return torch.exp(-(output - target).square().sum(1))


def test_second_implementation_a_metric_is_the_score(tmp_path: Any) -> None:
    target = torch.randn(64, CLASSES, generator=torch.Generator().manual_seed(0))
    batches = [(X[:40], target[:40]), (X[40:], target[40:])]
    models = [Net(seed=seed) for seed in (0, 1)]
    with torch.no_grad():
        wanted = [near(model(X), target).mean().item() for model in models]
    options: dict[str, Any] = {"residual": True, "loss": regression, "frozen": [0.01, 0.012]}
    for metric in (near, lambda out, y: near(out, y).mean(), lambda out, y: near(out, y).mean().item(),
                   lambda out, y: near(out, y).numpy(), lambda out, y: near(out, y)[:, None]):  # fmt: skip
        audit = wb.audit(models, batches, "layers.*", metric=metric, **options)
        assert [s.final.accuracy for s in audit.evidence.seeds] == pytest.approx(wanted, rel=1e-5)
    named = wb.audit(models, batches, "layers.*", metric=near, **options)
    notes = named.subjects[0].notes
    assert any("a point is 0.01 of the metric near; the limit of +2 points was set for accuracy" in n for n in notes)
    assert any("scored by metric near" in note for note in notes)
    alone = wb.audit(models, batches, "layers.*", metric=near, residual=True, loss=regression)
    assert not any("set for accuracy" in note for note in alone.subjects[0].notes), "no gain, no limit"
    assert named.to_html(tmp_path / "page.html").exists()


@pytest.mark.parametrize("value", [23.5, -0.1, float("nan")])
def test_a_metric_that_is_no_share_leaves_depth_unjudged(value: float) -> None:
    audit = wb.audit([Net(seed=s) for s in (0, 1)], [(X, Y)], "layers.*", metric=lambda o, y: value, frozen=[0.1, 0.1])
    (depth,) = (f for f in audit.subjects[0].findings if f.check == "depth")
    assert depth.outcome == audit.subjects[0].verdict == "open"
    assert any("depth is not judged" in note and f"{value:.4g}" in note for note in audit.subjects[0].notes)


def test_without_a_metric_no_accuracy_is_made_up() -> None:
    audit = wb.audit(Net(), [(X, torch.randn(64, CLASSES))], "layers.*", loss=regression)
    assert audit.evidence.seeds[0].final.accuracy is None
    assert any("give metric= or accuracy=" in note for note in audit.subjects[0].notes)
    assert "accuracy not known" in repr(audit)
    with pytest.raises(BadValue, match="metric gives"):
        wb.audit(Net(), [(X, Y)], "layers.*", metric=lambda o, y: o)


def test_a_binary_model_with_one_logit_is_judged_with_its_own_loss() -> None:
    y = (X[:, 0] > 0).float()
    audit = wb.audit(
        Net(classes=1), [(X, y)], "layers.*",
        loss=lambda out, t: F.binary_cross_entropy_with_logits(out[:, 0], t, reduction="none"),
        metric=lambda out, t: (out[:, 0] > 0) == t.bool(),
    )  # fmt: skip
    with torch.no_grad():
        right = (Net(classes=1)(X)[:, 0] > 0) == y.bool()
    assert audit.evidence.seeds[0].final.accuracy == right.double().mean().item()
