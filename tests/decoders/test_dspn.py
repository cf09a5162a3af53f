import pytest
import torch
from torch import nn

from torchsets.decoders import DSPN, MLPDecoder, find_step_size
from torchsets.encoders import DeepSets, mlp_encoder, relation_encoder
from torchsets.losses import SetPredictionLoss, chamfer_loss
from torchsets.mlp import MLP
from torchsets.pooling import FSPool, SumPool
from torchsets.testing import assert_obeys_laws, random_sets

SLOTS, FEATURES, LATENT = 5, 2, 8
BOTH = pytest.mark.parametrize("gradient", ["unrolled", "implicit"])
OPTIONS = pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"clip": 0.01},
        {"tolerance": 1e-3},
        {"variable_size": False},
        {"representation_loss": "squared"},
    ],
    ids=str,
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def make(*, double=True, pairs=False, **options):
    inputs = FEATURES + options.get("variable_size", True)
    build = relation_encoder if pairs else mlp_encoder
    encoder = build(inputs, 16, LATENT, slots=SLOTS)
    decoder = DSPN(encoder, slots=SLOTS, features=FEATURES, **{"step_size": 40.0, **options})
    return decoder.double() if double else decoder


def vectors(count=3, *, scale=0.3):
    return scale * torch.randn(count, LATENT, dtype=torch.float64)


def gradients(decoder, vector, **options):
    vector = vector.detach().requires_grad_()
    prediction = decoder(vector, **options)
    loss = (prediction.elements**2).sum() + (prediction.presence * 3).sin().sum()
    inputs = [vector, *(weight for weight in decoder.parameters() if weight.requires_grad)]
    return torch.autograd.grad(loss, inputs)


def slow_descent(decoder, vector, start, presence, steps):
    """The update of the thesis, set by set."""
    trajectory, losses = [], []
    for z in vector:
        elements, mask = start.clone(), presence.clamp(0, 1)
        way, loss_way = [(elements, mask)], []
        for _ in range(steps):
            elements = elements.detach().requires_grad_()
            mask = mask.detach().requires_grad_()
            sets = torch.cat([elements, mask.unsqueeze(-1)], dim=-1).unsqueeze(0)
            difference = (decoder.encoder(sets)[0] - z).abs()
            terms = torch.where(difference < 1, difference**2 / 2, difference - 0.5)
            loss = terms.sum() / len(z)
            to_elements, to_mask = torch.autograd.grad(loss, (elements, mask))
            elements = elements - decoder.step_size * to_elements
            mask = (mask - decoder.step_size * to_mask).clamp(0, 1)
            way.append((elements, mask))
            loss_way.append(loss)
        trajectory.append(way)
        losses.append(torch.stack(loss_way))
    elements = torch.stack([torch.stack([step[0] for step in way]) for way in trajectory], dim=1)
    masks = torch.stack([torch.stack([step[1] for step in way]) for way in trajectory], dim=1)
    return elements, masks, torch.stack(losses, dim=1)


@BOTH
def test_descends_as_the_slow_loop_does(gradient):
    decoder = make(gradient=gradient)
    vector = vectors(scale=2.0)  # beyond 1, where the loss is linear
    trajectory = decoder(vector).trajectory
    with torch.no_grad():
        start, presence = decoder.initial_elements.clone(), decoder.initial_presence.clone()
    elements, presence, loss = slow_descent(decoder, vector, start, presence, 10)
    torch.testing.assert_close(trajectory.elements, elements)
    torch.testing.assert_close(trajectory.presence, presence)
    torch.testing.assert_close(trajectory.loss, loss)


@BOTH
def test_prediction_is_the_end_of_the_trajectory(gradient):
    prediction = make(gradient=gradient)(vectors(), steps=4)
    assert prediction.trajectory.elements.shape == (5, 3, SLOTS, FEATURES)
    assert prediction.trajectory.loss.shape == (4, 3)
    torch.testing.assert_close(prediction.elements, prediction.trajectory.elements[-1])
    torch.testing.assert_close(prediction.presence, prediction.trajectory.presence[-1])


@OPTIONS
@BOTH
def test_train_eval_no_grad_and_inference_mode_agree(gradient, options):
    decoder, vector = make(gradient=gradient, **options), vectors()
    expected = decoder(vector)
    with torch.no_grad():
        torch.testing.assert_close(decoder.eval()(vector), expected)
    with torch.inference_mode():
        inside = vector * 1.0  # an inference tensor
        start = expected.trajectory.elements[0] * 1.0
        torch.testing.assert_close(decoder(inside), expected)
        torch.testing.assert_close(decoder(inside, initial=start), expected)


