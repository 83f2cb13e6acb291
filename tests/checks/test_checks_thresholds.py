"""Thresholds are data with provenance; a file may replace them, and what cannot be meant is refused with a remedy."""

from pathlib import Path

import pytest

from walkback.checks import DEFAULT, LIMITS, load_thresholds
from walkback.errors import BadValue, UnknownName

NUMBERS = {
    "scale.growth": 50, "scale.growth_over_init": 50,
    "reference.chord": 0.01, "reference.floor": 1e-7, "reference.batch": 128,
    "reference.small_loss": 0.1, "depth.margin": 0.02, "depth.confidence": 0.9875, "chance.band": 3,
    "chance.small": 0.05, "spread.share": 0.5, "size.share": 0.5, "scale.since_init": 1000, "reach.margin": 0.005,
}  # fmt: skip
PAPER = "Hao, Wan, Zhai, arXiv:2606.21126"


def test_the_defaults() -> None:
    assert DEFAULT.version == "walkback-3"
    assert {name: DEFAULT[name] for name in DEFAULT.table} == NUMBERS
    assert set(LIMITS) == set(NUMBERS)
    published = {"scale.growth", "reference.floor", "reference.batch", "depth.margin"}
    assert {name for name, t in DEFAULT.table.items() if t.who == PAPER} == published
    assert {t.who for t in DEFAULT.table.values()} == {PAPER, "walkback"}


def test_every_default_lies_where_it_may_and_within_its_calibrated_range() -> None:
    for name, threshold in DEFAULT.table.items():
        low, high = LIMITS[name].allowed
        assert low < threshold.value < high
        assert len(threshold.calibrated) > 20
        if threshold.same_answer is not None:
            below, above = threshold.same_answer
            assert below is not None
            assert above is not None
            assert below < threshold.value < above


@pytest.mark.parametrize(
    ("name", "fires", "does_not", "above"),
    [
        ("scale.growth", [694], [25, 11], True),
        ("reference.floor", [4.2e-9], [8.9e-7, 3.7e-4, 1e-4], False),
        ("depth.margin", [0.306 - 0.349, 0.363 - 0.349], [0.401 - 0.349, 0.615 - 0.349], False),
    ],
)
def test_the_range_of_the_same_answer_is_true_of_the_published_figures(
    name: str, fires: list[float], does_not: list[float], above: bool
) -> None:
    same = DEFAULT.table[name].same_answer
    assert same is not None
    low, high = same
    assert low is not None
    assert high is not None
    for at in (low * 1.001, DEFAULT[name], high * 0.999):
        assert all(value > at if above else value < at for value in fires)
        assert not any(value > at if above else value < at for value in does_not)
    assert (low, high) == pytest.approx((max(does_not), min(fires)) if above else (max(fires), min(does_not)))


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"no threshold is named 'scale.grwth'") as error:
        DEFAULT["scale.grwth"]
    assert "did you mean scale.growth" in str(error.value)
    with pytest.raises(UnknownName):
        DEFAULT.but("nothing", 1)


def test_one_number_changed_shows_in_the_version() -> None:
    changed = DEFAULT.but("depth.margin", 0.03)
    assert changed["depth.margin"] == 0.03
    assert changed.version == "walkback-3, depth.margin=0.029999999999999999"
    assert changed.table["depth.margin"].who == "changed by hand"
    assert changed.table["depth.margin"].calibrated == "not stated"
    assert changed.table["scale.growth"] == DEFAULT.table["scale.growth"]
    assert DEFAULT["depth.margin"] == 0.02


@pytest.mark.parametrize("name", NUMBERS)
def test_the_ends_of_what_is_allowed_are_not(name: str) -> None:
    low, high = LIMITS[name].allowed
    for value in (low, high, float("nan"), low - 1):
        with pytest.raises(BadValue, match=f"the threshold {name} cannot be") as error:
            DEFAULT.but(name, value)
        assert error.value.remedy == f"it lies between {low:g} and {high:g}"


TOML = """
version = "our-lab-2"
scale.growth = 60
[depth.margin]
value = 0.01
who = "our lab"
calibrated = "twelve runs"
same_answer = [0.005, 0.03]
"""
JSON = """ {"version": "our-lab-2", "scale.growth": 60, "depth": {"margin": {"value": 0.01, "who": "our lab",
 "calibrated": "twelve runs", "same_answer": [0.005, 0.03]}}}"""


