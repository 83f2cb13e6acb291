"""One new file is one new data set: planted into a copy of the package, it is listed and trained on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import walkback
from commands import walkback as command

PLANTED = '''
"""Vectors whose class is the sign of their sum."""

from walkback.data.base import DATASETS, Split
from walkback.data.embedded import Embedded


def make():
    import torch

    inputs = torch.randn(600, 8, generator=torch.Generator().manual_seed(1))
    labels = (inputs.sum(1) > 0).long()
    return Split(inputs[:400], labels[:400]), Split(inputs[400:], labels[400:])


DATASETS.add("signs", Embedded(name="signs", summary="signs of sums; planted", make=make, libraries=("torch",)))
'''


def test_planted_file_is_a_data_set_without_any_other_edit(tmp_path: Path) -> None:
    source = Path(walkback.__file__).parent
    shutil.copytree(source, tmp_path / "src/walkback", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "src/walkback/data/sets/signs.py").write_text(PLANTED)
    # One process for both commands: torch takes seconds to import.
    code = "import walkback.cli as c; [c.app(line, result_action='return_value') for line in {}]"
    lines = ["list", "train --data signs --rules bp,dfa --jobs 1 --epochs 1 --width 16"]
    done = subprocess.run(
        [sys.executable, "-c", code.format(lines)],
        cwd=tmp_path, text=True, capture_output=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "signs of sums; planted" in done.stdout
    assert {path.name.rpartition("-")[0] for path in (tmp_path / "runs").glob("[!.]*")} == {
        "signs-resmlp-bp-s42",
        "signs-resmlp-dfa-s42",
    }


def test_a_file_of_the_users_is_trained_on_by_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(
        "import numpy as np\n"
        "def load():\n"
        "    x = np.random.default_rng(0).standard_normal((300, 4))\n"
        "    return x[:200], x[:200, 0] > 0, x[200:], x[200:, 0] > 0\n"
    )
    words = ["train", "--data", "my.py:load", "--epochs", "1", "--width", "16", "--rules", "bp,dfa", "--jobs", "2"]
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    folders = sorted(path.name for path in (tmp_path / "runs").glob("[!.]*"))
    assert len(folders) == 2
    assert all(name.startswith("my.py_load-resmlp-") for name in folders)
