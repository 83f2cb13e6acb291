"""Count the house: lines, code lines and files per room, types that carry data, and what six calls pass through.

python bench/house.py            the rooms and the types
python bench/house.py calls      also the files and functions that each of the six calls enters (a minute)
"""

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/walkback"
CARRIERS = ("Struct", "Record", "BaseModel", "NamedTuple", "TypedDict", "FromProbe", "Valued")

# What each call runs in a process of its own, in an empty folder.
CALLS = {
    "walkback audit": "cli.audit(recipe=Recipe(rules='bp,fa', data='mnist1d', seeds='1', epochs=1, lr=1e-3), "
    "executing=Executing(executor='serial', jobs=1), out=Path('runs'), cards=False)",
    "wb.audit": "wb.audit(model(), batches(), 'blocks.*')",
    "judge of a log": "cli.judge(Path('log.json'))",
    "judge of runs": "cli.judge(DEMO)",
    "report": "cli.report(DEMO, to=Path('page.html'))",
    "wb.watch": "watched()",
}
BEFORE = """
import json, shutil, sys, warnings
from pathlib import Path
import torch
from torch import nn
import walkback as wb
from walkback import cli
from walkback.cli.options import Executing, Recipe
warnings.simplefilter("ignore")
DEMO = Path("@DEMO")
Path("log.json").write_text(json.dumps({"bp_log": [
    {"epoch": 0, "acc_eval": 0.1, "hidden_norms": [9, 9, 9]},
    {"epoch": 1, "acc_eval": 0.5, "hidden_norms": [9, 10, 12]}]}))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3))
        self.head = nn.Linear(8, 3)
    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)
def model():
    torch.manual_seed(0)
    return Net()
def batches():
    torch.manual_seed(1)
    return [(torch.randn(120, 6), torch.arange(120) % 3)]
def watched():
    net = model(); (x, y), = batches()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with wb.watch(net, "blocks.*", probe=(x, y), every=2, show=False) as watch:
        for _ in range(4):
            optimizer.zero_grad(); nn.functional.cross_entropy(net(x), y).backward(); watch.step(); optimizer.step()
seen = set()
def note(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith("@SOURCE"):
        seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))
def entered(call):
    call()  # what is imported on the way does not count
    shutil.rmtree("runs", ignore_errors=True)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    called = {(file, name) for file, name in seen if "<" not in name.rpartition(".")[2]}
    print(f"\\n@{len({file for file, _ in called})} {len(called)}")
"""


def code_lines(text: str) -> int:
    """Lines with code: no blank ones, comments or docstrings."""
    tree = ast.parse(text)
    strings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            strings |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    skip = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skip:
            found |= {*range(token.start[0], token.end[0] + 1)}
    return len(found - strings)


def carriers(text: str) -> list[str]:
    """The classes that carry data: dataclasses, named tuples, structs."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            bases = [re.split(r"[.\[]", ast.unparse(base)) for base in node.bases]
            marks = [ast.unparse(mark).partition("(")[0] for mark in node.decorator_list]
            if any(part in CARRIERS for base in bases for part in base) or "dataclass" in marks:
                found.append(node.name)
    return found


def rooms() -> None:
    """A line per room."""
    total = [0, 0, 0, 0]
    print(f"{'room':<12}{'files':>6}{'lines':>8}{'code':>8}{'types':>7}")
    places = sorted(
        {path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")}, key=lambda p: (p.endswith(".py"), p)
    )
    by_room: dict[str, list[Path]] = {}
    for place in places:
        room = "(shared)" if place.endswith(".py") else place
        by_room.setdefault(room, []).extend(
            SOURCE.glob(place) if place.endswith(".py") else (SOURCE / place).rglob("*.py")
        )
    if (ROOT / "paper").is_dir():
        by_room["(paper)"] = [*(ROOT / "paper").rglob("*.py")]
    for room, files in by_room.items():
        texts = [file.read_text() for file in files]
        counts = [
            len(files), sum(t.count("\n") for t in texts), sum(map(code_lines, texts)),
            sum(len(carriers(t)) for t in texts),
        ]  # fmt: skip
        print(f"{room:<12}{counts[0]:>6}{counts[1]:>8,}{counts[2]:>8,}{counts[3]:>7}")
        total = [a + b for a, b in zip(total, counts, strict=True)] if room != "(paper)" else total
    print(f"{'package':<12}{total[0]:>6}{total[1]:>8,}{total[2]:>8,}{total[3]:>7}")
    print(f"tests: {sum(f.read_text().count(chr(10)) for f in (ROOT / 'tests').rglob('*.py')):,} lines")


def calls() -> None:
    """A line per call."""
    for name, call in CALLS.items():
        script = BEFORE.replace("@DEMO", str(ROOT / "results/mnist1d-demo")).replace("@SOURCE", str(SOURCE))
        script += f"entered(lambda: {call})\n"
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            done = subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=False,
                env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "WALKBACK_CACHE": f"{folder}/cache"},
            )  # fmt: skip
        answer = re.findall(r"^@(\d+) (\d+)$", done.stdout, re.MULTILINE)
        print(
            f"{name:<16}" + (f"{answer[-1][0]:>4} files {answer[-1][1]:>5} functions" if answer else done.stderr[-600:])
        )


if __name__ == "__main__":
    rooms()
    if "calls" in sys.argv[1:]:
        calls()
