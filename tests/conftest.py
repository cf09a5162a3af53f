from pathlib import Path

import numpy as np
import pytest
import torch

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def golden():
    """Read a file of the author's numbers: a dict of tensors, and of arrays of strings."""

    def read(name):
        with np.load(GOLDEN / f"{name}.npz") as arrays:
            found = {key: arrays[key] for key in arrays.files}
        return {
            key: array if array.dtype.kind == "U" else torch.from_numpy(array)
            for key, array in found.items()
        }

    return read
