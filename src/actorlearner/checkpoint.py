"""Checkpoints that are safe to open and never half-written: tensors as safetensors, the rest as JSON (spec A15).

The manifest names the tensor file with its size and hash and is replaced last, in one step: a kill while writing
leaves the checkpoint that was there before.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from actorlearner.exceptions import CheckpointError

FORMAT = "actorlearner-checkpoint"
VERSION = 1
MANIFEST = "checkpoint.json"
_TENSORS = "tensors-{digest}.safetensors"


class Checkpoint(NamedTuple):
    """What a checkpoint holds: tensors by name, and plain JSON data."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def write_checkpoint(directory: str | os.PathLike[str], tensors: Mapping[str, Tensor], state: Any) -> None:
    """Write a checkpoint into a directory, in place of an older one there.

    Args:
        directory: made if it does not exist.
        tensors: by name; copied.
        state: data that JSON can hold; anything else becomes its text.

    Raises:
        OSError: no permission or no space; an older checkpoint in the directory stays whole.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    payload = save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
    digest = hashlib.sha256(payload).hexdigest()
    state = json.loads(json.dumps(state, default=str))
    name = _TENSORS.format(digest=digest[:16])
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "tensors": {"file": name, "bytes": len(payload), "sha256": digest},
        "state_sha256": _digest(state),
        "state": state,
    }
    _replace(folder / name, payload)
    _replace(folder / MANIFEST, json.dumps(manifest, indent=1).encode())
    for older in folder.glob(_TENSORS.format(digest="*")):
        if older.name != name:
            older.unlink(missing_ok=True)


def read_checkpoint(directory: str | os.PathLike[str]) -> Checkpoint:
    """Read and verify a checkpoint; nothing in it is ever executed.

    Raises:
        CheckpointError: missing, truncated, corrupted, foreign, or written by a newer release.
    """
    folder = Path(directory)
    manifest = _read_manifest(folder)
    entry = manifest["tensors"]
    path = folder / Path(str(entry["file"])).name
    try:
        payload = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"The checkpoint's file {path} cannot be read ({error}).") from error
    if len(payload) != entry["bytes"] or hashlib.sha256(payload).hexdigest() != entry["sha256"]:
        raise CheckpointError(
            f"The checkpoint's file {path} is truncated or corrupted ({len(payload)} bytes, {entry['bytes']} expected, "
            "or another hash): take another checkpoint."
        )
    try:
        tensors = load(payload)
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} is not a safetensors file ({error}).") from error
    return Checkpoint(tensors=tensors, state=manifest["state"])


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"There is no checkpoint in {folder}: {MANIFEST} cannot be read ({error}).") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is truncated or corrupted ({error}): take another checkpoint.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(f'{path} is not one of this engine\'s checkpoints: its "format" must be "{FORMAT}".')
    version = manifest.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise CheckpointError(
            f"{path} has checkpoint version {version}, this release reads up to {VERSION}: update impala-sweeps."
        )
    entry = manifest.get("tensors")
    complete = isinstance(entry, dict) and {"file", "bytes", "sha256"} <= set(entry)
    if not complete or manifest.get("state_sha256") != _digest(manifest.get("state")):
        raise CheckpointError(f"{path} is truncated or corrupted: take another checkpoint.")
    return manifest


def _digest(state: Any) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _replace(path: Path, payload: bytes) -> None:
    """Write a file so that the path holds either what was there or all of ``payload``, even after a power cut."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
