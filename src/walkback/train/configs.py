"""What is trained: options as run configs, and the learning rates that are tried.

Every name is known, every default written out, impossible values refused.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args, get_type_hints

import msgspec

from walkback.data import source_of, usual_augment
from walkback.errors import BadValue
from walkback.nets import check_options, defaults, find_net, net_source, recorded
from walkback.own import as_written
from walkback.records import RunConfig
from walkback.records.rates import Choice
from walkback.records.record import fault_of
from walkback.records.schema import LATER
from walkback.registry import nearest
from walkback.rules import check_normalization, find_rule, rule_source

SEEDS = (42, 123, 456)


def seed_list(count: int) -> list[int]:
    """The first `count` seeds: the published three, then 1001, 1002, …

    >>> seed_list(4)
    [42, 123, 456, 1001]
    """
    if count < 1:
        raise BadValue(f"{count} seeds cannot be trained", "ask for at least 1")
    return [*SEEDS[:count], *range(1001, 1001 + count - len(SEEDS))]


# What a config must state and a plan need not, with what is then meant. The other options are the fields of `RunConfig`
# that have a default.
USUAL: dict[str, Any] = {
    "epochs": 100, "batch_size": 128, "lr": 1e-3, "weight_decay": 0.01, "penalty": 0.0, "probe_images": 1024,
}  # fmt: skip
OPTIONS = [*USUAL, *(name for name in LATER if not name.endswith("_source"))]


def plan(
    *,
    data: str = "mnist1d",
    net: str = "resmlp",
    rules: Sequence[str] = ("bp", "fa", "dfa"),
    seeds: int | Sequence[int] = 1,
    train_last: int | None = None,
    augment: bool | None = None,
    normalize: str | None = None,
    net_options: dict[str, Any] | None = None,
    rule_options: dict[str, Any] | None = None,
    **options: Any,
) -> list[RunConfig]:
    """One config for each rule and seed. `seeds` is a count or a list; `train_last=None` trains every block.

    `normalize` goes to the rules that have a credit to normalise; `rule_options` must be known to every rule. The other
    options are fields of `RunConfig`: `epochs`, `batch_size`, `lr`, `schedule`, `weight_decay`, `penalty`, `labels`,
    `validation`, `probe_images`, `stop_when_fired`. `validation` holds out that share of the training samples: accuracy
    and probes use them, and the test split is not used.
    """
    if isinstance(seeds, str):
        raise BadValue(f"--seeds {seeds} is for `walkback audit`, which looks at its results", "give a number")
    for name in options:
        if name not in OPTIONS:
            raise BadValue(f"a plan has no option {name!r}", nearest(name, OPTIONS))
    usual = usual_augment(data)
    if augment and not usual:
        raise BadValue(f"{data} has no crops and flips to augment it with", "leave --augment out")
    family = find_net(net)
    wanted = dict(net_options or {})
    check_options(f"net {net}", family, wanted)
    resolved_net = {**defaults(family), **wanted}
    family.check(resolved_net)
    blocks = family.blocks_in(resolved_net)
    if blocks == 0 and list(rules) != ["bp"]:
        # The shallow baseline, embedding and readout alone, trains the same by every rule.
        raise BadValue("a net without blocks can only be trained by bp", "give --depth 1 or more, or --rules bp")
    last = blocks if train_last is None else train_last
    if not 0 <= last <= blocks:
        raise BadValue(f"the last {last} blocks cannot train: the net has {blocks}", f"give --train-last 0 … {blocks}")
    if not rules:
        raise BadValue("no rule is given", "give --rules bp,fa,dfa")

    shared: dict[str, Any] = {
        "data": as_written(data), "data_source": source_of(data), "augment": usual if augment is None else augment,
        "net": as_written(net), "net_options": recorded(resolved_net, family.added), "net_source": net_source(net),
        "blocks": blocks, "residual": family.residual_in(resolved_net), "train_last": last, **USUAL, **options,
    }  # fmt: skip
    chosen = seed_list(seeds) if isinstance(seeds, int) else seeds
    configs = []
    for rule in dict.fromkeys(rules):
        own = {
            "rule": as_written(rule), "rule_source": rule_source(rule),
            "rule_options": _rule_options(rule, normalize, dict(rule_options or {})),
        }  # fmt: skip
        configs += [_config({**shared, **own, "seed": seed}) for seed in dict.fromkeys(chosen)]
    return configs


def _config(fields: dict[str, Any]) -> RunConfig:
    try:
        return RunConfig.from_plain(msgspec.to_builtins(fields, enc_hook=_as_ours))
    except msgspec.ValidationError as error:
        place, _, words = fault_of(error).partition(": ")
        name, words = place.replace("_", "-"), words.replace("`", "")
        if choices := get_args(get_type_hints(RunConfig)[place]):
            words = f"expected {' or '.join(map(repr, choices))}"
        raise BadValue(f"--{name} {fields[place]}: {words[:1].lower()}{words[1:]}", f"give another --{name}") from error


def _as_ours(value: Any) -> Any:
    """A number of numpy or torch as one of Python's."""
    if not hasattr(value, "tolist"):
        raise BadValue(f"{value!r} cannot be recorded", "give a number, a text, or a list of these")
    return value.tolist()


def _rule_options(rule: str, normalize: str | None, options: dict[str, Any]) -> dict[str, Any]:
    kind = find_rule(rule)
    known = defaults(kind)
    if "normalize" in known:
        known["normalize"] = check_normalization(kind.default_normalize if normalize is None else normalize)
    elif normalize is not None and rule != "bp":  # backprop has no credit to normalise
        raise BadValue(f"rule {rule} has no option 'normalize'", "leave --normalize out")
    check_options(f"rule {rule}", kind, options)
    return recorded({**known, **options}, kind.added)


# --- the learning rates that are tried --------------------------------------------------------------------------------


GRID = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
LADDER = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, *GRID, 1e-1, 3e-1, 1.0, 3.0, 10.0)  # the rates by which a grid grows
MOST = 9  # rates: then a best one at an edge stays there, and is reported


def beyond(grid: Sequence[float], choices: Iterable[Choice | None]) -> list[float]:
    """The rates by which the grid must grow: where somebody's best lies at its edge."""
    known = [choice for choice in choices if choice is not None and not choice.missing]
    low, high = any(c.lr in (grid[0], None) for c in known), any(c.lr == grid[-1] for c in known)
    found = [rate for rate in LADDER if rate < grid[0]][-1:] if low else []
    return found + ([rate for rate in LADDER if rate > grid[-1]][:1] if high else [])


def search(grid: Sequence[float], tried: Callable[[Sequence[float]], Iterable[Choice | None]]) -> list[float]:
    """Try the rates of a grid until it need not grow; the grid that it came to.

    tried   trains what is missing of the trials at these rates, and gives what all trials choose
    """
    rates = sorted(grid)
    while (more := beyond(rates, tried(rates))) and len(rates) < MOST:
        rates = sorted([*rates, *more])
    return rates
