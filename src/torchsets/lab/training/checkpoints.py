"""Checkpoints without pickle: written whole or not at all, and checked when read.

A checkpoint is a folder ``STEP/`` with ``tensors.safetensors``, ``state.json`` and
``manifest.json``, the checksums of the other two. It is made under another name, flushed to disk,
and renamed, so a crash at any moment leaves the earlier one as it was. Two are kept.
"""

import errno
import hashlib
import json
import os
import random
import shutil
import textwrap
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from torchsets.lab.records.files import explained, sync
from torchsets.lab.typed import Json

SCHEMA_VERSION = 1
_MAY_CHANGE = {"device"}  # a run may be resumed elsewhere
_DAMAGE = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO)  # None: our checksums
_BROKEN = (OSError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError)
_TENSORS, _STATE, _MANIFEST = "tensors.safetensors", "state.json", "manifest.json"


class Checkpoint(NamedTuple):
    """Tensors by name, and everything else as JSON."""

    tensors: dict[str, Tensor]
    state: dict[str, Json]


def save_checkpoint(
    folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Json], *, keep: int = 2
) -> None:
    """Write ``folder/STEP`` in one step, then remove all but the ``keep`` newest checkpoints."""
    writing, target = folder / "writing", folder / f"{step:09d}"
    with explained(target):
        try:
            _write(writing, tensors, state)
            if target.exists():  # a broken one: a whole one would have been resumed
                shutil.rmtree(target)
            os.replace(writing, target)
        except BaseException:
            shutil.rmtree(writing, ignore_errors=True)  # on a full disk it takes room
            raise
        sync(folder)
        for old in _steps(folder)[keep:]:
            shutil.rmtree(old)


def load_checkpoint(
    folder: Path, needs: Mapping[str, type | tuple[type, ...]] | None = None
) -> Checkpoint | None:
    """Read the newest whole checkpoint below ``folder``; None if none was ever written.

    ``needs`` names entries that its state must have, with their types. A broken one is passed over
    with a warning. If all are broken, or one is of a newer schema, a ``ValueError`` says so, and if
    one may not be read, an ``OSError``; nothing is removed.
    """
    candidates = _steps(folder)
    for path in candidates:
        try:
            found = _read(path)
            for name, kind in (needs or {}).items():
                if not isinstance(found.state[name], kind):
                    raise TypeError(f"{name} in {_STATE} has another type")
            return found
        except _BROKEN as error:
            if isinstance(error, OSError) and error.errno not in _DAMAGE:
                raise OSError(
                    f"cannot read checkpoint {path}: {error.strerror}; nothing is lost"
                ) from error
            warnings.warn(f"checkpoint {path} is broken ({error}), trying an earlier", stacklevel=2)
    if candidates:
        both = {1: "the checkpoint", 2: "both checkpoints"}
        raise ValueError(
            f"{both.get(len(candidates), 'all checkpoints')} in {folder} "
            f"{'is' if len(candidates) == 1 else 'are'} corrupt; remove that folder to train this "
            "task from its start"
        )
    return None


def load_weights(folder: Path, model: nn.Module) -> bool:
    """Load the weights of the newest checkpoint into a model; False if none was ever written.

    Raises:
        ValueError: If they do not fit the model.
    """
    found = load_checkpoint(folder)
    if found is None:
        return False
    try:
        model.load_state_dict(_below(found.tensors, "model."))
    except RuntimeError as error:
        reason = textwrap.shorten(str(error), 300)
        raise ValueError(
            f"the checkpoint in {folder} does not fit the model ({reason}): it was made by other "
            "code or with other settings"
        ) from error
    return True


def check_config(made_with: Mapping[str, Json], config: Mapping[str, Json], folder: Path) -> None:
    """Raise ``ValueError`` if a run would resume with another configuration, naming the fields."""
    fields = sorted((made_with.keys() | config.keys()) - _MAY_CHANGE)
    changed = [
        f"{field}={_shown(config, field)} instead of {_shown(made_with, field)}"
        for field in fields
        if _shown(made_with, field) != _shown(config, field)
    ]
    if changed:
        raise ValueError(
            f"config.json must be as it was when {folder} was made, got {', '.join(changed)}; "
            "put it back, or start a new run: nothing is lost"
        )


