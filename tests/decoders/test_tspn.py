import pytest
import torch

from torchsets.decoders import TSPNDecoder
from torchsets.losses import SetPredictionLoss, hungarian_loss

LATENT, HIDDEN, SLOTS, FEATURES, HEADS = 5, 8, 4, 2, 2
NORMS = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
SIZES = torch.tensor([4, 0, 1, 3])


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def make(**options):
    options = {"layers": 2, "heads": HEADS, "feedforward": 7, **options}
    decoder = TSPNDecoder(FEATURES, SLOTS, inputs=LATENT, hidden=HIDDEN, **options).double()
    with torch.no_grad():  # biases start at 0 and layer norms at 1, where a swap would not show
        for name, weight in decoder.named_parameters():
            if weight.ndim == 1 or "start" in name:
                weight += 0.3 * torch.randn_like(weight)
    return decoder


def vectors(count=4):
    return torch.randn(count, LATENT, dtype=torch.float64)


def fixed(seed=0):
    return torch.Generator().manual_seed(seed)


def plain_attention(attention, points):
    """Query by query and head by head."""
    asked, offered, given = attention.query(points), attention.key(points), attention.value(points)
    width, rows = HIDDEN // HEADS, []
    for query in asked:
        parts = []
        for head in range(HEADS):
            part = slice(head * width, (head + 1) * width)
            powers = [(query[part] @ key[part] / width**0.5).exp() for key in offered]
            weighted = [power * value[part] for power, value in zip(powers, given, strict=True)]
            parts.append(sum(weighted) / sum(powers))
        rows.append(attention.out(torch.cat(parts)))
    return torch.stack(rows)


def plain_decoder(decoder, vector, points, norm_first):
    """One set, with all its points and no others."""
    points = points + decoder.give(vector)
    for layer in decoder.layers:
        parts = [
            (layer.norm_among, lambda x, layer=layer: plain_attention(layer.among, x)),
            (layer.norm_mlp, lambda x, layer=layer: layer.mlp[2](layer.mlp[0](x).clamp(min=0))),
        ]
        for norm, part in parts:
            points = points + part(norm(points)) if norm_first else norm(points + part(points))
    return decoder.head(decoder.norm(points))


@NORMS
def test_points_are_those_of_the_plain_loop(norm_first):
    decoder, vector = make(norm_first=norm_first), vectors()
    prediction = decoder(vector, sizes=SIZES, generator=fixed())
    starts = decoder.initial_points(4, generator=fixed())
    found = prediction.to_list()
    assert [len(points) for points in found] == SIZES.tolist()
    for index, size in enumerate(SIZES.tolist()):
        if size:
            expected = plain_decoder(decoder, vector[index], starts[index, :size], norm_first)
            torch.testing.assert_close(found[index], expected)


def test_slots_that_are_not_drawn_are_zero():
    prediction = make()(vectors(), sizes=SIZES)
    drawn = torch.arange(SLOTS) < SIZES.unsqueeze(1)
    assert prediction.presence.equal(drawn.double())
    assert (prediction.elements[~drawn] == 0).all()
    assert (prediction.elements[drawn] != 0).all()


def test_draws_as_many_points_as_the_size_head_says():
    decoder = make()
    with torch.no_grad():  # a planted answer: the vector says its size
        decoder.size[0].weight.zero_()
        decoder.size[0].weight[: SLOTS + 1] = torch.eye(SLOTS + 1)
        decoder.size[0].bias.zero_()
        decoder.size[2].weight.zero_()
        decoder.size[2].weight[:, : SLOTS + 1] = torch.eye(SLOTS + 1)
        decoder.size[2].bias.zero_()
    vector = torch.eye(LATENT, dtype=torch.float64)[[3, 0, 4, 1]]
    assert decoder.size_logits(vector).shape == (4, SLOTS + 1)
    assert decoder(vector).presence.sum(dim=1).tolist() == [3, 0, 4, 1]


def test_size_loss_is_the_cross_entropy_of_the_number_of_real_targets():
    decoder, vector = make(), vectors(3)
    mask = torch.tensor([[True, False, True], [False] * 3, [True] * 3])
    logits = decoder.size_logits(vector)
    expected = [-row.log_softmax(0)[size] for row, size in zip(logits, [2, 0, 3], strict=True)]
    torch.testing.assert_close(decoder.size_loss(vector, mask), torch.stack(expected))


def test_a_set_decodes_the_same_alone_from_a_given_start():
    decoder, vector = make(), vectors()
    start = decoder.initial_points(4, generator=fixed())
    together = decoder(vector, sizes=SIZES, initial=start)
    for index in range(4):
        one = slice(index, index + 1)
        alone = decoder(vector[one], sizes=SIZES[one], initial=start[one])
        torch.testing.assert_close(alone.elements[0], together.elements[index])