@OPTIONS
@BOTH
def test_a_set_decodes_the_same_alone(gradient, options):
    decoder, vector = make(gradient=gradient, **options), vectors()
    together, alone = decoder(vector), decoder(vector[1:2])
    torch.testing.assert_close(alone.elements[0], together.elements[1])
    torch.testing.assert_close(alone.presence[0], together.presence[1])
    torch.testing.assert_close(alone.trajectory.loss[:, 0], together.trajectory.loss[:, 1])


@OPTIONS
@BOTH
def test_permuting_the_start_permutes_the_prediction(gradient, options):
    decoder, vector = make(gradient=gradient, **options), vectors()
    order = torch.tensor([3, 0, 4, 2, 1])
    elements = torch.randn(3, SLOTS, FEATURES, dtype=torch.float64)
    presence = torch.rand(3, SLOTS, dtype=torch.float64)
    plain = decoder(vector, initial=(elements, presence))
    permuted = decoder(vector, initial=(elements[:, order], presence[:, order]))
    torch.testing.assert_close(permuted.elements, plain.elements[:, order])
    torch.testing.assert_close(permuted.presence, plain.presence[:, order])


def test_unrolled_gradient_is_that_of_the_last_set():
    decoder = make(momentum=0.5, clip=0.02, steps=4)

    def decode(vector, start, presence):
        return decoder(vector, initial=(start, presence)).elements

    start = torch.rand(2, SLOTS, FEATURES, dtype=torch.float64, requires_grad=True)
    presence = torch.rand(2, SLOTS, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(decode, (vectors(2).requires_grad_(), start, presence))


def test_implicit_gradient_is_that_of_one_plain_step():
    decoder, vector = make(gradient="implicit", momentum=0.5, clip=0.1, steps=6), vectors()
    before = decoder(vector, steps=5)
    point = torch.cat([before.elements, before.presence.unsqueeze(-1)], dim=-1).detach()
    point[0, 0, -1] = 0.0  # presences at the border and pulled outwards have no gradient
    initial = (point[..., :-1], point[..., -1])
    decoder.momentum = 0.0
    actual = gradients(decoder, vector, steps=1, initial=initial)

    z = vector.clone().requires_grad_()
    leaf = point.requires_grad_()
    loss = nn.functional.smooth_l1_loss(decoder.encoder(leaf), z, reduction="sum") / LATENT
    (slope,) = torch.autograd.grad(loss, leaf, create_graph=True)
    q = torch.cat([-slope[..., :-1], (leaf - slope)[..., -1:].clamp(0, 1) - leaf[..., -1:]], dim=-1)
    with torch.no_grad():
        end = decoder(vector, steps=1, initial=initial)
    cotangent = torch.cat([2 * end.elements, (3 * (3 * end.presence).cos()).unsqueeze(-1)], dim=-1)
    expected = torch.autograd.grad((q * cotangent).sum(), [z, *decoder.encoder.parameters()])
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("steps", [1, 3])
def test_implicit_gradient_does_not_reach_a_given_start(steps):
    decoder, initial = make(gradient="implicit", steps=steps), torch.rand(1, SLOTS, FEATURES)
    initial = initial.double().requires_grad_()
    prediction = decoder(vectors(), initial=initial)
    (prediction.elements.sum() + prediction.trajectory.elements.sum()).backward()
    assert initial.grad is None


def test_implicit_start_is_not_trained():
    decoder = make(gradient="implicit")
    assert not decoder.initial_elements.requires_grad
    assert not decoder.initial_presence.requires_grad
    trajectory = decoder(vectors()).trajectory
    (gradient,) = torch.autograd.grad(
        trajectory.elements[:-1].sum() + trajectory.elements[-1].sum(),
        decoder.encoder.pool.weight,
        retain_graph=True,
    )
    (last,) = torch.autograd.grad(trajectory.elements[-1].sum(), decoder.encoder.pool.weight)
    torch.testing.assert_close(gradient, last)
    assert not trajectory.loss.requires_grad


def test_supervising_all_steps_of_an_implicit_decoder_is_refused():
    prediction = make(gradient="implicit")(vectors())
    target = torch.rand(3, SLOTS, FEATURES, dtype=torch.float64)
    with pytest.raises(ValueError, match='supervise must be "last"'):
        SetPredictionLoss(chamfer_loss, supervise="all")(prediction, target)


def test_momentum_is_nesterovs():
    decoder, vector = make(momentum=0.9, variable_size=False, steps=3), vectors(1)
    trajectory = decoder(vector).trajectory.elements[:, 0].detach()
    weights = decoder.initial_elements.detach().clone().requires_grad_()
    optimiser = torch.optim.SGD([weights], lr=40.0, momentum=0.9, nesterov=True)
    for step in range(3):
        encoded = decoder.encoder(weights.unsqueeze(0))
        optimiser.zero_grad()
        nn.functional.smooth_l1_loss(encoded, vector).backward()
        optimiser.step()
        torch.testing.assert_close(trajectory[step + 1], weights.detach())


def test_clip_bounds_the_gradient_of_each_set():
    vector = vectors() * torch.tensor([[1e-4], [1.0], [10.0]], dtype=torch.float64)
    free, clipped = (
        make(variable_size=False, steps=1),
        make(variable_size=False, steps=1, clip=0.01),
    )
    clipped.load_state_dict(free.state_dict())
    moves = [
        (trajectory.elements[1] - trajectory.elements[0]).flatten(1)
        for trajectory in (free(vector).trajectory, clipped(vector).trajectory)
    ]
    norms = moves[0].norm(dim=1, keepdim=True) / 40
    assert norms.min() < 0.01 < norms.max()
    torch.testing.assert_close(moves[1], moves[0] * (0.01 / norms).clamp(max=1))


@BOTH
def test_a_set_below_the_tolerance_stays(gradient):
    free = make(gradient=gradient, steps=30)
    vector = free.encode(torch.rand(4, SLOTS, FEATURES, dtype=torch.float64)).detach()
    losses = free(vector).trajectory.loss
    tolerance = losses[10].median().item()
    stopping = make(gradient=gradient, steps=30, tolerance=tolerance)
    stopping.load_state_dict(free.state_dict())
    expected, stopped = free(vector).trajectory, stopping(vector).trajectory
    assert stopped.elements.shape == expected.elements.shape
    for one in range(4):
        below = (losses[:, one] < tolerance).nonzero().flatten()
        end = int(below[0]) if len(below) else 30
        assert (end < 30) or losses[-1, one] >= tolerance
        torch.testing.assert_close(
            stopped.elements[: end + 1, one], expected.elements[: end + 1, one]
        )
        torch.testing.assert_close(
            stopped.elements[end:, one], expected.elements[end, one].expand(31 - end, -1, -1)
        )
        torch.testing.assert_close(
            stopped.loss[end:, one], expected.loss[min(end, 29), one].expand(30 - end)
        )


@BOTH
def test_stopping_early_saves_evaluations(gradient):
    calls = []
    decoder = make(gradient=gradient, steps=50, tolerance=1e9)
    decoder.encoder.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        decoder(vectors())
    assert len(calls) == 1


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_without_gradients_only_the_moving_sets_are_encoded(momentum):
    seen = []
    decoder = make(gradient="implicit", steps=30, momentum=momentum)
    vector = decoder.encode(torch.rand(6, SLOTS, FEATURES, dtype=torch.float64)).detach()
    with torch.no_grad():
        losses = decoder(vector).trajectory.loss
        decoder.tolerance = 1.001 * losses[8].median().item()
        decoder.encoder.register_forward_hook(lambda _, sets, encoded: seen.append(len(encoded)))
        together = decoder(vector).trajectory
        moving = (losses >= decoder.tolerance).cumprod(dim=0).sum(dim=1).tolist()
        assert seen == [6, *(count for count in moving[:-1] if count)]
        alone = [decoder(one).trajectory for one in vector.split(1)]
    assert 0 < moving[-1] < moving[0] or 0 in moving
    for parts in zip(together, *alone, strict=True):
        torch.testing.assert_close(parts[0], torch.cat(parts[1:], dim=1))


def test_frozen_sets_still_get_the_gradient_of_the_steps_before():
    decoder, vector = make(steps=1, step_size=5.0), vectors(1)
    before, after = decoder(vector, steps=2).trajectory.loss[:, 0].tolist()
    assert after < before
    stopping = make(steps=6, step_size=5.0, tolerance=(before + after) / 2)
    stopping.load_state_dict(decoder.state_dict())
    torch.testing.assert_close(gradients(stopping, vector), gradients(decoder, vector))


def test_start_may_be_one_for_all_or_one_for_each():
    decoder, vector = make(), vectors()
    elements = torch.rand(1, SLOTS, FEATURES, dtype=torch.float64)
    one, each = (
        decoder(vector, initial=elements),
        decoder(vector, initial=elements.expand(3, -1, -1)),
    )
    torch.testing.assert_close(one, each)
    torch.testing.assert_close(one.trajectory.elements[0], elements.expand(3, -1, -1))
    assert (one.trajectory.presence[0] == 0.5).all()


def test_start_made_by_a_module_is_refined_and_trained():
    decoder, vector = make(), vectors()
    maker = MLPDecoder(LATENT, 16, slots=SLOTS, features=FEATURES).double()
    start = maker(vector)
    refined = decoder(vector, initial=start)
    torch.testing.assert_close(refined.trajectory.elements[0], start.elements)
    torch.testing.assert_close(refined.trajectory.presence[0], start.presence)
    refined.elements.sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in maker.parameters())


