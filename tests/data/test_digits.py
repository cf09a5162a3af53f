import torch
from sklearn.datasets import load_digits

from torchsets.data import digit_point_sets


def test_the_points_are_the_pixels_with_ink():
    sets, labels = digit_point_sets()
    images = load_digits()
    assert labels.tolist() == images.target.tolist()
    drawn = torch.zeros(8, 8)
    for x, y, ink in sets.to_list()[7]:
        drawn[round((1 - y.item()) * 3.5), round((x.item() + 1) * 3.5)] = ink * 16
    assert drawn.tolist() == images.images[7].tolist()
