import numpy as np
import pytest
import torch

from torchsets import Sets
from torchsets.data import LabelledSets, add_noise, jitter, small_digit_sets, with_mask_feature
from torchsets.data.point_sets import images_to_sets


@pytest.fixture
def sets():
    return Sets(torch.arange(12.0).view(6, 2), [1, 0, 3, 2])


def test_selected_sets_keep_their_labels_and_the_digest_covers_both(sets):
    labelled = LabelledSets(sets, torch.tensor([4, 5, 6, 7]))
    chosen = labelled.select(torch.tensor([3, 0]))
    assert chosen.labels.tolist() == [7, 4]
    assert chosen.sets.values.tolist() == [[8, 9], [10, 11], [0, 1]]
    others = [chosen, labelled._replace(labels=torch.tensor([4, 5, 6, 8]))]
    assert len({one.digest() for one in (labelled, *others)}) == 3


def test_pictures_of_one_row_or_column_have_their_points():
    one_row = images_to_sets(np.full((1, 1, 3), 255, np.uint8), np.zeros(1), threshold=0.5)
    assert sorted(one_row.sets.values.tolist()) == [[0, 1], [0.5, 1], [1, 1]]
    one_column = images_to_sets(np.full((1, 2, 1), 255, np.uint8), np.zeros(1), threshold=0.5)
    assert sorted(one_column.sets.values.tolist()) == [[0, 0], [0, 1]]


def test_noise_is_on_real_elements_only_and_of_the_stated_scale(generator):
    sets = Sets(torch.zeros(30_000, 2), [10_000, 20_000])
    clean = sets.batch(torch.arange(2))
    noisy = add_noise(clean, 0.05, generator=generator)
    assert noisy.elements[~noisy.mask].abs().max() == 0
    assert noisy.elements[noisy.mask].std().item() == pytest.approx(0.05, rel=0.02)
    assert clean.elements.abs().max() == 0  # untouched
    assert add_noise(clean, 0.0, generator=generator) is clean


def test_the_mask_feature_is_one_at_real_elements_alone(sets):
    batch = sets.batch(torch.tensor([2, 1, 0]))
    elements, mask = with_mask_feature(batch)
    assert torch.equal(elements[..., :2], batch.elements)
    assert elements[..., 2].tolist() == [[1, 1, 1], [0, 0, 0], [1, 0, 0]]
    assert torch.equal(mask, batch.mask)


def test_jitter_is_a_small_affine_map_of_each_set(generator):
    sets = Sets(torch.rand(50, 2, generator=generator), [30, 20])
    clean = sets.batch(torch.arange(2))
    moved = jitter(clean, 0.1, generator=generator)
    assert moved.elements[~moved.mask].abs().max() == 0
    maps = []
    for before, after in zip(clean.to_list(), moved.to_list(), strict=True):
        corners = torch.cat([before, torch.ones(len(before), 1)], dim=1)
        fitted = torch.linalg.lstsq(corners, after).solution
        torch.testing.assert_close(corners @ fitted, after, atol=1e-5, rtol=0)
        assert 0 < (after - before).abs().max() < 0.5
        maps.append(fitted)
    assert not torch.allclose(*maps)


def test_the_small_digits_have_the_same_form():
    train, test = small_digit_sets("train"), small_digit_sets("test")
    assert (len(train.sets), len(test.sets)) == (1347, 450)
    for sets, labels in (train, test):
        assert (sets.values.min(), sets.values.max()) == (0, 1)
        assert sets.values.shape[1] == 2
        assert set(labels.tolist()) == set(range(10))
    with pytest.raises(ValueError, match='split must be "train" or "test"'):
        small_digit_sets("both")
