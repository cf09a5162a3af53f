"""Two padded sets as the losses want them: checked, filled, and in at least float32."""

import math
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._autograd import refuse_recording, without_autocast
from torchsets._checks import (
    check_elements,
    check_floating,
    check_mask,
    check_shape,
    check_tensor,
)
from torchsets.losses.elements import Element, check_element, pair_costs
from torchsets.padded import SetBatch, SetPrediction, fill_padding

_NAMES = ("prediction", "target", "target_mask", "prediction_mask")


class SetPair(NamedTuple):
    """Predicted sets for S steps against one batch of targets.

    Attributes:
        prediction: (S, B, N, D), zeros at padding.
        target: (B, M, D), zeros at padding.
        prediction_mask: (S, B, N), or None when all are real.
        target_mask: (B, M), or None when all are real.
        result_shape: (*S, B) as the user gave it.
        result_dtype: What the two inputs promote to.
    """

    prediction: Tensor
    target: Tensor
    prediction_mask: Tensor | None
    target_mask: Tensor | None
    result_shape: torch.Size
    result_dtype: torch.dtype

    @property
    def is_empty(self) -> bool:
        """Whether there are no pairs at all, because an axis has length 0."""
        return 0 in self.prediction.shape[:3] or self.target.shape[1] == 0

    def answered(self) -> tuple[Tensor | None, Tensor | None]:
        """Where a real element meets a set that is not empty, (S, B, N) and (S, B, M).

        None means everywhere.
        """
        if self.prediction_mask is None and self.target_mask is None:
            return None, None
        steps, sets, slots, _ = self.prediction.shape
        left, right = self.prediction_mask, self.target_mask
        if left is None:
            left = torch.ones(steps, sets, slots, dtype=torch.bool, device=self.target.device)
        if right is None:
            right = torch.ones(self.target.shape[:2], dtype=torch.bool, device=self.target.device)
        return left & right.any(dim=1, keepdim=True), right & left.any(dim=2, keepdim=True)

    def zero(self) -> Tensor:
        """A loss of 0 for every set, (S, B), connected to both inputs."""
        nothing = self.prediction[:, :, :0].sum(dim=(2, 3))
        return nothing + self.target[:, :0].sum(dim=(1, 2))

    def finish(self, loss: Tensor) -> Tensor:
        """Give a loss (S, B) the shape and dtype that the user expects."""
        return loss.reshape(self.result_shape).to(self.result_dtype)

    def full_precision(self) -> AbstractContextManager[None]:
        """Keep autocast from rounding what decides between neighbours."""
        return without_autocast(self.prediction)

    def costs(
        self, element: Element, predicted: Tensor, targeted: Tensor, valid: Tensor | None
    ) -> Tensor:
        """The costs of chosen pairs, (S, B, K), 0 where not ``valid``.

        Only valid pairs are evaluated: a cost such as a square root would otherwise send nan
        from padding into the gradient.

        Args:
            element: The element cost.
            predicted: Slot of the prediction of each pair, (S, B, K).
            targeted: Slot of the target of each pair, (S, B, K).
            valid: True where a pair counts, (S, B, K); None: all do.
        """
        steps, sets, slots, _ = self.prediction.shape
        device = predicted.device
        own_set = torch.arange(steps * sets, device=device).view(steps, sets, 1)
        left = (predicted + own_set * slots).flatten()
        right = (targeted + own_set % max(sets, 1) * self.target.shape[1]).flatten()
        if valid is not None:
            chosen = valid.flatten().nonzero().squeeze(1)
            left, right = left[chosen], right[chosen]
        values = pair_costs(
            element,
            self.prediction.flatten(0, 2).index_select(0, left),
            self.target.flatten(0, 1).index_select(0, right),
        )
        if valid is not None:
            values = values.new_zeros(valid.numel()).index_copy(0, chosen, values)
        return values.view(predicted.shape)


def pair_sets(
    prediction: Tensor,
    target: Tensor,
    target_mask: Tensor | None,
    prediction_mask: Tensor | None,
    *,
    element: Element,
    names: tuple[str, str, str, str] = _NAMES,
) -> SetPair:
    """Check the inputs of a set loss, fill their padding and give the leading axes one name.

    ``names`` are those of the four tensors in the function that the user called.
    """
    check_element(element)
    refuse_recording("a loss between sets" if names is _NAMES else "nearest_neighbours")
    ours, theirs, their_mask, our_mask = names
    check_is_tensor(prediction, name=ours)
    check_is_tensor(target, name=theirs)
    if prediction.ndim < 3:
        raise ValueError(f"{ours} must have shape (*S, B, N, D), got {tuple(prediction.shape)}")
    check_floating(prediction, name=ours)
    check_elements(target, name=theirs)
    *lead, sets, slots, features = prediction.shape
    wanted = None if callable(element) else features
    check_shape(target, (sets, None, wanted), name=theirs, letters="(B, M, D)")
    if target_mask is not None:
        check_mask(target_mask, target.shape[:2], name=their_mask, of=theirs)
        target = fill_padding(target, target_mask)
    if prediction_mask is not None:
        shape = prediction.shape[-3:-1] if prediction_mask.ndim == 2 else prediction.shape[:-1]
        check_mask(prediction_mask, shape, name=our_mask, of=ours)
        prediction_mask = prediction_mask.expand(prediction.shape[:-1])
        prediction = fill_padding(prediction, prediction_mask)
        prediction_mask = prediction_mask.reshape(math.prod(lead), sets, slots)
    dtype = torch.promote_types(prediction.dtype, target.dtype)
    working = torch.promote_types(dtype, torch.float32)
    return SetPair(
        prediction.to(working).reshape(math.prod(lead), sets, slots, features),
        target.to(working),
        prediction_mask,
        target_mask,
        torch.Size([*lead, sets]),
        dtype,
    )


def check_is_tensor(value: object, *, name: str) -> None:
    """Raise ``TypeError`` unless it is a tensor; for the results of our own it names the cure."""
    cure = ""
    if isinstance(value, SetPrediction):
        cure = "; pass its elements, prediction.elements, or use SetPredictionLoss"
    elif isinstance(value, SetBatch):
        cure = "; pass its elements and mask, as in loss(prediction, *batch)"
    check_tensor(value, name=name, cure=cure)


def check_reduction(reduction: str) -> None:
    """Raise unless the reduction is a known one."""
    if reduction not in ("sum", "mean"):
        raise ValueError(f'reduction must be "sum" or "mean", got {reduction!r}')
