"""The house: the map in CONTRIBUTING.md against the import contract, versions, the citation, the wheel."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections import Counter
from pathlib import Path

import pytest

import walkback
from commands import walkback as command
from walkback.checks import CHECKS
from walkback.nets import NETS
from walkback.rules import RULES
from walkback_paper import STUDIES

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()


def layers() -> list[str]:
    """The rooms of the import contract, from the lowest up."""
    (contract,) = PROJECT["tool"]["importlinter"]["contracts"]
    return [layer.removeprefix("walkback.") for layer in reversed(contract["layers"])]


def test_the_map_is_the_import_contract():
    """Every room once, in the order of the contract; and the contract knows every module and folder there is."""
    (picture,) = re.findall(r"```mermaid\n(.*?)```", GUIDE, re.S)
    drawn: list[str] = []
    for line in picture.splitlines()[1:]:
        names = line.split() and [name.strip() for name in line.split("-->")]
        assert not drawn or not names or names[0] == drawn[-1], "the picture is one chain"
        drawn += [name for name in names if name and name not in drawn]
    assert drawn == layers()
    package = ROOT / "src/walkback"
    there = {p.stem for p in package.glob("*.py")} | {p.parent.name for p in package.glob("*/__init__.py")}
    assert there - {"__init__", "__main__"} == set(drawn)


def budgets() -> dict[str, int]:
    """The rooms of CONTRIBUTING.md with their largest number of lines; `shared`: the single modules."""
    return {room: int(most.replace(",", "")) for room, most in re.findall(r"^\| `(\w+)`.*\| ([\d,]+) \|$", GUIDE, re.M)}


def lines_of(*paths: Path) -> int:
    return sum(path.read_text().count("\n") for path in paths)


def test_no_room_has_more_lines_than_its_budget():
    """Documentation and blanks count. Whoever raises a budget says why in the commit."""
    package = ROOT / "src/walkback"
    rooms = {path.parent.name: [*path.parent.rglob("*.py")] for path in package.glob("*/__init__.py")}
    rooms |= {"shared": [*package.glob("*.py")], "paper": [*(ROOT / "paper").rglob("*.py")]}
    sizes = {room: lines_of(*paths) for room, paths in rooms.items()}
    most = budgets()
    assert sizes.keys() == most.keys()
    assert {room: size for room, size in sizes.items() if size > most[room]} == {}


def test_a_module_name_has_one_home():
    """But for the base of a room, so that a name in a message or a traceback is found at once."""
    paths = [*(ROOT / "src/walkback").rglob("*.py"), *(ROOT / "paper/walkback_paper").rglob("*.py")]
    count = Counter(path.stem for path in paths)
    assert {name for name, n in count.items() if n > 1} == {"__init__", "base"}


def test_the_recipes_name_what_is_there():
    """Files, modules and registries that the recipes name."""
    for path in re.findall(r"`(tests/[\w./]+)`", GUIDE):
        assert (ROOT / path).exists(), path
    for module in re.findall(r"`(walkback(?:_paper)?\.[\w.]+)`", GUIDE):
        home = ROOT / ("paper" if module.startswith("walkback_paper") else "src")
        assert (home / (module.replace(".", "/") + ".py")).exists(), module
    from walkback.checks.base import Check, register
    from walkback.nets.base import NETS as OF_NETS
    from walkback.rules.base import RULES as OF_RULES
    from walkback_paper.base import STUDIES as OF_STUDIES

    assert (OF_NETS, OF_RULES, OF_STUDIES) == (NETS, RULES, STUDIES)
    assert callable(register)
    assert all(isinstance(CHECKS.get(name), Check) for name in CHECKS.names())


SOURCES = [*sorted((ROOT / "src/walkback").rglob("*.py")), *sorted((ROOT / "paper").rglob("*.py"))]


def imported(path: Path) -> list[tuple[str, str]]:
    """Every module of ours that a file imports from, wherever in it, and the name that it takes."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
    return [(module, name) for module, name in found if module.partition(".")[0] in ("walkback", "walkback_paper")]


def test_the_paper_imports_public_names_alone():
    """Single modules of walkback, and what the `__init__` of a room lists; it is imported by the commands alone."""
    rooms = {path.parent.name for path in (ROOT / "src/walkback").glob("*/__init__.py")}
    taken = {pair for path in (ROOT / "paper").rglob("*.py") for pair in imported(path) if pair[0] != "walkback_paper"}
    assert len(taken) > 50
    for module, name in taken:
        if module.startswith("walkback_paper."):
            continue
        assert not name.startswith("_"), name
        room = module.removeprefix("walkback").removeprefix(".")
        assert "." not in room, f"{module} is inside a room"
        if not room or room in rooms:
            assert name in importlib.import_module(module).__all__, f"{module} does not offer {name}"
    back = {path.parent.name for path in SOURCES[: -len(list((ROOT / "paper").rglob("*.py")))]
            if any(module.startswith("walkback_paper") for module, _ in imported(path))}  # fmt: skip
    assert back == {"cli"}


