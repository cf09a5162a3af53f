"""Chamfer loss over the slots that are present, with a price on the wrong number of them."""

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from torchsets._checks import check_floating, check_padded_sets, check_shape
from torchsets.losses.chamfer import chamfer_costs
from torchsets.losses.elements import Element
from torchsets.losses.pairs import check_is_tensor, pair_sets

LEAST_WEIGHT = 0.1


def set_size_loss(presence: Tensor, sizes: Tensor) -> Tensor:
    """Put a price on a wrong number of elements.

    It is h(sum of the presences - size) / slots with the smooth L1 h, because the square of a
    surplus of hundreds would drown every other loss. To the h, 4 p^2 (1 - p)^2 of each presence p
    is added, so that the sum is made of ones and zeros.

    Args:
        presence: How much each slot exists, (*S, B, N), floating point from 0 to 1.
        sizes: How many elements there should be, (B,).

    Returns:
        One loss per set, (*S, B).

    Example:
        >>> presence = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.5, 0.5]])
        >>> set_size_loss(presence, torch.tensor([1, 1, 1]))
        tensor([0.0000, 0.2500, 0.2500])
    """
    check_floating(presence, name="presence")
    if presence.ndim < 2:
        raise ValueError(f"presence must have shape (*S, B, N), got {tuple(presence.shape)}")
    check_shape(sizes, tuple(presence.shape[-2:-1]), name="sizes", letters="(B,)")
    wide = presence.to(torch.promote_types(presence.dtype, torch.float32))  # it counts
    doubt = 4 * (wide * (1 - wide)).square().sum(dim=-1)
    loss = (_huber(wide.sum(dim=-1) - sizes) + doubt) / max(1, presence.shape[-1])
    return loss.to(presence.dtype)


def present_chamfer_loss(
    prediction: Tensor,
    presence: Tensor,
    target: Tensor,
    target_mask: Tensor | None = None,
    *,
    element: Element = "huber",
    size_weight: float = 1.0,
) -> Tensor:
    """Compare the slots of a prediction that are present with the real targets, and their number.

    With presence as one more feature of padded targets, one slot at the place of the padding
    satisfies all of it, so a plain Chamfer loss lets every other slot be present. Here padding has
    no place. Three terms are added:

    - each real target against its nearest slot, where a slot that is not fully present is farther
      away: presence is a feature, which targets have as 1; the mean over the targets;
    - each slot against its nearest real target, without the presence, weighted by its presence;
      the sum, divided by the number of targets. The weight is a constant for the gradient, and at
      least 0.1: otherwise slots could escape by vanishing, and nothing would hold them near;
    - the size: ``size_weight`` times :func:`set_size_loss`.

    Costs are means over the features and the presence.

    Args:
        prediction: Predicted elements, (*S, B, N, D), floating point, with any leading axes.
        presence: How much each slot exists, (*S, B, N), floating point from 0 to 1.
        target: Target sets, (B, M, D), floating point.
        target_mask: True where a target is real, (B, M), bool. None: all are.
        element: ``"squared"`` or ``"huber"``; see :func:`chamfer_loss`.
        size_weight: Factor of the third term.

    Returns:
        One loss per set, (*S, B). An empty target leaves the third term alone.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> slots, target = torch.tensor([[[1.0], [1.0]]]), torch.tensor([[[1.0]]])
        >>> present_chamfer_loss(slots, torch.tensor([[1.0, 0.0]]), target)
        tensor([0.])
        >>> present_chamfer_loss(slots, torch.tensor([[1.0, 1.0]]), target)  # one too many
        tensor([0.2500])
    """
    if element not in ("squared", "huber"):
        raise ValueError(f'element must be "squared" or "huber", got {element!r}')
    check_is_tensor(prediction, name="prediction")
    check_is_tensor(target, name="target")
    mask = check_padded_sets(target, target_mask, name="target", mask_name="target_mask")
    check_shape(presence, tuple(prediction.shape[:-1]), name="presence", letters="(*S, B, N)")
    check_floating(presence, name="presence")
    sizes = mask.sum(dim=1)
    surplus = set_size_loss(presence, sizes)
    slots = torch.cat([prediction, presence.unsqueeze(-1)], dim=-1)
    wanted = torch.cat([target, torch.ones_like(target[..., :1])], dim=-1)
    pair = pair_sets(slots, wanted, mask, None, element=element)
    if pair.is_empty:
        return pair.finish(pair.zero()) + size_weight * surplus
    with pair.full_precision():
        to_target, to_slot = chamfer_costs(pair, element)
        absence = pair.prediction[..., -1] - 1
        missing = absence.square() if element == "squared" else _huber(absence)
        weight = presence.detach().reshape(to_target.shape).clamp(min=LEAST_WEIGHT)
        answered = (sizes > 0).unsqueeze(-1)  # an empty target has no neighbours
        weighted = weight * (to_target - missing).where(answered, 0)
        costs = (weighted.sum(dim=2) + to_slot.sum(dim=2)) / sizes.clamp(min=1)
        return pair.finish(costs / wanted.shape[2]) + size_weight * surplus


def _huber(difference: Tensor) -> Tensor:
    return smooth_l1_loss(difference, torch.zeros_like(difference), reduction="none")
