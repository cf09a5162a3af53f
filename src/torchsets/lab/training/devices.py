"""The device to train on."""

import os

import torch

from torchsets.lab.training.processes import process_count


def pick_device(name: str = "auto") -> torch.device:
    """Return the named device; ``auto`` is a GPU if there is one.

    Raises:
        ValueError: If torch has no such device, or a process of several would not have its own.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"device must be one that torch has here, got {name!r}: {first}") from None
    if device.type == "cuda" and process_count() > 1:
        _check_each_has_one(torch.cuda.device_count(), int(os.environ["LOCAL_WORLD_SIZE"]))
    return device


def _check_each_has_one(gpus: int, processes: int) -> None:
    if processes > gpus:
        raise ValueError(
            f"--nproc-per-node must be at most the number of GPUs, {gpus}, got {processes}; "
            "or train on the CPU with device=cpu"
        )