def test_with_a_fixed_generator_other_sets_matter_only_by_their_place():
    decoder, vector, other = make(), vectors(), vectors()
    other[0] = vector[0]
    before = decoder(vector, sizes=SIZES, generator=fixed(3)).elements
    after = decoder(other, sizes=torch.tensor([4, 2, 3, 3]), generator=fixed(3)).elements
    torch.testing.assert_close(after[0], before[0])
    assert not torch.allclose(after[3], before[3])
    assert not torch.allclose(decoder(vector, sizes=SIZES, generator=fixed(4)).elements, before)


def test_permuting_the_points_permutes_the_set():
    decoder, vector, order = make(), vectors(2), torch.tensor([2, 0, 3, 1])
    full, start = torch.tensor([4, 4]), decoder.initial_points(2)
    expected = decoder(vector, sizes=full, initial=start).elements[:, order]
    permuted = decoder(vector, sizes=full, initial=start[:, order])
    torch.testing.assert_close(permuted.elements, expected)


def test_gradient():
    decoder = make()

    def decode(vector, start):
        return decoder(vector, sizes=SIZES, initial=start).elements

    start = decoder.initial_points(4).detach().requires_grad_()
    assert torch.autograd.gradcheck(decode, (vectors().requires_grad_(), start))


@pytest.mark.parametrize("sizes", [[2, 0], [0, 0]])
def test_the_start_and_all_layers_get_finite_gradients(sizes):
    decoder, vector = make(), vectors(2)
    target = torch.randn(2, SLOTS, FEATURES, dtype=torch.float64)
    mask = torch.arange(SLOTS) < torch.tensor(sizes).unsqueeze(1)
    loss = SetPredictionLoss(hungarian_loss)(decoder(vector, sizes=mask.sum(dim=1)), target, mask)
    (loss + decoder.size_loss(vector, mask)).sum().backward()
    assert all(weight.grad.isfinite().all() for weight in decoder.parameters())
    assert (decoder.start.log_spread.grad != 0).any() == (sum(sizes) > 0)


def test_no_sets_give_no_sets():
    prediction = make()(vectors(0))
    assert prediction.elements.shape == (0, SLOTS, FEATURES)
    assert prediction.presence.shape == (0, SLOTS)


def test_bfloat16_autocast_stays_close():
    decoder, vector = make().float(), vectors().float()
    start = decoder.initial_points(4).detach()
    expected = decoder(vector, sizes=SIZES, initial=start)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = decoder(vector, sizes=SIZES, initial=start)
    # 8 bits of mantissa, through two layers
    torch.testing.assert_close(found.elements.float(), expected.elements, rtol=0.1, atol=0.1)
    assert found.presence.sum(dim=1).tolist() == SIZES.tolist()


@pytest.mark.slow
def test_compiled_gradients_equal_eager_ones():
    decoder, vector = make(layers=1), vectors()
    start = decoder.initial_points(4).detach()
    weights = [weight for name, weight in decoder.named_parameters() if name.startswith("layers")]

    def loss(vector, start):
        return decoder(vector, sizes=SIZES, initial=start).elements.sin().sum()

    expected = torch.autograd.grad(loss(vector, start), weights)
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(vector, start), weights), expected)


@pytest.mark.parametrize(
    ("vector", "options", "message"),
    [
        (torch.zeros(2, 3), {}, r"vector must have shape \(B, L\) = \(any, 5\)"),
        (torch.zeros(2, 5).long(), {}, "vector must be floating point"),
        (torch.zeros(2, 5), {"sizes": torch.zeros(3).long()}, "sizes must be 2 integers"),
        (torch.zeros(2, 5), {"sizes": torch.zeros(2)}, "sizes must be 2 integers"),
        (
            torch.zeros(2, 5),
            {"initial": torch.zeros(3, SLOTS, HIDDEN)},
            r"initial must have shape \(B or 1, slots, hidden\) = \(2 or 1, 4, 8\)",
        ),
    ],
)
def test_rejects_bad_input(vector, options, message):
    with pytest.raises(ValueError, match=message):
        make().float()(vector, **options)


def test_rejects_no_layers_no_slots_and_a_mask_of_numbers():
    with pytest.raises(ValueError, match="layers must be at least 1, got 0"):
        make(layers=0)
    with pytest.raises(ValueError, match="slots must be at least 1, got 0"):
        TSPNDecoder(FEATURES, 0, inputs=LATENT, hidden=HIDDEN)
    with pytest.raises(ValueError, match="target_mask must be bool"):
        make().size_loss(vectors(2), torch.ones(2, 3))


def test_rejects_target_sets_that_are_too_large():
    wide = torch.zeros(2, SLOTS + 1, dtype=torch.bool)
    assert make().size_loss(vectors(2), wide).isfinite().all()  # only the real ones count
    with pytest.raises(ValueError, match=f"at most {SLOTS} elements in a set, got {SLOTS + 1}"):
        make().size_loss(vectors(2), ~wide)


@pytest.mark.parametrize("size", [-2, 99])
def test_rejects_sizes_that_do_not_fit(size):
    decoder = make()
    sizes = torch.tensor([0, size, 1, 1])
    with pytest.raises(ValueError, match=rf"sizes must be from 0 to {decoder.slots}, got {size}"):
        decoder(vectors(), sizes=sizes)