def capture(
    model: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
) -> Checkpoint:
    """Collect the weights, the optimiser and every random state."""
    saved = optimiser.state_dict()
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    scalars: dict[str, dict[str, Json]] = {}
    for index, values in saved["state"].items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimiser.{index}.{key}"] = value
            else:
                scalars.setdefault(str(index), {})[key] = value
    groups = [
        {key: value for key, value in group.items() if key != "params"}
        for group in saved["param_groups"]
    ]
    _, numpy_words, *numpy_rest = np.random.get_state(legacy=True)
    python_version, python_words, python_gauss = random.getstate()
    tensors["random.torch"] = torch.get_rng_state()
    tensors["random.data"] = generator.get_state()
    tensors["random.numpy"] = torch.from_numpy(np.asarray(numpy_words).astype(np.int64))
    tensors["random.python"] = torch.tensor(python_words, dtype=torch.int64)
    if torch.cuda.is_available():
        for index, value in enumerate(torch.cuda.get_rng_state_all()):
            tensors[f"random.cuda.{index}"] = value
    rest = {"numpy": numpy_rest, "python": [python_version, python_gauss]}
    return Checkpoint(tensors, {"optimiser": scalars, "groups": groups, "random": rest})


def restore(
    checkpoint: Checkpoint,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    generator: torch.Generator,
) -> None:
    """Put back what :func:`capture` collected.

    Raises:
        ValueError: If it does not fit the model or the optimiser.
    """
    try:
        _restore(checkpoint, model, optimiser, generator)
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        reason = textwrap.shorten(str(error), 300)
        raise ValueError(
            f"the checkpoint does not fit the model and its optimiser ({reason}): it was made by "
            "other code; resume with the commit in environment.json, or start a new run"
        ) from error


def _restore(
    checkpoint: Checkpoint,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    generator: torch.Generator,
) -> None:
    tensors, state = checkpoint
    model.load_state_dict(_below(tensors, "model."))
    values: dict[int, dict[str, Json]] = {
        int(index): dict(scalars) for index, scalars in state["optimiser"].items()
    }
    for name, tensor in _below(tensors, "optimiser.").items():
        index, key = name.split(".", 1)
        values.setdefault(int(index), {})[key] = tensor
    groups = [
        {
            **{
                key: tuple(value) if isinstance(value, list) else value
                for key, value in saved.items()
            },
            "params": now["params"],
        }
        for saved, now in zip(state["groups"], optimiser.state_dict()["param_groups"], strict=True)
    ]
    optimiser.load_state_dict({"state": values, "param_groups": groups})
    torch.set_rng_state(tensors["random.torch"])
    generator.set_state(tensors["random.data"])
    numpy_words = tensors["random.numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", numpy_words, *state["random"]["numpy"]))
    version, gauss = state["random"]["python"]
    random.setstate((version, tuple(tensors["random.python"].tolist()), gauss))
    cuda = _below(tensors, "random.cuda.")
    if torch.cuda.is_available() and len(cuda) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([cuda[str(index)] for index in range(len(cuda))])


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _plain(tensor: Tensor) -> Tensor:
    """A copy of its own on the CPU: safetensors refuses tied and strided tensors."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _steps(folder: Path) -> list[Path]:
    """The checkpoints below a folder, newest first."""
    try:
        entries = list(folder.iterdir())
    except FileNotFoundError:
        return []
    return sorted((path for path in entries if path.name.isdigit()), reverse=True)


def _write(folder: Path, tensors: dict[str, Tensor], state: dict[str, Json]) -> None:
    if folder.exists():  # left over from a crash
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    # Written by Python and not by safetensors, so that a full disk is a plain OSError.
    packed = save({name: _plain(tensor) for name, tensor in tensors.items()})
    (folder / _TENSORS).write_bytes(packed)
    (folder / _STATE).write_text(json.dumps(state), encoding="utf-8")
    checksums = {name: _checksum(folder / name) for name in (_TENSORS, _STATE)}
    manifest = {"schema_version": SCHEMA_VERSION, "sha256": checksums}
    (folder / _MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    for path in (*folder.iterdir(), folder):
        sync(path)


def _shown(config: Mapping[str, Json], field: str) -> str:
    return json.dumps(config[field]) if field in config else "nothing"


def _read(path: Path) -> Checkpoint:
    manifest = _read_object(path / _MANIFEST)
    if type(manifest["schema_version"]) is not int:
        raise TypeError("its schema version is no number")
    if manifest["schema_version"] > SCHEMA_VERSION:
        raise ValueError(
            f"{path} must have schema version {SCHEMA_VERSION} or less, "
            f"got {manifest['schema_version']}: it was written by a newer torchsets"
        )
    for name in (_TENSORS, _STATE):
        if _checksum(path / name) != manifest["sha256"][name]:
            raise OSError(f"{name} does not match its checksum")
    state = _read_object(path / _STATE)
    return Checkpoint(load_file(path / _TENSORS), state)


def _read_object(path: Path) -> dict[str, Json]:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise TypeError(f"{path.name} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise TypeError(f"{path.name} is no JSON object")
    return content


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
