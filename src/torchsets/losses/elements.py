"""Costs between two elements: the part of a set loss that knows what an element means."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, smooth_l1_loss, softplus

from torchsets._autograd import inside_transform, is_traced
from torchsets.giou import box_giou

ElementCost = Callable[[Tensor, Tensor], Tensor]
"""Prediction (.., N, D) and target (.., M, D) to the cost of every pair, (.., N, M)."""

Element = Literal["squared", "huber"] | ElementCost
"""What the losses accept as ``element``."""

PartCost = Literal[
    "l1",
    "squared",
    "huber",
    "giou",
    "cross_entropy",
    "probability",
    "focal",
    "binary_cross_entropy",
]


class Part(NamedTuple):
    """Some features of an element, how to compare them, and how much that counts.

    Attributes:
        features: Which features of the prediction, such as ``slice(0, 4)``.
        cost: ``"l1"``, ``"squared"`` and ``"huber"`` compare numbers and add up the features.
            ``"giou"`` is 1 minus the generalised intersection over union of boxes
            (x1, y1, x2, y2). ``"cross_entropy"``, ``"probability"`` (minus the probability of the
            right class) and ``"focal"`` compare logits with a one-hot vector, or with a class
            number where the target has one feature (of a single class 0 or 1, which is its one-hot
            vector); one that is no class is an error on the CPU, and costs nan on a GPU.
            ``"focal"`` is what the class adds to the focal loss of independent logits (alpha 0.25,
            gamma 2) of a slot without object.
            ``"binary_cross_entropy"`` compares logits with 0 and 1.
        weight: Factor of this part.
        target: Which features of the target; None: the same as of the prediction.
    """

    features: slice
    cost: PartCost
    weight: float = 1.0
    target: slice | None = None


class MixedCost:
    """Cost of elements with several parts, such as coordinates, a category and a presence.

    Pass it as the ``element`` of a loss. Prediction and target may have different features.

    Args:
        parts: What to compare; see :class:`Part`.

    Example:
        >>> box_and_class = MixedCost(
        ...     Part(slice(0, 4), "l1", weight=5.0),
        ...     Part(slice(4, 7), "cross_entropy", target=slice(4, 5)),
        ... )
        >>> box_and_class(torch.zeros(2, 10, 7), torch.zeros(2, 3, 5)).shape
        torch.Size([2, 10, 3])
    """

    def __init__(self, *parts: Part) -> None:
        if not parts:
            raise ValueError("parts must hold at least one Part, got none")
        for part in parts:
            if part.cost not in _PART_COSTS:
                raise ValueError(f"cost must be one of {sorted(_PART_COSTS)}, got {part.cost!r}")
        self.parts = parts

    def __call__(self, prediction: Tensor, target: Tensor) -> Tensor:
        terms = [self._term(part, prediction, target) for part in self.parts]
        return torch.stack(terms).sum(dim=0)

    def __repr__(self) -> str:
        return f"MixedCost({', '.join(map(repr, self.parts))})"

    @staticmethod
    def _term(part: Part, prediction: Tensor, target: Tensor) -> Tensor:
        left = prediction[..., part.features]
        right = target[..., part.features if part.target is None else part.target]
        by_number = part.cost in _BY_CLASS and right.shape[-1] == 1
        if left.shape[-1] == 0 or (left.shape[-1] != right.shape[-1] and not by_number):
            raise ValueError(
                f"{part.cost} must compare equally many features, at least one, got "
                f"{left.shape[-1]} of the prediction and {right.shape[-1]} of the target"
            )
        return part.weight * _PART_COSTS[part.cost](left, right)


def check_element(element: Element) -> None:
    """Raise unless ``element`` is a known name or a callable."""
    if not callable(element) and element not in ("squared", "huber"):
        raise ValueError(f'element must be "squared", "huber" or a callable, got {element!r}')


def cost_matrix(element: Element, prediction: Tensor, target: Tensor) -> Tensor:
    """The cost of every pair: (.., N, D) and (.., M, D) to (.., N, M).

    Features are added up one by one, so no tensor with all pairs and all features exists, and
    differences are taken directly, so it is exact far from the origin too.
    """
    if not callable(element):
        return _by_feature(prediction, target, _ADD[element])
    cost = element(prediction, target)
    shape = (*prediction.shape[:-1], target.shape[-2])
    if cost.shape != shape:
        raise ValueError(f"element must return the shape {shape}, got {tuple(cost.shape)}")
    return cost


def pair_costs(element: Element, prediction: Tensor, target: Tensor) -> Tensor:
    """The cost of each element and its partner: (K, D) and (K, D) to (K,)."""
    if callable(element):
        return cost_matrix(element, prediction.unsqueeze(1), target.unsqueeze(1)).flatten()
    if element == "squared":
        return (prediction - target).square().sum(dim=-1)
    return smooth_l1_loss(prediction, target, reduction="none").sum(dim=-1)


def _add_absolute(total: Tensor, difference: Tensor) -> Tensor:
    size = difference.abs()
    return total + size if inside_transform() else total.add_(size)


def _add_squared(total: Tensor, difference: Tensor) -> Tensor:
    return _add_product(total, difference, difference)


def _add_huber(total: Tensor, difference: Tensor) -> Tensor:
    size = difference.abs()
    inside = size.clamp(max=1)
    return _add_product(total, inside, size - inside / 2)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """In place, which torch.func cannot map over a batch."""
    return total + left * right if inside_transform() else total.addcmul_(left, right)


def _by_feature(left: Tensor, right: Tensor, add: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    total = left.new_zeros(*left.shape[:-1], right.shape[-2])
    # The features of the right side are made contiguous, as they run along the inner loop.
    for ours, theirs in zip(left.unbind(-1), right.mT.contiguous().unbind(-2), strict=True):
        total = add(total, ours.unsqueeze(-1) - theirs.unsqueeze(-2))
    return total


def _as_one_hot(logits: Tensor, target: Tensor) -> Tensor:
    if target.shape[-1] > 1:
        return target
    dtype = torch.promote_types(target.dtype, torch.float32)  # bfloat16 stops counting at 256
    classes = torch.arange(logits.shape[-1], dtype=dtype, device=logits.device)
    chosen = target.to(dtype) == classes
    if len(classes) == 1:  # its number is 0, and its one-hot vector 1
        chosen = chosen | (target == 1)
    known = chosen.any(dim=-1, keepdim=True)
    # Reading values makes a GPU wait, so there a wrong number gives costs of nan, which the
    # matching refuses. On the CPU it can be named.
    if target.device.type == "cpu" and not is_traced() and not known.all():
        wrong = target[~known][0].item()
        raise ValueError(
            f"target must hold class numbers from 0 to {len(classes) - 1}, got {wrong:g}"
        )
    return chosen.to(logits).masked_fill(~known, torch.nan)


def _of_class(scores: Tensor, target: Tensor) -> Tensor:
    """The score of the right class: (.., N, C) and (.., M, 1 or C) to (.., N, M)."""
    return scores @ _as_one_hot(scores, target).mT


def _bounded(scores: Tensor) -> Tensor:
    """Without -inf, as of a class that cannot be: times 0, where another is right, it is nan."""
    return scores.clamp(min=torch.finfo(scores.dtype).min / 2)


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return -_of_class(_bounded(log_softmax(logits, dim=-1)), target)


def _minus_probability(logits: Tensor, target: Tensor) -> Tensor:
    return -_of_class(logits.softmax(dim=-1), target)


def _focal(logits: Tensor, target: Tensor) -> Tensor:
    return _of_class(focal_cost(_bounded(logits)), target)


def focal_cost(logits: Tensor) -> Tensor:
    """What it adds to the sigmoid focal loss of a logit that its class is the right one.

    The loss of all slots is that without any object plus this of the matched ones, so a matching
    by it is the one of the smallest loss.

    Reference:
        Lin et al., Focal Loss for Dense Object Detection, 2017, https://arxiv.org/abs/1708.02002;
        as a cost to match by: Zhu et al., Deformable DETR, 2021, https://arxiv.org/abs/2010.04159
    """
    probability = logits.sigmoid()
    right = 0.25 * (1 - probability).square() * softplus(-logits)
    wrong = 0.75 * probability.square() * softplus(logits)
    return right - wrong


def _giou(boxes: Tensor, others: Tensor) -> Tensor:
    return 1 - box_giou(boxes, others)


def _binary_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return softplus(logits).sum(dim=-1, keepdim=True) - logits @ target.mT


_ADD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "l1": _add_absolute,
    "squared": _add_squared,
    "huber": _add_huber,
}
_BY_CLASS = ("cross_entropy", "probability", "focal")
_PART_COSTS: dict[str, ElementCost] = {
    "l1": lambda left, right: _by_feature(left, right, _add_absolute),
    "squared": lambda left, right: _by_feature(left, right, _add_squared),
    "huber": lambda left, right: _by_feature(left, right, _add_huber),
    "giou": _giou,
    "cross_entropy": _cross_entropy,
    "probability": _minus_probability,
    "focal": _focal,
    "binary_cross_entropy": _binary_cross_entropy,
}
