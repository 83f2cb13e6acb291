"""The page: what stands in it, that a stranger's words stay words, and that what is missing is said."""

import base64
import hashlib
import json
import math
import random
import re
import shlex
import shutil
import time
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from jinja2 import UndefinedError

import walkback.report.page as room
from report_material import HOSTILE, config, write_many, write_run, write_runs
from test_checks_law import drawn_evidence, part_of
from walkback.audits import audit_plan, audit_subjects, judge_paths, report_paths, usual
from walkback.checks import DEFAULT, Audit, Control, Interval, Protocol, Threshold, Thresholds, judge
from walkback.cli import app, main
from walkback.errors import WalkbackError
from walkback.records import Cosine, Evidence, Moment, Subject, Training
from walkback.report.case import Case
from walkback.report.page import _environment, only_seen, page, piece, view, write_page
from walkback.report.page.markup import prose, tag
from walkback.report.page.reproduce import commands
from walkback.report.writing import clean
from walkback.train import plan

VOID = {"br", "col", "hr", "link", "meta", "path", "rect"}


class Node(SimpleNamespace):
    """An element: its name, attributes, children and text."""

    def all(self, name: str, **attributes: str) -> list["Node"]:
        found = [] if self.name != name else [self]
        found = [n for n in found if all(n.attributes.get(k.rstrip("_")) == v for k, v in attributes.items())]
        return found + [n for child in self.children for n in child.all(name, **attributes)]

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def everything(self) -> list["Node"]:
        return [self, *(n for child in self.children for n in child.everything())]

    @property
    def words(self) -> str:
        return " ".join("".join(self.pieces()).split())

    def pieces(self) -> list[str]:
        return [text for part in self.parts for text in (part.pieces() if isinstance(part, Node) else [part])]


