import pytest
import torch

from torchsets.counting import count_features


def test_agrees_with_the_author(golden):
    data = golden("count_one_hot")
    count = data["scores"].squeeze(1).clone().requires_grad_()
    features = count_features(count, objects=10)
    torch.testing.assert_close(features, data["out"])
    (features * data["cot"]).sum().backward()
    torch.testing.assert_close(count.grad, data["grad_scores"].squeeze(1))


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0.0, [1, 0, 0]),
        (1.25, [0, 0.75, 0.25]),
        (2.0, [0, 0, 1]),
        (7.0, [0, 0, 1]),
        (-1, [1, 0, 0]),
    ],
)
def test_features_of_known_counts(count, expected):
    features = count_features(torch.tensor(float(count)), objects=2)
    assert features.tolist() == expected


def test_any_shape_of_counts_works():
    assert count_features(torch.zeros(2, 0, 3), objects=4).shape == (2, 0, 3, 5)


def test_rejects_whole_numbers():
    with pytest.raises(ValueError, match="count must be floating point"):
        count_features(torch.tensor([2]), objects=2)
