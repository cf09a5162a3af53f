import pytest
import torch
from torch import nn

from torchsets.lab.benchmarks import attention

WIDTH, HEADS = 64, 4


def copy_block(ours, plain):
    """Queries as they are, and no other output layer: then both blocks compute the same."""
    with torch.no_grad():
        nn.init.eye_(ours.query.weight)
        nn.init.zeros_(ours.query.bias)
        scaled = torch.eye(WIDTH) / HEADS**0.5  # the scale is 1 / sqrt(64) here, 1 / sqrt(16) there
        weights = [scaled, ours.key.weight, ours.value.weight]
        plain.attention.in_proj_weight.copy_(torch.cat(weights))
        biases = [torch.zeros(WIDTH), ours.key.bias, ours.value.bias]
        plain.attention.in_proj_bias.copy_(torch.cat(biases))
        nn.init.eye_(plain.attention.out_proj.weight)
        nn.init.zeros_(plain.attention.out_proj.bias)
    plain.out.load_state_dict(ours.out.state_dict())


@pytest.mark.parametrize("inducing", [None, 5])
def test_both_variants_are_the_same_blocks(inducing, generator):
    torch.manual_seed(0)
    ours, plain = attention._ours(inducing), attention.PlainSetTransformer(inducing)
    for index, layer in enumerate(ours.layers):
        if inducing is None:
            copy_block(layer.block, plain.spread[index])
        else:
            copy_block(layer.collect, plain.collect[index])
            copy_block(layer.spread, plain.spread[index])
            plain.points[index].data.copy_(layer.points.detach())
    copy_block(ours.pool.block, plain.pool)
    plain.seed.data.copy_(ours.pool.seeds.detach())
    plain.out.load_state_dict(ours.out.state_dict())
    elements = torch.randn(3, 9, WIDTH, generator=generator)
    mask = torch.arange(9) < torch.tensor([[9], [4], [1]])
    torch.testing.assert_close(ours(elements, mask), plain(elements, mask), rtol=1e-4, atol=1e-4)


def test_every_variant_runs(monkeypatch):
    monkeypatch.setattr(attention, "_MEDIUM", 6)
    monkeypatch.setattr(attention, "_LARGE", 20)
    for case in attention.cases():
        for prepare in case.variants.values():
            gradients = prepare()()
            assert all(gradient.isfinite().all() for gradient in gradients)
