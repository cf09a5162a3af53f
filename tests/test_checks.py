"""What is no tensor, or no number of anything, is told by name; shapes need no numbers."""

import numpy as np
import pytest
import torch

from torchsets.decoders import DSPN, LSTMDecoder, MLPDecoder, TSPNDecoder
from torchsets.encoders import DeepSets, PointNet
from torchsets.losses import chamfer_loss
from torchsets.mlp import MLP
from torchsets.pooling import FSPool, SumPool, max_pool, sum_pool

SETS = torch.zeros(2, 3, 4)
REAL = [[True] * 3] * 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sum_pool(SETS.numpy()), "elements must be a tensor, got ndarray"),
        (lambda: max_pool(SETS, REAL), "mask must be bool with True for real elements, got list"),
        (lambda: FSPool(4)(SETS.numpy()), "elements must be a tensor, got ndarray"),
        (lambda: FSPool(4)(SETS, REAL), "mask must be bool with True for real elements, got list"),
        (lambda: DeepSets(MLP(4, 4, 4), SumPool(), MLP(4, 4, 4))(SETS, REAL), "mask must be bool"),
        (lambda: chamfer_loss(SETS, SETS, REAL), "target_mask must be bool .*, got list"),
        (lambda: SumPool().pool_flat(SETS[0], [1, 2]), "sizes must be a tensor, got list"),
        (lambda: SumPool().pool_flat(np.zeros((3, 4)), torch.tensor([3])), "values must be a ten"),
        (lambda: MLPDecoder(4, 4, slots=3, features=2)([0.0] * 4), "vector must be a tensor, got"),
        (
            lambda: TSPNDecoder(2, 3, inputs=4)(torch.zeros(2, 4), sizes=[1, 2]),
            "sizes must be a tensor, got list",
        ),
    ],
)
def test_what_is_no_tensor_is_told_by_name(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FSPool(0), "features must be at least 1, got 0"),
        (lambda: DSPN(FSPool(2), slots=3, features=0), "features must be at least 1, got 0"),
        (
            lambda: DSPN(FSPool(2), slots=3, features=2, steps=2.5),
            "steps must be an integer, got 2.5",
        ),
        (lambda: MLPDecoder(6, 0, slots=3, features=2), "hidden must be at least 1, got 0"),
        (lambda: LSTMDecoder(6, 4, slots=3, features=0), "features must be at least 1, got 0"),
    ],
)
def test_numbers_of_things_are_integers_of_at_least_one(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_the_meta_device_has_shapes():
    with torch.device("meta"):
        elements, mask = torch.zeros(2, 5, 3), torch.ones(2, 5, dtype=torch.bool)
        assert FSPool(3)(elements, mask).shape == (2, 3)
        assert FSPool(3, temperature=0.5)(elements, mask).shape == (2, 3)
        assert PointNet(3, 2, pooling=FSPool)(elements, mask).shape == (2, 2)
