"""One training, from the untrained net to its record; an error in a user's function becomes an answer."""

import hashlib
import math
import platform
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from walkback.audits.training.frozen import check_frozen, copy_of, differing, duplicate, inside, tensors_of
from walkback.audits.training.job import Job, Wanted
from walkback.audits.training.measuring import NoiseCredits, Ruler, Scored
from walkback.audits.training.noise import noisy_gradients, noisy_movements
from walkback.audits.training.shallow import REMEDY, trainable, without_blocks
from walkback.errors import BadValue, WalkbackError
from walkback.probes.standing import Movement, Movements, Stance
from walkback.probes.unwrap import find_blocks, unwrapped
from walkback.probes.user_errors import own_line
from walkback.probes.witness import Witness
from walkback.records import Moment, ReadingRecord
from walkback.records.loop_training import LoopTraining, digest_of, write_training
from walkback.records.predictions import digest
from walkback.version import own_version

SETTLED = ("finished", "diverged", "not frozen")  # a training that failed is tried again
NOTHING = "it changed no parameter: it trains nothing, or another model than the one that it is given"


class Unusable(WalkbackError):
    """A loop that cannot be audited, whatever the seed."""


class Ended(NamedTuple):
    """A model after its training."""

    status: str
    why: str
    notes: list[str]
    noise: str | None
    standing: Stance | None = None
    steps: Sequence[Movement] = ()


def set_seeds(seed: int) -> None:
    """Python's, numpy's and torch's random state, as functions of the seed."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def made(job: Job, wanted: Wanted) -> nn.Module:
    """The untrained net, with the blocks that the setting names; an error says what is wrong with it."""
    name = "make_bp_model" if wanted.who == "bp" and job.make_bp_model is not None else "make_model"
    if wanted.part == "none" and job.make_shallow is not None:
        name = "make_shallow"
    set_seeds(wanted.seed)
    try:
        model = job.make(wanted.who, wanted.part, wanted.seed)
    except WalkbackError:
        raise
    except (Exception, SystemExit) as error:
        raise BadValue(f"{name}({wanted.seed}) raised {own_line(error)}", "fix it") from error
    if not isinstance(model, nn.Module):
        raise BadValue(f"{name}({wanted.seed}) gives a {type(model).__name__}", "let it return an nn.Module")
    return unwrapped(model).model


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


def train_one(job: Job, wanted: Wanted, out: Path) -> LoopTraining:
    """Train, verify, measure and keep one training."""
    began = time.monotonic()
    if wanted.trial and job.validation is not None:
        job = replace(job, batches=job.validation, probed=job.validation)
    model = made(job, wanted)
    if wanted.part == "none":
        model = _shallow(job, model)
    before, start = copy_of(tensors_of(model)), duplicate(model)
    ruler = Ruler(job, model, describe=wanted.who == "subject")
    first = ruler.begun(model) if wanted.part == "all" and not wanted.trial else None
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    try:
        if wanted.who == "init":
            ended = Ended("finished", "", [], None)
        else:
            model, ended = _trained(job, wanted, model, before, ruler.task.take.__call__)
        if ended.status == "finished" and job.frozen_blocks(wanted.part) and wanted.who != "init":
            why, notes = check_frozen(model, before, start, job.frozen_blocks(wanted.part), ruler.outputs())
            ended = ended._replace(status="not frozen" if why else "finished", why=why, notes=[*ended.notes, *notes])
        record, tensors, predicted = _recorded(job, wanted, model, before, ended, ruler, first, began)
    finally:
        for name, p in model.named_parameters():
            p.requires_grad_(flags.get(name, p.requires_grad))
    write_training(out, record, None if wanted.trial else tensors, None if wanted.trial else predicted)
    return record


def _shallow(job: Job, model: nn.Module) -> nn.Module:
    """The net without its blocks: the user's own, or the net that `made` built with its blocks left out."""
    if job.make_shallow is None:
        return without_blocks(model, job.setting.blocks, Ruler(job, model).outputs())
    if shapes_of(model) == job.setting.parameters:
        raise BadValue("make_shallow gives the net with its blocks", "let it give the same net without them")
    return trainable(model)


def _declared(job: Job, wanted: Wanted) -> Stance | None:
    """The standing of credits that are not looked at in the training."""
    if wanted.part != "all":
        return None
    if wanted.who == "subject" and callable(job.credits):
        return Stance("declared", "credits= is a function: what it returns was not compared with what trained")
    if wanted.who == "bp" and job.train_bp is None:
        return Stance("seen", "it was trained by a plain loop of walkback's own")
    return None


