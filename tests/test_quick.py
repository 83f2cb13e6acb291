"""Property: what is read quickly is what the full reader reads, and what it refuses is refused in the same words.

The full reader (pydantic over json) is the oracle. Any disagreement is a fault of quick.py.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mutate import as_bytes, as_lines
from test_invariants import CASES, folder, sound  # noqa: F401 - fixtures
from walkback.audits.subjects import grouped
from walkback.checks import judge
from walkback.errors import WalkbackError
from walkback.records import evidence_of_runs, find_runs
from walkback.records.evidence import moments_of_run
from walkback.records.quick import QuickSnapshots, quick_snapshots
from walkback.records.run import read_files, run_of

ROOT = Path(__file__).parent.parent
RECORDED = find_runs(
    *sorted({path.parent.parent for path in ROOT.glob("results/**/config.json")}), ROOT / "tests/recorded"
)
SOME = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])  # slow: all
MUTATIONS = 600
Bytes = Callable[[bytes], bytes]


def told(path: Path, files: dict[str, bytes], quick: bool) -> object:
    """All that a reader makes of a folder: the run to the last digit, or the words of its refusal."""
    try:
        run = run_of(path, files, quick=quick)
    except WalkbackError as error:
        return type(error), error.what, error.remedy
    built = [(s.text(), repr(s), sorted(s.model_fields_set), [*s.__dict__]) for s in run.snapshots]
    cosines = [[*c.__dict__, *sorted(c.model_fields_set)] for s in run.snapshots for c in (*s.cosine, s.cosine_embed)]
    return repr(run), built, cosines


def agree(path: Path, files: dict[str, bytes]) -> str:
    """Both readers say the same; returns what: quick, doubted (and fine), or refused."""
    full = told(path, files, quick=False)
    assert told(path, files, quick=True) == full
    if isinstance(full, tuple) and isinstance(full[0], type):
        return "refused"
    config = run_of(path, files).config
    return "doubted" if quick_snapshots(files.get("snapshots.jsonl", b""), config) is None else "quick"


def with_readings() -> Path:
    """A recorded run of a rule without credits: NaN cosines, and readings."""
    return next(
        p for p in RECORDED if b'"no credit"' in (content := read_files(p)["snapshots.jsonl"]) and b"update" in content
    )


@SOME
def test_recorded_runs_are_read_alike_and_quickly(every: int) -> None:
    runs = RECORDED[::every]
    outcomes = Counter(agree(path, dict(read_files(path))) for path in runs)
    assert len(RECORDED) > 300
    assert outcomes["refused"] == 0
    assert outcomes["quick"] > 0.9 * len(runs)


@pytest.mark.parametrize(("name", "mutate", "field"), CASES, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(CASES)])
def test_every_broken_invariant_is_refused_alike(folder, name, mutate, field) -> None:  # noqa: F811
    mutate(folder)
    outcomes = Counter(agree(path, dict(read_files(path))) for path in find_runs(folder))
    of_a_run = field and name not in ("valid", "verdict")
    assert outcomes["refused"] == (1 if of_a_run else 0)
    assert outcomes["quick"] == len(find_runs(folder)) - outcomes["refused"]


NEAR = (
    0.0,
    -0.0,
    1.0,
    1 + 5e-7,
    1 + 1e-6,
    1 + 2e-6,
    -1 - 1e-6,
    -1.5,
    -5e-7,
    -2e-6,
    0.5,
    0.1 + 1e-7,
    1e17,
    1e18,
    2e18,
    1e300,
)


def nudged(content: bytes, chance: random.Random) -> bytes:
    """One number of one line moved a little, or to where a bound may be; or written another way."""
    spots = [*re.finditer(rb"(?<=[:,\[])-?[0-9][0-9.eE+-]*", content)]
    spot = chance.choice(spots)
    value = float(spot[0])
    new = chance.choice([
        repr(value * (1 + chance.choice((1e-16, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3, -1e-7, -1e-4)))), repr(-value),
        repr(chance.choice(NEAR)), str(int(value)), f"{value:.30f}", f'"{value!r}"', '"NaN"', '"Infinity"', "NaN",
        "null", "true", f"{value:.3e}", f"{int(value)}.0", '" NaN"', '"nan"', str(int(value) + 1), "-0", "9" * 19,
    ])  # fmt: skip
    return content[: spot.start()] + new.encode() + content[spot.end() :]


def test_seeded_mutations_are_read_alike() -> None:
    outcomes: Counter[str] = Counter()
    sources = [*find_runs(ROOT / "tests/recorded"), with_readings()]
    for number in range(MUTATIONS):
        chance = random.Random(f"quick {number}")
        path = chance.choice(sources)
        files = dict(read_files(path))
        lines = files["snapshots.jsonl"].splitlines(keepends=True)
        change = (nudged, nudged, as_lines, as_bytes)[number % 4]
        few = b"".join(lines[: chance.choice((1, 2, 3))])  # most of what is said of a run needs no more
        files["snapshots.jsonl"] = change(few, chance)
        files.pop("result.json", None)
        files.pop("probes.json", None)
        outcomes[agree(path, files)] += 1
    print(outcomes)
    assert outcomes["quick"] > MUTATIONS // 20
    assert outcomes["refused"] > MUTATIONS // 20
    assert outcomes["doubted"] > 10


def first(old: bytes, new: bytes) -> Bytes:
    def change(content: bytes) -> bytes:
        assert old in content
        return content.replace(old, new, 1)

    return change


def norm(text: bytes) -> Bytes:
    """The first credit's norm, as this text."""
    return lambda content: re.sub(rb'"credit_norms":\[[^,]*', b'"credit_norms":[' + text, content)


