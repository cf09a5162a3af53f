import pytest

from torchsets.lab.experiments import find_experiment
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.values import config_from_overrides


@pytest.fixture
def run_smoke(tmp_path):
    """Run an experiment at scale smoke with some overrides, in a folder of that name."""

    def run(name, *overrides, folder="run"):
        config = config_from_overrides(find_experiment(name), overrides, "smoke")
        return run_experiment(name, config, scale="smoke", folder=tmp_path / folder)

    return run


@pytest.fixture
def cells():
    """The numbers of a run by table, model and column."""
    return lambda run: {(cell.table, cell.model, cell.column): cell.value for cell in run.cells}


@pytest.fixture
def small_dataset(tmp_path):
    """A folder in MNIST's format: eight images of 3 x 3 pixels, twice."""
    folder = tmp_path / "data"
    folder.mkdir()
    for prefix in ("train", "t10k"):
        head = bytes([0, 0, 8, 3]) + b"".join(size.to_bytes(4, "big") for size in (8, 3, 3))
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(head + bytes([9, 200] * 36))
        head = bytes([0, 0, 8, 1]) + (8).to_bytes(4, "big")
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(head + bytes(range(8)))
    return folder
