"""A check is one new file: a planted one is listed, judged, drawn and told with no other edit.

And an audit that has a check which is not known here is still shown.
"""

import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import walkback
from test_checks_planted import CASES, plain
from walkback.checks import CHECKS, LIMITS, in_order, judge
from walkback.checks.base import GENERIC

RESULTS = Path(__file__).parents[2] / "results"
PLANTED = '''"""quiet: is the last hidden state small? Planted by a test."""

from walkback.checks.base import Check, Date, register
from walkback.checks.finding import Finding, agreed
from walkback.checks.thresholds import Limit


class Quiet(Check):
    """The norm of the last hidden state."""

    name = "quiet"
    place = 3.5
    asks = "Is the last hidden state small?"
    raised = "‖h_L‖ > 77 on every seed"
    heading = "norm"
    answer = "symptom"
    quantity = {"ours": "the norm of the last hidden state"}
    limits = {"quiet.norm": Limit(77.0, "a test", "nothing at all, for it is planted")}
    means = {"fires": "It is loud in there."}
    do = {"fires": "Close the door."}
    dates = (Date("quiet", "quiet, planted", "hidden", "the planted check"),)

    def find(self, evidence, thresholds):
        norms = [seed.final.hidden_norms[-1] for seed in evidence.seeds]
        limit = thresholds["quiet.norm"]
        outcome = agreed(["fires" if norm > limit else "passes" for norm in norms])
        return Finding(
            check=self.name, outcome=outcome, basis="exact", value=max(norms), low=min(norms), high=max(norms),
            threshold=limit, stable_range=(None, None), ranges={"quiet.norm": (None, None)},
            says=f"The last norm is {max(norms):.4g} at most.",
        )

    def fires_at(self, moment, thresholds, residual, start):
        return {"quiet": moment.hidden_norms[-1] > thresholds["quiet.norm"]}

    def by_seed(self, evidence):
        return {label: s.final.hidden_norms[-1] for label, s in zip(evidence.labels(), evidence.seeds)}


register(Quiet())
'''
COMMANDS = """
import sys
from walkback.cli import app
out, *runs = sys.argv[1:]
for words in (
    ["list"], ["judge", *runs, "--out", out], ["judge", *runs, "--protocol", "published"],
    *(["table", *runs, "--format", form] for form in ("text", "markdown", "latex", "csv")), ["form", *runs],
    ["report", *runs, "--to", f"{out}/page.html"], ["report", *runs, "--to", f"{out}/published.html", "--protocol",
    "published"],
):
    print("#####", *words[:1], *words[-1:])
    app(words, result_action="return_value")
"""


def runs() -> list[str]:
    """Two seeds of bp on CIFAR-10 with their frozen nets."""
    found = [RESULTS / name for name in (
        "cifar10-resmlp-bp-s42-14eb38d48d", "cifar10-resmlp-bp-s123-87da8ecb88",
        "cifar10-resmlp-bp_k_0-s42-245979d1be", "cifar10-resmlp-bp_k_0-s123-6690b25f89",
    )]  # fmt: skip
    return [str(path) for path in found]


