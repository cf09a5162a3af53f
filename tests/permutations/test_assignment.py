from itertools import permutations

import pytest
import torch

from torchsets.permutations import hard_permutation


def test_finds_the_largest_total_weight(generator):
    soft = torch.rand(10, 4, 4, generator=generator)
    best = [
        max(sum(one[i, order[i]] for i in range(4)) for order in permutations(range(4)))
        for one in soft
    ]
    hard = hard_permutation(soft)
    torch.testing.assert_close((hard * soft).sum(dim=(1, 2)), torch.stack(best))
    assert hard.sum(dim=1).tolist() == [[1.0] * 4] * 10
    assert hard.sum(dim=2).tolist() == [[1.0] * 4] * 10


def test_padding_gets_no_position(generator):
    soft = torch.full((2, 4, 4), float("nan"), dtype=torch.float64)
    soft[0, 1, :2] = torch.tensor([0.9, 0.1])
    soft[0, 3, :2] = torch.tensor([0.8, 0.2])
    mask = torch.tensor([[False, True, False, True], [False] * 4])
    expected = torch.zeros(2, 4, 4, dtype=torch.float64)
    expected[0, 1, 0] = expected[0, 3, 1] = 1
    assert torch.equal(hard_permutation(soft, mask), expected)


def test_has_no_gradient():
    assert not hard_permutation(torch.rand(1, 3, 3, requires_grad=True)).requires_grad


@pytest.mark.parametrize("shape", [(2, 0, 0), (0, 3, 3)])
def test_nothing_gives_nothing(shape):
    assert hard_permutation(torch.zeros(shape)).shape == shape


def test_rejects_bad_input():
    with pytest.raises(ValueError, match=r"soft must have shape \(B, N, N\)"):
        hard_permutation(torch.zeros(1, 3, 2))
