"""What the experiment on estimators is. Needs no torch."""

from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names

DATASETS = {  # name to what a set is; the longest to train first
    "mnist": "the bright pixels of an MNIST digit, (x, y)",
    "PROTEINS": "the nodes of a graph, their attributes and kinds; no edges",
    "digits": "the bright pixels of an 8x8 digit, (x, y)",
    "IMDB-BINARY": "the nodes of a graph, their degree; no edges",
}
MODELS = {"network": "SetClassifier", "forest": "SetStatistics + random forest"}


@dataclass(frozen=True)
class CrossValidate:
    """The defaults are those of the estimators.

    Attributes:
        datasets: Any of mnist, PROTEINS, digits and IMDB-BINARY.
        models: Any of network, a SetClassifier with its defaults, and forest, a random forest on
            SetStatistics.
        sets: At most so many of each dataset, the first ones. None: all.
        folds: Folds of the stratified cross-validation, shuffled.
        measured_folds: How many of them are run. None: all.
        epochs: Of the network. None: its default.
        seed: Seed of the folds, the network and the forest.
        device: auto, cpu or cuda.
    """

    datasets: tuple[str, ...] = tuple(DATASETS)
    models: tuple[str, ...] = tuple(MODELS)
    sets: int | None = 5000
    folds: int = 5
    measured_folds: int | None = None
    epochs: int | None = None
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("datasets", self.datasets, DATASETS)
        check_names("models", self.models, MODELS)
        check_at_least(2, self, "folds")
        check_at_least(1, self, "sets", "measured_folds", "epochs")


def split_cross_validate(table: str, config: CrossValidate) -> dict[str, CrossValidate]:
    """One dataset each."""
    del table
    return {name: replace(config, datasets=(name,)) for name in DATASETS if name in config.datasets}


CROSS_VALIDATE = Experiment(
    "set-estimators",
    "cross-validate SetClassifier and a forest on SetStatistics on small datasets of sets",
    config=CrossValidate,
    scales={
        "smoke": {
            "datasets": ("digits",),
            "sets": 100,
            "folds": 2,
            "measured_folds": 1,
            "epochs": 1,
        },
        "cpu": {},
        "full": {},
    },
    run="torchsets.lab.experiments.estimators.cross_validate:run",
    split=split_cross_validate,
    data=("mnist",),
    tables=(
        Table(
            "set-estimators",
            takes={"smoke": "5 s", "cpu": "20 min", "full": "20 min"},
            fixed=("sets", "folds", "measured_folds", "epochs"),
            thesis=False,
        ),
    ),
)

EXPERIMENTS = (CROSS_VALIDATE,)
