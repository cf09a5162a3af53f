"""Each law must catch a function that breaks it: a law that cannot fail is no law."""

import pytest
import torch

from torchsets.testing import (
    assert_empty_batches_connected,
    assert_handles_scales,
    assert_handles_small_sets,
    assert_ignores_padding,
    assert_no_gradient_to_padding,
    assert_obeys_laws,
    assert_permutation_equivariant,
    assert_permutation_invariant,
    assert_sets_independent,
    assert_twice_differentiable,
    random_sets,
)


def total(elements, mask):
    return elements.masked_fill(~mask.unsqueeze(-1), 0).sum(dim=1)


def centred(elements, mask):
    elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
    mean = elements.sum(dim=1, keepdim=True) / mask.sum(dim=1).clamp(min=1)[:, None, None]
    return (elements - mean).masked_fill(~mask.unsqueeze(-1), 0)


def first_slot(elements, mask):
    return elements[:, 0]


def first_of_repeated(elements, mask):
    """Right for distinct elements, wrong when the largest one repeats in the first feature."""
    keys = elements[..., 0].masked_fill(~mask, -torch.inf)
    repeated = (keys == keys.amax(dim=1, keepdim=True)).sum(dim=1) > 1
    return torch.where(repeated, keys[:, 0].masked_fill(~mask[:, 0], 0), 0).unsqueeze(-1)


def add_positions(elements, mask):
    return elements + torch.arange(elements.shape[1]).unsqueeze(-1)


def sum_with_padding(elements, mask):
    return elements.sum(dim=1)


def mean_over_slots(elements, mask):
    return total(elements, mask) / max(1, elements.shape[1])


def last_real_slot_is_n(elements, mask):
    """Assumes that padding is behind: wrong when it sits elsewhere."""
    index = (mask.sum(dim=1) - 1).clamp(min=0)
    return (
        total(elements, mask) + total(elements, mask) * mask[torch.arange(len(mask)), index, None]
    )


def clamped_to_zero(elements, mask):
    """Multiplies: right for finite padding, nan for nan."""
    return (elements * mask.unsqueeze(-1)).sum(dim=1)


def leaks_only_in_the_gradient(elements, mask):
    total_of_all = elements.sum(dim=1)
    return total(elements, mask) + total_of_all - total_of_all.detach()


def right_value_wrong_gradient(elements, mask):
    value = total(elements, mask)
    return value * elements.shape[1] - (value * (elements.shape[1] - 1)).detach()


def one_block_of_real_slots(elements, mask):
    """Right for padding in front and behind, wrong for padding in between."""
    first = mask.int().argmax(dim=1, keepdim=True) if mask.shape[1] else mask.sum(1, keepdim=True)
    slots = torch.arange(mask.shape[1])
    block = (slots >= first) & (slots < first + mask.sum(dim=1, keepdim=True)) & mask
    return total(elements, block)


def disturbed_by_large_neighbours(elements, mask):
    """Right alone and in its own batch, wrong beside sets with large numbers."""
    filled = elements.masked_fill(~mask.unsqueeze(-1), 0)
    return total(elements, mask) + (filled.abs().amax() > 50 if filled.numel() else 0)


def centred_on_the_batch(elements, mask):
    sums = total(elements, mask)
    return sums - sums.mean(dim=0)


def divided_by_the_batch_size(elements, mask):
    return total(elements, mask) / len(elements)


def mean_without_guard(elements, mask):
    return total(elements, mask) / mask.sum(dim=1, keepdim=True)


def spread_without_guard(elements, mask):
    """Finite, but the root has an infinite slope for a set of one element."""
    return centred(elements, mask).square().sum(dim=(1, 2)).sqrt()


def amax_without_guard(elements, mask):
    return elements.masked_fill(~mask.unsqueeze(-1), -1e9).amax(dim=1)


def inverted(elements, mask):
    """Reads the mask as nn.MultiheadAttention reads its key_padding_mask: True is padding."""
    return total(elements, ~mask)


