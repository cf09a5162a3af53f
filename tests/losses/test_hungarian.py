from functools import partial

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from torchsets.losses import assign, hungarian, hungarian_loss
from torchsets.losses.elements import cost_matrix
from torchsets.testing import random_sets


def with_presence(elements, presence):
    return torch.cat([elements.transpose(-1, -2), presence.unsqueeze(-1)], dim=-1)


def test_matches_the_numbers_of_dspn(golden):
    numbers = golden("loss_hungarian_dspn")
    loss = partial(hungarian_loss, element="huber", reduction="mean")
    prediction = with_presence(numbers["pred_set"], numbers["pred_mask"])
    target = with_presence(numbers["target_set"], numbers["target_mask"])
    torch.testing.assert_close(loss(prediction, target).mean(), numbers["loss"])
    torch.testing.assert_close(cost_matrix("huber", prediction, target) / 4, numbers["cost"])
    ours, theirs = (
        numbers["cost"].gather(2, columns.unsqueeze(2)).sum(dim=(1, 2))
        for columns in (assign(numbers["cost"]), numbers["assignment"])
    )
    torch.testing.assert_close(ours, theirs)  # zero-padded targets are alike, so columns may swap
    without = loss(prediction[..., :-1], target[..., :-1])
    torch.testing.assert_close(without.mean(), numbers["nomask_loss"])


def test_matches_the_gradient_of_dspn(golden):
    numbers = golden("loss_hungarian_dspn")
    names = ["pred_set", "pred_mask"]
    inputs = [numbers[name].clone().requires_grad_() for name in names]
    target = with_presence(numbers["target_set"], numbers["target_mask"])
    loss = hungarian_loss(with_presence(*inputs), target, element="huber", reduction="mean").mean()
    for name, gradient in zip(names, torch.autograd.grad(loss, inputs), strict=True):
        torch.testing.assert_close(gradient, numbers[f"grad_{name}"])


def test_matches_the_numbers_of_the_fspool_auto_encoder(golden):
    numbers = golden("loss_fspool_ae")
    prediction = numbers["pred"].clone().requires_grad_()
    target = numbers["target"].transpose(1, 2)
    loss = hungarian_loss(prediction.transpose(1, 2), target, reduction="mean").mean()
    torch.testing.assert_close(loss, numbers["hungarian"])
    loss.backward()
    torch.testing.assert_close(prediction.grad, numbers["grad_hungarian"])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_matches_scipy_set_by_set(reduction, generator):
    one, one_mask = random_sets([3, 1, 5], 2, generator)
    other, other_mask = random_sets([4, 6, 2], 2, generator)
    expected = []
    for x, y, x_mask, y_mask in zip(one, other, one_mask, other_mask, strict=True):
        cost = cost_matrix("squared", x[x_mask], y[y_mask])
        pairs = cost[linear_sum_assignment(cost)]
        expected.append(pairs.sum() if reduction == "sum" else (pairs / 2).mean())
    result = hungarian_loss(one, other, other_mask, prediction_mask=one_mask, reduction=reduction)
    torch.testing.assert_close(result, torch.stack(expected))


def test_how_often_an_element_occurs_counts():
    one, other = torch.tensor([[[1.0], [1.0], [2.0]]]), torch.tensor([[[1.0], [2.0], [2.0]]])
    assert hungarian_loss(one, other).item() == 1
    longer = torch.tensor([[[1.0], [2.0], [2.0], [2.0]]])
    assert hungarian_loss(one, longer).item() == 1


def test_steps_solved_a_few_at_a_time_agree(generator, monkeypatch):
    steps = torch.randn(7, 3, 5, 2, generator=generator)
    target, target_mask = random_sets([3, 0, 4], 2, generator, dtype=torch.float32)
    mask = torch.rand(7, 3, 5, generator=generator) < 0.7
    expected = hungarian_loss(steps, target, target_mask, prediction_mask=mask)
    monkeypatch.setattr(hungarian, "_ENTRIES", 2 * 3 * 5 * 4)
    result = hungarian_loss(steps, target, target_mask, prediction_mask=mask)
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_the_error_says_which_side_holds_invalid_numbers(bad, generator):
    one, other = torch.randn(2, 3, 4, 2, generator=generator)
    broken = one.clone()
    broken[1, 0] = bad
    broken[2, 3, 1] = bad
    message = r"must be finite at real elements, got 3 nan or inf entries in sets \[1, 2\]"
    with pytest.raises(ValueError, match=f"prediction {message}"):
        hungarian_loss(broken, other)
    with pytest.raises(ValueError, match=f"target {message}"):
        hungarian_loss(other, broken)
    with pytest.raises(ValueError, match=r"element must give finite costs"):
        hungarian_loss(one, other, element=lambda x, y: cost_matrix("squared", x, y) * bad)