class Tree(HTMLParser):
    """A second reader of the page: the standard library's, which knows nothing of ours."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.root = Node(name="", attributes={}, children=[], parts=[])
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert self.open == [self.root], f"not closed: {[n.name for n in self.open]}"

    def handle_starttag(self, name: str, attributes: Any) -> None:
        node = Node(name=name, attributes=dict(attributes), children=[], parts=[])
        assert len(node.attributes) == len(attributes), f"an attribute of {name} is there twice"
        self.open[-1].children.append(node)
        self.open[-1].parts.append(node)
        if name not in VOID:
            self.open.append(node)

    def handle_startendtag(self, name: str, attributes: Any) -> None:
        self.handle_starttag(name, attributes)
        if name not in VOID:
            self.handle_endtag(name)

    def handle_endtag(self, name: str) -> None:
        if name in VOID:
            return
        assert self.open[-1].name == name, f"{name} closes {self.open[-1].name}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def tree(text: str) -> Node:
    # A path with a title inside is no leaf; the reader must know which are.
    marked = re.sub(r"<path([^>]*[^/])><title>", r"<g\1><title>", text).replace("</title></path>", "</title></g>")
    return Tree(marked).root


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("page") / "runs", seeds=5)  # the fewest that can hold, or be even


@pytest.fixture(scope="module")
def text(runs):
    return page(report_paths(runs, source=["runs"]))


@pytest.fixture(scope="module")
def root(text):
    return tree(text)


# --- markup: text stays text ----------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text() | st.sampled_from(HOSTILE))
def test_property_any_text_is_read_back_as_that_text(content):
    (found,) = Tree(tag("p", content, title=content)).root.children
    assert found.name == "p"
    assert found.children == []
    assert "".join(found.pieces()) == clean(content)
    assert found.attributes == {"title": clean(content)}
    blanks = "\u00a0\u1680\u2000\u202f\u205f\u3000"
    assert len(clean(content)) == len(content)
    assert all(c.isprintable() or c in blanks or "\u2000" <= c <= "\u200a" for c in clean(content))
    clean(content).encode()


@settings(max_examples=200, deadline=None)
@given(st.text() | st.from_regex(r"(-?\d\.\d+e-\d\d|h_\{l\+1\}|‖g_L‖| |<|&|%)+", fullmatch=True))
def test_property_prose_keeps_its_words(sentence):
    """Whatever is set below the line or as a power, the markup around it is ours alone."""
    found = Tree(tag("p", prose(sentence))).root
    assert {node.name for node in found.everything()} <= {"", "p", "i", "sub"}


TEMPLATES = Path(room.__path__[0])


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text() | st.sampled_from(HOSTILE))
def test_property_a_template_writes_any_text_as_that_text(content):
    """In an element and in an attribute, through a macro, a list and a join; `{{` in a value is no template."""
    source = (
        '{% import "macros.html.j2" as m with context %}<p title="{{ it }}">{{ it }}</p>'
        '{{ m.bdi(it) }}<b>{{ [it, it]|join(m.bdi("x")) }}</b>{% set made %}<i>{{ it }}</i>{% endset %}{{ made ~ it }}'
    )
    root = Tree(only_seen(_environment().from_string(source).render(it=content))).root
    p, bdi, b, i = root.children
    assert (p.attributes, p.parts) == ({"title": clean(content)}, [clean(content)] if content else [])
    assert "".join(bdi.pieces()) == "".join(i.pieces()) == clean(content)
    assert [n.name for n in root.everything()] == ["", "p", "bdi", "b", "bdi", "i"]
    assert clean("".join(root.pieces())).endswith(clean(content) * 2)
    assert clean("".join(b.pieces())) == f"{clean(content)}x{clean(content)}"


def test_no_template_turns_escaping_off_and_every_one_is_used():
    names = {path.name for path in TEMPLATES.glob("*.j2")}
    sources = {name: (TEMPLATES / name).read_text() for name in names}
    code = "".join(path.read_text() for path in TEMPLATES.parent.rglob("*.py"))
    for name, source in sources.items():
        assert not re.search(r"\|\s*safe\b|autoescape|\bMarkup\b", source), name
        assert f'"{name}"' in code + "".join(sources.values()), name
    assert (
        code.count("Markup(f") + code.count("Markup(css)") + code.count("Markup(js)") == 3
    )  # `tag`, and our own files


def test_what_a_template_lacks_is_an_error_and_not_a_blank():
    with pytest.raises(UndefinedError):
        piece("validity.html.j2")


# --- structure ------------------------------------------------------------------------------------------------------


def test_the_page_is_one_document_that_asks_for_nothing(text, root):
    assert text.startswith("<!doctype html>\n<html lang=")
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    (link,) = root.all("link")
    assert link.attributes == {"rel": "icon", "href": "data:,"}
    assert {n.name for n in root.everything()} & {"img", "iframe", "object", "embed", "form", "input", "base"} == set()
    assert all(n.attributes["href"].startswith("#") for n in root.all("a"))


def test_the_policy_allows_its_own_script_and_style_only(text, root):
    (policy,) = [n.attributes["content"] for n in root.all("meta", http_equiv="Content-Security-Policy")] or [
        n.attributes["content"] for n in root.all("meta") if n.attributes.get("http-equiv")
    ]
    (script,), (style,) = root.all("script"), root.all("style")
    for name, node in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256("".join(node.parts).encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert not any(key.startswith("on") or key == "style" for n in root.everything() for key in n.attributes)


def test_headings_are_in_order_and_links_lead_somewhere(root):
    levels = [int(n.name[1]) for n in root.everything() if re.fullmatch(r"h[1-6]", n.name)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [n.attributes["id"] for n in root.everything() if "id" in n.attributes]
    assert len(ids) == len(set(ids))
    assert {n.attributes["href"][1:] for n in root.all("a")} <= set(ids)
    for name in ("header", "nav", "main", "footer"):
        assert len(root.all(name)) == 1
    first = next(n for n in root.everything() if n.name == "a")
    assert first.attributes["class"] == "skip"


def test_tables_and_figures_say_what_they_are(root):
    for table in root.all("table"):
        assert [bool(caption.words) for caption in table.all("caption")] == [True]
        assert all(th.attributes.get("scope") for th in table.all("th"))
    for svg in root.all("svg"):
        named = svg.attributes.get("role") == "img" and len(svg.attributes.get("aria-label", "")) > 20
        assert named or svg.attributes.get("aria-hidden") == "true"
    assert len(root.all("figure")) == 3 * (7 + 4) + 2  # each check and curve of each subject; at the top


# --- content --------------------------------------------------------------------------------------------------------


def rows(root: Node, caption: str) -> list[list[str]]:
    (table,) = [t for t in root.all("table") if t.all("caption")[0].words == caption]
    return [[cell.words for cell in tr.children] for body in table.all("tbody") for tr in body.all("tr")]


def test_the_heat_map_has_a_cell_for_every_finding_with_its_seeds_against_the_limit(runs, root):
    audit = report_paths(runs)
    (table,) = [t for t in root.all("table") if t.attributes.get("class") == "heat"]
    for tr in [tr for tr in table.all("tr") if "data-place" in tr.attributes]:
        subject = audit.subjects[int(tr.attributes["data-place"])]
        assert tr.attributes["data-verdict"] == subject.verdict
        for td, finding in zip(tr.all("td"), subject.findings, strict=True):
            assert td.attributes["class"] == f"h-{finding.outcome.replace(' ', '-')}"
            assert f"{finding.check} {finding.outcome}" in td.words
            kinds = [n.attributes["class"] for n in td.all("svg")[0].all("path")]
            assert kinds.count("dots") == kinds.count("limit") == 1


def test_every_check_stands_open_or_folded_with_its_threshold_and_what_to_do(runs, root):
    for place, subject in enumerate(report_paths(runs).subjects, 1):
        (part,) = [n for n in root.all("article") if n.attributes["aria-labelledby"] == f"subject-{place}"]
        checks = [n for n in part.everything() if n.attributes.get("class") == "check"]
        found = {finding.check: finding for finding in subject.findings}
        for check in checks:
            finding = found.pop(check.all("h4")[0].words.partition(":")[0].removesuffix(" (symptom)").split()[-1])
            wrong = finding.outcome in ("fires", "open")
            assert (check.name == "div") == (wrong and finding.check != "scale")  # a symptom stands above, so it folds
            listed = {n.words for n in check.all("dt")}
            assert {"Threshold", "Same outcome", "Means"} <= listed
            assert ("What to do" in listed, "Basis" in listed) == (wrong, finding.basis != "exact")
        assert not found
        assert "scale (symptom)" in checks[-1].all("h4")[0].words  # it decides nothing, so it stands below what does


def test_the_first_firing_is_marked_on_the_curve(root):
    rings = [n.words for n in root.everything() if n.attributes.get("class") == "first"]
    assert {f"dfa, seed {seed}: scale first fires at epoch 1" for seed in range(1, 6)} <= set(rings)
    assert not any("spread first fires" in ring or "reference" in ring for ring in rings)  # measured at the end only


def test_by_the_published_protocol_the_floor_judges(runs):
    assert "published floor 10⁻⁷, judges" in tree(page(report_paths(runs, protocol="published"))).words


def configs_of(words: list[str]) -> list[str]:
    """What a command of the page would train, by its hash: the command line and the plan are the oracle."""
    _, bound, *_ = app.parse_args(words[1:], exit_on_error=False, print_error=False)
    output = dict(bound.arguments)
    recipe = output.get("recipe")
    assert recipe is not None
    rules = [word for word in recipe.rules.split(",") if word]
    if words[1] == "audit":
        return [c.hash() for c in audit_plan(rules, **usual(recipe.data, recipe.settings()))]
    more = {key: output[key] for key in ("train_last", "stop_when_fired") if key in output}
    return [c.hash() for c in plan(rules=rules, **more, **recipe.settings())]


def test_the_commands_have_words_for_every_option_of_a_net_and_name_what_has_none(tmp_path):
    (c,) = plan(data="digits", net="vit-mini", net_options={"heads": 2}, rules=["dfa"], seeds=[1], epochs=1)
    write_run(tmp_path / "net", c, 1.1, 0.5, [0.5] * 4)
    audit = report_paths(tmp_path / "net")
    (line,), unsaid = commands(audit, audit.cases, audit.runs)
    assert (unsaid, line[line.index("heads=2") - 1]) == ([], "--net-option")
    write_run(tmp_path / "odd", config(probe_images=77), 1.1, 0.5, [0.5] * 3)
    assert "The command line has no option for probe_images=77" in tree(page(report_paths(tmp_path / "odd"))).words


def test_oracle_the_commands_train_the_same_configs():
    results = Path(__file__).parents[2] / "results"
    audit = report_paths(results)
    lines, unsaid = commands(audit, audit.cases, audit.runs)
    assert unsaid == []
    trained = sorted(found for line in lines for found in configs_of(line))
    assert trained == sorted(run.config.hash() for run in audit.runs)


def audit_of(audit: Audit, cases: list[Case], **changes: Any) -> Audit:
    """An audit of these cases."""
    changed = audit.changed(subjects=[case.judgement for case in cases], **changes)
    return changed.with_records(cases=cases, runs=audit.runs, control_cases=audit.control_cases, source=audit.source)


def test_oracle_the_command_of_an_audit_trains_all_its_runs(tmp_path):
    planned = audit_plan(["fa", "dfa"], **usual("mnist1d", {"seeds": [5, 6], "epochs": 2, "data": "mnist1d"}))
    for c in planned:
        write_run(tmp_path, c, 1.1, 0.5, [0.5] * max(1, c.net_options["depth"])) if c.net_options["depth"] else None
    audit = report_paths(tmp_path)
    wanted = [case for case in audit.cases if case.name in ("fa", "dfa")]
    assert len(audit.controls) == 3
    (line,), unsaid = commands(audit, wanted, audit.runs)
    assert unsaid == []
    assert sorted(configs_of(line)) == sorted(c.hash() for c in planned)
    assert "--seeds 5,6" in shlex.join(line)


# --- controls -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def controlled(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("controlled") / "runs", seeds=5, epochs=2, controls=True)


@pytest.fixture
def own_runs(tmp_path):
    return write_runs(tmp_path / "runs", seeds=2, epochs=2)


def test_controls_among_the_runs_are_shown(controlled):
    audit = report_paths(controlled)
    assert audit.valid is True
    assert [case.name for case in audit.cases] == ["bp", "dfa", "fa"]
    assert [case.name for case in audit.control_cases] == ["random"]
    root = tree(page(audit))
    assert rows(root, "The controls") == [
        ["bp", "gains by depth, Γ even", "gains by depth, Γ even", "✓ as expected"],
        ["random", "neither holds nor even", "accuracy walked back, Γ chance", "✓ as expected"],
        ["a net at init", "measurable", "measurable", "✓ as expected"],
    ]
    assert "Valid: all 3 controls behaved. bp: gains by depth, Γ even; random: " in root.all("header")[0].words
    assert "not controlled" not in root.words
    assert "Trained as controls only, and what the checks say of them:" in root.words


def test_an_invalid_audit_says_so_at_the_top_and_strikes_every_answer_through(tmp_path):
    write_runs(tmp_path, seeds=5, epochs=2, controls=True)
    for path in tmp_path.glob("*bp_shallow*"):
        shutil.rmtree(path)
    audit = report_paths(tmp_path)
    assert audit.valid is False
    root = tree(page(audit))
    header = root.all("header")[0].words
    assert header.startswith("walkback audit This audit is invalid: its verdicts do not count. bp: expected ")
    (table,) = [t for t in root.all("table") if t.all("caption")[0].words == "The answers, most serious first"]
    for tr in [row for body in table.all("tbody") for row in body.all("tr")]:
        assert len(tr.all("s")) == tr.words.count("does not count") == 3  # accuracy, lower half and Γ
    assert not [n for n in root.all("strong") if n.attributes["class"] in ("verdict v-holds", "verdict v-even")]


def test_a_subject_without_controls_has_a_badge_and_no_other_has(controlled, tmp_path):
    alone = write_run(tmp_path, config("dfa", 1, 7), 5.0, 0.3, [0.4] * 3)  # more epochs: another setting
    audit = report_paths(controlled, alone)
    assert (audit.valid, audit.not_controlled) == (None, ["dfa · 7 epochs"])
    root = tree(page(audit))
    for name, accuracy, *_ in rows(root, "The answers, most serious first"):
        assert ("not controlled" in accuracy) == (name == "dfa · 7 epochs")
    assert "Some subjects are not controlled. Every control behaved as expected. Not" in root.all("header")[0].words
    assert len(rows(root, "The controls")) == 3
    assert not root.all("s")  # each answer stands


def test_an_audit_without_its_runs_is_shown_as_it_was_judged(runs, tmp_path):
    controls = [Control(name=name, expected="holds", got="holds", ok=True) for name in ("bp", "random", "init", "x")]
    demo = tmp_path / "demo"
    judged = judge_paths(runs)
    subjects = [subject for subject in judged.subjects if subject.name != "bp"]
    judged.changed(valid=True, not_controlled=[], controls=controls, subjects=subjects).write(demo)
    root = tree(page(report_paths(demo)))
    answers = rows(root, "The answers, most serious first")
    assert [(row[0], row[1].partition("0.")[0]) for row in answers] == [
        ("dfa", "✗ walked back"),
        ("fa", "✗ walked back"),
    ]
    depth = [n for n in root.all("svg") if "over the shallow net: " in n.attributes.get("aria-label", "")]
    assert len(depth) == 2  # the gains that were judged by are in the audit, with their intervals
    assert len(rows(root, "The controls")) == 4
    assert "the records are not here, only what was judged of them" in root.words
    gaps = rows(root, "What is missing or odd, and why")
    assert [row[-1] for row in gaps if "Only the judgement is here" in row[2]] == ["all"]
    with pytest.raises(WalkbackError, match="cannot be judged again"):
        report_paths(demo, protocol="published")


def test_the_intervals_on_the_page_are_those_that_judged_and_are_not_computed_again(runs):
    audit = report_paths(runs)
    (fa,) = [case for case in audit.cases if case.name == "fa"]
    other = Interval(value=-0.0123, low=-0.0456, high=0.0321)
    findings = [
        f.changed(parts=f.parts | {"shallow": other}) if f.check == "depth" else f for f in fa.judgement.findings
    ]
    changed = replace(fa, judgement=fa.judgement.changed(findings=findings))
    words = page(audit_of(audit, [changed]))
    assert "over the shallow net: −1.2 (−4.6 to +3.2)" in words  # the figure of depth
    assert "the shallow net: −1.2 points (−4.6 to +3.2)" in words  # the first screen
    assert "fa over shallow: -1.2" in words or "fa over shallow: −1.2" in words  # what the audit adds


# --- what is missing ------------------------------------------------------------------------------------------------


def judged(*evidences: Evidence, protocol: Protocol = "ours") -> Audit:
    return audit_subjects([Subject(each.name, each) for each in evidences], DEFAULT, protocol)


def drawn_places(root: Node) -> list[str]:
    """Everything that says where something is drawn."""
    return [
        value for n in root.everything() for key, value in n.attributes.items()
        if key in ("d", "x", "y", "width", "height", "viewbox") and n.name != "meta"
    ]  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(
    st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.5, 0.9]), st.sampled_from([1, 2, 7]),
    st.sampled_from(["ours", "published"]),
)  # fmt: skip
def test_property_whatever_is_missing_the_page_is_whole_and_draws_no_nan(number, share, count, protocol):
    """Evidence drawn at random, not-finite values among it, with parts dropped at random."""
    dice = random.Random(number)
    evidences = [part_of(drawn_evidence(dice), dice, share) for _ in range(count)]
    root = tree(page(judged(*evidences, protocol=protocol)))
    for place in drawn_places(root):
        assert not re.search(r"nan|inf|e[+-]", place, re.I), place
    assert rows(root, "What is missing or odd, and why")
    assert len(rows(root, "Subjects and checks")) == count
    names = [row[0] for row in rows(root, "Subjects and checks")]
    assert len(set(names)) == count  # however alike they were, their names differ


def test_what_has_no_place_in_a_figure_leaves_a_gap_and_a_reason():
    norms = [[9.0, 9.5], [9.0, 12.0], [9.0, math.nan], [9.0, 30.0], [9.0, 40.0]]
    moments = [Moment(epoch=n, accuracy=0.1 * n, hidden_norms=h, reference_batch=128) for n, h in enumerate(norms)]
    root = tree(page(judged(Evidence(name="x", residual=True, seeds=[Training(seed=1, moments=moments)]))))
    (chart,) = [n for n in root.all("svg") if n.attributes.get("aria-label", "").startswith("‖h_L‖ by epoch")]
    lines = [n.attributes["d"].count("L") for n in chart.everything() if n.attributes.get("class") == "mean"]
    assert lines == [1, 1]  # two pieces of two points: the third moment is drawn nowhere
    gaps = {row[0]: row[1:] for row in rows(root, "What is missing or odd, and why")}
    assert gaps["curve of ‖hL‖"][:1] == ["in part"]
    assert "1 of these values are not drawn: not finite" in gaps["curve of ‖hL‖"][1]
    assert gaps["curve of Γ"] == ["missing", "No moment has it.", "x"]
    assert gaps["baselines"][0] == "missing"
    moment = Moment(epoch=1, gradient_norms=[1e-9, 1e-9])
    root = tree(page(judged(Evidence(name="x", seeds=[Training(seed=1, moments=[moment])]))))
    assert "published floor 10" not in " ".join(n.words for n in root.all("text"))
    assert "at a batch that is not known: it cannot be held against the published floor" in root.words
    gaps = {row[0]: row[1:] for row in rows(root, "What is missing or odd, and why")}
    assert gaps["curve of ‖gL‖"] == ["missing", "The batch of its norms is not known.", "x"]


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e300, 1.7e308])
def test_numbers_at_the_ends_of_floats_are_no_trouble(value):
    norms = [1.0, value, 5e-324, 1.7e308]
    moment = Moment(epoch=1, accuracy=0.5, hidden_norms=norms, gradient_norms=norms, reference_batch=1, gamma=0.5)
    seeds = [Training(seed=seed, moments=[moment]) for seed in (1, 2)]
    root = tree(page(judged(Evidence(name="x", residual=True, seeds=seeds))))
    assert not any(re.search(r"nan|inf", place) for place in drawn_places(root))


# --- strangers ------------------------------------------------------------------------------------------------------


def hostile_audit(tmp_path: Path) -> Audit:
    """Every text that a stranger may choose, hostile: names, notes, a rule's path, an environment, thresholds."""
    evil = HOSTILE[0]
    table = {name: Threshold(value=one.value, who=HOSTILE[1], calibrated=HOSTILE[5], same_answer=one.same_answer)
             for name, one in DEFAULT.table.items()}  # fmt: skip
    thresholds = Thresholds(version=evil, table=table)
    out = tmp_path / "runs"
    sitting = {key: HOSTILE[n] for n, key in enumerate(("walkback", "commit", "python", "torch", "platform", "cpu"))}
    for seed in (1, 2):
        write_run(out, config(f"/x/{evil}.py:R", seed), 200.0, 0.3, [0.4, 0.0, 0.0], **sitting)
        write_run(out, config("dfa", seed, data=HOSTILE[4], rule_options={HOSTILE[2]: HOSTILE[1]}), 2.0, 0.3, [0.4] * 3)
    ours = report_paths(out, thresholds=thresholds, source=[evil, HOSTILE[6].encode(errors="replace").decode()])
    cosines = [Cosine(value=math.nan, alive=0, total=1, status=evil)] * 2
    moments = [Moment(epoch=e, accuracy=0.2, hidden_norms=[9.0, 9.0, 1e6], cosine=cosines) for e in (0, 1)]
    foreign = [
        Evidence(name=name, rule=name, residual=True, notes=HOSTILE, seeds=[Training(moments=moments)])
        for name in HOSTILE
    ]
    cases = [*ours.cases, *(Case(judge(e, thresholds), Subject(e.name, e), counts=False) for e in foreign)]
    controls = [Control(name=evil, expected=HOSTILE[1], got=HOSTILE[5], ok=False)]
    audit = audit_of(ours, cases, says=evil, valid=False, controls=controls)
    return audit.with_records(control_cases=ours.cases[:1])


