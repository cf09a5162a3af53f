"""The presences of decoders that predict all features of a slot alike."""

from torch import Tensor

from torchsets.padded import SetPrediction


def split_presence(slots: Tensor, *, variable_size: bool) -> SetPrediction:
    """Take predicted slots (B, N, D + 1) apart; the last feature plus 1 is the presence.

    Plus 1, so that all slots exist at first: otherwise many stay with the padding at (0, 0, 0).
    The presence is cut to [0, 1], but its gradient is not, so that a slot can come back.
    """
    if not variable_size:
        return SetPrediction(slots, slots.new_ones(slots.shape[:2]))
    raw = slots[..., -1] + 1
    presence = raw + (raw.clamp(0, 1) - raw).detach()
    return SetPrediction(slots[..., :-1], presence)
