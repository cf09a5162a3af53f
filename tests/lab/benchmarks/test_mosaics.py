import pytest
import torch

from torchsets.lab.benchmarks.mosaics import _Ours, _Plain, cases


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_both_variants_compute_the_same_loss(case):
    ours, plain = (prepare()() for prepare in case.variants.values())
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=0)


def test_both_variants_have_the_same_gradients():
    tiles = torch.randn(2, 9, 1, 10, 10, generator=torch.Generator().manual_seed(0))
    found = []
    for build in (_Ours, _Plain):
        torch.manual_seed(0)
        model = build()
        model.order_tiles(model.describe(tiles), tiles).square().sum().backward()
        found.append([weight.grad for weight in model.parameters()])
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5 * plain.abs().max().item())
