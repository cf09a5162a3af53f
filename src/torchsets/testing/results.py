"""What a set function gave back: its tensors, its gradient, and how two results are compared."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.testing import assert_close

from torchsets.padded import lengths_to_mask

SetFunction = Callable[[Tensor, Tensor], Any]


def random_sets(
    sizes: Sequence[int],
    features: int,
    generator: torch.Generator | None = None,
    *,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Draw normally distributed sets of the given sizes, padded with nan so that a leak shows.

    Returns:
        elements (B, N, D) and mask (B, N), where N is ``max(sizes)``.
    """
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    mask = lengths_to_mask(torch.tensor(list(sizes), dtype=torch.long))
    elements = torch.randn(*mask.shape, features, dtype=dtype, generator=generator)
    return elements.masked_fill(~mask.unsqueeze(-1), float("nan")), mask


def leaves_of(output: Any) -> list[Tensor]:
    """All tensors of a result that may be a tensor, or nested tuples, lists and dicts of them."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, Mapping):
        output = list(output.values())
    if not isinstance(output, (tuple, list)):
        kind = type(output).__name__
        raise TypeError(
            f"a set function must return tensors, or tuples or dicts of them, got {kind}"
        )
    return [leaf for part in output if part is not None for leaf in leaves_of(part)]


def usable_results(output: Any) -> list[Tensor]:
    """The results, if there is no nan in them: nan differs from itself and breaks every law."""
    leaves = leaves_of(output)
    if any(leaf.isnan().any() for leaf in leaves):
        raise AssertionError("the result is nan: padding that holds nan may have reached it")
    return leaves


def assert_same(actual: Sequence[Tensor], expected: Sequence[Tensor], message: str) -> None:
    """Raise ``AssertionError`` with the message in front unless all tensors are close."""
    for got, wanted in zip(actual, expected, strict=True):
        assert_close(got, wanted, msg=lambda details: f"{message}\n{details}")


def result_and_gradient(
    function: SetFunction,
    elements: Tensor,
    mask: Tensor,
    keep: Callable[[Tensor], Tensor] = lambda leaf: leaf,
) -> tuple[list[Tensor], Tensor]:
    """Results, and the gradient of their product with fixed random numbers."""
    elements = elements.detach().requires_grad_()
    kept = [keep(leaf) for leaf in leaves_of(function(elements, mask))]
    total = weighted_total(kept, elements)
    if not total.requires_grad:
        return kept, torch.zeros_like(elements)
    (gradient,) = torch.autograd.grad(total, elements, materialize_grads=True)
    return kept, gradient


def weighted_total(leaves: Sequence[Tensor], like: Tensor) -> Tensor:
    """The sum of all entries that have a gradient, multiplied with fixed random numbers."""
    generator = torch.Generator().manual_seed(1)
    total = like.new_zeros(())
    for leaf in leaves:
        if leaf.requires_grad:
            draw = torch.rand(leaf.shape, generator=generator, dtype=torch.float64)
            total = total + (leaf * draw.to(leaf)).sum()
    return total


def with_repetitions(elements: Tensor, mask: Tensor) -> Tensor:
    """Make every second real element equal to the slot before it."""
    if mask.shape[1] < 2:
        return elements
    previous = elements.roll(1, dims=1)
    odd = torch.arange(mask.shape[1], device=mask.device) % 2 == 1
    copy = mask & mask.roll(1, dims=1) & odd
    return torch.where(copy.unsqueeze(-1), previous, elements)
