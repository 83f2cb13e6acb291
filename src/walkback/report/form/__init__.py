"""The reporting form: what a paper on training without backprop should disclose, filled in from its records.

`fill` makes it as data; `render` writes it as Markdown or LaTeX. What no record tells stays a blank with a word why.
"""

from walkback.report.form.fill import fill
from walkback.report.form.render import render, rendered, write_form
from walkback.report.form.shapes import Entry, Form, Pitfall, Section

__all__ = ["Entry", "Form", "Pitfall", "Section", "fill", "render", "rendered", "write_form"]
