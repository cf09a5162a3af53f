"""The scenes of CLEVR from its public files, and ours in the same form."""

import json
import os
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from torchsets._catalogue import data_folder
from torchsets.data.json_stream import read_records
from torchsets.data.scenes import BEHIND, RELATIONS, RIGHT, VALUES, Scenes, scene_relations

CLEVR_SOURCE = (
    "https://dl.fbaipublicfiles.com/clevr/CLEVR_v1.0_no_images.zip (86 MB; the dataset's page is "
    "https://cs.stanford.edu/people/jcjohns/clevr/)"
)
SPLITS = ("train", "val", "test")
_PLACES = {name: {value: at for at, value in enumerate(VALUES[name])} for name in VALUES}
_DIRECTIONS = {
    "right": [*RIGHT, 0.0],
    "behind": [*BEHIND, 0.0],
    "above": [0.0, 0.0, 1.0],
    "left": [-RIGHT[0], -RIGHT[1], 0.0],
    "front": [-BEHIND[0], -BEHIND[1], 0.0],
    "below": [0.0, 0.0, -1.0],
}


def clevr_scenes(split: str) -> Scenes:
    """Load the scenes of CLEVR: 70000 in "train" and 15000 in "val", if the file is whole.

    The folder ``clevr`` of ``TORCHSETS_DATA`` (by default of the user's cache) holds
    ``CLEVR_v1.0/scenes/CLEVR_train_scenes.json``, or the same with ``.gz``. Nothing is
    downloaded: no checksum of the file is published. A file with fewer scenes is accepted.

    Args:
        split: "train" or "val"; the scenes of "test" are not public.

    Raises:
        ValueError: If the file is cut off or has another form.
        FileNotFoundError: If there is no file; it says where to get it.
    """
    if split not in ("train", "val"):
        raise ValueError(f'split must be "train" or "val", got {split!r}')
    return read_clevr_scenes(clevr_file("scenes", split))


def clevr_file(kind: str, split: str) -> Path:
    """Where the scenes or questions of a split are; raises ``FileNotFoundError`` with the cure."""
    folder = data_folder() / "clevr" / "CLEVR_v1.0" / kind
    path = folder / f"CLEVR_{split}_{kind}.json"
    for found in (path, path.with_name(f"{path.name}.gz")):
        if found.is_file():
            return found
    raise FileNotFoundError(
        f"{path} is missing: download {CLEVR_SOURCE} and unpack it in {folder.parent.parent}, or "
        "set TORCHSETS_DATA to the folder that holds clevr"
    )


def read_clevr_scenes(path: str | os.PathLike[str]) -> Scenes:
    """Read a file of scenes in CLEVR's form, ``.json`` or ``.json.gz``.

    Its ``relationships`` are kept, because another camera may have recorded them.

    Raises:
        ValueError: If the file is cut off or has another form.
        OSError: If there is no such file.
    """
    path = Path(path)
    floats, whole = array("d"), array("q")  # compact, and nothing but numbers goes in
    sizes, numbers = array("q"), array("q")
    for scene in read_records(path, "scenes"):
        try:
            objects = scene["objects"]
            masks = _relation_masks(scene["relationships"], len(objects))
            for one, relations in zip(objects, masks, strict=True):
                pixels = one.get("pixel_coords", [float("nan")] * 3)
                x, y, z = one["3d_coords"]
                column, row, depth = pixels
                floats.extend([x, y, z, one["rotation"], column, row, depth])
                whole.extend([_PLACES[name][one[name]] for name in VALUES] + relations)
            sizes.append(len(objects))
            numbers.append(scene["image_index"])
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise ValueError(
                f"{path} must hold scenes in CLEVR's form, got another one at scene {len(sizes)}: "
                f"{type(error).__name__} {error}"
            ) from error
    rows = torch.from_numpy(np.array(floats, np.float32).reshape(-1, 7))
    integers = torch.from_numpy(np.array(whole, np.int64).reshape(-1, 8))
    pixels_known = len(rows) > 0 and not bool(rows[:, 4:].isnan().any())
    return Scenes(
        rows[:, :3].contiguous(),
        integers[:, :4].contiguous(),
        rows[:, 3].contiguous(),
        np.array(sizes, np.int64),
        numbers=torch.from_numpy(np.array(numbers, np.int64)),
        relations=integers[:, 4:].contiguous(),
        pixels=rows[:, 4:].contiguous() if pixels_known else None,
    )


def scene_records(scenes: Scenes, split: str = "train") -> list[dict[str, Any]]:
    """Scenes as CLEVR's files have them, one dictionary each."""
    records, start = [], 0
    floats = torch.cat([scenes.positions, scenes.rotations.unsqueeze(1)], dim=1).tolist()
    attributes, relations = scenes.attributes.tolist(), scene_relations(scenes).tolist()
    pixels = None if scenes.pixels is None else scenes.pixels.tolist()
    for number, size in zip(scenes.numbers.tolist(), scenes.sizes.tolist(), strict=True):
        objects: list[dict[str, Any]] = []
        for place in range(start, start + size):
            one: dict[str, Any] = {
                name: values[at]
                for (name, values), at in zip(VALUES.items(), attributes[place], strict=True)
            }
            *coordinates, rotation = floats[place]
            one |= {"3d_coords": coordinates, "rotation": rotation}
            if pixels is not None:
                one["pixel_coords"] = pixels[place]
            objects.append(one)
        masks = relations[start : start + size]
        relationships = {
            name: [[other for other in range(size) if mask[side] >> other & 1] for mask in masks]
            for side, name in enumerate(RELATIONS)
        }
        records.append(
            {
                "image_index": number,
                "image_filename": f"CLEVR_{split}_{number:06}.png",
                "split": split,
                "objects": objects,
                "relationships": relationships,
                "directions": _DIRECTIONS,
            }
        )
        start += size
    return records


def write_records(path: Path, key: str, split: str, records: Iterable[dict[str, Any]]) -> None:
    """Write ``{"info": .., key: [..]}`` as CLEVR's files have it, whole or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    info = {"split": split, "version": "1.0", "made by": "torchsets"}
    try:
        with unfinished.open("w") as file:
            file.write(f'{{"info": {json.dumps(info)}, "{key}": [')
            for place, record in enumerate(records):
                file.write((",\n" if place else "\n") + json.dumps(record))
            file.write("\n]}\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_clevr_scenes(path: str | os.PathLike[str], scenes: Scenes, split: str = "train") -> None:
    """Write scenes to a JSON file in CLEVR's form, which :func:`read_clevr_scenes` reads."""
    write_records(Path(path), "scenes", split, scene_records(scenes, split))


def _relation_masks(relationships: dict[str, list[list[int]]], size: int) -> list[list[int]]:
    masks = [[0] * len(RELATIONS) for _ in range(size)]
    for side, name in enumerate(RELATIONS):
        lists = relationships[name]
        if len(lists) != size:
            raise ValueError(f"{name} must have a list for each object, got {len(lists)}")
        for place, others in enumerate(lists):
            for other in others:
                if not 0 <= other < size:
                    raise ValueError(f"{name} must name objects below {size}, got {other}")
                masks[place][side] |= 1 << other
    return masks
