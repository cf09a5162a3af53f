"""The machine: which device to train on, how many threads, what happens to freed memory."""

import ctypes
import os
import sys

import torch

from torchsets.fitting import find_device
from torchsets.lab.training.processes import process_count

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the numbers of glibc's malloc.h
_ONE_GIGABYTE = 1 << 30


def pick_device(name: str = "auto") -> torch.device:
    """Return the named device; ``auto`` is a GPU if there is one.

    Raises:
        ValueError: If torch has no such device, or a process of several would not have its own.
    """
    device = find_device(name)
    if device.type == "cuda" and process_count() > 1:
        _check_each_has_one(torch.cuda.device_count(), int(os.environ["LOCAL_WORLD_SIZE"]))
    return device


def use_one_thread(device: torch.device) -> bool:
    """Train with one thread on a CPU; return whether that was decided here.

    Most models here are too small to share, and beside a busy neighbour a second thread that
    spins makes them many times slower: see ``docs/devices.md``. ``OMP_NUM_THREADS`` asks for
    another number. With a GPU torch's own choice stays: the host then only solves assignments.
    """
    if device.type != "cpu" or "OMP_NUM_THREADS" in os.environ:
        return False
    os.environ["OMP_NUM_THREADS"] = "1"  # for the records, and for processes started from here
    torch.set_num_threads(1)
    return True


def keep_freed_memory() -> bool:
    """Ask glibc to keep large freed blocks; return whether it agreed.

    By default each large tensor is mapped when made and unmapped when freed, and the system clears
    its pages every time. Kept on the heap they are reused: a step with tensors above 32 MB took
    1.6 times less time, others the same (``docs/devices.md``). Other systems do without.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a C library other than glibc
        return False
    settings = (_MMAP_THRESHOLD, _TRIM_THRESHOLD)
    return all(mallopt(setting, _ONE_GIGABYTE) == 1 for setting in settings)


def _check_each_has_one(gpus: int, processes: int) -> None:
    if processes > gpus:
        raise ValueError(
            f"--nproc-per-node must be at most the number of GPUs, {gpus}, got {processes}; "
            "or train on the CPU with device=cpu"
        )
