"""The laws of the results of set functions, and all laws at once."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from torchsets.padded import lengths_to_mask
from torchsets.testing.gradients import (
    assert_empty_batches_connected,
    assert_no_gradient_to_padding,
    assert_twice_differentiable,
    parameter_gradients_are_finite,
)
from torchsets.testing.results import (
    SetFunction,
    assert_same,
    leaves_of,
    random_sets,
    result_and_gradient,
    usable_results,
    with_repetitions,
)

_ORDERS = 6
_CONTENTS = (float("nan"), float("inf"), float("-inf"), 1e6)


def assert_obeys_laws(
    function: SetFunction, elements: Tensor, mask: Tensor, *, equivariant: bool = False
) -> None:
    """Check all laws that every set function has to obey."""
    for law in set_laws(equivariant=equivariant).values():
        law(function, elements, mask)


def set_laws(
    *, equivariant: bool = False
) -> dict[str, Callable[[SetFunction, Tensor, Tensor], None]]:
    """Return the laws that every set function has to obey, by name.

    Each is an assertion that takes a function and padded sets, elements (B, N, D) and mask (B, N).
    Padding goes first: where it reaches the result, every other law would be broken as well.

    Example:
        >>> list(set_laws())[:4]
        ['padding', 'padding-gradient', 'order', 'independence']
    """

    def small_sets(function: SetFunction, elements: Tensor, mask: Tensor) -> None:
        assert_handles_small_sets(
            function,
            elements.shape[-1],
            dtype=elements.dtype,
            device=elements.device,
            equivariant=equivariant,
        )

    def empty_batches(function: SetFunction, elements: Tensor, mask: Tensor) -> None:
        features, dtype, device = elements.shape[-1], elements.dtype, elements.device
        assert_empty_batches_connected(function, features, dtype=dtype, device=device)

    return {
        "padding": partial(assert_ignores_padding, equivariant=equivariant),
        "padding-gradient": assert_no_gradient_to_padding,
        "order": assert_permutation_equivariant if equivariant else assert_permutation_invariant,
        "independence": assert_sets_independent,
        "small-sets": small_sets,
        "empty-batches": empty_batches,
        "second-derivatives": assert_twice_differentiable,
    }


def assert_permutation_invariant(function: SetFunction, elements: Tensor, mask: Tensor) -> None:
    """Check that the order of the slots does not matter, also when elements repeat."""
    for sets in (elements, with_repetitions(elements, mask)):
        expected = usable_results(function(sets, mask))
        for order in _orders(mask):
            actual = leaves_of(function(_reorder(sets, order), _reorder(mask, order)))
            assert_same(actual, expected, "the order of the elements changed the result")


def assert_permutation_equivariant(function: SetFunction, elements: Tensor, mask: Tensor) -> None:
    """Check that reordering the slots reorders the result, also when elements repeat."""
    for sets in (elements, with_repetitions(elements, mask)):
        plain = usable_results(function(sets, mask))
        for order in _orders(mask):
            actual = leaves_of(function(_reorder(sets, order), _reorder(mask, order)))
            expected = [_reorder(leaf, order) for leaf in plain]
            assert_same(actual, expected, "the result did not follow the order of the elements")


def assert_ignores_padding(
    function: SetFunction, elements: Tensor, mask: Tensor, *, equivariant: bool = False
) -> None:
    """Check that neither amount, place nor content of the padding changes result or gradient."""
    try:
        _assert_padding_has_no_effect(function, elements, mask, equivariant)
    except AssertionError as error:
        if _ignores_real_elements(function, elements, mask):
            hint = "Real elements had no effect: is the mask inverted? True must mean real."
            raise AssertionError(f"{error}\n{hint}") from None
        raise


def assert_sets_independent(function: SetFunction, elements: Tensor, mask: Tensor) -> None:
    """Check that each set gives the same result alone, in its batch, and in other company."""
    batched = usable_results(function(elements, mask))
    for index in range(len(elements)):
        alone = leaves_of(function(elements[index : index + 1], mask[index : index + 1]))
        expected = [leaf[index : index + 1] for leaf in batched]
        assert_same(alone, expected, f"set {index} gave another result alone than in the batch")
    for company in (_far_away(elements), elements.flip(0) * 3):
        crowd = torch.cat([company, elements, company])
        crowd_mask = torch.cat([mask.flip(0), mask, mask.flip(0)])
        got = [leaf[len(mask) : 2 * len(mask)] for leaf in leaves_of(function(crowd, crowd_mask))]
        assert_same(got, batched, "other sets in the batch changed the result")


def assert_handles_small_sets(
    function: SetFunction,
    features: int,
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    equivariant: bool = False,
) -> None:
    """Check sets of 0 and 1 elements: finite results and gradients, also for N = 0 and B = 0."""
    empty_results = []
    for sizes, slots in (([1], 1), ([0, 1], 1), ([0], 1), ([0, 0], 3), ([0, 0], 0), ([], 2)):
        mask = lengths_to_mask(torch.tensor(sizes, dtype=torch.long), size=slots)
        elements, _ = random_sets([slots] * len(sizes) or [slots], features, dtype=dtype)
        elements = elements[: len(sizes)].masked_fill(~mask.unsqueeze(-1), float("nan"))
        elements, mask = elements.to(device), mask.to(device)
        leaves, gradient = result_and_gradient(function, elements, mask)
        case = f"sets of sizes {sizes} in {slots} slots"
        for leaf in leaves:
            if len(leaf) != len(sizes):
                raise AssertionError(f"{case} gave a result of shape {tuple(leaf.shape)}")
            if not torch.isfinite(leaf.detach()).all():
                raise AssertionError(f"{case} gave a result that is not finite: {leaf}")
        if not torch.isfinite(gradient).all():
            raise AssertionError(f"{case} gave a gradient that is not finite: {gradient}")
        if not parameter_gradients_are_finite(function, elements, mask):
            raise AssertionError(f"{case} made the gradient of a parameter nan or infinite")
        if not equivariant and 0 in sizes:
            empty_results.append([leaf[:1] for leaf in leaves])
    for result in empty_results:
        assert_same(result, empty_results[0], "an empty set gave different results")


def _assert_padding_has_no_effect(
    function: SetFunction, elements: Tensor, mask: Tensor, equivariant: bool
) -> None:
    expected, expected_gradients = _real_results(function, elements, mask, equivariant)
    for content in _CONTENTS:
        refilled = elements.masked_fill(~mask.unsqueeze(-1), content)
        for padded, padded_mask in _paddings(refilled, mask, content):
            actual, gradients = _real_results(function, padded, padded_mask, equivariant)
            assert_same(actual, expected, f"padding with {content} changed the result")
            assert_same(
                gradients, expected_gradients, f"padding with {content} changed the gradient"
            )


def _ignores_real_elements(function: SetFunction, elements: Tensor, mask: Tensor) -> bool:
    hidden = torch.ones_like(elements).masked_fill(mask.unsqueeze(-1), float("nan"))
    leaves = leaves_of(function(hidden, mask))
    return bool(mask.any()) and not any(leaf.isnan().any() for leaf in leaves)


def _orders(mask: Tensor) -> list[Tensor]:
    draws = [
        torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)).to(mask.device)
        for seed in range(_ORDERS)
    ]
    return [draw.argsort(dim=1) for draw in draws]  # another order for each set


def _reorder(values: Tensor, order: Tensor) -> Tensor:
    index = order.reshape(*order.shape, *([1] * (values.ndim - 2)))
    return values.take_along_dim(index, dim=1)


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


def _real_results(
    function: SetFunction, elements: Tensor, mask: Tensor, equivariant: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Results and gradients at the real elements, which do not depend on the padding."""

    def at_real(leaf: Tensor) -> Tensor:
        return leaf[mask] if equivariant else leaf

    leaves, gradient = result_and_gradient(function, elements, mask, at_real)
    return leaves, [gradient[mask]]


def _far_away(elements: Tensor) -> Tensor:
    """The same sets, moved far enough to disturb any statistic over the batch."""
    return elements.flip(0) * 100 + 7
