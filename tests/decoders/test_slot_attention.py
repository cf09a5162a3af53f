import math

import pytest
import torch

from torchsets.decoders import SlotAttention
from torchsets.decoders.slot_attention import slot_updates
from torchsets.decoders.slot_start import GaussianStart
from torchsets.losses import SetPredictionLoss, hungarian_loss
from torchsets.testing import assert_obeys_laws, random_sets

INPUTS, HIDDEN, SLOTS, FEATURES = 5, 6, 3, 2
BOTH = pytest.mark.parametrize("gradient", ["unrolled", "implicit"])
STARTS = pytest.mark.parametrize("start", ["random", "learned"])


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def make(**options):
    decoder = SlotAttention(
        INPUTS, HIDDEN, features=FEATURES, **{"slots": SLOTS, **options}
    ).double()
    with torch.no_grad():  # the layer norms start at 1 and 0, where a swap would not show
        for name, weight in decoder.named_parameters():
            if "norm" in name or "residual.0" in name:
                weight += 0.3 * torch.randn_like(weight)
    return decoder


def fixed(seed=0):
    return torch.Generator().manual_seed(seed)


def norm(layer, row):
    centred = [x - sum(row) / len(row) for x in row]
    scale = math.sqrt(sum(x * x for x in centred) / len(row) + 1e-5)
    weights, biases = layer.weight.tolist(), layer.bias.tolist()
    return [x / scale * w + b for x, w, b in zip(centred, weights, biases, strict=True)]


def linear(layer, row):
    biases = [0.0] * layer.out_features if layer.bias is None else layer.bias.tolist()
    return [
        sum(w * x for w, x in zip(weights, row, strict=True)) + bias
        for weights, bias in zip(layer.weight.tolist(), biases, strict=True)
    ]


def mlp(layers, row):
    return linear(layers[2], [max(0.0, x) for x in linear(layers[0], row)])


def gru(cell, update, state):
    def gates(weight, bias, row):
        sums = [
            sum(w * x for w, x in zip(weights, row, strict=True)) + b
            for weights, b in zip(weight.tolist(), bias.tolist(), strict=True)
        ]
        return [sums[i * HIDDEN : (i + 1) * HIDDEN] for i in range(3)]

    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    from_update = gates(cell.weight_ih, cell.bias_ih, update)
    from_state = gates(cell.weight_hh, cell.bias_hh, state)
    result = []
    for i in range(HIDDEN):
        reset = sigmoid(from_update[0][i] + from_state[0][i])
        keep = sigmoid(from_update[1][i] + from_state[1][i])
        new = math.tanh(from_update[2][i] + reset * from_state[2][i])
        result.append((1 - keep) * new + keep * state[i])
    return result


def plain_loop(decoder, tokens, slots, rounds):
    """Algorithm 1 for one set without padding, number by number; the outputs of every round."""
    tokens = [norm(decoder.token_norm, token) for token in tokens.tolist()]
    keys = [linear(decoder.to_keys, token) for token in tokens]
    values = [linear(decoder.to_values, token) for token in tokens]
    slots = slots.tolist()
    outputs = [[mlp(decoder.head, slot) for slot in slots]]
    for _ in range(rounds):
        queries = [linear(decoder.to_queries, norm(decoder.slot_norm, slot)) for slot in slots]
        shares = []
        for key in keys:
            powers = [
                math.exp(sum(k * q for k, q in zip(key, query, strict=True)) / math.sqrt(HIDDEN))
                for query in queries
            ]
            shares.append([power / sum(powers) + 1e-8 for power in powers])
        for index in range(SLOTS):
            total = sum(share[index] for share in shares)
            update = [
                sum(
                    share[index] / total * value[i]
                    for share, value in zip(shares, values, strict=True)
                )
                for i in range(HIDDEN)
            ]
            state = gru(decoder.cell, update if tokens else [0.0] * HIDDEN, slots[index])
            change = mlp(decoder.residual[1], norm(decoder.residual[0], state))
            slots[index] = [x + y for x, y in zip(state, change, strict=True)]
        outputs.append([mlp(decoder.head, slot) for slot in slots])
    return torch.tensor(outputs, dtype=torch.float64)


