"""Which form of a rule a name stands for, where the field has several: said wherever names are listed.

Here and not in the rules, because records are read and judged without them. The first sentence of each of these rules
says it in the same words.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from walkback.records import RunConfig

VARIANTS: Mapping[str, str] = {
    "dfa": "normalised per sample",
    "dfa-plain": "Nøkland's",
    "fa": "a chain by blocks with the exact top",
    "fa-layer": "Lillicrap's",
}
NORMALISED = {"none": "not normalised", "sample": "normalised per sample", "batch": "normalised over the batch"}


def variant(rule: str, options: Mapping[str, Any] | None = None) -> str:
    """The form of the rule in a few words; empty where its name says enough.

    >>> variant("dfa"), variant("dfa", {"normalize": "none"}), variant("bp")
    ('normalised per sample', 'not normalised', '')
    """
    words, how = VARIANTS.get(rule, ""), str((options or {}).get("normalize"))
    if not words or how not in NORMALISED or how == ("sample" if rule == "dfa" else "none"):  # as it is by default
        return words
    return NORMALISED[how] if rule == "dfa" else f"{words}, {NORMALISED[how]}"


def variants(configs: Iterable[RunConfig]) -> str:
    """One sentence for below a table or a figure of these runs; empty where there is nothing to tell apart."""
    found: dict[str, list[str]] = {}
    for config in configs:
        words = variant(config.rule, config.rule_options)
        if words and words not in found.setdefault(config.rule, []):
            found[config.rule].append(words)
    listed = "; ".join(f"{rule}: {' or '.join(words)}" for rule, words in sorted(found.items()))
    return f"{listed}." if listed else ""
