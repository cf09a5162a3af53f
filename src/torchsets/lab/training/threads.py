"""How many threads torch uses on a CPU."""

import os

import torch


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