# how a line is changed, and what both readers make of it
ODD: dict[str, tuple[Bytes, str]] = {
    "nothing": (lambda content: content, "quick"),
    "a byte order mark": (lambda content: b"\xef\xbb\xbf" + content, "doubted"),
    "a key twice": (first(b'"epoch":0,', b'"epoch":0,"epoch":0,'), "refused"),
    "a key twice, with room before its colon": (first(b'"epoch":0,', b'"epoch" :0,"epoch":0,'), "refused"),
    "a key twice, escaped": (first(b'"epoch":0,', b'"epoch":0,"\\u0065poch":0,'), "refused"),
    "a key of a cosine twice": (first(b'"alive":1000,', b'"alive":1000,"alive":1000,'), "refused"),
    "a key twice and one left out": (first(b'"epoch":0,"step":0,', b'"epoch":0,"epoch":0,'), "refused"),
    "an escaped key": (first(b'"epoch"', b'"\\u0065poch"'), "doubted"),
    "a key that is not known": (first(b'"epoch":0,', b'"epoch":0,"more":1,'), "refused"),
    "a key that is missing": (first(b'"step":0,', b""), "refused"),
    "keys in another order": (first(b'"epoch":0,"step":0,', b'"step":0,"epoch":0,'), "quick"),
    "room between": (first(b'"epoch":0,', b' "epoch" : 0 , '), "quick"),
    "the token NaN": (first(b'"train_loss":null', b'"train_loss":NaN'), "refused"),
    "the token Infinity": (norm(b"Infinity"), "doubted"),
    "the word NaN": (norm(b'"NaN"'), "quick"),
    "a whole number of 400 digits": (norm(b"9" * 400), "refused"),
    "a whole number of 20 digits": (norm(b"9" * 20), "refused"),
    "a whole number of 19 digits": (norm(b"9" * 19), "doubted"),
    "a whole number of 18 digits": (norm(b"9" * 18), "quick"),
    "a float of many digits": (norm(b"0." + b"3" * 400), "quick"),
    "a huge float": (norm(b"1e200"), "doubted"),
    "more than a float": (norm(b"1e999"), "doubted"),
    "a list for a number": (norm(b"[1.0]"), "refused"),
    "deep nesting": (first(b'"epoch":0', b'"epoch":' + b"[" * 500 + b"]" * 500), "refused"),
    "a count as a float": (first(b'"epoch":0,', b'"epoch":0.0,'), "doubted"),
    "a count as a text": (first(b'"epoch":0,', b'"epoch":"0",'), "doubted"),
    "a count as a truth": (first(b'"epoch":0,', b'"epoch":false,'), "doubted"),
    "a negative zero": (first(b'"epoch":0,', b'"epoch":-0,'), "quick"),
    "a leading zero": (first(b'"epoch":0,', b'"epoch":00,'), "refused"),
    "a colon in a text": (first(b'"status":"ok"', b'"status":"o:k"'), "refused"),  # then Γ is over one block less
    "a status of its own": (first(b'"status":"ok"', b'"status":"odd"'), "refused"),
    "bytes that are no UTF-8": (first(b'"status":"ok"', b'"status":"\xff"'), "refused"),
    "half a character": (first(b'"status":"ok"', b'"status":"\\ud800"'), "refused"),
    "a control character": (first(b'"status":"ok"', b'"status":"\x01"'), "refused"),
    "an empty line in front": (lambda content: b"\n" + content, "refused"),
    "an empty line at the end": (lambda content: content + b"\n", "doubted"),
    "lines that end as on Windows": (lambda content: content.replace(b"\n", b"\r\n"), "quick"),
    "no newline at the end": (lambda content: content[:-1], "doubted"),
    "a torn last line": (lambda content: content[: -len(content) // 7], "doubted"),
    "a torn last line that ends": (lambda content: content[: -len(content) // 7] + b"\n", "doubted"),
    "no line": (lambda content: b"", "doubted"),
    "two values in a line": (lambda content: content.replace(b"}\n", b"}{}\n", 1), "refused"),
    "a comma too many": (first(b'"gamma_blocks":3', b'"gamma_blocks":3,'), "refused"),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_what_a_quick_parser_may_see_differently(what) -> None:
    change, outcome = ODD[what]
    path = next((ROOT / "tests/recorded").glob("*-dfa-*"))
    files = dict(read_files(path))
    whole = b"".join(files["snapshots.jsonl"].splitlines(keepends=True)[:3])
    files["snapshots.jsonl"] = change(whole)
    files.pop("result.json")
    files.pop("probes.json")
    assert agree(path, files) == outcome


def test_snapshots_are_a_sequence_like_the_list_they_stand_for() -> None:
    path = with_readings()
    files = read_files(path)
    quick, full = run_of(path, files).snapshots, run_of(path, files, quick=False).snapshots
    assert isinstance(quick, QuickSnapshots)
    assert isinstance(full, list)
    assert len(quick) == len(full) > 2
    assert repr(quick) == repr(full)
    assert [s.text() for s in quick[1:3]] == [s.text() for s in full[1:3]]
    assert quick[-1] is quick[len(quick) - 1]
    with pytest.raises(IndexError):
        quick[len(quick)]
    assert quick == quick[:]
    assert quick != full[:-1]


def test_what_is_kept_for_dating_dates_alike() -> None:
    """Moments between the first and the last lack their cosines, and every judgement is the same to the letter."""
    seen = 0
    for group in grouped([run_of(path, read_files(path)) for path in RECORDED]):
        how = {"baselines": {"shallow": group.shallow} if group.shallow else {}}
        whole, bare = (evidence_of_runs(group.title, group.runs, group.others, whole=w, **how) for w in (True, False))
        assert judge(whole).text() == judge(bare).text()
        assert judge(whole, protocol="published").text() == judge(bare, protocol="published").text()
        moments = moments_of_run(group.runs[0], whole=False)
        seen += sum(moment.cosine is None for moment in moments[1:-1])
        assert json.loads(moments[0].text()) == json.loads(moments_of_run(group.runs[0])[0].text())
    assert seen > 100