def test_strangers_words_stay_words(tmp_path):
    text = page(hostile_audit(tmp_path))
    root = tree(text)
    ours = {"html", "head", "body", "meta", "title", "link", "style", "script", "a", "header", "nav", "main", "footer",
            "section", "article", "h1", "h2", "h3", "h4", "p", "ul", "li", "bdi", "b", "i", "sub", "strong", "span",
            "div", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption",
            "details", "summary", "pre", "code", "svg", "g", "path", "rect", "text", "tspan", "s",
            "small", ""}  # fmt: skip
    assert {n.name for n in root.everything()} <= ours
    assert [len(root.all(name)) for name in ("script", "style", "title")][:2] == [1, 1]
    assert not any(key.startswith("on") or key == "style" for n in root.everything() for key in n.attributes)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]", text
    )
    assert "</script><img src=x onerror=alert(1)>" in root.words
    assert '"><svg onload=alert(2)>' in root.words
    assert max(len(n.words) for n in root.all("bdi")) <= 600
    assert len(text.encode()) < 2_000_000
    text.encode()


# --- many subjects --------------------------------------------------------------------------------------------------


def test_a_page_shows_the_most_serious_subjects(controlled, monkeypatch):
    audit = report_paths(controlled)
    monkeypatch.setattr(view, "SHOWN", 1)
    root = tree(page(audit))
    assert [row[0] for row in rows(root, "Subjects and checks")] == ["dfa"]  # the first of those walked back
    assert root.all("h1")[0].words == "Audit of 3 subjects"
    assert "This page shows 1 of them, the most serious. walkback table --format csv has all of them" in root.words
    folders = [row[0] for row in rows(root, "All 50 runs behind this page")]  # dfa, random, and their baselines
    assert len(set(folders)) == 50 < len(audit.runs) == 65
    assert not any("-fa-" in folder for folder in folders)


