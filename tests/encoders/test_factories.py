import pytest
import torch
from torch import nn

from torchsets.encoders import mlp_encoder, relation_encoder
from torchsets.encoders.relu import ReLU
from torchsets.pooling import MaxPool, SumPool
from torchsets.testing import (
    assert_empty_batches_connected,
    assert_permutation_invariant,
    assert_sets_independent,
    assert_twice_differentiable,
)

SLOTS = 5
POOLS = pytest.mark.parametrize("pool", [None, SumPool, MaxPool], ids=["fspool", "sum", "max"])


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def build(make, pool=None, **options):
    return make(3, 16, 8, slots=SLOTS, pool=pool and pool(), **options).double()


def sets(count=3):
    return torch.randn(count, SLOTS, 3, dtype=torch.float64)


@POOLS
@pytest.mark.parametrize("make", [mlp_encoder, relation_encoder])
@pytest.mark.parametrize("size_feature", [False, True])
def test_obeys_the_laws_of_full_sets(make, pool, size_feature):
    encoder = build(make, pool, size_feature=size_feature)
    mask = torch.ones(3, SLOTS, dtype=torch.bool)
    assert_permutation_invariant(lambda x, mask: encoder(x), sets(), mask)
    assert_sets_independent(lambda x, mask: encoder(x), sets(), mask)
    assert_twice_differentiable(lambda x, mask: encoder(x.nan_to_num()), sets(), mask)
    assert_empty_batches_connected(lambda x, mask: encoder(x), 3)


@POOLS
def test_elements_are_divided_by_the_slots_before_the_pooling(pool):
    encoder, x = build(mlp_encoder, pool), sets()
    expected = encoder.pool(encoder.inner(x) / SLOTS)
    torch.testing.assert_close(encoder(x), expected)


@POOLS
def test_pairs_are_divided_by_their_number_before_the_pooling(pool):
    encoder, x = build(relation_encoder, pool), sets()
    left = x.unsqueeze(2).expand(-1, -1, SLOTS, -1)
    right = x.unsqueeze(1).expand(-1, SLOTS, -1, -1)
    pairs = torch.cat([left, right], dim=-1).flatten(1, 2)
    hidden = nn.functional.linear(pairs, encoder.first.weight, encoder.first.bias).relu()
    expected = encoder.pool(encoder.inner(hidden) / SLOTS**2)
    torch.testing.assert_close(encoder(x), expected)


@pytest.mark.parametrize("make", [mlp_encoder, relation_encoder])
def test_the_sum_of_presences_can_be_the_last_feature(make):
    encoder, x = build(make, size_feature=True), sets()
    encoded = encoder(x)
    assert encoded.shape == (3, 8)
    torch.testing.assert_close(encoded[:, -1], x[..., -1].sum(dim=1) * 4 / SLOTS)
    torch.testing.assert_close(encoded[:, :-1], encoder.encoder(x))


def test_biases_start_at_zero():
    encoder = mlp_encoder(3, 16, 8, slots=SLOTS)
    assert all((layer.bias == 0).all() for layer in encoder.inner if isinstance(layer, nn.Linear))


def test_relu_and_its_gradients_are_torchs():
    x = torch.tensor([-2.0, -0.0, 0.0, 1.0, 3.0, torch.inf], dtype=torch.float64)
    cotangent = torch.randn(2, 6, dtype=torch.float64)

    def derivatives(relu):
        leaf = x.clone().requires_grad_()
        weight = cotangent[0].clone().requires_grad_()
        output = relu(leaf)
        (first,) = torch.autograd.grad((output * weight).sum(), leaf, create_graph=True)
        (second,) = torch.autograd.grad((first * cotangent[1]).sum(), weight)
        return output, first, second

    torch.testing.assert_close(derivatives(ReLU()), derivatives(torch.relu))


def test_relu_is_differentiable_thrice():
    y = torch.tensor([-1.5, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: ReLU()(x**3), y)
    relu = ReLU()
    value = relu(y**3).sum()
    for _ in range(3):
        (slope,) = torch.autograd.grad(value, y, create_graph=True)
        value = slope.sum()
    torch.testing.assert_close(slope, torch.tensor([0.0, 6.0, 6.0], dtype=torch.float64))


def test_relu_works_inside_torch_func():
    x = torch.tensor([-1.0, 2.0])
    assert torch.func.grad(lambda x: ReLU()(x).sum())(x).tolist() == [0.0, 1.0]
