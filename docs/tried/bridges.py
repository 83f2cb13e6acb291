"""Train the runs of docs/tried/bridges.md and print its tables from the records: bp, dfa, ep, sb, cb on MNIST-1D.

    python docs/tried/bridges.py RUNS            train what is missing in the folder RUNS, then print
    python docs/tried/bridges.py RUNS --print    print the finished rows

Every row is a `walkback train` command, printed with it; a stopped run resumes.
"""

import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import walkback as wb
from walkback.records import Run
from walkback.train import train


class Row(NamedTuple):
    """One line of a table: one rule with some options, over seeds."""

    rule: str
    options: dict[str, Any]
    epochs: int
    seeds: tuple[int, ...]

    @property
    def command(self) -> str:
        """The command to type."""
        seeds = ",".join(map(str, self.seeds)) + ("," if len(self.seeds) == 1 else "")
        options = "".join(f" --rule-option {shlex.quote(f'{k}={v}')}" for k, v in self.options.items())
        return f"walkback train --rules {self.rule} --width 128 --epochs {self.epochs} --seeds {seeds}{options}"

    @property
    def configs(self) -> list[wb.RunConfig]:
        """The runs."""
        return wb.plan(
            rules=[self.rule], seeds=list(self.seeds), epochs=self.epochs, net_options={"width": 128},
            rule_options=self.options,
        )  # fmt: skip


FLOAT32 = {"precision": "float32"}
MAIN = [
    Row(rule, options, 30, (42, 123))
    for rule, options in (("bp", {}), ("dfa", {}), ("sb", {}), ("cb", {}), ("ep", {}), ("ep", FLOAT32))
]
TRIED: dict[str, list[dict[str, Any]]] = {
    "cb": [
        {}, {"warmup": 0.0}, {"warmup": 0.5}, {"draws": 8}, {"sigma": 0.0}, {"sigma": 1.0}, {"tau": 0.01}, {"tau": 1.0},
        {"ema": 0.9}, {"ema": 0.999}, {"hidden": 64}, {"condition": "top"},
    ],
    "sb": [{}, {"hidden": 64}, {"hidden": 512}, {"condition": "top"}],
    "ep": [
        {}, {"beta": 0.01}, {"beta": 0.5}, {"steps": 4}, {"steps": 16}, {"eta": 0.05}, {"eta": 0.3}, FLOAT32,
        {"beta": 0.01, **FLOAT32},
    ],
}  # fmt: skip
SENSITIVITY = [Row(rule, options, 15, (42,)) for rule, each in TRIED.items() for options in each]


def found(row: Row, folder: Path) -> list[Run]:
    """The finished runs of a row."""
    places = [folder / config.folder() for config in row.configs]
    runs = [wb.read_run(place) for place in places if (place / "result.json").exists()]
    return [run for run in runs if run.result is not None]


def line(row: Row, runs: list[Run]) -> str:
    """One line of Markdown: values of all seeds, in their order."""

    def each(values: list[float], form: str) -> str:
        return " / ".join(format(value, form) for value in values)

    last = [run.snapshots[-1] for run in runs]
    options = ", ".join(f"{k} {v}" for k, v in row.options.items()) or "defaults"
    zeros = [100 * s.measured["zero credits"][0].value for s in last] if row.rule != "bp" else []
    accuracy = each([s.accuracy for s in last], ".3f")
    sizes = [each([s.hidden_norms[-1] for s in last], ".4g"), each([s.gradient_norms[-1] for s in last], ".1e")]
    gamma = each([s.gamma or 0.0 for s in last], ".2f")
    cells = [f"`{row.rule}`", options, accuracy, *sizes, gamma, each(zeros, ".1f") or "–"]
    return f"| {' | '.join(cells)} |"


def table(rows: list[Row], folder: Path) -> str:
    """The rows that are finished, and how many are not."""
    names = ("rule", "options", "accuracy", "‖h_L‖", "‖g_L‖ at N = 128", "Γ", "credits of block 0 that are 0, %")
    head = f"| {' | '.join(names)} |\n{'|---' * len(names)}|"
    lines, missing = [], []
    for row in rows:
        runs = found(row, folder)
        if len(runs) == len(row.seeds):
            lines.append(line(row, runs))
        else:
            missing.append(f"- not finished: `{row.command}`")
    return "\n".join([head, *lines, *([""] if missing else []), *missing])


def main() -> None:
    """Train, then print."""
    folder, rows = Path(sys.argv[1]), [*MAIN, *SENSITIVITY]
    if "--print" not in sys.argv:
        for row in rows:
            for config in row.configs:
                train(config, folder)
                print(config.folder(), file=sys.stderr)
    print("## Beside bp and dfa: 30 epochs, seeds 42 / 123\n")
    print(table(MAIN, folder))
    print("\n## One option at a time: 15 epochs, seed 42\n")
    print(table(SENSITIVITY, folder))
    print("\n## Commands\n\n```console")
    print("\n".join(row.command for row in rows))
    print("```")


if __name__ == "__main__":
    main()
