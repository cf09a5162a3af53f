"""The three models of image mosaics, put together from parts, against the author's numbers.

Their order of tiles is column by column and their first cost goes from left to right; ours are
row by row, and from top to bottom.
"""

import pytest
import torch
from torch.nn.functional import cross_entropy

from torchsets.data import gather_tiles, tiles_to_image
from torchsets.encoders import TileEncoder
from torchsets.metrics import mosaic_scores
from torchsets.permutations import (
    LinearAssignment,
    PairwiseCost,
    PermutationOptimiser,
    hard_permutation,
    optimise_permutation,
)
from torchsets.resnet import ResNet

MODELS = {
    "mosaic_linear_2x2": "LinAssign",
    "mosaic_po_u_2x2": "PO-U",
    "mosaic_po_la_3x3": "PO-LA",
    "mosaic_po_u_equal_tiles_3x3": "PO-U",
}


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-10)


def load(arrays, model):
    """The author's network per tile and ordering, with their weights."""
    order = arrays["position_to_row_major"]
    convolution = arrays["param.conv_weight"]
    encoder = TileEncoder(convolution.shape[1], len(convolution)).double()
    encoder.conv.weight.data.copy_(convolution)
    encoder.conv.bias.data.copy_(arrays["param.conv_bias"])
    first = arrays["param.compare_first_weight"]
    cost = PairwiseCost(first.shape[1] // 2, len(first), outputs=2).double()
    cost.compare[0].weight.data.copy_(first)
    cost.compare[0].bias.data.copy_(arrays["param.compare_first_bias"])
    cost.compare[2].weight.data.copy_(arrays["param.compare_last_weight"].flip(0))
    linear = LinearAssignment(first.shape[1] // 2, len(order)).double()
    if "param.linear_weight" in arrays:
        linear.weight.data.copy_(arrays["param.linear_weight"][order])
    if model == "LinAssign":
        return encoder, linear
    side = round(len(order) ** 0.5)
    initial = linear if model == "PO-LA" else None
    ordering = PermutationOptimiser(cost, initial=initial, grid=(side, side)).double()
    if "param.step_size" in arrays:
        ordering.step_size.data.copy_(arrays["param.step_size"].squeeze())
    return encoder, ordering


def gradients_agree(arrays, encoder, ordering):
    close(encoder.conv.weight.grad, arrays["grad.conv_weight"])
    close(encoder.conv.bias.grad, arrays["grad.conv_bias"])
    linear = ordering if isinstance(ordering, LinearAssignment) else ordering.initial
    if linear is not None:
        close(linear.weight.grad, arrays["grad.linear_weight"][arrays["position_to_row_major"]])
    if isinstance(ordering, PermutationOptimiser):
        compare = ordering.cost.compare
        close(compare[0].weight.grad, arrays["grad.compare_first_weight"])
        close(compare[0].bias.grad, arrays["grad.compare_first_bias"])
        close(compare[2].weight.grad, arrays["grad.compare_last_weight"].flip(0))
        close(ordering.step_size.grad, arrays["grad.step_size"].squeeze())


@pytest.mark.parametrize(("name", "model"), MODELS.items(), ids=list(MODELS))
def test_explicit_models_agree_with_the_authors_numbers(name, model, golden):
    arrays = golden(name)
    encoder, ordering = load(arrays, model)
    grid = (round(arrays["x"].shape[2] ** 0.5),) * 2
    tiles = arrays["x"].transpose(1, 2).requires_grad_()
    features = encoder(tiles)
    close(features, arrays["features"])
    ordered = ordering(features, values=tiles)
    close(ordered.permutation, arrays["rm_permutation"])
    close(ordered.elements, arrays["rm_out"])
    close(tiles_to_image(ordered.elements, grid), arrays["picture"])
    loss = (ordered.elements - arrays["rm_target"]).square().mean()
    close(loss, arrays["loss"])
    loss.backward()
    close(tiles.grad, arrays["grad_x"].transpose(1, 2))
    gradients_agree(arrays, encoder, ordering)


@pytest.mark.parametrize(("name", "model"), MODELS.items(), ids=list(MODELS))
def test_hard_pictures_agree_with_the_authors_numbers(name, model, golden):
    arrays = golden(name)
    tiles = arrays["x"].transpose(1, 2)
    order = arrays["position_to_row_major"]
    positions = order[arrays["position_to_element"].argsort(dim=1)]
    encoder, ordering = load(arrays, model)
    permutation = ordering.permute(encoder(tiles))
    scores = mosaic_scores(permutation, tiles, positions)
    close(scores.correct.double().mean(), arrays["accuracy"])
    close(scores.error.mean(), arrays["hard_mse"])
    found = hard_permutation(permutation).argmax(dim=1)  # the element at each position
    grid = (round(len(order) ** 0.5),) * 2
    picture = tiles_to_image(gather_tiles(tiles, found), grid)
    close(picture, arrays["hard_picture"])


@pytest.mark.parametrize("name", ["mosaic_po_u_2x2", "mosaic_po_la_3x3"])
def test_every_step_agrees_with_the_authors_numbers(name, golden):
    arrays = golden(name)
    encoder, ordering = load(arrays, MODELS[name])
    features = encoder(arrays["x"].transpose(1, 2))
    costs = ordering.cost(features)
    close(costs, arrays["rm_costs_raw"])
    for step, expected in enumerate(arrays["soft"]):
        soft = optimise_permutation(
            costs,
            steps=step,
            step_size=ordering.step_size,
            initial=None if ordering.initial is None else ordering.initial.scores(features),
            grid=ordering.grid,
        )
        close(soft, expected[:, :, arrays["position_to_row_major"]])


def test_equal_tiles_have_equal_rows(golden):
    arrays = golden("mosaic_po_u_equal_tiles_3x3")
    encoder, ordering = load(arrays, "PO-U")
    tiles = arrays["x"].transpose(1, 2)
    blank = (tiles == tiles.flatten(2).amin()).flatten(2).all(dim=2)
    assert blank.sum(dim=1).tolist() == [5, 5, 5]
    rows = ordering.permute(encoder(tiles))[0, blank[0]]
    torch.testing.assert_close(rows, rows[:1].expand(5, -1))


def test_the_implicit_model_agrees_with_the_authors_numbers(golden):
    arrays = golden("mosaic_implicit_eval_2x2")
    encoder, ordering = load(arrays, "PO-U")
    classifier = ResNet(18, outputs=10, channels=1, width=2, stem="small").double().eval()
    weights = {
        name.removeprefix("classifier."): array
        for name, array in arrays.items()
        if name.startswith("classifier.")
    }
    classifier.load_state_dict(weights, strict=False)
    classifier.requires_grad_(False)
    tiles = arrays["x"].transpose(1, 2)
    ordered = ordering(encoder(tiles), values=tiles)
    picture = tiles_to_image(ordered.elements, (2, 2))
    close(picture, arrays["picture"])
    logits = classifier(picture)
    close(logits, arrays["logits"])
    target = arrays["target"].transpose(1, 2)[:, arrays["position_to_row_major"]]
    close((ordered.elements - target).square().mean(), arrays["soft_mse"])
    loss = cross_entropy(logits, arrays["label"])
    close(loss, arrays["loss"])
    loss.backward()
    gradients_agree(arrays, encoder, ordering)


def test_what_the_costs_look_at_agrees_with_the_authors_numbers(golden):
    arrays = golden("mosaic_analysis_2x2")
    encoder, ordering = load(arrays, "PO-U")
    tiles = arrays["x"].transpose(1, 2).requires_grad_()
    costs = ordering.cost(encoder(tiles)).flip(1)  # left to right first, as theirs
    close(costs, arrays["costs_raw"])
    order = costs.detach()[0].sum(dim=2).argsort(dim=1)
    assert torch.equal(order, arrays["order_of_first"])
    for channel in range(2):
        (gradient,) = torch.autograd.grad(
            costs[:, channel].abs().mean(dim=0).sum(), tiles, retain_graph=True
        )
        sensitivity = gradient.abs().sum(dim=0).mean(dim=(0, 1))
        close(sensitivity, arrays["sensitivity"][channel])
        for pair, (i, j) in enumerate(arrays["pairs"].tolist()):
            (gradient,) = torch.autograd.grad(costs[0, channel, i, j], tiles, retain_graph=True)
            close(gradient[0, i].mean(dim=0), arrays["gradient_first"][pair, channel])
            close(-gradient[0, j].mean(dim=0), arrays["gradient_second"][pair, channel])
