"""Checkpoints on disk: whole or refused, and never executed."""

import json
import os
import pickle
from pathlib import Path

import pytest
import torch

from actorlearner.checkpoint import MANIFEST, read_checkpoint, write_checkpoint
from actorlearner.exceptions import CheckpointError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "checkpoint", {"weight": torch.arange(6.0).view(2, 3)}, {"steps": 7})
    return tmp_path / "checkpoint"


def tensor_file(folder: Path) -> Path:
    (found,) = folder.glob("*.safetensors")
    return found


def test_what_is_written_is_read(folder: Path) -> None:  # spec A15
    tensors, state = read_checkpoint(folder)
    assert torch.equal(tensors["weight"], torch.arange(6.0).view(2, 3))
    assert state == {"steps": 7}
    assert len(list(folder.iterdir())) == 2


def test_what_json_cannot_hold_is_written_as_text(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {}, {"env_config": {"path": Path("x"), "size": (1, 2)}})
    assert read_checkpoint(tmp_path).state == {"env_config": {"path": "x", "size": [1, 2]}}


def test_a_truncated_or_corrupted_tensor_file_is_refused(folder: Path) -> None:
    path = tensor_file(folder)
    whole = path.read_bytes()
    for broken in (whole[:-4], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match="truncated or corrupted"):
            read_checkpoint(folder)


def test_a_truncated_or_changed_manifest_is_refused(folder: Path) -> None:
    path = folder / MANIFEST
    whole = path.read_text()
    for broken in (whole[: len(whole) // 2], whole.replace('"steps": 7', '"steps": 8')):
        path.write_text(broken)
        with pytest.raises(CheckpointError, match="truncated or corrupted"):
            read_checkpoint(folder)


def test_foreign_newer_and_missing_checkpoints_are_refused(folder: Path, tmp_path: Path) -> None:
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "version": 99}))
    with pytest.raises(CheckpointError, match="version 99, this release reads up to 1"):
        read_checkpoint(folder)
    path.write_text("[]")
    with pytest.raises(CheckpointError, match="not one of this engine's"):
        read_checkpoint(folder)
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        read_checkpoint(tmp_path / "nothing")
    tensor_file(folder).unlink()
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_checkpoint(folder)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("exploded",)


def test_a_pickle_in_place_of_the_tensors_is_never_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    payload = pickle.dumps(Bomb())
    path = tensor_file(folder)
    path.write_bytes(payload)
    with pytest.raises(CheckpointError, match="truncated or corrupted"):
        read_checkpoint(folder)
    # Even with a manifest that vouches for it.
    import hashlib

    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["tensors"].update(bytes=len(payload), sha256=hashlib.sha256(payload).hexdigest())
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        read_checkpoint(folder)
    assert not (folder.parent / "exploded").exists()


def test_a_kill_while_writing_leaves_the_older_checkpoint_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace
    for killed_at in (0, 1):
        calls = []

        def dies(source: object, target: object, at: int = killed_at, calls: list[object] = calls) -> None:
            calls.append(target)
            if len(calls) == at + 1:
                raise KeyboardInterrupt
            replace(str(source), str(target))

        monkeypatch.setattr(os, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            write_checkpoint(folder, {"weight": torch.zeros(3)}, {"steps": 8})
        assert read_checkpoint(folder).state == {"steps": 7}
    monkeypatch.setattr(os, "replace", replace)
    write_checkpoint(folder, {"weight": torch.zeros(3)}, {"steps": 8})
    assert read_checkpoint(folder).state == {"steps": 8}
    assert len(list(folder.iterdir())) == 2
