"""The loss of a predicted set: presence as a feature, every step of the decoder, one target."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from torchsets._checks import check_padded_sets, check_shape
from torchsets.losses.pairs import check_is_tensor
from torchsets.padded import SetPrediction, fill_padding

SetLoss = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""(prediction (*S, B, N, D), target (B, M, D), target mask) to (*S, B)."""


class SetPredictionLoss(nn.Module):
    """Compare a :class:`SetPrediction` with a target set of any size.

    Args:
        set_loss: A loss of this area such as :func:`chamfer_loss`; bind its options with
            ``functools.partial(chamfer_loss, element="huber", reduction="mean")``.
        presence: Whether the presence of each slot is learned: presence and target mask become
            the last feature of the two sides, targets are padded with zeros to the number of
            slots, and all slots take part. False: the elements meet the real targets only.
        supervise: ``"all"``: the mean over the sets of the trajectory, the first included;
            ``"last"``: the final set. A prediction without trajectory has only the latter.
        weight: Factor of the representation loss.

    Example:
        >>> from torchsets.losses import hungarian_loss
        >>> prediction = SetPrediction(torch.tensor([[[3.0], [0.0]]]), torch.tensor([[1.0, 0.5]]))
        >>> SetPredictionLoss(hungarian_loss)(prediction, torch.tensor([[[1.0]]]))
        tensor([4.2500])
        >>> SetPredictionLoss(hungarian_loss, presence=False)(prediction, torch.tensor([[[1.0]]]))
        tensor([1.])
    """

    def __init__(
        self,
        set_loss: SetLoss,
        *,
        presence: bool = True,
        supervise: Literal["all", "last"] = "all",
        weight: float = 0.1,
    ) -> None:
        super().__init__()
        if supervise not in ("all", "last"):
            raise ValueError(f'supervise must be "all" or "last", got {supervise!r}')
        self.set_loss = set_loss
        self.presence = presence
        self.supervise = supervise
        self.weight = weight

    def forward(
        self,
        prediction: SetPrediction,
        target: Tensor,
        target_mask: Tensor | None = None,
        representation: Tensor | None = None,
    ) -> Tensor:
        """Return one loss per set, (B,).

        Args:
            prediction: What a decoder returned.
            target: Target sets, (B, M, D).
            target_mask: True where a target is real, (B, M), bool. None: all are.
            representation: A loss per set to add with the weight, (B,), such as
                ``DSPN.representation_loss`` gives.
        """
        if not isinstance(prediction, SetPrediction):
            raise TypeError(
                f"prediction must be a SetPrediction, got {type(prediction).__name__}; "
                "sets without presence go to the set loss itself"
            )
        check_is_tensor(target, name="target")
        elements, presence = self._supervised(prediction)
        sets = prediction.elements.shape[0]
        check_shape(target, (sets, None, None), name="target", letters="(B, M, D)")
        mask = check_padded_sets(target, target_mask, name="target", mask_name="target_mask")
        if self.presence:
            slots = elements.shape[-2]
            elements = torch.cat([elements, presence.unsqueeze(-1)], dim=-1)
            loss = self.set_loss(elements, _with_presence(target, mask, slots), None)
        else:
            loss = self.set_loss(elements, target, target_mask)
        if loss.ndim == 2:
            loss = loss.mean(dim=0)
        if representation is not None:
            check_shape(representation, tuple(loss.shape), name="representation", letters="(B,)")
            loss = loss + self.weight * representation
        return loss

    def _supervised(self, prediction: SetPrediction) -> tuple[Tensor, Tensor]:
        trajectory = prediction.trajectory
        if self.supervise == "last" or trajectory is None:
            return prediction.elements, prediction.presence
        # An unrolled decoder's steps depend on its parameters, and so do their losses.
        detached = len(trajectory.loss) > 0 and not trajectory.loss.requires_grad
        if detached and prediction.elements.requires_grad:
            raise ValueError(
                'supervise must be "last" for an implicit decoder, whose earlier sets have no '
                'gradient, got "all"'
            )
        return trajectory.elements, trajectory.presence


def _with_presence(target: Tensor, mask: Tensor, slots: int) -> Tensor:
    """Targets padded with zeros to the slots, the mask as last feature: (B, slots, D + 1)."""
    if target.shape[1] > slots:
        raise ValueError(
            f"target must have at most as many elements as the prediction has slots, {slots}, "
            f"got {target.shape[1]}"
        )
    filled = torch.cat([fill_padding(target, mask), mask.unsqueeze(-1).to(target.dtype)], dim=-1)
    return pad(filled, (0, 0, 0, slots - target.shape[1]))
