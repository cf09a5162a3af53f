import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from torchsets import SetBatch, SetPrediction, collate, pad, unpad
from torchsets.padded import fill_padding, lengths_to_mask

SETS = [torch.tensor([[1.0, 2.0]]), torch.zeros(0, 2), torch.tensor([[3.0, 4.0], [5.0, 6.0]])]


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5), features=st.integers(0, 3))
def test_padding_and_taking_apart_again_returns_the_sets(sizes, features):
    generator = torch.Generator().manual_seed(0)
    sets = [torch.randn(size, features, generator=generator) for size in sizes]
    batch = pad(sets)
    assert batch.sizes.tolist() == sizes
    for route in (
        unpad(*batch),
        batch.to_list(),
        SetBatch.from_flat(*batch.to_flat()).to_list(),
    ):
        for got, wanted in zip(route, sets, strict=True):
            assert torch.equal(got, wanted)


def test_padding_is_zero_and_masked():
    elements, mask = pad(SETS, size=3)
    assert elements.shape == (3, 3, 2)
    assert mask.tolist() == [[True, False, False], [False] * 3, [True, True, False]]
    assert elements[~mask].abs().sum() == 0


def test_tensors_keep_their_dtype_and_numbers_take_the_default():
    assert pad([torch.zeros(1, 2, dtype=torch.float64)]).elements.dtype == torch.float64
    assert pad([np.zeros((1, 2))]).elements.dtype == torch.float32
    assert pad([np.ones((2, 2), dtype=np.int64), [[1, 2]]]).elements.dtype == torch.float32
    half = SetBatch.from_list(SETS, dtype=torch.bfloat16)
    assert half.elements.dtype == torch.bfloat16


def test_an_empty_list_beside_other_sets_is_an_empty_set():
    assert pad([[], [[1.0, 2.0]]]).sizes.tolist() == [0, 1]


def test_gradients_reach_the_sets():
    sets = [one.clone().requires_grad_() for one in SETS]
    pad(sets, size=4).elements.sum().backward()
    assert sets[2].grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_repr_says_what_is_inside():
    batch = pad([torch.zeros(9, 3), torch.zeros(0, 3), torch.zeros(2, 3), torch.zeros(4, 3)])
    assert repr(batch) == "SetBatch(4 sets of 0 to 9 elements, 3 features, float32, cpu)"
    assert repr(batch.select(slice(0, 0))).startswith("SetBatch(0 sets of no elements")


@pytest.mark.parametrize(
    ("index", "sizes"),
    [
        (2, [2]),
        (-1, [2]),
        (-3, [1]),
        (slice(1, None), [0, 2]),
        (torch.tensor([2, 0]), [2, 1]),
        (torch.tensor([True, False, True]), [1, 2]),
    ],
)
def test_select_picks_sets(index, sizes):
    assert pad(SETS).select(index).sizes.tolist() == sizes


def test_a_batch_is_a_plain_tuple_for_torch():
    batch = pad(SETS)
    elements, mask = batch
    assert batch[0] is elements
    moved = torch.utils._pytree.tree_map(lambda leaf: leaf.to("cpu"), batch)
    assert isinstance(moved, SetBatch)
    assert batch.to("meta").mask.device.type == "meta"
    assert mask.dtype == torch.bool


def test_collate_makes_batches_for_a_data_loader():
    loader = DataLoader(list(zip(SETS, [5, 6, 7], strict=True)), batch_size=2, collate_fn=collate)
    (first, labels), (second, _) = loader
    assert first.sizes.tolist() == [1, 0]
    assert labels.tolist() == [5, 6]
    assert second.sizes.tolist() == [2]
    assert collate(SETS).sizes.tolist() == [1, 0, 2]


def test_a_prediction_becomes_sets_by_its_presence():
    elements = torch.arange(6.0).view(1, 3, 2)
    prediction = SetPrediction(elements, torch.tensor([[0.9, 0.5, 0.1]]))
    assert [one.tolist() for one in prediction.to_list()] == [[[0.0, 1.0], [2.0, 3.0]]]
    assert len(prediction.to_list(threshold=0.6)[0]) == 1


def test_lengths_and_filling():
    mask = lengths_to_mask(torch.tensor([2, 0]), size=3)
    assert mask.tolist() == [[True, True, False], [False] * 3]
    assert lengths_to_mask(torch.tensor([], dtype=torch.long)).shape == (0, 0)
    filled = fill_padding(torch.full((2, 3, 1), float("nan")), mask, 7.0)
    assert filled[~mask].tolist() == [[7.0]] * 4
    assert filled[mask].isnan().all()


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([], "sets must hold at least one set"),
        ([torch.zeros(3)], r"set 0 must have shape \(n, D\), got \(3,\)"),
        ([torch.zeros(1, 2), torch.zeros(1, 2, 3)], r"set 1 must have shape \(n, D\)"),
        ([[], []], r"set 0 must have shape \(n, D\), got \(0,\)"),
        (
            [torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 3)],
            "same number of features, got 2 in set 0 and 3 in set 2",
        ),
        ([torch.zeros(1, 2).long()], "set 0 must be floating point, got torch.int64"),
        ([torch.zeros(1, 2), torch.zeros(1, 2).double()], "same dtype, got torch.float32 in set 0"),
        ([[[1.0, 2.0], [3.0]]], "set 0 must be a tensor, an array or rows of numbers"),
        ([["ab"]], "set 0 must be a tensor, an array or rows of numbers"),
    ],
)
def test_bad_sets_are_named(sets, message):
    with pytest.raises(ValueError, match=message):
        pad(sets)


def test_a_size_below_the_largest_set_is_an_error():
    with pytest.raises(ValueError, match="at least the largest set, 2 elements in set 2, got 1"):
        pad(SETS, size=1)


@pytest.mark.parametrize(
    ("values", "sizes", "message"),
    [
        (torch.zeros(3), torch.tensor([3]), "values must be floating point with shape"),
        (torch.zeros(3, 1), torch.tensor([1.0, 2.0]), "sizes must be integer"),
        (torch.zeros(3, 1), torch.tensor([1, 1]), "add up to the 3 rows of values"),
        (torch.zeros(1, 1), torch.tensor([2, -1]), "sizes must be non-negative"),
    ],
)
def test_bad_flat_sets_are_named(values, sizes, message):
    with pytest.raises(ValueError, match=message):
        SetBatch.from_flat(values, sizes)


@pytest.mark.parametrize(
    ("elements", "mask", "message"),
    [
        (torch.zeros(4, 2), torch.ones(4).bool(), r"elements must have shape \(B, N, D\)"),
        (torch.zeros(1, 4, 2).long(), torch.ones(1, 4).bool(), "elements must be floating point"),
        (torch.zeros(1, 4, 2), torch.ones(1, 4), "mask must be bool with True for real"),
        (torch.zeros(2, 4, 2), torch.ones(2, 1).bool(), r"mask must have shape \(2, 4\)"),
    ],
)
def test_bad_padded_sets_are_named(elements, mask, message):
    with pytest.raises(ValueError, match=message):
        unpad(elements, mask)


def test_other_mistakes_are_named():
    with pytest.raises(IndexError, match="below the 3 sets, got 3"):
        pad(SETS).select(3)
    with pytest.raises(ValueError, match="all sets or all pairs"):
        collate([(SETS[0], 1), SETS[1]])
