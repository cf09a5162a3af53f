import pytest
import torch

from torchsets.lab.experiments.objects import matching_error
from torchsets.lab.experiments.scenes.configs import STATES
from torchsets.lab.experiments.scenes.models import (
    Batch,
    DescentAutoEncoder,
    build,
    with_presence,
)
from torchsets.lab.experiments.scenes.states import draw_batch, load_states

SMOKE = STATES.config_at("smoke")
NAMES = ["implicit", "unrolled", "mlp", "lstm", "tspn"]


def make(name, pooling="fspool", config=SMOKE):
    torch.manual_seed(0)
    return build(config, name, pooling, slots=6)


@pytest.fixture
def batch():
    return draw_batch(load_states("3-6", 4, seed=0), torch.arange(4), torch.Generator())


@pytest.mark.parametrize("pooling", ["fspool", "sum", "max"])
@pytest.mark.parametrize("name", NAMES)
def test_every_weight_that_is_trained_has_a_gradient(name, pooling, batch):
    model = make(name, pooling)
    model.loss(batch).backward()
    # The bias before a sum of differences or a maximum may cancel; weights may not.
    silent = [
        key
        for key, weight in model.named_parameters()
        if weight.requires_grad and not (weight.grad is not None and weight.grad.any())
    ]
    assert [key for key in silent if key.endswith("weight")] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_objects_does_not_matter(name, batch):
    model = make(name)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    turned = Batch(batch.states[:, order], batch.mask[:, order], batch.noise)
    with torch.no_grad():
        first = model(batch, generator=torch.Generator().manual_seed(0))
        second = model(turned, generator=torch.Generator().manual_seed(0))
    # float32, whose sums depend on the order
    torch.testing.assert_close(first.elements, second.elements, rtol=1e-3, atol=1e-4)


def test_a_descent_encodes_with_the_encoder_that_it_descends_on(batch):
    model = make("implicit")
    assert isinstance(model, DescentAutoEncoder)
    encoded = model.decoder.encoder(with_presence(batch))
    torch.testing.assert_close(model.decoder.encode(batch.states, batch.mask), encoded)
    assert not model.decoder.initial_elements.requires_grad


def test_a_descent_starts_at_the_noise_of_the_batch_with_even_presences(batch):
    with torch.no_grad():
        way = make("implicit")(batch).trajectory
    torch.testing.assert_close(way.elements[0], 0.1 * batch.noise)
    assert (way.presence[0] == 0.5).all()


def test_preparing_measures_the_step_size(batch):
    model = make("implicit")
    before = model.decoder.step_size
    model.prepare(batch)
    assert model.decoder.step_size != before


def test_the_unrolled_loss_is_that_of_the_last_set_or_the_mean_over_all(batch):
    last, every = (
        make("unrolled"),
        make("unrolled", config=STATES.config_at("smoke", supervise="all")),
    )
    prediction = last(batch)
    target = with_presence(batch)
    errors = [
        matching_error(torch.cat([elements, presence.unsqueeze(-1)], dim=-1), target).mean()
        for elements, presence in zip(*prediction.trajectory[:2], strict=True)
    ]
    torch.testing.assert_close(last.loss(batch), errors[-1])
    torch.testing.assert_close(every.loss(batch), torch.stack(errors).mean())


def test_the_loss_of_a_tspn_has_its_sizes(batch):
    model = make("tspn")
    before = model.loss(batch)
    with torch.no_grad():
        model.decoder.size[-1].bias[0] += 20  # sure that sets are empty, which none is
    assert model.loss(batch) > before + 0.1