@STARTS
@BOTH
def test_rounds_are_those_of_the_plain_loop(start, gradient):
    decoder = make(start=start, gradient=gradient)
    tokens, mask = random_sets([4, 0, 1, 3], INPUTS)
    way = decoder(tokens, mask, generator=fixed()).trajectory
    starts = decoder.initial_slots(4, generator=fixed())
    expected = torch.stack(
        [
            plain_loop(decoder, tokens[index][mask[index]], starts[index], 3)
            for index in range(len(tokens))
        ],
        dim=1,
    )
    torch.testing.assert_close(way.elements, expected[..., :FEATURES])
    torch.testing.assert_close(way.presence, (expected[..., FEATURES] + 1).clamp(0, 1))
    moved = (expected[1:] - expected[:-1]).square().mean(dim=(2, 3))
    torch.testing.assert_close(way.loss, moved)


def test_slots_share_out_every_token():
    queries, keys = torch.randn(1, 3, 4), torch.randn(1, 5, 4)
    shares = (keys[0] @ queries[0].T / 2).softmax(dim=1)  # (M, N)
    expected = (shares / shares.sum(dim=0)).T.unsqueeze(0)
    torch.testing.assert_close(slot_updates(queries, keys, torch.eye(5).unsqueeze(0)), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_slot_that_wins_nothing_takes_the_mean(dtype):
    queries = torch.tensor([[[200.0, 0.0], [-200.0, 0.0]]], dtype=dtype)
    keys = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]], dtype=dtype)
    updates = slot_updates(queries, keys, torch.tensor([[[1.0], [3.0]]], dtype=dtype))
    assert updates.dtype == dtype
    assert updates.flatten().tolist() == [2.0, 2.0]


@BOTH
@STARTS
def test_prediction_is_the_end_of_the_trajectory(start, gradient):
    decoder = make(start=start, gradient=gradient)
    prediction = decoder(*random_sets([4, 2], INPUTS), rounds=5)
    assert prediction.trajectory.elements.shape == (6, 2, SLOTS, FEATURES)
    assert prediction.trajectory.loss.shape == (5, 2)
    torch.testing.assert_close(prediction.elements, prediction.trajectory.elements[-1])
    torch.testing.assert_close(prediction.presence, prediction.trajectory.presence[-1])


@BOTH
@STARTS
def test_obeys_all_laws_from_a_given_start(start, gradient):
    decoder = make(start=start, gradient=gradient)
    slots = decoder.initial_slots(1, generator=fixed()).detach()

    def decode(tokens, mask):
        prediction = decoder(tokens, mask, initial=slots)
        return prediction.elements, prediction.presence

    assert_obeys_laws(decode, *random_sets([4, 0, 3, 1], INPUTS))


def test_with_a_fixed_generator_other_sets_matter_only_by_their_place():
    decoder = make()
    tokens, mask = random_sets([4, 2, 3], INPUTS)
    other = torch.cat([tokens[:1], random_sets([4, 4], INPUTS, fixed(5))[0]])
    full = torch.cat([mask[:1], torch.ones(2, 4, dtype=torch.bool)])
    before = decoder(tokens, mask, generator=fixed(3))
    after = decoder(other, full, generator=fixed(3))
    torch.testing.assert_close(after.elements[0], before.elements[0])
    assert not torch.allclose(after.elements[1], before.elements[1])


def test_every_set_and_slot_starts_elsewhere_and_the_generator_decides():
    decoder = make()
    slots = decoder.initial_slots(2, generator=fixed(1))
    assert len(slots.flatten(0, 1).unique(dim=0)) == 2 * SLOTS
    torch.testing.assert_close(slots, decoder.initial_slots(2, generator=fixed(1)))
    assert not torch.allclose(slots, decoder.initial_slots(2, generator=fixed(2)))