def length_of_the_spread(elements, mask):
    """The norm of all differences: finite first derivatives, but at 0 no second ones."""
    return torch.linalg.vector_norm(centred(elements, mask), dim=(1, 2))


def length(elements, mask):
    return torch.linalg.vector_norm(total(elements, mask), dim=1)


class OnceDifferentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, elements):
        ctx.save_for_backward(elements)
        return elements.square()

    @staticmethod
    def backward(ctx, gradient):
        (elements,) = ctx.saved_tensors
        # another formula where a graph is wanted, and a wrong one
        return gradient * elements * (3 if torch.is_grad_enabled() else 2)


def other_gradient_with_a_graph(elements, mask):
    return OnceDifferentiable.apply(total(elements, mask))


def cut_off_without_slots(elements, mask):
    if elements.shape[1] == 0:
        return elements.new_zeros(elements.shape[0], elements.shape[2])
    return total(elements, mask)


def cut_off_without_sets(elements, mask):
    return total(elements, mask) if len(elements) else total(elements.detach(), mask)


class CutOffParameters(torch.nn.Module):
    """Gradients reach the elements of any batch, but the weights only if there is an element."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, elements, mask):
        return total(elements, mask) * (self.weight if mask.any() else 1)


class MaskBehindALayer(torch.nn.Module):
    """Right result and gradient of the elements; nan in the gradient of the weights."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2, dtype=torch.float64)

    def forward(self, elements, mask):
        return self.linear(elements).masked_fill(~mask.unsqueeze(-1), 0).sum(dim=1)


