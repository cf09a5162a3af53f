"""The loop: draw a batch, take a step, record, save; continue where a stopped run was."""

import math
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchsets.fitting import OptimiserSteps
from torchsets.lab.records import Recorder
from torchsets.lab.signals import stop_requests
from torchsets.lab.training import processes
from torchsets.lab.training.batches import Part, move
from torchsets.lab.training.checkpoints import (
    Checkpoint,
    capture,
    check_config,
    load_checkpoint,
    restore,
    save_checkpoint,
)
from torchsets.lab.training.history import History
from torchsets.lab.training.processes import JointLoss, Loss, Terms, named_terms
from torchsets.lab.training.progress import show_progress

Draw = Callable[[int, torch.Generator], Any]
_SECONDS_BETWEEN_CHECKPOINTS = 60
_NEEDS: dict[str, type | tuple[type, ...]] = {  # of the state in a checkpoint
    "step": int,
    "seconds": (int, float),
    "sums": list,
    "optimiser": dict,
    "groups": list,
    "random": dict,
}
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

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")


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
) -> History:
    """Train a model, or load it if this task of the run is already trained.

    A stopped run is resumed by running it again from its top with the recorder of
    :meth:`Recorder.resume`: finished tasks load, the current one resumes at its last checkpoint,
    and on a CPU all ends bit for bit as if nothing had happened. Ctrl-C saves first.

    Several processes that met in :func:`join_processes` train one model on the joint batch: see
    ``docs/devices.md`` for what that asks of the batch and of the loss.

    Args:
        model: Is on its device already; batches follow it there.
        optimiser: Over the parameters of the model. The schedule scales its learning rates.
        loss: Batch to a scalar, or to named scalars whose sum is minimised.
        draw: (step, generator) to a batch on the CPU. All its randomness is the generator's.
        recorder: Where curves and checkpoints go.
        task: Name of this training within the run, such as ``fspool`` or ``n=4/fspool``: the part
            before the slash names the panel of its learning curve.
        settings: Steps, schedule and so on.
        evaluate: Numbers to add to the learning curve; called in eval mode without gradients.

    Returns:
        What was recorded, with what a resumed run had recorded before.

    Raises:
        FloatingPointError: If the loss is nan or infinite; says where.
        KeyboardInterrupt: After Ctrl-C, once the checkpoint is written.
    """
    state = _Training(model, optimiser, recorder, task, settings)
    device = next(model.parameters()).device
    model.train()
    compute = _computation(model, loss, settings)
    with (
        stop_requests(second_ends=processes.process_count() == 1) as requests,
        show_progress(task, start=state.step, steps=settings.steps) as show,
    ):

        def compute_at(step: int) -> tuple[Tensor, Terms]:
            return compute(state.draw_part(draw, device), step)

        for step, terms in state.steps.run(compute_at, start=state.step, check=state.add_terms):
            state.step = step
            if device.type == "cpu":  # elsewhere reading a value makes the host wait
                show(state.step, terms["loss"].item())
            if _due(state.step, settings.record_every, settings.steps):
                show(state.step, state.record())
            if evaluate and _due(state.step, settings.evaluate_every, settings.steps):
                recorder.add_metrics(task, state.step, _evaluate(model, evaluate))
            stopped = processes.any_process(bool(requests))
            if processes.is_first() and (stopped or state.time_to_save()):
                state.save()
            if stopped:
                processes.wait_for_all()  # for the first one's checkpoint
                raise KeyboardInterrupt
    model.eval()
    recorder.add_task(
        task,
        steps=state.step,
        seconds=state.seconds,
        data_seconds=state.data_seconds,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )
    lines = processes.on_first(lambda: recorder.lines(task))  # after a resume it alone has all
    return History(lines, state.seconds)


def linear_decay(share: float, *, start: float = 0.0) -> float:
    """Keep the learning rate up to the share ``start`` of the steps, then decay linearly to 0.

    Example:
        >>> [linear_decay(share, start=0.5) for share in (0.25, 0.5, 0.75)]
        [1.0, 1.0, 0.5]
    """
    return min(1.0, (1 - share) / (1 - start))


def seed_everything(seed: int) -> None:
    """Seed the global randomness of torch, numpy and Python, such as the initial weights."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # the number of a part, added to the largest seed, may exceed it
    random.seed(seed)


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
        if task.split("/")[-1] == "writing" or task.split("/")[-1].isdigit():
            # Such a folder would look like a checkpoint of the task around it.
            raise ValueError(f"task must not end with a number or 'writing' alone, got {task!r}")
        self.model, self.optimiser = model, optimiser
        self.recorder, self.task, self.settings = recorder, task, settings
        self.generator = torch.Generator().manual_seed(settings.seed)
        self.step, self.seconds, self.data_seconds = 0, 0.0, 0.0
        self.sums: dict[str, Tensor] = {}
        self.steps = OptimiserSteps(
            model,
            optimiser,
            steps=settings.steps,
            schedule=settings.schedule,
            clip=settings.clip,
        )
        self.folder = recorder.folder / "checkpoint" / task
        found = processes.on_first(self.load)
        if found is not None:
            restore(found, model, optimiser, self.generator)
            self.step, self.seconds = found.state["step"], found.state["seconds"]
            self.data_seconds = found.state.get("data_seconds", 0.0)
            self.sums = {name: found.tensors[f"sum.{name}"] for name in found.state["sums"]}
        recorder.rewind(task, self.step)
        self.resumed_at, self.saved_at = time.perf_counter(), time.perf_counter()
        self.seconds_before = self.seconds

    def load(self) -> Checkpoint | None:
        found, config = load_checkpoint(self.folder, _NEEDS), self.recorder.config
        if found is not None:
            check_config(found.state.get("config", config), config, self.folder)
        return found

    def draw_part(self, draw: Draw, device: torch.device) -> Part:
        began = time.perf_counter()
        part = processes.take_part(draw(self.step, self.generator))
        part = part._replace(batch=move(part.batch, device))
        self.data_seconds += time.perf_counter() - began
        return part

    def add_terms(self, terms: Terms, step: int) -> None:
        self.sums = {
            name: term + self.sums[name].to(term.device) if self.sums else term
            for name, term in terms.items()
        }
        if terms["loss"].device.type == "cpu":  # elsewhere reading a value makes the host wait
            self.check_finite(terms, step)

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
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "data_seconds": self.data_seconds,
            "sums": list(self.sums),
            "config": self.recorder.config,
        }
        self.recorder.sync()
        save_checkpoint(
            self.folder,
            self.step,
            {**captured.tensors, **sums},
            {**captured.state, **state},
            keep=1 if self.step == self.settings.steps else 2,
        )
        self.saved_at = time.perf_counter()


def _computation(
    model: nn.Module, loss: Loss, settings: Settings
) -> Callable[[Part, int], tuple[Tensor, Terms]]:
    """(part of a batch, step) to what is minimised and the terms of the whole batch."""
    if processes.process_count() > 1:
        return JointLoss(model, loss, seed=settings.seed)

    def alone(part: Part, step: int) -> tuple[Tensor, Terms]:
        terms = named_terms(loss(part.batch))
        return terms["loss"], terms

    return alone


def _due(step: int, every: int | None, steps: int) -> bool:
    return step == steps or (every is not None and step % every == 0)


def _evaluate(model: nn.Module, evaluate: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
    model.eval()
    with torch.no_grad():
        values = evaluate()
    model.train()
    return values
