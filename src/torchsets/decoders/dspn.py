"""Deep set prediction networks: decode a vector by gradient descent on a set."""

import math

import torch
from torch import Tensor, nn

from torchsets._autograd import is_traced
from torchsets._checks import check_floating, check_padded_sets, check_shape
from torchsets.decoders.set_gradient import Distance, set_gradient
from torchsets.padded import SetPrediction, Trajectory

Initial = Tensor | tuple[Tensor, Tensor] | SetPrediction
"""A start for the descent: elements, (elements, presence), or what another decoder predicted."""


class DSPN(nn.Module):
    """Deep set prediction network: find the set that encodes to the given vector.

    From a start that is the same for all vectors, T steps of gradient descent lower the
    representation loss, the distance between the encoded set and the vector. Each step is
    equivariant, so no slot is responsible for any element. A set decodes the same in any batch.

    Args:
        encoder: Set to vector, permutation-invariant. Called with one argument, never a mask:
            (B, slots, features + 1) with the presences last, or (B, slots, features).
        slots: Number of slots N of a predicted set.
        features: Number of features D of an element.
        steps: Number of steps T.
        step_size: Factor on the gradient of one set's loss; see :func:`find_step_size`.
        momentum: Nesterov's, from 0 to below 1.
        clip: Largest norm of one set's gradient. None: no limit.
        tolerance: A set whose loss is below it stops moving. None: no set stops.
        variable_size: Whether a set has presences. False: every slot is an element.
        representation_loss: Mean over the features of the vector of "huber" (u^2 / 2 below 1,
            abs(u) - 1/2 above) or "squared" (u^2 / 2).
        gradient: "unrolled" goes back through all steps. "implicit" takes the last set for a
            minimum and goes back through one gradient there, for less time and memory. It trains
            neither the start nor the sets on the way.

    Attributes:
        encoder: The set encoder.
        initial_elements: The learned start, (slots, features), at first uniform in [0, 1).
        initial_presence: The presences of the start, (slots,), at first 0.5; None for fixed sizes.

    Example:
        >>> from torchsets.encoders import mlp_encoder
        >>> decoder = DSPN(mlp_encoder(3, 32, 16, slots=5), slots=5, features=2)
        >>> prediction = decoder(torch.zeros(4, 16))
        >>> prediction.elements.shape, prediction.trajectory.elements.shape
        (torch.Size([4, 5, 2]), torch.Size([11, 4, 5, 2]))

    Reference:
        Zhang, Hare, Prügel-Bennett (2019), "Deep set prediction networks", algorithm 1.
        https://arxiv.org/abs/1906.06565. Implicit: Zhang et al. (2021), "Multiset-equivariant set
        prediction with approximate implicit differentiation". https://arxiv.org/abs/2111.12193
    """

    def __init__(
        self,
        encoder: nn.Module,
        *,
        slots: int,
        features: int,
        steps: int = 10,
        step_size: float = 25.0,
        momentum: float = 0.0,
        clip: float | None = None,
        tolerance: float | None = None,
        variable_size: bool = True,
        representation_loss: str = "huber",
        gradient: str = "unrolled",
    ) -> None:
        super().__init__()
        if slots < 1:
            raise ValueError(f"slots must be at least 1, got {slots}")
        if not (step_size > 0 and math.isfinite(step_size)):
            raise ValueError(f"step_size must be above 0, got {step_size}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {momentum}")
        if clip is not None and not clip > 0:
            raise ValueError(f"clip must be above 0, got {clip}")
        if representation_loss not in _DISTANCES:
            raise ValueError(
                f'representation_loss must be "huber" or "squared", got {representation_loss!r}'
            )
        if gradient not in ("unrolled", "implicit"):
            raise ValueError(f'gradient must be "unrolled" or "implicit", got {gradient!r}')
        self.encoder = encoder
        self.slots, self.features, self.steps = slots, features, _check_steps(steps)
        self.step_size, self.momentum = step_size, momentum
        self.clip, self.tolerance = clip, tolerance
        self.variable_size, self.gradient = variable_size, gradient
        self._distance: Distance = _DISTANCES[representation_loss]
        learned = gradient == "unrolled"
        self.initial_elements = nn.Parameter(torch.rand(slots, features), requires_grad=learned)
        presence = nn.Parameter(torch.full((slots,), 0.5), requires_grad=learned)
        self.initial_presence = presence if variable_size else None

    def forward(
        self, vector: Tensor, *, steps: int | None = None, initial: Initial | None = None
    ) -> SetPrediction:
        """Decode vectors into sets.

        Args:
            vector: One vector per set, (B, L), floating point.
            steps: Number of steps, such as more than in training. None: as constructed.
            initial: Where to start instead of the learned set: elements (B or 1, slots, features);
                or a pair of them and presences (B or 1, slots); or a :class:`SetPrediction`, which
                is then refined. Unrolled gradients reach it.

        Returns:
            The sets after the last step, and in ``trajectory`` those after each step.

        Raises:
            ValueError: If a shape or dtype differs from the above.
        """
        check_shape(vector, (None, None), name="vector", letters="(B, L)")
        check_floating(vector, name="vector")
        steps = self.steps if steps is None else _check_steps(steps)
        if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
            # Autograd refuses tensors of this mode: leave it, with copies.
            with torch.inference_mode(False), torch.no_grad():
                start = self._start(len(vector), initial).clone()
                return self._descend(vector.clone(), start, steps)
        return self._descend(vector, self._start(len(vector), initial), steps)

    def encode(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode padded sets as the decoder sees them.

        Args:
            elements: Padded sets, (B, N, D), with at most ``slots`` slots.
            mask: True where an element is real, (B, N), bool. None: all are real.

        Returns:
            One vector per set, (B, L): the vector that decodes to the set.
        """
        check_shape(elements, (None, None, self.features), name="elements", letters="(B, N, D)")
        mask = check_padded_sets(elements, mask)
        missing = self.slots - elements.shape[1]
        if missing < 0:
            raise ValueError(
                f"elements must have at most {self.slots} slots, got {elements.shape[1]}"
            )
        sets = elements.masked_fill(~mask.unsqueeze(-1), 0)
        if self.variable_size:
            sets = torch.cat([sets, mask.unsqueeze(-1).to(sets.dtype)], dim=-1)
        encoded: Tensor = self.encoder(nn.functional.pad(sets, (0, 0, 0, missing)))
        return encoded

    def representation_loss(
        self, vector: Tensor, elements: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Return how far sets (B, N, D) are from encoding to the vectors (B, L): (B,)."""
        return self._distance(self.encode(elements, mask), vector)

    def extra_repr(self) -> str:
        return (
            f"slots={self.slots}, features={self.features}, steps={self.steps}, "
            f"step_size={self.step_size:g}, gradient={self.gradient!r}"
        )

    def _start(self, batch: int, initial: Initial | None) -> Tensor:
        """The sets before the first step, (B, slots, features), with presences features + 1."""
        elements, learned = self.initial_elements.unsqueeze(0), self.initial_presence
        presence = None if learned is None else learned.unsqueeze(0)
        if isinstance(initial, Tensor):
            elements = initial
        elif initial is not None:
            elements, presence = initial[0], initial[1] if self.variable_size else None
        shape = (self.slots, self.features)
        if elements.shape[1:] != shape or elements.shape[0] not in (1, batch):
            raise ValueError(
                f"initial elements must have shape (B or 1, slots, features) = "
                f"({batch} or 1, {shape[0]}, {shape[1]}), got {tuple(elements.shape)}"
            )
        start = elements.expand(batch, -1, -1)
        if presence is None:
            return start
        if presence.shape[1:] != shape[:1] or presence.shape[0] not in (1, batch):
            raise ValueError(
                f"initial presence must have shape (B or 1, slots) = ({batch} or 1, {shape[0]}), "
                f"got {tuple(presence.shape)}"
            )
        given = presence.clamp(0, 1).to(start.dtype).expand(batch, -1)
        return torch.cat([start, given.unsqueeze(-1)], dim=-1)

    def _descend(self, vector: Tensor, start: Tensor, steps: int) -> SetPrediction:
        wanted = torch.is_grad_enabled() and (
            vector.requires_grad
            or start.requires_grad
            or any(weight.requires_grad for weight in self.encoder.parameters())
        )
        unrolled = self.gradient == "unrolled"
        points = [start if unrolled else start.detach()]
        losses: list[Tensor] = []
        velocity: Tensor | None = None
        at_rest = False
        for step in range(steps):
            point = points[-1]
            record = wanted and (unrolled or step == steps - 1)
            if at_rest and not record:
                points.append(point)
                losses.append(losses[-1])
                continue
            loss, slope = set_gradient(self.encoder, self._distance, point, vector, record=record)
            moved, velocity, still = self._move(point, slope, velocity, loss)
            if not unrolled:
                loss, moved = loss.detach(), moved.detach()
                velocity = None if velocity is None else velocity.detach()
                if record:
                    # The minimum moves like q, one plain step from here.
                    q = self._clamp(point - slope) - point
                    moved = moved + (q - q.detach())
            at_rest = still is not None and not is_traced() and bool(still.all())
            points.append(moved)
            losses.append(loss)
        return self._prediction(points, losses)

    def _move(
        self, point: Tensor, slope: Tensor, velocity: Tensor | None, loss: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """One step: the new sets, their velocities, and which sets stay where they are."""
        direction = slope
        if self.clip is not None:
            norm = torch.linalg.vector_norm(slope, dim=(1, 2), keepdim=True)
            direction = slope * (self.clip / norm.clamp(min=self.clip))
        if self.momentum > 0:
            velocity = direction if velocity is None else self.momentum * velocity + direction
            direction = direction + self.momentum * velocity
        moved = self._clamp(point - self.step_size * direction)
        if self.tolerance is None:
            return moved, velocity, None
        still = loss.detach() < self.tolerance
        return torch.where(still[:, None, None], point, moved), velocity, still

    def _clamp(self, sets: Tensor) -> Tensor:
        """Bring the presences back into [0, 1]."""
        if not self.variable_size:
            return sets
        return torch.cat([sets[..., :-1], sets[..., -1:].clamp(0, 1)], dim=-1)

    def _prediction(self, points: list[Tensor], losses: list[Tensor]) -> SetPrediction:
        way, final = torch.stack(points), points[-1]
        if self.variable_size:
            trajectory = Trajectory(way[..., :-1], way[..., -1], torch.stack(losses))
            return SetPrediction(final[..., :-1], final[..., -1], trajectory)
        ones = way.new_ones(way.shape[:-1])
        return SetPrediction(final, ones[-1], Trajectory(way, ones, torch.stack(losses)))


def _huber(encoded: Tensor, vector: Tensor) -> Tensor:
    _check_encoded(encoded, vector)
    return nn.functional.smooth_l1_loss(encoded, vector, reduction="none").mean(dim=-1)


def _squared(encoded: Tensor, vector: Tensor) -> Tensor:
    _check_encoded(encoded, vector)
    return (encoded - vector).square().mean(dim=-1) / 2


_DISTANCES: dict[str, Distance] = {"huber": _huber, "squared": _squared}


def _check_encoded(encoded: Tensor, vector: Tensor) -> None:
    if encoded.shape != vector.shape:
        raise ValueError(
            f"vector must have the shape of the encoded sets, {tuple(encoded.shape)}, "
            f"got {tuple(vector.shape)}"
        )


def _check_steps(steps: int) -> int:
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    return steps