def test_second_implementation_beside_the_curves_the_ends_of_each_training_are_enough(text, runs, monkeypatch):
    """And the same records give the same bytes."""
    audit = report_paths(runs, source=["runs"])
    assert page(audit) == text
    monkeypatch.setattr(view, "_ends", lambda case: case)
    assert page(audit) == text


# --- size, time, errors ---------------------------------------------------------------------------------------------


def test_twenty_subjects_of_a_hundred_epochs_are_a_small_page_soon_written(tmp_path):
    audit = report_paths(write_many(tmp_path / "runs"))
    assert len(audit.cases) == 20
    began = time.process_time()
    path = write_page(audit, tmp_path / "report.html")
    assert time.process_time() - began < 3
    assert path.stat().st_size < 2_000_000
    root = tree(path.read_text())
    assert len(root.all("div", class_="four")) == 20  # the curves of each
    assert all(n.name == "details" for n in root.everything() if n.attributes.get("class") == "subject")
    assert all(n.attributes.get("data-place") for n in root.all("details", class_="subject"))


NO_TOKENS = pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens")


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str]:
    monkeypatch.setattr("sys.argv", ["walkback", *words])
    with pytest.raises(SystemExit) as end:
        main()
    output = capsys.readouterr()
    assert "Traceback" not in output.err
    return int(end.value.code or 0), output.out + output.err


