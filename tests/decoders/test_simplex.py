import itertools

import pytest
import torch

from torchsets.decoders import project_simplex


def nearest_by_trying(point):
    """Every choice of positive features gives one candidate: the nearest valid one is right."""
    best, distance = None, float("inf")
    for positive in itertools.product([0.0, 1.0], repeat=len(point)):
        chosen = torch.tensor(positive, dtype=point.dtype)
        if not any(positive):
            continue
        candidate = (point - ((point * chosen).sum() - 1) / chosen.sum()) * chosen
        if (candidate >= 0).all() and (candidate - point).norm() < distance:
            best, distance = candidate, (candidate - point).norm()
    return best


def test_agrees_with_the_author(golden):
    arrays = golden("idspn_project_simplex")
    elements = arrays["x"].clone().requires_grad_()
    projected = project_simplex(elements)
    (projected * arrays["cot"]).sum().backward()
    torch.testing.assert_close(projected, arrays["out"], rtol=0, atol=1e-9)
    torch.testing.assert_close(elements.grad, arrays["grad_x"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("features", [1, 2, 5])
def test_is_the_nearest_point(features, scale, generator):
    points = scale * torch.randn(20, features, dtype=torch.float64, generator=generator)
    expected = torch.stack([nearest_by_trying(point) for point in points])
    torch.testing.assert_close(project_simplex(points), expected)


def test_ties_corners_and_no_elements():
    points = torch.tensor([[3.0, 3.0, 3.0], [0.0, 1.0, 0.0], [5.0, 5.0, -9.0]])
    expected = torch.tensor([[1 / 3, 1 / 3, 1 / 3], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
    torch.testing.assert_close(project_simplex(points), expected)
    assert project_simplex(torch.zeros(0, 4, 3)).shape == (0, 4, 3)


def test_gradients(generator):
    points = torch.randn(2, 3, 4, dtype=torch.float64, generator=generator).requires_grad_()
    assert torch.autograd.gradcheck(project_simplex, points)
    assert torch.autograd.gradgradcheck(lambda x: project_simplex(x.square()), points)


def test_far_from_the_simplex_it_still_arrives():
    far = torch.tensor([[1e8, 0.0], [2e7, 1.0], [3e7, 3e7]])
    expected = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    assert torch.equal(project_simplex(far), expected)
    half = torch.tensor([[300.0, 0.0]], dtype=torch.bfloat16)
    assert project_simplex(half).tolist() == [[1.0, 0.0]]