def _trained(
    job: Job, wanted: Wanted, model: nn.Module, before: Mapping[str, Tensor], take: Callable[[Any], Tensor]
) -> tuple[nn.Module, Ended]:
    """The model after the user's loop, and how that ended."""
    blocks, still = job.setting.blocks, job.frozen_blocks(wanted.part)
    frozen = parameters_of(model, still) if still else {}
    for parameter in frozen.values():
        parameter.requires_grad_(False)
    if not any(p.requires_grad for p in model.parameters()):
        note = "all parameters lie in the blocks, so that with frozen blocks there is nothing left to train"
        return model, Ended("finished", "", [note], None)
    model.train()
    if wanted.who != "random":
        present = job.blocks(wanted.part)
        witness, steps = None, Movements(model, [*find_blocks(model, present).values()] if present else [])
        if (wanted.who, wanted.part, job.credits) == ("subject", "all", "backward"):
            witness = Witness(model, blocks, take)
            witness.start()
        try:
            with steps if (wanted.who, wanted.part) == ("subject", "all") and callable(job.credits) else nullcontext():
                ended = _run(job, wanted, model, before)
        finally:
            answer = None if witness is None else witness.close()
        return model, ended._replace(standing=answer or _declared(job, wanted), steps=steps.kept)
    with noisy_gradients(parameters_of(model, blocks), _noise_seed(wanted.seed)) as noise:
        ended = _run(job, wanted, model, before)
    after = tensors_of(model)
    if ended.status == "failed" or noise.consumed({name: after[name] for name in noise.start}):
        return model, ended._replace(noise="gradients")
    again = made(job, wanted)
    again.train()
    if differing(before, tensors_of(again), [*before]):
        return again, ended._replace(status="failed", why="make_model gives another net for the same seed", noise=None)
    parts = find_blocks(again, blocks)
    with noisy_movements(parts, _noise_seed(wanted.seed)):
        ended = _run(job, wanted, again, before)
    if ended.status != "failed" and any(find_blocks(again, [name])[name] is not part for name, part in parts.items()):
        why = "train puts new modules in the place of blocks, so that noise cannot be given to them"
        return again, ended._replace(status="failed", why=why)
    note = (
        "the loop does not use .grad of the blocks, so noise replaced the change of their parameters between two "
        "forward passes"
    )
    return again, ended._replace(noise="movements", notes=[*ended.notes, note])


def _noise_seed(seed: int) -> int:
    return (seed * 2654435761 + 97) % 2**63


def _run(job: Job, wanted: Wanted, model: nn.Module, before: Mapping[str, Tensor]) -> Ended:
    """Call the loop, and see what became of the model."""
    whose = "train" if wanted.who != "bp" else "train_bp" if job.train_bp is not None else "the plain loop"
    set_seeds(wanted.seed)
    blocks = job.blocks(wanted.part)
    parts = find_blocks(model, blocks) if blocks else {}
    with torch.enable_grad():
        try:
            returned = job.run(wanted.who, model, wanted.seed, wanted.lr)
        except WalkbackError as error:
            return Ended("failed", f"{whose} raised: {error.what}", [], None)
        except SystemExit as error:
            why = f"{whose} ends the program: {own_line(error)}; leave exit() out of it"
            return Ended("failed", why, [], None)
        except Exception as error:
            hint = ""
            if job.frozen_blocks(wanted.part) and "grad" in str(error):
                hint = "; its frozen blocks have requires_grad=False, so skip parameters that require no gradient"
            elif wanted.part == "none" and job.make_shallow is None:
                hint = f"; here nn.Identity stands in the place of its blocks. If the loop needs them, {REMEDY}"
            return Ended("failed", f"{whose} raised {own_line(error)}{hint}", [], None)
    after = tensors_of(model)
    lost = [name for name in before if name not in after or after[name].shape != before[name].shape]
    new = [name for name in after if name not in before]
    if lost or new:
        words = f"{whose} changes the net: {', '.join([*lost, *new][:3])} is not what make_model gave it"
        return Ended("failed", f"{words}; let it train the model that it is given", [], None)
    parameters = [name for name, _ in model.named_parameters()]
    moved = differing(before, after, parameters)
    another = isinstance(returned, nn.Module) and unwrapped(returned).model is not model
    if not moved:
        if wanted.part == "none" or (differing(before, after, [*before]) == [] and wanted.part == "all"):
            words = "it returned a new model and left the one that it was given as it was" if another else NOTHING
            return Ended("failed", f"{whose}: {words}", [], None)
        return Ended("finished", "", [f"{whose} moved no parameter"], None)
    notes = [f"{whose} returned another model, which was not looked at"] if another else []
    if any(part is not find_blocks(model, [name])[name] for name, part in parts.items()):
        notes.append(f"{whose} put new modules in the place of blocks")
    if wanted.part == "all" and not inside(moved, blocks):
        notes.append(f"{whose} moved no parameter of any block")
    odd = [name for name in parameters if not after[name].isfinite().all()]
    if odd:
        return Ended("diverged", f"{odd[0]} is not finite after training", notes, None)
    return Ended("finished", "", notes, None)


