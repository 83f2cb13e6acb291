"""LaTeX that compiles whatever it is given: words escaped, signs and sizes as mathematics, tables by booktabs.

What comes out is ASCII, so it needs no input encoding. A character that we have no LaTeX for is shown by its code.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from walkback.report.harmless import COMMAND

WORDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "`": "{`}",
    "[": "{[}", "]": "{]}", "*": "{*}",  # after the end of a row these would be an option of it
    "–": "--", "—": "---", "…": r"\ldots{}", "‘": "{`}", "’": "'", "“": "{``}", "”": "''", "�": "?",
    "✓": r"\checkmark{}", "✗": r"\xmark{}",
    "ø": r"\o{}", "Ø": r"\O{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "ß": r"\ss{}", "ł": r"\l{}", "Ł": r"\L{}",
}  # fmt: skip
SIGNS = {
    "‖": r"\|", "∂": r"\partial", "±": r"\pm", "−": "-", "×": r"\times", "·": r"\cdot", "√": r"\surd", "∞": r"\infty",
    "≤": r"\leq", "≥": r"\geq", "≈": r"\approx", "≠": r"\neq", "→": r"\to", "∇": r"\nabla", "ℓ": r"\ell", "∈": r"\in",
    "⟨": r"\langle", "⟩": r"\rangle", "Σ": r"\Sigma", "°": r"{}^{\circ}",
}  # fmt: skip
GREEK = {
    letter: "\\" + name
    for letters, names in (
        ("αβγδεζηθκλμ", "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu"),
        ("νξπρστφχψω", "nu xi pi rho sigma tau phi chi psi omega"),
        ("ΓΔΘΛΞΠΦΨΩ", "Gamma Delta Theta Lambda Xi Pi Phi Psi Omega"),
    )
    for letter, name in zip(letters, names.split(), strict=True)
}  # fmt: skip
RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿᵀˢ", "0123456789+-nTs", strict=True))
MATHS = SIGNS | GREEK | {sign: f"{{}}^{{{plain}}}" for sign, plain in RAISED.items()}
BETWEEN = {MATHS[sign] for sign in "±−×·≤≥≈≠→∈"}  # they stand between two things, with the blanks around them
ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip
SIZE = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
PARTS = re.compile(
    rf"`(?P<command>{COMMAND})`"
    r"|(?P<symbol>(?<![\w\\])[A-Za-z" + "".join(GREEK) + r"]_(?:\{[A-Za-z0-9+−-]{1,8}\}|[A-Za-z0-9](?!\w)))"
    rf"|(?P<number>(?<![\w.])[+−-]?{SIZE}(?P<spread> ± {SIZE})?(?!\w|\.\d))"
    r"|(?P<one>.)",
    re.DOTALL | re.ASCII,
)
DEFINED = {  # what we use and LaTeX may not have; an author's own, or a package's, is kept
    r"\checkmark": r"\providecommand{\checkmark}{\ensuremath{\surd}}",
    r"\xmark": r"\providecommand{\xmark}{\textsf{\textbf{x}}}",
}


class Part(NamedTuple):
    """A stretch of LaTeX, and whether it is mathematics."""

    maths: bool
    latex: str


@lru_cache(maxsize=1024)  # the forms of one audit say much the same
def escape(text: str, numbers: bool = False) -> str:
    r"""Words as LaTeX. Symbols (h_L, ‖, Γ) and numbers with a sign or a power of ten are mathematics; or all numbers.

    >>> print(escape("‖h_L‖ 50% of my_rule, -2.4, 4.2e-09"))
    $\| h_{L} \|$ 50\% of my\_rule, $-2.4$, $4.2\times10^{-9}$
    >>> print(escape("0.614 ± 0.004 (n = 3)"))
    $0.614 \pm 0.004$ (n = 3)
    >>> print(escape(r"\input{/etc/passwd}"))
    \textbackslash{}input\{/etc/passwd\}
    """
    return "".join(f"${p.latex}$" if p.maths else p.latex for p in _joined(_parts(" ".join(text.split()), numbers)))


def _parts(text: str, numbers: bool) -> Iterator[Part]:
    for found in PARTS.finditer(text):
        if found["command"]:
            yield Part(False, rf"\texttt{{{found['command']}}}")
        elif found["symbol"]:
            letter, _, below = found["symbol"].partition("_")
            yield Part(True, f"{MATHS.get(letter, letter)}_{{{below.strip('{}').replace('−', '-')}}}")
        elif found["number"] and (numbers or re.search(r"[+−e±-]", found["number"])):
            yield Part(True, r" \pm ".join(map(_number, found["number"].replace("−", "-").split(" ± "))))
        elif found["number"]:
            yield Part(False, found["number"])
        elif found["one"] in MATHS:
            yield Part(True, MATHS[found["one"]])
        else:
            yield Part(False, WORDS.get(found["one"]) or _character(found["one"]))


def _number(text: str) -> str:
    """4.2e-09 as a power of ten; without its factor where that is 1."""
    factor, power, exponent = text.partition("e")
    if not power:
        return factor
    ten = f"10^{{{int(exponent)}}}"
    return factor.rstrip("1") + ten if factor in ("1", "+1", "-1") else rf"{factor}\times{ten}"


def _character(c: str) -> str:
    """A letter with its accent; what we do not know by its code."""
    if c.isascii() and c.isprintable():
        return c
    letter, *marks = list(unicodedata.normalize("NFD", c))
    if letter.isascii() and letter.isalpha() and len(marks) == 1 and marks[0] in ACCENTS:
        return rf"\{ACCENTS[marks[0]]}{{{letter if letter not in 'ij' else chr(92) + letter}}}"
    return f"U+{ord(c):04X}"


def _joined(parts: Iterator[Part]) -> list[Part]:
    """Neighbouring mathematics as one, over the blanks beside a sign that stands between; and no hyphens that join."""
    joined: list[Part] = []
    for part in parts:
        if part.maths and len(joined) > 1 and joined[-1].latex == " " and joined[-2].maths:
            before = joined[-2].latex.rpartition(" ")[2]
            if part.latex in BETWEEN or before in BETWEEN:
                joined.pop()
        last = joined[-1] if joined else Part(False, "")
        if part.maths and last.maths:
            joined[-1] = Part(True, f"{last.latex} {part.latex}")
        elif part.latex == "-" and last.latex.endswith("-"):
            joined.append(Part(False, "{}-"))
        else:
            joined.append(part)
    return joined


# --- tables ---------------------------------------------------------------------------------------------------------

LINE = 69  # letters on a line of an article at 10 pt
LONG = 26  # a column of words that is wider may be set on several lines


class Step(NamedTuple):
    """Smaller letters: the command, their size, and the room between two columns in letters of 10 pt."""

    command: str
    size: float
    gap: float

    def room(self, columns: int) -> float:
        """Letters of this size that are left for what the cells say."""
        return (LINE - self.gap * columns) / self.size


CLOSE = r"\footnotesize\setlength{\tabcolsep}{3pt}"
STEPS = (Step("", 1.0, 2.4), Step(r"\small", 0.9, 2.4), Step(r"\footnotesize", 0.8, 2.4), Step(CLOSE, 0.8, 1.2))


class TableFit(NamedTuple):
    """How a table is made to fit: the size of its letters, its columns, and whether it is scaled down as a whole."""

    size: str
    columns: list[str]
    scaled: bool


def layout(widths: Sequence[int], words: Sequence[bool]) -> TableFit:
    """Words to the left, numbers to the right; smaller letters, then broken lines, and scaled where nothing else helps.

    >>> layout([8, 9], [True, False])
    TableFit(size='', columns=['l', 'r'], scaled=False)
    >>> layout([8, 300], [True, True]).columns
    ['l', 'p{0.87\\\\linewidth}']
    """
    columns = ["l" if is_words else "r" for is_words in words]
    for step in STEPS:
        if sum(widths) <= step.room(len(widths)):
            return TableFit(step.command, columns, False)
    last = STEPS[-1]
    long = [place for place, width in enumerate(widths) if words[place] and width > LONG]
    left = last.room(len(widths)) - sum(width for place, width in enumerate(widths) if place not in long)
    if not long or left < 12 * len(long):
        return TableFit(last.command, columns, True)
    for place in long:
        share = widths[place] / sum(widths[other] for other in long)
        columns[place] = rf"p{{{left * share * last.size / LINE:.2f}\linewidth}}"
    return TableFit(last.command, columns, False)


def tabular(lines: Sequence[Sequence[str]], how: TableFit) -> str:
    """Escaped cells, headings first, between booktabs' rules."""

    def row(cells: Sequence[str]) -> str:
        pairs = zip(cells, how.columns, strict=True)
        cells = [rf"\raggedright {cell}" if column.startswith("p") else cell for cell, column in pairs]
        return " & ".join(cells) + r" \tabularnewline"

    headings, *rows = lines
    body = [
        rf"\begin{{tabular}}{{{''.join(how.columns)}}}", r"\toprule", row(headings), r"\midrule",
        *(row(cells) for cells in rows), r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    return "\n".join([r"\resizebox{\linewidth}{!}{%", *body[:-1], body[-1] + "}"] if how.scaled else body)


def below(notes: Sequence[str]) -> list[str]:
    """Escaped notes as paragraphs under a table."""
    if not notes:
        return []
    *first, last = notes
    paragraphs = [*(rf"{note}\par" for note in first), last + "}"]
    return [r"\par\smallskip", r"\parbox{\linewidth}{\footnotesize\raggedright", *paragraphs]


def preamble(*pieces: str) -> list[str]:
    """What some pieces need of the document that they are put in."""

    def used(command: str) -> bool:
        return any(command in piece for piece in pieces)

    packages = ["booktabs", *(["graphicx"] if used(r"\resizebox") else [])]
    needs = f"% In the preamble: \\usepackage{{{','.join(packages)}}}"
    return [needs, *(words for command, words in DEFINED.items() if used(command))]


def width(text: str) -> int:
    """Of a cell, in letters: a power of ten takes more than it has characters.

    >>> width("dfa"), width("4.2e-09")
    (3, 10)
    """
    return len(text) + 3 * len(re.findall(r"\de[+-]\d", text))


def label(name: str) -> str:
    """A name that can be referred to."""
    return "tab:" + (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "table")
