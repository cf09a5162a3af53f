"""Every data file by name, with its checksum and where to get it; and where data lies."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchsets._downloads import find_file


@dataclass(frozen=True)
class Dataset:
    """Files that belong together, in a folder of their name below :func:`data_folder`.

    Attributes:
        name: The folder.
        md5: The checksum of each file.
        mirrors: Addresses of folders that hold the files, tried in turn.
        licence: Under which the files are published.
        unpacked: A folder that may take the place of the files.
    """

    name: str
    md5: Mapping[str, str]
    mirrors: tuple[str, ...]
    licence: str
    unpacked: str = ""

    def path(self, file: str) -> Path:
        """Where a file is, or should be."""
        return data_folder() / self.name / file

    def fetch(self) -> None:
        """Download what is missing; raise ``OSError`` that says what belongs where if it cannot."""
        for path in self.missing():
            find_file(path, md5=self.md5[path.name], mirrors=self.mirrors)

    def missing(self) -> list[Path]:
        """The files that are not there."""
        if self.unpacked and self.path(self.unpacked).is_dir():
            return []
        return [self.path(file) for file in self.md5 if not self.path(file).is_file()]


MNIST = Dataset(
    "mnist",
    {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    "CC BY-SA 3.0",
)
CIFAR10 = Dataset(
    "cifar10",
    {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
    ("https://www.cs.toronto.edu/~kriz",),
    "not stated; free for research",
    unpacked="cifar-10-batches-bin",
)
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in (MNIST, CIFAR10)}


def data_folder() -> Path:
    """The folder of all data: ``TORCHSETS_DATA``, or ``torchsets`` in the user's cache."""
    chosen = os.environ.get("TORCHSETS_DATA")
    return Path(chosen) if chosen else cache_folder()


def cache_folder() -> Path:
    """The folder for files that torchsets makes: ``torchsets`` in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "torchsets"
