"""Classify graphs by cross-validation: GIN with sum, mean or FSPool as the readout of its nodes.

Every graph is tested once. Accuracies of the validation and test graphs are recorded after every
epoch of every fold; which epoch counts is chosen afterwards, in three ways from the same curves.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import floor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torchsets.data import LabelledGraphs, motif_graphs, tu_graphs
from torchsets.graphs import GraphBatch
from torchsets.lab.experiments.graphs.configs import (
    CHOSEN,
    GRID_TABLES,
    OWN_TABLES,
    PAIRS,
    PARTS,
    ROWS,
    SHORT_TABLES,
    Choice,
    Classify,
    Protocol,
    Source,
    protocol_of,
    sources_of,
)
from torchsets.lab.experiments.graphs.figures import draw_results
from torchsets.lab.experiments.graphs.models import build_model, learned_weights
from torchsets.lab.experiments.graphs.selection import (
    BY_FOLD,
    BY_MEAN,
    BY_TEST,
    Chosen,
    Curves,
    Difference,
    Fold,
    Ints,
    batch_borders,
    choose,
    compare_folds,
    cut_folds,
)
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import History, Settings, move, pick_device, seed_everything, train

_MOTIFS = 30
_NODES = 2**14  # in a batch of the evaluation, about


class Batch(NamedTuple):
    """Graphs, and the class of each, (B,)."""

    graphs: GraphBatch
    labels: Tensor


class Trained(NamedTuple):
    """The curves of a model in all folds, and the FSPool weights that its first fold ends with."""

    curves: Curves
    weights: list[Tensor]


def run(config: Classify, recorder: Recorder) -> None:
    """Train every model in every fold of every dataset, choose epochs, compare, and draw."""
    _describe_tables(config, recorder)
    for name, source in sources_of(config).items():
        graphs = motif_graphs(_MOTIFS) if name == "motifs" else tu_graphs(name)
        recorder.add_data(name, _digest(graphs))
        data = _Data(source, protocol_of(config, source), graphs)
        _record_data(recorder, data)
        trained = {
            ROWS[model]: _cross_validate(config, recorder, data, model) for model in config.models
        }
        chosen = {row: choose(one.curves) for row, one in trained.items()}
        for row, choices in chosen.items():
            _record(recorder, data, row, choices)
        differences = compare_models(chosen)
        recorder.add_results(
            Cell("graphs-classify/differences", f"{source.label}, {pair}", what, None, value)
            for pair, one in differences.items()
            for what, value in zip(("mean", "standard error", "folds"), one, strict=True)
        )
        curves = {row: one.curves for row, one in trained.items()}
        weights = {row: one.weights for row, one in trained.items() if one.weights}
        draw_results(recorder, source.label, curves, weights, differences)


def compare_models(chosen: Mapping[str, Mapping[str, Chosen]]) -> dict[str, Difference]:
    """Compare pairs of rows fold by fold, each at the epoch of its mean validation accuracy."""
    found = {}
    for first, second in ((ROWS[one], ROWS[other]) for one, other in PAIRS):
        if first in chosen and second in chosen:
            accuracies = (chosen[row][BY_MEAN].accuracies for row in (first, second))
            found[f"{first} minus {second}"] = compare_folds(*accuracies)
    return found


class Passes:
    """Batches of a fold's training graphs: a function of the step alone, so resuming is exact.

    Each pass over the graphs has its own order; the last batch is smaller, but never one graph.
    """

    def __init__(self, data: LabelledGraphs, chosen: Ints, batch_size: int, *, seed: int) -> None:
        self.data, self.chosen, self.seed = data, chosen, seed
        self.borders = batch_borders(len(chosen), batch_size)
        self.per_epoch = len(self.borders) - 1
        self._epoch, self._order = -1, chosen

    def __call__(self, step: int, generator: torch.Generator | None = None) -> Batch:
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            rng = np.random.default_rng([self.seed, epoch])
            self._epoch, self._order = epoch, rng.permutation(self.chosen)
        return _batch(self.data, self._order[slice(*self.borders[position : position + 2])])


def accuracy(model: Callable[..., Tensor], batches: Sequence[Batch]) -> float:
    """Per cent of the graphs whose class has the highest score."""
    right = [model(*graphs).argmax(dim=1) == labels for graphs, labels in batches]
    return 100 * torch.cat(right).double().mean().item()


def halve(share: float, *, halvings: float) -> float:
    """Factor on the learning rate after a share of the training.

    Example:
        >>> [halve(share, halvings=10) for share in (0, 0.099, 0.1, 0.3)]
        [1.0, 1.0, 0.5, 0.125]
    """
    return 0.5 ** floor(share * halvings + 1e-6)  # a share of 0.3 may be a bit below


class _Data(NamedTuple):
    """A dataset with what it is trained with."""

    source: Source
    protocol: Protocol
    all: LabelledGraphs


def _cross_validate(config: Classify, recorder: Recorder, data: _Data, model: str) -> Trained:
    labels = data.all.labels.numpy() if config.stratified else None
    folds = cut_folds(len(data.all.labels), PARTS, seed=config.seed, labels=labels)
    folds, grid = folds[: data.protocol.folds], data.protocol.grid
    shape = (len(grid), len(folds), data.protocol.epochs)
    curves = Curves(np.empty(shape), np.empty(shape))
    weights: list[Tensor] = []
    for setting, choice in enumerate(grid):
        panel = f"{data.source.label} {model}{_label(choice) if len(grid) > 1 else ''}"
        for number, fold in enumerate(folds):
            task, seed = f"{panel}/fold {number + 1}", PARTS * config.seed + number
            network, history = _train(config, recorder, data, model, choice, fold, task, seed)
            for name, values in vars(curves).items():
                values[setting, number] = [value for _, value in history.curve(f"{name} accuracy")]
            weights = weights or learned_weights(network)
    return Trained(curves, weights)


def _train(
    config: Classify,
    recorder: Recorder,
    data: _Data,
    name: str,
    choice: Choice,
    fold: Fold,
    task: str,
    seed: int,
) -> tuple[nn.Module, History]:
    seed_everything(seed)
    device = pick_device(config.device)
    graphs, labels = data.all
    classes = int(labels.max()) + 1
    model = build_model(name, data.source, choice, features=graphs.features, classes=classes)
    model.to(device)
    passes = Passes(data.all, fold.training, choice.batch_size, seed=seed)
    measured = {
        "validation accuracy": _batches(data.all, fold.validation, device),
        "test accuracy": _batches(data.all, fold.test, device),
    }
    history = train(
        model,
        torch.optim.Adam(model.parameters(), lr=config.learning_rate),
        lambda batch: cross_entropy(model(*batch.graphs), batch.labels),
        passes,
        recorder=recorder,
        task=task,
        settings=Settings(
            data.protocol.epochs * passes.per_epoch,
            schedule=partial(halve, halvings=data.protocol.halvings),
            seed=seed,
            record_every=passes.per_epoch,
            evaluate_every=passes.per_epoch,
        ),
        evaluate=lambda: {what: accuracy(model, batches) for what, batches in measured.items()},
    )
    return model, history


def _batch(data: LabelledGraphs, chosen: Ints) -> Batch:
    index = torch.from_numpy(chosen)
    return Batch(data.graphs.batch(index), data.labels[index])


def _batches(data: LabelledGraphs, chosen: Ints, device: torch.device) -> list[Batch]:
    """Large batches, made once for all epochs."""
    size = max(1, int(_NODES / data.graphs.sizes.double().mean().item()))
    starts = range(0, len(chosen), size)
    return [move(_batch(data, chosen[start : start + size]), device) for start in starts]


def _digest(data: LabelledGraphs) -> str:
    graphs = data.graphs
    digest = hashlib.sha256()
    for tensor in (graphs.nodes, graphs.edges, graphs.sizes, graphs.categories, data.labels):
        if tensor is not None:
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _label(choice: Choice) -> str:
    return f" hidden={choice.hidden} batch={choice.batch_size} dropout={choice.dropout:g}"


def _record(recorder: Recorder, data: _Data, row: str, choices: Mapping[str, Chosen]) -> None:
    table, label = f"fspool/graph-{data.source.kind}", data.source.label
    chosen, named = choices[BY_MEAN], f"{label}, {row}"
    mean = {how: one.accuracies.mean().item() for how, one in choices.items()}
    cells = [
        Cell(table, row, label, None, mean[BY_MEAN]),
        Cell(f"{table}-epochs", row, label, None, int(chosen.epochs[0])),
    ]
    own = {**mean, "test minus mean over folds": mean[BY_TEST] - mean[BY_MEAN]}
    own["epoch, mean over folds"] = int(chosen.epochs[0])
    own["epoch, each fold"] = choices[BY_FOLD].epochs.mean().item()
    own["epoch, test"] = int(choices[BY_TEST].epochs[0])
    cells += [Cell("graphs-classify/selection", named, what, None, own[what]) for what in own]
    folds = {f"fold {number + 1}": value for number, value in enumerate(chosen.accuracies.tolist())}
    if len(folds) > 1:
        folds["standard deviation"] = chosen.accuracies.std(ddof=1).item()
    cells += [Cell("graphs-classify/folds", named, what, None, folds[what]) for what in folds]
    if label == "PROTEINS":
        key = "fspool/graph-proteins-selection-text"
        for how, word in ((BY_MEAN, "validation"), (BY_TEST, "test")):
            cells.append(Cell(key, row, f"selected by {word} accuracy", None, mean[how]))
    if len(data.protocol.grid) > 1:
        best = data.protocol.grid[chosen.settings[0]]
        for what, value in (
            ("dimensionality", best.hidden),
            ("batch size", best.batch_size),
            ("dropout", best.dropout),
        ):
            cells.append(Cell(CHOSEN, f"{row} {what}", label, None, value))
    recorder.add_results(cells)


def _record_data(recorder: Recorder, data: _Data) -> None:
    sizes, label, grid = data.all.graphs.sizes, data.source.label, data.protocol.grid
    statistics = {
        "Num. graphs": len(sizes),
        "Num. classes": int(data.all.labels.max()) + 1,
        "Avg. nodes": sizes.double().mean().item(),
        "Max. nodes": int(sizes.max()),
    }
    key = f"fspool/graph-{data.source.kind}-stats"
    cells = [Cell(key, row, label, None, value) for row, value in statistics.items()]
    protocol = {
        "folds of 10": data.protocol.folds,
        "epochs": data.protocol.epochs,
        "epochs per halving": data.protocol.epochs / data.protocol.halvings,
        "settings": len(grid),
        **(grid[0]._asdict() if len(grid) == 1 else {}),
    }
    key = "graphs-classify/protocol"
    cells += [Cell(key, label, column, None, value) for column, value in protocol.items()]
    recorder.add_results(cells)


def _describe_tables(config: Classify, recorder: Recorder) -> None:
    shorter = {"short": SHORT_TABLES, "grid": GRID_TABLES}.get(config.protocol, {})
    described = {**OWN_TABLES, **shorter}
    for key, about in described.items():
        recorder.add_table(key, caption=about.caption, unit=about.unit, better=about.better)
