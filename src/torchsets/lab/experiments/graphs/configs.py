"""What the experiment on graph classification is. Needs no torch."""

from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names
from torchsets.lab.records import Description

PARTS = 10  # of the partition: a fold trains on eight, chooses on one and tests on one
ROWS = {
    "base": "GIN-Base",
    "fspool": "GIN-FSPool",
    "sum": "GIN-Sum",
    "fspool-20": "GIN-FSPool, k=20",
    "no-edges": "GIN-Base without edges",
    "base-inputs": "GIN-Base, eps=inputs",
    "fspool-inputs": "GIN-FSPool, eps=inputs",
}
THESIS_ROWS = ("base", "fspool")
PAIRS = (  # whose accuracies are compared fold by fold, where both are trained
    ("fspool", "base"),
    ("sum", "base"),
    ("fspool", "sum"),
    ("fspool-20", "fspool"),
    ("no-edges", "base"),
    ("fspool-inputs", "base-inputs"),
    ("base-inputs", "base"),
    ("fspool-inputs", "fspool"),
)
CHOSEN = "fspool/graph-params"
OWN_TABLES = {
    "graphs-classify/protocol": Description(
        "How the models were trained: folds of the ten that were run, passes over the training "
        "graphs, how often the learning rate was halved, settings to choose from",
        "as named in the column",
    ),
    "graphs-classify/selection": Description(
        "Test accuracy, mean over the folds, by how setting and epoch are chosen. With one choice "
        "for all folds a fold's validation graphs are test graphs of another; chosen by test "
        "accuracy it is too high. Epochs are counted from 1",
        "%; epochs",
    ),
    "graphs-classify/folds": Description(
        "Test accuracy of each fold at the epoch of the highest mean validation accuracy",
        "%",
        "higher",
    ),
    "graphs-classify/differences": Description(
        "Differences of test accuracy over the same folds, with the same partition and seeds. "
        "Folds share training graphs, so the standard error is too small if anything",
        "points",
    ),
}
SHORT_TABLES = {  # the thesis', filled by the short protocol
    f"fspool/graph-{kind}": Description(
        f"Graph classification on {what}: mean test accuracy of cross-validation. Ours: one "
        "repeat, one setting fixed beforehand, fewer folds and epochs",
        "%",
        "higher",
    )
    for kind, what in (("social", "social networks"), ("bio", "bioinformatics data"))
}
GRID_TABLES = {
    CHOSEN: Description(
        "Settings of the highest mean validation accuracy over the folds, of all epochs; mean over "
        "the repeats. Ours: fewer epochs",
        "as named in the row",
    )
}


class Source(NamedTuple):
    """A dataset, and how the short protocol trains on it.

    Attributes:
        label: As the columns of the tables name it.
        kind: social or bio: it chooses table, readout of the base and the thesis' settings.
        folds: How many of the ten folds the short protocol runs.
        epochs: Passes over the training graphs in the short protocol.
        batch_size: Graphs per step in the short protocol.
    """

    label: str
    kind: str
    folds: int
    epochs: int
    batch_size: int


SOURCES = {  # in the thesis' order
    "IMDB-BINARY": Source("IMDB-B", "social", folds=10, epochs=25, batch_size=100),
    "IMDB-MULTI": Source("IMDB-M", "social", folds=10, epochs=20, batch_size=100),
    "REDDIT-BINARY": Source("RDT-B", "social", folds=3, epochs=10, batch_size=32),
    "REDDIT-MULTI-5K": Source("RDT-M5K", "social", folds=3, epochs=10, batch_size=32),
    "COLLAB": Source("COLLAB", "social", folds=3, epochs=6, batch_size=32),
    "MUTAG": Source("MUTAG", "bio", folds=10, epochs=100, batch_size=128),
    "PROTEINS": Source("PROTEINS", "bio", folds=10, epochs=30, batch_size=128),
    "PTC_MR": Source("PTC", "bio", folds=10, epochs=80, batch_size=128),
    "NCI1": Source("NCI1", "bio", folds=3, epochs=30, batch_size=128),
}
MOTIFS = Source("motifs", "bio", folds=2, epochs=2, batch_size=8)  # drawn; stands in for any
_EPS = ("base-inputs", "fspool-inputs")
_FURTHER = {  # rows beyond the thesis', where they decide something
    "IMDB-BINARY": ("sum", "no-edges"),
    "IMDB-MULTI": ("no-edges",),
    "REDDIT-BINARY": ("sum", *_EPS),
    "COLLAB": ("no-edges",),
    "MUTAG": ("fspool-20", "no-edges", *_EPS),
    "PROTEINS": ("fspool-20", "no-edges", *_EPS),
}
_LONGEST_FIRST = (
    "REDDIT-MULTI-5K REDDIT-BINARY COLLAB PROTEINS IMDB-BINARY NCI1 IMDB-MULTI MUTAG PTC_MR"
).split()


