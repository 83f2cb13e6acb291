"""Other people's code, used untouched. Slow: BioTorch is no dependency, and `make test-slow` brings it.

Oracles: finite differences taken here by hand, and the same training without the watch.
"""

import copy
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import walkback as wb
from walkback.records import read_log

sys.path.append(str(Path(__file__).parents[2] / "bench"))

RULES = ["fa", "usf", "frsf", "brsf", "dfa"]
BLOCKS = [f"module.{n}" for n in range(3)]
WIDTH = 24


def digits():
    data = wb.load_data("digits")
    return [((s.inputs.float().flatten(1) - 5) / 6, s.labels) for s in (data.train, data.test)]


def converted(rule, convolutions=False):
    converter = pytest.importorskip("biotorch.module.biomodule")
    torch.manual_seed(0)
    if convolutions:
        parts = [nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh()), nn.Sequential(nn.Conv2d(4, 4, 3), nn.Tanh()),
                 nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.Tanh())]  # fmt: skip
    else:
        parts = [nn.Sequential(nn.Linear(a, WIDTH), nn.Tanh()) for a in (64, WIDTH, WIDTH)]
    net = nn.Sequential(*parts, nn.Linear(WIDTH, 10))
    return converter.BioModule(net, mode=rule, output_dim=10 if rule == "dfa" else None)


def batch(rule, x, y):
    return ({"x": x, "targets": y, "loss_function": F.cross_entropy}, y) if rule == "dfa" else (x, y)


def trained(rule, model, watching, shape=(64,), steps=24, log=None):
    (train_x, train_y), (test_x, test_y) = digits()
    train_x, test_x = train_x.view(-1, *shape), test_x.view(-1, *shape)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    watch = None
    if watching:
        watch = wb.watch(model, BLOCKS, probe=batch(rule, test_x[:64], test_y[:64]), every=8, show=False,
                         residual=False, log=log)  # fmt: skip
    torch.manual_seed(1)  # brsf draws feedback in every forward pass
    model.train()
    for step in range(steps):
        rows = torch.arange(step * 32, step * 32 + 32) % 1400
        x, y = train_x[rows], train_y[rows]
        output = model(x, y, F.cross_entropy) if rule == "dfa" else model(x)
        optimizer.zero_grad()
        F.cross_entropy(output, y).backward()
        if watch is not None:
            watch.step()
        optimizer.step()
    if watch is not None:
        watch.close()
    return watch, [*(p.detach().clone() for p in model.parameters()), torch.rand(2)], (test_x, test_y)


def by_hand(model, place, x, y):
    """∂(each sample's loss)/∂(output of a block), by central differences in float64, one dimension at a time."""
    twin = model.double().eval()
    part, moved, rows = dict(twin.named_modules())[BLOCKS[place]], {}, []
    handle = part.register_forward_hook(lambda block, given, output: output + moved["by"])
    with torch.no_grad():
        for unit in torch.eye(WIDTH, dtype=torch.float64):
            sides = []
            for sign in (1, -1):
                moved["by"] = sign * 1e-6 * unit
                sides.append(F.cross_entropy(twin(x.double()), y, reduction="none"))
            rows.append((sides[0] - sides[1]) / 2e-6)
    handle.remove()
    return torch.stack(rows, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", RULES)
def test_finite_differences_biotorch_is_measured_truly(rule, tmp_path):
    """Bits with and without; the cosines of its credit with a gradient that is taken here, at every block."""
    watch, end, (x, y) = trained(rule, converted(rule), True, log=tmp_path / "run.jsonl")
    model = converted(rule)
    _, alone, _ = trained(rule, model, False)
    assert all(torch.equal(a, b) for a, b in zip(end, alone, strict=True))
    expected = "direct feedback" if rule == "dfa" else "crosses"
    assert all(look.crosses == [expected] * 2 for look in watch.looks[:-1])
    assert all(reading.status == "ok" for reading in watch.looks[0].moment.measured["update on the probe"])
    assert read_log(tmp_path / "run.jsonl")[0].seeds[0].ended == "finished"

    x, y = x[:64], y[:64]
    torch.manual_seed(9)
    audit = wb.audit(model, [batch(rule, x, y)], BLOCKS, residual=False, credits="backward", describe=False)
    found = audit.evidence.seeds[0].final
    assert found.precision.differences
    states, spied = {}, copy.deepcopy(model)
    for name in BLOCKS:
        part = dict(spied.named_modules())[name]
        part.register_forward_hook(lambda m, given, out, name=name: states.setdefault(name, out))
    torch.manual_seed(9)
    output = spied.train()(x, y, F.cross_entropy) if rule == "dfa" else spied.train()(x)
    credits = torch.autograd.grad(F.cross_entropy(output, y), [states[name] for name in BLOCKS])
    for place, credit in enumerate(credits):
        truth = by_hand(model, place, x, y)
        cosine = float(F.cosine_similarity(credit.double(), truth).mean())
        assert credit.abs().max() > 0
        assert found.gradient_norms[place + 1] == pytest.approx(float(truth.norm(dim=1).quantile(0.5)) / 128, rel=1e-3)
        # brsf's feedback is another one in every forward pass
        assert found.cosine_out[place].value == pytest.approx(cosine, abs=0.1 if rule == "brsf" else 1e-3)
    assert abs(found.gamma) < 0.99


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", RULES)
def test_second_run_convolutions_of_biotorch(rule):
    watch, end, _ = trained(rule, converted(rule, True), True, (1, 8, 8), 9)
    _, alone, _ = trained(rule, converted(rule, True), False, (1, 8, 8), 9)
    assert all(torch.equal(a, b) for a, b in zip(end, alone, strict=True))
    assert watch.looks[0].moment.gradient_norms[-1] > 0
    assert watch.looks[0].moment.cosine_out[-1].status == "ok"
    assert any("does not deliver the derivative" in note for note in watch.looks[0].notes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["with_biotorch", "with_lightning", "with_transformers"])
def test_the_examples_reach_a_verdict(name, tmp_path):
    import others

    if name == "with_biotorch":
        pytest.importorskip("biotorch")
    minutes, verdict = others.run(name, others.files()[name], tmp_path)
    print(name, others.added(others.files()[name]), "lines,", round(minutes, 1), "minutes.", verdict)
    assert verdict
    (log,) = tmp_path.glob("*.jsonl")
    (subject,) = wb.judge_paths(log).subjects
    assert subject.findings
    assert (wb.judge_paths(*(tmp_path / "runs").iterdir())).subjects
