"""A step size for deep set prediction networks, measured."""

import torch
from torch import Tensor

from torchsets.decoders.dspn import DSPN
from torchsets.decoders.set_gradient import set_gradient


def find_step_size(
    decoder: DSPN, vector: Tensor, *, movement: float = 0.1, context: Tensor | None = None
) -> float:
    """Measure the step size at which the median element moves visibly in the first step.

    The thesis raises the step size until the set visibly changes with a randomly initialised
    encoder: otherwise a change of the weights has no effect on the prediction. The first step is
    proportional to the step size, so one gradient is enough to know it: the median, over all
    slots of all sets, of the distance that a step of size 1 covers.

    Args:
        decoder: With an encoder at its random start. It is not changed; assign the result to
            ``decoder.step_size``.
        vector: Typical inputs, (B, L), such as ``decoder.encode(*batch)``.
        movement: Distance to cover, as a share of the spread of the start: the root mean square
            distance of its elements from their centre.
        context: As for the decoder, (B, slots, C).

    Returns:
        The step size. A projection after the step is not taken into account.

    Raises:
        ValueError: If the median element does not move at all.

    Example:
        >>> from torchsets.encoders import mlp_encoder
        >>> _ = torch.manual_seed(0)
        >>> decoder = DSPN(mlp_encoder(3, 32, 16, slots=5), slots=5, features=2)
        >>> decoder.step_size = find_step_size(decoder, decoder.encode(torch.rand(8, 5, 2)))
        >>> 1 < decoder.step_size < 1000
        True
    """
    if not movement > 0:
        raise ValueError(f"movement must be above 0, got {movement}")
    if torch.is_inference_mode_enabled():  # autograd refuses tensors of this mode
        with torch.inference_mode(False):
            context = None if context is None else context.clone()
            return find_step_size(decoder, vector.clone(), movement=movement, context=context)
    start = decoder._start(vector.shape[0], None).detach()
    inner = decoder._inner_loss(vector, context, start)
    _, gradient = set_gradient(inner, start, record=False)
    elements = start[..., : decoder.features]
    spread = (elements - elements.mean(dim=1, keepdim=True)).square().sum(dim=-1).mean().sqrt()
    distance = torch.linalg.vector_norm(gradient[..., : decoder.features], dim=-1).median()
    if not distance > 0:
        raise ValueError("the first step moves no element: the encoder's gradient is zero")
    return float(movement * spread / distance)
