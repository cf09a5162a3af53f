import pytest
import torch

from torchsets.pooling import SortPool, sort_pool, sort_pool_flat
from torchsets.testing import assert_handles_scales, assert_obeys_laws, random_sets


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_obeys_the_laws(k, sizes, generator):
    assert_obeys_laws(SortPool(k), *random_sets(sizes, features=3, generator=generator))


@pytest.mark.parametrize("k", [1, 3, 7])
def test_matches_a_plain_loop(k, generator):
    elements, mask = random_sets([3, 0, 5, 1], features=2, generator=generator)
    expected = []
    for one, real in zip(elements, mask, strict=True):
        ranked = sorted(one[real].tolist(), key=lambda element: -element[-1])[:k]
        ranked += [[0.0, 0.0]] * (k - len(ranked))
        expected.append(torch.tensor(ranked, dtype=torch.float64).flatten())
    torch.testing.assert_close(sort_pool(elements, k, mask), torch.stack(expected))
    flat = sort_pool_flat(elements[mask], mask.sum(dim=1), k)
    torch.testing.assert_close(flat, torch.stack(expected))


def test_agrees_with_pyg(generator):
    pyg_nn = pytest.importorskip(
        "torch_geometric.nn", reason="needs torch_geometric: pip install 'torchsets[graphs]'"
    )
    elements, mask = random_sets([3, 2, 5, 1], features=2, generator=generator)
    index = mask.nonzero()[:, 0]
    expected = pyg_nn.SortAggregation(3)(elements[mask], index)
    torch.testing.assert_close(SortPool(3)(elements, mask), expected)


def test_the_earlier_slot_wins_a_tie():
    elements = torch.tensor([[[1.0, 0.0], [2.0, 5.0], [3.0, 5.0], [4.0, 9.0]]])
    expected = [[4.0, 9.0, 2.0, 5.0]]
    assert sort_pool(elements, 2).tolist() == expected
    assert sort_pool_flat(elements[0], torch.tensor([4]), 2).tolist() == expected


def test_padding_stays_behind_minus_infinity():
    elements = torch.tensor([[[7.0], [-torch.inf], [7.0]]])
    mask = torch.tensor([[False, True, False]])
    assert sort_pool(elements, 2, mask).tolist() == [[-torch.inf, 0.0]]


def test_an_empty_set_gives_zeros():
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    assert sort_pool(torch.full((1, 2, 3), torch.nan), 2, nothing).tolist() == [[0.0] * 6]
    assert sort_pool(torch.zeros(2, 0, 3), 2).tolist() == [[0.0] * 6] * 2


def test_gradients_of_both_orders(generator):
    elements = torch.randn(2, 3, 2, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, False, True], [True, True, True]])
    assert torch.autograd.gradcheck(lambda x: sort_pool(x, 2, mask).pow(3), elements)
    assert torch.autograd.gradgradcheck(lambda x: sort_pool(x, 2, mask).pow(3), elements)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keeps_the_dtype_and_compiles(dtype, generator):
    elements, mask = random_sets([3, 1, 5], features=2, generator=generator, dtype=dtype)
    expected = SortPool(2)(elements, mask)
    assert expected.dtype == dtype
    compiled = torch.compile(SortPool(2), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(elements, mask), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(SortPool(2)(elements, mask), expected)
    assert_handles_scales(SortPool(2), features=3)


def test_rejects_bad_input():
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        SortPool(0)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        sort_pool(torch.zeros(1, 2, 3), 0)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        sort_pool_flat(torch.zeros(2, 3), torch.tensor([2]), 0)
    with pytest.raises(ValueError, match="mask must be bool with True for real elements"):
        sort_pool(torch.zeros(1, 4, 2), 1, torch.ones(1, 4))
