import gzip
import io
import tarfile

import numpy as np
import pytest
import torch

from torchsets._catalogue import CIFAR10
from torchsets.data import CIFAR10_COLOURS, cifar, cifar10_images

FOLDER = "cifar-10-batches-bin"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of CIFAR-10 in an empty data folder."""
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    return tmp_path / "cifar10"


def records(count, seed):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(256, size=(count, 3072), dtype=np.uint8)
    return np.concatenate([rng.integers(10, size=(count, 1), dtype=np.uint8), pixels], axis=1)


def archive(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as writer:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            writer.addfile(member, io.BytesIO(data))
    return content.getvalue()


def write(home, files, *, packed):
    if packed:
        content = archive({f"{FOLDER}/{name}": data for name, data in files.items()})
        (home / "cifar-10-binary.tar.gz").write_bytes(content)
        return
    (home / FOLDER).mkdir(exist_ok=True)
    for name, data in files.items():
        (home / FOLDER / name).write_bytes(data)


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_reads_any_number_of_batches_in_order(home, packed):
    batches = [records(count, seed) for seed, count in enumerate((3, 1, 2))]
    files = {f"data_batch_{i + 1}.bin": batch.tobytes() for i, batch in enumerate(batches)}
    files["batches.meta.txt"] = b"airplane\n"
    files["test_batch.bin"] = records(2, 9).tobytes()
    write(home, dict(reversed(files.items())), packed=packed)
    images, labels = cifar10_images("train", mirrors=[])
    expected = np.concatenate(batches)
    assert images.shape == (6, 3, 32, 32)
    assert images.dtype == torch.uint8
    assert labels.tolist() == expected[:, 0].tolist()
    # red plane first, row by row
    assert images[4, 0, 0, :5].tolist() == expected[4, 1:6].tolist()
    assert images[4, 2, 31, 31] == expected[4, 3072]
    assert images[4, 1, 3, 7] == expected[4, 1 + 1024 + 3 * 32 + 7]
    images, labels = cifar10_images("test", mirrors=[])
    assert labels.tolist() == records(2, 9)[:, 0].tolist()


def test_the_unpacked_folder_goes_first(home):
    write(home, {"test_batch.bin": records(2, 0).tobytes()}, packed=True)
    write(home, {"test_batch.bin": records(3, 1).tobytes()}, packed=False)
    assert len(cifar10_images("test", mirrors=[])[0]) == 3


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
@pytest.mark.parametrize("content", [b"", records(2, 0).tobytes()[:-1]], ids=["empty", "cut-off"])
def test_a_batch_of_another_size_is_refused(home, packed, content):
    write(home, {"data_batch_1.bin": content}, packed=packed)
    message = rf"data_batch_1.bin.* must have a multiple of 3073 bytes.* got {len(content)}"
    with pytest.raises(ValueError, match=message):
        cifar10_images("train", mirrors=[])


def test_impossible_labels_are_refused(home):
    batch = records(3, 0)
    batch[1, 0] = 10
    write(home, {"test_batch.bin": batch.tobytes()}, packed=False)
    with pytest.raises(ValueError, match="labels from 0 to 9, got 10"):
        cifar10_images("test", mirrors=[])


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999], ids=["empty", "half", "almost"])
def test_a_truncated_archive_is_refused(home, share):
    write(home, {"test_batch.bin": records(5, 0).tobytes()}, packed=True)
    path = home / "cifar-10-binary.tar.gz"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(
        ValueError, match=r"must be a whole .tar.gz file, got one with: .*remove it"
    ):
        cifar10_images("test", mirrors=[])


def test_a_link_in_the_archive_is_no_batch(home):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as writer:
        link = tarfile.TarInfo(f"{FOLDER}/test_batch.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "test_batch.bin"
        writer.addfile(link)
    (home / "cifar-10-binary.tar.gz").write_bytes(content.getvalue())
    with pytest.raises(ValueError, match="got no such file in it"):
        cifar10_images("test", mirrors=[])


def test_a_bomb_is_not_unpacked(home, monkeypatch):
    write(home, {"test_batch.bin": records(400, 0).tobytes()}, packed=True)
    monkeypatch.setattr(cifar, "_LARGEST", 1 << 20)
    with pytest.raises(ValueError, match="got one with: more than 1 MB unpacked"):
        cifar10_images("test", mirrors=[])


@pytest.mark.parametrize(
    "content", [b"no archive", gzip.compress(b"no archive" * 100)], ids=["plain", "compressed"]
)
def test_another_file_is_refused(home, content):
    (home / "cifar-10-binary.tar.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"must be a whole .tar.gz file"):
        cifar10_images("test", mirrors=[])


def test_missing_batches_are_named(home):
    write(home, {"data_batch_1.bin": records(1, 0).tobytes()}, packed=True)
    with pytest.raises(ValueError, match=r"tar.gz must hold test_batch.bin, got no such file"):
        cifar10_images("test", mirrors=[])
    write(home, {"test_batch.bin": records(1, 0).tobytes()}, packed=False)
    with pytest.raises(FileNotFoundError, match=r"bin holds no file data_batch_1.bin"):
        cifar10_images("train", mirrors=[])


def test_without_files_and_network_the_error_says_what_to_do(home):
    message = r"set TORCHSETS_DATA to the folder that holds cifar10/cifar-10-binary.tar.gz"
    with pytest.raises(OSError, match=message):
        cifar10_images("train", mirrors=["http://127.0.0.1:9"])  # nobody listens there


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match='split must be "train" or "test", got \'val\''):
        cifar10_images("val")


@pytest.mark.skipif(
    bool(CIFAR10.missing()),
    reason="needs CIFAR-10: set TORCHSETS_DATA to the folder that holds cifar10/",
)
def test_the_real_files_have_the_statistics_of_cifar():
    images, labels = cifar10_images("test")
    assert len(images) % 1000 == 0
    assert torch.bincount(labels).tolist() == [len(images) // 10] * 10
    # Centred, and with a variance above 1: the usual scale is not the dataset's.
    scaled = CIFAR10_COLOURS.apply(images)
    assert scaled.mean().abs() < 0.05
    assert scaled.var().item() == pytest.approx(1.56, abs=0.05)