def test_given_presences_are_clamped():
    decoder = make()
    given = torch.tensor([[-1.0, 2.0, 0.3, 0.0, 1.0]], dtype=torch.float64)
    elements = torch.rand(1, SLOTS, FEATURES, dtype=torch.float64)
    presence = decoder(vectors(), initial=(elements, given)).trajectory.presence
    assert presence[0, 0].tolist() == [0, 1, 0.3, 0, 1]
    assert presence.min() >= 0
    assert presence.max() <= 1


def test_fixed_sizes_have_presence_one_and_no_presence_to_learn():
    decoder = make(variable_size=False)
    prediction = decoder(vectors())
    assert (prediction.presence == 1).all()
    assert prediction.trajectory.presence.shape == (11, 3, SLOTS)
    assert decoder.initial_presence is None


def test_frozen_decoder_records_nothing():
    decoder = make().requires_grad_(False)
    assert not decoder(vectors()).elements.requires_grad


@pytest.mark.parametrize("sizes", [[5, 5], [3, 1, 4], [0, 2]], ids=str)
def test_encoding_obeys_the_laws(sizes, generator):
    decoder = make()
    decoder.slots = 20  # room for the padding that the laws add

    def encode(elements, mask):
        return decoder.encode(elements, mask)

    assert_obeys_laws(encode, *random_sets(sizes, FEATURES, generator))


