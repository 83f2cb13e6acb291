"""Property: config, environment, result and probes that are read quickly are what the full reader reads.

The full reader (pydantic over json) is the oracle, as in test_quick.py.
"""

import json
import pickle
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mutate import as_bytes
from test_quick import RECORDED, SOME, nudged, with_readings
from walkback.errors import WalkbackError
from walkback.records import RunConfig, evidence_of_runs, find_runs
from walkback.records.outline import head_of, read_alike, read_outline
from walkback.records.quick_files import quick_config, quick_environment, quick_probes, quick_result
from walkback.records.run import read_files, run_of
from walkback.records.schema import Record
from walkback.records.thin import thinned
from walkback.train import plan

ROOT = Path(__file__).parent.parent
SMALL: dict[str, Callable[[bytes], Record | None]] = {
    "config.json": quick_config, "environment.json": quick_environment, "result.json": quick_result,
    "probes.json": quick_probes,
}  # fmt: skip
MUTATIONS = 400


def every(record: object) -> object:
    """All of a record: values, the order of its fields, and which of them were given."""
    if isinstance(record, Record):
        values = [(name, every(value)) for name, value in record.__dict__.items()]
        return type(record), values, sorted(record.model_fields_set)
    if isinstance(record, dict):
        return [(name, every(value)) for name, value in record.items()]
    if isinstance(record, list | tuple):
        return [every(value) for value in record]
    return type(record), repr(record)


def told(path: Path, files: dict[str, bytes], quick: bool) -> object:
    """All that a reader makes of the small files of a folder, or the words of its refusal."""
    try:
        run = run_of(path, files, quick=quick)
    except WalkbackError as error:
        return type(error), error.what, error.remedy
    return [every(record) for record in (run.config, run.environment, run.result, run.probes)]


def agree(path: Path, files: dict[str, bytes], name: str) -> str:
    full = told(path, files, quick=False)
    assert told(path, files, quick=True) == full
    if isinstance(full, tuple):
        return "refused"
    return "quick" if SMALL[name](files[name]) is not None else "doubted"


@SOME
def test_the_small_files_of_recorded_runs_are_read_alike_and_quickly(every: int) -> None:
    outcomes, runs = Counter(), RECORDED[::every]
    for path in runs:
        files = dict(read_files(path))
        outcomes.update((name, agree(path, files, name)) for name in SMALL if name in files)
    assert outcomes["config.json", "quick"] == len(runs)
    for name in SMALL:
        assert outcomes[name, "refused"] == 0
        assert outcomes[name, "quick"] > 0.9 * len(runs)


def another_entry(content: bytes, chance: random.Random) -> bytes:
    """One entry renamed, left out, or there twice."""
    raw = json.loads(content)
    inside = [v for value in raw.values() for v in (value if isinstance(value, list) else [value])]
    holder = chance.choice([raw, *(v for v in inside if isinstance(v, dict) and v)])
    key = chance.choice([*holder])
    text = content.decode()
    how = chance.randrange(4)
    if how == 0:
        del holder[key]
    elif how == 1:
        holder[f"{key}_"] = holder.pop(key)
    elif how == 2:
        return text.replace(f'"{key}":', f'"{key}": 1, "{key}":', 1).encode()
    else:
        holder[key] = chance.choice([None, "", "a: b", "é", 0, -1, 1.5, True, [], {}, [1], "NaN", "2", 10**18, 10**19])
    return json.dumps(raw, ensure_ascii=bool(chance.randrange(2))).encode()


def with_output(content: bytes) -> bytes:
    """Old probes with what later ones have: a block rested, and one has no gradient."""
    raw = json.loads(content)
    null, value = raw["null_gamma"], {"value": 0.5, "status": "ok"}
    depth, images = len(raw["null"]), raw["images"]
    cosine = {"value": 0.25, "alive": images - 1, "total": images, "status": "ok"}
    none = {"value": "NaN", "alive": 0, "total": images, "status": "no credit"}
    raw["output"] = {
        "null": [null] * depth, "null_gamma": null, "reference": raw["precision"][-1],
        "frobenius": [value] * (depth - 1) + [{"value": "NaN", "status": "zero gradient"}],
        "cosine": [cosine] * (depth - 1) + [none],
    }  # fmt: skip
    return json.dumps(raw).encode()


@pytest.mark.parametrize("cosine", [True, False])
def test_later_fields_are_read_alike_and_quickly(cosine: bool) -> None:
    path = next(p for p in RECORDED if "probes.json" in read_files(p))
    files = dict(read_files(path))
    probes = json.loads(with_output(files["probes.json"]))
    probes["output"]["cosine"] = probes["output"]["cosine"] if cosine else None
    assert agree(path, files | {"probes.json": json.dumps(probes).encode()}, "probes.json") == "quick"
    result = json.loads(files["result.json"]) | {"predictions": "0f" * 32}
    assert agree(path, files | {"result.json": json.dumps(result).encode()}, "result.json") == "quick"
    environment = json.loads(files["environment.json"])
    for seconds in (1.5, None):
        environment["sittings"][-1]["cpu_seconds"] = seconds
        assert (
            agree(path, files | {"environment.json": json.dumps(environment).encode()}, "environment.json") == "quick"
        )


