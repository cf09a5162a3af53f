"""Checks at the border of public functions, with messages that say what arrived.

They look at shapes and dtypes only. Looking at values would make the host wait for the GPU.
"""

from numbers import Integral

import torch
from torch import Tensor


def check_tensor(value: object, *, name: str, cure: str = "") -> None:
    """Raise ``TypeError`` unless it is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(value).__name__}{cure}")


def check_padded_sets(
    elements: Tensor, mask: Tensor | None, *, name: str = "elements", mask_name: str = "mask"
) -> Tensor:
    """Return the mask, all True for None; raise ``ValueError`` on a wrong shape or dtype."""
    check_elements(elements, name=name)
    if mask is None:
        return torch.ones(elements.shape[:2], dtype=torch.bool, device=elements.device)
    check_mask(mask, elements.shape[:2], name=mask_name, of=name)
    return mask


def check_elements(elements: Tensor, *, name: str = "elements") -> None:
    """Raise ``ValueError`` unless ``elements`` is a floating point tensor (B, N, D)."""
    check_tensor(elements, name=name)
    if elements.ndim != 3:
        raise ValueError(f"{name} must have shape (B, N, D), got {tuple(elements.shape)}")
    check_floating(elements, name=name)


def check_floating(tensor: Tensor, *, name: str) -> None:
    """Raise ``ValueError`` unless the tensor is floating point."""
    check_tensor(tensor, name=name)
    if not tensor.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {tensor.dtype}")


def check_counts(**counts: int) -> None:
    """Raise unless each number, given by its name, is an integer of at least 1."""
    for name, count in counts.items():
        if not isinstance(count, Integral):
            raise TypeError(f"{name} must be an integer, got {count!r}")
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")


def check_mask(mask: Tensor, shape: torch.Size, *, name: str = "mask", of: str) -> None:
    """Raise ``ValueError`` unless ``mask`` is bool and has the given shape."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"{name} must be bool with True for real elements, got {kind}")
    if mask.shape != shape:
        raise ValueError(
            f"{name} must have shape {tuple(shape)} to match {of}, got {tuple(mask.shape)}"
        )


def check_shape(tensor: Tensor, shape: tuple[int | None, ...], *, name: str, letters: str) -> None:
    """Raise ``ValueError`` unless each axis has the given length; None allows any length.

    ``letters`` is the shape as the documentation writes it, such as ``(B, L)``.
    """
    check_tensor(tensor, name=name)
    matches = tensor.ndim == len(shape) and all(
        wanted is None or wanted == got for wanted, got in zip(shape, tensor.shape, strict=True)
    )
    if not matches:
        wanted_text = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(
            f"{name} must have shape {letters} = ({wanted_text}), got {tuple(tensor.shape)}"
        )
