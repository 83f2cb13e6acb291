"""One training, from the untrained net to its record; an error in a user's function becomes an answer."""

import hashlib
import math
import platform
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from walkback.errors import BadValue, WalkbackError
from walkback.loops.baseline_nets import (
    REMEDY,
    check_frozen,
    copy_of,
    differing,
    duplicate,
    inside,
    state_of,
    trainable,
    without_blocks,
)
from walkback.loops.job import Job, Wanted
from walkback.loops.noise import NoiseCredits, noisy_gradients, noisy_movements
from walkback.loops.scorer import ModelScorer
from walkback.probes.standing import Movement, Movements, Stance
from walkback.probes.unwrap import find_blocks, unwrapped
from walkback.probes.user_errors import own_line
from walkback.probes.witness import Witness
from walkback.records import Moment
from walkback.records.loop_training import LoopTraining, digest_of, write_training
from walkback.records.predictions import digest
from walkback.version import own_version

NOTHING = "it changed no parameter: it trains nothing, or another model than the one that it is given"


class Unusable(WalkbackError):
    """A loop that cannot be audited, whatever the seed."""


def set_seeds(seed: int) -> None:
    """Python's, numpy's and torch's random state, as functions of the seed."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def made(job: Job, wanted: Wanted) -> nn.Module:
    """The untrained net, with the blocks that the setting names; an error says what is wrong with it."""
    name, make = job.make(wanted)
    set_seeds(wanted.seed)
    try:
        model = make(wanted.seed)
    except WalkbackError:
        raise
    except (Exception, SystemExit) as error:
        raise BadValue(f"{name}({wanted.seed}) raised {own_line(error)}", "fix it") from error
    if not isinstance(model, nn.Module):
        raise BadValue(f"{name}({wanted.seed}) gives a {type(model).__name__}", "let it return an nn.Module")
    return unwrapped(model)[0]


def parameters_of(model: nn.Module, blocks: Sequence[str]) -> dict[str, nn.Parameter]:
    """The parameters inside these blocks; a block without any cannot be frozen, and is refused."""
    found = find_blocks(model, blocks)
    for name, part in found.items():
        if not any(True for _ in part.parameters()):
            raise Unusable(
                f"{name} has no parameters, so that it can neither train nor be frozen",
                "name blocks with weights, and register weights with nn.Parameter",
            )
    named = dict(model.named_parameters())
    return {name: named[name] for name in inside([*named], list(found))}


def shapes_of(model: nn.Module) -> str:
    """A hash of the names and shapes of all parameters and buffers."""
    words = [f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in state_of(model).items()]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def train_one(job: Job, wanted: Wanted, out: Path) -> LoopTraining:
    """Train, verify, measure and keep one training; where nothing came of it, a record that says why."""
    out = out.absolute()  # the loop may change the folder
    try:
        if wanted.trial and job.validation is not None:
            job = replace(job, batches=job.validation, probed=job.validation)
        return OneTraining(job, wanted).carried_out(out)
    except WalkbackError as error:
        return failed(job, wanted, "; ".join(filter(None, [error.what, error.remedy])), out)


def failed(job: Job, wanted: Wanted, why: str, out: Path) -> LoopTraining:
    """The record of a training that left nothing."""
    record = _record(job, wanted, status="failed", why=why)
    write_training(out, record, None)
    return record


def _record(job: Job, wanted: Wanted, **known: Any) -> LoopTraining:
    nothing: dict[str, Any] = {
        "accuracy": None, "loss": None, "moments": [], "init": "", "weights": "", "moved": [], "elsewhere": None,
        "noise": None, "notes": [], "seconds": 0.0,
    }  # fmt: skip
    return LoopTraining(
        setting=job.setting, who=wanted.who, part=wanted.part, seed=wanted.seed, lr=wanted.lr,
        source=job.shallow_source if wanted.part == "none" else None,
        made={"walkback": own_version(), "python": platform.python_version(), "torch": str(torch.__version__)},
        held_out=sum(len(labels) for _, labels in job.validation or ()) if wanted.trial else None, **nothing | known,
    )  # fmt: skip


class OneTraining:
    """A net, what became of it so far, and what is to be known of that."""

    def __init__(self, job: Job, wanted: Wanted):
        self.job, self.wanted, self.began = job, wanted, time.monotonic()
        self.status, self.why, self.notes = "finished", "", list[str]()
        self.noise: str | None = None
        self.standing: Stance | None = None
        self.steps: Sequence[Movement] = ()
        self.model = made(job, wanted)
        if wanted.part == "none" and job.make_shallow is None:
            self.model = without_blocks(self.model, job.setting.blocks, ModelScorer(job, self.model).outputs)
        elif wanted.part == "none":
            if shapes_of(self.model) == job.setting.parameters:
                raise BadValue("make_shallow gives the net with its blocks", "let it give the same net without them")
            trainable(self.model)
        self.before, self.start = copy_of(state_of(self.model)), duplicate(self.model)
        self.scorer = ModelScorer(job, self.model, describe=wanted.who == "subject")
        self.is_probed = wanted.part == "all" and not wanted.trial  # of all others accuracy is enough
        self.first = self.scorer.begun(self.model) if self.is_probed and wanted.who != "init" else None

    def carried_out(self, out: Path) -> LoopTraining:
        """Train, verify, measure and keep it."""
        flags = {name: p.requires_grad for name, p in self.model.named_parameters()}
        frozen = self.job.frozen_blocks(self.wanted.part)
        try:
            if self.wanted.who != "init":
                self._train()
            if self.status == "finished" and frozen:
                self.why, notes = check_frozen(self.model, self.before, self.start, frozen, self.scorer.outputs)
                self.status, self.notes = "not frozen" if self.why else "finished", self.notes + notes
            measured, predicted = self._measured()
            known = measured | (self._moved() if self.status != "failed" else {})
            tensors = copy_of(state_of(self.model)) if self.status != "failed" else None
        finally:
            for name, p in self.model.named_parameters():
                p.requires_grad_(flags.get(name, p.requires_grad))
        if self.wanted.trial:
            tensors = predicted = None
        if self.standing is not None and self.status != "failed":
            known |= {"standing": self.standing.standing, "standing_why": self.standing.why}
        record = _record(
            self.job, self.wanted, status=self.status, why=self.why, init=digest_of(self.before), noise=self.noise,
            notes=list(dict.fromkeys(self.notes)), predictions=None if predicted is None else digest(predicted),
            seconds=round(time.monotonic() - self.began, 2), **known,
        )  # fmt: skip
        write_training(out, record, tensors, predicted)
        return record

    # --- training -----------------------------------------------------------------------------------------------------

    def _train(self) -> None:
        """The user's loop, on a net whose blocks train, are frozen, or are given noise."""
        job, wanted = self.job, self.wanted
        if still := job.frozen_blocks(wanted.part):
            for parameter in parameters_of(self.model, still).values():
                parameter.requires_grad_(False)
        if not any(p.requires_grad for p in self.model.parameters()):
            self.notes = ["all parameters lie in the blocks, so that with frozen blocks there is nothing left to train"]
            return
        self.model.train()
        if wanted.who == "random":
            self._train_by_noise()
            return
        self.standing = self._declared()
        is_subject = (wanted.who, wanted.part) == ("subject", "all")
        if is_subject and job.credits == "backward":
            witness = Witness(self.model, job.setting.blocks, self.scorer.task.take.__call__)
            witness.start()
            try:
                self._run()
            finally:
                self.standing = witness.close()
        elif is_subject and callable(job.credits):
            with Movements(self.model, [*find_blocks(self.model, job.setting.blocks).values()]) as steps:
                self._run()
            self.steps = steps.kept
        else:
            self._run()

    def _declared(self) -> Stance | None:
        """The standing of credits that are not looked at in the training."""
        if self.wanted.part != "all":
            return None
        if self.wanted.who == "subject" and callable(self.job.credits):
            return Stance("declared", "credits= is a function: what it returns was not compared with what trained")
        if self.wanted.who == "bp" and self.job.train_bp is None:
            return Stance("seen", "it was trained by a plain loop of walkback's own")
        return None

    def _train_by_noise(self) -> None:
        """Noise in the place of gradients; for a loop that does not use these, of what its weights move by."""
        seed = (self.wanted.seed * 2654435761 + 97) % 2**63
        with noisy_gradients(parameters_of(self.model, self.job.setting.blocks), seed) as noise:
            self._run()
        after = state_of(self.model)
        if self.status == "failed" or noise.consumed({name: after[name] for name in noise.start}):
            self.noise = "gradients"
            return
        self.model = made(self.job, self.wanted)
        self.model.train()
        if differing(self.before, state_of(self.model)):
            self.status, self.why = "failed", "make_model gives another net for the same seed"
            return
        parts = find_blocks(self.model, self.job.setting.blocks)
        with noisy_movements(parts, seed):
            self._run()
        if self.status != "failed" and self._swapped(parts):
            self.status = "failed"
            self.why = "train puts new modules in the place of blocks, so that noise cannot be given to them"
            return
        self.noise = "movements"
        self.notes.append(
            "the loop does not use .grad of the blocks, so noise replaced the change of their parameters between two "
            "forward passes"
        )

    def _swapped(self, parts: Mapping[str, nn.Module]) -> bool:
        """Whether other modules stand where these blocks were."""
        return any(find_blocks(self.model, [name])[name] is not part for name, part in parts.items())

    def _run(self) -> None:
        """Call the loop, and see what became of the model."""
        job, model, who, part = self.job, self.model, self.wanted.who, self.wanted.part
        whose, loop = job.loop(who)
        rate = {} if self.wanted.lr is None else {"lr": self.wanted.lr}
        set_seeds(self.wanted.seed)
        blocks = job.blocks(part)
        parts = find_blocks(model, blocks) if blocks else {}
        self.status, self.why, self.notes = "failed", "", []
        with torch.enable_grad():
            try:
                returned = loop(model, self.wanted.seed, **rate)
            except WalkbackError as error:
                self.why = f"{whose} raised: {error.what}"
                return
            except SystemExit as error:
                self.why = f"{whose} ends the program: {own_line(error)}; leave exit() out of it"
                return
            except Exception as error:
                hint = ""
                if job.frozen_blocks(part) and "grad" in str(error):
                    hint = "; its frozen blocks have requires_grad=False, so skip parameters that require no gradient"
                elif part == "none" and job.make_shallow is None:
                    hint = f"; here nn.Identity stands in the place of its blocks. If the loop needs them, {REMEDY}"
                self.why = f"{whose} raised {own_line(error)}{hint}"
                return
        before, after = self.before, state_of(model)
        lost = [name for name in before if name not in after or after[name].shape != before[name].shape]
        new = [name for name in after if name not in before]
        if lost or new:
            self.why = (f"{whose} changes the net: {', '.join([*lost, *new][:3])} is not what make_model gave it; let "
                        "it train the model that it is given")  # fmt: skip
            return
        parameters = [name for name, _ in model.named_parameters()]
        moved = differing(before, after, parameters)
        another = isinstance(returned, nn.Module) and unwrapped(returned)[0] is not model
        if not moved:
            if part == "none" or (part == "all" and not differing(before, after)):
                words = "it returned a new model and left the one that it was given as it was" if another else NOTHING
                self.why = f"{whose}: {words}"
            else:
                self.status, self.notes = "finished", [f"{whose} moved no parameter"]
            return
        self.status = "finished"
        if another:
            self.notes.append(f"{whose} returned another model, which was not looked at")
        if self._swapped(parts):
            self.notes.append(f"{whose} put new modules in the place of blocks")
        if part == "all" and not inside(moved, blocks):
            self.notes.append(f"{whose} moved no parameter of any block")
        odd = [name for name in parameters if not after[name].isfinite().all()]
        if odd:
            self.status, self.why = "diverged", f"{odd[0]} is not finite after training"

    # --- what is known of it ------------------------------------------------------------------------------------------

    def _measured(self) -> tuple[dict[str, Any], bytes | None]:
        """Its accuracy, loss and moments, and its predictions; none of them where it failed, or fails here."""
        if self.status == "failed":
            return {}, None
        try:
            accuracy, loss, predicted = self.scorer.score(self.model)
            moments = self._moments(accuracy, loss) if self.is_probed else []
        except Exception as error:
            what = error.what if isinstance(error, WalkbackError) else own_line(error)
            self.status, self.why = "failed", f"it could not be measured: {what}"
            return {}, None
        return {"accuracy": accuracy, "loss": loss, "moments": moments}, predicted

    def _moments(self, accuracy: float | None, loss: float) -> list[Moment]:
        """At init and at the end; of the control at init the whole moment is that at init."""
        credits: Any = {
            "bp": "backward", "random": NoiseCredits(self.job.setting.blocks, self.wanted.seed), "init": None,
        }.get(self.wanted.who, self.job.credits)  # fmt: skip
        try:
            last = self.scorer.moment(self.model, credits, self.notes)
        except Exception:
            if self.status != "diverged":
                raise
            last = Moment()
            self.notes.append("the net is not finite, so only its accuracy was measured")
        last = last.changed(accuracy=accuracy, loss=loss)
        if self.steps:
            try:
                last = last.changed(measured=last.measured | self.scorer.updates(self.model, self.steps))
            except Exception as error:  # whatever a stranger's model raises in float64
                self.notes.append(f"the steps of the blocks were not compared with the gradient: {own_line(error)}")
        return [last.changed(epoch=0)] if self.first is None else [self.first, last]

    def _moved(self) -> dict[str, Any]:
        """Its weights, and how far they went from those at init: by block, and all others."""
        after = state_of(self.model)
        names = [name for name, _ in self.model.named_parameters() if name in self.before]
        inner = [inside(names, [block]) for block in self.job.blocks(self.wanted.part)]
        outer = [name for name in names if not any(name in block for block in inner)]
        return {
            "weights": digest_of(after), "moved": [_apart(self.before, after, block) for block in inner],
            "elsewhere": _apart(self.before, after, outer),
        }  # fmt: skip


def _apart(before: Mapping[str, Tensor], after: Mapping[str, Tensor], names: Sequence[str]) -> float:
    """‖w − w_0‖ / ‖w_0‖ over some tensors; 0 only if they are the same bits."""
    apart = math.sqrt(sum(float((after[n].detach().double() - before[n].double()).square().sum()) for n in names))
    size = math.sqrt(sum(float(before[n].double().square().sum()) for n in names))
    if apart == 0 and differing(before, after, names):
        return math.ulp(0.0)
    return apart / size if size > 0 else apart
