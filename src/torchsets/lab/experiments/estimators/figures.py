"""The figure of the experiment on estimators."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from torchsets.lab.figures import Heatmaps, Matrix
from torchsets.lab.records import Recorder


def draw_confusions(recorder: Recorder, confusions: Mapping[str, NDArray[Any]]) -> None:
    """Record which classes each model takes for which, as shares of the true class."""
    panels = []
    for title, counts in confusions.items():
        shares = counts / counts.sum(axis=1, keepdims=True).clip(min=1)
        panels.append(Matrix(shares.tolist(), title, x_label="predicted class", y_label="class"))
    recorder.add_figure(
        "confusions",
        Heatmaps(panels, columns=2, range=(0, 1), bar=True),
        title="What is taken for what",
        caption="Row: the true class. Column: the predicted one. Shares of the sets of a class in "
        "the test folds; a perfect model has the diagonal alone.",
        alt="Confusion matrices of each model on each dataset",
    )