@pytest.mark.parametrize("text", [TOML, JSON, "\ufeff" + JSON])
def test_a_file_replaces_some_and_keeps_the_rest(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.any"
    file.write_text(text, encoding="utf-8")
    found = load_thresholds(file)
    assert found.version == "our-lab-2"
    assert found["scale.growth"] == 60
    assert (found.table["scale.growth"].who, found.table["scale.growth"].calibrated) == ("mine.any", "not stated")
    mine = found.table["depth.margin"]
    assert (mine.value, mine.who, mine.calibrated, mine.same_answer) == (0.01, "our lab", "twelve runs", (0.005, 0.03))
    rest = set(DEFAULT.table) - {"scale.growth", "depth.margin"}
    assert all(found.table[name] == DEFAULT.table[name] for name in rest)
    assert DEFAULT["scale.growth"] == 50
    assert load_thresholds(str(file)) == found


EXAMPLE, NAMED = "see docs/checks.md for an example", 'give it a line such as version = "our-lab-1"'
BEGUN = "version = 'a'\n"
LONG = "1" + "0" * 301


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ("scale.growth = 60", "mine has no version", NAMED),
        ("version = '  '", "mine has no version", NAMED),
        ("version = 3", "mine has no version", NAMED),
        ("version = 'walkback-12'", "mine uses walkback-12, a version of walkback's own", "give it another version"),
        (BEGUN + "scale.grow = 6", "mine: no threshold is named 'scale.grow'", "did you mean scale.growth"),
        (BEGUN + "scale = 6", "mine: no threshold is named 'scale'", "did you mean"),
        (BEGUN + "scale.growth = 'big'", "mine: scale.growth is 'big', not a number", EXAMPLE),
        (BEGUN + "scale.growth = true", "mine: scale.growth is True, not a number", EXAMPLE),
        (BEGUN + "scale.growth = [1]", "mine: scale.growth is [1], not a number", EXAMPLE),
        (BEGUN + "[scale.growth]\nwho = 'me'", "mine: scale.growth is None, not a number", EXAMPLE),
        (BEGUN + "[scale.growth]\nvalue = 6\nwho = 3", "mine: scale.growth: who: Expected `str`", EXAMPLE),
        (BEGUN + "[scale.growth]\nvalue = 6\nwhy = 'x'", "mine: scale.growth: why: no such field", EXAMPLE),
        (BEGUN + "[scale.growth]\nvalue = 6\nsame_answer = ['x', 1]",
         "mine: scale.growth: same_answer.0: Expected `float", EXAMPLE),
        (BEGUN + "scale.growth = -6", "the threshold scale.growth cannot be -6", "it lies between 0 and inf"),
        (BEGUN + "scale.growth = nan", "the threshold scale.growth cannot be nan", "it lies between 0 and inf"),
        ('{"version": "x", "scale": {"growth": ' + LONG + "}}",
         "mine: scale.growth is a whole number larger than 1e+300", EXAMPLE),
        ('{"version": "x", "scale": {"growth": -' + LONG + "}}",
         "mine: scale.growth is a whole number larger than 1e+300", EXAMPLE),
        ("version = ", "mine is neither TOML nor JSON (", EXAMPLE),
        ('{"version": "a"', "mine is neither TOML nor JSON: it", EXAMPLE),
        (b"\xff\xfe\x00", "mine is neither TOML nor JSON (", EXAMPLE),
        (None, "cannot read mine: No such file or directory", "name a file that exists"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_meant_is_refused(
    tmp_path: Path, text: str | bytes | None, what: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("mine").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises((BadValue, UnknownName)) as error:
        load_thresholds("mine")
    assert error.value.what.startswith(what)
    assert str(error.value.remedy).startswith(remedy)


def test_a_folder_or_a_large_file_is_no_file_of_thresholds(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_bytes(b"#" * ((1 << 20) + 1))
    for path, words in ((tmp_path, str(tmp_path)), (tmp_path / "large.toml", "at most 1 MB")):
        with pytest.raises(BadValue) as error:
            load_thresholds(path)
        assert words in error.value.what
        assert error.value.remedy


def test_a_number_may_be_as_large_as_a_float(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text('\n {"version": "lab-2", "scale": {"growth": 1e300}}')
    assert load_thresholds(tmp_path / "mine")["scale.growth"] == 1e300
