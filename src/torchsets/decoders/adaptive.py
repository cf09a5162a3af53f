"""Decode with a trained DSPN in fewer steps: each set finds its own step sizes."""

import torch
from torch import Tensor

from torchsets._checks import check_counts
from torchsets.decoders.dspn import DSPN, Initial
from torchsets.decoders.set_gradient import set_gradient
from torchsets.padded import SetPrediction, Trajectory

LARGEST = 1000.0  # steps, as multiples of the decoder's step size


@torch.no_grad()
def decode_adaptively(
    decoder: DSPN, vector: Tensor, *, steps: int | None = None, initial: Initial | None = None
) -> SetPrediction:
    """Decode vectors by Barzilai and Borwein's steps, for testing: there are no gradients.

    After a first step of the decoder's own size, a set that moved by s and whose gradient changed
    by r takes a step of s.s / s.r, which would be right for a quadratic loss along s. Where the
    loss is not convex (s.r is not above 0), the step before is repeated. The sets with the lowest
    loss on the way are returned, because single steps may raise it. Training with such steps
    diverges: nothing holds the scale of the encoder.

    Args:
        decoder: A DSPN. Its momentum and clip are not used; its tolerance neither.
        vector: One vector per set, (B, L), floating point.
        steps: Number of steps. None: as the decoder was constructed.
        initial: Where to start, as for the decoder.

    Returns:
        For each set the best on its way, and in ``trajectory`` the best up to each step.

    Example:
        >>> from torchsets.encoders import mlp_encoder
        >>> decoder = DSPN(mlp_encoder(3, 32, 16, slots=5), slots=5, features=2)
        >>> decode_adaptively(decoder, torch.zeros(4, 16), steps=5).elements.shape
        torch.Size([4, 5, 2])

    Reference:
        Barzilai, Borwein (1988), "Two-point step size gradient methods", IMA Journal of Numerical
        Analysis 8.
    """
    steps = decoder.steps if steps is None else steps
    check_counts(steps=steps)
    if torch.is_inference_mode_enabled():  # autograd refuses tensors of this mode
        with torch.inference_mode(False), torch.no_grad():
            start = decoder._start(vector.shape[0], initial).clone()
            return _descend(decoder, vector.clone(), start, steps)
    return _descend(decoder, vector, decoder._start(vector.shape[0], initial).detach(), steps)


def _descend(decoder: DSPN, vector: Tensor, point: Tensor, steps: int) -> SetPrediction:
    inner = decoder._inner_loss(vector, None, point)
    size = point.new_full((len(point), 1, 1), decoder.step_size)
    loss, slope = set_gradient(inner, point, record=False)
    best, least = point, loss
    points, losses = [best], [least]
    for _ in range(steps):
        moved = _bring_back(decoder, point - size * slope)
        loss, changed = set_gradient(inner, moved, record=False)
        shift, turn = moved - point, changed - slope
        bend = (shift * turn).sum(dim=(1, 2), keepdim=True)
        length = shift.square().sum(dim=(1, 2), keepdim=True)
        found = (length / bend).clamp(max=LARGEST * decoder.step_size)
        size = torch.where(bend > 0, found, size)
        point, slope = moved, changed
        better = loss < least
        best, least = torch.where(better[:, None, None], point, best), torch.minimum(loss, least)
        points.append(best)
        losses.append(least)
    way = torch.stack(points)
    if not decoder.variable_size:
        trajectory = Trajectory(way, way.new_ones(way.shape[:-1]), torch.stack(losses[:-1]))
    else:
        trajectory = Trajectory(way[..., :-1], way[..., -1], torch.stack(losses[:-1]))
    return SetPrediction(trajectory.elements[-1], trajectory.presence[-1], trajectory)


def _bring_back(decoder: DSPN, sets: Tensor) -> Tensor:
    """Project the elements, and bring the presences back into [0, 1]."""
    if not decoder.variable_size:
        return sets if decoder.project is None else decoder.project(sets)
    elements = sets[..., :-1]
    if decoder.project is not None:
        elements = decoder.project(elements)
    return torch.cat([elements, sets[..., -1:].clamp(0, 1)], dim=-1)
