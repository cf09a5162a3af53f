"""The presences of decoders that predict all features of a slot alike."""

import torch
from torch import Tensor

from torchsets.padded import SetPrediction, Trajectory


def split_presence(slots: Tensor, *, variable_size: bool) -> SetPrediction:
    """Take predicted slots (..., N, D + 1) apart; the last feature plus 1 is the presence.

    Plus 1, so that all slots exist at first: otherwise many stay with the padding at (0, 0, 0).
    The presence is cut to [0, 1], but its gradient is not, so that a slot can come back.
    """
    if not variable_size:
        return SetPrediction(slots, slots.new_ones(slots.shape[:-1]))
    raw = slots[..., -1] + 1
    presence = raw.clamp(0, 1).detach() + (raw - raw.detach())  # exactly what is cut, plus 0
    return SetPrediction(slots[..., :-1], presence)


def split_steps(steps: Tensor, *, variable_size: bool, last_only: bool = False) -> SetPrediction:
    """The same for slots predicted step by step, (T+1, B, N, D + 1): the last step counts.

    Nothing is descended here, so the ``loss`` of a step is how far it moved the slots: the mean
    square of the change. With ``last_only`` the last step alone has a gradient.
    """
    moved = (steps[1:] - steps[:-1]).square().mean(dim=(2, 3))
    if last_only:
        steps, moved = torch.cat([steps[:-1].detach(), steps[-1:]]), moved.detach()
    elements, presence, _ = split_presence(steps, variable_size=variable_size)
    return SetPrediction(elements[-1], presence[-1], Trajectory(elements, presence, moved))
