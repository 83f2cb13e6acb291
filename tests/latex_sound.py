"""LaTeX looked at without LaTeX, for what must hold if it is to compile whatever names it holds; and compiled."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

STRUCTURE = """
begin end section subsection item caption label centering par parbox linewidth raggedright resizebox usepackage
providecommand ensuremath setlength tabcolsep itemsep parskip medskip smallskip noindent rule small footnotesize
ifdim else fi width toprule midrule bottomrule tabularnewline textbf textsf texttt
"""
WORDS = """
textbackslash textasciicircum textasciitilde textless textgreater textbar ldots checkmark xmark o O ae AE oe ss l L i j
u r H v c
"""
MATHS = """
pm times cdot surd infty leq geq approx neq to nabla ell in langle rangle partial circ alpha beta gamma delta epsilon
zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi
Omega
"""
KNOWN = {*STRUCTURE.split(), *WORDS.split(), *MATHS.split()}
ENVIRONMENTS = {"table", "tabular", "description"}
TOKEN = re.compile(r"\\([A-Za-z]+)\*?|\\(.)|([{}$&#%~^_])|(\n\s*\n)", re.DOTALL)


def sound(piece: str) -> None:
    """ASCII, known commands, braces and environments that close, mathematics that ends, nothing special in words."""
    assert piece.isascii()
    body = "\n".join(line for line in piece.splitlines() if not line.startswith("% In the preamble: "))
    body = body.replace("{%\n", "{\n")  # the one comment that we write ourselves
    opened: list[str] = []
    maths = False
    for found in TOKEN.finditer(body):
        command, sign, special, _ = found.groups()
        if command in ("begin", "end"):
            name = re.match(r"\{([a-z]+)\}", body[found.end() :])
            assert name is not None
            assert name[1] in ENVIRONMENTS
            if command == "begin":
                opened.append(name[1])
            else:
                assert opened.pop() == name[1]
        elif command:
            assert command in KNOWN, command
        elif sign:
            assert sign in "{}$&#%_\\|'`^\"~=.", sign
        elif special == "{":
            opened.append("{")
        elif special == "}":
            assert opened.pop() == "{"
        elif special == "$":
            maths = not maths
        elif special in ("^", "_"):
            assert maths, body[max(0, found.start() - 40) : found.end() + 20]
        elif special == "&":
            assert "tabular" in opened
            assert not maths
        elif special:
            raise AssertionError(f"{special} stands alone: {body[max(0, found.start() - 40) : found.end() + 20]}")
    assert not opened
    assert not maths


def compiles(pieces: list[str], folder: Path) -> str:
    """What pdflatex says of a document with these pieces; fails if it does not compile, skips where it is not here."""
    if shutil.which("pdflatex") is None:
        if os.environ.get("WALKBACK_LATEX", "").strip() == "required":
            pytest.fail("WALKBACK_LATEX=required, and there is no pdflatex: make latex")
        pytest.skip("there is no pdflatex here; `make latex` installs it")
    for number, piece in enumerate(pieces):
        (folder / f"piece{number}.tex").write_text(piece, encoding="ascii")
    inputs = "\n".join(rf"\input{{piece{n}}}\clearpage" for n in range(len(pieces)))
    head = r"\documentclass{article}\usepackage[utf8]{inputenc}\usepackage{booktabs,graphicx}\pagestyle{empty}"
    (folder / "all.tex").write_text(f"{head}\n\\begin{{document}}\n{inputs}\n\\end{{document}}\n")
    command = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    output = done.stdout.decode(errors="replace")
    assert done.returncode == 0, output[-3000:]
    assert (folder / "all.pdf").read_bytes().startswith(b"%PDF")
    return output
