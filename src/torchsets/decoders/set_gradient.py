"""The gradient of a loss with respect to sets: eager, inside torch.func, compiled, exported."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from torchsets._autograd import becomes_program, is_exporting, is_traced, record_graph

Distance = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class InnerLoss:
    """What a descent lowers: the distance of encoded sets from vectors, and the pull to a start.

    Attributes:
        encoder: Sets (B, N, D), with a context (B, N, D + C), to vectors (B, L).
        distance: Encoded sets and vectors, both (B, L), to one number per set, (B,).
        vector: One vector per set, (B, L).
        presence: Whether the last feature of a set is a presence, which stays the last.
        context: What the encoder sees of each slot beside the set, (B, N, C).
        start: Where a descent began, (B, N, D); None if nothing pulls towards it.
        pull: Weight of half the mean squared difference from the start.
    """

    encoder: nn.Module
    distance: Distance
    vector: Tensor
    presence: bool = False
    context: Tensor | None = None
    start: Tensor | None = None
    pull: float = 0.0

    def __call__(self, sets: Tensor) -> Tensor:
        """Return one number for each of the sets (B, N, D): (B,)."""
        return self.of_encoded(run_encoder(self.encoder, self.seen(sets)), sets)

    def seen(self, sets: Tensor) -> Tensor:
        """What the encoder sees of sets (B, N, D): (B, N, D + C)."""
        return add_context(sets, self.context, presence=self.presence)

    def of_encoded(self, encoded: Tensor, sets: Tensor) -> Tensor:
        """The loss of sets (B, N, D) that are encoded already, (B, L)."""
        loss = self.distance(encoded, self.vector)
        if self.start is None:
            return loss
        return loss + self.pull / 2 * (sets - self.start).square().mean(dim=(1, 2))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that stay as they are during a descent."""
        named = {"vector": self.vector, "context": self.context, "start": self.start}
        return {name: tensor for name, tensor in named.items() if tensor is not None}

    def detach(self) -> "InnerLoss":
        """The same loss, without gradients to its tensors."""
        return self.with_tensors({name: x.detach() for name, x in self.tensors().items()})

    def with_tensors(self, tensors: dict[str, Tensor]) -> "InnerLoss":
        """The same loss with other tensors, named as by :meth:`tensors`."""
        context, start = tensors.get("context"), tensors.get("start")
        return replace(self, vector=tensors["vector"], context=context, start=start)


def set_gradient(inner: InnerLoss, sets: Tensor, *, record: bool) -> tuple[Tensor, Tensor]:
    """Differentiate the loss of a descent with respect to the sets.

    Args:
        inner: The loss.
        sets: Where to differentiate, (B, N, D).
        record: Whether both results can be differentiated again.

    Returns:
        The losses (B,) and their gradients (B, N, D).
    """
    if becomes_program():
        if not is_exporting():
            raise RuntimeError(
                "torch.jit.trace cannot record a gradient, which every step of a DSPN takes; "
                "use torch.export, or torch.onnx.export with dynamo=True"
            )
        return _exported_gradient(inner, sets)
    if is_traced():
        # A compiled function can be differentiated once only: both gradients must be in it.
        def total(sets: Tensor) -> tuple[Tensor, Tensor]:
            loss = inner(sets)
            return loss.sum(), loss

        gradient, loss = torch.func.grad(total, has_aux=True)(sets)
        return loss, gradient
    with torch.enable_grad():
        if not (record and sets.requires_grad):
            sets = sets.detach().requires_grad_()
        loss = inner(sets) if record else inner.detach()(sets)
        (gradient,) = torch.autograd.grad(loss.sum(), sets, create_graph=record)
    return loss if record else loss.detach(), gradient


def add_context(sets: Tensor, context: Tensor | None, *, presence: bool) -> Tensor:
    """Append the context of each slot to its features; the presence stays the last."""
    if context is None:
        return sets
    context = context.to(sets.dtype)
    parts = [sets[..., :-1], context, sets[..., -1:]] if presence else [sets, context]
    return torch.cat(parts, dim=-1)


def run_encoder(encoder: nn.Module, sets: Tensor) -> Tensor:
    """Encode sets; an encoder that cannot read them gets an error that says what they are."""
    if is_traced():
        encoded: Tensor = encoder(sets)
        return encoded
    try:
        encoded = encoder(sets)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"encoder must accept what DSPN passes, {tuple(sets.shape)}: (B, slots, features + 1) "
            "with the presence appended as the last feature, or (B, slots, features) for "
            f"variable_size=False, and before the presence the context; it raised: {error}"
        ) from error
    return encoded


def _exported_gradient(inner: InnerLoss, sets: Tensor) -> tuple[Tensor, Tensor]:
    """The same for torch.export, which records no gradients: it gets them as plain operations."""
    encoder = inner.encoder
    state = {**dict(encoder.named_parameters()), **dict(encoder.named_buffers())}

    def gradient_of(
        sets: Tensor, tensors: dict[str, Tensor], state: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        own = inner.with_tensors(tensors)
        # Not torch.func.grad: it knows sizes as numbers only, and would fix the batch size.
        with torch.enable_grad():
            sets = sets.detach().requires_grad_()
            encoded = torch.func.functional_call(encoder, state, (own.seen(sets),))
            loss = own.of_encoded(encoded, sets)
            (gradient,) = torch.autograd.grad(loss.sum(), sets)
        return loss.detach(), gradient

    tensors = {name: tensor.contiguous() for name, tensor in inner.tensors().items()}
    graph = record_graph(gradient_of, sets, tensors, state)
    loss, gradient = graph(sets.contiguous(), tensors, state)
    return loss, gradient


def _huber(encoded: Tensor, vector: Tensor) -> Tensor:
    _check_encoded(encoded, vector)
    return nn.functional.smooth_l1_loss(encoded, vector, reduction="none").mean(dim=-1)


def _squared(encoded: Tensor, vector: Tensor) -> Tensor:
    _check_encoded(encoded, vector)
    return (encoded - vector).square().mean(dim=-1) / 2


DISTANCES: dict[str, Distance] = {"huber": _huber, "squared": _squared}


def _check_encoded(encoded: Tensor, vector: Tensor) -> None:
    if encoded.shape != vector.shape:
        raise ValueError(
            f"vector must have the shape of the encoded sets, {tuple(encoded.shape)}, "
            f"got {tuple(vector.shape)}"
        )
