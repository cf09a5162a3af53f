import torch

from torchsets.lab.benchmarks import graphs
from torchsets.pooling import fspool_flat


def test_all_variants_compute_the_same(generator):
    assert int(graphs.reddit_sizes().sum()) == 14000
    sizes = graphs.proteins_sizes()
    values = torch.randn(int(sizes.sum()), 3, generator=generator, dtype=torch.float64)
    weight = torch.randn(3, graphs.POINTS, generator=generator, dtype=torch.float64)
    expected = fspool_flat(values, sizes, weight)
    for variant in (graphs.padded_fspool, graphs.grouped_fspool, graphs.plain_fspool):
        # The straightforward implementation has its positions in float32.
        close = {"rtol": 1e-4, "atol": 1e-3} if variant is graphs.plain_fspool else {}
        torch.testing.assert_close(variant(values, sizes, weight), expected, **close)


def test_every_case_runs_one_step():
    for case in graphs.cases():
        assert next(iter(case.variants)) == "torchsets"
        case.variants["torchsets"]()()
