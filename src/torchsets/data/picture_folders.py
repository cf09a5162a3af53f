"""Folders of pictures, one folder per class, as ImageNet is used."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from torchsets._catalogue import data_folder
from torchsets._checks import check_counts
from torchsets._extras import import_extra
from torchsets.data.resize import resize_and_crop

_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".webp"}


class PictureFolder:
    """Labelled pictures that are read when they are asked for, rescaled and cropped to a square.

    Needs Pillow: ``pip install 'torchsets[pictures]'``.

    Args:
        folder: Holds one folder per class, each with pictures (jpeg, png, ...), also in folders
            below it. Classes are numbered in the order of their names.
        size: Pixels along each side: the shorter side is rescaled to it, the middle is kept.

    Attributes:
        classes: The names of the classes.
        paths: The files.
        labels: The class of each file, (S,), long.

    Raises:
        FileNotFoundError: If there is no such folder, or nothing in it.
    """

    def __init__(self, folder: str | Path, *, size: int = 64) -> None:
        check_counts(size=size)
        folder = Path(folder)
        if not folder.is_dir():
            raise FileNotFoundError(
                f"{folder} is missing; it must hold one folder of pictures for each class"
            )
        found = {}
        for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
            paths = sorted(p for p in inner.rglob("*") if p.suffix.lower() in _SUFFIXES)
            if paths:
                found[inner.name] = paths
        if not found:
            raise FileNotFoundError(f"{folder} holds no folder with pictures in it")
        self.size = size
        self.classes = list(found)
        self.paths = [path for paths in found.values() for path in paths]
        counts = torch.tensor([len(paths) for paths in found.values()])
        self.labels = torch.repeat_interleave(torch.arange(len(found)), counts)

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, chosen: Tensor) -> Tensor:
        """Read some of the pictures, (B,) long, as (B, 3, size, size), uint8.

        Raises:
            ValueError: If a file is cut off or no picture.
        """
        pictures = [self._read(self.paths[index]) for index in chosen.tolist()]
        return torch.stack(pictures) if pictures else torch.empty(0, 3, self.size, self.size).byte()

    def _read(self, path: Path) -> Tensor:
        return resize_and_crop(read_picture(path), self.size)


def read_picture(path: Path) -> Tensor:
    """Read a picture as (3, H, W), uint8; needs Pillow: ``pip install 'torchsets[pictures]'``.

    Raises:
        ValueError: If the file is cut off or no picture.
    """
    image = import_extra("PIL.Image", "pictures")
    try:
        with image.open(path) as file:
            pixels = np.array(file.convert("RGB"))
    # The second are Pillow's words for a damaged PNG.
    except (OSError, SyntaxError, image.DecompressionBombError) as error:
        raise ValueError(f"{path} must be a whole picture, got: {error}") from error
    return torch.from_numpy(pixels).permute(2, 0, 1)


def imagenet_pictures(split: str, *, size: int = 64) -> PictureFolder:
    """Open ImageNet in the folder ``imagenet`` of ``TORCHSETS_DATA``.

    Args:
        split: "train" or "val".
        size: Pixels along each side.

    Raises:
        FileNotFoundError: If the pictures are missing; it says where to get them.
    """
    if split not in ("train", "val"):
        raise ValueError(f'split must be "train" or "val", got {split!r}')
    folder = data_folder() / "imagenet" / split
    try:
        return PictureFolder(folder, size=size)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}. ImageNet (ILSVRC 2012) cannot be downloaded without an account: get "
            f"ILSVRC2012_img_{split}.tar from https://image-net.org/download.php and unpack it to "
            f"{folder}/<class>/*.JPEG, with folders such as n01440764"
        ) from error
