from functools import partial

import pytest
import torch

from torchsets.losses import chamfer_loss, nearest_neighbours, neighbours
from torchsets.losses.elements import cost_matrix
from torchsets.testing import random_sets


def assert_nearest(elements, others, found, element="squared"):
    """Any of several equally near ones is right, so costs are compared and not places."""
    cost = cost_matrix(element, elements.double(), others.double())
    torch.testing.assert_close(cost.gather(-1, found.unsqueeze(-1)).squeeze(-1), cost.amin(dim=-1))


@pytest.fixture(params=["blocks", "tree"])
def way(request, monkeypatch):
    monkeypatch.setattr(neighbours, "_TREE_PAIRS", 0 if request.param == "tree" else 2**60)


@pytest.mark.parametrize("element", ["squared", "huber", partial(cost_matrix, "huber")])
@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
def test_finds_the_nearest_at_any_spread(way, element, spread, generator):
    one = torch.randn(3, 40, 3, generator=generator) * spread
    other = torch.randn(3, 50, 3, generator=generator) * spread
    name = element if isinstance(element, str) else "huber"
    assert_nearest(one, other, nearest_neighbours(one, other, element=element), name)


@pytest.mark.parametrize("offset", [100.0, 1e4])
def test_is_exact_far_from_the_origin_where_cdist_is_not(way, offset, generator):
    one, other = torch.rand(2, 1, 342, 3, generator=generator) + offset
    assert_nearest(one, other, nearest_neighbours(one, other))
    with pytest.raises(AssertionError):
        assert_nearest(one, other, torch.cdist(one, other).argmin(dim=-1))


def test_padding_is_nobodys_neighbour(way, generator):
    one, one_mask = random_sets([3, 0, 5], 2, generator)
    other, other_mask = random_sets([4, 6, 0], 2, generator)
    other_mask, other = other_mask.flip(1), other.flip(1)
    found = nearest_neighbours(one, other, other_mask, mask=one_mask)
    assert found[0, :3].min() >= 2  # the first two are padding
    assert (found[~one_mask] == -1).all()
    assert (found[2] == -1).all()
    alone = nearest_neighbours(one[:1, :3], other[:1, 2:])
    assert torch.equal(found[:1, :3], alone + 2)


@pytest.mark.parametrize("element", ["squared", "huber", partial(cost_matrix, "squared")])
@pytest.mark.parametrize("large", [1e30, float("inf"), float("nan")])
def test_padding_is_nobodys_neighbour_where_distances_overflow(way, element, large):
    one = torch.tensor([[[1.0], [large], [2.0]]])
    others = torch.tensor([[[7.0], [large], [large], [7.0]]])
    mask = torch.tensor([[False, True, True, False]])
    found = nearest_neighbours(one, others, mask, element=element)
    assert ((found == 1) | (found == 2)).all()


@pytest.mark.parametrize("element", ["squared", "huber"])
def test_distances_beyond_the_largest_number_still_have_a_neighbour(way, element, generator):
    one, other = 1e200 * torch.rand(2, 1, 40, 2, generator=generator, dtype=torch.float64)
    other[:, 3] = one[:, 5]
    found = nearest_neighbours(one, other, element=element)
    assert ((found >= 0) & (found < 40)).all()
    assert found[0, 5] == 3
    assert not chamfer_loss(one, other, element=element).isnan().any()


@pytest.mark.parametrize("pairs", [1, 50, 333, 10_000])
@pytest.mark.parametrize("element", ["squared", partial(cost_matrix, "squared")])
def test_blocks_of_any_size_agree(pairs, element, generator, monkeypatch):
    one = torch.randn(5, 23, 3, generator=generator)
    other = torch.randn(5, 31, 3, generator=generator)
    mask = torch.rand(5, 31, generator=generator) < 0.8
    expected = nearest_neighbours(one, other, mask)
    for name in ("_CPU_PAIRS", "_CPU_PAIRS_WITH_THREADS"):
        monkeypatch.setattr(neighbours, name, pairs)
    monkeypatch.setattr(neighbours, "_PAIRS", 4 * pairs)
    assert torch.equal(nearest_neighbours(one, other, mask, element=element), expected)


def test_a_tree_copes_with_many_equal_points(generator):
    one = torch.rand(1, 30_000, 2, generator=generator)
    other = one.clone()
    other[:, 100:] = 0.5  # a tree of these alone would look at all of them for each query
    found = nearest_neighbours(one, other)
    assert torch.equal(found[0, :100], torch.arange(100))
    sample = slice(0, 30_000, 500)
    assert_nearest(one[:, sample], other, found[:, sample])


def test_a_tree_hands_over_what_it_refuses(way, generator):
    one, other = torch.rand(2, 1, 20, 2, generator=generator)
    one[0, 3] = float("nan")
    other[0, 4] = float("inf")
    found = nearest_neighbours(one, other)
    keep = torch.arange(20) != 3
    assert 4 not in found[0, keep]
    real = other.masked_fill(other == float("inf"), 1e9)
    assert_nearest(one[:, keep], real, found[:, keep])


def test_large_clouds_need_no_matrix_of_all_pairs(generator):
    one, other = torch.rand(2, 1, 100_000, 3, generator=generator)
    found = nearest_neighbours(one, other)  # all pairs would take 40 GB
    sample = slice(0, 100_000, 5000)
    assert_nearest(one[:, sample], other, found[:, sample])


def test_no_points_give_no_neighbour():
    assert nearest_neighbours(torch.zeros(2, 3, 1), torch.zeros(2, 0, 1)).tolist() == [[-1] * 3] * 2


def test_errors_name_its_own_arguments():
    sets = torch.zeros(1, 2, 3)
    with pytest.raises(TypeError, match="elements must be a tensor, got list"):
        nearest_neighbours([[[1.0]]], sets)
    with pytest.raises(ValueError, match=r"elements must have shape \(\*S, B, N, D\)"):
        nearest_neighbours(sets[0], sets)
    with pytest.raises(ValueError, match=r"others must have shape \(B, M, D\)"):
        nearest_neighbours(sets, sets[..., :2])
    with pytest.raises(ValueError, match="other_mask must be bool"):
        nearest_neighbours(sets, sets, sets[..., 0])
    with pytest.raises(ValueError, match=r"mask must have shape \(1, 2\) to match elements"):
        nearest_neighbours(sets, sets, mask=torch.ones(1, 3).bool())
