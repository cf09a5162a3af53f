"""Several processes under torchrun: each takes its part of the joint batch, the first one writes.

Every process draws the same joint batch, from the same generator, and keeps its part. The loss is
a mean over sets, so each part counts by its number of sets: then the gradient, averaged by torch's
DistributedDataParallel, is that of the joint batch in one process.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torchsets.lab.training.batches import Part, split_batch

Result = TypeVar("Result")
Loss = Callable[[Any], Tensor | Mapping[str, Tensor]]
Terms = dict[str, Tensor]
_CPU = torch.device("cpu")


@contextmanager
def join_processes() -> Iterator[None]:
    """Join the other processes if torchrun started this one; alone, do nothing.

    Everything that trains belongs inside, from the making of the recorder on. Tensors on a GPU
    travel by nccl, those on a CPU by gloo. Process i of a machine takes its GPU i.

    Example:
        >>> with join_processes():  # not under torchrun: a process alone
        ...     process_count(), is_first()
        (1, True)
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield
        return
    has_gpus = torch.cuda.is_available()
    if has_gpus and int(os.environ["LOCAL_RANK"]) < torch.cuda.device_count():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpus else "gloo")
    yield
    # Not after an error: the others may wait in the middle of a step, and torchrun ends them.
    dist.destroy_process_group()


def process_count() -> int:
    """Return the number of processes that train together, 1 outside :func:`join_processes`."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Return whether this process is the one that writes and prints."""
    return not dist.is_initialized() or dist.get_rank() == 0


def on_first(function: Callable[[], Result]) -> Result:
    """Call a function in the first process and give its result, or its error, to all."""
    if process_count() == 1:
        return function()
    outcome: list[Any] = [None, None]
    if is_first():
        try:
            outcome[0] = function()
        except Exception as error:
            outcome[1] = error
    dist.broadcast_object_list(outcome, src=0, device=_CPU)
    if outcome[1] is not None:
        raise outcome[1]
    result: Result = outcome[0]
    return result


def any_process(flag: bool) -> bool:
    """Return whether the flag is set in any of the processes."""
    if process_count() == 1:
        return flag
    flags = torch.tensor([int(flag)])
    dist.all_reduce(flags, dist.ReduceOp.MAX)
    return bool(flags)


def wait_for_all() -> None:
    """Return when every process has called this."""
    any_process(False)


def take_part(batch: Any) -> Part:
    """Return the part of the joint batch that belongs to this process, all of it if alone."""
    if process_count() == 1:
        return Part(batch, 1.0)
    return split_batch(batch, dist.get_rank(), dist.get_world_size())


def named_terms(loss: Tensor | Mapping[str, Tensor]) -> Terms:
    """Return the terms of a loss with their sum, called ``loss``, in front."""
    if isinstance(loss, Tensor):
        return {"loss": loss}
    return {"loss": torch.stack(list(loss.values())).sum(), **loss}


class JointLoss:
    """The loss of a joint batch: this process computes its part, the others theirs.

    Args:
        model: Its gradients are averaged over the processes.
        loss: A mean over the sets of a batch, or named means.
        seed: Seed of the randomness in the loss, such as dropout, together with the step and the
            process.
    """

    def __init__(self, model: nn.Module, loss: Loss, *, seed: int) -> None:
        self.loss = _LossModule(model, loss)
        self.seed = seed
        # A parameter may get a gradient in one process only, or in none.
        self.parallel = DistributedDataParallel(self.loss, find_unused_parameters=True)

    def __call__(self, part: Part, step: int) -> tuple[Tensor, Terms]:
        """Return what to call ``backward`` on, and the terms of the joint batch."""
        with self._randomness(step):
            terms: Terms = self.parallel(part.batch)
        joint = torch.stack([term.detach() * part.share for term in terms.values()])
        dist.all_reduce(joint)
        minimised = terms["loss"] * (part.share * process_count())  # the average divides by it
        return minimised, dict(zip(terms, joint.unbind(), strict=True))

    @contextmanager
    def _randomness(self, step: int) -> Iterator[None]:
        """Other randomness in each process and step, and afterwards the same global one in all."""
        sequence = np.random.SeedSequence([self.seed % 2**63, step, dist.get_rank()])
        seed = int(sequence.generate_state(1, np.uint64)[0])
        device = self.loss.anchor.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.default_generator.manual_seed(seed)
            if device.type == "cuda":
                torch.cuda.manual_seed(seed)
            yield


class _LossModule(nn.Module):
    """A loss as a module that has the model in it: the form that torch parallelises."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        zero = next(model.parameters()).detach().new_zeros(())
        # Each process must go backward through one parameter at least, or the others wait for it
        # forever; the loss of empty sets may be a constant.
        self.anchor = nn.Parameter(zero)
        # Without any unused parameter torch warns that it looked for some.
        self.unused = nn.Parameter(zero.clone())

    def forward(self, batch: Any) -> Terms:
        terms = named_terms(self.loss(batch))
        return {**terms, "loss": terms["loss"] + 0 * self.anchor}
