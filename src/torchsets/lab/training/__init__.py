"""The one training loop: checkpoints, resume, progress, devices, several processes."""

from torchsets.lab.training.batches import map_tensors, move
from torchsets.lab.training.checkpoints import load_checkpoint, load_weights, save_checkpoint
from torchsets.lab.training.history import History
from torchsets.lab.training.host import keep_freed_memory, pick_device, use_one_thread
from torchsets.lab.training.loop import Settings, linear_decay, seed_everything, train
from torchsets.lab.training.optimising import adam, late_decay
from torchsets.lab.training.processes import (
    is_first,
    join_processes,
    on_first,
    process_count,
    wait_for_all,
)

__all__ = [
    "History",
    "Settings",
    "adam",
    "is_first",
    "join_processes",
    "keep_freed_memory",
    "late_decay",
    "linear_decay",
    "load_checkpoint",
    "load_weights",
    "map_tensors",
    "move",
    "on_first",
    "pick_device",
    "process_count",
    "save_checkpoint",
    "seed_everything",
    "train",
    "use_one_thread",
    "wait_for_all",
]