def test_encode_appends_the_mask_and_zero_slots():
    seen = []
    decoder = make()
    decoder.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
    elements = torch.tensor([[[1.0, 2.0], [torch.nan, torch.inf], [5.0, 6.0]]]).double()
    decoder.encode(elements, torch.tensor([[True, False, True]]))
    (arguments,) = seen
    assert len(arguments) == 1  # never a mask
    expected = [[1, 2, 1], [0, 0, 0], [5, 6, 1], [0, 0, 0], [0, 0, 0]]
    assert arguments[0].tolist() == [expected]


def test_representation_loss_is_zero_for_the_set_itself(generator):
    decoder = make()
    elements, mask = random_sets([3, 5, 0], FEATURES, generator)
    vector = decoder.encode(elements, mask)
    assert (decoder.representation_loss(vector, elements, mask) == 0).all()
    apart = decoder.representation_loss(vector + 2.0, elements, mask)
    torch.testing.assert_close(apart, torch.full_like(apart, 1.5))  # Huber: 2 - 1/2
    squared = make(representation_loss="squared")
    vector = squared.encode(elements, mask)
    apart = squared.representation_loss(vector + 2.0, elements, mask)
    torch.testing.assert_close(apart, torch.full_like(apart, 2.0))


@pytest.mark.slow
@pytest.mark.parametrize(("gradient", "pairs"), [("unrolled", False), ("implicit", True)])
def test_compiled_agrees(gradient, pairs):
    decoder, vector = make(gradient=gradient, pairs=pairs, momentum=0.5, steps=2), vectors()
    compiled = torch.compile(decoder, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(vector), decoder(vector))
    torch.testing.assert_close(gradients(compiled, vector), gradients(decoder, vector))


@pytest.mark.slow
@BOTH
def test_exported_agrees(gradient):
    decoder, vector = make(gradient=gradient, steps=2, tolerance=1e-3, clip=1.0).eval(), vectors()
    exported = torch.export.export(decoder, (vector,)).module()
    torch.testing.assert_close(exported(vector), decoder(vector), check_dtype=True)


def test_works_inside_torch_func():
    decoder, vector = make(steps=2), vectors()

    def total(vector):
        return decoder(vector).elements.square().sum()

    expected = vector.clone().requires_grad_()
    total(expected).backward()
    torch.testing.assert_close(torch.func.grad(total)(vector), expected.grad)