def run(source: Path, code: str, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(source), "COLUMNS": "160", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, env=environment, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder with what was written, and what each command printed."""
    place = tmp_path_factory.mktemp("planted")
    shutil.copytree(Path(walkback.__file__).parent, place / "walkback", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "walkback" / "checks" / "quiet.py").write_text(PLANTED, encoding="utf-8")
    out = place / "out"
    said = run(place, COMMANDS, str(out), *runs())
    parts = [part.partition("\n") for part in said.split("##### ")[1:]]
    return out, {command: text for command, _, text in parts}


class Text(HTMLParser):
    """The words of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words_of(page: Path) -> str:
    parser = Text()
    parser.feed(page.read_text(encoding="utf-8"))
    return " ".join(" ".join(parser.words).split())


def test_a_planted_check_is_listed_judged_and_told_in_every_form(planted: tuple[Path, dict[str, str]]) -> None:
    out, said = planted
    by_command = {command.split()[0]: text for command, text in said.items()}
    assert "Is the last hidden state small? Fires: ‖h_L‖ > 77 on every seed." in by_command["list"]
    judged = next(text for command, text in said.items() if command.startswith("judge") and "published" not in command)
    assert "quiet" in judged
    assert "symptom: The last norm is" in judged  # a new check explains; of the answers there are three
    assert "quiet first fired at epoch" in judged
    tables = {form: text for form in ("text", "markdown", "latex", "csv") if (text := said.get(f"table {form}"))}
    assert len(tables) == 4
    for form, text in tables.items():
        assert "quiet: the norm of the last hidden state" in " ".join(text.split()) or form == "csv", form
    assert "bp,quiet,fires,197.9" in tables["csv"].replace(" ", "")
    assert "**quiet**: The last norm is" in by_command["form"]
    assert '"quiet.norm"' in (out / "audit.json").read_text(encoding="utf-8")


def test_a_planted_check_has_its_place_on_the_page(planted: tuple[Path, dict[str, str]]) -> None:
    out, said = planted
    page = words_of(out / "page.html")
    for words in (
        "quiet (symptom): Is the last hidden state small?", "It is loud in there.", "Close the door.", "quiet.norm",
        "set by a test", "nothing at all, for it is planted", "The norm of the last hidden state.",
        "limit 77",
    ):  # fmt: skip
        assert words in page, words
    assert "the planted check first fires at epoch" in (out / "page.html").read_text(encoding="utf-8")
    assert page.index("depth: Does") < page.index("spread: Of how") < page.index("quiet (symptom): Is the")
    published = words_of(out / "published.html")
    assert "The published protocol does not ask: Is the last hidden state small?" in published
    assert published.count("Is the last hidden state small?") == 1
    assert "quiet:" not in said["judge published"]


def test_an_audit_with_a_check_that_is_not_known_here_is_still_shown(planted: tuple[Path, dict[str, str]]) -> None:
    """The audit.json of the planted check, read by a walkback that does not have it."""
    out, _ = planted
    assert "quiet" not in CHECKS
    alone = out.parent / "alone"
    alone.mkdir()
    shutil.copy(out / "audit.json", alone)
    code = """
import sys
from walkback.cli import app
alone = sys.argv[1]
for words in (["table", f"{alone}/audit.json"], ["table", alone, "--format", "csv"], ["form", alone],
              ["report", alone, "--to", f"{alone}/page.html"]):
    app(words, result_action="return_value")
"""
    said = run(Path(walkback.__file__).parents[1], code, str(alone))
    assert "quiet: a check that is not known here." in " ".join(said.split())
    assert "bp,quiet,fires,197.9" in said
    page = words_of(alone / "page.html")
    for words in (
        "This version does not know this check.",
        "The value is on the wrong side of the threshold.",
        "quiet.norm",
    ):
        assert words in page


def test_every_check_carries_what_a_report_asks_for() -> None:
    """Second implementation: the README and docs/checks.md tell of each check what it tells of itself."""
    docs = (RESULTS.parent / "docs" / "checks.md").read_text(encoding="utf-8")
    readme = (RESULTS.parent / "README.md").read_text(encoding="utf-8")
    for check in in_order():
        assert f"## {check.name}: {check.asks[0].lower()}{check.asks[1:]}" in docs
        assert f"| `{check.name}` |" in readme
        assert check.quantity
        for name, limit in check.limits.items():
            assert LIMITS[name] is limit
            assert f"| `{name}` | {limit.value:g}" in docs.replace("1e-7", "1e-07")


def test_every_outcome_of_a_check_has_a_meaning_of_its_own() -> None:
    """Of every planted case, by both protocols; and nearly all that a check explains comes up."""
    seen = set()
    for evidence in (plain(), *(case for case, _ in CASES.values())):
        for protocol in ("ours", "published"):
            for finding in judge(evidence, protocol=protocol).findings:
                seen.add((finding.check, finding.outcome))
                assert CHECKS.get(finding.check).meaning(finding) not in GENERIC.values(), (finding.check, protocol)
    explained = {(check.name, outcome) for check in in_order() for outcome in check.means}
    assert explained <= seen