@NO_TOKENS
def test_the_command_writes_the_page_and_says_where(own_runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, monkeypatch, "report", "runs") == (0, "Page in report.html\n")
    assert "walkback report runs" in tree((tmp_path / "report.html").read_text()).words
    log = {"config": {"eval_batch": 128}, "dfa_log": [{"epoch": 1, "hidden_norms": [9.0, 9e3], "acc_eval": 0.3}]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    words = ["report", "runs", "log.json", "--to", "new/both.html", "--frozen", "0.349", "--protocol", "published"]
    assert run(capsys, monkeypatch, *words) == (0, "Page in new/both.html\n")
    found = tree((tmp_path / "new/both.html").read_text())
    assert len(rows(found, "Verdicts, most serious first")) == 4
    assert "walkback report runs log.json --frozen 0.349 --protocol published" in found.words


@NO_TOKENS
def test_errors_name_the_cause_and_the_remedy(own_runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    damaged = {
        "torn": b'{"schema": "walkback.aud', "other": b'{"schema": "walkback.audit/9"}', "bytes": b"{\xff",
        "half": b'{"schema": "walkback.audit/3", "valid": true}',
        "older": b'{"schema": "walkback.audit/2", "valid": true}',
    }  # fmt: skip
    for name, content in damaged.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "audit.json").write_bytes(content)
    cases = [
        (["nowhere"], "cannot read nowhere", "name a file that exists"),
        (["empty"], "no runs in empty", "give a folder that `walkback train` made"),
        ([], "no path is given", "give an audit.json, run folders, or log files"),
        (["torn"], "torn/audit.json is not valid JSON", "give the command that wrote it again"),
        (["other"], "other/audit.json has schema walkback.audit/9", "upgrade walkback"),
        (["older"], "older/audit.json is an audit of an older walkback", "judge its runs again"),
        (["half"], "half/audit.json: says: it is missing", "give the command that wrote it again"),
        (["bytes"], "bytes/audit.json is not valid JSON (byte 1 is not UTF-8)", "give the command that wrote it again"),
        (["runs", "--to", "empty"], "cannot write empty: it is a folder", "name a file inside that folder"),
        (["runs", "--to", "file/x.html"], "cannot write file: File exists", "choose another place with --out or --to"),
        (["runs", "--frozen", "34.9"], "--frozen 34.9 is not an accuracy", "divide a percentage by 100"),
        (["runs", "--thresholds", "no.toml"], "cannot read no.toml", "name a file that exists"),
    ]
    for words, cause, remedy in cases:
        status, output = run(capsys, monkeypatch, "report", *words)
        assert status == 2, (words, output)
        assert cause in output, (words, output)
        assert remedy in output, (words, output)
    assert not list(tmp_path.glob("**/.*part"))
