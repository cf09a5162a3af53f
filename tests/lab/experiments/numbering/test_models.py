import pytest
import torch

from torchsets.lab.experiments import find_experiment
from torchsets.lab.experiments.numbering.configs import NUMBERERS
from torchsets.lab.experiments.numbering.models import build_numberer
from torchsets.lab.experiments.numbering.numbering import draw_sets

SMALL = find_experiment("numbering").config_at("smoke")


@pytest.mark.parametrize("name", NUMBERERS)
def test_permuting_elements_and_noise_permutes_the_scores(name, generator):
    model = build_numberer(SMALL, name).eval()
    order = torch.tensor([2, 5, 0, 3, 1, 4])
    labels, _ = draw_sets(8, 6, 2, generator)
    inputs = torch.nn.functional.one_hot(labels, 2).float()
    noise = torch.randn(8, 6, model.noise, generator=generator)
    plain, permuted = model(inputs, noise), model(inputs[:, order], noise[:, order])
    equivariant = torch.allclose(permuted, plain[:, order], atol=1e-4)
    # These know their slots: by a code, by reading in order, or by ranks of equal elements.
    assert equivariant == (name not in ("transformer-position", "bilstm", "fs-unpool"))


@pytest.mark.parametrize("name", NUMBERERS)
def test_which_models_can_tell_equal_elements_apart(name, generator):
    model = build_numberer(SMALL, name).eval()
    inputs = torch.tensor([1.0, 0.0]).expand(1, 6, 2)
    scores = model(inputs, torch.randn(1, 6, model.noise, generator=generator))
    apart = (scores[0] - scores[0, :1]).abs().max() > 1e-4
    assert apart == (name not in ("deep-sets", "transformer"))


def test_sets_numberers_give_points_of_the_simplex_and_train(generator):
    for name in ("dspn", "idspn"):
        model = build_numberer(SMALL, name)
        inputs = torch.nn.functional.one_hot(draw_sets(3, 6, 2, generator)[0], 2).float()
        scores = model(inputs, torch.randn(3, 6, 6, generator=generator))
        torch.testing.assert_close(scores.sum(dim=-1), torch.ones(3, 6))
        scores.square().sum().backward()
        learned = {n: w for n, w in model.named_parameters() if w.requires_grad}
        assert "decoder.initial_elements" not in learned
        assert all(weight.grad is not None for weight in learned.values())
