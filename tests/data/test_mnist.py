import gzip
import struct

import numpy as np
import pytest
import torch

from torchsets._catalogue import MNIST
from torchsets.data import data_folder, idx_point_sets, mnist_point_sets

NAMES = {"train": "train", "test": "t10k"}


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(256, size=(7, 5, 4), dtype=np.uint8)


def idx_bytes(array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


def write_dataset(folder, images, labels, suffix=""):
    for prefix in NAMES.values():
        for part, array in (("images-idx3", images), ("labels-idx1", labels)):
            content = idx_bytes(array)
            path = folder / f"{prefix}-{part}-ubyte{suffix}"
            path.write_bytes(gzip.compress(content) if suffix else content)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_folder_of_idx_files_becomes_the_sets_of_bright_pixels(tmp_path, images, suffix):
    labels = np.arange(7, dtype=np.uint8)
    write_dataset(tmp_path, images, labels, suffix)
    sets, labels = idx_point_sets(tmp_path, "test", threshold=0.4)
    assert labels.tolist() == list(range(7))
    for index, points in enumerate(sets):
        found = {(round((1 - y.item()) * 4), round(x.item() * 3)) for x, y in points}
        expected = {tuple(pixel) for pixel in np.argwhere(images[index] / 255 > 0.4).tolist()}
        assert found == expected
        assert len(points) == len(expected)


def test_the_order_within_a_set_is_shuffled_the_same_way_each_time(tmp_path, images):
    write_dataset(tmp_path, images, np.zeros(7, dtype=np.uint8))
    sets, again = (idx_point_sets(tmp_path, "train", threshold=-1).sets for _ in range(2))
    assert torch.equal(sets.values, again.values)
    first, second = sets[0], sets[1]
    assert not torch.equal(first, second)  # the same 20 points in different orders
    assert sorted(first.tolist()) == sorted(second.tolist())


def test_images_and_labels_must_fit(tmp_path, images):
    write_dataset(tmp_path, images, np.zeros(6, dtype=np.uint8))
    with pytest.raises(ValueError, match=r"with a label each, got \(7, 5, 4\) and labels \(6,\)"):
        idx_point_sets(tmp_path, "train")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte is missing"):
        idx_point_sets(tmp_path, "train")


def test_an_unknown_split_is_refused(tmp_path):
    with pytest.raises(ValueError, match='split must be "train" or "test", got \'valid\''):
        idx_point_sets(tmp_path, "valid")


def test_mnist_with_a_truncated_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"short")
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte.gz must have the md5 f68b3c2d"):
        mnist_point_sets("train", mirrors=[])


def test_without_files_and_network_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    mirrors = ["http://127.0.0.1:9"]  # the discard port: nobody listens
    with pytest.raises(OSError, match=r"set TORCHSETS_DATA to the folder that holds mnist/train"):
        mnist_point_sets("train", mirrors=mirrors)


def test_data_lies_in_the_cache_of_the_user_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCHSETS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "torchsets"


@pytest.mark.skipif(
    bool(MNIST.missing()),
    reason="needs MNIST: set TORCHSETS_DATA to the folder that holds mnist/",
)
def test_mnist_has_the_sizes_of_the_thesis():
    sets, labels = mnist_point_sets("train")
    assert len(sets) == 60_000
    assert (sets.sizes.min(), sets.sizes.max()) == (32, 342)
    assert sets.sizes.double().mean().item() == pytest.approx(133, abs=0.5)
    assert (sets.values.min(), sets.values.max()) == (0, 1)
    assert torch.bincount(labels).tolist()[:2] == [5923, 6742]