class RootOfAParameter(torch.nn.Module):
    """Twice differentiable in the elements only: the root is taken of a parameter that is 0."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, elements, mask):
        return total(elements, mask).square() + torch.linalg.vector_norm(self.weight)


def squared(elements, mask):
    """Too large for float32 at 1e30."""
    return total(elements, mask).square()


def one_over_the_square(elements, mask):
    """Guarded at 0, and too large for float32 near it."""
    sums = total(elements, mask)
    return 1 / torch.where(sums == 0, 1, sums).square()


@pytest.mark.parametrize(
    ("law", "culprit"),
    [
        (assert_permutation_invariant, first_slot),
        (assert_permutation_invariant, first_of_repeated),
        (assert_permutation_equivariant, add_positions),
        (assert_ignores_padding, sum_with_padding),
        (assert_ignores_padding, mean_over_slots),
        (assert_ignores_padding, last_real_slot_is_n),
        (assert_ignores_padding, one_block_of_real_slots),
        (assert_ignores_padding, clamped_to_zero),
        (assert_ignores_padding, right_value_wrong_gradient),
        (assert_no_gradient_to_padding, sum_with_padding),
        (assert_no_gradient_to_padding, leaks_only_in_the_gradient),
        (assert_no_gradient_to_padding, MaskBehindALayer()),
        (assert_sets_independent, centred_on_the_batch),
        (assert_sets_independent, divided_by_the_batch_size),
        (assert_sets_independent, disturbed_by_large_neighbours),
        (assert_twice_differentiable, length_of_the_spread),
        (assert_twice_differentiable, length),
        (assert_twice_differentiable, other_gradient_with_a_graph),
        (assert_twice_differentiable, RootOfAParameter()),
    ],
)
def test_law_catches_culprit(law, culprit, generator):
    with pytest.raises(AssertionError):
        law(culprit, *random_sets([3, 1, 4], features=2, generator=generator))


@pytest.mark.parametrize(
    ("culprit", "error"),
    [
        (mean_without_guard, AssertionError),
        (spread_without_guard, AssertionError),
        (amax_without_guard, IndexError),
        (sum_with_padding, AssertionError),
    ],
)
def test_small_sets_catch_culprit(culprit, error):
    with pytest.raises(error):
        assert_handles_small_sets(culprit, features=2)


@pytest.mark.parametrize(
    "culprit", [cut_off_without_slots, cut_off_without_sets, CutOffParameters()]
)
def test_connectedness_catches_culprit(culprit):
    with pytest.raises(AssertionError, match=r"backward\(\) would raise"):
        assert_empty_batches_connected(culprit, features=2)


def test_scales_catch_culprits():
    assert_handles_scales(total, features=2)
    with pytest.raises(AssertionError, match=r"1e\+30"):
        assert_handles_scales(squared, features=2)
    with pytest.raises(AssertionError, match="1e-11"):
        assert_handles_scales(one_over_the_square, features=2)


@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2], [0]])
def test_good_functions_pass(sizes, generator):
    elements, mask = random_sets(sizes, features=2, generator=generator)
    assert_obeys_laws(total, elements, mask)
    assert_obeys_laws(centred, elements, mask, equivariant=True)


def test_the_message_names_the_law(generator):
    sets = random_sets([3, 1], features=2, generator=generator)
    with pytest.raises(AssertionError, match="padding with nan changed the result"):
        assert_ignores_padding(sum_with_padding, *sets)
    with pytest.raises(AssertionError, match="alone than in the batch"):
        assert_sets_independent(centred_on_the_batch, *sets)


@pytest.mark.parametrize("sizes", [[3, 1], [4, 4]], ids=["padded", "full"])
@pytest.mark.parametrize("culprit", [sum_with_padding, inverted])
def test_leaking_padding_is_blamed_on_padding_and_not_on_the_order(culprit, sizes, generator):
    sets = random_sets(sizes, features=2, generator=generator)
    with pytest.raises(AssertionError, match=r"^padding with nan changed the result"):
        assert_obeys_laws(culprit, *sets)


def test_an_inverted_mask_is_called_by_its_name(generator):
    sets = random_sets([3, 1], features=2, generator=generator)
    with pytest.raises(AssertionError, match="is the mask inverted"):
        assert_obeys_laws(inverted, *sets)
    with pytest.raises(AssertionError) as caught:
        assert_obeys_laws(sum_with_padding, *sets)
    assert "inverted" not in str(caught.value)


@pytest.mark.parametrize(
    "law", [assert_permutation_invariant, assert_permutation_equivariant, assert_sets_independent]
)
def test_a_law_of_its_own_does_not_blame_the_order_for_nan(law, generator):
    def leaking(elements, mask):
        return elements + elements.sum(dim=1, keepdim=True)

    with pytest.raises(AssertionError, match="the result is nan"):
        law(leaking, *random_sets([3, 1], features=2, generator=generator))


class NanForEmptySets(torch.nn.Module):
    """An average whose weights are nan for an empty set; its result is not."""

    def __init__(self):
        super().__init__()
        self.inner, self.score = torch.nn.Linear(2, 4), torch.nn.Linear(2, 1)

    def forward(self, elements, mask):
        elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
        if not mask.shape[1]:
            return self.inner(elements).sum(dim=1)
        scores = self.score(elements).squeeze(-1).masked_fill(~mask, -torch.inf)
        mean = (scores.softmax(dim=1).unsqueeze(-1) * self.inner(elements)).sum(dim=1)
        return torch.where(mask.any(dim=1, keepdim=True), mean, 0.0)


def test_empty_sets_that_spoil_the_weights_are_found():
    model = NanForEmptySets().double()
    assert model(*random_sets([3, 0], features=2)).isfinite().all()
    with pytest.raises(AssertionError, match="made the gradient of a parameter nan or infinite"):
        assert_handles_small_sets(model, features=2)


def test_results_may_be_dicts_and_others_are_refused():
    def both(elements, mask):
        total = elements.masked_fill(~mask.unsqueeze(-1), 0).sum(dim=1)
        return {"sum": total, "twice": [2 * total]}

    sets = random_sets([3, 0, 2], features=2)
    assert_obeys_laws(both, *sets)
    with pytest.raises(TypeError, match=r"must return tensors, or .*, got float"):
        assert_obeys_laws(lambda elements, mask: 1.0, *sets)
