"""Use the README as the first page of the site. Its links lose their docs/ here."""

import re
from pathlib import Path
from typing import Any


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 - mkdocs calls it so
    """Put the README in the place of index.md, and point links to it there."""
    if page.file.src_uri != "index.md":
        return markdown.replace("](../README.md", "](index.md")
    readme = Path(config.config_file_path).with_name("README.md").read_text()
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff"):  # beside the README, and no pages of the site
        readme = re.sub(rf"\[([^\]]+)\]\({re.escape(name)}\)", rf"\1 ({name})", readme)
    return readme.replace("](docs/", "](")
