"""The bare training loop: optimiser steps, epochs, early stopping, seeds; no files and no bar."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from torchsets._checks import check_counts

Terms = dict[str, Tensor]
Line = dict[str, float]
"""What is known of one epoch: ``epoch``, ``loss`` and perhaps ``valid_loss``."""


class OptimiserSteps:
    """Optimiser steps with a schedule and a bound on the gradient.

    The loop is an iterator: whoever iterates sees every step and decides what happens between
    two of them, such as a record or an early stop.

    Args:
        model: Its parameters are those of the optimiser.
        optimiser: The schedule scales its learning rates as they are now.
        steps: Number of steps.
        schedule: Factor on the learning rate, given the share of the steps done, in [0, 1).
        clip: Largest norm of the whole gradient. None: no limit.

    Example:
        >>> model = nn.Linear(1, 1)
        >>> optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> def compute(step):
        ...     loss = model(torch.ones(1)).square().sum()
        ...     return loss, {"loss": loss}
        >>> steps = OptimiserSteps(model, optimiser, steps=3)
        >>> [step for step, terms in steps.run(compute)]
        [1, 2, 3]
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        *,
        steps: int,
        schedule: Callable[[float], float] | None = None,
        clip: float | None = None,
    ) -> None:
        self.model, self.optimiser = model, optimiser
        self.steps, self.schedule, self.clip = steps, schedule, clip
        self.rates = [group["lr"] for group in optimiser.param_groups]

    def run(
        self,
        compute: Callable[[int], tuple[Tensor, Terms]],
        *,
        start: int = 0,
        check: Callable[[Terms, int], None] | None = None,
    ) -> Iterator[tuple[int, Terms]]:
        """Take the steps from ``start`` on; yield after each the number done and its terms.

        Args:
            compute: Step to what is minimised, and named numbers of which it is one.
            start: Number of steps that were taken before.
            check: Called with the terms and the number of the step before the model changes.
        """
        for step in range(start, self.steps):
            minimised, terms = compute(step)
            terms = {name: term.detach() for name, term in terms.items()}
            if check is not None:
                check(terms, step + 1)
            self._take(minimised, step)
            yield step + 1, terms

    def _take(self, minimised: Tensor, step: int) -> None:
        if self.schedule is not None:
            factor = self.schedule(step / self.steps)
            for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
                group["lr"] = rate * factor
        self.optimiser.zero_grad(set_to_none=True)
        minimised.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimiser.step()


def fit_epochs(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[Tensor], Tensor],
    count: int,
    *,
    epochs: int,
    batch_size: int,
    generator: torch.Generator,
    schedule: Callable[[float], float] | None = None,
    clip: float | None = None,
    validate: Callable[[], float] | None = None,
    patience: int = 10,
    report: Callable[[Line], None] = lambda line: None,
) -> list[Line]:
    """Train a model for some epochs over ``count`` samples, in an order drawn for each.

    Args:
        model: Is in training mode while it trains and in evaluation mode afterwards, after an
            error too.
        optimiser: Over the parameters of the model.
        loss: Numbers of the samples of a batch, (B,) long, to their mean loss.
        count: Number of samples.
        epochs: Largest number of epochs.
        batch_size: Samples of a batch; the last one of an epoch has what is left.
        generator: Draws the orders.
        schedule: See :class:`OptimiserSteps`.
        clip: See :class:`OptimiserSteps`.
        validate: Measures the loss on other samples after each epoch, in evaluation mode and
            without gradients. The weights with the smallest one are kept, and training stops when
            ``patience`` epochs brought no smaller one.
        patience: Number of epochs.
        report: Called with the line of each epoch.

    Returns:
        One line for each epoch.

    Raises:
        FloatingPointError: If the loss is nan or infinite; says in which epoch.
        ValueError: If a number is out of range.
    """
    check_counts(count=count, epochs=epochs, batch_size=batch_size)
    per_epoch = math.ceil(count / batch_size)
    steps = OptimiserSteps(model, optimiser, steps=epochs * per_epoch, schedule=schedule, clip=clip)
    history: list[Line] = []
    best, kept, waited = math.inf, None, 0
    batches: tuple[Tensor, ...] = ()
    total: Tensor | float = 0.0

    def compute(step: int) -> tuple[Tensor, Terms]:
        nonlocal batches
        if step % per_epoch == 0:
            batches = torch.split(torch.randperm(count, generator=generator), batch_size)
        value = loss(batches[step % per_epoch])
        return value, {"loss": value}

    def check(terms: Terms, step: int) -> None:
        if terms["loss"].device.type == "cpu":  # elsewhere reading a value makes the host wait
            _check_finite(float(terms["loss"]), math.ceil(step / per_epoch))

    model.train()
    try:
        for step, terms in steps.run(compute, check=check):
            total = total + terms["loss"] * (len(batches[(step - 1) % per_epoch]) / count)
            if step % per_epoch:
                continue
            line: Line = {"epoch": step // per_epoch, "loss": float(total)}
            total = 0.0
            _check_finite(line["loss"], step // per_epoch)
            if validate is not None:
                line["valid_loss"] = value = _evaluate(model, validate)
                _check_finite(value, step // per_epoch)
                if value < best:
                    best, kept = value, copy.deepcopy(model.state_dict())
                    waited = 0
                else:
                    waited += 1
            history.append(line)
            report(line)
            if validate is not None and waited >= patience:
                break
    finally:
        model.eval()
    if kept is not None:
        model.load_state_dict(kept)
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        _check_finite(math.nan, len(history))  # by the last step, whose loss nobody has seen
    return history


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[torch.Generator]:
    """Seed torch's global randomness, such as the initial weights, and put it back afterwards.

    Yields:
        A generator with the same seed, for what can be given one.

    Example:
        >>> with seeded(0, torch.device("cpu")):
        ...     first = torch.rand(())
        >>> with seeded(0, torch.device("cpu")):
        ...     bool(torch.rand(()) == first)
        True
    """
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)


def find_device(name: str) -> torch.device:
    """Return the named device; ``auto`` is a GPU if there is one.

    Raises:
        ValueError: If torch has no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.empty(0, device=name).device
        if device.type == "meta":
            raise RuntimeError("it holds no numbers")
        return device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} is not available: {first}") from None


def _evaluate(model: nn.Module, validate: Callable[[], float]) -> float:
    model.eval()
    with torch.no_grad():
        value = validate()
    model.train()
    return value


def _check_finite(loss: float, epoch: int) -> None:
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"loss must be finite, got {loss} in epoch {epoch}; lower learning_rate"
        )
