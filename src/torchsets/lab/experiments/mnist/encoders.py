"""Take trained encoders from a run of ``mnist-reconstruct``."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from torchsets.lab.experiments.mnist.models import encoder_weights
from torchsets.lab.records import read_run
from torchsets.lab.training import load_checkpoint

_PREFIX = "model."


def check_encoders(folder: str, tasks: Sequence[str], fields: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if the run has other fields, or has not finished one of the tasks."""
    run = read_run(folder)
    for field, ours in fields.items():
        theirs = run.config.get(field)
        if ours != theirs:
            raise ValueError(
                f"{field} must be that of the encoders in {folder}, {theirs}, got {ours}"
            )
    for task in tasks:
        if task not in run.result["tasks"]:
            raise ValueError(f"encoders must be a run that has finished {task}, got {folder}")


def read_encoder(folder: str, task: str) -> dict[str, Tensor]:
    """Read the weights of the encoder that a task has trained."""
    path = Path(folder) / "checkpoint" / task
    found = load_checkpoint(path)
    if found is None:
        raise ValueError(f"encoders must be a run with its checkpoints, got none in {path}")
    model = {
        name.removeprefix(_PREFIX): value
        for name, value in found.tensors.items()
        if name.startswith(_PREFIX)
    }
    return encoder_weights(model)


def digest_of(weights: Mapping[str, Tensor]) -> str:
    """Return a short fingerprint of weights."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(weights[name].numpy().tobytes())
    return digest.hexdigest()[:16]
