"""LaTeX that compiles whatever it is given: words escaped, signs and sizes as mathematics, tables by booktabs.

What comes out is ASCII, so it needs no input encoding. A character that we have no LaTeX for is shown by its code.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from walkback.report.writing import COMMAND

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
ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip
SIZE = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
SYMBOL = r"(?<![\w\\])[A-Za-z" + "".join(GREEK) + r"]_(?:\{[A-Za-z0-9+−-]{1,8}\}|[A-Za-z0-9](?!\w))"
ATOM = re.compile(rf"{SYMBOL}|[{''.join(map(re.escape, MATHS))}]", re.ASCII)
PARTS = re.compile(
    rf"`(?P<command>{COMMAND})`|(?P<maths>(?:{ATOM.pattern})+)|(?P<hyphens>--+)"
    rf"|(?P<number>(?<![\w.])[+−-]?{SIZE}(?P<spread> ± {SIZE})?(?!\w|\.\d))|(?P<one>.)",
    re.DOTALL | re.ASCII,
)
BEGIN, END = "\x0e", "\x0f"  # of mathematics, until neighbours are joined: `$$` would begin a display
DEFINED = {  # what we use and LaTeX may not have; an author's own, or a package's, is kept
    r"\checkmark": r"\providecommand{\checkmark}{\ensuremath{\surd}}",
    r"\xmark": r"\providecommand{\xmark}{\textsf{\textbf{x}}}",
}


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
    parts = "".join(_part(found, numbers) for found in PARTS.finditer(" ".join(text.split())))
    return parts.replace(f"{END}{BEGIN}", " ").replace(BEGIN, "$").replace(END, "$")


def _part(found: re.Match[str], numbers: bool) -> str:
    if found["command"]:
        return rf"\texttt{{{found['command']}}}"
    if found["maths"]:
        return f"{BEGIN}{' '.join(map(_symbol, ATOM.findall(found['maths'])))}{END}"
    if found["hyphens"]:
        return "{}".join(found["hyphens"])  # they do not join to a dash
    if found["number"] and (numbers or re.search(r"[+−e±-]", found["number"])):
        sizes = map(_number, found["number"].replace("−", "-").split(" ± "))
        return BEGIN + r" \pm ".join(sizes) + END
    if found["number"]:
        return found["number"]
    return WORDS.get(found["one"]) or _character(found["one"])


def _symbol(text: str) -> str:
    """A sign, or a letter with its index."""
    letter, _, below = text.partition("_")
    index = f"_{{{below.strip('{}').replace('−', '-')}}}" if below else ""
    return MATHS.get(letter, letter) + index


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


# --- tables ---------------------------------------------------------------------------------------------------------

LONG = 40  # letters of a column of words; of a longer one the lines are broken
WIDE = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"  # scaled down where it is too wide


def tabular(headings: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[str]) -> str:
    """Escaped cells between booktabs' rules. `columns`: l, r, or p with lines that are broken."""
    kinds = ["p{0.35\\linewidth}" if column == "p" else column for column in columns]
    lines = [
        " & ".join(rf"\raggedright {c}" if k == "p" else c for c, k in zip(cells, columns, strict=True))
        for cells in (headings, *rows)
    ]
    top, *body = [rf"{line} \tabularnewline" for line in lines]
    begin = rf"\begin{{tabular}}{{{''.join(kinds)}}}"
    return "\n".join([WIDE, begin, r"\toprule", top, r"\midrule", *body, r"\bottomrule", r"\end{tabular}}"])


def below(notes: Sequence[str]) -> list[str]:
    """Words as paragraphs under a table."""
    paragraphs = "\\par\n".join(map(escape, notes))
    return [r"\par\smallskip", r"\parbox{\linewidth}{\footnotesize\raggedright", paragraphs + "}"] if notes else []


def preamble(*pieces: str) -> list[str]:
    """What some pieces need of the document that they are put in."""
    needs = r"% In the preamble: \usepackage{booktabs,graphicx}"
    return [needs, *(words for command, words in DEFINED.items() if any(command in piece for piece in pieces))]


def line(length: str) -> str:
    """A blank to fill in by hand."""
    return rf"\rule{{{length}}}{{0.4pt}}"


def label(name: str) -> str:
    """A name that can be referred to."""
    return "tab:" + (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "table")
