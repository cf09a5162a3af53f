from functools import partial

import pytest
import torch

from torchsets.losses import chamfer_loss
from torchsets.losses.elements import cost_matrix
from torchsets.testing import random_sets


def swap(elements):
    """The golden files put features before elements."""
    return elements.transpose(-1, -2)


def with_presence(elements, presence):
    return torch.cat([swap(elements), presence.unsqueeze(-1)], dim=-1)


def test_matches_the_numbers_of_dspn_at_every_step(golden):
    numbers = golden("loss_chamfer_dspn")
    loss = partial(chamfer_loss, element="huber", reduction="mean")
    prediction = with_presence(numbers["pred_set"], numbers["pred_mask"])
    target = with_presence(numbers["target_set"], numbers["target_mask"])
    torch.testing.assert_close(loss(prediction, target).mean(dim=1), numbers["chamfer"])
    without = loss(swap(numbers["pred_set"]), swap(numbers["target_set"]))
    torch.testing.assert_close(without.mean(dim=1), numbers["nomask_chamfer"])


def test_matches_the_gradient_of_dspn(golden):
    numbers = golden("loss_chamfer_dspn")
    names = ["pred_set", "pred_mask"]
    inputs = [numbers[name].clone().requires_grad_() for name in names]
    target = with_presence(numbers["target_set"], numbers["target_mask"])
    loss = chamfer_loss(with_presence(*inputs), target, element="huber", reduction="mean")
    gradients = torch.autograd.grad((loss.mean(dim=1) * numbers["cot"]).sum(), inputs)
    for name, gradient in zip(names, gradients, strict=True):
        torch.testing.assert_close(gradient, numbers[f"grad_{name}"])


def test_matches_the_numbers_of_the_fspool_auto_encoder(golden):
    numbers = golden("loss_fspool_ae")
    prediction = numbers["pred"].clone().requires_grad_()
    loss = chamfer_loss(swap(prediction), swap(numbers["target"]), reduction="mean").mean()
    torch.testing.assert_close(loss, numbers["chamfer"])
    loss.backward()
    torch.testing.assert_close(prediction.grad, numbers["grad_chamfer"])


@pytest.mark.parametrize("element", ["squared", "huber", partial(cost_matrix, "huber")])
def test_matches_a_plain_loop(element, generator):
    one, one_mask = random_sets([3, 1, 5], 2, generator)
    other, other_mask = random_sets([4, 6, 2], 2, generator)
    expected = []
    for x, y, x_mask, y_mask in zip(one * 2, other, one_mask, other_mask, strict=True):
        cost = cost_matrix("squared" if element == "squared" else "huber", x[x_mask], y[y_mask])
        expected.append(cost.amin(dim=1).sum() + cost.amin(dim=0).sum())
    result = chamfer_loss(one * 2, other, other_mask, prediction_mask=one_mask, element=element)
    torch.testing.assert_close(result, torch.stack(expected))


def test_the_mean_counts_real_elements_of_each_side(generator):
    one, one_mask = random_sets([3, 1], 2, generator)
    other, other_mask = random_sets([4, 6], 2, generator)
    loss = chamfer_loss(one, other, other_mask, prediction_mask=one_mask, reduction="mean")
    cost = cost_matrix("squared", one[0, :3], other[0, :4]) / 2
    torch.testing.assert_close(loss[0], cost.amin(dim=1).mean() + cost.amin(dim=0).mean())


def test_a_callable_is_not_divided_by_the_features(generator):
    one, other = torch.randn(2, 3, 5, 2, generator=generator)
    by_name = chamfer_loss(one, other, reduction="mean")
    by_call = chamfer_loss(one, other, element=partial(cost_matrix, "squared"), reduction="mean")
    torch.testing.assert_close(by_call, by_name * 2)


def test_a_callable_gets_the_prediction_first_in_both_directions(generator):
    def lopsided(left, right):
        difference = left.unsqueeze(-2) - right.unsqueeze(-3)
        return (5 * difference.relu() + (-difference).relu()).sum(dim=-1)

    one, other = torch.randn(2, 3, 7, 2, generator=generator)
    cost = lopsided(one, other)
    expected = cost.amin(dim=2).sum(dim=1) + cost.amin(dim=1).sum(dim=1)
    torch.testing.assert_close(chamfer_loss(one, other, element=lopsided), expected)


def test_how_often_an_element_occurs_does_not_count():
    one = torch.tensor([[[1.0], [1.0], [2.0]]])
    assert chamfer_loss(one, torch.tensor([[[1.0], [2.0], [2.0], [2.0]]])).item() == 0


@pytest.mark.parametrize("offset", [0.0, 100.0, 1e4])
@pytest.mark.parametrize("element", ["squared", "huber"])
def test_is_exact_far_from_the_origin(offset, element, generator):
    one, other = torch.rand(2, 4, 342, 3, generator=generator) + offset
    cost = cost_matrix(element, one.double(), other.double())
    expected = cost.amin(dim=2).sum(dim=1) + cost.amin(dim=1).sum(dim=1)
    result = chamfer_loss(one, other, element=element).double()
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=0)  # float32 sums


def test_the_gradient_keeps_no_matrix_of_all_pairs(generator):
    one = torch.rand(2, 300, 2, generator=generator).requires_grad_()
    other = torch.rand(2, 300, 2, generator=generator)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(x.numel()) or x, lambda x: x
    ):
        chamfer_loss(one, other, element="huber")
    assert kept
    assert max(kept) <= 2 * 300 * 2


def test_nan_in_a_real_element_is_seen_in_its_set_only(generator):
    one, other = torch.rand(2, 3, 5, 2, generator=generator)
    one[1, 2] = float("nan")
    assert chamfer_loss(one, other).isnan().tolist() == [False, True, False]


def test_elements_without_features_are_all_alike():
    nothing = torch.zeros(2, 3, 0)
    assert chamfer_loss(nothing, nothing, reduction="mean").tolist() == [0.0, 0.0]


def absolute(left, right):
    return (left.unsqueeze(-2) - right.unsqueeze(-3)).abs().sum(dim=-1)


@pytest.mark.parametrize("element", ["squared", "huber", absolute])
def test_works_inside_transforms_of_torch_func(element, generator):
    prediction, prediction_mask = random_sets([3, 4, 0], 3, generator)
    target, target_mask = random_sets([4, 2, 1], 3, generator)

    def loss(one, other):
        masks = {"target_mask": target_mask, "prediction_mask": prediction_mask}
        return chamfer_loss(one, other, **masks, element=element)

    tracked = prediction.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(tracked, target).sum(), tracked)
    functional = torch.func.grad(lambda x: loss(x, target).sum())(prediction)
    torch.testing.assert_close(functional, expected)
    steps = torch.stack([prediction, prediction + 1])
    mapped = torch.func.vmap(loss, in_dims=(0, None))(steps, target)
    torch.testing.assert_close(mapped, torch.stack([loss(x, target) for x in steps]))
    targets = torch.stack([target, target - 1])
    mapped = torch.func.vmap(loss, in_dims=(None, 0))(prediction, targets)
    torch.testing.assert_close(mapped, torch.stack([loss(prediction, y) for y in targets]))
