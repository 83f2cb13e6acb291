"""The first page of the site is the README, so that there is one of it; its links lose their docs/ here."""

from pathlib import Path
from typing import Any


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 - mkdocs calls it so
    """Put the README in the place of index.md."""
    if page.file.src_uri != "index.md":
        return markdown
    readme = Path(config.config_file_path).with_name("README.md").read_text()
    return readme.replace("](docs/", "](")
