"""Adam and its schedule, as the experiments on predicted sets share them."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn

from torchsets.lab.training.loop import linear_decay


def adam(
    model: nn.Module,
    learning_rate: float,
    *,
    implicit: bool = False,
    rates: Mapping[str, float] | None = None,
) -> torch.optim.Adam:
    """Adam over the weights of a model that are trained.

    Args:
        model: Its weights that require a gradient are optimised.
        learning_rate: Of all of them, times a factor for some.
        implicit: Whether gradients lack the step size of a descent, as those of an implicit DSPN
            do: they are so small that Adam's usual eps would stop the training.
        rates: Factors of the learning rate for parts of the model, by their names. Others have 1.
    """
    weights: dict[float, list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            factor = (rates or {}).get(name.split(".")[0], 1.0)
            weights.setdefault(factor, []).append(weight)
    groups = [{"params": some, "lr": factor * learning_rate} for factor, some in weights.items()]
    return torch.optim.Adam(groups, eps=1e-12 if implicit else 1e-8, fused=True)


def late_decay(start: float) -> Callable[[float], float] | None:
    """A schedule that decays linearly to 0 after the share ``start`` of the steps; None from 1 on.

    Example:
        >>> late_decay(0.5)(0.75)
        0.5
    """
    return partial(linear_decay, start=start) if start < 1 else None
