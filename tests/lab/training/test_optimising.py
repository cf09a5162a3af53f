import torch
from torch import nn

from torchsets.lab.training import adam, late_decay


def test_only_weights_that_are_trained_are_optimised():
    model = nn.Linear(2, 3)
    model.bias.requires_grad_(False)
    (group,) = adam(model, 0.1).param_groups
    assert group["params"] == [model.weight]
    assert group["lr"] == 0.1


def test_gradients_that_lack_a_step_size_move_the_weights_all_the_same():
    moved = []
    for implicit in (False, True):
        model = nn.Linear(1, 1, bias=False)
        before = model.weight.item()
        model.weight.grad = torch.full((1, 1), 1e-10)
        adam(model, 0.1, implicit=implicit).step()
        moved.append(abs(model.weight.item() - before))
    assert moved[0] < 0.01
    assert moved[1] > 0.09


def test_the_rate_stays_and_then_decays_or_stays_for_ever():
    assert [late_decay(0.5)(share) for share in (0.2, 0.5, 0.75)] == [1.0, 1.0, 0.5]
    assert late_decay(1.0) is None


def test_parts_of_a_model_may_have_another_rate():
    model = nn.ModuleDict({"slow": nn.Linear(2, 3), "fast": nn.Linear(3, 2)})
    optimiser = adam(model, 0.1, rates={"slow": 0.5})
    rates = {weight: group["lr"] for group in optimiser.param_groups for weight in group["params"]}
    assert [rates[weight] for weight in model.parameters()] == [0.05, 0.05, 0.1, 0.1]
