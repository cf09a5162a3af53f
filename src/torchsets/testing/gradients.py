"""The laws of the gradients of set functions: at padding, of empty batches, of gradients."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torchsets.testing.results import (
    SetFunction,
    assert_same,
    leaves_of,
    random_sets,
    result_and_gradient,
    weighted_total,
    with_repetitions,
)


def assert_no_gradient_to_padding(function: SetFunction, elements: Tensor, mask: Tensor) -> None:
    """Check that padding receives a zero gradient, and that its nan reaches no parameter's.

    The second is what a mask *behind* a linear layer gets wrong: result and gradient of the
    elements are right, and the gradient of the weights is nan.
    """
    for content in (float("nan"), 1.0):
        padded = elements.detach().masked_fill(~mask.unsqueeze(-1), content)
        longer = torch.cat([padded, torch.full_like(padded[:, :1], content)], dim=1)
        longer_mask = torch.cat([mask, torch.zeros_like(mask[:, :1])], dim=1)
        _, gradient = result_and_gradient(function, longer, longer_mask)
        at_padding = gradient[~longer_mask]
        assert_same([at_padding], [torch.zeros_like(at_padding)], "padding received a gradient")
        if not parameter_gradients_are_finite(function, longer, longer_mask):
            raise AssertionError(
                f"padding with {content} made the gradient of a parameter nan or infinite"
            )


def assert_empty_batches_connected(
    function: SetFunction,
    features: int,
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> None:
    """Check that B = 0, N = 0 and empty sets alone can be backpropagated like any other batch.

    Where the result of ordinary sets has a gradient in the elements, or in the parameters of a
    module, that of an empty batch must have one too: ``loss.backward()`` must not raise.
    """
    elements, mask = random_sets([2, 1], features, dtype=dtype)
    usual = _reached(function, elements.to(device), mask.to(device))
    for batch, slots in ((2, 3), (2, 0), (0, 2), (0, 0)):
        shape, nan = (batch, slots, features), float("nan")
        elements = torch.full(shape, nan, dtype=dtype, device=device)
        mask = torch.zeros(batch, slots, dtype=torch.bool, device=device)
        reached = _reached(function, elements, mask)
        if any(before and not now for before, now in zip(usual, reached, strict=True)):
            raise AssertionError(
                f"a batch of {batch} empty sets in {slots} slots gave a result without a graph: "
                f"backward() would raise"
            )


def assert_twice_differentiable(function: SetFunction, elements: Tensor, mask: Tensor) -> None:
    """Check that gradients can be differentiated again, and that nothing becomes nan or infinite.

    The gradient with ``create_graph=True`` must be the ordinary one; its own gradient, in the
    elements and in every parameter, must be finite. This is where norms and roots fail: for
    single elements, for equal ones and for elements of 0, so these are tried too.
    """
    rising = torch.linspace(0.1, 0.9, elements.shape[-1], dtype=elements.dtype)
    equal = torch.where(mask.unsqueeze(-1), rising.to(elements), elements)
    single = mask & (mask.cumsum(dim=1) == 1)
    for sets, real, kind in (
        (elements, mask, "these sets"),
        (with_repetitions(elements, mask), mask, "sets with repetitions"),
        (equal, mask, "equal elements"),
        (equal.masked_fill(mask.unsqueeze(-1), 0), mask, "elements of 0"),
        (elements, single, "single elements"),
    ):
        _, ordinary = result_and_gradient(function, sets, real)
        variable = sets.detach().requires_grad_()
        total = weighted_total(leaves_of(function(variable, real)), variable)
        if not total.requires_grad:
            continue
        inputs = _inputs(total, variable)
        first = torch.autograd.grad(total, inputs, create_graph=True, materialize_grads=True)
        assert_same([first[0]], [ordinary], f"create_graph changed the gradient of {kind}")
        again = weighted_total(first, variable)
        if again.requires_grad:
            second = torch.autograd.grad(again, inputs, materialize_grads=True)
            if not all(gradient.isfinite().all() for gradient in second):
                raise AssertionError(f"the second derivative of {kind} is not finite")


def assert_handles_scales(
    function: SetFunction,
    features: int,
    *,
    scales: Sequence[float] = (1e30, 1e-11, 1e-30),
    dtype: torch.dtype = torch.float32,
) -> None:
    """Check that tiny and huge elements have finite results and gradients, whatever their order.

    Not every set function can promise that: a square of 1e30 is infinite in float32. So this law
    is not part of :func:`assert_obeys_laws`.
    """
    for scale in scales:
        elements, mask = random_sets([4, 1, 0, 3], features, dtype=dtype)
        elements = elements * scale
        leaves, gradient = result_and_gradient(function, elements, mask)
        if not all(leaf.isfinite().all() for leaf in [*leaves, gradient]):
            raise AssertionError(
                f"elements of {scale:g} gave a result or gradient that is not finite"
            )


def parameter_gradients_are_finite(function: SetFunction, elements: Tensor, mask: Tensor) -> bool:
    """Whether all parameters that the result depends on have finite gradients."""
    variable = elements.detach().requires_grad_()
    total = weighted_total(leaves_of(function(variable, mask)), variable)
    parameters = _inputs(total, variable)[1:]
    if not parameters:
        return True
    gradients = torch.autograd.grad(total, parameters, allow_unused=True)
    return all(gradient is None or bool(gradient.isfinite().all()) for gradient in gradients)


def _reached(function: SetFunction, elements: Tensor, mask: Tensor) -> list[bool]:
    """Of each result: do gradients reach the elements? Without them, is there still a graph?"""
    variable = elements.detach().requires_grad_()
    reached = []
    for leaf in leaves_of(function(variable, mask)):
        gradients = (
            torch.autograd.grad(leaf.sum(), variable, allow_unused=True, retain_graph=True)
            if leaf.requires_grad
            else [None]
        )
        reached.append(gradients[0] is not None)
    return reached + [leaf.requires_grad for leaf in leaves_of(function(elements, mask))]


def _inputs(total: Tensor, elements: Tensor) -> list[Tensor]:
    """The elements and every parameter that the total depends on."""
    found, seen, waiting = [elements], set(), [total.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)  # of the nodes that gather gradients
        if variable is not None and variable is not elements:
            found.append(variable)
        waiting += [following for following, _ in node.next_functions]
    return found
