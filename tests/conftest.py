"""What the tests share: one thread, small runs, and a data cache of the session's own."""

from pathlib import Path

import pytest
import torch

from walkback.data import Dataset, Split

torch.set_num_threads(1)

if not hasattr(pytest.Item, "_nodeid"):  # mutmut 3.8 reads it; pytest 9.2 has it no more
    pytest.Item._nodeid = property(lambda item: item.nodeid)


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory):
    """Embedded data are generated once for the session, and no test sees or leaves anything in the user's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("WALKBACK_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def small_plan(**changes):
    """Configs of runs that take a second or two."""
    from walkback.train import plan

    options = {"width": 16, "depth": 3} | changes.pop("net_options", {})
    return plan(**{"rules": ["dfa"], "epochs": 3, "probe_images": 200, "net_options": options} | changes)


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
