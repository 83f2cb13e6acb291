"""What the checks say beside their findings, and what an audit.json is: written, read, counted, refused."""

import json
import math
from functools import partial
from pathlib import Path

import pytest

import test_checks_planted as planted
from checks_golden import made
from test_checks_planted import around, precise
from walkback.checks import (
    CHECKS,
    DEFAULT,
    LIMITS,
    Audit,
    Control,
    SettingValidity,
    check_named,
    depth,
    judge,
    reference,
    scale,
)
from walkback.checks.base import GENERIC, Unknown, register
from walkback.checks.finding import times_words
from walkback.checks.thresholds import LIMITS as KNOWN_LIMITS
from walkback.checks.thresholds import Limit, completed
from walkback.errors import BadValue, RecordError

subject, plain = partial(planted.subject, seeds=3), partial(planted.plain, seeds=3)


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "limit", "words"),
    [
        (49.9996, 50.0, "49.9996×"), (50.0, 50.0, "50×"), (50.01, 50.0, "50.01×"), (49.9996, None, "50×"),
        (1000.0, 50.0, "1,000×"), (999.0, None, "999×"), (999_000.0, None, "999,000×"), (1e6, None, "1e+06×"),
    ],
)  # fmt: skip
def test_a_growth_is_told_from_its_limit(value: float, limit: float | None, words: str) -> None:
    assert times_words([value], limit) == words


# --- captions and nouns ---------------------------------------------------------------------------------------------


def test_what_stands_before_and_below_a_number() -> None:
    assert reference.noun(made(reference, "passes")) == "chord"
    assert reference.noun(made(reference, "passes", of="reference.floor")) == "norm"
    assert scale.noun(made(scale, "passes")) == ""
    assert scale.caption_of(made(scale, "passes")) == scale.caption
    assert scale.caption_of(made(scale, "passes", of="scale.growth_over_init")) == scale.plain_caption
    assert depth.caption_of(made(depth, "passes")) == depth.caption


# --- by seed --------------------------------------------------------------------------------------------------------


def test_every_seed_has_its_own_number() -> None:
    evidence = subject(
        {"hidden_norms": [1.0, 2.0, 6.0, 6.0, 6.0], "precision": precise(1e-6)},
        {"hidden_norms": [1.0, 4.0, 4.0, 4.0, 4.0], "precision": precise(2e-6)},
        {"hidden_norms": [1.0, 4.0, 4.0, 4.0, None], "precision": None},
    )
    assert scale.by_seed(evidence) == pytest.approx({"42": 3.0, "123": 4.0, "456": 4.0})
    assert reference.by_seed(evidence) == {"42": 1e-6, "123": 2e-6, "456": None}
    assert depth.by_seed(evidence) == {}


def test_a_plain_net_by_seed_is_held_against_its_init() -> None:
    evidence = plain({"hidden_norms": [1.0, 8.0, 8.0, 8.0, 8.0], "start": {"hidden_norms": [1.0, 2.0, 2.0, 2.0, 2.0]}})
    assert list(scale.by_seed(evidence).values()) == pytest.approx([4.0] * 3)
    streamed = evidence.changed(residual=True)
    assert list(scale.by_seed(streamed).values()) == pytest.approx([8.0] * 3)


# --- a check that is not known here ---------------------------------------------------------------------------------


def test_a_check_that_is_not_known_here_is_shown_and_never_asked() -> None:
    stranger = check_named("somebody's")
    assert isinstance(stranger, Unknown)
    assert stranger.name == "somebody's"
    assert stranger.quantity == {
        "ours": "a check that is not known here", "published": "a check that is not known here",
    }  # fmt: skip
    assert stranger.phrase(made(stranger, "fires")) == "somebody's fires"
    assert stranger.place == math.inf
    assert all(stranger.meaning(made(stranger, outcome)) == words for outcome, words in GENERIC.items())
    with pytest.raises(NotImplementedError, match=r"^the check somebody's is not known here$"):
        stranger(subject())
    with pytest.raises(NotImplementedError, match=r"^the published protocol does not ask size$"):
        check_named("size")(subject(), protocol="published")
    assert check_named("scale") is scale


def test_registering_makes_a_check_and_its_thresholds_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHECKS, "_things", dict(CHECKS._things))
    before = dict(KNOWN_LIMITS)
    mine = Unknown("mine")
    mine.limits = {"mine.limit": Limit(3, "me", "by hand")}
    try:
        assert register(mine) is mine
        assert CHECKS.get("mine") is mine
        assert KNOWN_LIMITS["mine.limit"].value == 3
        with pytest.raises(BadValue, match="a check named 'mine' exists already"):
            register(Unknown("mine"))
    finally:
        KNOWN_LIMITS.clear()
        KNOWN_LIMITS.update(before)
    assert LIMITS is KNOWN_LIMITS


# --- audit.json -----------------------------------------------------------------------------------------------------


JUDGED = {
    "holds": judge(planted.subject()), "open": judge(subject()),
    "walked back": judge(subject(accuracy=0.3, baselines={"half": None})),
}  # fmt: skip


