import math

import pytest
import torch

from torchsets.data import random_polygons, turned_polygons
from torchsets.lab.experiments.polygons.configs import DECODERS, AutoEncode, Decode
from torchsets.lab.experiments.polygons.models import PolygonModel, build_auto_encoder


@pytest.mark.parametrize(
    ("name", "passes"), [("fspool", True), ("fspool-zeroed", False), ("fspool-constant", False)]
)
def test_in_the_controls_the_encoded_vector_does_not_matter(name, passes, generator):
    torch.manual_seed(0)
    model = build_auto_encoder(AutoEncode(), name, 4)
    encoder = getattr(model, "auto_encoder", model)
    for bias in (part.bias for part in encoder.modules() if hasattr(part, "bias")):
        torch.nn.init.normal_(bias)
    polygons = random_polygons(2, 4, generator=generator)
    before = model(polygons)
    torch.nn.init.normal_(encoder.vector_encoder[-1].weight)
    assert torch.equal(model(polygons), before) is not passes


def test_the_enlarged_baselines_are_large_and_use_each_pooling():
    for pooling in ("fspool", "sum", "mean", "max"):
        model = build_auto_encoder(AutoEncode(), f"mlp-chamfer-{pooling}-large", 16)
        assert model.decoder[0].weight.shape == (128, 128)
        assert type(model.encoder.pool).__name__.lower().startswith(pooling)


@pytest.mark.parametrize("task", ["predict", "auto-encode"])
@pytest.mark.parametrize("name", list(DECODERS))
def test_a_polygon_turned_onto_itself_gets_the_same_prediction(name, task):
    torch.manual_seed(0)
    model = PolygonModel(Decode(latent=16), name, task, 4).double()
    angles = torch.tensor([0.2, 0.2 + math.pi / 2], dtype=torch.float64)
    starts = torch.randn(1, 4, 2, dtype=torch.float64)
    with torch.no_grad():
        first, again = model.predict(angles, starts=starts, steps=5).elements
    torch.testing.assert_close(first, again)


def test_auto_encoding_sees_the_polygon_through_the_vector_alone():
    torch.manual_seed(0)
    model = PolygonModel(Decode(latent=16), "implicit", "auto-encode", 4)
    assert model.network is None
    polygons = turned_polygons(torch.tensor([0.2]), 4)
    shuffled = model.decoder.encode(polygons[:, [2, 0, 3, 1]])
    torch.testing.assert_close(model.vector(torch.tensor([0.2])), shuffled)
