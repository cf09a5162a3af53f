from functools import partial

import pytest
import torch

from torchsets.losses import SetPredictionLoss, chamfer_loss, hungarian_loss
from torchsets.padded import SetBatch, SetPrediction, Trajectory
from torchsets.testing import (
    assert_ignores_padding,
    assert_permutation_invariant,
    assert_twice_differentiable,
    random_sets,
)

chamfer = partial(chamfer_loss, element="huber", reduction="mean")
hungarian = partial(hungarian_loss, element="huber", reduction="mean")


def recorded(numbers):
    """The author's trajectory as a prediction."""
    elements, presence = numbers["sets"].transpose(-1, -2), numbers["masks"]
    loss = torch.zeros(len(elements) - 1, elements.shape[1])
    trajectory = Trajectory(elements, presence, loss)
    prediction = SetPrediction(elements[-1], presence[-1], trajectory)
    return prediction, numbers["target_set"].transpose(1, 2), numbers["target_mask"] > 0.5


@pytest.mark.parametrize("name", ["dspn_fs_small", "dspn_rnfs_small"])
@pytest.mark.parametrize(
    ("loss", "supervise", "key"),
    [
        (chamfer, "all", "chamfer_mean"),
        (hungarian, "all", "hungarian_mean"),
        (hungarian, "last", "hungarian_last"),
    ],
)
def test_matches_the_losses_of_dspn(golden, name, loss, supervise, key):
    numbers = golden(name)
    prediction, target, mask = recorded(numbers)
    result = SetPredictionLoss(loss, supervise=supervise)(prediction, target, mask)
    torch.testing.assert_close(result.mean(), numbers[key])


@pytest.mark.parametrize(
    ("supervise", "key"), [("last", "loss_supervised"), ("all", "loss_supervised_allsteps")]
)
def test_adds_the_representation_loss_with_its_weight(golden, supervise, key):
    numbers = golden("dspn_rnfs_small")
    prediction, target, mask = recorded(numbers)
    representation = numbers["repr_term"].expand(len(mask))
    result = SetPredictionLoss(hungarian, supervise=supervise)(
        prediction, target, mask, representation
    )
    torch.testing.assert_close(result.mean(), numbers[key])


@pytest.fixture
def prediction(generator):
    elements = torch.randn(2, 6, 3, dtype=torch.float64, generator=generator)
    return SetPrediction(elements, torch.rand(2, 6, dtype=torch.float64, generator=generator))


def test_presence_and_mask_become_the_last_feature(prediction, generator):
    target, mask = random_sets([4, 2], 3, generator)
    full = torch.zeros(2, 6, 4, dtype=torch.float64)
    for index, count in enumerate([4, 2]):
        full[index, :count, :3] = target[index, :count]
        full[index, :count, 3] = 1
    slots = torch.cat([prediction.elements, prediction.presence.unsqueeze(-1)], dim=-1)
    result = SetPredictionLoss(hungarian_loss)(prediction, target, mask)
    torch.testing.assert_close(result, hungarian_loss(slots, full))


def test_without_presence_only_real_targets_are_compared(prediction, generator):
    target, mask = random_sets([8, 2], 3, generator)
    result = SetPredictionLoss(chamfer_loss, presence=False)(prediction, target, mask)
    torch.testing.assert_close(result, chamfer_loss(prediction.elements, target, mask))


@pytest.mark.parametrize("presence", [True, False])
def test_obeys_the_laws_in_the_target(presence, prediction, generator):
    loss = SetPredictionLoss(hungarian_loss, presence=presence)
    wide = SetPrediction(
        torch.cat([prediction.elements] * 2, dim=1), torch.cat([prediction.presence] * 2, dim=1)
    )

    def of_target(target, mask):
        return loss(wide, target, mask)

    target, mask = random_sets([4, 3], 3, generator)
    assert_permutation_invariant(of_target, target, mask)
    assert_ignores_padding(of_target, target, mask)
    assert_twice_differentiable(of_target, target, mask)


def test_an_empty_target_teaches_absence(prediction):
    elements, presence = prediction.elements, prediction.presence.clone().requires_grad_()
    loss = SetPredictionLoss(hungarian_loss)(
        SetPrediction(elements * 0, presence), torch.zeros(2, 0, 3, dtype=torch.float64)
    )
    torch.testing.assert_close(loss, presence.square().sum(dim=1))


def unrolled(prediction, *, steps_have_gradients):
    start = prediction.elements.requires_grad_()
    first = start if steps_have_gradients else start.detach()
    way = torch.stack([first, start * 2])
    presence = prediction.presence.expand(2, -1, -1)
    loss = first.sum(dim=(1, 2)).unsqueeze(0)
    return SetPrediction(way[-1], presence[-1], Trajectory(way, presence, loss))


def test_an_implicit_decoder_is_supervised_at_its_last_set_only(prediction, generator):
    target, mask = random_sets([4, 2], 3, generator)
    implicit = unrolled(prediction, steps_have_gradients=False)
    with pytest.raises(ValueError, match='supervise must be "last" for an implicit decoder'):
        SetPredictionLoss(hungarian_loss)(implicit, target, mask)
    assert SetPredictionLoss(hungarian_loss, supervise="last")(implicit, target, mask).shape == (2,)


def test_an_unrolled_decoder_is_supervised_at_every_set(prediction, generator):
    target, mask = random_sets([4, 2], 3, generator)
    every = unrolled(prediction, steps_have_gradients=True)
    one_by_one = [
        SetPredictionLoss(hungarian_loss)(SetPrediction(x, p), target, mask)
        for x, p in zip(every.trajectory.elements, every.trajectory.presence, strict=True)
    ]
    result = SetPredictionLoss(hungarian_loss)(every, target, mask)
    torch.testing.assert_close(result, torch.stack(one_by_one).mean(dim=0))


def test_evaluation_without_gradients_takes_any_trajectory(prediction, generator):
    target, mask = random_sets([4, 2], 3, generator)
    with torch.no_grad():
        implicit = unrolled(prediction, steps_have_gradients=False)
        assert SetPredictionLoss(hungarian_loss)(implicit, target, mask).isfinite().all()


def test_rejects_bad_input(prediction):
    with pytest.raises(ValueError, match=r"at most as many elements .* slots, 6, got 7"):
        SetPredictionLoss(hungarian_loss)(prediction, torch.zeros(2, 7, 3))
    with pytest.raises(ValueError, match='supervise must be "all" or "last"'):
        SetPredictionLoss(hungarian_loss, supervise="first")
    with pytest.raises(
        ValueError, match=r"target must have shape .* = \(2, any, any\), got \(3, 6, 3\)"
    ):
        SetPredictionLoss(hungarian_loss)(prediction, torch.zeros(3, 6, 3))
    with pytest.raises(TypeError, match=r"target must be a tensor, got SetBatch; .*\*batch"):
        SetPredictionLoss(hungarian_loss)(prediction, SetBatch(torch.zeros(2, 6, 3), None))
    with pytest.raises(
        TypeError, match=r"prediction must be a SetPrediction, got Tensor; sets with"
    ):
        SetPredictionLoss(hungarian_loss)(prediction.elements, torch.zeros(2, 6, 3))
    with pytest.raises(ValueError, match=r"target_mask must have shape"):
        SetPredictionLoss(hungarian_loss)(prediction, torch.zeros(2, 6, 3), torch.ones(6).bool())
    with pytest.raises(ValueError, match=r"representation must have shape \(B,\) = \(2\), got"):
        SetPredictionLoss(hungarian_loss)(prediction, torch.zeros(2, 6, 3), None, torch.ones(2, 1))
