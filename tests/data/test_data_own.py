"""Data that users bring: every form in which arrays come gives the same data set, and each mistake is named.

Oracles: the same numbers through another form (numpy, torch, dict, pairs); closed forms; one planted mistake each.
"""

import pickle
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import walkback as wb
from commands import walkback as command
from walkback import own
from walkback.data import DATASETS, Dataset, Split, batches, fetch, find_data, is_cached, is_own, load, source_of
from walkback.data.build import as_dataset, make_dataset
from walkback.data.own_data import usual_augment
from walkback.errors import BadValue, DataError, RecordError, UnknownName

Arrays = dict[str, Any]


def vectors(classes: int = 3, train: int = 30, test: int = 12, seed: int = 0) -> Arrays:
    draw = np.random.default_rng(seed)
    return {
        "train_inputs": draw.standard_normal((train, 5)).astype(np.float32),
        "train_labels": np.arange(train) % classes,
        "test_inputs": draw.standard_normal((test, 5)).astype(np.float32),
        "test_labels": np.arange(test) % classes,
    }


def images(channels: int = 3) -> Arrays:
    draw = np.random.default_rng(1)
    made = vectors()
    for part, count in (("train", 30), ("test", 12)):
        made[f"{part}_inputs"] = draw.integers(0, 256, (count, channels, 8, 6), dtype=np.uint8)
    return made


def built(arrays: Arrays) -> Dataset:
    return as_dataset("mine", tuple(arrays.values()))


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(DATASETS, "_things", dict(DATASETS._things))


# --- one data set, many forms ----------------------------------------------------------------------------------------

FORMS: dict[str, Callable[[Arrays], Any]] = {
    "tuple": lambda a: tuple(a.values()),
    "list": lambda a: list(a.values()),
    "dict": lambda a: dict(reversed(a.items())),
    "pairs": lambda a: ((a["train_inputs"], a["train_labels"]), (a["test_inputs"], a["test_labels"])),
    "torch": lambda a: tuple(torch.from_numpy(array) for array in a.values()),
    "with a graph": lambda a: tuple(
        torch.tensor(v, requires_grad=v.dtype == np.float32) if v.dtype == np.float32 else v for v in a.values()
    ),
    "float64": lambda a: tuple(v.astype(np.float64) if v.dtype == np.float32 else v for v in a.values()),
    "other byte order": lambda a: tuple(v.astype(v.dtype.newbyteorder(">")) for v in a.values()),
    "Fortran order": lambda a: tuple(np.asfortranarray(v) for v in a.values()),
    "labels (N, 1)": lambda a: tuple(v[:, None] if v.ndim == 1 else v for v in a.values()),
    "labels int8": lambda a: tuple(v.astype(np.int8) if v.ndim == 1 else v for v in a.values()),
    "labels int32": lambda a: tuple(v.astype(np.int32) if v.ndim == 1 else v for v in a.values()),
    "labels uint64": lambda a: tuple(v.astype(np.uint64) if v.ndim == 1 else v for v in a.values()),
    "a Dataset": lambda a: built(a),
    "make_dataset": lambda a: wb.make_dataset("x", (a["train_inputs"], a["train_labels"]), list(a.values())[2:]),
}


@pytest.mark.parametrize("form", FORMS)
def test_second_implementation_every_form_is_the_same_data_set(form: str) -> None:
    arrays = vectors()
    dataset = as_dataset("mine", FORMS[form](arrays))
    for split, part in ((dataset.train, "train"), (dataset.test, "test")):
        assert split.inputs.dtype == torch.float32
        assert split.labels.dtype == torch.int64
        assert np.array_equal(split.inputs.numpy(), arrays[f"{part}_inputs"])
        assert np.array_equal(split.labels.numpy(), arrays[f"{part}_labels"])
    assert (dataset.name, dataset.classes, dataset.shape, dataset.augment) == ("mine", 3, (5,), False)
    assert (dataset.mean, dataset.std) == ((0.0,), (1.0,))
    assert dataset.fingerprint == built(vectors()).fingerprint
    arrays["train_inputs"][:] = 0  # what it came from may change
    assert np.array_equal(dataset.train.inputs.numpy(), vectors()["train_inputs"])


