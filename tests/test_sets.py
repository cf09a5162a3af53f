import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from torchsets import SetBatch, Sets, collate


def draw(sizes, features=2):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, features, generator=generator) for size in sizes]


def assert_same_sets(sets, expected):
    assert len(sets) == len(expected)
    for got, wanted in zip(sets, expected, strict=True):
        assert torch.equal(got, wanted)


LISTED = draw([3, 0, 1, 4])


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    features=st.integers(0, 2),
    data=st.data(),
)
def test_picking_and_padding_agree_with_a_list(sizes, features, data):
    listed = draw(sizes, features)
    sets = Sets.from_list(listed)
    index = data.draw(st.lists(st.integers(-len(sizes), len(sizes) - 1), max_size=6))
    chosen = [listed[i] for i in index]
    assert_same_sets(sets, listed)
    assert_same_sets(sets[index], chosen)
    size = max((len(one) for one in chosen), default=0) + data.draw(st.integers(0, 2))
    batch = sets.batch(index, size=size)
    assert batch.elements.shape == (len(index), size, features)
    assert_same_sets(batch.to_list(), chosen)
    assert not batch.elements[~batch.mask].any()


@pytest.mark.parametrize(
    ("index", "places"),
    [
        (slice(1, 3), [1, 2]),
        (slice(None, None, 2), [0, 2]),
        (slice(None, None, -1), [3, 2, 1, 0]),
        (slice(9, None), []),
        (np.array([2, 0]), [2, 0]),
        (np.array([2, 0], dtype=np.uint8), [2, 0]),
        (np.array([2, 0], dtype=np.uint64), [2, 0]),
        (torch.tensor([-1]), [3]),
        ([0, 0], [0, 0]),
        (range(2), [0, 1]),
        (np.array([True, False, False, True]), [0, 3]),
        (torch.tensor([False, False, True, False]), [2]),
        ([], []),
    ],
)
def test_an_index_gives_sets_again(index, places):
    expected = [LISTED[place] for place in places]
    assert isinstance(Sets.from_list(LISTED)[index], Sets)
    assert_same_sets(Sets.from_list(LISTED)[index], expected)
    assert_same_sets(Sets.from_list(LISTED).batch(index).to_list(), expected)


@pytest.mark.parametrize("index", [3, -1, np.int64(3), torch.tensor(3)])
def test_one_number_gives_one_set(index):
    assert torch.equal(Sets.from_list(LISTED)[index], LISTED[3])
    assert Sets.from_list(LISTED).batch(index).sizes.tolist() == [4]


def test_a_small_integer_counts_from_the_end_of_many_sets():
    sets = Sets(torch.arange(300.0).unsqueeze(1), [1] * 300)
    assert sets[np.array([-1, 5], dtype=np.int8)].values.flatten().tolist() == [299.0, 5.0]


def test_padding_is_zero_even_if_the_first_row_is_not():
    sets = Sets.from_list([[[float("nan")]], [[1.0], [2.0]]])
    assert sets.batch([0, 1]).elements[0, 1].tolist() == [0.0]


def test_sets_without_any_element_can_be_padded():
    batch = Sets(torch.zeros(0, 3), [0, 0]).batch([1], size=2)
    assert batch.elements.tolist() == [[[0.0] * 3] * 2]
    assert batch.sizes.tolist() == [0]


def test_gradients_reach_the_values():
    values = torch.ones(3, 1, requires_grad=True)
    (
        Sets(values, [1, 2]).batch([1, 1]).elements.sum() + Sets(values, [1, 2])[[0]].values
    ).backward()
    assert values.grad.tolist() == [[1.0], [2.0], [2.0]]


def test_arrays_and_lists_take_the_default_dtype_and_tensors_keep_theirs():
    assert Sets(np.zeros((3, 2)), np.array([1, 2])).values.dtype == torch.float32
    assert Sets.from_list([np.zeros((3, 2), dtype=">f8")]).values.dtype == torch.float32
    assert Sets(torch.zeros(3, 2).double(), [3]).values.dtype == torch.float64
    assert Sets.from_list([[[1, 2]]], dtype=torch.float16).values.dtype == torch.float16


def test_a_large_array_is_not_copied():
    values = np.zeros((3, 2), dtype=np.float32)
    assert Sets(values, [1, 2]).values.data_ptr() == values.ctypes.data


@pytest.mark.parametrize("rows", [slice(None), slice(700, 2000)])
def test_a_memory_map_is_not_read(tmp_path, rows):
    np.save(tmp_path / "values.npy", np.arange(4000, dtype=np.float32).reshape(2000, 2))
    mapped = np.load(tmp_path / "values.npy", mmap_mode="r")[rows]
    sets = Sets(mapped, [len(mapped) - 3, 3])
    with open("/proc/self/maps") as maps:
        regions = [line.split() for line in maps if str(tmp_path) in line]
    ranges = [[int(end, 16) for end in region[0].split("-")] for region in regions]
    assert any(start <= sets.values.data_ptr() < end for start, end in ranges)
    assert np.array_equal(sets.values.numpy(), mapped)
    sets.values[0] = 7  # private to this process; in a read-only map it would end it
    assert np.load(tmp_path / "values.npy")[rows][0].tolist() != [7, 7]


