"""A checkpoint: tensors and a small state in one safetensors file, with a checksum. Nothing is unpickled.

Its header tells whose it is, and is read without torch and without the tensors.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walkback.errors import RecordError
from walkback.files import check_regular, parse_json
from walkback.records.record import FRESH

if TYPE_CHECKING:
    from torch import Tensor

CHECKPOINTS = ("checkpoint.safetensors", "checkpoint.previous.safetensors")
LARGEST_HEADER = 1 << 24


class Damaged(RecordError):
    """A checkpoint that is not what was saved."""


def checkpoint_bytes(tensors: Mapping[str, "Tensor"], state: Mapping[str, object]) -> bytes:
    """The content of a checkpoint's file."""
    from safetensors.torch import save

    named = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    about = {"schema": "walkback.checkpoint/1", "state": state, "sha256": digest(named)}
    return save(named, {"walkback": json.dumps(about)})  # one entry: of several, safetensors would shuffle the order


def parsed_header(content: bytes | None) -> tuple[list[str], dict[str, Any]] | None:
    """The names of the tensors, and the state, that a header holds.

    None if there is none, or if it cannot be read: damage is met by the one who resumes the run.
    """
    if content is None:
        return None
    try:
        header = json.loads(content)
        state = json.loads(header["__metadata__"]["walkback"])["state"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return ([*header], state) if isinstance(state, dict) else None


def header_bytes(file: Path | str) -> bytes | None:
    """What a checkpoint's file says of itself before its tensors, as it stands there; None as above."""
    try:
        check_regular(file)  # a pipe would be waited for
        with open(file, "rb") as opened:  # noqa: PTH123 - as in files.py
            length = int.from_bytes(opened.read(8), "little")
            return None if length > LARGEST_HEADER else opened.read(length)
    except (RecordError, OSError, ValueError):
        return None


def load_tensors(file: Path) -> tuple[dict[str, "Tensor"], dict[str, Any]]:
    """A checkpoint's tensors and state, refused unless they are what was saved."""
    from safetensors import safe_open

    try:
        check_regular(file)
        with safe_open(file, framework="pt") as opened:
            words = (opened.metadata() or {}).get("walkback", "{}").encode()
            about = parse_json(words, "its metadata", FRESH, digits=19)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a dict
        found = digest(tensors)
    except Exception as error:  # there is no list of what a damaged file makes a reader raise
        why = error.what if isinstance(error, RecordError) else f"{error or type(error).__name__}"
        raise Damaged(f"{file} is not a whole checkpoint: {why}", FRESH) from error
    if not isinstance(about, dict) or not isinstance(about.get("state"), dict):
        raise Damaged(f"{file} does not say at which step it was saved", FRESH)
    if about.get("schema") != "walkback.checkpoint/1":
        raise RecordError(f"{file} has schema {about.get('schema')!r}, not walkback.checkpoint/1", "upgrade walkback")
    if about.get("sha256") != found:
        raise Damaged(f"{file} does not match its own checksum", FRESH)
    return tensors, about["state"]


def digest(tensors: Mapping[str, "Tensor"]) -> str:
    """A hash of tensors, by name, shape and bits."""
    import torch

    hashed = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        hashed.update(f"{name} {tuple(tensor.shape)} {tensor.dtype};".encode())
        hashed.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return hashed.hexdigest()
