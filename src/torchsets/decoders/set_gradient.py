"""The gradient of a loss with respect to sets: eager, inside torch.func, compiled, exported."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from torchsets._autograd import becomes_program, is_exporting, is_traced, record_graph

Distance = Callable[[Tensor, Tensor], Tensor]


def set_gradient(
    encoder: nn.Module, distance: Distance, sets: Tensor, vector: Tensor, *, record: bool
) -> tuple[Tensor, Tensor]:
    """Differentiate the distance of encoded sets from vectors with respect to the sets.

    Args:
        encoder: Sets (B, N, D) to vectors (B, L).
        distance: Encoded sets and vectors, both (B, L), to one number per set, (B,).
        sets: Where to differentiate, (B, N, D).
        vector: One vector per set, (B, L).
        record: Whether both results can be differentiated again.

    Returns:
        The distances (B,) and their gradients (B, N, D).
    """
    if becomes_program():
        if not is_exporting():
            raise RuntimeError(
                "torch.jit.trace cannot record a gradient, which every step of a DSPN takes; "
                "use torch.export, or torch.onnx.export with dynamo=True"
            )
        return _exported_gradient(encoder, distance, sets, vector)
    if is_traced():
        # A compiled function can be differentiated once only: both gradients must be in it.
        def total(sets: Tensor) -> tuple[Tensor, Tensor]:
            loss = distance(encoder(sets), vector)
            return loss.sum(), loss

        gradient, loss = torch.func.grad(total, has_aux=True)(sets)
        return loss, gradient
    with torch.enable_grad():
        if not (record and sets.requires_grad):
            sets = sets.detach().requires_grad_()
        loss = distance(run_encoder(encoder, sets), vector if record else vector.detach())
        (gradient,) = torch.autograd.grad(loss.sum(), sets, create_graph=record)
    return loss if record else loss.detach(), gradient


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
            f"variable_size=False; it raised: {error}"
        ) from error
    return encoded


def _exported_gradient(
    encoder: nn.Module, distance: Distance, sets: Tensor, vector: Tensor
) -> tuple[Tensor, Tensor]:
    """The same for torch.export, which records no gradients: it gets them as plain operations."""
    state = {**dict(encoder.named_parameters()), **dict(encoder.named_buffers())}

    def gradient_of(
        sets: Tensor, vector: Tensor, state: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        # Not torch.func.grad: it knows sizes as numbers only, and would fix the batch size.
        with torch.enable_grad():
            sets = sets.detach().requires_grad_()
            loss = distance(torch.func.functional_call(encoder, state, (sets,)), vector)
            (gradient,) = torch.autograd.grad(loss.sum(), sets)
        return loss.detach(), gradient

    graph = record_graph(gradient_of, sets, vector, state)
    loss, gradient = graph(sets.contiguous(), vector.contiguous(), state)
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
