import pytest
import torch

from torchsets.lab.experiments.mnist.classify import AUTO_ENCODER_OF
from torchsets.lab.experiments.mnist.configs import ROWS, Classify, Reconstruct
from torchsets.lab.experiments.mnist.models import (
    build_auto_encoder,
    build_classifier,
    encoder_of,
)
from torchsets.testing import assert_obeys_laws


def test_with_a_narrow_classifier_it_has_about_the_parameters_of_the_thesis():
    model = build_classifier(Classify(classifier_hidden=16), "fspool")
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == pytest.approx(3820, rel=0.01)


@pytest.mark.parametrize("temperature", [None, 1.0])
@pytest.mark.parametrize("pooling", ROWS)
def test_the_classifiers_obey_the_laws(pooling, temperature, generator):
    torch.manual_seed(0)
    model = build_classifier(Classify(), pooling).double()
    model.set_temperature(temperature)
    elements = torch.rand(4, 6, 2, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[True] * 6, [True, False] * 3, [False] * 6, [False] * 5 + [True]])
    assert_obeys_laws(model, elements, mask)


@pytest.mark.parametrize("pooling", ROWS)
def test_the_weights_of_an_auto_encoder_give_a_classifier_the_same_vector(pooling, generator):
    torch.manual_seed(0)
    sizes = {"hidden": 8, "latent": 4}
    auto_encoder = build_auto_encoder(Reconstruct(slots=12, **sizes), AUTO_ENCODER_OF[pooling])
    model = build_classifier(Classify(**sizes), pooling)
    sets, mask = torch.rand(3, 9, 2, generator=generator), torch.ones(3, 9, dtype=torch.bool)
    if pooling == "fspool":
        expected, _ = auto_encoder.encode(sets, mask)
        model.set_temperature(auto_encoder.temperature)
    else:
        expected = auto_encoder.encoder(sets, mask)
    assert not torch.allclose(model.encoder(sets, mask), expected)
    model.encoder.load_state_dict(encoder_of(auto_encoder).state_dict())
    torch.testing.assert_close(model.encoder(sets, mask), expected)


def test_a_low_temperature_is_the_exact_sort_and_a_high_one_is_not(generator):
    torch.manual_seed(0)
    model = build_classifier(Classify(), "fspool")
    sets, mask = torch.rand(4, 20, 2, generator=generator), torch.ones(4, 20, dtype=torch.bool)
    scores = {}
    for temperature in (1.0, 1e-4, None):
        model.set_temperature(temperature)
        scores[temperature] = model(sets, mask)
    cold, warm = ((scores[one] - scores[None]).abs().max() for one in (1e-4, 1.0))
    assert 0 < warm
    assert cold < 0.05 * warm


def test_more_layers_come_before_the_pooling():
    counts = [len(build_classifier(Classify(), "sum", layers=n).encoder.inner) for n in (2, 3)]
    assert counts == [3, 5]  # with the ReLUs between them