def test_grey_images_get_their_channel() -> None:
    arrays = images(channels=1)
    plain = {name: array[:, 0] if array.ndim == 4 else array for name, array in arrays.items()}
    assert built(plain).shape == (1, 8, 6)
    assert built(plain).fingerprint == built(arrays).fingerprint


def test_closed_form_statistics_of_images_are_per_channel_and_normalise_the_training_part() -> None:
    arrays = images()
    arrays["train_inputs"][:, 1] //= 4
    arrays["train_inputs"][:, 2] = 51  # constant: it is only shifted
    dataset = built(arrays)
    scaled = arrays["train_inputs"] / 255
    assert dataset.mean == pytest.approx(scaled.mean((0, 2, 3)), rel=1e-3)
    assert dataset.std == pytest.approx([*scaled.std((0, 2, 3))[:2], 1.0], rel=1e-3)
    fed = batches.normalized(dataset.train.inputs, dataset).transpose(0, 1).flatten(1)
    torch.testing.assert_close(fed.mean(1), torch.zeros(3), rtol=0, atol=1e-3)
    torch.testing.assert_close(fed.std(1, correction=0), torch.tensor([1.0, 1.0, 0.0]), rtol=0, atol=1e-3)


@pytest.mark.parametrize("shape", [(5,), (2, 7), (3, 4, 4)])
def test_closed_form_given_statistics_of_floats_act_per_channel(shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(2)
    mean, std = draw.standard_normal(shape[0]), draw.uniform(0.5, 2, shape[0])
    per_channel = (shape[0], *[1] * (len(shape) - 1))
    inputs = draw.standard_normal((40, *shape)) * std.reshape(per_channel) + mean.reshape(per_channel)
    labels = np.arange(40) % 2
    dataset = make_dataset("mine", (inputs[:30], labels[:30]), (inputs[30:], labels[30:]), mean=mean, std=std)
    fed = batches.eval_batches(dataset.test, dataset, 100)[0][0]
    expected = (inputs[30:] - mean.reshape(per_channel)) / std.reshape(per_channel)
    np.testing.assert_allclose(fed.numpy(), expected, rtol=1e-4, atol=1e-5)


# --- each mistake, named ---------------------------------------------------------------------------------------------


def everywhere(word: str, change: Callable[[Any], Any]) -> Arrays:
    return {name: change(array) if word in name else array for name, array in vectors().items()}


def ordered(*keys: str) -> tuple[Any, ...]:
    arrays = vectors()
    return tuple(arrays[key] for key in keys)


def changed(key: str, change: Callable[[Any], Any], of: Callable[[], Arrays] = vectors) -> Arrays:
    arrays = of()
    arrays[key] = change(arrays[key])
    return arrays


def with_value(value: float) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array = array.astype(np.float64)
        array[3, 1] = value
        return array

    return change


MISTAKES: dict[str, tuple[Callable[[], Any], str, str]] = {  # what is returned, the message, the remedy
    "nothing": (lambda: None, "returned None", "return (train_inputs"),
    "an array": (lambda: np.zeros(3), "returned of type ndarray", "return (train_inputs"),
    "three": (lambda: tuple(vectors().values())[:3], "returned tuple of 3", "return (train_inputs"),
    "two arrays": (lambda: tuple(vectors().values())[:2], "training part is of type ndarray", "a pair"),
    "other keys": (lambda: {"x": 1}, r"dict with \['x'\]", "train_inputs, train_labels"),
    "a list": (lambda: changed("train_inputs", np.ndarray.tolist), "training inputs are of type list", "asarray"),
    "masked": (lambda: changed("test_inputs", np.ma.masked_array), "a masked array", "fill or drop"),
    "int64 images": (lambda: changed("train_inputs", lambda a: a.astype(np.int64), images), "int64 of", "to uint8"),
    "complex": (lambda: changed("test_inputs", lambda a: a + 1j), "complex", "float32"),
    "one number each": (lambda: changed("train_inputs", lambda a: a[:, 0]), r"shape \(30,\)", "one row per sample"),
    "no features": (lambda: changed("train_inputs", lambda a: a[:, :0]), r"shape \(30, 0\)", "one row per sample"),
    "uint8 vectors": (lambda: changed("train_inputs", lambda a: a.astype(np.uint8)), "means images", "reshape"),
    "channel last": (
        lambda: changed("train_inputs", lambda a: a.transpose(0, 2, 3, 1), images), "channel seems to come last",
        "transpose",
    ),
    "NaN": (lambda: changed("train_inputs", with_value(np.nan)), "1 of 30 training inputs hold NaN", "drop"),
    "infinite": (lambda: changed("test_inputs", with_value(np.inf)), "1 of 12 test inputs", "drop"),
    "beyond float32": (lambda: changed("test_inputs", with_value(1e300)), "1 of 12 test inputs", "drop"),
    "other shape": (lambda: changed("test_inputs", lambda a: a[:, :4]), r"\(30, 5\).*\(12, 4\)", "same type and shape"),
    "other type": (
        lambda: changed("test_inputs", lambda a: np.float32(a), images), "uint8 of.*float32 of", "same type and shape",
    ),
    "other count": (lambda: changed("train_labels", lambda a: a[:-1]), "30 training inputs and 29", "row by row"),
    "empty test": (lambda: everywhere("test", lambda a: a[:0]), "test part is empty", "at least"),
    "empty training": (lambda: everywhere("train", lambda a: a[:0]), "training part is empty", "at least"),
    "float labels": (lambda: changed("train_labels", np.float64), "labels are float64", "astype"),
    "words": (lambda: changed("train_labels", np.array(["cat", "dog", "cow"]).take), "labels are <U3", "unique"),
    "one-hot": (lambda: changed("test_labels", lambda a: np.eye(3, dtype=int)[a]), r"\(12, 3\)", "argmax"),
    "two columns": (lambda: changed("test_labels", lambda a: np.stack([a, a], 1)), r"\(12, 2\)", "(N,) or (N, 1)"),
    "sklearn's order": (
        lambda: ordered("train_inputs", "test_inputs", "train_labels", "test_labels"),
        "labels are float32", "the order is train inputs, train labels",
    ),
    "negative": (lambda: changed("train_labels", lambda a: a - 1), "as low as -1", "0 … C−1"),
    "from one on": (lambda: everywhere("labels", lambda a: a + 1), "labels are 1, 2, 3; class 0", "unique"),
    "a gap": (lambda: changed("train_labels", lambda a: a * 2), "labels are 0, 2, 4; class 1", "unique"),
    "one huge label": (lambda: changed("train_labels", lambda a: a * 10**12), "class 1 has no sample", "unique"),
    "one class": (lambda: vectors(classes=1), "all training labels are 0", "two classes"),
    "unknown in test": (lambda: changed("test_labels", lambda a: a + 1), "test labels 3 are not among", "every class"),
    "test is train": (lambda: ordered("train_inputs", "train_labels") * 2, "30 of 30 test inputs", "of their own"),
    "test mostly train": (
        lambda: changed("test_inputs", lambda a: np.concatenate([vectors()["train_inputs"][:7], a[7:]])),
        "7 of 12 test inputs", "of their own",
    ),
    "wrong count of classes": (lambda: replace(built(vectors()), classes=7), "says 7 classes", "make_dataset"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistake_is_named_with_its_remedy(mistake: str) -> None:
    make, message, remedy = MISTAKES[mistake]
    wb.register_data("flawed", lambda: make())
    with pytest.raises(DataError, match=f"^flawed: .*{message}") as caught:
        load("flawed")
    assert caught.value.remedy is not None
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": 0.5}, "only mean is given"),
        ({"std": 0.5}, "only std is given"),
        ({"mean": [0.5, 0.5], "std": 0.2}, "mean has 2 values"),
        ({"mean": 0.5, "std": [0.2, 0.0, 0.1]}, "std is 0.2, 0, 0.1"),
        ({"mean": float("nan"), "std": 0.2}, "mean is nan"),
        ({"mean": [125.3, 123.0, 113.9], "std": [63.0, 62.1, 66.7]}, "not those of pixels"),
    ],
)
def test_planted_mistake_in_the_statistics_is_named(options: dict[str, Any], message: str) -> None:
    a = images()
    with pytest.raises(DataError, match=message):
        make_dataset("mine", list(a.values())[:2], list(a.values())[2:], **options)


def test_augmentation_is_for_images_of_bytes_and_half_of_the_test_part_may_be_known() -> None:
    a = images()
    assert make_dataset("mine", list(a.values())[:2], list(a.values())[2:], augment=True).augment
    for of in (vectors, lambda: {k: np.float32(v) if v.ndim == 4 else v for k, v in images().items()}):
        a = of()
        with pytest.raises(DataError, match=r"augment=True .* float32 of shape"):
            make_dataset("mine", list(a.values())[:2], list(a.values())[2:], augment=True)
    known = changed("test_inputs", lambda a: np.concatenate([vectors()["train_inputs"][:6], a[6:]]))
    assert len(built(known).test.labels) == 12


# --- files -----------------------------------------------------------------------------------------------------------

FILE = """
    import numpy as np

    def helper(rows):
        return np.random.default_rng(rows).standard_normal((rows, 6)).astype("float32")

    def load():
        \"\"\"Two classes by the sign of one number.\"\"\"
        train, test = helper(200), helper(100)
        return train, train[:, 0] > 0, test, test[:, 0] > 0
"""


def written(folder: Path, text: str, name: str = "my_data.py") -> str:
    (folder / name).write_text(textwrap.dedent(text))
    return str(folder / name)


def test_a_function_in_a_file_is_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = written(tmp_path, FILE)
    dataset = load(f"{place}:load")
    assert (dataset.name, dataset.classes, dataset.shape) == (f"{place}:load", 2, (6,))
    assert load(place).fingerprint == dataset.fingerprint  # the only function there that can be called
    assert find_data(f"{place}:load").summary == "Two classes by the sign of one number."
    assert is_own(place)
    assert is_cached(place)
    assert usual_augment(place) is False
    assert fetch(place) is None
    said = capsys.readouterr().err
    assert "nothing to fetch" in said
    assert "200 + 100 inputs of shape (6,), 2 classes" in said
    before = source_of(place)
    assert before is not None
    seeding = FILE.replace("(rows, 6)", "(rows, 7)").replace("train, test =", "np.random.seed(0); train, test =")
    written(tmp_path, seeding)
    assert source_of(place) not in (None, before)  # a helper was edited, not only the function itself
    np.random.seed(5)
    expected = np.random.rand()
    np.random.seed(5)
    assert load(place).shape == (7,)
    assert np.random.rand() == expected  # a function that seeds disturbs nobody
    assert all(source_of(ours) is None for ours in ("mnist1d", "cifar10"))


@pytest.mark.parametrize(
    ("text", "ending", "kind", "message"),
    [
        (FILE, ":laod", UnknownName, "has no data set 'laod'"),
        (FILE, ":helper", BadValue, "helper needs rows"),
        ("x = 1", "", UnknownName, "has no data set"),
        ("import nothing_of_that_name", ":load", BadValue, "could not be imported"),
        ("def load():\n    return open('absent.npy')", ":load", DataError, r"FileNotFoundError.*\(my_data.py:2\)"),
        ("def load():\n    return 1", ":load", DataError, "my_data.py:load: returned of type int"),
        (
            "import walkback as wb, numpy as np\n"
            "def load():\n    return wb.make_dataset('x', (np.zeros(3), np.zeros(3)), (0, 0))",
            ":load", DataError, r"my_data.py:load: x: training inputs are float64 of shape \(3,\)",
        ),
    ],
)  # fmt: skip
def test_planted_mistake_in_a_file_names_the_file(
    text: str, ending: str, kind: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        load(written(tmp_path, text) + ending)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    for call in (load, fetch, is_cached, usual_augment, source_of):
        with pytest.raises(UnknownName, match="does not exist"):
            call(f"{tmp_path}/absent.py:load")


# --- registered ------------------------------------------------------------------------------------------------------


def load_images() -> Dataset:
    """Random images, cropped and flipped."""
    a = images()
    return wb.make_dataset("any", list(a.values())[:2], list(a.values())[2:], augment=True)


def test_a_registered_function_is_known_by_its_name_everywhere() -> None:
    from rich.console import Console

    from walkback.report.catalogue import catalogue

    assert wb.register_data("mine", load_images) is load_images
    wb.register_data("mine", load_images)  # a notebook's cell run twice
    assert load("mine").name == "mine"
    assert usual_augment("mine") is True
    assert is_own("mine")
    assert source_of("mine") == own.source_hash("mine", load_images) is not None
    console = Console(record=True, width=120)
    console.print(catalogue("mine"))
    assert "yours" in console.export_text()
    with pytest.raises(BadValue, match="already"):
        wb.register_data("mine", vectors)
    with pytest.raises(BadValue, match="already"):
        wb.register_data("mnist1d", load_images)


def test_what_is_registered_can_be_sent_to_another_process() -> None:
    wb.register_data("mine", load_images)
    sent = own.foreign(DATASETS)
    assert list(sent) == ["mine"]
    arrived = pickle.loads(pickle.dumps(sent))["mine"]  # noqa: S301 - our own
    assert DATASETS.add("mine", arrived) == sent["mine"]  # a worker that has run the user's script knows it already
    del DATASETS._things["mine"]
    DATASETS.add("mine", arrived)
    assert load("mine").fingerprint == load_images().fingerprint
    assert list(own.foreign(DATASETS)) == ["mine"]


def test_what_is_no_function_or_no_name_is_refused() -> None:
    for thing in (load_images(), vectors(), None, Split, load_images.__call__):
        with pytest.raises(BadValue, match="not a function"):
            wb.register_data("mine", thing)
    for name in ("", " ", "my.py:load", 3):
        with pytest.raises(BadValue, match="cannot be the name"):
            wb.register_data(name, load_images)


# --- trained on ------------------------------------------------------------------------------------------------------


def small(**changes: Any) -> Any:
    options = {"rules": ["bp"], "epochs": 1, "net_options": {"width": 16, "depth": 2}, "probe_images": 8}
    return wb.plan(**(options | changes))


def test_a_plan_takes_its_augmentation_refuses_bad_data_and_trains(tmp_path: Path) -> None:
    wb.register_data("mine", load_images)
    assert small(data="mine")[0].augment
    assert not small(data="mine", augment=False)[0].augment
    wb.register_data("flat", vectors)
    assert not small(data="flat")[0].augment
    with pytest.raises(BadValue, match="crops and flips"):
        small(data="flat", augment=True)
    wb.register_data("flawed", lambda: None)
    with pytest.raises(DataError, match="flawed: returned None"):
        small(data="flawed")
    (run,) = wb.train_all(small(data="mine"), tmp_path, jobs=1)
    assert run.environment.data_fingerprint == load_images().fingerprint


def test_other_data_of_the_same_code_are_refused_at_resume_and_not_taken_for_the_finished_run(tmp_path: Path) -> None:
    from walkback.train import Stopped, train

    stops = iter([False, True])  # 30 samples are one step per epoch, so this stop falls between two epochs
    seed = 0
    wb.register_data("shifting", lambda: vectors(seed=seed))
    (config,) = small(data="shifting", epochs=3)
    with pytest.raises(Stopped):
        train(config, tmp_path, should_stop=lambda: next(stops))
    seed = 1
    with pytest.raises(RecordError, match=r"than shifting returns .* draws at random without a seed"):
        train(config, tmp_path)
    seed = 0
    assert train(config, tmp_path).result is not None
    seed = 2
    with pytest.raises(RecordError, match="than shifting returns"):
        train(config, tmp_path)


def test_property_stopped_after_every_epoch_of_one_step_the_bits_are_the_same(tmp_path: Path) -> None:
    """A set smaller than a batch has one step per epoch, so every stop falls where a snapshot is due."""
    from walkback.train import Stopped, train

    wb.register_data("mine", vectors)
    (config,) = small(data="mine", epochs=4)
    whole = train(config, tmp_path / "whole")
    for _ in range(3):
        with pytest.raises(Stopped):
            train(config, tmp_path / "parts", should_stop=lambda: True)
    parts = train(config, tmp_path / "parts")
    for name in ("snapshots.jsonl", "checkpoint.safetensors", "probes.json", "result.json"):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes(), name


def test_a_file_of_the_users_is_trained_on_by_the_command_line(tmp_path: Path) -> None:
    written(tmp_path, FILE, "my.py")
    words = ["train", "--data", "my.py:load", "--epochs", "1", "--width", "16", "--rules", "bp", "--jobs", "1"]
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").glob("[!.]*")
    assert folder.name.startswith("my.py_load-resmlp-")
