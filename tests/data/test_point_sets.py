import pytest
import torch

from torchsets.data import PointSets, add_noise, jitter, small_digit_sets, with_mask_feature


@pytest.fixture
def sets():
    values = torch.arange(12.0).view(6, 2)
    return PointSets(values, torch.tensor([1, 0, 3, 2]), torch.tensor([4, 5, 6, 7]))


def test_a_batch_holds_the_chosen_sets_with_zeros_behind(sets):
    elements, mask = sets.batch(torch.tensor([2, 1, 0]))
    assert mask.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    assert elements[0].tolist() == [[2, 3], [4, 5], [6, 7]]
    assert elements[2].tolist() == [[0, 1], [0, 0], [0, 0]]


def test_a_batch_can_have_more_slots_and_no_fewer(sets):
    assert sets.batch(torch.tensor([3]), size=5).elements.shape == (1, 5, 2)
    with pytest.raises(ValueError, match="size must be at least 3, the largest set, got 2"):
        sets.batch(torch.tensor([2]), size=2)


def test_a_batch_of_no_sets_and_of_empty_sets(sets):
    assert sets.batch(torch.empty(0, dtype=torch.long)).elements.shape == (0, 0, 2)
    assert sets.batch(torch.tensor([1])).elements.shape == (1, 0, 2)


def test_selected_sets_are_sets_again(sets):
    chosen = sets.select(torch.tensor([3, 0]))
    assert chosen.labels.tolist() == [7, 4]
    assert chosen.values.tolist() == [[8, 9], [10, 11], [0, 1]]


def test_sizes_must_add_up():
    with pytest.raises(ValueError, match=r"sizes must add up to the 3 rows .* got 1 sizes with"):
        PointSets(torch.zeros(3, 2), torch.tensor([2]), torch.tensor([0]))


def test_noise_is_on_real_elements_only_and_of_the_stated_scale(generator):
    sets = PointSets(torch.zeros(30_000, 2), torch.tensor([10_000, 20_000]), torch.tensor([0, 0]))
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
    sets = PointSets(
        torch.rand(50, 2, generator=generator), torch.tensor([30, 20]), torch.tensor([0, 0])
    )
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
    assert (len(train), len(test)) == (1347, 450)
    for sets in (train, test):
        assert (sets.values.min(), sets.values.max()) == (0, 1)
        assert sets.values.shape[1] == 2
        assert set(sets.labels.tolist()) == set(range(10))
    with pytest.raises(ValueError, match='split must be "train" or "test"'):
        small_digit_sets("both")
