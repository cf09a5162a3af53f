import shutil
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


@pytest.fixture
def compiler():
    """What torch.compile needs for its default backend; else the test is skipped."""
    if shutil.which("g++") is None:
        pytest.skip("inductor needs a C++ compiler: apt install g++")
    if " " in torch.__file__:
        pytest.skip("inductor does not quote the path of torch, which has a space here")
