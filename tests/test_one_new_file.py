"""A rule, a net, a data set, a probe, an executor and a study are one new file each: planted, they are listed and used.

(`test_checks_one_file.py` does the same for a check.) No other file of walkback, or of the paper beside it, is touched.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import walkback
import walkback_paper

PLANTED = {
    "data/sets/signs.py": '''
"""Vectors whose class is the sign of their sum."""

from walkback.data.base import DATASETS, Split
from walkback.data.cache import Embedded


def make():
    import torch

    inputs = torch.randn(500, 8, generator=torch.Generator().manual_seed(1))
    labels = (inputs.sum(1) > 0).long()
    return Split(inputs[:300], labels[:300]), Split(inputs[300:], labels[300:])


DATASETS.add("signs", Embedded(name="signs", summary="signs of sums; planted", make=make, libraries=("torch",)))
''',
    "nets/stack.py": '''
"""A stack of linear maps."""

from torch import nn

from walkback.nets.base import NETS, Net


class Stack(Net):
    """A stack of linear maps, planted."""

    residual = False

    def __init__(self, shape, classes, *, width: int = 6, depth: int = 2):
        super().__init__(shape, classes)
        self.embed = nn.Linear(shape[0], width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.readout = nn.Linear(width, classes)


NETS.add("stack", Stack)
''',
    "rules/halfway.py": '''
"""Half of the gradient at the top, for everybody."""

from walkback.rules.base import RULES, Credits, Rule


class Halfway(Rule):
    """Half of the gradient at the top, for everybody; planted.

    credit      a_l = half of ∂ℓ/∂h_L
    embedding   the same
    """

    def credits(self, signal):
        return Credits([signal.top / 2] * signal.net.depth, embed=signal.top / 2)


RULES.add("halfway", Halfway)
''',
    "probes/largest.py": '''
"""largest: the largest entry of each hidden state."""

from walkback.probes.base import PROBES, Probe
from walkback.records import Reading


class Largest(Probe):
    """The largest entry of each hidden state; planted."""

    name = "largest entry"
    symbol = "max h_l"
    over = "layers"

    def of_rows(self, hidden, gradients, credits):
        return [Reading(float(h.max()), "ok") for h in hidden]


PROBES.add(Largest.name, Largest())
''',
    "train/executors/last_first.py": '''
"""The last run first."""

from walkback.train.executors.base import EXECUTORS, Executor
from walkback.train.task import train_one


class LastFirst(Executor):
    """The last run first; planted."""

    def run(self, configs, settings, note, interrupted):
        for index in reversed(range(len(configs))):
            train_one(index, configs[index], settings, note, interrupted)


EXECUTORS.add("last-first", LastFirst)
''',
    "../walkback_paper/mini.py": '''
"""mini: a study of one arm."""

from walkback.report import Table
from walkback_paper.base import Study, register
from walkback_paper.quantities import ACCURACY


def arms(extent):
    return [extent.arm("halfway", "halfway", net="stack", data="signs", seeds=1)]


def tables(g):
    return [Table("mini", "Planted", ["rule", "accuracy"], [["halfway", g.last("halfway", ACCURACY)]])]


register(Study("mini", "Is a study one new file?", arms, tables))
''',
}
COMMANDS = """
from walkback.cli import app
recipe = ["--data", "signs", "--net", "stack", "--rules", "halfway"]
for words in (
    ["list"], ["study", "list"], ["audit", *recipe, "--epochs", "2", "--seeds", "2", "--jobs", "1", "--rates", "one"],
    *(["table", "runs", "--format", form] for form in ("text", "markdown", "latex", "csv")), ["form", "runs"],
    ["study", "run", "mini", "--quick", "--executor", "last-first", "--epochs", "1"],
):
    print("#####", *words[:2], *words[-1:])
    app(words, result_action="return_value")
import torch, walkback as wb
model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))
batch = torch.randn(40, 4), torch.arange(40) % 4
with wb.watch(model, ["0", "1"], probe=batch, show=False) as watch:
    watch.step()
moments = [wb.audit(model, [batch], ["0", "1"]).cases[0].evidence.seeds[0].final, watch.looks[-1].moment]
print("##### your model", *([f"{each.value:.3f}" for each in moment.measured["largest entry"]] for moment in moments))
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder, and what each command printed."""
    place = tmp_path_factory.mktemp("one_new_file")
    for package in (walkback, walkback_paper):
        folder = Path(package.__file__).parent
        shutil.copytree(folder, place / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in PLANTED.items():
        assert not (place / "walkback" / name).exists()
        (place / "walkback" / name).write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(place), "COLUMNS": "180", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], cwd=place, capture_output=True, env=environment, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    parts = [part.partition("\n") for part in done.stdout.split("##### ")[1:]]
    return place, {command: text for command, _, text in parts}


def test_planted_names_are_listed(planted):
    said = planted[1]["list list"]
    for words in ("halfway", "for everybody; planted", "stack", "linear maps, planted", "signs of sums; planted"):
        assert words in said
    assert "largest entry" in said
    assert "Is a study one new file?" in planted[1]["study list list"]


def test_planted_rule_net_data_and_probe_are_audited_and_told_in_every_form(planted):
    place, said = planted
    audit = (place / "runs" / "audit.json").read_text(encoding="utf-8")
    assert '"name": "halfway"' in audit
    assert '"largest entry"' in audit
    assert "halfway" in said["audit --data one"]
    tables = {form: said[f"table runs {form}"] for form in ("text", "markdown", "latex", "csv")}
    for form, text in tables.items():
        assert "halfway" in text, form
        assert "largest entry" in text, form
    form = said["form runs runs"]
    for words in ("halfway", "half of ∂ℓ/∂h_L".replace("_", "\\_"), "signs", "stack", "largest entry"):
        assert words in form or words.replace("\\_", "_") in form, words
    page = (place / "runs" / "report.html").read_text(encoding="utf-8")
    for words in ("halfway", "largest entry", "signs", "stack"):
        assert words in page, words


def test_planted_probe_is_measured_of_any_model_and_in_any_loop(planted):
    (said,) = [words for words in planted[1] if words.startswith("your model")]
    audited, watched = said.removeprefix("your model ").split("] [")
    assert audited.strip("[]") == watched.strip("[]")
    assert audited.count(",") == 2  # h_0, h_1, h_2


def test_planted_study_runs(planted):
    assert "Planted" in planted[1]["study run 1"]