def test_the_start_has_the_learned_mean_and_spread():
    decoder = make()
    with torch.no_grad():
        decoder.start.mean.copy_(torch.linspace(-2, 2, HIDDEN))
        decoder.start.log_spread.copy_(torch.linspace(-1, 1, HIDDEN))
    slots = decoder.initial_slots(4000, generator=fixed()).flatten(0, 1)
    # 12000 draws: the standard errors are at most 0.9 % and 0.65 % of the spread
    assert ((slots.mean(dim=0) - decoder.start.mean[0]).abs() < 0.05 * slots.std(dim=0)).all()
    torch.testing.assert_close(
        slots.std(dim=0), decoder.start.log_spread[0].exp(), rtol=0.05, atol=0
    )


def test_unrolled_gradient():
    decoder = make(rounds=2)
    tokens, mask = random_sets([3, 0, 2], INPUTS)
    tokens = tokens.nan_to_num().requires_grad_()

    def decode(tokens, mean, spread):
        slots = mean + spread.exp() * torch.randn(3, SLOTS, HIDDEN, generator=fixed()).double()
        return decoder(tokens, mask, initial=slots).elements

    assert torch.autograd.gradcheck(decode, (tokens, decoder.start.mean, decoder.start.log_spread))


def test_implicit_gradient_is_that_of_one_round_from_the_slots_before():
    decoder, tokens = make(gradient="implicit", rounds=4), torch.randn(2, 4, INPUTS).double()
    with torch.no_grad():
        before = decoder.initial_slots(2, generator=fixed())
        normalised = decoder.token_norm(tokens)
        keys, values = decoder.to_keys(normalised), decoder.to_values(normalised)
        for _ in range(3):
            before = decoder._round(before, keys, values, torch.ones(2, 4, dtype=torch.bool))
    weights = [weight for weight in decoder.parameters() if weight.requires_grad]
    long = decoder(tokens, generator=fixed())
    short = decoder(tokens, initial=before, rounds=1)
    torch.testing.assert_close(long.elements, short.elements)
    torch.testing.assert_close(
        torch.autograd.grad(long.elements.sin().sum(), weights),
        torch.autograd.grad(short.elements.sin().sum(), weights),
    )


@STARTS
def test_an_implicit_decoder_leaves_its_start_and_refuses_to_supervise_all_rounds(start):
    decoder = make(gradient="implicit", start=start)
    criterion = SetPredictionLoss(hungarian_loss)
    tokens, target = torch.randn(2, 4, INPUTS).double(), torch.randn(2, 3, FEATURES).double()
    with pytest.raises(ValueError, match='supervise must be "last" for an implicit decoder'):
        criterion(decoder(tokens), target)
    criterion.supervise = "last"
    criterion(decoder(tokens), target).sum().backward()
    still = {name for name, weight in decoder.named_parameters() if weight.grad is None}
    assert still == ({"start.mean", "start.log_spread"} if start == "random" else {"start.initial"})


@STARTS
def test_all_rounds_of_an_unrolled_decoder_can_be_supervised(start):
    decoder = make(start=start)
    tokens, target = torch.randn(2, 4, INPUTS).double(), torch.randn(2, 3, FEATURES).double()
    SetPredictionLoss(hungarian_loss)(decoder(tokens), target).sum().backward()
    assert all(weight.grad is not None for weight in decoder.parameters())


@BOTH
def test_padding_of_nan_leaves_all_gradients_finite(gradient):
    decoder = make(gradient=gradient)
    for sizes in ([3, 0, 1], [0, 0]):
        tokens, mask = random_sets(sizes, INPUTS)
        if not sum(sizes):
            tokens = torch.full((2, 4, INPUTS), float("nan")).double()
            mask = torch.zeros(2, 4, dtype=torch.bool)
        prediction = decoder(tokens, mask)
        assert prediction.elements.isfinite().all()
        prediction.elements.square().sum().backward()
        assert all(
            weight.grad.isfinite().all() for weight in decoder.parameters() if weight.requires_grad
        )