def _recorded(
    job: Job, wanted: Wanted, model: nn.Module, before: Mapping[str, Tensor], ended: Ended, ruler: Ruler,
    first: Moment | None, began: float,
) -> tuple[LoopTraining, dict[str, Tensor] | None, bytes | None]:  # fmt: skip
    """The record of a training, with what is measured of it, its tensors, and its final predictions."""
    notes, status, why = list(ended.notes), ended.status, ended.why
    scored, moments = Scored(None, None, None), list[Moment]()
    if status != "failed":
        credits: Any = {"bp": "backward", "random": NoiseCredits(job.setting.blocks, wanted.seed), "init": None}.get(
            wanted.who, job.credits
        )
        try:
            scored = ruler.score(model)
            if wanted.part == "all" and not wanted.trial:
                moments = _moments(ruler, model, credits, first, status, notes, scored, wanted.who == "init")
            if moments and ended.steps:
                measured = moments[-1].measured | _updates(ruler, model, ended.steps, notes)
                moments[-1] = moments[-1].changed(measured=measured)
        except WalkbackError as error:
            status, why = "failed", f"it could not be measured: {error.what}"
        except Exception as error:
            status, why = "failed", f"it could not be measured: {own_line(error)}"
    if status == "failed":
        scored, moments = Scored(None, None, None), []
    after = tensors_of(model)
    names = [name for name, _ in model.named_parameters() if name in before]
    same = status != "failed"
    standing = ended.standing if same else None
    inner = [inside(names, [block]) for block in job.blocks(wanted.part)]
    outer = [name for name in names if not any(name in block for block in inner)]
    record = LoopTraining(
        setting=job.setting, who=wanted.who, part=wanted.part, seed=wanted.seed, status=status, why=why,  # type: ignore[arg-type]
        accuracy=scored.accuracy, loss=scored.loss, moments=moments, init=digest_of(before),
        predictions=None if scored.predictions is None or wanted.trial else digest(scored.predictions),
        weights=digest_of(after) if same else "",
        moved=[_moved(before, after, block) for block in inner] if same else [],
        elsewhere=_moved(before, after, outer) if same else None, noise=ended.noise,  # type: ignore[arg-type]
        source=job.shallow_source if wanted.part == "none" else None, notes=list(dict.fromkeys(notes)),
        seconds=round(time.monotonic() - began, 2),
        made={"walkback": own_version(), "python": platform.python_version(), "torch": str(torch.__version__)},
        lr=wanted.lr, held_out=held_out(job, wanted),
        standing=None if standing is None else standing.standing, standing_why="" if standing is None else standing.why,
    )  # fmt: skip
    return record, copy_of(after) if same else None, scored.predictions


def held_out(job: Job, wanted: Wanted) -> int | None:
    """How many samples a trial is measured on."""
    return sum(len(labels) for _, labels in job.validation or ()) if wanted.trial else None


def _updates(
    ruler: Ruler, model: nn.Module, steps: Sequence[Movement], notes: list[str]
) -> dict[str, list[ReadingRecord]]:
    try:
        return ruler.updates(model, steps)
    except Exception as error:  # whatever a stranger's model raises in float64
        notes.append(f"the steps of the blocks were not compared with the gradient: {own_line(error)}")
        return {}


def _moments(
    ruler: Ruler, model: nn.Module, credits: Any, first: Moment | None, status: str, notes: list[str],
    scored: Scored, at_init: bool,
) -> list[Moment]:  # fmt: skip
    """At init and at the end; of the control at init the whole moment is that at init."""
    try:
        last = ruler.moment(model, credits, notes)
    except Exception:
        if status != "diverged":
            raise
        last = Moment()
        notes.append("the net is not finite, so only its accuracy was measured")
    known = {"accuracy": scored.accuracy, "loss": scored.loss} | ({"epoch": 0} if at_init else {})
    last = last.changed(**known)
    return [last] if at_init or first is None else [first, last]


def _moved(before: Mapping[str, Tensor], after: Mapping[str, Tensor], names: Sequence[str]) -> float:
    """‖w − w_0‖ / ‖w_0‖ over some tensors; 0 only if they are the same bits."""
    apart = math.sqrt(sum(float((after[n].detach().double() - before[n].double()).square().sum()) for n in names))
    size = math.sqrt(sum(float(before[n].double().square().sum()) for n in names))
    if apart == 0 and differing(before, after, names):
        return math.ulp(0.0)
    return apart / size if size > 0 else apart


def shapes_of(model: nn.Module) -> str:
    """A hash of the names and shapes of all parameters and buffers."""
    words = [f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in tensors_of(model).items()]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def failed_record(job: Job, wanted: Wanted, why: str) -> LoopTraining:
    """The record of a training that left nothing."""
    return LoopTraining(
        setting=job.setting, who=wanted.who, part=wanted.part, seed=wanted.seed, status="failed", why=why,
        accuracy=None, loss=None, moments=[], init="", weights="", moved=[], elsewhere=None, noise=None,
        source=job.shallow_source if wanted.part == "none" else None, notes=[], seconds=0.0,
        made={"walkback": own_version(), "python": platform.python_version(), "torch": str(torch.__version__)},
        lr=wanted.lr, held_out=held_out(job, wanted),
    )  # fmt: skip