def test_offsets_say_where_sets_begin():
    sets = Sets.from_offsets(np.arange(6.0).reshape(3, 2), np.array([0, 2, 2, 3]))
    assert sets.sizes.tolist() == [2, 0, 1]
    assert sets[2].tolist() == [[4.0, 5.0]]
    assert len(Sets.from_offsets(torch.zeros(0, 2), torch.tensor([0]))) == 0


def test_labels_keys_and_names_follow_the_sets():
    sets = Sets(
        torch.arange(8.0).view(4, 2), [1, 2, 1], labels=["a", "b", "c"], keys=[7, 8, 9], names="xy"
    )
    for index, places in (
        ([2, 0], [2, 0]),
        (slice(1, None), [1, 2]),
        ([True, False, True], [0, 2]),
    ):
        some = sets[index]
        assert some.labels.tolist() == ["abc"[place] for place in places]
        assert some.keys.tolist() == [[7, 8, 9][place] for place in places]
        assert some.names == ("x", "y")
    plain = Sets(torch.zeros(1, 2), [1])[[0]]
    assert (plain.labels, plain.keys, plain.names) == (None, None, None)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 1]),
        np.array([[0.5, 1.0], [0.25, 2.0]]),
        np.array([True, False]),
        ["a", "bé"],
        np.array(["x", 3], dtype=object),
        torch.tensor([1, 2]),
    ],
)
def test_labels_keys_and_names_are_saved(labels, tmp_path):
    sets = Sets(torch.zeros(3, 2), [1, 2], labels=labels, keys=["k1", "k2"], names=["x", "y"])
    sets.save(tmp_path / "sets")
    loaded = Sets.load(tmp_path / "sets")
    assert loaded.labels.tolist() == sets.labels.tolist()
    assert loaded.keys.tolist() == ["k1", "k2"]
    assert loaded.names == ("x", "y")
    assert loaded.digest() == sets.digest()


def test_labels_of_another_byte_order_are_saved(tmp_path):
    sets = Sets(torch.rand(3, 2), [1, 2], labels=np.array([7, 300], dtype=">i4"))
    sets.save(tmp_path / "sets")
    assert Sets.load(tmp_path / "sets").labels.tolist() == [7, 300]


def test_equal_sets_have_equal_digests_and_others_do_not():
    sets = Sets(torch.arange(6.0).view(3, 2), [1, 2])
    assert sets.digest() == Sets.from_list(sets.to_list()).digest()
    assert sets.digest() == Sets(sets.values.T.contiguous().T, [1, 2]).digest()
    others = [
        Sets(sets.values, [2, 1]),
        Sets(sets.values + 1, [1, 2]),
        Sets(sets.values.double(), [1, 2]),
        Sets(sets.values.view(2, 3), [1, 1]),
        Sets(sets.values.bfloat16(), [1, 2]),
        Sets(torch.zeros(0, 2), [0]),
        Sets(torch.zeros(0, 2), [0, 0]),
        Sets(torch.zeros(0, 3), [0]),
        Sets(torch.zeros(0, 2), []),
    ]
    assert len({other.digest() for other in [sets, *others]}) == 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_sets_are_saved_and_loaded_bit_for_bit(dtype, tmp_path):
    sets = Sets.from_list(LISTED, dtype=dtype)[::-1]
    sets.save(tmp_path / "some.sets")
    loaded = Sets.load(str(tmp_path / "some.sets"))
    assert loaded.digest() == sets.digest()
    assert_same_sets(loaded, sets)
    assert [path.name for path in tmp_path.iterdir()] == ["some.sets"]


def test_loaded_sets_can_replace_their_own_file(tmp_path):
    path = tmp_path / "sets"
    Sets(torch.rand(100_000, 4), [100_000]).save(path)
    loaded = Sets.load(path)
    before = loaded.digest()
    loaded[[]].save(path)  # shorter: a file cut short under its mapping would end the process
    assert loaded.digest() == before
    assert len(Sets.load(path)) == 0


def test_loading_maps_the_file_instead_of_reading_it(tmp_path):
    path = tmp_path / "sets"
    Sets(torch.rand(1000, 2), [1000]).save(path)
    loaded = Sets.load(path)
    with open("/proc/self/maps") as maps:
        assert str(path) in maps.read()
    loaded.values[0] = 7  # private to this process
    assert Sets.load(path).values[0].tolist() != [7, 7]


