"""The real published data sets, fetched from wherever this machine can reach, against their pinned checksums."""

import time
from pathlib import Path

import pytest
import torch

from walkback.data import fetch, is_cached, load

pytestmark = pytest.mark.network


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_fetch_and_load_the_real_thing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALKBACK_CACHE", str(tmp_path))
    monkeypatch.delenv("WALKBACK_DATA", raising=False)
    said: list[str] = []
    start = time.perf_counter()
    fetch(name, say=said.append)
    fetched = time.perf_counter()
    assert is_cached(name)
    dataset = load(name, say=said.append)
    loaded = time.perf_counter()
    print(f"\n{name}: fetched in {fetched - start:.1f} s, loaded in {loaded - fetched:.2f} s", *said, sep="\n  ")
    assert len(dataset.test.labels) == 10_000
    assert dataset.train.inputs.shape[1:] == dataset.shape
    # The customary figures are those of the train part.
    scaled = dataset.train.inputs[:].double().div_(255).transpose(0, 1).flatten(1)
    assert torch.allclose(scaled.mean(1), torch.tensor(dataset.mean).double(), atol=1e-4)
    assert torch.allclose(scaled.std(1), torch.tensor(dataset.std).double(), atol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.lock", f"{name}.safetensors"]