@BOTH
def test_bfloat16_autocast_stays_near(gradient):
    decoder = make(double=False, gradient=gradient, step_size=1.0)
    vector = vectors().float()
    expected = decoder(vector)
    with torch.autocast("cpu", torch.bfloat16):
        prediction = decoder(vector)
    prediction.elements.sum().backward()
    assert all(
        weight.grad.isfinite().all() for weight in decoder.parameters() if weight.requires_grad
    )
    difference = (prediction.elements - expected.elements).abs().mean()
    moved = (expected.elements - expected.trajectory.elements[0]).abs().mean()
    assert difference < 0.2 * moved  # bfloat16 has three digits: close values sort otherwise


@BOTH
def test_no_sets_give_no_sets(gradient):
    prediction = make(gradient=gradient)(vectors(0))
    assert prediction.elements.shape == (0, SLOTS, FEATURES)
    assert prediction.trajectory.loss.shape == (10, 0)


@BOTH
def test_state_dict_is_the_same_for_both_gradients(gradient):
    assert list(make(gradient=gradient).state_dict()) == list(make().state_dict())


def test_any_encoder_will_do():
    encoder = DeepSets(MLP(3, 16, 16), SumPool(), MLP(16, 16, LATENT))
    decoder = DSPN(encoder, slots=SLOTS, features=FEATURES, step_size=0.1)
    losses = decoder(vectors().float()).trajectory.loss
    assert (losses[-1] < losses[0]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slots": 0}, "slots must be at least 1, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"step_size": 0.0}, r"step_size must be above 0, got 0\.0"),
        ({"momentum": 1.0}, r"momentum must be at least 0 and below 1, got 1\.0"),
        ({"clip": 0.0}, r"clip must be above 0 and finite, or None, got 0\.0"),
        ({"clip": float("inf")}, "clip must be above 0 and finite, or None, got inf"),
        ({"representation_loss": "l1"}, 'must be "huber" or "squared", got \'l1\''),
        ({"gradient": "none"}, 'gradient must be "unrolled" or "implicit", got \'none\''),
    ],
)
def test_rejects_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        DSPN(nn.Identity(), **{"slots": 2, "features": 1, **options})


@pytest.mark.parametrize(
    ("vector", "options", "message"),
    [
        (torch.zeros(3), {}, r"vector must have shape \(B, L\)"),
        (torch.zeros(3, LATENT).long(), {}, "vector must be floating point"),
        (torch.zeros(3, 1), {}, r"vector must have the shape of the encoded sets, \(3, 8\)"),
        (torch.zeros(3, LATENT), {"steps": 0}, "steps must be at least 1"),
        (
            torch.zeros(3, LATENT),
            {"initial": torch.zeros(2, SLOTS, FEATURES)},
            r"initial elements must have shape .* = \(3 or 1, 5, 2\), got \(2, 5, 2\)",
        ),
        (
            torch.zeros(3, LATENT),
            {"initial": (torch.zeros(3, SLOTS, FEATURES), torch.zeros(SLOTS))},
            r"initial presence must have shape .* = \(3 or 1, 5\), got \(5,\)",
        ),
    ],
)
def test_rejects_bad_input(vector, options, message):
    with pytest.raises(ValueError, match=message):
        make(double=False)(vector, **options)


@pytest.mark.parametrize(
    "encoder", [MLP(FEATURES, 8, LATENT), nn.Identity()], ids=["mlp", "fspool"]
)
@pytest.mark.parametrize("call", ["forward", "encode", "find_step_size"])
def test_an_encoder_of_the_wrong_width_is_told_what_it_got(encoder, call):
    decoder = DSPN(DeepSets(encoder, FSPool(LATENT)), slots=SLOTS, features=FEATURES)
    vector, elements = torch.zeros(4, LATENT), torch.zeros(4, SLOTS, FEATURES)
    calls = {
        "forward": lambda: decoder(vector),
        "encode": lambda: decoder.encode(elements),
        "find_step_size": lambda: find_step_size(decoder, vector),
    }
    message = r"encoder must accept .* \(4, 5, 3\): \(B, slots, features \+ 1\) with the presence"
    with pytest.raises(ValueError, match=message):
        calls[call]()


def test_rejects_sets_that_do_not_fit():
    with pytest.raises(ValueError, match="elements must have at most 5 slots, got 6"):
        make().encode(torch.zeros(1, 6, FEATURES, dtype=torch.float64))
