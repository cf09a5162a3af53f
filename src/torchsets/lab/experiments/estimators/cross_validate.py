"""set-estimators: what a SetClassifier brings beside a forest on plain statistics.

Both are cross-validated on the same folds. Seconds are those that one process spent on the
processor for training and predicting a fold, so other programs on the machine count little.
"""

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from torchsets.data import mnist_point_sets, small_digit_sets, tu_graphs
from torchsets.estimators import SetClassifier, SetStatistics
from torchsets.lab.experiments.estimators.configs import DATASETS, MODELS, CrossValidate
from torchsets.lab.experiments.estimators.figures import draw_confusions
from torchsets.lab.records import Recorder
from torchsets.sets import Sets

ACCURACY, SECONDS = "set-estimators/accuracy", "set-estimators/seconds"


def run(config: CrossValidate, recorder: Recorder) -> None:
    """Cross-validate each model on each dataset, and draw what it confuses."""
    _describe_tables(recorder)
    confusions: dict[str, NDArray[Any]] = {}
    for name in config.datasets:
        sets, labels = load_sets(name, config.sets)
        recorder.add_data(name, sets.digest())
        folds = StratifiedKFold(config.folds, shuffle=True, random_state=config.seed)
        splits = list(folds.split(labels, labels))[: config.measured_folds]
        for model in config.models:
            accuracy, seconds, confused = _cross_validate(config, model, sets, labels, splits)
            confusions[f"{name}, {MODELS[model]}"] = confused
            row = MODELS[model]
            recorder.add_result(ACCURACY, model=row, column=name, value=accuracy, seed=config.seed)
            recorder.add_result(SECONDS, model=row, column=name, value=seconds, seed=config.seed)
    draw_confusions(recorder, confusions)


def load_sets(name: str, limit: int | None) -> tuple[Sets, NDArray[np.int64]]:
    """Load a dataset, at most so many of its sets, with their classes."""
    if name == "digits":
        parts = [small_digit_sets(split) for split in ("train", "test")]
        sets = Sets(
            torch.cat([part.sets.values for part in parts]),
            torch.cat([part.sets.sizes for part in parts]),
        )
        labels = torch.cat([part.labels for part in parts])
    elif name == "mnist":
        sets, labels = mnist_point_sets("train")
    else:
        graphs, labels = tu_graphs(name, degrees=False)
        every = graphs.batch(slice(None))
        nodes = every.nodes
        if name == "IMDB-BINARY":  # its nodes have no features
            nodes = torch.bincount(every.edges[0], minlength=len(nodes)).unsqueeze(1).float()
        sets = Sets(nodes, every.sizes)
    return sets[:limit], labels[:limit].numpy()


def make_model(config: CrossValidate, name: str) -> BaseEstimator:
    """Return an untrained estimator."""
    if name == "forest":
        return make_pipeline(SetStatistics(), RandomForestClassifier(random_state=config.seed))
    classifier = SetClassifier(random_state=config.seed, device=config.device)
    return classifier if config.epochs is None else classifier.set_params(max_epochs=config.epochs)


def _cross_validate(
    config: CrossValidate,
    name: str,
    sets: Sets,
    labels: NDArray[np.int64],
    splits: list[tuple[NDArray[Any], NDArray[Any]]],
) -> tuple[float, float, NDArray[Any]]:
    """Mean accuracy in percent, mean seconds of a fold, and the confusions of all folds."""
    truth, predicted, accuracies = [], [], []
    began = time.process_time()
    for training, test in splits:
        model = make_model(config, name).fit(sets[training], labels[training])
        predicted.append(model.predict(sets[test]))
        truth.append(labels[test])
        accuracies.append(100 * np.mean(predicted[-1] == truth[-1]))
    seconds = (time.process_time() - began) / len(splits)
    confused = confusion_matrix(
        np.concatenate(truth), np.concatenate(predicted), labels=np.unique(labels)
    )
    return float(np.mean(accuracies)), seconds, confused


def _describe_tables(recorder: Recorder) -> None:
    meanings = "; ".join(f"{name}: {meaning}" for name, meaning in DATASETS.items())
    recorder.add_table(
        ACCURACY,
        caption=f"Mean accuracy over the folds. What a set is: {meanings}",
        unit="%",
        better="higher",
    )
    recorder.add_table(
        SECONDS,
        caption="Processor seconds for training and predicting one fold",
        unit="s",
        better="lower",
    )
