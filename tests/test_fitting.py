import copy

import pytest
import torch
from torch import nn

from torchsets.fitting import OptimiserSteps, find_device, fit_epochs, seeded

CPU = torch.device("cpu")


def line():
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr=1.0)


def test_clipping_bounds_the_step_and_the_schedule_scales_it():
    model, optimiser = line()
    steps = OptimiserSteps(model, optimiser, steps=4, clip=0.5, schedule=lambda share: 1 - share)

    def compute(step):
        loss = 100 * model(torch.ones(1, 1)).sum()
        return loss, {"loss": loss}

    done = [step for step, _ in steps.run(compute, start=1)]
    assert done == [2, 3, 4]
    assert model.weight.item() == pytest.approx(-0.5 * (0.75 + 0.5 + 0.25), rel=1e-5)


def test_each_epoch_has_every_sample_once_and_the_mean_of_its_losses():
    model, optimiser = line()
    values, seen = torch.arange(10.0), []

    def loss(index):
        seen.append(index)
        return values[index].mean() + 0 * model.weight.sum()

    history = fit_epochs(
        model,
        optimiser,
        loss,
        10,
        epochs=3,
        batch_size=4,
        generator=torch.Generator().manual_seed(0),
    )
    assert [len(part) for part in seen] == [4, 4, 2] * 3
    orders = torch.cat(seen).view(3, 10)
    assert torch.equal(orders.sort(dim=1).values, torch.arange(10).expand(3, 10))
    assert not torch.equal(orders[0], orders[1])
    assert [one["epoch"] for one in history] == [1, 2, 3]
    assert [one["loss"] for one in history] == pytest.approx([4.5] * 3)
    assert not model.training


def test_early_stopping_keeps_the_best_weights_and_stops_in_time():
    model, optimiser = line()
    losses, weights = iter([3.0, 1.0, 2.0, 1.5, 9.0]), []

    def validate():
        assert not model.training
        assert not torch.is_grad_enabled()
        weights.append(copy.deepcopy(model.weight.detach()))
        return next(losses)

    history = fit_epochs(
        model,
        optimiser,
        lambda index: model(torch.ones(1, 1)).sum(),
        2,
        epochs=50,
        batch_size=1,
        generator=torch.Generator(),
        validate=validate,
        patience=2,
    )
    assert [one["valid_loss"] for one in history] == [3.0, 1.0, 2.0, 1.5]
    assert torch.equal(model.weight, weights[1])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_broken_loss_says_in_which_epoch_before_the_weights_break(value):
    model, optimiser = line()
    calls = iter(range(100))

    def loss(index):
        return model.weight.sum() * (value if next(calls) == 4 else 1)

    with pytest.raises(FloatingPointError, match=r"got (nan|inf|-inf) in epoch 3; lower"):
        fit_epochs(model, optimiser, loss, 4, epochs=9, batch_size=2, generator=torch.Generator())
    assert model.weight.isfinite().all()
    assert not model.training


def test_seeds_are_the_same_inside_and_leave_the_outside_alone():
    before = torch.get_rng_state()
    with seeded(3, CPU) as generator:
        first = torch.rand(2), torch.rand(2, generator=generator)
    with seeded(3, CPU) as generator:
        second = torch.rand(2), torch.rand(2, generator=generator)
    assert torch.equal(torch.stack(first), torch.stack(second))
    assert torch.equal(before, torch.get_rng_state())


def test_an_unknown_device_is_an_error():
    with pytest.raises(ValueError, match="device 'abacus' is not available"):
        find_device("abacus")
    assert find_device("cpu") == CPU


def test_the_last_step_is_looked_at_too():
    model, optimiser = line()
    optimiser.param_groups[0]["lr"] = float("inf")
    options = dict(epochs=1, batch_size=4, generator=torch.Generator())
    with pytest.raises(FloatingPointError, match="got nan in epoch 1; lower"):
        fit_epochs(model, optimiser, lambda index: model.weight.sum(), 4, **options)


def test_a_broken_validation_loss_is_told():
    model, optimiser = line()
    options = dict(epochs=3, batch_size=4, generator=torch.Generator(), patience=1)
    with pytest.raises(FloatingPointError, match="got nan in epoch 1; lower"):
        fit_epochs(
            model,
            optimiser,
            lambda index: model.weight.sum(),
            4,
            validate=lambda: float("nan"),
            **options,
        )


def test_a_device_without_numbers_is_refused():
    with pytest.raises(ValueError, match="device 'meta' is not available: it holds no numbers"):
        find_device("meta")


@pytest.mark.parametrize("name", ["count", "epochs", "batch_size"])
def test_nothing_to_train_is_an_error(name):
    model = nn.Linear(1, 1)
    numbers = {"count": 4, "epochs": 1, "batch_size": 2} | {name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        fit_epochs(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            lambda index: model(torch.ones(1, 1)).sum(),
            generator=torch.Generator(),
            **numbers,
        )
