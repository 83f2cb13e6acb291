"""`walkback audit my_training.py`: a user's own training, defined by names in a file."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from walkback.cli.options import Executing, Recipe, read_seeds, read_thresholds
from walkback.cli.shown import give_page, show_audit
from walkback.errors import BadValue
from walkback.plain import seen

NEEDED = {
    "make_model": "a function seed → nn.Module",
    "train": "a function (model, seed) that trains it",
    "test": "held-out batches (inputs, labels), or a function that returns them",
    "blocks": 'the names of the blocks, such as "blocks.*"',
}
OPTIONAL = (
    "train_bp", "make_bp_model", "make_shallow", "train_batches", "optimizer", "epochs", "residual", "credits",
    "redraw", "name", "reach", "reduction", "loss", "output", "metric", "max_samples", "validation",
)  # fmt: skip
SHARED = ("seeds", "seed", "lr")  # options of a recipe that are allowed with a file


def changed_options(*groups: Recipe | Executing) -> list[str]:
    """The given options that say what is trained, how, or by what."""
    return [
        f"--{field.name.replace('_', '-')}"
        for group in groups
        for field in fields(group)
        if field.name not in SHARED and getattr(group, field.name) != field.default
    ]


def names_in(file: Path) -> dict[str, Any]:
    """The arguments for `wb.audit_training` in a file; missing ones are listed."""
    from walkback.own import load_file

    if not file.is_file():
        raise BadValue(
            f"the file {file} does not exist", "give a Python file that defines make_model, train, test and blocks"
        )
    module = vars(load_file(file.resolve()))
    missing = [name for name in NEEDED if name not in module]
    if missing:
        listing = "; ".join(f"{name}: {NEEDED[name]}" for name in NEEDED)
        raise BadValue(
            f"{file} does not define {', '.join(missing)}",
            f"define in it {listing}. And, if you have them, {', '.join(OPTIONAL)}",
        )
    return {name: module[name] for name in (*NEEDED, *OPTIONAL) if name in module}


def audit_file(
    file: Path,
    given: Sequence[str],
    recipe: Recipe,
    max_seeds: int | None,
    protocol: Any,
    thresholds: Path | None,
    strict: bool,
    out: Path | None,
    jobs: int | None,
) -> int:
    """Audit the training in a file, and write audit.json and report.html."""
    from walkback.audits import audit_training

    if given:
        raise BadValue(
            f"{', '.join(given)} cannot be used with {file}, which defines what is trained and how",
            "set it in the file, and leave the option out",
        )
    found = names_in(file)
    seeds: Any = "auto" if recipe.seed is None and recipe.seeds is None else read_seeds(recipe.seed, recipe.seeds)
    folder = out or Path("runs") / file.stem
    test, blocks = found.pop("test"), found.pop("blocks")
    audit = audit_training(
        found.pop("make_model"), found.pop("train"), test, blocks, seeds=seeds, max_seeds=max_seeds, out=folder,
        jobs=jobs, thresholds=read_thresholds(thresholds), protocol=protocol, files=[str(file.resolve())],
        say=lambda line: print(seen(line), flush=True), lr=recipe.lr, **{"name": file.stem} | found,
    )  # fmt: skip
    status = show_audit(audit, folder, strict)
    for problem in audit.problems:
        print(seen(f"Note: {problem}"))
    give_page(audit, folder / "report.html")
    return status
