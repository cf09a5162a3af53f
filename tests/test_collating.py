from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from torchsets import SetBatch, collate

SETS = [torch.tensor([[1.0, 2.0]]), torch.zeros(0, 2), torch.tensor([[3.0, 4.0], [5.0, 6.0]])]
OTHERS = [torch.ones(3, 1), torch.ones(2, 1), torch.ones(0, 1)]
Sample = namedtuple("Sample", ["points", "label"])


def sizes(batch):
    assert isinstance(batch, SetBatch)
    return batch.sizes.tolist()


def test_makes_batches_for_a_data_loader():
    loader = DataLoader(list(zip(SETS, [5, 6, 7], strict=True)), batch_size=2, collate_fn=collate)
    (first, labels), (second, _) = loader
    assert sizes(first) == [1, 0]
    assert labels.tolist() == [5, 6]
    assert sizes(second) == [2]
    assert sizes(collate(SETS)) == [1, 0, 2]


def test_pairs_of_sets_and_triples_are_padded_field_by_field():
    inputs, targets = collate(list(zip(SETS, OTHERS, strict=True)))
    assert (sizes(inputs), sizes(targets)) == ([1, 0, 2], [3, 2, 0])
    inputs, targets, labels = collate(list(zip(SETS, OTHERS, [1.5, 2.5, 3.5], strict=True)))
    assert (sizes(inputs), sizes(targets), labels.tolist()) == (
        [1, 0, 2],
        [3, 2, 0],
        [1.5, 2.5, 3.5],
    )


def test_dicts_and_nested_samples_keep_their_form():
    batch = collate(
        [
            {"in": one, "out": (other, {"name": "x", "id": i}), "all": [one, other, i]}
            for i, (one, other) in enumerate(zip(SETS, OTHERS, strict=True))
        ]
    )
    assert sizes(batch["in"]) == [1, 0, 2]
    other, rest = batch["out"]
    assert sizes(other) == [3, 2, 0]
    assert (rest["name"], rest["id"].tolist()) == (["x"] * 3, [0, 1, 2])
    assert isinstance(batch["all"], list)
    assert (sizes(batch["all"][0]), sizes(batch["all"][1])) == ([1, 0, 2], [3, 2, 0])
    assert isinstance(collate([OrderedDict(a=SETS[0])])["a"], SetBatch)


def test_named_tuples_stay_named():
    batch = collate([Sample(one, 1) for one in SETS])
    assert isinstance(batch, Sample)
    assert sizes(batch.points) == [1, 0, 2]


def test_arrays_and_lists_of_rows_are_sets():
    arrays = [np.ones((2, 1)), np.ones((1, 1), dtype=np.int64)]
    lists = [[], [[1, 2.5], (3, 4)]]
    first, second = collate(list(zip(arrays, lists, strict=True)))
    assert (sizes(first), sizes(second)) == ([2, 1], [0, 2])
    assert second.elements[1].tolist() == [[1, 2.5], [3, 4]]


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param([torch.zeros(4), torch.ones(4)], id="vectors"),
        pytest.param([torch.zeros(3, 4, 5), torch.ones(3, 4, 5)], id="images"),
        pytest.param([torch.zeros(4, 5).long(), torch.ones(4, 5).long()], id="integers"),
        pytest.param([np.zeros(4), np.ones(4)], id="arrays"),
        pytest.param([np.zeros((4, 4), dtype=bool), np.ones((4, 4), dtype=bool)], id="bool"),
        pytest.param([0.5, 1.5], id="numbers"),
    ],
)
def test_what_is_no_set_is_stacked_wherever_it_stands(labels):
    expected = torch.utils.data.default_collate(labels)
    batch, got = collate(list(zip(SETS[:2], labels, strict=True)))
    assert torch.equal(got, expected)
    got, batch = collate(list(zip(labels, SETS[:2], strict=True)))
    assert torch.equal(got, expected)
    assert sizes(batch) == [1, 0]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([(SETS[0], 1), SETS[1]], "a tuple of 2 fields in sample 0 and one Tensor in sample 1"),
        ([(SETS[0], 1), (SETS[0], 1, 2)], "2 fields in sample 0 and a tuple of 3 fields in sam"),
        ([{"a": 1}, {"b": 1}], "the keys 'a' in sample 0 and the keys 'b' in sample 1"),
        ([{"a": (1, 2)}, {"a": 1}], r"samples\['a'\] must all have the same form, got a tuple"),
        (
            [(SETS[0], {"y": torch.ones(1, 3)}), (SETS[0], {"y": torch.ones(1, 2)})],
            r"samples\[1\]\['y'\] cannot .* number of features, got 3 in set 0 and 2 in set 1$",
        ),
        ([(torch.ones(2), 1), (torch.ones(3), 1)], r"samples\[0\] cannot .* use x\[:, None\]"),
        (
            [(torch.ones(2, 1).long(), 1), (torch.ones(3, 1).long(), 1)],
            r"samples\[0\] cannot be put into a batch: .* or x.float\(\)",
        ),
        ([torch.ones(2)], r"set 0 must have shape \(n, D\)"),
        ([(object(),)], r"samples\[0\] cannot be put into a batch: .* found <class 'object'>"),
    ],
)
def test_mistakes_are_named(samples, message):
    with pytest.raises(ValueError, match=message):
        collate(samples)


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.float64])
def test_rows_may_hold_numbers_of_numpy(kind):
    rows = [[kind(1), kind(2)], [kind(3), kind(4)]]
    batch, _ = collate([(rows, 0), (rows[:1], 1)])
    assert batch.sizes.tolist() == [2, 1]
    same, _ = collate([(rows, 0), (rows, 1)])  # it would also be a batch of four fields
    assert same.elements.tolist() == [[[1, 2], [3, 4]]] * 2


@pytest.mark.parametrize("nothing", [[], torch.zeros(0), np.zeros(0)])
def test_empty_sets_alone_need_their_number_of_features(nothing):
    batch, _ = collate([(nothing, 0), ([[1.0]], 1)])
    assert batch.sizes.tolist() == [0, 1]
    with pytest.raises(
        ValueError, match=r"samples\[0\] are empty sets without a number of features"
    ):
        collate([(nothing, 0), (nothing, 1)])
    assert collate([(torch.zeros(0, 3), 0)])[0].elements.shape == (1, 0, 3)
