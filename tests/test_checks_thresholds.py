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
    assert found.table["chance.band"] == DEFAULT.table["chance.band"]
    assert load_thresholds(str(file)) == found


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("scale.growth = 60", BadValue, "mine has no version"),
        ("version = '  '", BadValue, "mine has no version"),
        ("version = 3", BadValue, "mine has no version"),
        ("version = 'walkback-3'", BadValue, "mine uses walkback-3, a version of walkback's own"),
        ("version = 'a'\nscale.grow = 6", UnknownName, "mine: no threshold is named 'scale.grow'"),
        ("version = 'a'\nscale = 6", UnknownName, "mine: no threshold is named 'scale'"),
        ("version = 'a'\nscale.growth = 'big'", BadValue, "mine: scale.growth is 'big', not a number"),
        ("version = 'a'\nscale.growth = true", BadValue, "mine: scale.growth is True, not a number"),
        ("version = 'a'\nscale.growth = [1]", BadValue, "mine: scale.growth is [1], not a number"),
        ("version = 'a'\n[scale.growth]\nwho = 'me'", BadValue, "mine: scale.growth is None, not a number"),
        ("version = 'a'\n[scale.growth]\nvalue = 6\nwho = 3", BadValue, "mine: scale.growth: who: Expected `str`"),
        ("version = 'a'\n[scale.growth]\nvalue = 6\nwhy = 'x'", BadValue, "mine: scale.growth: why: no such field"),
        ("version = 'a'\nscale.growth = -6", BadValue, "the threshold scale.growth cannot be -6"),
        ("version = 'a'\nscale.growth = nan", BadValue, "the threshold scale.growth cannot be nan"),
        ("version = ", BadValue, "mine is neither TOML nor JSON"),
        ('{"version": "a"', BadValue, "mine is neither TOML nor JSON"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(
    tmp_path: Path, text: str, kind: type[Exception], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text(text)
    with pytest.raises(kind) as error:
        load_thresholds("mine")
    assert str(error.value).startswith(what)


def test_remedies(tmp_path: Path) -> None:
    (tmp_path / "near").write_text("version = 'a'\nscale.grow = 6")
    with pytest.raises(UnknownName) as unknown:
        load_thresholds(tmp_path / "near")
    assert str(unknown.value.remedy).startswith("did you mean scale.growth")
    (tmp_path / "deep").write_text("version = 'a'\n[scale.growth]\nvalue = 6\nsame_answer = ['x', 1]")
    with pytest.raises(BadValue, match=r"scale.growth: same_answer.0: Expected `float"):
        load_thresholds(tmp_path / "deep")
    with pytest.raises(BadValue) as error:
        load_thresholds(tmp_path / "absent.toml")
    assert error.value.what == f"cannot read {tmp_path / 'absent.toml'}: No such file or directory"
    assert error.value.remedy == "name a file that exists"
    file = tmp_path / "t"
    for text, remedy in (
        ("a = 1", 'give it a line such as version = "our-lab-1"'),
        ("version = 'walkback-3'", "give it another version"),
        ("=", "see docs/checks.md for an example"),
    ):
        file.write_text(text)
        with pytest.raises(BadValue) as error:
            load_thresholds(file)
        assert error.value.remedy == remedy
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadValue, match="neither TOML nor JSON"):
        load_thresholds(file)
