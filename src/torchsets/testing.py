"""The laws of functions on padded sets, as assertions for test suites.

A set function takes ``(elements, mask)`` and returns a tensor or a tuple of tensors. An
*invariant* one returns one result per set, (B, ...); an *equivariant* one returns one per
element, (B, N, ...). Every assertion raises ``AssertionError`` when its law is broken.

Example:
    >>> import torch
    >>> from torchsets.pooling import mean_pool
    >>> elements, mask = random_sets([3, 0, 2], features=2)
    >>> assert_obeys_laws(mean_pool, elements, mask)
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.testing import assert_close

from torchsets.padded import lengths_to_mask

SetFunction = Callable[[Tensor, Tensor], Any]

_ORDERS = 6
_CONTENTS = (float("nan"), float("inf"), float("-inf"), 1e6)


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


def assert_obeys_laws(
    function: SetFunction, elements: Tensor, mask: Tensor, *, equivariant: bool = False
) -> None:
    """Check all laws of this module at once."""
    if equivariant:
        assert_permutation_equivariant(function, elements, mask)
    else:
        assert_permutation_invariant(function, elements, mask)
    assert_ignores_padding(function, elements, mask, equivariant=equivariant)
    assert_no_gradient_to_padding(function, elements, mask)
    assert_sets_independent(function, elements, mask, equivariant=equivariant)
    assert_handles_small_sets(
        function, elements.shape[-1], dtype=elements.dtype, equivariant=equivariant
    )


def assert_permutation_invariant(function: SetFunction, elements: Tensor, mask: Tensor) -> None:
    """Check that the order of the slots does not matter, also when elements repeat."""
    for sets in (elements, _with_repetitions(elements, mask)):
        expected = _leaves(function(sets, mask))
        for order in _orders(mask):
            actual = _leaves(function(_reorder(sets, order), _reorder(mask, order)))
            _assert_same(actual, expected, "the order of the elements changed the result")


def assert_permutation_equivariant(function: SetFunction, elements: Tensor, mask: Tensor) -> None:
    """Check that reordering the slots reorders the result, also when elements repeat."""
    for sets in (elements, _with_repetitions(elements, mask)):
        plain = _leaves(function(sets, mask))
        for order in _orders(mask):
            actual = _leaves(function(_reorder(sets, order), _reorder(mask, order)))
            expected = [_reorder(leaf, order) for leaf in plain]
            _assert_same(actual, expected, "the result did not follow the order of the elements")


def assert_ignores_padding(
    function: SetFunction, elements: Tensor, mask: Tensor, *, equivariant: bool = False
) -> None:
    """Check that neither amount, place nor content of the padding changes result or gradient."""
    expected, expected_gradients = _real_results(function, elements, mask, equivariant)
    for content in _CONTENTS:
        refilled = elements.masked_fill(~mask.unsqueeze(-1), content)
        for padded, padded_mask in _paddings(refilled, mask, content):
            actual, gradients = _real_results(function, padded, padded_mask, equivariant)
            _assert_same(actual, expected, f"padding with {content} changed the result")
            _assert_same(
                gradients, expected_gradients, f"padding with {content} changed the gradient"
            )


def assert_no_gradient_to_padding(function: SetFunction, elements: Tensor, mask: Tensor) -> None:
    """Check that padding receives a zero gradient, even when it holds nan."""
    for content in (float("nan"), 1.0):
        padded = elements.detach().masked_fill(~mask.unsqueeze(-1), content)
        longer = torch.cat([padded, torch.full_like(padded[:, :1], content)], dim=1)
        longer_mask = torch.cat([mask, torch.zeros_like(mask[:, :1])], dim=1)
        _, gradient = _result_and_gradient(function, longer, longer_mask)
        at_padding = gradient[~longer_mask]
        _assert_same([at_padding], [torch.zeros_like(at_padding)], "padding received a gradient")


def assert_sets_independent(
    function: SetFunction, elements: Tensor, mask: Tensor, *, equivariant: bool = False
) -> None:
    """Check that each set gives the same result alone, in its batch, and in other company."""
    del equivariant  # the padding stays as it is, so both kinds are compared in the same way
    batched = _leaves(function(elements, mask))
    for index in range(len(elements)):
        alone = _leaves(function(elements[index : index + 1], mask[index : index + 1]))
        expected = [leaf[index : index + 1] for leaf in batched]
        _assert_same(alone, expected, f"set {index} gave another result alone than in the batch")
    for company in (_far_away(elements), elements.flip(0) * 3):
        crowd = torch.cat([company, elements, company])
        crowd_mask = torch.cat([mask.flip(0), mask, mask.flip(0)])
        got = [leaf[len(mask) : 2 * len(mask)] for leaf in _leaves(function(crowd, crowd_mask))]
        _assert_same(got, batched, "other sets in the batch changed the result")


def assert_handles_small_sets(
    function: SetFunction,
    features: int,
    *,
    dtype: torch.dtype = torch.float64,
    equivariant: bool = False,
) -> None:
    """Check sets of 0 and 1 elements: finite results and gradients, also for N = 0 and B = 0."""
    empty_results = []
    for sizes, slots in (([1], 1), ([0, 1], 1), ([0], 1), ([0, 0], 3), ([0, 0], 0), ([], 2)):
        mask = lengths_to_mask(torch.tensor(sizes, dtype=torch.long), size=slots)
        elements, _ = random_sets([slots] * len(sizes) or [slots], features, dtype=dtype)
        elements = elements[: len(sizes)].masked_fill(~mask.unsqueeze(-1), float("nan"))
        leaves, gradient = _result_and_gradient(function, elements, mask)
        case = f"sets of sizes {sizes} in {slots} slots"
        for leaf in leaves:
            if len(leaf) != len(sizes):
                raise AssertionError(f"{case} gave a result of shape {tuple(leaf.shape)}")
            if not torch.isfinite(leaf.detach()).all():
                raise AssertionError(f"{case} gave a result that is not finite: {leaf}")
        if not torch.isfinite(gradient).all():
            raise AssertionError(f"{case} gave a gradient that is not finite: {gradient}")
        if not equivariant and 0 in sizes:
            empty_results.append([leaf[:1] for leaf in leaves])
    for result in empty_results:
        _assert_same(result, empty_results[0], "an empty set gave different results")


def _leaves(output: Any) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output]
    return [leaf for part in output if part is not None for leaf in _leaves(part)]


def _assert_same(actual: Sequence[Tensor], expected: Sequence[Tensor], message: str) -> None:
    for got, wanted in zip(actual, expected, strict=True):
        assert_close(got, wanted, msg=lambda details: f"{message}\n{details}")


def _orders(mask: Tensor) -> list[Tensor]:
    draws = [
        torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)).to(mask.device)
        for seed in range(_ORDERS)
    ]
    return [draw.argsort(dim=1) for draw in draws]  # another order for each set


def _reorder(values: Tensor, order: Tensor) -> Tensor:
    index = order.reshape(*order.shape, *([1] * (values.ndim - 2)))
    return values.take_along_dim(index, dim=1)


def _with_repetitions(elements: Tensor, mask: Tensor) -> Tensor:
    """Make every second real element equal to the slot before it."""
    if mask.shape[1] < 2:
        return elements
    previous = elements.roll(1, dims=1)
    odd = torch.arange(mask.shape[1], device=mask.device) % 2 == 1
    copy = mask & mask.roll(1, dims=1) & odd
    return torch.where(copy.unsqueeze(-1), previous, elements)


def _paddings(elements: Tensor, mask: Tensor, content: float) -> list[tuple[Tensor, Tensor]]:
    """The same sets with more padding: none, behind, in front, and between any two slots."""
    void = torch.full_like(elements[:, :1], content)
    no = torch.zeros_like(mask[:, :1])
    between = torch.stack([torch.full_like(elements, content), elements], dim=2).flatten(1, 2)
    between_mask = torch.stack([torch.zeros_like(mask), mask], dim=2).flatten(1, 2)
    return [
        (elements, mask),
        (torch.cat([elements, void, void], dim=1), torch.cat([mask, no, no], dim=1)),
        (torch.cat([void, elements], dim=1), torch.cat([no, mask], dim=1)),
        (between, between_mask),
    ]


def _result_and_gradient(
    function: SetFunction,
    elements: Tensor,
    mask: Tensor,
    keep: Callable[[Tensor], Tensor] = lambda leaf: leaf,
) -> tuple[list[Tensor], Tensor]:
    """Results, and the gradient of their product with fixed random numbers."""
    elements = elements.detach().requires_grad_()
    kept = [keep(leaf) for leaf in _leaves(function(elements, mask))]
    generator = torch.Generator().manual_seed(1)
    total = elements.new_zeros(())
    for leaf in kept:
        if leaf.requires_grad:
            draw = torch.rand(leaf.shape, generator=generator, dtype=torch.float64)
            total = total + (leaf * draw.to(leaf)).sum()
    if not total.requires_grad:
        return kept, torch.zeros_like(elements)
    (gradient,) = torch.autograd.grad(total, elements, allow_unused=True)
    return kept, torch.zeros_like(elements) if gradient is None else gradient


def _real_results(
    function: SetFunction, elements: Tensor, mask: Tensor, equivariant: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Results and gradients at the real elements, which do not depend on the padding."""

    def at_real(leaf: Tensor) -> Tensor:
        return leaf[mask] if equivariant else leaf

    leaves, gradient = _result_and_gradient(function, elements, mask, at_real)
    return leaves, [gradient[mask]]


def _far_away(elements: Tensor) -> Tensor:
    """The same sets, moved far enough to disturb any statistic over the batch."""
    return elements.flip(0) * 100 + 7
