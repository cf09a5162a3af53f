import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchsets import SetBatch, SetPrediction, pad, unpad
from torchsets.padded import Trajectory, fill_padding, lengths_to_mask

BASE = np.arange(24.0).reshape(4, 6)
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
    whole = [torch.ones(1, 2).long(), [[1, 2]]]
    assert SetBatch.from_list(whole, dtype=torch.float64).elements.dtype == torch.float64
    with pytest.raises(ValueError, match=r"dtype must be floating point, got torch.int64"):
        SetBatch.from_list(SETS, dtype=torch.int64)
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
        (slice(None, None, -1), [2, 0, 1]),
        (np.int64(2), [2]),
        (torch.tensor(-2), [0]),
        (np.array([-1, 0]), [2, 1]),
        ([True, False, True], [1, 2]),
        ([], []),
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
        ([torch.zeros(3)], r"set 0 must have shape \(n, D\), got \(3,\); .* use x\[:, None\]"),
        ([[1.0, 2.0]], r"set 0 must have shape \(n, D\), got \(2,\); .* use x\[:, None\]"),
        ([torch.zeros(1, 2), torch.zeros(1, 2, 3)], r"set 1 must have shape \(n, D\)"),
        ([[], []], r"set 0 must have shape \(n, D\), got \(0,\)"),
        (
            [torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 3)],
            "same number of features, got 2 in set 0 and 3 in set 2",
        ),
        ([torch.zeros(1, 2).long()], "set 0 must be floating point, got torch.int64; use x.float"),
        ([torch.zeros(1, 2), torch.zeros(1, 2).double()], "same dtype, got torch.float32 in set 0"),
        ([[[1.0, 2.0], [3.0]]], "set 0 must be a tensor, an array or rows of numbers"),
        ([["ab"]], "set 0 must be a tensor, an array or rows of numbers"),
        ([BASE, BASE.astype(complex)], "set 1 must be .* rows of numbers .* ndarray of complex128"),
        ([BASE.astype(object)], "set 0 must be .* rows of numbers .* ndarray of object"),
        ([torch.zeros(1, 6), BASE.astype("datetime64[s]")], "set 1 must be .* of datetime64"),
        ([torch.zeros(1, 6).double(), BASE], "same dtype, got torch.float64 in set 0 and torch.f"),
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
        (torch.zeros(3), torch.tensor([3]), r"shape \(total, D\), .* use values\[:, None\]"),
        (torch.zeros(3, 1).int(), torch.tensor([3]), r"got torch.int32 .* use values.float\(\)"),
        (np.zeros((3, 1)), np.array([1.5, 1.5]), "sizes must be integer"),
        (np.zeros((3, 1)), [True, False, True], "sizes must be integer"),
        (torch.zeros(3, 1), torch.ones(99).long(), r"got \[1, 1, .*\.\.\."),
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


def test_an_index_beyond_the_sets_is_an_error():
    for index in (3, -4, np.int64(3), [0, 3]):
        with pytest.raises(IndexError, match="below the 3 sets, got"):
            pad(SETS).select(index)
    with pytest.raises(IndexError, match=r"one bool for each of the 3 sets, got torch.bool"):
        pad(SETS).select([True, False])
    with pytest.raises(IndexError, match="index must be an integer"):
        pad(SETS).select(1.0)


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(BASE[::-1, ::-1], id="reversed"),
        pytest.param(BASE[:1][::-1], id="one row, reversed"),
        pytest.param(BASE[::2, ::3], id="strided"),
        pytest.param(BASE.T, id="transposed"),
        pytest.param(BASE.astype(">f8"), id="big-endian"),
        pytest.param(BASE.astype(">i2"), id="big-endian integers"),
        pytest.param(BASE.astype(np.longdouble), id="long double"),
        pytest.param(BASE.astype(np.uint64), id="unsigned"),
        pytest.param(np.broadcast_to(BASE[0], (3, 6)), id="read-only"),
        pytest.param(np.broadcast_to(BASE[0].astype("f4"), (3, 6)), id="float32, read-only"),
        pytest.param(BASE.astype(np.float32)[::-1], id="float32, reversed"),
    ],
)
def test_any_array_of_numbers_is_taken_as_it_is(array):
    expected = torch.tensor([[float(x) for x in row] for row in array])
    for batch in (
        pad([array, array]),
        pad([array, expected]),
        SetBatch.from_flat(array, np.array([len(array)])),
    ):
        assert batch.elements.dtype == torch.float32
        assert torch.equal(batch.elements[0], expected)


