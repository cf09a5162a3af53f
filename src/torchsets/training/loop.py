"""The loop: draw a batch, take a step, record, save; go on where a stopped run was."""

import math
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchsets.records import Recorder
from torchsets.training.checkpoints import capture, load_checkpoint, restore, save_checkpoint
from torchsets.training.progress import show_progress

Loss = Callable[[Any], Tensor | Mapping[str, Tensor]]
Draw = Callable[[int, torch.Generator], Any]
_SECONDS_BETWEEN_CHECKPOINTS = 60
_TASK = re.compile(r"[A-Za-z0-9][\w =.+-]*(/[A-Za-z0-9][\w =.+-]*)?")


@dataclass(frozen=True)
class Settings:
    """How to train.

    Attributes:
        steps: Optimiser steps.
        schedule: Factor on the learning rate, given the share of the steps done, in [0, 1).
        clip: Largest norm of the whole gradient. None: no limit.
        seed: Seed of the generator that draws the batches.
        record_every: Steps per line of the learning curve, which holds the mean loss over them.
        evaluate_every: Steps between evaluations; the last step always has one. None: only that.
        checkpoint_every: Steps between checkpoints. None: one each minute.
    """

    steps: int
    schedule: Callable[[float], float] | None = None
    clip: float | None = None
    seed: int = 0
    record_every: int = 100
    evaluate_every: int | None = None
    checkpoint_every: int | None = None


def train(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Loss,
    draw: Draw,
    *,
    recorder: Recorder,
    task: str,
    settings: Settings,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
) -> None:
    """Train a model, or load it if this task of the run is already trained.

    A stopped run is resumed by running it again from its top with the recorder of
    :meth:`Recorder.resume`: finished tasks load, the current one goes on from its last checkpoint,
    and on a CPU all ends bit for bit as if nothing had happened. Ctrl-C saves first.

    Args:
        model: Is on its device already; batches follow it there.
        optimiser: Over the parameters of the model. The schedule scales its learning rates.
        loss: Batch to a scalar, or to named scalars whose sum is minimised.
        draw: (step, generator) to a batch on the CPU. All its chance comes from the generator.
        recorder: Where curves and checkpoints go.
        task: Name of this training within the run, such as ``fspool`` or ``n=4/fspool``: the part
            before the slash names the panel of its learning curve.
        settings: Steps, schedule and so on.
        evaluate: Numbers to add to the learning curve; called in eval mode without gradients.

    Raises:
        FloatingPointError: If the loss is nan or infinite; says where.
        KeyboardInterrupt: After Ctrl-C, once the checkpoint is written.
    """
    state = _Training(model, optimiser, recorder, task, settings)
    device = next(model.parameters()).device
    model.train()
    with (
        _stop_requests() as stopped,
        show_progress(task, start=state.step, steps=settings.steps) as show,
    ):
        while state.step < settings.steps:
            terms = _named_terms(loss(_to(draw(state.step, state.generator), device)))
            state.take_step(terms)
            if device.type == "cpu":  # elsewhere reading a value makes the host wait
                show(state.step, terms["loss"].item())
            if _due(state.step, settings.record_every, settings.steps):
                show(state.step, state.record())
            if evaluate and _due(state.step, settings.evaluate_every, settings.steps):
                recorder.add_metrics(task, state.step, _evaluate(model, evaluate))
            if stopped() or state.time_to_save():
                state.save()
            if stopped():
                raise KeyboardInterrupt
    model.eval()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    recorder.add_task(task, steps=state.step, seconds=state.seconds, parameters=parameters)


def linear_decay(share: float, *, start: float = 0.0) -> float:
    """Keep the learning rate up to the share ``start`` of the steps, then fall to 0 in a line.

    Example:
        >>> [linear_decay(share, start=0.5) for share in (0.25, 0.5, 0.75)]
        [1.0, 1.0, 0.5]
    """
    return min(1.0, (1 - share) / (1 - start))


def pick_device(name: str = "auto") -> torch.device:
    """Return the named device; ``auto`` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"device must be one that torch has here, got {name!r}: {first}") from None


def seed_everything(seed: int) -> None:
    """Seed torch's, numpy's and Python's global randomness, such as the initial weights."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


class Minibatches:
    """Indices of shuffled minibatches: a function of the step alone, so resuming is exact.

    Each epoch has its own order and drops the incomplete rest.

    Example:
        >>> minibatches = Minibatches(5, 2, seed=0)
        >>> [len(minibatches(step)) for step in range(3)]
        [2, 2, 2]
    """

    def __init__(self, count: int, batch_size: int, *, seed: int) -> None:
        if not 1 <= batch_size <= count:
            raise ValueError(f"batch_size must be between 1 and {count}, got {batch_size}")
        self.count, self.batch_size, self.seed = count, batch_size, seed
        self.per_epoch = count // batch_size
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)

    def __call__(self, step: int) -> Tensor:
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            random_state = np.random.default_rng([self.seed, epoch])
            self._epoch, self._order = epoch, torch.from_numpy(random_state.permutation(self.count))
        return self._order[position * self.batch_size : (position + 1) * self.batch_size]


