"""Find the proposals of VQA's pictures: bottom-up ``.tsv`` files, as a store made once."""

import hashlib
import json
from pathlib import Path

from torchsets._catalogue import cache_folder, data_folder
from torchsets.data.vqa.feature_files import Progress, build_features
from torchsets.data.vqa.features import FeatureStore
from torchsets.data.vqa.tsv import count_features

FEATURES_SOURCE = "https://github.com/peteanderson80/bottom-up-attention"
FOLDERS = {"train": "trainval", "val": "trainval", "test": "test2015", "test-dev": "test2015"}


def vqa_pictures(
    split: str, *, half: bool = False, progress: Progress | None = None
) -> FeatureStore:
    """Load the proposals of a split's pictures; on the first call a store is made of the files.

    The folder ``vqa/trainval`` of ``TORCHSETS_DATA`` holds the unpacked ``.tsv`` files of "train"
    and "val", ``vqa/test2015`` those of the test pictures. The store goes to the user's cache.

    Args:
        split: "train", "val", "test" or "test-dev".
        half: Store features as float16.
        progress: Called now and then with the bytes read and their total.

    Raises:
        FileNotFoundError: If there are no files; it says where to get them.
    """
    if split not in FOLDERS:
        raise ValueError(f"split must be one of {', '.join(FOLDERS)}, got {split!r}")
    folder = data_folder() / "vqa" / FOLDERS[split]
    sources = sorted(folder.glob("*.tsv*"))
    if not sources:
        raise FileNotFoundError(
            f"{folder} has no .tsv files: download the bottom-up features (10 to 100 boxes a "
            f"picture) from {FEATURES_SOURCE} and unpack them there, or set TORCHSETS_DATA to the "
            "folder that holds vqa"
        )
    store = cache_folder() / "vqa" / _name(sources, half=half)
    features = count_features(sources[0])
    return build_features(sources, store, features=features, half=half, progress=progress)


def _name(sources: list[Path], *, half: bool) -> str:
    """A name that other files do not have."""
    found = [(path.resolve(), path.stat()) for path in sources]
    files = [[str(path), status.st_size, status.st_mtime_ns] for path, status in found]
    digest = hashlib.sha256(json.dumps([files, half]).encode()).hexdigest()
    return f"{sources[0].parent.name}-{digest[:12]}"
