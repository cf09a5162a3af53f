import pytest
import torch

from torchsets.lab.experiments.digits.auto_encode import load_sets
from torchsets.lab.experiments.digits.configs import DIGITS
from torchsets.lab.experiments.digits.models import build, make_criterion
from torchsets.losses import chamfer_loss, set_size_loss
from torchsets.padded import SetBatch

SMOKE = DIGITS.config_at("smoke")


@pytest.fixture
def sets():
    return load_sets(SMOKE, "train", 4).batch(slice(None), size=SMOKE.slots)


def make(name, **changes):
    torch.manual_seed(0)
    return build(DIGITS.config_at("smoke", **changes), name)


def test_the_thesis_loss_of_a_golden_descent_is_the_authors(golden):
    numbers = golden("loss_chamfer_dspn")
    criterion = make_criterion(SMOKE, supervise="all")
    target = numbers["target_set"].transpose(-1, -2)
    target = torch.cat([target, numbers["target_mask"].unsqueeze(-1)], dim=-1)
    prediction = torch.cat(
        [numbers["pred_set"].transpose(-1, -2), numbers["pred_mask"].unsqueeze(-1)], dim=-1
    )
    found = criterion.set_loss(prediction, target, None).mean(dim=1)
    torch.testing.assert_close(found, numbers["chamfer"])
    assert (criterion.presence, criterion.supervise) == (True, "all")


@pytest.mark.parametrize("loss", ["thesis", "size-aware"])
@pytest.mark.parametrize("name", ["unrolled", "implicit", "mlp", "lstm"])
def test_every_weight_that_is_trained_has_a_gradient(name, loss, sets):
    model = make(name, loss=loss)
    if name in ("unrolled", "implicit"):
        model.prepare(sets)
    model.loss(sets).backward()
    silent = [
        key
        for key, weight in model.named_parameters()
        if weight.requires_grad and not (weight.grad is not None and weight.grad.any())
    ]
    nothing = ["decoder.lstm.weight_ih_l0"] if name == "lstm" else []  # it has no input
    assert [key for key in silent if "weight" in key] == nothing


@pytest.mark.parametrize("name", ["unrolled", "implicit", "mlp"])
def test_the_losses_are_means_over_the_sets_on_the_way_or_of_the_last(name, sets):
    thesis, aware = make(name), make(name, loss="size-aware", size_weight=0.3)
    prediction = thesis(sets)
    elements, presence = prediction.elements, prediction.presence
    if name == "unrolled":
        elements, presence = prediction.trajectory[:2]
    slots = torch.cat([elements, presence.unsqueeze(-1)], dim=-1)
    target = torch.cat([sets.elements, sets.mask.unsqueeze(-1).float()], dim=-1)
    expected = chamfer_loss(slots, target, element="huber", reduction="mean").mean()
    torch.testing.assert_close(thesis.loss(sets), expected)
    expected += 0.3 * set_size_loss(presence, sets.sizes).mean()
    torch.testing.assert_close(aware.loss(sets), expected)


@pytest.mark.parametrize("name", ["unrolled", "mlp", "lstm"])
def test_the_order_of_the_points_does_not_matter(name, sets):
    model = make(name).double()
    sets = SetBatch(sets.elements.double(), sets.mask)
    order = torch.randperm(SMOKE.slots, generator=torch.Generator().manual_seed(0))
    turned = SetBatch(sets.elements[:, order], sets.mask[:, order])
    with torch.no_grad():
        torch.testing.assert_close(model(sets).elements, model(turned).elements)


def test_unrolled_learns_its_start_and_implicit_does_not(sets):
    assert make("unrolled").decoder.initial_elements.requires_grad
    assert not make("implicit").decoder.initial_elements.requires_grad
    assert make("implicit").decoder.momentum == 0.5
    assert make("unrolled").decoder.momentum == 0
