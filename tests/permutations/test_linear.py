import pytest
import torch

from torchsets.permutations import LinearAssignment, sinkhorn
from torchsets.testing import random_sets


def test_is_sinkhorn_of_a_linear_map(generator):
    model = LinearAssignment(3, 4).double()
    elements = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    expected = sinkhorn(torch.einsum("bid,kd->bik", elements, model.weight))
    ordered = model(elements)
    torch.testing.assert_close(ordered.permutation, expected)
    torch.testing.assert_close(ordered.elements, torch.einsum("bik,bid->bkd", expected, elements))
    assert ordered.mask.all()


def test_smaller_and_padded_sets_use_the_first_positions(generator):
    model = LinearAssignment(2, 4).double()
    elements, mask = random_sets([3, 2], 2, generator)
    bare = model(elements[:1, :3])
    padded = torch.nn.functional.pad(elements, (0, 0, 2, 2), value=float("nan"))  # 7 slots
    padded_mask = torch.nn.functional.pad(mask, (2, 2))
    ordered = model(padded, padded_mask)
    torch.testing.assert_close(ordered.elements[0, :3], bare.elements[0])
    assert (ordered.elements[~ordered.mask] == 0).all()
    ordered.elements.sum().backward()
    assert torch.isfinite(model.weight.grad).all()


@pytest.mark.parametrize("mask", [None, torch.ones(1, 5).bool()])
def test_rejects_more_elements_than_positions(mask):
    with pytest.raises(ValueError, match=r"elements must hold at most 4 per set.* got 5"):
        LinearAssignment(2, 4)(torch.zeros(1, 5, 2), mask)


def test_clipped_scores_stay_within_the_limit_and_pass_no_gradient(generator):
    free, clipped = LinearAssignment(2, 4), LinearAssignment(2, 4, clip=1.0)
    clipped.load_state_dict(free.state_dict())
    elements = 3 * torch.randn(5, 4, 2, generator=generator)
    scores = free.scores(elements)
    assert scores.abs().max() > 1
    assert torch.equal(clipped.scores(elements), scores.clamp(-1, 1))
    outside = torch.where(scores.abs() > 1, clipped.scores(elements), 0).sum()
    assert (torch.autograd.grad(outside, clipped.weight)[0] == 0).all()


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan")])
def test_rejects_a_limit_that_is_not_positive(clip):
    with pytest.raises(ValueError, match="clip must be positive"):
        LinearAssignment(2, 4, clip=clip)
