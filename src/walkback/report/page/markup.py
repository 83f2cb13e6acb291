"""Text and numbers as the page sets them. What is not `Markup` already is text, and stays text.

Names, notes and paths come from strangers. A text loses every character that is not seen (controls, marks that turn the
direction of writing, halves of characters) before it is escaped, in an element as in an attribute: here for what is
drawn, and by the environment (page/__init__.py) for what templates write.
"""

import re
from collections.abc import Callable, Iterable

from markupsafe import Markup, escape

from walkback.report.writing import clean, clip, number

LEAVES = ("path", "rect")  # of SVG, which closes them itself
THIN = "\N{NARROW NO-BREAK SPACE}"
SUPERSCRIPT = str.maketrans("-+0123456789", "⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹")
TOKEN = re.compile(
    r"(?P<power>(?<![\w.])(?P<mantissa>\d+(?:\.\d+)?)e(?P<exponent>[+-]?\d{1,3})(?!\w))"
    r"|(?P<minus>(?<![\w)\]-])-(?=[.\d]))"
    r"|(?P<percent>(?<=\d) ?%)"
    r"|(?P<letter>(?<![\w-])[afghρ])_(?P<index>\{[^{}]{1,12}\}|[A-Za-z0-9])(?!\w)"
)
LONG = 600  # characters of a stranger's sentence that are shown

Child = str | None
gain: Callable[[float], str] = "{:+.1f}".format  # a gain with its sign, of percentage points


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """An element. `class_` is class, `aria_label` is aria-label; None leaves a child or an attribute out.

    >>> str(tag("p", "a < b", tag("rect", x=2.5), id="x", lang=None))
    '<p id="x">a &lt; b<rect x="2.5"/></p>'
    """
    named = [(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None]
    opened = name + "".join(f' {key}="{escape(clean(shown(value)))}"' for key, value in named)
    inner = join(children)
    return Markup(f"<{opened}/>" if name in LEAVES and not inner else f"<{opened}>{inner}</{name}>")


def shown(value: str | float) -> str:
    """An attribute's value; coordinates with one decimal, which is finer than any screen.

    >>> shown(12.04), shown(3.0), shown("a")
    ('12', '3', 'a')
    """
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def join(children: Iterable[Child]) -> Markup:
    """Children one after the other; text among them is escaped."""
    return Markup("").join(c if isinstance(c, Markup) else clean(c) for c in children if c is not None)


def plain(sentence: str) -> str:
    """A sentence with its numbers set: a real minus, powers of ten.

    >>> plain("4.2e-09, -2, 1e-07 and 8.88e+03")
    '4.2\\u202f×\\u202f10⁻⁹, −2, 10⁻⁷ and 8880'
    """

    def put(match: re.Match[str]) -> str:
        if match["letter"] or match["minus"]:
            return "−" if match["minus"] else match[0]
        if match["percent"]:
            return f"{THIN}%"
        if 0 <= int(match["exponent"]) < 5:
            return f"{float(match[0]):.0f}"
        power = "10" + str(int(match["exponent"])).translate(SUPERSCRIPT)
        return power if float(match["mantissa"]) == 1 else f"{match['mantissa']}{THIN}×{THIN}{power}"

    return TOKEN.sub(put, sentence)


def prose(sentence: str) -> Markup:
    """A sentence as markup, its numbers set, with the indices of h_l, g_l, f_l and a_l set below the line.

    >>> str(prose("‖h_{l+1}‖ < 1e-7"))
    '‖<i>h</i><sub>l+1</sub>‖ &lt; 10⁻⁷'
    """
    parts: list[Child] = []
    done = 0
    for match in TOKEN.finditer(sentence):
        if match["letter"]:
            index = match["index"].strip("{}")
            parts += [plain(sentence[done : match.start()]), tag("i", match["letter"]), tag("sub", index)]
            done = match.end()
    return join([*parts, plain(sentence[done:])])


def free(sentence: str, most: int = LONG) -> Markup:
    """A sentence that may be a stranger's: of any length, and perhaps without a space in it."""
    return tag("span", prose(clip(sentence, most)), class_="free")


def num(value: float | None, digits: int = 3) -> str:
    """A number as people read it on a page.

    >>> num(-0.25), num(5e8), num(None), num(float("nan"))
    ('−0.250', '5.0\\u202f×\\u202f10⁸', 'not known', 'NaN')
    """
    return "not known" if value is None else plain(number(value, digits))


def ranged(value: float | None, low: float | None, high: float | None, words: Callable[[float], str]) -> str:
    """A value with the range it comes from.

    >>> ranged(2.0, 1.5, 3.0, gain), ranged(2.0, 2.0, 2.01, gain)
    ('+2.0 (+1.5 to +3.0)', '+2.0')
    """
    if value is None:
        return "not known on every seed"
    ends = [] if low is None or high is None else [words(low), words(high)]
    return words(value) + (f" ({ends[0]} to {ends[1]})" if len(set(ends)) > 1 else "")