@pytest.mark.parametrize("name", SMALL)
def test_seeded_mutations_of_a_small_file_are_read_alike(name) -> None:
    outcomes: Counter[str] = Counter()
    sources = find_runs(ROOT / "tests/recorded") + ([with_readings()] if name == "probes.json" else [])
    for number in range(MUTATIONS):
        chance = random.Random(f"{name} {number}")
        path = chance.choice(sources)
        files = dict(read_files(path))
        if name == "probes.json" and number % 2:
            files[name] = with_output(files[name])
        if name in ("config.json", "environment.json"):  # most of what is said of them needs no more
            files["snapshots.jsonl"] = files["snapshots.jsonl"].splitlines(keepends=True)[0]
            del files["result.json"], files["probes.json"]
        files[name] = json.dumps(json.loads(files[name]), separators=(",", ":")).encode()
        numbers = another_entry if name == "environment.json" else nudged  # its texts have numbers of their own
        changed = (numbers, another_entry, as_bytes)[number % 3](files[name], chance)
        if name == "config.json":  # or its folder would never have the right name
            folder = _named(path, changed)
            outcomes[agree(folder, files | {name: changed}, name)] += 1
        else:
            outcomes[agree(path, files | {name: changed}, name)] += 1
    print(outcomes)
    assert outcomes["quick"] > 10
    assert outcomes["refused"] > 100


def _named(path: Path, content: bytes) -> Path:
    try:
        return path.with_name(f"x-{RunConfig.model_validate_json(content).hash()}")
    except ValueError:
        return path


def test_the_hash_of_a_config_is_of_what_pydantic_writes() -> None:
    import hashlib

    configs = [RunConfig.model_validate_json((path / "config.json").read_bytes()) for path in RECORDED]
    odd = plan(data="mnist1d", rules=["dfa"])[0]
    odds = [{}, {"a": [1, 2.5]}, {"a": {"b": None}}, {"a": "é"}, {"a": float("inf")}, {"a": 10**18}, {"a": -0.0}]
    configs += [odd.model_copy(update={"rule_options": options}) for options in odds]
    for config in configs:
        later = {"stop_when_fired", "schedule", "labels", "validation", "net_source", "data_source"}
        left = {name for name in later if getattr(config, name) == RunConfig.model_fields[name].default}
        left |= {"blocks", "residual"} if config.net in ("resmlp", "vit-mini") else set()
        words = json.dumps(config.model_dump(mode="json", by_alias=True, exclude=left), sort_keys=True)
        assert config.hash() == hashlib.sha256(words.encode()).hexdigest()[:10]


def test_evidence_that_is_not_asked_again_is_what_pydantic_would_have_made() -> None:
    from walkback.audits.subjects import grouped

    checked = 0
    for group in grouped([run_of(path, read_files(path)) for path in RECORDED]):
        given = {"shallow": group.shallow} if group.shallow else {}
        quick = evidence_of_runs(group.title, group.runs, group.others, baselines=given)
        full = evidence_of_runs(
            group.title, [run_of(run.path, read_files(run.path), quick=False) for run in group.runs], group.others,
            baselines=given,
        )  # fmt: skip
        assert every(quick) == every(full)
        assert [len(seed.moments) for seed in thinned(quick).seeds] == [len(seed.moments) for seed in full.seeds]
        checked += 1
    assert checked > 20


def test_an_outline_is_sent_whole() -> None:
    for path in RECORDED[::7]:
        outline = read_outline(path)
        sent = pickle.loads(pickle.dumps(outline))  # noqa: S301 - our own
        assert sent == outline
        for name in ("config", "environment", "result"):
            assert every(getattr(sent, name)) == every(getattr(outline, name))


def test_an_outline_without_a_digest_notices_what_it_has(tmp_path) -> None:
    import shutil

    folder = Path(shutil.copytree(RECORDED[0], tmp_path / RECORDED[0].name))
    outline = read_outline(folder, whole=False)
    assert outline.digest == b""
    found = read_alike(outline)
    assert found.alike
    assert found.digest == read_outline(folder).digest
    (folder / "snapshots.jsonl").write_bytes((folder / "snapshots.jsonl").read_bytes().replace(b"{", b"{ ", 1))
    assert read_alike(outline).digest != found.digest  # which is of what was read
    (folder / "result.json").write_bytes((folder / "result.json").read_bytes() + b"\n")
    assert not read_alike(outline).alike
    assert head_of(read_files(folder)) != outline.head


@pytest.mark.parametrize("name", ["result.json", "environment.json"])
@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (r'"schema":\s*"[^"]*",', ""),
        (r'"schema":\s*"[^"]*",(.*("(?:says|cpu)":\s*"[^"]*"))', r"\1,\2"),  # one key less, and another twice
        (r'("(?:loss|seconds)":\s*)[^,]*', r"\g<1>12345678901234567890"),
        (r'("(?:steps|threads)":\s*)[^,]*', r"\g<1>12345678901234567890"),
        (r'("(?:loss|seconds)":\s*)[^,]*', r"\1NaN"),
        (r'("(?:says|cpu)":\s*)"[^"]*"', r'\1"a: b"'),
    ],
)
def test_what_pydantic_takes_from_a_text_and_the_full_reader_does_not(name: str, was: str, becomes: str) -> None:
    files = dict(read_files(RECORDED[0]))
    changed = re.sub(was, becomes, files[name].decode(), count=1, flags=re.S)
    assert changed != files[name].decode()
    agree(RECORDED[0], files | {name: changed.encode()}, name)
