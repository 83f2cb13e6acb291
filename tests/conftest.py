"""What the tests share: one thread, small runs, and a data cache of the session's own."""

import os
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock

TESTS = Path(__file__).parent
PAPER = TESTS.parent / "paper"  # here whether it is installed or not, and in every command below
sys.path += map(str, (PAPER, *sorted(path for path in TESTS.iterdir() if path.is_dir())))  # tests share builders
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(PAPER))))

from commands import walkback  # noqa: E402
from walkback.data import Dataset, Split  # noqa: E402
from walkback.rules import RULES  # noqa: E402

torch.set_num_threads(1)

if not hasattr(pytest.Item, "_nodeid"):  # mutmut 3.8 reads it; pytest 9.2 has it no more
    pytest.Item._nodeid = property(lambda item: item.nodeid)


def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all the workers of this session."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory):
    """Embedded data are generated once for the session, and no test sees or leaves anything in the user's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("WALKBACK_CACHE", str(shared(tmp_path_factory) / "cache"))
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def own_rules():
    """The rules that a test registers are gone when it ends."""
    before = dict(RULES._things)
    yield
    RULES._things = before


def small_plan(**changes):
    """Configs of runs that take a second or two."""
    from walkback.train import plan

    options = {"width": 16, "depth": 3} | changes.pop("net_options", {})
    return plan(**{"rules": ["dfa"], "epochs": 3, "probe_images": 200, "net_options": options} | changes)


def in_sittings(config, out, every=9, most=20):
    """A run that is stopped every so many steps and resumed until it ends, and how many sittings that took."""
    from walkback.train import Stopped, train

    looks = iter(range(10**9))
    for sitting in range(1, most + 1):
        try:
            return train(config, out, should_stop=lambda: next(looks) % every == every - 1), sitting
        except Stopped:
            continue
    raise AssertionError(f"not ended after {most} sittings")


def alike(a, b):
    """Whether two things are the same, to the last tensor inside."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b)


def image_data(count=300, side=8, seed=0, classes=4):
    """Random colour images: enough for what augmentation and nets must satisfy."""
    generator = torch.Generator().manual_seed(seed)

    def split(n):
        inputs = torch.randint(0, 256, (n, 3, side, side), generator=generator, dtype=torch.uint8)
        return Split(inputs, torch.randint(0, classes, (n,), generator=generator))

    return Dataset(
        "images", split(count), split(count // 2), classes, (3, side, side), (0.4, 0.5, 0.6), (0.2, 0.3, 0.4), True, "f"
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs"


STUDIED = ("hero", "ladder")  # with every change; all of them by `make test-slow`


@pytest.fixture(scope="session")
def carried_out(tmp_path_factory) -> tuple[Path, str]:
    """Some studies with --quick, one seed of one epoch; and what was said."""
    return _carried_out(tmp_path_factory, *STUDIED)


@pytest.fixture(scope="session")
def all_carried_out(tmp_path_factory) -> tuple[Path, str]:
    """Every study, dfa in the panel; minutes."""
    return _carried_out(tmp_path_factory, "all")


def _carried_out(tmp_path_factory, *names: str) -> tuple[Path, str]:
    """Once, whatever the number of workers."""
    root = shared(tmp_path_factory) / f"studies-{names[0]}"
    with FileLock(f"{root}.lock"):
        if not root.exists():
            root.mkdir()
            words = ("--quick", "--seeds", "42,", "--epochs", "1", "--rules", "dfa", "--jobs", "1")
            done = walkback("study", "run", *names, *words, cwd=root)
            assert done.returncode == 0, done.stdout + done.stderr
            (root / "said.txt").write_text(done.stdout)
            assert walkback("export", "runs", "--to", "results", cwd=root).returncode == 0
    return root, (root / "said.txt").read_text()
