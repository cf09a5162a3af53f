import pytest
import torch

from torchsets.decoders import QueryDecoder
from torchsets.losses import SetPredictionLoss, hungarian_loss
from torchsets.testing import assert_obeys_laws, random_sets

INPUTS, HIDDEN, SLOTS, FEATURES, HEADS = 5, 8, 3, 2, 2
NORMS = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def make(**options):
    options = {"layers": 2, "heads": HEADS, "feedforward": 7, **options}
    decoder = QueryDecoder(
        INPUTS, HIDDEN, features=FEATURES, **{"slots": SLOTS, **options}
    ).double()
    with torch.no_grad():  # biases start at 0 and layer norms at 1, where a swap would not show
        for weight in decoder.parameters():
            if weight.ndim == 1:
                weight += 0.3 * torch.randn_like(weight)
    return decoder


def plain_attention(attention, queries, keys, values):
    """Query by query and head by head."""
    asked, offered, given = attention.query(queries), attention.key(keys), attention.value(values)
    width, rows = HIDDEN // HEADS, []
    for query in asked:
        parts = []
        for head in range(HEADS):
            part = slice(head * width, (head + 1) * width)
            powers = [(query[part] @ key[part] / width**0.5).exp() for key in offered]
            total = sum(powers)
            mixed = torch.zeros(width, dtype=torch.float64)
            for power, value in zip(powers, given, strict=True):
                mixed = mixed + power / total * value[part]
            parts.append(mixed)
        rows.append(attention.out(torch.cat(parts)))
    return torch.stack(rows)


def plain_decoder(decoder, tokens, norm_first):
    """DETR's decoder for one set without padding; the outputs of every layer."""
    tokens, queries = decoder.project(tokens), decoder.queries
    slots = torch.zeros(SLOTS, HIDDEN, dtype=torch.float64)
    outputs = []
    for layer in decoder.layers:
        parts = [
            (
                layer.norm_among,
                lambda x, layer=layer: plain_attention(layer.among, x + queries, x + queries, x),
            ),
            (
                layer.norm_across,
                lambda x, layer=layer: plain_attention(layer.across, x + queries, tokens, tokens),
            ),
            (
                layer.norm_mlp,
                lambda x, layer=layer: layer.mlp[2](layer.mlp[0](x).clamp(min=0)),
            ),
        ]
        for norm, part in parts:
            slots = slots + part(norm(slots)) if norm_first else norm(slots + part(slots))
        outputs.append(decoder.head(decoder.norm(slots)))
    return torch.stack(outputs)


@NORMS
def test_layers_are_those_of_the_plain_loop(norm_first):
    decoder = make(norm_first=norm_first)
    tokens, mask = random_sets([4, 0, 1, 3], INPUTS)
    way = decoder(tokens, mask).trajectory
    expected = torch.stack(
        [plain_decoder(decoder, tokens[i][mask[i]], norm_first) for i in range(4)], dim=1
    )
    torch.testing.assert_close(way.elements, expected[..., :FEATURES])
    torch.testing.assert_close(way.presence, (expected[..., FEATURES] + 1).clamp(0, 1))
    moved = (expected[1:] - expected[:-1]).square().mean(dim=(2, 3))
    torch.testing.assert_close(way.loss, moved)


def test_prediction_is_the_output_of_the_last_layer():
    prediction = make(layers=3)(*random_sets([4, 2], INPUTS))
    assert prediction.trajectory.elements.shape == (3, 2, SLOTS, FEATURES)
    torch.testing.assert_close(prediction.elements, prediction.trajectory.elements[-1])
    torch.testing.assert_close(prediction.presence, prediction.trajectory.presence[-1])


@NORMS
def test_obeys_all_laws(norm_first):
    decoder = make(norm_first=norm_first)

    def decode(tokens, mask):
        prediction = decoder(tokens, mask)
        return prediction.elements, prediction.presence

    assert_obeys_laws(decode, *random_sets([4, 0, 3, 1], INPUTS))


