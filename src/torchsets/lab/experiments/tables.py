"""The tables that ``torchsets reproduce`` redraws, listed without importing torch.

To add one, give its experiment a function ``pieces(table, config)`` that splits a configuration
into independent ones, the longest first, and add an entry here.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from torchsets._catalogue import data_folder
from torchsets.lab.experiments import EXPERIMENTS

_NONE: Mapping[str, str] = MappingProxyType({})
_ONE_SEED: Mapping[str, int] = MappingProxyType({})


class Redrawn(NamedTuple):
    """What ``torchsets reproduce KEY`` runs.

    Attributes:
        key: A key of the thesis' tables; or an experiment, for all tables of its own.
        experiment: The experiment whose pieces fill it.
        durations: How long each scale takes on two cores, with one seed.
        seeds: How many seeds a scale has if nobody says; 1 where nothing is written.
        merge: For columns whose number is not of one piece alone: ``min`` or ``max`` over them.
    """

    key: str
    experiment: str
    durations: Mapping[str, str]
    seeds: Mapping[str, int] = _ONE_SEED
    merge: Mapping[str, str] = _NONE

    def shows(self, table: str) -> bool:
        """Whether a table of results belongs to it."""
        return table == self.key or table.startswith(f"{self.key}/")

    def missing_data(self) -> list[Path]:
        """The files that its experiment needs and that are not there."""
        paths = [data_folder() / name for name in EXPERIMENTS[self.experiment].data]
        return [path for path in paths if not path.is_file()]


_POLYGONS = {"smoke": "10 s", "cpu": "7 min", "full": "30 min"}
_MNIST_CLASSES = {"smoke": "1 min", "cpu": "15 min", "full": "a week"}
_MNIST_SETS = {"smoke": "1 min", "cpu": "1 h", "full": "two weeks"}
TABLES: dict[str, Redrawn] = {
    table.key: table
    for table in (
        Redrawn("fspool/polygons-direct", "polygons", _POLYGONS),
        Redrawn("fspool/polygons-chamfer", "polygons", _POLYGONS),
        Redrawn("fspool/polygons-hungarian", "polygons", _POLYGONS),
        *(
            Redrawn(key, "mnist-classify", _MNIST_CLASSES, seeds={"full": 6})
            for key in ("fspool/mnist", "fspool/mnist2")
        ),
        Redrawn(
            "fspool/mnist-100",
            "mnist-classify",
            {"smoke": "5 min", "cpu": "3 h", "full": "a week"},
            seeds={"full": 6},
        ),
        *(
            Redrawn(key, "mnist-reconstruct", _MNIST_SETS, seeds={"full": 6})
            for key in ("fspool/mnist1", "fspool/mnist1-masked")
        ),
        Redrawn(
            "perm/sorting-text",
            "sort-numbers",
            {"smoke": "20 s", "cpu": "30 min", "full": "a day"},
            merge={
                "smallest size sorted perfectly": "min",
                "largest size sorted perfectly": "max",
                "size at which mistakes begin on [0, 1]": "min",
                "size at which generalisation to [1000, 1001] is lost": "min",
            },
        ),
        Redrawn("count-toy", "count-toy", {"smoke": "10 s", "cpu": "30 min", "full": "a day"}),
        Redrawn(
            "dspn-polygons", "dspn-polygons", {"smoke": "10 s", "cpu": "15 min", "full": "2 h"}
        ),
    )
}
