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

from torchsets.testing.gradients import (
    assert_empty_batches_connected,
    assert_handles_scales,
    assert_no_gradient_to_padding,
    assert_twice_differentiable,
)
from torchsets.testing.laws import (
    assert_handles_small_sets,
    assert_ignores_padding,
    assert_obeys_laws,
    assert_permutation_equivariant,
    assert_permutation_invariant,
    assert_sets_independent,
    set_laws,
)
from torchsets.testing.results import SetFunction as SetFunction
from torchsets.testing.results import random_sets

__all__ = [
    "assert_empty_batches_connected",
    "assert_handles_scales",
    "assert_handles_small_sets",
    "assert_ignores_padding",
    "assert_no_gradient_to_padding",
    "assert_obeys_laws",
    "assert_permutation_equivariant",
    "assert_permutation_invariant",
    "assert_sets_independent",
    "assert_twice_differentiable",
    "random_sets",
    "set_laws",
]
