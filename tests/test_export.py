"""Programs from torch.jit.trace, torch.export and both ONNX exporters freeze nothing.

A program is made from one example and compared with the module at other batch and set sizes.
"""

import io

import pytest
import torch
from torch import nn

from torchsets import SetPrediction
from torchsets.counting import Counter, count_by_nms
from torchsets.decoders import (
    DSPN,
    FSPoolAutoEncoder,
    LSTMDecoder,
    MLPDecoder,
    QueryDecoder,
    SlotAttention,
    TSPNDecoder,
)
from torchsets.encoders import (
    DeepSets,
    EquivariantLinear,
    JanossyPooling,
    OrderedEncoder,
    PointNet,
    RelationNetwork,
    SetTransformer,
    mlp_encoder,
    relation_encoder,
)
from torchsets.encoders.relu import ReLU
from torchsets.mlp import MLP
from torchsets.permutations import (
    GumbelSinkhorn,
    LinearAssignment,
    OrderedSets,
    PairwiseCost,
    PermutationOptimiser,
    hard_permutation,
    neural_sort,
    sinkhorn,
)
from torchsets.pooling import (
    AttentionPool,
    FSPool,
    FSUnpool,
    MaxPool,
    MeanPool,
    MinPool,
    SortPool,
    SumPool,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # the exporters warn about themselves

FEATURES = 3
SHAPES = [(3, 5), (2, 5), (4, 9), (1, 1), (3, 40)]
CLOSE = {"rtol": 1e-3, "atol": 1e-3}  # a frozen order is off by 0.03 and more
MASKED = pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
BATCH, SIZE = torch.export.Dim("B"), torch.export.Dim("N", max=40)


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


def decode(elements, mask, decoder):
    prediction = decoder(elements, mask)
    return prediction.elements, prediction.presence, *prediction.trajectory[:2]


def modules():
    torch.manual_seed(0)
    pools = {"pool": FSPool(FEATURES), "back": FSUnpool(FEATURES)}
    return {
        "sum": SumPool(),
        "mean": MeanPool(),
        "max": MaxPool(),
        "min": MinPool(),
        "fspool": FSPool(FEATURES),
        "sort-pool": SortPool(7),
        "attention": AttentionPool(FEATURES, queries=2),
        "unpool": Apply(unpool, **pools),
        "unpool-relaxed": Apply(relaxed, **pools),
        "deep-sets": DeepSets(nn.Sequential(MLP(FEATURES, 8, 8), ReLU()), FSPool(8), MLP(8, 8, 4)),
        "relation": RelationNetwork(FEATURES, 8, nn.Linear(8, 6), FSPool(6)),
        "pointnet": PointNet(FEATURES, 4, hidden=6, pooling=FSPool, transforms=True),
        "janossy-pairs": JanossyPooling(MLP(2 * FEATURES, 8, 4), k=2),
        "janossy-triples": JanossyPooling(MLP(3 * FEATURES, 8, 4), k=3),
        "equivariant": EquivariantLinear(FEATURES, 4),
        "equivariant-max": EquivariantLinear(FEATURES, 4, centre="max"),
        "set-transformer": SetTransformer(FEATURES, 4, hidden=8, heads=2, seeds=2),
        "set-transformer-inducing": SetTransformer(FEATURES, 4, hidden=8, heads=2, inducing=3),
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
        "ordered-cell": OrderedEncoder(optimiser(), FEATURES, 5, state="cell"),
        "unordered": OrderedEncoder(None, FEATURES, 5),
        "neural-sort": Apply(lambda x, mask: neural_sort(x[..., 0], temperature=0.5, mask=mask)),
        "sinkhorn": Apply(lambda x, mask: sinkhorn(scores(x.nan_to_num()), mask=mask)),
        "gumbel": Apply(
            lambda x, mask, gumbel: gumbel(scores(x.nan_to_num()), mask), gumbel=GumbelSinkhorn()
        ),
        "query": Apply(decode, decoder=QueryDecoder(FEATURES, 8, slots=4, features=2, layers=2)),
        "slot-attention": Apply(
            decode, decoder=SlotAttention(FEATURES, 8, slots=4, features=2, start="learned")
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


def assert_serves_every_set(program, module, *, masked, generator):
    for shape in SHAPES:
        arguments = inputs(shape, masked=masked, generator=generator)
        expected = module(*arguments)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = program(*arguments)
        found = found if isinstance(found, tuple | list) else (found,)
        torch.testing.assert_close(tuple(found), expected, **CLOSE)


def open_sizes(arguments):
    return tuple({0: BATCH, 1: SIZE} for _ in arguments)


@MASKED
@pytest.mark.parametrize("name", modules())
def test_a_trace_serves_every_set(name, masked, generator):
    module = modules()[name].eval()
    arguments = inputs((3, 5), masked=masked, generator=generator)
    traced = torch.jit.trace(module, arguments, check_trace=False)
    assert_serves_every_set(traced, module, masked=masked, generator=generator)


@pytest.mark.parametrize("name", ["fspool", "optimiser", "counter"])
def test_a_trace_of_one_element_serves_every_set(name, generator):
    module = modules()[name].eval()
    arguments = inputs((1, 1), masked=True, generator=generator)
    traced = torch.jit.trace(module, arguments, check_trace=False)
    assert_serves_every_set(traced, module, masked=True, generator=generator)


def export_serves_every_set(name, masked, generator):
    module = modules()[name].eval()
    arguments = inputs((3, 5), masked=masked, generator=generator)
    program = torch.export.export(module, arguments, dynamic_shapes=open_sizes(arguments))
    assert_serves_every_set(program.module(), module, masked=masked, generator=generator)


@pytest.mark.parametrize("name", ["fspool", "set-transformer-inducing"])
def test_an_exported_program_serves_every_set(name, generator):
    export_serves_every_set(name, True, generator)


@pytest.mark.slow
@MASKED
@pytest.mark.parametrize("name", modules())
def test_every_exported_program_serves_every_set(name, masked, generator):
    export_serves_every_set(name, masked, generator)


@pytest.fixture
def session(monkeypatch):
    """Make a callable of the bytes of an ONNX model."""
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "1")
    reason = "needs ONNX: pip install 'torchsets[export]'"
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name, reason=reason)
    runtime = pytest.importorskip("onnxruntime", reason=reason)

    def make(model):
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        running = runtime.InferenceSession(model.getvalue(), options)
        names = [one.name for one in running.get_inputs()]

        def run(*arguments):
            numbers = [argument.numpy() for argument in arguments]
            return [
                torch.from_numpy(x)
                for x in running.run(None, dict(zip(names, numbers, strict=True)))
            ]

        return run

    return make


def to_onnx(module, arguments, dynamic_shapes, **options):
    model = io.BytesIO()
    program = torch.onnx.export(
        module, arguments, dynamo=True, dynamic_shapes=dynamic_shapes, verbose=False, **options
    )
    program.save(model)
    return model


@pytest.mark.slow
@MASKED
@pytest.mark.parametrize("name", modules())
def test_onnx_serves_every_set(name, masked, session, generator):
    module = modules()[name].eval()
    arguments = inputs((3, 5), masked=masked, generator=generator)
    # onnxscript 0.7.2 loses constants of the counting module when it optimises
    model = to_onnx(
        module, arguments, open_sizes(arguments), optimize=not name.startswith("counter")
    )
    assert_serves_every_set(session(model), module, masked=masked, generator=generator)


@pytest.mark.slow
@MASKED
@pytest.mark.parametrize("name", modules())
def test_the_older_onnx_exporter_serves_every_set(name, masked, session, generator):
    module = modules()[name].eval()
    arguments = inputs((3, 5), masked=masked, generator=generator)
    model, names = io.BytesIO(), ["elements", "mask"][: len(arguments)]
    axes = {name: {0: "B", 1: "N"} for name in names}
    # It passes what is keyword-only by position, so a module that has such needs one around it.
    plain = Apply(lambda x, mask, module: module(x, mask), module=module).eval()
    torch.onnx.export(plain, arguments, model, dynamo=False, input_names=names, dynamic_axes=axes)
    assert_serves_every_set(session(model), module, masked=masked, generator=generator)


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


def without_spread():
    decoder = TSPNDecoder(2, 4, inputs=6, hidden=8)
    with torch.no_grad():
        decoder.start.log_spread.fill_(-100)  # what is drawn is the mean, again and again
    return decoder


def decoders():
    torch.manual_seed(0)
    sizes = {"slots": 4, "features": 2}
    implicit = {"steps": 3, "momentum": 0.5, "gradient": "implicit"}
    return {
        "mlp": MLPDecoder(6, 8, **sizes),
        "lstm": LSTMDecoder(6, 8, **sizes),
        "tspn": without_spread(),
        "dspn": DSPN(mlp_encoder(3, 8, 6, slots=4), steps=2, **sizes),
        "dspn-sum": DSPN(
            DeepSets(MLP(2, 8, 6), SumPool()), clip=0.1, steps=2, variable_size=False, **sizes
        ),
        "dspn-implicit": DSPN(relation_encoder(3, 8, 6, slots=4), **implicit, **sizes),
    }


def parts(prediction):
    return [prediction.elements, prediction.presence, *(prediction.trajectory or ())]


@pytest.mark.parametrize(
    "name",
    ["mlp", *(pytest.param(one, marks=pytest.mark.slow) for one in ("lstm", "tspn", "dspn"))],
)
def test_an_exported_decoder_serves_every_batch_after_saving(name, generator):
    decoder = decoders()[name].eval()
    vector, buffer = torch.randn(3, 6, generator=generator), io.BytesIO()
    program = torch.export.export(decoder, (vector,), dynamic_shapes=({0: BATCH},))
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    for batch in (3, 1, 7):
        vector = torch.randn(batch, 6, generator=generator)
        found = loaded(vector)
        assert type(found) is SetPrediction
        torch.testing.assert_close(parts(found), parts(decoder(vector)))


def test_an_exported_random_start_is_drawn_by_the_program(generator):
    decoder = SlotAttention(FEATURES, 8, slots=4, features=2).eval()
    arguments = inputs((3, 5), masked=True, generator=generator)
    program = torch.export.export(decoder, arguments, dynamic_shapes=open_sizes(arguments))
    again = inputs((4, 9), masked=True, generator=generator)
    first, second = (program.module()(*again).elements for _ in range(2))
    assert first.shape == (4, 4, 2)
    assert first.isfinite().all()
    assert not torch.allclose(first, second)


@pytest.mark.slow
@pytest.mark.parametrize("name", decoders())
def test_onnx_decoders_serve_every_batch(name, session, generator):
    decoder = decoders()[name].eval()
    example = torch.randn(3, 6, generator=generator)
    run = session(to_onnx(decoder, (example,), ({0: BATCH},)))
    for batch in (3, 1, 2, 7, 32):
        vector = torch.randn(batch, 6, generator=generator)
        torch.testing.assert_close(run(vector), parts(decoder(vector)), **CLOSE)


def test_ordered_sets_can_be_saved(generator):
    arguments = inputs((3, 5), masked=True, generator=generator)
    module, buffer = optimiser(steps=1).eval(), io.BytesIO()
    torch.export.save(torch.export.export(module, arguments), buffer)
    buffer.seek(0)
    found = torch.export.load(buffer).module()(*arguments)
    assert type(found) is OrderedSets
    torch.testing.assert_close(found, module(*arguments))


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
