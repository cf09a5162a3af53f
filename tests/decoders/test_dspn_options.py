"""DSPN with a projection, a context of each slot, and a pull towards the start."""

import pytest
import torch
from torch import nn

from torchsets.decoders import DSPN, find_step_size, project_simplex
from torchsets.encoders import mlp_encoder

SLOTS, FEATURES, CONTEXT, LATENT = 5, 3, 2, 8
BOTH = pytest.mark.parametrize("gradient", ["unrolled", "implicit"])
OPTIONS = pytest.mark.parametrize(
    "options",
    [
        {"project": "simplex"},
        {"pull": 0.5},
        {"project": "simplex", "pull": 0.5, "momentum": 0.9, "clip": 0.05},
        {"project": "simplex", "pull": 0.5, "variable_size": False, "tolerance": 1e-3},
    ],
    ids=str,
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def make(**options):
    inputs = FEATURES + CONTEXT + options.get("variable_size", True)
    encoder = mlp_encoder(inputs, 16, LATENT, slots=SLOTS)
    options = {"step_size": 40.0, "steps": 4, **options}
    return DSPN(encoder, slots=SLOTS, features=FEATURES, **options).double()


def inputs(count=3):
    vector = 0.3 * torch.randn(count, LATENT, dtype=torch.float64)
    return vector, torch.randn(count, SLOTS, CONTEXT, dtype=torch.float64)


def starts(count=3):
    elements = torch.randn(count, SLOTS, FEATURES, dtype=torch.float64)
    return elements, torch.rand(count, SLOTS, dtype=torch.float64)


def gradients(decoder, *tensors):
    vector, context = (tensor.detach().requires_grad_() for tensor in tensors)
    prediction = decoder(vector, context=context)
    loss = (prediction.elements * torch.linspace(-1, 1, FEATURES)).sum()
    loss = loss + (prediction.presence * 3).sin().sum()
    wanted = [vector, context, *(w for w in decoder.parameters() if w.requires_grad)]
    return torch.autograd.grad(loss, wanted, allow_unused=True)


def inner_loss(decoder, elements, presence, z, context, start):
    """Of one set, term by term; start is its elements and presences side by side."""
    seen = torch.cat([elements, context, presence.unsqueeze(-1)], dim=-1)
    difference = (decoder.encoder(seen.unsqueeze(0))[0] - z).abs()
    terms = torch.where(difference < 1, difference**2 / 2, difference - 0.5)
    now = torch.cat([elements, presence.unsqueeze(-1)], dim=-1)
    away = (now - start) ** 2 / 2
    return terms.sum() / len(terms) + decoder.pull * away.sum() / away.numel()


@BOTH
def test_descends_as_the_slow_loop_does(gradient):
    decoder = make(gradient=gradient, project="simplex", pull=0.5)
    (vector, context), (elements, presence) = inputs(), starts()
    trajectory = decoder(vector, initial=(elements, presence), context=context).trajectory
    for one in range(3):
        way, mask = project_simplex(elements[one]), presence[one]
        start = torch.cat([way, mask.unsqueeze(-1)], dim=-1)
        for step in range(4):
            torch.testing.assert_close(trajectory.elements[step, one], way)
            way, mask = way.detach().requires_grad_(), mask.detach().requires_grad_()
            loss = inner_loss(decoder, way, mask, vector[one], context[one], start)
            torch.testing.assert_close(trajectory.loss[step, one], loss)
            to_way, to_mask = torch.autograd.grad(loss, (way, mask))
            way = project_simplex(way - 40 * to_way)
            mask = (mask - 40 * to_mask).clamp(0, 1)
        torch.testing.assert_close(trajectory.elements[4, one], way)
        torch.testing.assert_close(trajectory.presence[4, one], mask)


@OPTIONS
@BOTH
def test_elements_stay_on_the_simplex(gradient, options):
    vector, context = inputs()
    elements = make(gradient=gradient, **options)(vector, context=context).trajectory.elements
    on_it = (elements >= 0).all() and torch.allclose(elements.sum(dim=-1), torch.ones(()).double())
    assert bool(on_it) == ("project" in options)


@OPTIONS
@BOTH
def test_permuting_start_and_context_permutes_the_prediction(gradient, options):
    decoder, (vector, context) = make(gradient=gradient, **options), inputs()
    elements, presence = starts()
    order = torch.tensor([3, 0, 4, 2, 1])
    plain = decoder(vector, initial=(elements, presence), context=context)
    moved = (elements[:, order], presence[:, order])
    permuted = decoder(vector, initial=moved, context=context[:, order])
    torch.testing.assert_close(permuted.elements, plain.elements[:, order])
    torch.testing.assert_close(permuted.presence, plain.presence[:, order])
    other = decoder(vector, initial=(elements, presence), context=context[:, order])
    assert not torch.allclose(other.elements, plain.elements)


@OPTIONS
@BOTH
def test_a_set_decodes_the_same_alone_and_without_gradients(gradient, options):
    decoder, (vector, context) = make(gradient=gradient, **options), inputs()
    together, alone = (
        decoder(vector, context=context),
        decoder(vector[1:2], context=context[1:2]),
    )
    torch.testing.assert_close(alone.elements[0], together.elements[1])
    torch.testing.assert_close(alone.trajectory.loss[:, 0], together.trajectory.loss[:, 1])
    with torch.inference_mode():
        torch.testing.assert_close(decoder(vector * 1.0, context=context * 1.0), together)
    assert decoder(vector[:0], context=context[:0]).elements.shape == (0, SLOTS, FEATURES)


@pytest.mark.parametrize("project", ["simplex", torch.tanh, None])
def test_unrolled_gradient_is_that_of_the_last_set(project):
    decoder = make(momentum=0.5, clip=0.02, steps=3, pull=0.5, project=project)

    def decode(vector, context, elements, presence):
        prediction = decoder(vector, initial=(elements, presence), context=context)
        return prediction.elements, prediction.presence

    given = [tensor.requires_grad_() for tensor in (*inputs(2), *starts(2))]
    assert torch.autograd.gradcheck(decode, given)


def test_implicit_gradient_is_that_of_one_plain_step():
    decoder = make(gradient="implicit", momentum=0.5, clip=0.1, project="simplex", pull=0.5)
    vector, context = inputs()
    actual = gradients(decoder, vector, context)
    trajectory = decoder(vector, context=context).trajectory
    leaves = [vector.clone().requires_grad_(), context.clone().requires_grad_()]
    start = torch.cat(
        [project_simplex(decoder.initial_elements), decoder.initial_presence.unsqueeze(-1)], dim=-1
    )
    total = 0
    for one in range(3):
        point = trajectory.elements[3, one].detach().requires_grad_()
        mask = trajectory.presence[3, one].detach().requires_grad_()
        loss = inner_loss(decoder, point, mask, leaves[0][one], leaves[1][one], start)
        slope, mask_slope = torch.autograd.grad(loss, (point, mask), create_graph=True)
        q = project_simplex(point - slope)
        total = total + (q * torch.linspace(-1, 1, FEATURES)).sum()
        end = trajectory.presence[4, one].detach()
        total = total + ((mask - mask_slope).clamp(0, 1) * 3 * (3 * end).cos()).sum()
    wanted = [*leaves, *(w for w in decoder.parameters() if w.requires_grad)]
    torch.testing.assert_close(actual, torch.autograd.grad(total, wanted))


def test_a_pull_trains_the_start_of_an_implicit_decoder():
    vector, context = inputs()
    for pull in (0.0, 0.5):
        decoder = make(gradient="implicit", pull=pull, variable_size=False)
        assert decoder.initial_elements.requires_grad == (pull > 0)
        decoder(vector, context=context).elements.sum().backward()
        if pull:  # (y - start)^2 / 2, mean over slots and features: three sets add up
            expected = torch.full((SLOTS, FEATURES), 3 * pull / (SLOTS * FEATURES))
            torch.testing.assert_close(decoder.initial_elements.grad, expected.double())


@BOTH
def test_a_strong_pull_keeps_sets_near_the_start(gradient):
    vector, context = inputs()
    moves = []
    for pull in (0.0, 1.0):
        decoder = make(gradient=gradient, pull=pull, steps=100, step_size=5.0)
        trajectory = decoder(vector, context=context).trajectory
        moves.append((trajectory.elements[-1] - trajectory.elements[0]).norm())
    assert moves[1] < 0.9 * moves[0]


def test_a_context_can_be_made_from_the_start():
    decoder = make(variable_size=False, pull=0.5)
    vector, _ = inputs()
    elements, _ = starts()

    def decode(elements):
        return decoder(vector, initial=elements, context=elements[..., :CONTEXT]).elements

    assert torch.autograd.gradcheck(decode, elements.requires_grad_())


def test_encode_puts_the_context_before_the_presence():
    seen = []
    decoder = make()
    decoder.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    elements = torch.tensor([[[1.0, 2.0, 3.0], [torch.nan] * 3]], dtype=torch.float64)
    context = torch.arange(10.0, dtype=torch.float64).view(1, SLOTS, CONTEXT)
    mask = torch.tensor([[True, False]])
    vector = decoder.encode(elements, mask, context=context)
    expected = [[1, 2, 3, 0, 1, 1], [0, 0, 0, 2, 3, 0], [0, 0, 0, 4, 5, 0]]
    assert seen[0][0, :3].tolist() == expected
    assert (decoder.representation_loss(vector, elements, mask, context=context) == 0).all()


@pytest.mark.slow
def test_compiled_agrees():
    decoder = make(project="simplex", pull=0.5, steps=1)
    given = inputs()
    compiled = torch.compile(decoder, backend="aot_eager", fullgraph=True)
    expected = decoder(given[0], context=given[1])
    torch.testing.assert_close(compiled(given[0], context=given[1]), expected)
    torch.testing.assert_close(gradients(compiled, *given), gradients(decoder, *given))


@pytest.mark.slow
def test_exported_agrees_on_more_sets():
    decoder = make(gradient="implicit", project="simplex", pull=0.5, steps=1).eval()
    vector, context = inputs()
    sizes = {0: torch.export.Dim("batch")}
    program = torch.export.export(
        decoder,
        (vector,),
        {"context": context},
        dynamic_shapes={"vector": sizes, "context": sizes},
    ).module()
    vector, context = torch.cat([vector, vector + 1]), torch.cat([context, context - 1])
    expected = decoder(vector, context=context)
    torch.testing.assert_close(program(vector, context=context), expected)


def test_step_size_with_a_context():
    decoder, (vector, context) = make(pull=0.5), inputs()
    decoder.step_size = find_step_size(decoder, vector, context=context)
    elements = decoder(vector, context=context, steps=1).trajectory.elements
    start = elements[0]
    spread = (start - start.mean(dim=1, keepdim=True)).square().sum(dim=-1).mean().sqrt()
    moved = (elements[1] - start).norm(dim=-1).median()
    torch.testing.assert_close(moved, 0.1 * spread)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"project": "ball"}, "project must be \"simplex\" or a function, got 'ball'"),
        ({"pull": -1.0}, r"pull must be at least 0, got -1\.0"),
    ],
)
def test_rejects_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        DSPN(nn.Identity(), slots=2, features=1, **options)


def test_rejects_bad_input():
    decoder, (vector, context) = make(), inputs()
    with pytest.raises(
        ValueError, match=r"context must have shape \(B, slots, C\) = \(3, 5, any\)"
    ):
        decoder(vector, context=context[:1])
    with pytest.raises(ValueError, match="context must be floating point"):
        decoder(vector, context=context.long())
    with pytest.raises(ValueError, match=r"encoder must accept .* before the presence the context"):
        decoder(vector)
    decoder.project = lambda elements: elements.sum(dim=-1, keepdim=True)
    with pytest.raises(
        ValueError, match=r"project must keep the shape .* \(3, 5, 3\), got \(3, 5, 1\)"
    ):
        decoder(vector, context=context)
