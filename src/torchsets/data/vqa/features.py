"""Proposals of many pictures: flat arrays on the disk, mapped into memory, padded on demand."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchsets.data.vqa.tsv import Picture
from torchsets.sets import Sets

VERSION = 1
HEADER = "header.json"
COLUMNS = ("ids", "sizes", "shapes", "boxes", "features")
"""The arrays of a store."""


class PictureBatch(NamedTuple):
    """The proposals of some pictures, padded to the largest of them.

    Attributes:
        features: (B, N, D).
        boxes: x1, y1, x2, y2 in pixels, (B, N, 4).
        mask: True where a proposal is real, (B, N), bool.
        shapes: Width and height in pixels, (B, 2), long.
    """

    features: Tensor
    boxes: Tensor
    mask: Tensor
    shapes: Tensor

    @property
    def scaled_boxes(self) -> Tensor:
        """The boxes with x divided by the width and y by the height: from 0 to 1."""
        return self.boxes / self.shapes.to(self.boxes.dtype).repeat(1, 2).unsqueeze(1)


class FeatureStore:
    """The proposals of many pictures.

    Attributes:
        features: All features, as sets of proposals.
        boxes: All boxes, likewise.
        ids: The number of each picture, (I,), long.
        shapes: Width and height of each picture, (I, 2), long.
        duplicates: Rows left out because their picture had one.
        damaged: Rows left out because they could not be read.
    """

    def __init__(
        self,
        ids: Tensor,
        shapes: Tensor,
        features: Sets,
        boxes: Sets,
        *,
        duplicates: int = 0,
        damaged: int = 0,
    ) -> None:
        self.ids, self.shapes = ids, shapes
        self.features, self.boxes = features, boxes
        self.duplicates, self.damaged = duplicates, damaged
        self._ordered, self._order = ids.sort()

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, image_ids: Tensor) -> Tensor:
        """Where pictures are in the store, by their numbers (B,), long.

        Raises:
            ValueError: If one is not there.
        """
        if len(self) == 0 and len(image_ids):
            raise ValueError("image_ids must be in the store, which is empty")
        found = torch.searchsorted(self._ordered, image_ids).clamp(max=max(len(self) - 1, 0))
        missing = image_ids[self._ordered[found] != image_ids]
        if len(missing):
            raise ValueError(
                f"image_ids must be in the store, got {len(missing)} others such as "
                f"{int(missing[0])}"
            )
        return self._order[found]

    def batch(self, image_ids: Tensor) -> PictureBatch:
        """The proposals of pictures by their numbers, (B,), long; one may be there twice."""
        places = self.places(image_ids)
        features, mask = self.features.batch(places)
        boxes, _ = self.boxes.batch(places)
        return PictureBatch(features, boxes, mask, self.shapes[places])

    def picture(self, place: int) -> Picture:
        """One picture, by its place in the store."""
        width, height = self.shapes[place].tolist()
        boxes, features = (one[place].float().numpy() for one in (self.boxes, self.features))
        return Picture(int(self.ids[place]), width, height, boxes, features)

    def __repr__(self) -> str:
        left_out = f"{self.duplicates} duplicates and {self.damaged} damaged rows left out"
        return f"FeatureStore({len(self)} pictures, {self.features}, {left_out})"


def load_features(folder: Path) -> FeatureStore:
    """Map a store that :func:`build_features` wrote into memory.

    Raises:
        ValueError: If it is not whole, or damaged.
    """
    try:
        header: dict[str, Any] = json.loads((folder / HEADER).read_text())
        if header["version"] != VERSION:
            raise ValueError(f"its version must be {VERSION}, got {header['version']}")
        half = torch.float16 if header["half"] else torch.float32
        dtypes = {"boxes": torch.float32, "features": half}
        arrays = {
            name: _map(folder / f"{name}.bin", header["lengths"][name], dtypes.get(name))
            for name in COLUMNS
        }
        sizes = arrays["sizes"]
        return FeatureStore(
            arrays["ids"],
            arrays["shapes"].view(-1, 2),
            Sets(arrays["features"].view(-1, header["features"]), sizes),
            Sets(arrays["boxes"].view(-1, 4), sizes),
            duplicates=header["duplicates"],
            damaged=header["damaged"],
        )
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{folder} is damaged: {error}; remove it and build it again") from error


def _map(path: Path, length: int, dtype: torch.dtype | None) -> Tensor:
    dtype = torch.long if dtype is None else dtype
    if path.stat().st_size != length:
        raise ValueError(f"{path.name} must have {length} bytes, got {path.stat().st_size}")
    if length == 0:
        return torch.empty(0, dtype=dtype)
    return torch.from_file(str(path), shared=False, size=length // dtype.itemsize, dtype=dtype)
