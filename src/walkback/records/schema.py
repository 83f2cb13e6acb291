"""The shapes of a run's files: typed, versioned, frozen. Plain JSON, readable without us.

Everything here is a function of the config alone, bit for bit; what depends on the machine or the clock (versions,
times) is in `Environment` and nowhere else.
"""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Whole = Annotated[int, Field(ge=1)]


class Record(BaseModel):
    """Frozen, and no field that we do not know. NaN and infinity are written as strings, so the JSON is valid."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", validate_default=True)

    def text(self) -> str:
        """One line of JSON."""
        return self.model_dump_json(by_alias=True)


class RunConfig(Record):
    """All that determines a run. Options are resolved: every default is written out, so none can change unseen."""

    schema_: Literal["walkback.run/1"] = Field(default="walkback.run/1", alias="schema")
    data: str
    augment: bool
    net: str
    net_options: dict[str, Any]
    rule: str
    rule_options: dict[str, Any]
    rule_source: str | None = None  # a hash of the code, for a rule that is not ours
    seed: Annotated[int, Field(ge=0)]
    epochs: Whole
    batch_size: Whole
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    penalty: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    train_last: Annotated[int, Field(ge=0)]  # blocks that train, counted from the top; all of them: the full net
    probe_images: Whole

    def hash(self) -> str:
        """Ten hex digits that name this config: of its JSON with sorted keys."""
        canonical = json.dumps(self.model_dump(mode="json", by_alias=True), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:10]

    def label(self) -> str:
        """A short name for tables: the rule and what sets it apart."""
        rule = self.rule.rpartition("/")[2]
        frozen = f" k={self.train_last}" if self.train_last < self.net_options.get("depth", self.train_last) else ""
        return f"{rule}{frozen}" + (f" λ={self.penalty:g}" if self.penalty else "")

    def folder(self) -> str:
        """The folder's name: readable in front, the hash behind."""
        words = f"{self.data}-{self.net}-{self.label()}-s{self.seed}"
        return "".join(c if c.isalnum() or c in "-." else "_" for c in words.replace("λ=", "pen")) + f"-{self.hash()}"


class CosineRecord(Record):
    """The mean cosine of a credit with the gradient over the living samples, and its status."""

    value: float
    alive: int
    total: int
    status: str


class Snapshot(Record):
    """What the probes measured at one moment. Lists run over h_0 … h_L or over the blocks 0 … L−1."""

    epoch: int
    step: int
    lr: float | None  # that the epoch was trained with; None at init
    train_loss: float | None  # mean over the epoch's batches, while the weights moved; None at init
    accuracy: float  # on the whole test split
    loss: float  # on the whole test split
    probe_images: int  # the first so many of the test split; all that follows is measured on them
    reference_batch: int  # gradient norms are stated as in a batch-mean loss over so many
    hidden_norms: list[float]  # ‖h_0‖ … ‖h_L‖, medians
    branch_norms: list[float]  # ‖f_0‖ … ‖f_{L−1}‖
    gradient_norms: list[float]  # ‖g_0‖ … ‖g_L‖ at the reference batch
    credit_norms: list[float]  # ‖a_0‖ … ‖a_{L−1}‖, in the scale of a sample's own loss
    cosine: list[CosineRecord]  # cos(a_l, g_l): at the block's input, as published
    cosine_out: list[CosineRecord]  # cos(a_l, g_{l+1}): at the block's output, where the credit acts
    cosine_embed: CosineRecord  # the embedding's credit with g_0
    gamma: float  # Γ: the mean of `cosine`
    gamma_blocks: int  # over so many blocks: those with status "ok"


class Result(Record):
    """How a run ended."""

    schema_: Literal["walkback.result/1"] = Field(default="walkback.result/1", alias="schema")
    status: Literal["finished", "diverged"]
    epochs: int  # completed
    steps: int
    accuracy: float  # at the last snapshot
    loss: float
    says: str


class Sitting(Record):
    """One process's work on a run."""

    started: str
    ended: str | None
    from_step: int
    to_step: int | None
    seconds: float | None
    walkback: str
    commit: str | None
    python: str
    torch: str
    platform: str
    cpu: str
    threads: int
    device: str


class Environment(Record):
    """Where and when: the only file of a run that depends on the machine and the clock."""

    schema_: Literal["walkback.environment/1"] = Field(default="walkback.environment/1", alias="schema")
    data_fingerprint: str
    sittings: list[Sitting]
