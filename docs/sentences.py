"""Print every sentence that the program can say, room by room: `make sentences`, for review.

Messages, check sentences, help and the docstrings of commands; placeholders are shown as {…}. Docstrings of
the code itself are left out.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACES = (ROOT / "src/walkback", ROOT / "paper/walkback_paper")
WORDS = 3  # fewer are names and headings


def said(node: ast.AST) -> str | None:
    """The text of a literal; of an f-string with its expressions as {name}."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [said(value) if isinstance(value, ast.Constant) else _name(value) for value in node.values]
        return "".join(part or "" for part in parts)
    return None


def _name(value: ast.AST) -> str:
    inner = value.value if isinstance(value, ast.FormattedValue) else value
    text = ast.unparse(inner)
    return "{" + (text if len(text) < 24 else "…") + "}"


def sentences(path: Path) -> list[str]:
    """Those of one file, in their order."""
    tree = ast.parse(path.read_text())
    docstrings, inner = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            command = isinstance(node, ast.FunctionDef) and any("app" in ast.unparse(d) for d in node.decorator_list)
            if not command:
                docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for value in node.values for part in ast.walk(value)}
    found = []
    for node in ast.walk(tree):
        if id(node) in docstrings or id(node) in inner:
            continue
        text = said(node)
        if text and len(text.split()) >= WORDS and any(c.isalpha() for c in text):
            found.append((node.lineno, " ".join(text.split())))  # type: ignore[attr-defined]
    return [text for _, text in sorted(found)]


def main() -> None:
    """All of them, or those of the files named."""
    for path in [Path(name) for name in sys.argv[1:]] or sorted(
        path for place in PLACES for path in place.rglob("*.py")
    ):
        found = sentences(path)
        if found:
            print(f"\n## {path.resolve().relative_to(ROOT)}\n")
            print("\n".join(f"- {text}" for text in dict.fromkeys(found)))


if __name__ == "__main__":
    main()
