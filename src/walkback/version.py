"""The version of walkback, and its commit if it runs from a source tree."""

from functools import cache
from pathlib import Path

__version__ = "0.4.0"  # pyproject.toml reads it here


def own_version() -> str:
    """The version of this code, whatever else of that name is installed."""
    return __version__


@cache
def own_commit() -> str | None:
    """The commit of our own source tree; None if this file is not tracked in one (an installed package)."""
    import subprocess  # here, so that `import walkback` costs nothing

    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], capture_output=True, check=True)
        describe = [*git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def version_words() -> str:
    """What `walkback --version` prints."""
    commit = own_commit()
    return own_version() if commit is None else f"{own_version()} (commit {commit})"
