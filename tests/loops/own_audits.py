"""One training, and one whole audit, of the small loops in own_loops.py: what the tests of this folder share."""

import json

import own_loops as loops
import walkback as wb
from walkback.audits.user_training import find_job
from walkback.loops.job import Wanted
from walkback.loops.trainings import in_order
from walkback.records.loop_training import find_loop_trainings, read_loop_training


def trained(folder, train=loops.train, who="subject", part="all", *, seed=42, make=loops.make_model, **more):
    """The record of one training."""
    given = {"make_model": make, "train": train, "epochs": 1} | more
    job = find_job(given.pop("test", loops.test), "blocks.*", "loop", True, seed, None, **given)
    return in_order(job, Wanted(who, part, seed), folder)


def audited(out, train=loops.train, make=loops.make_model, **more):
    """The whole of it, of two seeds and without the upper halves; a list `say` gets the lines that are said."""
    given = {"residual": True, "jobs": 1, "say": None, "train_bp": loops.train_bp, "seeds": 2, "reach": False} | more
    if isinstance(given["say"], list):
        given["say"] = given["say"].append
    return wb.audit_training(make, train, given.pop("test", loops.test), out=out, **given)


def finding(audit, check="depth", subject=0):
    return next(f for f in audit.subjects[subject].findings if f.check == check)


def records(folder):
    return [read_loop_training(path)[0] for path in find_loop_trainings(folder)]


def record(folder, pattern):
    """The record of the one training of that name."""
    return read_loop_training(next(folder.glob(f"{pattern}-*")))[0]


def edit(path, change):
    """Change a training's record on disk."""
    raw = json.loads((path / "training.json").read_text())
    change(raw)
    (path / "training.json").write_text(json.dumps(raw))
