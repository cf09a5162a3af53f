"""The one training loop: checkpoints, resume, progress, devices, several processes."""

from torchsets.lab.training.checkpoints import load_checkpoint, save_checkpoint
from torchsets.lab.training.devices import pick_device
from torchsets.lab.training.loop import Settings, linear_decay, seed_everything, train
from torchsets.lab.training.memory import keep_freed_memory
from torchsets.lab.training.minibatches import Minibatches
from torchsets.lab.training.processes import is_first, join_processes, on_first, process_count
from torchsets.lab.training.threads import use_one_thread

__all__ = [
    "Minibatches",
    "Settings",
    "is_first",
    "join_processes",
    "keep_freed_memory",
    "linear_decay",
    "load_checkpoint",
    "on_first",
    "pick_device",
    "process_count",
    "save_checkpoint",
    "seed_everything",
    "train",
    "use_one_thread",
]
