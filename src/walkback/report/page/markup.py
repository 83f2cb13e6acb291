"""Markup for the page, escaped by construction: what is not `Html` already is text, and stays text.

Names, notes and paths come from strangers. A text loses every character that is not seen (controls, marks that turn the
direction of writing, halves of characters) before it is escaped, in an element as in an attribute.
"""

import re
import unicodedata
from collections.abc import Iterable
from html import escape

from walkback.plain import seen
from walkback.report.numbers import number

VOID = frozenset({"br", "col", "hr", "link", "meta"})
LEAVES = frozenset({"circle", "line", "path", "polyline", "rect"})  # of SVG, which closes them itself
THIN = "\N{NARROW NO-BREAK SPACE}"
SUPERSCRIPT = str.maketrans("-+0123456789", "⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹")
TOKEN = re.compile(
    r"(?P<power>(?<![\w.])(?P<mantissa>\d+(?:\.\d+)?)e(?P<exponent>[+-]?\d{1,3})(?!\w))"
    r"|(?P<minus>(?<![\w)\]-])-(?=[.\d]))"
    r"|(?P<percent>(?<=\d)%)"
    r"|(?P<letter>(?<![\w-])[afghρ])_(?P<index>\{[^{}]{1,12}\}|[A-Za-z0-9])(?!\w)"
)


class Html(str):
    """Markup: escaped, and joined without being escaped again."""

    __slots__ = ()


Child = str | None
Value = str | float | None


def clean(content: str) -> str:
    """A stranger's text without what is not seen: a space for white space, � for anything else that does not print.

    >>> clean("a\\u202eb\\nc")
    'a�b c'
    """
    # Blanks of other widths stay: our own numbers are set with them.
    return content if content.isascii() and content.isprintable() else "".join(map(_seen, content))


def _seen(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return character
    return " " if character.isspace() else seen(character)


def text(content: str) -> Html:
    """Text as markup.

    >>> text("<b> & \\"")
    '&lt;b&gt; &amp; &quot;'
    """
    return Html(escape(clean(content)))


def tag(name: str, /, *children: Child, **attributes: Value | bool) -> Html:
    """An element. `class_` is class, `aria_label` is aria-label; None and False leave an attribute out.

    >>> tag("p", "a < b", tag("br"), id="x", hidden=True)
    '<p id="x" hidden>a &lt; b<br></p>'
    """
    opened = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        opened += f" {key.rstrip('_').replace('_', '-')}"
        if value is not True:
            opened += f'="{text(shown(value))}"'
    if name in VOID:
        return Html(f"<{opened}>")
    inner = join(children)
    return Html(f"<{opened}/>" if name in LEAVES and not inner else f"<{opened}>{inner}</{name}>")


def shown(value: str | float) -> str:
    """An attribute's value; coordinates with one decimal, which is finer than any screen.

    >>> shown(12.04), shown(3.0), shown("a")
    ('12', '3', 'a')
    """
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0").replace("-0.0", "0")


def join(children: Iterable[Child], between: str = "") -> Html:
    """Children one after the other; text among them is escaped."""
    parts = [child if isinstance(child, Html) else text(child) for child in children if child is not None]
    return Html(text(between).join(parts))


def plain(sentence: str) -> str:
    """A sentence with its numbers set: a real minus, powers of ten.

    >>> plain("4.2e-09, -2, 1e-07 and 8.88e+03")
    '4.2\\u202f×\\u202f10⁻⁹, −2, 10⁻⁷ and 8880'
    """
    return TOKEN.sub(lambda match: match[0] if match["letter"] else _number(match), sentence)


def _number(match: re.Match[str]) -> str:
    if match["minus"]:
        return "−"
    if match["percent"]:
        return f"{THIN}%"
    if 0 <= int(match["exponent"]) < 5:
        return f"{float(match[0]):.0f}"
    power = "10" + str(int(match["exponent"])).translate(SUPERSCRIPT)
    return power if float(match["mantissa"]) == 1 else f"{match['mantissa']}{THIN}×{THIN}{power}"


def prose(sentence: str) -> Html:
    """The same as markup, with the indices of h_l, g_l, f_l and a_l set below the line.

    >>> prose("‖h_{l+1}‖ < 1e-7")
    '‖<i>h</i><sub>l+1</sub>‖ &lt; 10⁻⁷'
    """
    parts: list[Child] = []
    done = 0
    for match in TOKEN.finditer(sentence):
        parts.append(sentence[done : match.start()])
        if match["letter"]:
            parts += [tag("i", match["letter"]), tag("sub", match["index"].strip("{}"))]
        else:
            parts.append(_number(match))
        done = match.end()
    return join([*parts, sentence[done:]])


def num(value: float | None, digits: int = 3) -> str:
    """A number as people read it on a page.

    >>> num(-0.25), num(5e8), num(None), num(float("nan"))
    ('−0.250', '5.0\\u202f×\\u202f10⁸', 'not known', 'NaN')
    """
    return "not known" if value is None else plain(number(value, digits))


def clip(name: str, most: int = 60) -> str:
    """A name that may be of any length, shortened.

    >>> clip("abcdef", 4)
    'abc…'
    """
    name = clean(name)
    return name if len(name) <= most else f"{name[: most - 1]}…"
