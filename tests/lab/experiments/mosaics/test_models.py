import pytest
import torch

from torchsets.data import gather_tiles
from torchsets.lab.experiments.mosaics.configs import DIGITS, Classify, Explicit, Source
from torchsets.lab.experiments.mosaics.models import (
    Judged,
    Mosaic,
    build_classifier,
    pair_gradients,
    sensitivity,
)

SMALL = {"dataset": "digits", "datasets": ("mnist",), "features": 4, "hidden": 6}
NAMES = ("linear", "po-u", "po-la", "po-u-tags", "po-la-tags")


def build(name, *, grid=2, side=4):
    torch.manual_seed(0)
    return Mosaic(Explicit(**SMALL), name, DIGITS, grid=grid, side=side).double()


def authors(arrays):
    """PO-U with the weights of a file, whose first cost goes from left to right."""
    kernel, first = arrays["param.conv_weight"], arrays["param.compare_first_weight"]
    config = Explicit(features=len(kernel), hidden=len(first))
    source = Source("pictures", 0, kernel.shape[1], 0, 0, 0)
    tiles = arrays["x"].transpose(1, 2)
    model = Mosaic(config, "po-u", source, grid=2, side=tiles.shape[-1]).double()
    compare = model.optimiser.cost.compare
    for parameter, name in (
        (model.encoder.conv.weight, "conv_weight"),
        (model.encoder.conv.bias, "conv_bias"),
        (compare[0].weight, "compare_first_weight"),
        (compare[0].bias, "compare_first_bias"),
    ):
        parameter.data.copy_(arrays[f"param.{name}"])
    compare[2].weight.data.copy_(arrays["param.compare_last_weight"].flip(0))
    if "param.step_size" in arrays:
        model.optimiser.step_size.data.copy_(arrays["param.step_size"].squeeze())
    return model, tiles


def test_every_step_agrees_with_the_authors_numbers(golden):
    arrays = golden("mosaic_po_u_2x2")
    model, tiles = authors(arrays)
    softs = torch.stack(model.permutations_by_step(tiles))
    expected = arrays["soft"][..., arrays["position_to_row_major"]]
    torch.testing.assert_close(softs, expected, rtol=1e-6, atol=1e-10)
    torch.testing.assert_close(model.permute(tiles), expected[-1], rtol=1e-6, atol=1e-10)


def test_costs_and_sensitivity_agree_with_the_authors_numbers(golden):
    arrays = golden("mosaic_analysis_2x2")
    model, tiles = authors(arrays)
    costs = model.costs(tiles).detach()
    torch.testing.assert_close(costs.flip(1), arrays["costs_raw"], rtol=1e-6, atol=1e-10)
    maps = sensitivity(model, tiles)  # F1, then F2, as theirs
    torch.testing.assert_close(maps, arrays["sensitivity"], rtol=1e-6, atol=1e-10)


def test_gradients_of_pairs_agree_with_the_authors_numbers(golden):
    arrays = golden("mosaic_analysis_2x2")
    model, tiles = authors(arrays)
    found = pair_gradients(model, tiles[:1])
    assert found.pairs == [tuple(pair) for pair in arrays["pairs"].tolist()]
    for actual, name in ((found.first, "gradient_first"), (found.second, "gradient_second")):
        torch.testing.assert_close(actual, arrays[name], rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_tiles_does_not_matter(name):
    model = build(name, grid=3)
    tiles = torch.rand(4, 9, 1, 4, 4, dtype=torch.float64)
    tiles[:, 5] = tiles[:, 2]
    order = torch.rand(4, 9).argsort(dim=1)
    torch.testing.assert_close(model(gather_tiles(tiles, order)), model(tiles))


@pytest.mark.parametrize("name", NAMES)
def test_only_tags_send_equal_tiles_to_different_places(name):
    model = build(name)
    tiles = torch.rand(1, 4, 1, 4, 4, dtype=torch.float64)
    tiles[:, 3] = tiles[:, 1]
    first, second = model.permute(tiles)[0, [1, 3]]
    assert torch.allclose(first, second) is not name.endswith("-tags")


def test_the_model_without_comparison_has_no_steps_to_show():
    model = build("linear")
    assert not model.compares
    with pytest.raises(TypeError, match="must be a PermutationOptimiser"):
        model.permutations_by_step(torch.rand(1, 4, 1, 4, 4, dtype=torch.float64))


@pytest.mark.parametrize("batch_statistics", [False, True])
def test_a_frozen_classifier_learns_nothing(batch_statistics):
    torch.manual_seed(0)
    config = Classify(**SMALL, width=4)
    mosaic = Mosaic(config, "po-u", DIGITS, grid=2, side=4)
    model = Judged(mosaic, build_classifier(config, DIGITS), batch_statistics=batch_statistics)
    before = {name: value.clone() for name, value in model.classifier.state_dict().items()}
    model.train()
    model(torch.rand(6, 4, 1, 4, 4)).square().sum().backward()
    assert all(weight.grad is None for weight in model.classifier.parameters())
    assert mosaic.encoder.conv.weight.grad.abs().sum() > 0
    after = model.classifier.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert bool(changed) is batch_statistics
    assert all("running" in name or "num_batches" in name for name in changed)
    model.eval()
    assert not any(part.training for part in model.modules())


def test_the_classifier_can_pool_with_fspool():
    config = Classify(**SMALL, width=4)
    plain, pooled = (build_classifier(config, DIGITS, fspool=one) for one in (False, True))
    assert plain.pool is None
    assert pooled(torch.rand(2, 1, 8, 8)).shape == (2, 10)