@dataclass(frozen=True)
class Classify:
    """The defaults are the thesis' settings (its subsections on graph classification).

    A repeat of the thesis is a seed here: its partition and its weights.

    Attributes:
        dataset: published, the files of the datasets; or motifs, small drawn graphs in place of
            them, which need no file.
        datasets: Names of TUDataset's, such as MUTAG: any of the thesis' nine.
        models: Any of base, fspool; and sum, fspool-20 (20 pieces), no-edges, base-inputs and
            fspool-inputs (eps = number of inputs), which ``reproduce`` trains only where they
            decide something.
        protocol: thesis, a grid of settings; short, one setting with fewer folds and epochs,
            other ones for each dataset; or grid, the thesis' settings with those folds and epochs.
        folds: How many of the ten folds are run. None: the protocol's.
        epochs: Passes over the training graphs. None: the protocol's.
        hidden_sizes: Widths to choose from. Empty: the protocol's, as for the next two.
        batch_sizes: Graphs per step to choose from.
        dropouts: To choose from.
        learning_rate: Of Adam; halved every 50 epochs, in the short protocol every tenth of them.
        stratified: Whether every part has the same share of each class.
        seed: Seed of the partition, the weights and the batches.
        device: auto, cpu or cuda.
    """

    dataset: str = "published"
    datasets: tuple[str, ...] = tuple(SOURCES)
    models: tuple[str, ...] = THESIS_ROWS
    protocol: str = "thesis"
    folds: int | None = None
    epochs: int | None = None
    hidden_sizes: tuple[int, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    dropouts: tuple[float, ...] = ()
    learning_rate: float = 0.01
    stratified: bool = False
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("dataset", (self.dataset,), ("published", "motifs"))
        check_names("datasets", self.datasets, SOURCES)
        check_names("models", self.models, ROWS)
        check_names("protocol", (self.protocol,), ("thesis", "short", "grid"))
        check_at_least(1, self, "folds", "epochs", "hidden_sizes")
        check_at_least(2, self, "batch_sizes")  # batch normalisation needs two graphs
        check_at_least(0, self, "dropouts", "seed")
        if self.folds is not None and self.folds > PARTS:
            raise ValueError(f"folds must be at most {PARTS}, got {self.folds}")
        if self.dataset == "motifs" and len(self.datasets) > 1:
            raise ValueError(
                f"motifs stand in for one of the datasets, got {', '.join(self.datasets)}"
            )


class Choice(NamedTuple):
    """One setting of the grid."""

    hidden: int
    batch_size: int
    dropout: float


class Protocol(NamedTuple):
    """How the models are trained on a dataset.

    Attributes:
        folds: How many folds are run.
        epochs: Passes over the training graphs.
        halvings: How often the learning rate is halved over all epochs.
        grid: The settings to choose from.
    """

    folds: int
    epochs: int
    halvings: float
    grid: tuple[Choice, ...]


def sources_of(config: Classify) -> dict[str, Source]:
    """The datasets, by name."""
    if config.dataset == "motifs":
        return {"motifs": MOTIFS}
    return {name: SOURCES[name] for name in config.datasets}


def protocol_of(config: Classify, source: Source) -> Protocol:
    """What the protocol says of a dataset, unless the configuration says otherwise."""
    thesis, short = config.protocol == "thesis", config.protocol == "short"
    social = source.kind == "social"
    epochs = config.epochs or ((250 if social else 500) if thesis else source.epochs)
    hidden = (64,) if social else (32,) if short else (16, 32)
    batches = (source.batch_size,) if short else (32, 100) if social else (32, 128)
    dropouts = (0.5,) if short else (0.0, 0.5)
    grid = product(
        config.hidden_sizes or hidden, config.batch_sizes or batches, config.dropouts or dropouts
    )
    return Protocol(
        folds=config.folds or (PARTS if thesis else source.folds),
        epochs=epochs,
        halvings=epochs / 50 if thesis else 10,
        grid=tuple(Choice(*one) for one in grid),
    )


def split_classify(table: str, config: Classify) -> dict[str, Classify]:
    """One dataset of the table each: models with eps = 0, whose folds are compared, or without."""
    if table == CHOSEN and config.protocol == "short":
        asked = tuple(model for model in config.models if model in THESIS_ROWS)
        config = replace(config, protocol="grid", models=asked or THESIS_ROWS)
    shards = {}
    for name in sorted(_datasets_of(table, config), key=_LONGEST_FIRST.index):
        known = tuple(ROWS) if config.dataset == "motifs" else THESIS_ROWS + _FURTHER.get(name, ())
        models = [model for model in config.models if model in known] or config.models
        for suffix, chosen in (
            ("", [model for model in models if model not in _EPS]),
            (" eps=inputs", [model for model in models if model in _EPS]),
        ):
            if chosen:
                shard = replace(config, datasets=(name,), models=tuple(chosen))
                shards[f"{name}{suffix}"] = shard
    return shards


def _datasets_of(table: str, config: Classify) -> list[str]:
    """Those of the configuration that the table shows; all if it shows none of them."""
    kind = next((kind for kind in ("social", "bio") if kind in table), None)
    shown = {name for name, source in SOURCES.items() if kind in (None, source.kind)}
    if "proteins" in table:
        shown = {"PROTEINS"}
    if table == CHOSEN and config.protocol == "grid":
        shown = {"IMDB-BINARY", "MUTAG", "PTC_MR"}  # the others take hours
    return [name for name in config.datasets if name in shown] or list(config.datasets)


_FIXED = (
    "dataset",
    "protocol",
    "folds",
    "epochs",
    "hidden_sizes",
    "batch_sizes",
    "dropouts",
    "learning_rate",
    "stratified",
)
_REPEATS = {"full": 10}
_SOCIAL = {"smoke": "2 s", "cpu": "35 min", "full": "5 days"}
_BIO = {"smoke": "2 s", "cpu": "10 min", "full": "a day"}
_ALL = {"smoke": "2 s", "cpu": "45 min", "full": "6 days"}
_PROTEINS = {"smoke": "2 s", "cpu": "5 min", "full": "5 h"}
_GRID = {**_ALL, "cpu": "35 min"}
_LOADED = {"smoke": "2 s", "cpu": "with the accuracies", "full": "with the accuracies"}

CLASSIFY = Experiment(
    "graphs-classify",
    "classify graphs with GIN: FSPool against sum or mean as the readout of its nodes",
    config=Classify,
    scales={
        "smoke": {
            "dataset": "motifs",
            "datasets": ("MUTAG",),
            "models": tuple(ROWS),
            "protocol": "short",
            "hidden_sizes": (8,),
        },
        "cpu": {
            "datasets": tuple(name for name in SOURCES if name != "REDDIT-MULTI-5K"),
            "models": tuple(ROWS),
            "protocol": "short",
        },
        "full": {},
    },
    run="torchsets.lab.experiments.graphs.classify:run",
    split=split_classify,
    tables=(
        Table("fspool/graph-social", takes=_SOCIAL, seeds=_REPEATS, fixed=_FIXED),
        Table("fspool/graph-bio", takes=_BIO, seeds=_REPEATS, fixed=_FIXED),
        Table("fspool/graph-social-epochs", takes=_SOCIAL, seeds=_REPEATS, fixed=_FIXED),
        Table("fspool/graph-bio-epochs", takes=_BIO, seeds=_REPEATS, fixed=_FIXED),
        Table("fspool/graph-social-stats", takes=_LOADED, fixed=("dataset",)),
        Table("fspool/graph-bio-stats", takes=_LOADED, fixed=("dataset",)),
        Table(
            CHOSEN,
            takes=_GRID,
            seeds=_REPEATS,
            fixed=tuple(name for name in _FIXED if name != "protocol"),
        ),
        Table("fspool/graph-proteins-selection-text", takes=_PROTEINS, fixed=_FIXED),
        Table("graphs-classify", takes=_ALL, seeds=_REPEATS, thesis=False),
    ),
)

EXPERIMENTS = (CLASSIFY,)
