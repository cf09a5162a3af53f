"""The one training loop: checkpoints, resume, progress, devices."""

from torchsets.training.checkpoints import load_checkpoint, save_checkpoint
from torchsets.training.loop import (
    Minibatches,
    Settings,
    linear_decay,
    pick_device,
    seed_everything,
    train,
)
from torchsets.training.memory import keep_freed_memory

__all__ = [
    "Minibatches",
    "Settings",
    "keep_freed_memory",
    "linear_decay",
    "load_checkpoint",
    "pick_device",
    "save_checkpoint",
    "seed_everything",
    "train",
]
