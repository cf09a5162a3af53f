import pytest
import torch
from torch.nn.functional import pad

from torchsets.permutations import (
    LinearAssignment,
    PairwiseCost,
    PermutationOptimiser,
    rank_equal,
    tie_tags,
)
from torchsets.testing import (
    assert_handles_small_sets,
    assert_ignores_padding,
    assert_no_gradient_to_padding,
    assert_permutation_invariant,
    assert_sets_independent,
    random_sets,
)

SIZES = [3, 1, 5, 0]
WIDTH = 12


def tagged(elements, mask=None):
    elements = elements if mask is None else elements.masked_fill(~mask.unsqueeze(2), 0)
    return torch.cat([elements, tie_tags(elements, mask, dtype=elements.dtype)], dim=2)


def make(initial=False, grid=None):
    torch.manual_seed(0)
    start = LinearAssignment(4, 9) if initial else None
    cost = PairwiseCost(4, 8, outputs=1 if grid is None else 2)
    model = PermutationOptimiser(cost, steps=3, initial=start, grid=grid).double()
    model.step_size.data.fill_(2.0)
    return model


@pytest.mark.parametrize("shift", [0, 2**53, -(2**62)])
def test_whole_numbers_of_any_size_are_told_apart(shift):
    elements = shift + torch.tensor([[[0], [1], [0], [2]]])
    ranks, counts = rank_equal(elements)
    assert ranks.tolist() == [[0, 0, 1, 0]]
    assert counts.tolist() == [[2, 1, 2, 1]]


def test_ranks_match_a_plain_loop(generator):
    elements = torch.randint(3, (6, 7, 2), generator=generator).double()
    mask = torch.rand(6, 7, generator=generator) < 0.7
    ranks, counts = rank_equal(elements, mask)
    for batch in range(6):
        for i in range(7):
            group = [
                j
                for j in range(7)
                if mask[batch, i]
                and mask[batch, j]
                and (elements[batch, i] == elements[batch, j]).all()
            ]
            assert counts[batch, i] == len(group)
            assert ranks[batch, i] == (group.index(i) if group else 0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float16, torch.float64])
def test_elements_of_any_dtype_and_shape_are_compared(dtype):
    tiles = (
        torch.tensor([3, 1, 3, 3], dtype=dtype).view(1, 4, 1, 1, 1).expand(1, 4, 2, 2, 2).clone()
    )
    assert rank_equal(tiles)[0].tolist() == [[0, 0, 1, 2]]
    tiles[0, 2, 1, 1, 1] += 1  # one number is enough to differ
    assert rank_equal(tiles)[1].tolist() == [[2, 1, 1, 2]]


def test_nan_and_infinity_equal_nothing():
    elements = torch.tensor([[[float("nan")], [float("nan")], [float("inf")], [float("inf")]]])
    assert rank_equal(elements)[1].tolist() == [[1, 1, 1, 1]]
    assert (tie_tags(elements) == 0).all()


def test_sets_without_equal_elements_get_no_tags(generator):
    elements, mask = random_sets(SIZES, 2, generator)
    assert (tie_tags(elements, mask) == 0).all()


@pytest.mark.parametrize("count", [2, 5, 25, 400])
def test_tags_of_equal_elements_differ_and_fill_the_square(count):
    tags = tie_tags(torch.zeros(1, count, 3))[0]
    assert (torch.pdist(tags) > 0.3 / count**0.5).all()
    assert tags.abs().max() <= 1
    assert tags.mean(dim=0).abs().max() <= 1.3 / count**0.5  # two of them lie off the centre


def test_padding_takes_no_part():
    elements = torch.zeros(1, 5, 1)
    mask = torch.tensor([[True, False, True, False, False]])
    tags = tie_tags(elements, mask)
    assert torch.equal(tags[mask], tie_tags(torch.zeros(1, 2, 1))[0])
    assert (tags[~mask] == 0).all()


@pytest.mark.parametrize("initial", [False, True], ids=["PO-U", "PO-LA"])
def test_the_ordered_set_obeys_the_laws_with_tags(initial, generator):
    model = make(initial)

    def ordered(elements, mask):
        result = model(tagged(elements, mask), mask, values=elements)
        extra = WIDTH - elements.shape[1]
        return pad(result.elements, (0, 0, 0, extra)), pad(result.mask, (0, extra))

    elements, mask = random_sets(SIZES, 2, generator)
    assert_permutation_invariant(ordered, elements, mask)  # also with equal elements
    assert_ignores_padding(ordered, elements, mask)
    assert_no_gradient_to_padding(ordered, elements, mask)
    assert_sets_independent(ordered, elements, mask)
    assert_handles_small_sets(ordered, 2)


def test_on_a_grid_too_the_picture_does_not_depend_on_the_shuffle(generator):
    model = make(grid=(3, 3))
    elements = torch.randn(2, 9, 2, generator=generator, dtype=torch.float64)
    elements[:, 3:8] = 0.5  # five equal tiles
    order = torch.rand(2, 9, generator=generator).argsort(dim=1)
    shuffled = elements.take_along_dim(order.unsqueeze(2), dim=1)
    expected = model(tagged(elements), values=elements)
    actual = model(tagged(shuffled), values=shuffled)
    torch.testing.assert_close(actual.elements, expected.elements)
    rows = expected.permutation[0, 3:8]
    assert (torch.pdist(rows) > 1e-3).all()  # equal tiles have different places now


def test_without_tags_equal_tiles_share_their_places(generator):
    model = make(grid=(3, 3))
    elements = torch.randn(1, 9, 2, generator=generator, dtype=torch.float64)
    elements[:, 3:8] = 0.5
    rows = model.permute(pad(elements, (0, 2)))[0, 3:8]
    torch.testing.assert_close(rows, rows[:1].expand(5, -1))


@pytest.mark.parametrize(
    ("elements", "mask", "message"),
    [
        (torch.zeros(3), None, r"elements must have shape \(B, N, \.\.\.\), got \(3,\)"),
        (torch.zeros(2, 3, 1), torch.ones(2, 3), "mask must be bool"),
        (torch.zeros(2, 3, 1), torch.ones(2, 4).bool(), r"mask must have shape \(2, 3\)"),
    ],
)
def test_rejects_bad_input(elements, mask, message):
    with pytest.raises(ValueError, match=message):
        tie_tags(elements, mask)


@pytest.mark.parametrize(
    "numbers",
    [
        torch.tensor([1 + 2j, 1 + 2j, 1 + 3j]),
        torch.tensor([2**63, 2**63, 2**63 + 1], dtype=torch.uint64),
    ],
    ids=["complex", "uint64"],
)
def test_numbers_that_no_float_holds_are_told_apart(numbers):
    ranks, counts = rank_equal(numbers.view(1, 3, 1))
    assert ranks.tolist() == [[0, 1, 0]]
    assert counts.tolist() == [[2, 2, 1]]
