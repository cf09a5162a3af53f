import pytest
import torch
from torch import nn

from torchsets.mlp import MLP, ContextLinear, PairLinear, glorot_


def test_mlp_is_linear_layers_with_relu_between():
    model = MLP(2, 5, 3, layers=3)
    kinds = [type(part) for part in model]
    assert kinds == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    assert [part.out_features for part in model if isinstance(part, nn.Linear)] == [5, 5, 3]
    assert len(MLP(2, 5, 3, layers=1)) == 1
    assert [type(part) for part in MLP(2, 5, 3, activation=nn.Tanh)][1] is nn.Tanh
    with pytest.raises(ValueError, match="layers must be at least 1, got 0"):
        MLP(2, 5, 3, layers=0)


def test_pair_linear_equals_a_linear_layer_on_concatenated_pairs(generator):
    layer = PairLinear(3, 4).double()
    elements = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    first = elements.unsqueeze(2).expand(2, 5, 5, 3)
    second = elements.unsqueeze(1).expand(2, 5, 5, 3)
    pairs = torch.cat([first, second], dim=-1)
    torch.testing.assert_close(
        layer(elements), nn.functional.linear(pairs, layer.weight, layer.bias)
    )


def test_glorot_reaches_every_linear_layer():
    model = nn.Sequential(MLP(100, 100, 100), PairLinear(100, 100))
    assert glorot_(model) is model
    bound = (6 / 200) ** 0.5
    assert 0.95 * bound < model[0][0].weight.abs().max() <= bound
    assert model[0][2].bias.abs().max() == 0
    assert model[1].bias.abs().max() == 0
    assert model[1].weight.abs().max() <= (6 / 300) ** 0.5


def test_context_linear_equals_a_linear_layer_on_concatenations():
    torch.manual_seed(0)
    layer = ContextLinear(3, 2, 4).double()
    elements, context = torch.randn(5, 7, 3).double(), torch.randn(5, 2).double()
    joint = torch.cat([elements, context.unsqueeze(1).expand(-1, 7, -1)], dim=2)
    expected = nn.functional.linear(joint, layer.weight, layer.bias)
    torch.testing.assert_close(layer(elements, context), expected)


def test_layers_can_be_cut_off():
    mlp = MLP(2, 3, 4)
    assert isinstance(mlp[-1], nn.Linear)
    body = mlp[:-1]
    assert type(body) is nn.Sequential
    assert body[0] is mlp[0]
    assert body(torch.zeros(5, 2)).shape == (5, 3)


def test_each_set_has_its_own_context():
    elements, context = torch.zeros(5, 3, 2), torch.zeros(1, 4)
    for layer in (ContextLinear(2, 4, 3), PairLinear(2, 3, context=4)):
        with pytest.raises(ValueError, match=r"context must have shape \(B, C\) = \(5, 4\)"):
            layer(elements, context)