def audited(*verdicts: str, valid: bool = True) -> Audit:
    controls = [Control(name="bp", expected="holds", got="holds" if valid else "open", ok=valid)]
    named = [JUDGED[verdict].changed(name=f"s{place}") for place, verdict in enumerate(verdicts)]
    assert [one.verdict for one in named] == list(verdicts)
    return Audit(
        valid=valid, says="x", protocol="ours", thresholds=DEFAULT, controls=controls, subjects=named
    )  # fmt: skip


@pytest.mark.parametrize(
    ("verdicts", "valid", "status"),
    [
        ((), True, 0), (("holds",), True, 0),
        (("holds", "open"), True, 3), (("open", "walked back", "holds"), True, 1),
        (("walked back",), False, 4), (("holds",), False, 4),
    ],
)  # fmt: skip
def test_the_exit_status(verdicts: tuple[str, ...], valid: bool, status: int) -> None:
    assert audited(*verdicts, valid=valid).exit_status() == status


@pytest.mark.parametrize(("half", "status"), [(0.57, 0), (0.601, 1), (0.594, 3)])
def test_the_lower_half_counts_as_well_and_gamma_never(half: float, status: int) -> None:
    judged = judge(planted.subject({"cosine_out": None}, baselines={"half": around(half)}))
    audit = audited("holds").changed(subjects=[judged])
    assert judged.verdict == "holds"
    assert audit.exit_status() == status


def test_an_audit_is_written_and_read_whole(tmp_path: Path) -> None:
    audit = audited("holds", "walked back")
    path = audit.write(tmp_path / "new" / "place")
    assert path == tmp_path / "new" / "place" / "audit.json"
    text = path.read_text()
    assert text.startswith('{\n "schema": "walkback.audit/3",\n "valid": true,')
    assert text.endswith("}\n")
    assert Audit.read(path.parent) == Audit.read(str(path)) == audit
    other = path.rename(tmp_path / "theirs.json")
    assert Audit.read(other) == audit
    assert Audit.read(path.parent) is None
    assert Audit.read(tmp_path / "nowhere") is None


def test_an_audit_that_lacks_a_later_threshold_gets_its_default(tmp_path: Path) -> None:
    fewer = {name: one for name, one in DEFAULT.table.items() if name != "reach.margin"}
    old = DEFAULT.changed(table=fewer, version="walkback-1")
    assert completed(old).table == DEFAULT.table
    assert completed(old).version == "walkback-1"
    assert completed(DEFAULT) is DEFAULT
    moved = {"scale.growth": DEFAULT.table["scale.growth"].changed(value=60)}
    assert completed(DEFAULT.changed(table=moved))["scale.growth"] == 60
    audit = audited("holds").changed(thresholds=old)
    audit.write(tmp_path)
    again = Audit.read(tmp_path)
    assert again is not None
    assert again.thresholds.table == DEFAULT.table


def test_a_damaged_audit_names_the_file_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    path.write_text('{"schema": "walkback.audit/3"}')
    with pytest.raises(RecordError) as error:
        Audit.read(tmp_path)
    assert str(path) in error.value.what
    assert error.value.remedy == "give the command that wrote it again, or move the file away"
    path.unlink()
    path.mkdir()
    with pytest.raises(RecordError) as error:
        Audit.read(path.parent)
    assert error.value.remedy


SETTINGS = [SettingValidity(name="mnist1d", valid=True, subjects=["s0"]),
            SettingValidity(name="cifar10", valid=False, subjects=["s1"])]  # fmt: skip


def test_settings_count_by_their_own_controls(tmp_path: Path) -> None:
    one = audited("holds", "walked back", "holds", valid=False)
    several = one.changed(settings=SETTINGS)
    assert [several.counts(name) for name in ("s0", "s1", "s2")] == [True, False, True]  # s2 has no controls
    assert [one.counts(name) for name in ("s0", "s1")] == [False, False]
    assert audited("holds").counts("s0")
    assert several.exit_status() == 4
    assert one.void_words == "This audit is invalid: its verdicts do not count."
    assert several.void_words == "This audit is invalid in 1 of 2 settings, whose verdicts do not count."
    written = json.loads(several.write(tmp_path).read_text())
    assert written["settings"] == [setting.as_dict() for setting in SETTINGS]
    assert Audit.read(tmp_path) == several
    assert "settings" not in json.loads(one.write(tmp_path).read_text())
    for valid in (True, False):
        wrong = [setting.changed(valid=not valid) for setting in SETTINGS]
        with pytest.raises(ValueError, match=f"valid is {valid}, and its settings say otherwise"):
            Audit.from_plain(audited("holds", valid=valid).as_dict() | {"settings": wrong})


# --- a file of thresholds -------------------------------------------------------------------------------------------


def test_the_words_of_a_loss_that_is_small_follow_the_thresholds() -> None:
    """Where the gradient is below the floor, the cause is told by the thresholds of the audit."""
    small = subject({"gradient_norms": [1e-9] * 5, "loss": 0.15, "precision": precise(1e-6)})
    assert "small loss explains it" in "".join(reference(small).warnings)
    stricter = completed(DEFAULT.changed(table=dict(DEFAULT.table)))
    loss = stricter.table["reference.small_loss"].changed(value=0.2)
    stricter = stricter.changed(table={**stricter.table, "reference.small_loss": loss})
    assert "Neither" not in "".join(reference(small, stricter).warnings)
