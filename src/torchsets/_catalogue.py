"""Where data lies."""

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder of all data: ``TORCHSETS_DATA``, or ``torchsets`` in the user's cache."""
    chosen = os.environ.get("TORCHSETS_DATA")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "torchsets"
