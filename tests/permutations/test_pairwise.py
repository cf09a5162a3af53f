import pytest
import torch

from torchsets.permutations import PairwiseCost, pairwise
from torchsets.testing import assert_obeys_laws, random_sets


def compare_pair_by_pair(cost, elements):
    """F for one set (N, D), from the network on concatenated pairs."""
    size = len(elements)
    rows = []
    for i in range(size):
        for j in range(size):
            forth = cost.compare(torch.cat([elements[i], elements[j]]))
            back = cost.compare(torch.cat([elements[j], elements[i]]))
            rows.append(forth - back)
    return torch.stack(rows).view(size, size, -1).movedim(-1, 0)


@pytest.mark.parametrize("outputs", [1, 2])
def test_matches_the_network_on_concatenated_pairs(outputs, generator):
    cost = PairwiseCost(3, 8, outputs=outputs).double()
    elements = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    costs = cost(elements)
    expected = torch.stack([compare_pair_by_pair(cost, one) for one in elements])
    assert costs.shape == ((2, 5, 5) if outputs == 1 else (2, outputs, 5, 5))
    torch.testing.assert_close(costs.reshape(2, outputs, 5, 5), expected)


@pytest.mark.parametrize("block", [1, 100, 250, 1 << 17], ids=lambda block: f"block-{block}")
@pytest.mark.parametrize("tiled", [1, 256], ids=["tiled", "not-tiled"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_values_and_gradients_match_the_network_on_concatenated_pairs(
    block, tiled, outputs, generator, monkeypatch
):
    monkeypatch.setattr(pairwise, "_TILED", tiled)  # how large matrices are transposed
    monkeypatch.setattr(pairwise, "_BLOCK", block)  # from single rows to several sets at a time
    cost = PairwiseCost(2, 4, outputs=outputs).double()
    elements = torch.randn(3, 5, 2, generator=generator, dtype=torch.float64).requires_grad_()
    weights = torch.randn(3, outputs, 5, 5, generator=generator, dtype=torch.float64)
    inputs = [elements, *cost.parameters()]
    slow = torch.stack([compare_pair_by_pair(cost, one) for one in elements])
    expected = torch.autograd.grad((slow * weights).sum(), inputs)
    fast = cost(elements).reshape(weights.shape)
    gradients = torch.autograd.grad((fast * weights).sum(), inputs)
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(gradients, expected)


def test_first_and_second_gradient(generator):
    cost = PairwiseCost(2, 4).double()
    elements = torch.randn(2, 3, 2, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, True, True], [True, False, True]])
    assert torch.autograd.gradcheck(lambda x: cost(x, mask), elements)
    assert torch.autograd.gradgradcheck(lambda x: cost(x, mask).sin(), elements)


def test_obeys_the_laws(generator):
    cost = PairwiseCost(2, 8).double()

    def spread(elements, mask):
        # A row of costs as a function of its element: order of columns and padding drop out.
        costs = cost(elements, mask)
        return torch.stack([costs.sin().sum(dim=2), (2 * costs).sin().sum(dim=2)], dim=2)

    elements, mask = random_sets([3, 0, 4, 1], 2, generator)
    assert_obeys_laws(spread, elements, mask, equivariant=True)


def test_padding_costs_nothing(generator):
    cost = PairwiseCost(2, 8, outputs=2).double()
    elements, mask = random_sets([2, 3], 2, generator)
    costs = cost(elements, mask)
    assert (costs[0, :, 2] == 0).all()
    assert (costs[0, :, :, 2] == 0).all()
    assert (costs[0, :, 0, 1] != 0).all()


def test_parameters_get_finite_gradients_under_nan_padding(generator):
    cost = PairwiseCost(2, 8).double()
    elements, mask = random_sets([2, 3, 0], 2, generator)
    cost(elements, mask).square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in cost.parameters())
    assert (cost.compare[2].bias.grad == 0).all()  # it cancels, and takes part all the same


def test_weights_start_as_xavier_says():
    torch.manual_seed(0)
    weight = PairwiseCost(1, 4000).compare[0].weight
    bound = (6 / (2 + 4000)) ** 0.5
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.99 * bound


def test_bfloat16_autocast_is_close(generator):
    cost = PairwiseCost(3, 8)
    elements = torch.rand(2, 5, 3, generator=generator)
    expected = cost(elements)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        costs = cost(elements)
    assert costs.dtype == torch.float32
    # the first layer runs in bfloat16, with 8 bits
    torch.testing.assert_close(costs, expected, rtol=0, atol=0.03)
    costs.square().sum().backward()
    assert torch.isfinite(cost.compare[0].weight.grad).all()


@pytest.mark.slow
def test_compiles_with_the_same_values_and_gradients(generator):
    cost = PairwiseCost(2, 4).double()
    elements = torch.randn(2, 4, 2, generator=generator, dtype=torch.float64)
    compiled = torch.compile(cost, backend="aot_eager", fullgraph=True)
    results = []
    for function in (cost, compiled):
        costs = function(elements)
        gradients = torch.autograd.grad(costs.square().sum(), cost.compare[0].weight)
        results.append((costs, *gradients))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("name", ["features", "hidden", "outputs"])
def test_rejects_bad_sizes(name):
    sizes = {"features": 2, "hidden": 4, "outputs": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        PairwiseCost(sizes["features"], sizes["hidden"], outputs=sizes["outputs"])


def test_rejects_other_features():
    with pytest.raises(ValueError, match="elements must have 2 features, got 3"):
        PairwiseCost(2, 4)(torch.zeros(1, 5, 3))


@pytest.mark.parametrize("frozen", [["0.weight", "0.bias", "2.weight", "2.bias"], ["2.weight"]])
def test_frozen_weights_have_second_gradients_at_the_elements(frozen, generator):
    cost = PairwiseCost(2, 4).double()
    for name, weight in cost.compare.named_parameters():
        weight.requires_grad_(name not in frozen)
    elements, _ = random_sets([4, 4], features=2, generator=generator)
    elements.requires_grad_()
    assert torch.autograd.gradgradcheck(cost, (elements,))
