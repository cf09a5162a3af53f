"""Deep set prediction networks: decode a vector by gradient descent on a set."""

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from torchsets._checks import check_counts, check_floating, check_padded_sets, check_shape
from torchsets.decoders.descent import Descent, descend
from torchsets.decoders.set_gradient import (
    DISTANCES,
    Distance,
    InnerLoss,
    add_context,
    run_encoder,
)
from torchsets.decoders.simplex import project_simplex
from torchsets.decoders.start import Project, make_start
from torchsets.padded import SetPrediction

Initial = Tensor | tuple[Tensor, Tensor] | SetPrediction
"""A start for the descent: elements, (elements, presence), or what another decoder predicted."""


class DSPN(nn.Module):
    """Deep set prediction network: find the set that encodes to the given vector.

    From a start that is the same for all vectors, T steps of gradient descent lower the
    representation loss, the distance between the encoded set and the vector. Each step is
    equivariant, so no slot is responsible for any element. A set decodes the same in any batch.

    Args:
        encoder: Set to vector, permutation-invariant. Called with one argument, never a mask:
            (B, slots, features + 1) with the presences last, or (B, slots, features); a context
            stands behind the features.
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
            minimum and goes back through one gradient there, for less time and memory. It does
            not train the sets on the way, and the start only with a pull.
        project: Applied to the elements of the start and after each step: "simplex" for
            :func:`project_simplex`, or a function of (B, slots, features). None: elements are free.
        pull: Weight of a second term of the inner loss, towards the start: the mean of
            (y - start)^2 / 2 over the slots and features of a set, presences included. It makes
            the minimum depend on the start, so that implicit gradients reach it.

    Attributes:
        encoder: The set encoder.
        step_size: The step size, a number. It is saved and loaded with the weights, because it
            belongs to them: an encoder is trained for one step size.
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
        project: str | Project | None = None,
        pull: float = 0.0,
    ) -> None:
        super().__init__()
        check_counts(slots=slots, features=features)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {momentum}")
        if clip is not None and not 0 < clip < math.inf:
            raise ValueError(f"clip must be above 0 and finite, or None, got {clip}")
        if representation_loss not in DISTANCES:
            raise ValueError(
                f'representation_loss must be "huber" or "squared", got {representation_loss!r}'
            )
        if gradient not in ("unrolled", "implicit"):
            raise ValueError(f'gradient must be "unrolled" or "implicit", got {gradient!r}')
        if isinstance(project, str) and project != "simplex":
            raise ValueError(f'project must be "simplex" or a function, got {project!r}')
        if not pull >= 0:
            raise ValueError(f"pull must be at least 0, got {pull}")
        self.encoder = encoder
        self.slots, self.features, self.steps = slots, features, _check_steps(steps)
        self.step_size, self.momentum = step_size, momentum
        self.clip, self.tolerance = clip, tolerance
        self.variable_size, self.gradient = variable_size, gradient
        self._distance: Distance = DISTANCES[representation_loss]
        self.project = project_simplex if isinstance(project, str) else project
        self.pull = pull
        learned = gradient == "unrolled" or pull > 0
        self.initial_elements = nn.Parameter(torch.rand(slots, features), requires_grad=learned)
        presence = nn.Parameter(torch.full((slots,), 0.5), requires_grad=learned)
        self.initial_presence = presence if variable_size else None

    def forward(
        self,
        vector: Tensor,
        *,
        steps: int | None = None,
        initial: Initial | None = None,
        context: Tensor | None = None,
    ) -> SetPrediction:
        """Decode vectors into sets.

        Args:
            vector: One vector per set, (B, L), floating point.
            steps: Number of steps, such as more than in training. None: as constructed.
            initial: Where to start instead of the learned set: elements (B or 1, slots, features);
                or a pair of them and presences (B or 1, slots); or a :class:`SetPrediction`, which
                is then refined. Unrolled gradients reach it.
            context: What the encoder sees of each slot beside the set, (B, slots, C), such as the
                input that a slot belongs to. It stays as it is, and gradients reach it.

        Returns:
            The sets after the last step, and in ``trajectory`` those after each step.

        Raises:
            ValueError: If a shape or dtype differs from the above.
        """
        check_shape(vector, (None, None), name="vector", letters="(B, L)")
        check_floating(vector, name="vector")
        self._check_context(context, vector.shape[0])
        steps = self.steps if steps is None else _check_steps(steps)
        if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
            # Autograd refuses tensors of this mode: leave it, with copies.
            with torch.inference_mode(False), torch.no_grad():
                context = None if context is None else context.clone()
                start = self._start(vector.shape[0], initial).clone()
                return self._descend(vector.clone(), context, start, steps)
        return self._descend(vector, context, self._start(vector.shape[0], initial), steps)

    def encode(
        self, elements: Tensor, mask: Tensor | None = None, *, context: Tensor | None = None
    ) -> Tensor:
        """Encode padded sets as the decoder sees them.

        Args:
            elements: Padded sets, (B, N, D), with at most ``slots`` slots.
            mask: True where an element is real, (B, N), bool. None: all are real.
            context: As for the decoder, (B, slots, C), also of the slots without an element.

        Returns:
            One vector per set, (B, L): the vector that decodes to the set.
        """
        check_shape(elements, (None, None, self.features), name="elements", letters="(B, N, D)")
        mask = check_padded_sets(elements, mask)
        self._check_context(context, elements.shape[0])
        missing = self.slots - elements.shape[1]
        if missing < 0:
            raise ValueError(
                f"elements must have at most {self.slots} slots, got {elements.shape[1]}"
            )
        sets = elements.masked_fill(~mask.unsqueeze(-1), 0)
        if self.variable_size:
            sets = torch.cat([sets, mask.unsqueeze(-1).to(sets.dtype)], dim=-1)
        padded = nn.functional.pad(sets, (0, 0, 0, missing))
        return run_encoder(self.encoder, add_context(padded, context, presence=self.variable_size))

    def representation_loss(
        self,
        vector: Tensor,
        elements: Tensor,
        mask: Tensor | None = None,
        *,
        context: Tensor | None = None,
    ) -> Tensor:
        """Return how far sets (B, N, D) are from encoding to the vectors (B, L): (B,)."""
        return self._distance(self.encode(elements, mask, context=context), vector)

    @property
    def step_size(self) -> float:
        return self._step_size

    @step_size.setter
    def step_size(self, size: float) -> None:
        size = float(size)
        if not (size > 0 and math.isfinite(size)):
            raise ValueError(f"step_size must be above 0, got {size}")
        self._step_size = size

    def extra_repr(self) -> str:
        return (
            f"slots={self.slots}, features={self.features}, steps={self.steps}, "
            f"step_size={self.step_size:g}, gradient={self.gradient!r}"
        )

    # The step size is no buffer: module.half() would round it, and a GPU would have to be asked.
    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "step_size"] = torch.tensor(self.step_size, dtype=torch.float64)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        key = prefix + "step_size"
        if key in state_dict:
            try:
                self.step_size = state_dict[key]
            except ValueError as error:
                error_msgs.append(str(error))
        else:
            warnings.warn(
                f"these weights have no step size (torchsets 0.1.0 did not save it): it stays "
                f"{self.step_size:g}; set decoder.step_size to the one of the training",
                stacklevel=2,
            )
        rest = {name: value for name, value in state_dict.items() if name != key}
        super()._load_from_state_dict(
            rest, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _descend(
        self, vector: Tensor, context: Tensor | None, start: Tensor, steps: int
    ) -> SetPrediction:
        rule = Descent(
            steps=steps,
            step_size=self.step_size,
            momentum=self.momentum,
            clip=self.clip,
            tolerance=self.tolerance,
            project=self.project,
            presence=self.variable_size,
            unrolled=self.gradient == "unrolled",
        )
        return descend(self._inner_loss(vector, context, start), start, rule)

    def _inner_loss(self, vector: Tensor, context: Tensor | None, start: Tensor) -> InnerLoss:
        return InnerLoss(
            self.encoder,
            self._distance,
            vector,
            presence=self.variable_size,
            context=context,
            start=start if self.pull > 0 else None,
            pull=self.pull,
        )

    def _check_context(self, context: Tensor | None, batch: int) -> None:
        if context is not None:
            shape = (batch, self.slots, None)
            check_shape(context, shape, name="context", letters="(B, slots, C)")
            check_floating(context, name="context")

    def _start(self, batch: int, initial: Initial | None) -> Tensor:
        """The sets before the first step, (B, slots, features), with presences features + 1."""
        elements, learned = self.initial_elements.unsqueeze(0), self.initial_presence
        presence = None if learned is None else learned.unsqueeze(0)
        if isinstance(initial, Tensor):
            elements = initial
        elif initial is not None:
            elements, presence = initial[0], initial[1] if self.variable_size else None
        return make_start(
            elements, presence, batch, shape=(self.slots, self.features), project=self.project
        )


def _check_steps(steps: int) -> int:
    check_counts(steps=steps)
    return steps
