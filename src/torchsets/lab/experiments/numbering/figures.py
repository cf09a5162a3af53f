"""The figures of the small benchmarks of set prediction."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from torchsets.lab.figures import CursorLines, Frames, Line, MovingMatrix, Slider
from torchsets.lab.records import Recorder


class Descent(NamedTuple):
    """One set on the way.

    Attributes:
        labels: The class of each element, (N,).
        steps: The scores of each element before and after each step, (T + 1, N, N).
        right: Whether each element has its right number by then, (T + 1, N).
        loss: The inner loss before each step, (T,).
    """

    labels: Tensor
    steps: Tensor
    right: Tensor
    loss: Tensor


def draw_descents(recorder: Recorder, descents: Mapping[str, Descent]) -> None:
    """Record how a set is numbered, step by step, for a slider."""
    first = next(iter(descents.values()))
    count, size = first.right.shape
    steps = list(range(count))
    names = [chr(ord("A") + label) for label in first.labels.tolist()]
    matrices = [
        MovingMatrix(
            one.steps.tolist(),
            range=(0.0, 1.0),
            title=name,
            rows=names,
            x_label="number within the class",
            y_label="class of the element",
        )
        for name, one in descents.items()
    ]
    shares = [
        Line(steps, (100 * one.right.double().mean(dim=1)).tolist(), label=name)
        for name, one in descents.items()
    ]
    rights = {name: one.right.sum(dim=1).tolist() for name, one in descents.items()}
    recorder.add_figure(
        "descent",
        Frames(
            Slider("step of the descent", steps),
            [
                *matrices,
                CursorLines(
                    shares,
                    title="elements with their right number",
                    x_label="step of the descent",
                    y_label="%",
                ),
            ],
            texts=[
                f"After step {step}: "
                + "; ".join(
                    f"{name}: {right[step]} of {size} right" for name, right in rights.items()
                )
                + "."
                for step in steps
            ],
            start=count - 1,
        ),
        title="Equal elements get different numbers",
        caption="The first set of the test, its elements sorted by class: one row for each "
        "element, one column for each number; white is 1. It starts at random, projected onto the "
        "simplex. In the end each element should have chosen one number, and the elements of a "
        "class the numbers from 0 on, in any order.",
        alt="A matrix of elements by numbers that turns from an even grey into one bright square "
        "in each row while the slider moves over the steps of the descent, and a curve of the "
        "share of elements that are right.",
    )