@pytest.mark.parametrize("default", [torch.float64, torch.bfloat16])
def test_numbers_follow_the_default_dtype(default):
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        assert pad([BASE, [[1] * 6]]).elements.dtype == default
        assert SetBatch.from_flat(BASE, [1, 3]).elements.dtype == default
    finally:
        torch.set_default_dtype(before)


def test_flat_sets_may_be_arrays_and_lists():
    values = np.arange(6.0).reshape(3, 2)
    for sizes in (np.array([1, 0, 2]), np.array([2, 0, 1], dtype=">i4")[::-1], [1, 0, 2]):
        batch = SetBatch.from_flat(values, sizes)
        assert [one.tolist() for one in batch.to_list()] == [[[0, 1]], [], [[2, 3], [4, 5]]]
    assert SetBatch.from_flat(np.zeros((0, 2)), []).elements.shape == (0, 0, 2)


def test_what_is_padded_may_be_any_iterable():
    assert pad(one for one in SETS).sizes.tolist() == [1, 0, 2]
    assert pad(np.zeros((2, 3, 4))).elements.shape == (2, 3, 4)


def test_a_batch_moves_to_a_dtype_and_keeps_its_mask():
    batch = pad(SETS)
    for moved in (
        batch.to(torch.float64),
        batch.to("cpu", torch.float64),
        batch.to(device="cpu", dtype=torch.float64, non_blocking=True),
        batch.to(dtype=torch.float64),
    ):
        assert moved.elements.dtype == torch.float64
        assert moved.mask.dtype == torch.bool
        assert moved.sizes.tolist() == [1, 0, 2]
    meta = batch.to("meta", torch.float16)
    assert (meta.elements.device.type, meta.mask.device.type) == ("meta", "meta")
    assert meta.elements.dtype == torch.float16
    with pytest.raises(ValueError, match=r"dtype must be floating point, got torch.int64"):
        batch.to(torch.int64)
    with pytest.raises(TypeError, match=r"got the dtypes torch.float16 and torch.float32"):
        batch.to(torch.float16, torch.float32)


def test_a_prediction_moves_with_its_trajectory():
    way = Trajectory(torch.zeros(3, 1, 2, 4), torch.zeros(3, 1, 2), torch.zeros(2, 1))
    prediction = SetPrediction(torch.zeros(1, 2, 4), torch.zeros(1, 2), way)
    moved = prediction.to("meta", torch.float64)
    for tensor in (moved.elements, moved.presence, *moved.trajectory):
        assert (tensor.dtype, tensor.device.type) == (torch.float64, "meta")
    assert prediction.to(torch.float64)._replace(trajectory=None).to(torch.float32)[2] is None
    assert repr(prediction) == "SetPrediction(1 set of 2 slots, 4 features, 2 steps, float32, cpu)"
    short = "SetPrediction(0 sets of 1 slot, 1 feature, float64, cpu)"
    assert repr(SetPrediction(torch.zeros(0, 1, 1).double(), torch.zeros(0, 1))) == short


def test_pinning_reaches_every_tensor(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self.to("meta"))  # needs no GPU
    assert [one.device.type for one in pad(SETS).pin_memory()] == ["meta", "meta"]
    way = Trajectory(torch.zeros(2, 1, 1, 1), torch.zeros(2, 1, 1), torch.zeros(1, 1))
    pinned = SetPrediction(torch.zeros(1, 1, 1), torch.zeros(1, 1), way).pin_memory()
    assert pinned.elements.device.type == pinned.presence.device.type == "meta"
    assert [one.device.type for one in pinned.trajectory] == ["meta"] * 3


def test_padding_mask_is_what_attention_wants():
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    batch = pad([torch.randn(2, 4), torch.randn(3, 4)])
    x = fill_padding(*batch, 100.0)
    mixed = attention(x, x, x, key_padding_mask=batch.padding_mask)[0]
    alone = attention(x[:1, :2], x[:1, :2], x[:1, :2])[0]
    torch.testing.assert_close(mixed[:1, :2], alone)


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        ([torch.zeros(3, 2)], "1 set of 3 elements, 2 features"),
        ([torch.zeros(1, 1)] * 2, "2 sets of 1 element, 1 feature"),
        ([torch.zeros(0, 1), torch.zeros(1, 1)], "2 sets of 0 to 1 element, 1 feature"),
        ([torch.zeros(0, 0)], "1 set of 0 elements, 0 features"),
    ],
)
def test_repr_counts_in_english(sets, text):
    assert repr(pad(sets)) == f"SetBatch({text}, float32, cpu)"


def test_repr_of_sets_without_values():
    assert "3 sets of unknown size, 2 features" in repr(pad(SETS).to("meta"))