def test_without_the_paper_its_commands_say_how_to_get_it(tmp_path):
    """In a process that cannot see it; other commands never need it."""
    code = """
import sys
from importlib.abc import MetaPathFinder
class Absent(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "walkback_paper":
            raise ModuleNotFoundError("No module named 'walkback_paper'", name=name)
sys.meta_path.insert(0, Absent())
from walkback.cli import main
main()
"""
    for words in (["study", "list"], ["study", "run", "ladder"], ["reproduction", str(tmp_path)]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 2
        assert "walkback_paper, which is not installed" in done.stderr
        assert "pip install ./paper" in done.stderr
        assert "Traceback" not in done.stderr
    assert subprocess.run([sys.executable, "-c", code, "list"], capture_output=True, cwd=tmp_path).returncode == 0


def test_the_paper_has_the_version_of_walkback():
    paper = tomllib.loads((ROOT / "paper/pyproject.toml").read_text())["project"]
    assert paper["version"] == walkback.__version__


def test_no_module_has_more_than_four_hundred_lines():
    for path in SOURCES:
        lines = len(path.read_text().splitlines())
        assert lines <= 400, path


def test_a_class_name_has_one_meaning():
    """No two classes of the package have the same name, wherever they stand."""
    homes: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert len(homes) > 100
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


LOST = r"\b(whoever|whomever|hitherto|thereof|thereby|whereby|unto|aforesaid|lest|nought|found wanting|is told)\b"


def test_the_words_are_plain():
    """No archaic turns in code, templates and documents; no variable that says nothing; no docstring by comparison."""
    texts = [
        *SOURCES,
        *(ROOT / "src/walkback/report/page").glob("*.j*"),
        *(ROOT / "docs").glob("*.md"),
        ROOT / "README.md",
    ]
    odd = [f"{path.name}: {found[0]}" for path in texts for found in re.finditer(LOST, path.read_text(), re.I)]
    for path in SOURCES:
        odd += [f"{path.name}: {found[0]}" for found in re.finditer(
            r'\b(told|said|there|those|theirs|mine) = |"""The same\b', path.read_text())]  # fmt: skip
    assert odd == []


def test_one_version():
    """The package, the citation and the changes agree; the command says it, with the commit in a source tree."""
    said = command("--version", cwd=ROOT).stdout.strip()
    assert re.fullmatch(rf"{re.escape(walkback.__version__)}( \(commit [0-9a-f]{{12}}(-dirty)?\))?", said), said
    assert f"\nversion: {walkback.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## ([\d.]+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == walkback.__version__
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "walkback.version.__version__"}


def test_the_commit_is_that_of_the_source_tree():
    from walkback.version import own_commit

    if own_commit() is not None:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        assert head.stdout.startswith(own_commit().removesuffix("-dirty"))


def test_the_citation_is_one():
    """CITATION.cff, the README and the reports cite the same paper."""
    from walkback_paper.published import CITATION

    plain = " ".join(CITATION.replace("*", "").split())
    title, number = plain.partition(": ")[2].rsplit(", ", 1)
    for name in ("CITATION.cff", "README.md"):
        text = " ".join((ROOT / name).read_text().replace("*", "").split())
        assert title in text, name
        assert number in text, name


def test_the_pythons_are_those_of_the_classifiers():
    ours = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert ours == ["3.11", "3.12", "3.13"]
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in ours


@pytest.mark.slow
def test_the_wheel_audits_in_a_fresh_environment(tmp_path):
    """Built, installed beside nothing of ours, run where the source is not: the audit ends with its page."""
    source = tmp_path / "source"
    ignore = shutil.ignore_patterns(".git", ".venv", "build", "dist", "site", "runs", "results", "*.egg-info")
    shutil.copytree(ROOT, source, ignore=ignore)
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.rmtree(source)
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    clean |= {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "UV_"))}
    install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(install, check=True, env=clean, cwd=tmp_path)
    walk = str(tmp_path / "env/bin/walkback")
    said = subprocess.run([walk, "--version"], check=True, env=clean, cwd=tmp_path, capture_output=True, text=True)
    assert said.stdout.strip() == walkback.__version__
    words = ["audit", "--rules", "dfa", "--seeds", "2", "--epochs", "1", "--width", "16", "--jobs", "1"]
    done = subprocess.run([walk, *words], env=clean, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dfa" in done.stdout
    page = (tmp_path / "runs/report.html").read_text()
    assert "<style>" in page
    assert len(page) > 50_000
    drawn = subprocess.run([walk, "table", "runs"], env=clean, cwd=tmp_path, capture_output=True, text=True)
    assert drawn.returncode == 0, drawn.stderr