class _Training:
    """The state of one task: everything that a checkpoint holds."""

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        recorder: Recorder,
        task: str,
        settings: Settings,
    ) -> None:
        if not _TASK.fullmatch(task):
            raise ValueError(f"task must be a name or panel/name, got {task!r}")
        self.model, self.optimiser = model, optimiser
        self.recorder, self.task, self.settings = recorder, task, settings
        self.generator = torch.Generator().manual_seed(settings.seed)
        self.step, self.seconds = 0, 0.0
        self.sums: dict[str, Tensor] = {}
        self.rates = [group["lr"] for group in optimiser.param_groups]
        self.folder = recorder.folder / "checkpoint" / task
        found = load_checkpoint(self.folder)
        if found is not None:
            restore(found, model, optimiser, self.generator)
            self.step, self.seconds = found.state["step"], found.state["seconds"]
            self.sums = {name: found.tensors[f"sum.{name}"] for name in found.state["sums"]}
        recorder.rewind(task, self.step)
        self.resumed_at, self.saved_at = time.perf_counter(), time.perf_counter()
        self.seconds_before = self.seconds

    def take_step(self, terms: dict[str, Tensor]) -> None:
        self.sums = {
            name: term.detach() + self.sums[name].to(term.device) if self.sums else term.detach()
            for name, term in terms.items()
        }
        if terms["loss"].device.type == "cpu":
            self.check_finite(terms, self.step + 1)
        if self.settings.schedule is not None:
            factor = self.settings.schedule(self.step / self.settings.steps)
            for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
                group["lr"] = rate * factor
        self.optimiser.zero_grad(set_to_none=True)
        terms["loss"].backward()  # type: ignore[no-untyped-call]
        if self.settings.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimiser.step()
        self.step += 1

    def check_finite(self, terms: Mapping[str, Tensor], step: int) -> None:
        values = {name: term.item() for name, term in terms.items()}
        if math.isfinite(values["loss"]):
            return
        broken = [name for name, value in values.items() if not math.isfinite(value)]
        term = next((name for name in broken if name != "loss"), "loss")
        raise FloatingPointError(
            f"loss must be finite, got {values[term]} in term {term!r} at step {step} "
            f"of task {self.task!r} of experiment {self.recorder.experiment!r}"
        )

    def record(self) -> float:
        """Write the mean of each term since the last record; return that of the loss."""
        self.check_finite(self.sums, self.step)
        since = (self.step - 1) % self.settings.record_every + 1
        means = {name: total.item() / since for name, total in self.sums.items()}
        self.recorder.add_metrics(self.task, self.step, means)
        self.sums = {}
        return means["loss"]

    def time_to_save(self) -> bool:
        if self.step == self.settings.steps:
            return True
        if self.settings.checkpoint_every is not None:
            return self.step % self.settings.checkpoint_every == 0
        return time.perf_counter() - self.saved_at > _SECONDS_BETWEEN_CHECKPOINTS

    def save(self) -> None:
        self.seconds = self.seconds_before + time.perf_counter() - self.resumed_at
        captured = capture(self.model, self.optimiser, self.generator)
        sums = {f"sum.{name}": total for name, total in self.sums.items()}
        state = {"step": self.step, "seconds": self.seconds, "sums": list(self.sums)}
        save_checkpoint(
            self.folder,
            self.step,
            {**captured.tensors, **sums},
            {**captured.state, **state},
            keep=1 if self.step == self.settings.steps else 2,
        )
        self.saved_at = time.perf_counter()


def _named_terms(loss: Tensor | Mapping[str, Tensor]) -> dict[str, Tensor]:
    if isinstance(loss, Tensor):
        return {"loss": loss}
    return {"loss": torch.stack(list(loss.values())).sum(), **loss}


def _due(step: int, every: int | None, steps: int) -> bool:
    return step == steps or (every is not None and step % every == 0)


def _evaluate(model: nn.Module, evaluate: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
    model.eval()
    with torch.no_grad():
        values = evaluate()
    model.train()
    return values


def _to(batch: Any, device: torch.device) -> Any:
    """Move the tensors of a batch of nested tuples, lists and dicts."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {key: _to(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_to(value, device) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(_to(value, device) for value in batch)
    return batch


@contextmanager
def _stop_requests() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C (or SIGTERM) into a wish that the loop grants between two steps."""
    requests: list[int] = []

    def request(number: int, frame: FrameType | None) -> None:
        if requests:  # the second one means now
            raise KeyboardInterrupt
        requests.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(requests)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
