"""A rule in words, from its docstring. A rule in a file is read and never run: a record may name anybody's file."""

import ast
import hashlib
import inspect
import re
import tokenize
from pathlib import Path

from walkback.errors import UnknownName
from walkback.own import in_file
from walkback.rules.base import RULES, rule_source


def rule_words(name: str, source: str | None = None) -> dict[str, str]:
    """The docstring of a rule in parts. `source`, the hash in a run's config, must match the rule's current source.

    >>> rule_words("dfa")["embedding"]
    'a_0, the same credit as block 0'
    """
    doc, here = _read(name) if in_file(name) else (RULES.get(name).__doc__, rule_source(name))
    if here != source:
        raise UnknownName("the rule has changed since the run", "fill it in by hand")
    if not doc or not doc.strip():
        raise UnknownName("the rule has no docstring", "write one that states its formula")
    return split(doc)


def split(doc: str) -> dict[str, str]:
    """A docstring in parts: after the first paragraph, each line is a word, two or more blanks, and a text.

    Added are `summary`, the first paragraph, and `text`, the whole on one line.

    >>> split("Noise.\\n\\n    credit   fresh\\n             every step\\n    readout  none")["credit"]
    'fresh every step'
    """
    first, _, rest = inspect.cleandoc(doc).partition("\n\n")
    parts: dict[str, str] = {}
    last = None
    for line in inspect.cleandoc(rest).splitlines():
        if part := re.fullmatch(r"([a-z_]+) {2,}(\S.*)", line):
            last = part[1]
            parts[last] = part[2].strip()
        elif last is not None and line.startswith("    "):
            parts[last] += f" {line.strip()}"
        else:
            last = None
    return parts | {"summary": " ".join(first.split()), "text": " ".join(doc.split())}


def _read(name: str) -> tuple[str | None, str | None]:
    """The docstring of a class in a file, and the hash of the file, as `rule_source` takes it."""
    place, _, wanted = name.partition(":")
    path = Path(place)
    if not path.is_file():
        raise UnknownName(f"its file {path.name} is not here", "give the command in the folder where it was trained")
    try:
        with tokenize.open(path) as file:
            text = file.read()
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        raise UnknownName(f"its file {path.name} cannot be read", "fix the file") from None
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if not wanted and len(classes) == 1:
        wanted = next(iter(classes))
    if wanted not in classes:
        raise UnknownName(f"its file {path.name} has no class {wanted}", "fix the file")
    whole = text if text.endswith("\n") else f"{text}\n"
    return ast.get_docstring(classes[wanted]), hashlib.sha256(whole.encode()).hexdigest()[:16]
