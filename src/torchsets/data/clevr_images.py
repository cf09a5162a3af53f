"""The pictures of CLEVR from its public files, resized as in the thesis, with their scenes."""

import hashlib
import os
from pathlib import Path

import torch
from torch import Tensor

from torchsets._catalogue import data_folder
from torchsets._checks import check_counts
from torchsets.data.build_once import build_once, made_folder
from torchsets.data.clevr import clevr_scenes
from torchsets.data.picture_folders import read_picture
from torchsets.data.rendered_splits import ScenePictures, read_pictures, write_pictures
from torchsets.data.resize import resize_bilinear
from torchsets.data.scene_projection import scene_cameras
from torchsets.data.scenes import Scenes

CLEVR_PICTURES = "https://dl.fbaipublicfiles.com/clevr/CLEVR_v1.0.zip (18 GB)"
_FEW = 1000  # so many are read at each call; more are resized once and kept


def clevr_pictures(split: str, *, size: int = 128) -> ScenePictures:
    """Load the pictures of CLEVR, and the scenes that they show.

    Of ``TORCHSETS_DATA``, ``clevr/CLEVR_v1.0`` holds ``images/train/CLEVR_train_000000.png``
    and so on, and the scenes as :func:`clevr_scenes` reads them. Scenes without a picture are left
    out. The whole frame is squeezed to a square, by Pillow's bilinear filter, as the thesis does.
    More than 1000 pictures are resized once and kept in the user's cache, as by
    :func:`rendered_scenes`. Needs Pillow: ``pip install 'torchsets[pictures]'``.

    Args:
        split: "train" or "val".
        size: Pixels along each side; the thesis has 128.

    Returns:
        The scenes, with the cameras that :func:`scene_cameras` recovers, and their pictures.

    Raises:
        ValueError: If a file is damaged, or an argument is out of range.
        FileNotFoundError: If the scenes or all pictures are missing; it says where to get them.
    """
    check_counts(size=size)
    scenes = clevr_scenes(split)
    folder = data_folder() / "clevr" / "CLEVR_v1.0" / "images" / split
    names = [f"CLEVR_{split}_{number:06}.png" for number in scenes.numbers.tolist()]
    there = set(os.listdir(folder)) if folder.is_dir() else set()
    found = [place for place, name in enumerate(names) if name in there]
    if not found:
        raise FileNotFoundError(
            f"{folder / f'CLEVR_{split}_000000.png'} and all other pictures are missing: download "
            f"{CLEVR_PICTURES} and unpack it in {folder.parents[2]}, or set TORCHSETS_DATA to the "
            "folder that holds clevr; for pictures without a download see rendered_scenes"
        )
    scenes = _with_cameras(scenes[found])
    paths = [folder / names[place] for place in found]
    if len(paths) <= _FEW:
        return ScenePictures(scenes, _read_all(paths, size))
    about = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    key = hashlib.sha256(repr((str(folder), size, about)).encode()).hexdigest()[:20]
    return read_pictures(
        build_once(
            made_folder() / f"clevr-{split}-{size}-{key}",
            lambda unfinished: write_pictures(unfinished, scenes, _read_all(paths, size)),
        )
    )


def _with_cameras(scenes: Scenes) -> Scenes:
    scenes.cameras = scene_cameras(scenes)
    return scenes


def _read_all(paths: list[Path], size: int) -> Tensor:
    images = torch.empty(len(paths), 3, size, size, dtype=torch.uint8)
    for image, path in zip(images, paths, strict=True):
        image.copy_(resize_bilinear(read_picture(path), (size, size)))
    return images