def test_permuting_the_queries_permutes_the_slots():
    decoder, order = make(), torch.tensor([2, 0, 1])
    tokens, mask = random_sets([4, 2], INPUTS)
    expected = decoder(tokens, mask).elements[:, order]
    with torch.no_grad():
        decoder.queries.copy_(decoder.queries[order].clone())
    torch.testing.assert_close(decoder(tokens, mask).elements, expected)


def test_every_layer_can_be_supervised():
    decoder = make()
    tokens, target = torch.randn(2, 4, INPUTS).double(), torch.randn(2, 3, FEATURES).double()
    SetPredictionLoss(hungarian_loss)(decoder(tokens), target).sum().backward()
    assert all(weight.grad is not None for weight in decoder.parameters())


@NORMS
def test_gradient(norm_first):
    decoder = make(norm_first=norm_first)
    tokens, mask = random_sets([3, 0, 2], INPUTS)
    tokens = tokens.nan_to_num().requires_grad_()

    def decode(tokens, queries):
        weights = {"queries": queries}
        return torch.func.functional_call(decoder, weights, (tokens, mask)).elements

    queries = decoder.queries.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(decode, (tokens, queries))


@pytest.mark.parametrize("sizes", [[3, 0, 1], [0, 0]])
def test_padding_of_nan_leaves_all_gradients_finite(sizes):
    decoder = make()
    tokens = torch.full((len(sizes), 4, INPUTS), float("nan")).double()
    mask = torch.arange(4) < torch.tensor(sizes).unsqueeze(1)
    tokens[mask] = 1.0
    prediction = decoder(tokens, mask)
    assert prediction.elements.isfinite().all()
    prediction.elements.square().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in decoder.parameters())


def test_dropout_acts_in_training_only():
    decoder, tokens = make(dropout=0.5), torch.randn(2, 4, INPUTS).double()
    assert not torch.allclose(decoder(tokens).elements, decoder(tokens).elements)
    decoder.eval()
    torch.testing.assert_close(decoder(tokens), decoder(tokens))


def test_fixed_sizes_have_presence_one():
    prediction = make(variable_size=False)(torch.randn(2, 4, INPUTS).double())
    assert prediction.elements.shape == (2, SLOTS, FEATURES)
    assert (prediction.presence == 1).all()


def test_bfloat16_autocast_stays_close():
    decoder, tokens = make().float(), torch.randn(3, 6, INPUTS)
    mask = torch.tensor([[True] * 6, [True] * 2 + [False] * 4, [False] * 6])
    expected = decoder(tokens, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = decoder(tokens, mask)
    found.elements.sum().backward()
    # 8 bits of mantissa, through two layers
    torch.testing.assert_close(found.elements.float(), expected.elements, rtol=0.1, atol=0.1)
    assert all(weight.grad.isfinite().all() for weight in decoder.parameters())


@pytest.mark.slow
def test_compiled_gradients_equal_eager_ones():
    decoder = make(layers=1)
    tokens, mask = random_sets([3, 0, 4], INPUTS)
    weights = list(decoder.parameters())

    def loss(tokens, mask):
        prediction = decoder(tokens, mask)
        return prediction.elements.sin().sum() + prediction.presence.sum()

    expected = torch.autograd.grad(loss(tokens, mask), weights)
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(tokens, mask), weights), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(2, 4, 3),), r"tokens must have shape \(B, M, L\) = \(any, any, 5\)"),
        ((torch.zeros(2, 4, 5).long(),), "tokens must be floating point"),
        ((torch.zeros(2, 4, 5), torch.ones(2, 4)), "token_mask must be bool"),
    ],
)
def test_rejects_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        make().float()(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"slots": 0}, "slots must be at least 1, got 0"),
        ({"heads": 3}, "heads must divide the 8 features, got 3"),
    ],
)
def test_rejects_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)
