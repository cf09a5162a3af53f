"""The figures of the small benchmarks of set prediction."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.lab.figures import CursorLines, Frames, Line, MovingMatrix, MovingPoints, Slider
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


class Way(NamedTuple):
    """How a set was predicted, for a model without steps in one entry.

    Attributes:
        points: The prediction before and after each step, (T + 1, N, D).
        errors: The mean error over many sets by then, (T + 1,).
    """

    points: Tensor
    errors: Tensor


def draw_ways(recorder: Recorder, label: str, ways: Mapping[str, Way], target: Tensor) -> None:
    """Record how each model predicts the set (N, D), and how its errors fall, for a slider."""
    count = max(len(way.errors) for way in ways.values())
    steps = list(range(count))
    limit = 1.1 * target[:, :2].abs().max().item()
    panels = [
        MovingPoints(
            _prolong(way.points[..., :2], count).tolist(),
            range=(-limit, limit),
            title=name,
            targets=[target[:, :2].tolist()],
            slots=list(range(len(target))),
            trail=True,
        )
        for name, way in ways.items()
    ]
    errors = [
        Line(steps, _prolong(way.errors, count).log10().tolist(), label=name)
        for name, way in ways.items()
    ]
    curves = CursorLines(errors, title="log10 of the mean error", x_label="step")
    recorder.add_figure(
        f"steps {label.replace(',', '')}",
        Frames(Slider("step", steps), [*panels, curves], start=count - 1),
        title=f"The prediction at every step, {label}",
        caption="Rings: the set, its first two features. Dots: the prediction, one colour for each "
        "slot, after each inner step (DSPN), layer (queries) or round (slot attention); a model "
        "with fewer steps stays where it ends, and one without steps does not move. The steps "
        "never see the set. Not chosen: the first set of the validation.",
        alt="Scatter plots, one for each model, whose dots move into the rings.",
    )


def _prolong(steps: Tensor, count: int) -> Tensor:
    """Repeat the last of the steps (T + 1, ...) until there are so many."""
    return torch.cat([steps, steps[-1:].expand(count - len(steps), *steps.shape[1:])])