def test_views_and_graphs_are_saved_too(tmp_path):
    values = torch.rand(2, 6, requires_grad=True)
    sets = Sets(values.T[1:], [2, 3])
    sets.save(tmp_path / "sets")
    assert torch.equal(Sets.load(tmp_path / "sets").values, values.T[1:])


def test_what_is_no_file_of_sets_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*absent"):
        Sets.load(tmp_path / "absent")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match=r"text was not written by Sets\.save, or is damaged"):
        Sets.load(tmp_path / "text")
    Sets.from_list(LISTED).save(tmp_path / "whole")
    (tmp_path / "half").write_bytes((tmp_path / "whole").read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"half was not written by Sets\.save, or is damaged"):
        Sets.load(tmp_path / "half")


def test_a_failed_save_leaves_nothing_behind(tmp_path):
    with pytest.raises(OSError, match="absent"):
        Sets.from_list(LISTED).save(tmp_path / "absent" / "sets")
    assert list(tmp_path.iterdir()) == []


def test_sets_can_be_copied_and_pickled():
    sets = Sets.from_list(LISTED)
    for other in (copy.deepcopy(sets), pickle.loads(pickle.dumps(sets))):
        assert other.digest() == sets.digest()


def test_a_data_loader_reads_sets():
    (first, second) = DataLoader(Sets.from_list(LISTED), batch_size=2, collate_fn=collate)
    assert isinstance(first, SetBatch)
    assert_same_sets(first.to_list() + second.to_list(), LISTED)


def test_splitters_of_scikit_learn_index_sets():
    selection = pytest.importorskip("sklearn.model_selection")
    sets, labels = Sets.from_list(LISTED * 3), np.arange(12) % 4
    train, test, _, test_labels = selection.train_test_split(
        sets, labels, test_size=4, stratify=labels
    )
    assert len(train) == 8
    assert_same_sets(test, [LISTED[label] for label in test_labels])
    for train, test in selection.KFold(3).split(sets):
        assert_same_sets(sets[test], [LISTED[i % 4] for i in test])
        assert len(sets[train]) == 8


def test_repr_says_what_is_inside():
    text = "Sets(4 sets of 0 to 4 elements, 2 features, float32, cpu)"
    assert repr(Sets.from_list(LISTED)) == text


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda sets: sets[4], IndexError, "below the 4 sets, got 4"),
        (lambda sets: sets[-5], IndexError, "below the 4 sets, got -5"),
        (lambda sets: sets[[0, 9]], IndexError, r"below the 4 sets, got \[0, 9\]"),
        (lambda sets: sets[np.array([2**64 - 1], dtype=np.uint64)], IndexError, "got .18446744073"),
        (lambda sets: sets[[True, False]], IndexError, "one bool for each of the 4 sets"),
        (lambda sets: sets[0.5], IndexError, "index must be an integer"),
        (lambda sets: sets["a"], IndexError, "index must be an integer, .* got 'a'"),
        (lambda sets: sets[None], IndexError, "index must be an integer, .* got None"),
        (lambda sets: sets.batch([0, 3], size=2), ValueError, "4 elements in set 1, got 2"),
        (lambda sets: Sets(sets.values, [9]), ValueError, "add up to the 8 rows of values"),
        (lambda sets: Sets(sets.values[:, 0], [8]), ValueError, r"use values\[:, None\]"),
        (lambda sets: Sets.from_list([]), ValueError, "at least one set, got none"),
        (lambda sets: Sets.from_offsets(sets.values, [0, 9]), ValueError, "end with the 8 rows"),
        (lambda sets: Sets.from_offsets(sets.values, [1, 8]), ValueError, "begin with 0"),
        (lambda sets: Sets.from_offsets(sets.values, [0, 5, 4, 8]), ValueError, "never fall"),
        (lambda sets: Sets.from_offsets(sets.values, []), ValueError, r"shape \(S \+ 1,\)"),
        (lambda sets: Sets.from_offsets(sets.values, [0.0, 8.0]), ValueError, "must be integer"),
        (
            lambda sets: Sets(sets.values, [8], labels=[1, 2]),
            ValueError,
            r"labels must have one entry for each of the 1 sets, got shape \(2,\)",
        ),
        (
            lambda sets: Sets(sets.values, [8], keys=3),
            ValueError,
            r"keys must have one entry for each of the 1 sets, got shape \(\)",
        ),
        (lambda sets: Sets(sets.values, [8], names=["x"]), ValueError, "each of the 2 features"),
        *[
            (
                lambda sets, keys=keys: Sets(sets.values, [8], keys=keys).save("unused"),
                ValueError,
                f"keys must be numbers or text to be saved, got .*{keys.dtype.name[:8]}",
            )
            for keys in (
                np.array(["2026-01-01"], "datetime64[D]"),
                np.array(["2026-01-01"], "datetime64[ns]"),  # as a list these are whole numbers
                np.array([5], "timedelta64[ns]"),
            )
        ],
    ],
)
def test_mistakes_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call(Sets.from_list(LISTED))
