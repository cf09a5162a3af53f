import math

import pytest
import torch

from torchsets import Sets
from torchsets.data import LabelledSets
from torchsets.lab.experiments.mnist.configs import Reconstruct
from torchsets.lab.experiments.mnist.models import build_auto_encoder
from torchsets.lab.experiments.mnist.reconstruct import (
    auto_encoding_loss,
    draw_batch,
    load_sets,
)
from torchsets.losses import chamfer_loss

SMALL = {"hidden": 8, "latent": 4}


def test_an_unknown_dataset_is_refused():
    with pytest.raises(ValueError, match="dataset must be mnist, digits or a folder of idx"):
        load_sets("imagenet", "train")


def test_sets_larger_than_the_slots_are_refused(run_smoke):
    with pytest.raises(ValueError, match=r"slots must be at least 35, the largest set, got 20"):
        run_smoke("mnist-reconstruct", "slots=20", "test_sets=450")


def test_padding_is_no_part_of_the_direct_loss(generator):
    torch.manual_seed(0)
    model = build_auto_encoder(Reconstruct(slots=12, mask_feature=True, **SMALL), "fspool")
    points = Sets(torch.rand(9, 2, generator=generator), [6, 3])
    sets = LabelledSets(points, torch.tensor([0, 0]))
    both = draw_batch(sets, torch.arange(2), 0.0, True, generator)
    alone = [draw_batch(sets, torch.tensor([index]), 0.0, True, generator) for index in range(2)]
    joint, *single = (auto_encoding_loss(model, batch, slots=12) for batch in (both, *alone))
    torch.testing.assert_close(joint, torch.stack(single).mean())


@pytest.mark.parametrize("mask_feature", [False, True])
@pytest.mark.parametrize("name", ["sum-mlp", "max-lstm"])
def test_the_loss_of_the_baselines_is_the_chamfer_loss_of_zero_padded_sets(
    name, mask_feature, generator
):
    torch.manual_seed(0)
    model = build_auto_encoder(Reconstruct(slots=7, mask_feature=mask_feature, **SMALL), name)
    points = Sets(torch.rand(5, 2, generator=generator), [5])
    sets = LabelledSets(points, torch.tensor([0]))
    batch = draw_batch(sets, torch.tensor([0]), 0.0, mask_feature, generator)
    prediction = model(batch.noisy, batch.mask)
    predicted = prediction.elements
    if mask_feature:
        predicted = torch.cat([predicted, prediction.presence.unsqueeze(-1)], dim=-1)
    target = torch.zeros(1, 7, 2 + mask_feature)
    target[0, :5, :2] = points.values
    target[0, :5, 2:] = 1
    expected = chamfer_loss(predicted, target, reduction="mean").mean()
    torch.testing.assert_close(auto_encoding_loss(model, batch, slots=7), expected)


@pytest.mark.parametrize("override", ["mask_feature=True", "models=max-lstm,mean-mlp"])
def test_every_auto_encoder_trains_and_is_measured(run_smoke, cells, override):
    found = cells(run_smoke("mnist-reconstruct", override))
    table = "fspool/mnist1-masked" if override.startswith("mask") else "fspool/mnist1"
    assert {key[0] for key in found} == {table, "mnist/masked-chamfer"}
    assert all(math.isfinite(value) and value > 0 for value in found.values())


def test_other_settings_are_variants(run_smoke, cells):
    overrides = ["models=sum-mlp", "sigmas=0", "training_sets=64"]
    found = cells(run_smoke("mnist-reconstruct", *overrides))
    row = "Sum + MLP, training_sets=64"
    assert ("fspool/mnist1/variants", row, "sigma=0.00") in found
    assert not any(table == "fspool/mnist1" for table, _, _ in found)


def test_a_figure_shows_input_target_and_every_reconstruction(run_smoke):
    overrides = ["models=fspool,sum-mlp", "sigmas=0,0.05", "training_sets=32"]
    figure = run_smoke("mnist-reconstruct", *overrides).figures["reconstructions"].figure
    row = ["target", "FSPool + FSUnpool", "Sum + MLP"]
    titles = [panel.title for panel in figure.panels]
    assert titles == [
        title
        for sigma in ("0.00", "0.05")
        for _ in range(2)
        for title in (f"input, sigma={sigma}", *row)
    ]
    assert figure.columns == 4
    first, noisy = figure.panels[0], figure.panels[8]
    assert first.points == figure.panels[1].points  # no noise
    assert noisy.points != figure.panels[9].points
    assert len(figure.panels[3].points) == 48  # all slots of the baseline
