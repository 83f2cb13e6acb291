"""The form written down: as Markdown with GitHub's check boxes, or as a piece of LaTeX to put in a paper."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from walkback.files import make_folder, write_whole
from walkback.report import latex
from walkback.report.form.shapes import Entry, Form, Pitfall, Section
from walkback.report.harmless import for_markdown
from walkback.report.tables import Table

BLANK = {"markdown": "____", "latex": r"\rule{3cm}{0.4pt}"}
HOW = "Filled in from records; a line is a blank to fill in by hand."


def render(forms: Iterable[Form], form: str) -> str:
    """One document of one or more forms."""
    return "".join(rendered(forms, form))


def rendered(forms: Iterable[Form], form: str) -> Iterator[str]:
    """That document in pieces. Each form is looked at once and then dropped; a LaTeX document begins with what its
    pieces need, so their text is kept until the last is there."""
    between = "\n\n---\n\n" if form == "markdown" else "\n\n"
    pieces: Iterable[str] = map(_markdown if form == "markdown" else _latex, forms)
    if form != "markdown":
        pieces = list(pieces)
        yield "\n".join([*latex.preamble(*pieces), "", ""])
    for number, piece in enumerate(pieces):
        yield between + piece if number else piece
    yield "\n"


def write_form(forms: Iterable[Form], form: str, to: Path) -> Path:
    """Write that document as a file."""
    make_folder(to.parent)
    write_whole(to, (piece.encode() for piece in rendered(forms, form)))
    return to


# --- Markdown -------------------------------------------------------------------------------------------------------


def _markdown(form: Form) -> str:
    sections = [_markdown_section(section) for section in form.sections]
    head = [f"# Reporting form: {for_markdown(form.subject)}", f"{HOW} {for_markdown(form.made)}"]
    return "\n\n".join([*head, *sections])


def _markdown_section(section: Section) -> str:
    rows = [_markdown_question(r) if isinstance(r, Pitfall) else _markdown_row(r) for r in section.rows]
    tables = [table.markdown() for table in section.tables]
    return "\n\n".join([f"## {for_markdown(section.title)}", *(["\n".join(rows)] if rows else []), *tables])


def _markdown_row(row: Entry) -> str:
    why = f" ({for_markdown(row.why)})" if row.why else ""
    value = BLANK["markdown"] + why if row.value is None else for_markdown(row.value)
    return f"- **{for_markdown(row.label)}**: {value}"


def _markdown_question(question: Pitfall) -> str:
    box = "x" if question.answer == "yes" else " "
    answer = BLANK["markdown"] if question.answer == "not known" else f"**{question.answer}**"
    return f"- [{box}] {for_markdown(question.asks)} {answer} ({for_markdown(question.says)})"


# --- LaTeX ----------------------------------------------------------------------------------------------------------


def _latex(form: Form) -> str:
    head = [rf"\section*{{Reporting form: {latex.escape(form.subject)}}}", f"{HOW} {latex.escape(form.made)}"]
    return "\n\n".join([*head, *map(_latex_section, form.sections)])


def _latex_section(section: Section) -> str:
    lines = [rf"\subsection*{{{latex.escape(section.title)}}}"]
    if section.rows:
        rows = [_latex_question(r) if isinstance(r, Pitfall) else _latex_row(r) for r in section.rows]
        lines += [r"\begin{description}\setlength{\itemsep}{0pt}\setlength{\parskip}{0pt}", *rows, r"\end{description}"]
    return "\n".join([*lines, *map(_latex_table, section.tables)])


def _latex_row(row: Entry) -> str:
    why = f" ({latex.escape(row.why)})" if row.why else ""
    value = BLANK["latex"] + why if row.value is None else latex.escape(row.value)
    return rf"\item[{latex.escape(row.label)}] {value}"


def _latex_question(question: Pitfall) -> str:
    answer = r"\rule{2em}{0.4pt}" if question.answer == "not known" else question.answer
    return rf"\item[{answer}] {latex.escape(question.asks)} ({latex.escape(question.says)})"


def _latex_table(table: Table) -> str:
    title = rf"\par\medskip\noindent\textbf{{{latex.escape(table.title)}}}\par\smallskip"
    return "\n".join(
        [title, r"{\centering", table.tabular(), *latex.below([*map(latex.escape, table.notes)]), r"\par}"]
    )
