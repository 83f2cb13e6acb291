"""Other people's code, from nothing to an audit: runs the files of examples/; prints lines and minutes.

    python bench/others.py                     BioTorch (dfa), Lightning and Hugging Face
    python bench/others.py with_biotorch fa usf frsf brsf

Lines are those below the mark in each file, without blank ones: what somebody adds to code that is there.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"
MARK = "# --- what is added for walkback"


def files() -> dict[str, str]:
    """The files, by name."""
    return {path.stem: path.read_text() for path in sorted(EXAMPLES.glob("with_*.py"))}


def added(text: str) -> int:
    """The lines that somebody adds."""
    return sum(bool(line.strip()) for line in text.split(MARK)[1].splitlines()[1:])


def run(name: str, text: str, folder: Path, *words: str) -> tuple[float, str]:
    """Minutes, and the last line that it prints: the answers."""
    (folder / f"{name}.py").write_text(text)
    began = time.perf_counter()
    command = [sys.executable, f"{name}.py", *words]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    return (time.perf_counter() - began) / 60, done.stdout.strip().splitlines()[-1]


def main() -> None:
    """Run what is asked for."""
    known = files()
    name, *rules = sys.argv[1:] or [""]
    jobs = [(name, rule) for rule in rules or [""]] if name else [(each, "") for each in known]
    with tempfile.TemporaryDirectory() as folder:
        for each, rule in jobs:
            minutes, verdict = run(each, known[each], Path(folder), *([rule] if rule else []))
            print(f"{each} {rule}: {added(known[each])} lines added, {minutes:.1f} minutes. {verdict}", flush=True)


if __name__ == "__main__":
    main()