def test_fixed_sizes_have_presence_one():
    prediction = make(variable_size=False)(torch.randn(2, 4, INPUTS).double())
    assert prediction.elements.shape == (2, SLOTS, FEATURES)
    assert (prediction.presence == 1).all()


def test_bfloat16_autocast_stays_close():
    decoder = make(start="learned").float()
    tokens = torch.randn(3, 6, INPUTS)
    expected = decoder(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = decoder(tokens)
    found.elements.sum().backward()
    # 8 bits of mantissa, through three rounds
    torch.testing.assert_close(found.elements.float(), expected.elements, rtol=0.1, atol=0.1)
    assert all(weight.grad.isfinite().all() for weight in decoder.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("gradient", ["unrolled", "implicit"])
def test_compiled_gradients_equal_eager_ones(gradient):
    decoder = make(start="learned", gradient=gradient, rounds=2)
    tokens, mask = random_sets([3, 0, 4], INPUTS)
    weights = [weight for weight in decoder.parameters() if weight.requires_grad]

    def loss(tokens, mask):
        prediction = decoder(tokens, mask)
        return prediction.elements.sin().sum() + prediction.presence.sum()

    expected = torch.autograd.grad(loss(tokens, mask), weights)
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(tokens, mask), weights), expected)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((torch.zeros(2, 4, 3),), {}, r"tokens must have shape \(B, M, L\) = \(any, any, 5\)"),
        ((torch.zeros(2, 4, 5).long(),), {}, "tokens must be floating point"),
        ((torch.zeros(2, 4, 5), torch.ones(2, 4)), {}, "token_mask must be bool"),
        ((torch.zeros(2, 4, 5),), {"rounds": 0}, "rounds must be at least 1, got 0"),
        (
            (torch.zeros(2, 4, 5),),
            {"initial": torch.zeros(3, SLOTS, HIDDEN)},
            r"initial must have shape \(B or 1, slots, hidden\) = \(2 or 1, 3, 6\)",
        ),
    ],
)
def test_rejects_bad_input(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        make().float()(*arguments, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "zero"}, 'start must be "random" or "learned", got \'zero\''),
        ({"gradient": "none"}, 'gradient must be "unrolled" or "implicit", got \'none\''),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"slots": 0}, "slots must be at least 1, got 0"),
    ],
)
def test_rejects_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize(("slots", "hidden"), [(5, 10), (1, 4), (3, 16)])
def test_what_a_set_draws_depends_on_its_place_alone(slots, hidden):
    start = GaussianStart(slots, hidden)
    drawn = [start(sets, torch.Generator().manual_seed(0)) for sets in (1, 2, 4)]
    assert torch.equal(drawn[0], drawn[2][:1])
    assert torch.equal(drawn[1], drawn[2][:2])
    assert drawn[2].unique().numel() == 4 * slots * hidden


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((1, 2, 4), (5, 3, 4), (5, 3, 6), (5, 3)), r"queries must have shape \(B, N, H\)"),
        (((5, 2, 4), (3, 4), (5, 3, 6), (5, 3)), r"keys must have shape \(B, N, D\)"),
        (((5, 2, 4), (5, 3, 4), (1, 3, 6), (5, 3)), r"values must have shape \(B, M, V\)"),
        (((5, 2, 4), (5, 3, 4), (5, 3, 6), (1, 3)), r"mask must have shape \(5, 3\)"),
    ],
)
def test_shapes_are_not_broadcast(shapes, message):
    *tensors, mask = shapes
    with pytest.raises(ValueError, match=message):
        slot_updates(*map(torch.zeros, tensors), torch.ones(mask, dtype=torch.bool))
