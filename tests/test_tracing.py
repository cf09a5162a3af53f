"""torch.jit.trace, which the older ONNX exporter uses too: nothing of the example is frozen."""

import pytest
import torch
from torch import nn

from torchsets.counting import Counter, count_by_nms
from torchsets.decoders import DSPN, FSPoolAutoEncoder, LSTMDecoder, MLPDecoder
from torchsets.encoders import (
    DeepSets,
    OrderedEncoder,
    RelationNetwork,
    mlp_encoder,
    relation_encoder,
)
from torchsets.encoders.relu import ReLU
from torchsets.mlp import MLP
from torchsets.permutations import (
    GumbelSinkhorn,
    LinearAssignment,
    PairwiseCost,
    PermutationOptimiser,
    hard_permutation,
    neural_sort,
    sinkhorn,
)
from torchsets.pooling import FSPool, FSUnpool, MaxPool, MeanPool, MinPool, SumPool

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
]

FEATURES = 3
SHAPES = [(3, 5), (2, 5), (4, 9), (1, 1), (3, 40)]


class Apply(nn.Module):
    """A function as a module; parts of it that have weights must be named."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, elements, mask=None):
        result = self.function(elements, mask, **dict(self.named_children()))
        return tuple(result) if isinstance(result, tuple) else result


def scores(elements):
    return elements @ elements.transpose(1, 2)


def unpool(elements, mask, pool, back, temperature=None):
    pooled, order = pool.pool_with_order(elements, mask, temperature=temperature)
    return back(pooled, order, mask)


def relaxed(elements, mask, pool, back):
    return unpool(elements, mask, pool, back, temperature=0.7)


def optimiser(**options):
    return PermutationOptimiser(PairwiseCost(FEATURES, hidden=8), **options)


def count(elements, mask, counter):
    corners = torch.cat([elements[..., :2], elements[..., :2] + elements[..., 1:].abs()], dim=-1)
    return counter(corners, elements[..., 0].sigmoid(), mask)


def count_distances(elements, mask, counter):
    return counter.from_distances(scores(elements).sigmoid(), elements[..., 0].sigmoid(), mask)


def modules():
    torch.manual_seed(0)
    pools = {"pool": FSPool(FEATURES), "back": FSUnpool(FEATURES)}
    return {
        "sum": SumPool(),
        "mean": MeanPool(),
        "max": MaxPool(),
        "min": MinPool(),
        "fspool": FSPool(FEATURES),
        "unpool": Apply(unpool, **pools),
        "unpool-relaxed": Apply(relaxed, **pools),
        "deep-sets": DeepSets(nn.Sequential(MLP(FEATURES, 8, 8), ReLU()), FSPool(8), MLP(8, 8, 4)),
        "relation": RelationNetwork(FEATURES, 8, nn.Linear(8, 6), FSPool(6)),
        "auto-encoder": FSPoolAutoEncoder(FEATURES, temperature=None),
        "auto-encoder-relaxed": FSPoolAutoEncoder(FEATURES),
        "pairwise-cost": PairwiseCost(FEATURES, hidden=8),
        "linear-assignment": Apply(
            lambda x, mask, linear: linear(x, mask), linear=LinearAssignment(FEATURES, 40)
        ),
        "optimiser": Apply(lambda x, mask, order: order(x, mask), order=optimiser()),
        "optimiser-linear": Apply(
            lambda x, mask, order: order(x, mask),
            order=optimiser(initial=LinearAssignment(FEATURES, 40)),
        ),
        "ordered": OrderedEncoder(optimiser(), FEATURES, 5),
        "neural-sort": Apply(lambda x, mask: neural_sort(x[..., 0], temperature=0.5, mask=mask)),
        "sinkhorn": Apply(lambda x, mask: sinkhorn(scores(x.nan_to_num()), mask=mask)),
        "gumbel": Apply(
            lambda x, mask, gumbel: gumbel(scores(x.nan_to_num()), mask), gumbel=GumbelSinkhorn()
        ),
        "counter": Apply(count, counter=Counter(4)),
        "counter-distances": Apply(count_distances, counter=Counter(4)),
    }


def inputs(shape, *, masked, generator):
    elements = torch.randn(*shape, FEATURES, generator=generator)
    if not masked:
        return (elements,)
    mask = torch.rand(shape, generator=generator) < 0.7
    return elements.masked_fill(~mask.unsqueeze(-1), float("nan")), mask


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("name", modules())
def test_a_trace_serves_every_set(name, masked, generator):
    module = modules()[name].eval()
    traced = torch.jit.trace(
        module, inputs((3, 5), masked=masked, generator=generator), check_trace=False
    )
    for shape in SHAPES:
        arguments = inputs(shape, masked=masked, generator=generator)
        torch.testing.assert_close(
            traced(*arguments), module(*arguments), rtol=1e-4, atol=1e-5, equal_nan=False
        )


@pytest.mark.parametrize("name", ["fspool", "optimiser", "counter"])
def test_a_trace_of_one_element_serves_every_set(name, generator):
    module = modules()[name].eval()
    arguments = inputs((1, 1), masked=True, generator=generator)
    traced = torch.jit.trace(module, arguments, check_trace=False)
    for shape in SHAPES:
        arguments = inputs(shape, masked=True, generator=generator)
        torch.testing.assert_close(traced(*arguments), module(*arguments), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "module",
    [mlp_encoder(3, 8, 6, slots=5, size_feature=True), relation_encoder(3, 8, 6, slots=5)],
    ids=["mlp", "relation"],
)
def test_the_encoders_of_a_dspn(module, generator):
    traced = torch.jit.trace(module, torch.randn(3, 5, 3, generator=generator), check_trace=False)
    for batch in (3, 1, 7):
        sets = torch.randn(batch, 5, 3, generator=generator)
        torch.testing.assert_close(traced(sets), module(sets))


@pytest.mark.parametrize(
    "decoder", [MLPDecoder(6, 8, slots=4, features=2), LSTMDecoder(6, 8, slots=4, features=2)]
)
def test_baselines_serve_every_batch(decoder, generator):
    class Sets(nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = decoder

        def forward(self, vector):
            return self.decoder(vector)[:2]  # a trace knows no None, the trajectory's place

    traced = torch.jit.trace(Sets(), torch.randn(3, 6, generator=generator), check_trace=False)
    for batch in (3, 1, 7):
        vector = torch.randn(batch, 6, generator=generator)
        torch.testing.assert_close(traced(vector), decoder(vector)[:2])


@pytest.mark.parametrize("record", ["trace", "export"])
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: hard_permutation(scores(x)), "hard_permutation"),
        (lambda x: count_by_nms(x, x[..., 0]), "non_maximum_suppression"),
    ],
    ids=["hard-permutation", "count-by-nms"],
)
def test_what_depends_on_values_is_refused(function, name, record, generator):
    module = Apply(lambda x, mask: function(x))
    elements = torch.rand(3, 5, 4, generator=generator)
    recorders = {
        "trace": lambda: torch.jit.trace(module, elements, check_trace=False),
        "export": lambda: torch.export.export(module, (elements,)),
    }
    with pytest.raises(RuntimeError, match=f"{name} cannot be exported or traced"):
        recorders[record]()


def test_a_gradient_cannot_be_traced(generator):
    decoder = DSPN(mlp_encoder(3, 8, 6, slots=4), slots=4, features=2)
    with pytest.raises(
        RuntimeError, match=r"torch\.jit\.trace cannot record a gradient.* use torch\.export"
    ):
        torch.jit.trace(decoder, torch.randn(3, 6, generator=generator), check_trace=False)
