"""The figures of ``sort-numbers``: the learned comparison, the step size, a set being sorted."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from torchsets.lab.experiments.sorting.models import (
    Optimiser,
    learned_cost,
    permutations_by_step,
)
from torchsets.lab.figures import (
    CursorLines,
    FramePanel,
    Frames,
    Heatmaps,
    Line,
    Lines,
    Matrix,
    MovingBars,
    MovingMatrix,
    Panel,
    Slider,
)
from torchsets.lab.records import Recorder
from torchsets.permutations import ordering_cost

_POINTS = 41  # of a heat map along each axis
_SHOWN = 10  # numbers in the set that is sorted step by step


@torch.no_grad()
def draw_comparison(recorder: Recorder, model: Optimiser, *, trained: int) -> None:
    """Draw F and f for all pairs of numbers of two intervals."""
    panels: dict[str, list[Matrix]] = {"F": [], "f": []}
    for high in (1.0, 1000.0):
        numbers = torch.linspace(0, high, _POINTS, dtype=torch.float64)
        pairs = torch.cartesian_prod(numbers, numbers).view(_POINTS, _POINTS, 2)
        one_way = learned_cost(model).compare(pairs.to(model.step_size.device)).squeeze(-1).cpu()
        for name, values in (("f", one_way), ("F", one_way - one_way.mT)):
            panels[name].append(
                Matrix(
                    values.tolist(),
                    title=f"[0, {high:g}]",
                    x_label="second number",
                    y_label="first number",
                    extent=(0, high, high, 0),
                )
            )
    recorder.add_figure(
        "comparison-F",
        Heatmaps(panels["F"], columns=2, colours="diverging", bar=True),
        title="The learned comparison F",
        caption="Red: the first number belongs after the second; blue: before it. F is only "
        f"trained on [0, 1], here with sets of {trained}.",
        alt="Two heat maps of F over pairs of numbers, on 0 to 1 and on 0 to 1000: blue where the "
        "first number is smaller, red where it is larger, white on the diagonal.",
    )
    recorder.add_figure(
        "comparison-f-inner",
        Heatmaps(panels["f"], columns=2, bar=True),
        title="The network f inside: F(a, b) = f(a, b) - f(b, a)",
        caption="A function of one of the two numbers alone would be enough: then F is the "
        "difference of the two values.",
        alt="Two heat maps of f over pairs of numbers, on 0 to 1 and on 0 to 1000.",
    )


def draw_step_sizes(recorder: Recorder, curves: Mapping[int, Sequence[tuple[int, float]]]) -> None:
    """Draw the pairs (training step, step size) of each set size."""
    lines = []
    for size, curve in curves.items():
        steps, values = zip((0, 1.0), *curve, strict=True)
        lines.append(Line([1 + step for step in steps], values, label=f"n={size}"))
    panel = Panel(lines, x_label="training step + 1", y_label="step size", log_x=True)
    recorder.add_figure(
        "step-size",
        Lines([panel]),
        title="The step size during training",
        caption="Of PO-U, first seed. It falls from 1 while the comparison is wrong, and rises "
        "above 1 once it is right. The first point is before the first step.",
        alt="Curves of the learned step size against the training step, one for each set size.",
    )


@torch.no_grad()
def draw_sorting(
    recorder: Recorder, model: Optimiser, *, trained: int, steps: int, seed: int
) -> None:
    """Draw one set on its way from the uniform permutation to the sorted list."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(1, _SHOWN, 1, dtype=torch.float64, generator=generator)
    given = numbers.to(model.step_size.device)
    ascending = given.sort(dim=1).values
    softs = permutations_by_step(model, ascending, steps)
    draw_permutations(recorder, softs, trained=trained)
    draw_outputs(recorder, ascending.cpu(), softs)
    softs = permutations_by_step(model, given, steps)
    costs = learned_cost(model)(given).cpu()
    draw_sorting_steps(recorder, given.cpu(), costs, softs, trained=trained)


def draw_permutations(recorder: Recorder, softs: Sequence[Tensor], *, trained: int) -> None:
    """Draw the soft permutations (1, N, N) of one set at every step."""
    panels = [
        Matrix(
            soft[0].tolist(),
            title=f"step {step}",
            x_label="position",
            y_label="number, ascending" if step == 0 else "",
        )
        for step, soft in enumerate(softs)
    ]
    recorder.add_figure(
        "sorting-permutations",
        Heatmaps(panels, columns=4, range=(0, 1)),
        title=f"A set of {softs[0].shape[1]} numbers is sorted, step by step",
        caption="Weight of each number (row) at each position (column); white is 1. Rows are in "
        "ascending order only to make the picture readable: the model does not see it. The model "
        f"was trained with sets of {trained}. Not chosen: the first set of the generator.",
        alt="A row of matrices, from uniform grey to a bright diagonal.",
    )


def draw_outputs(recorder: Recorder, numbers: Tensor, softs: Sequence[Tensor]) -> None:
    """Draw how the soft output at each position approaches one of the numbers (1, N, 1)."""
    outputs = torch.cat([(soft.mT @ numbers).squeeze(2) for soft in softs])  # (steps, N)
    steps = list(range(len(softs)))
    curves = [
        Line(steps, values.tolist(), value=position + 1)
        for position, values in enumerate(outputs.unbind(dim=1))
    ]
    marks = [
        Line([steps[-1], steps[-1] + 0.6], [number, number], black=True)
        for number in numbers.flatten().tolist()
    ]
    panel = Panel([*curves, *marks], x_label="inner step", y_label="output")
    recorder.add_figure(
        "sorting-outputs",
        Lines([panel], colour_label="position"),
        title="The soft output at each position, step by step",
        caption="At step 0 every position holds the mean of the set. The black marks on the "
        "right are the numbers.",
        alt="Curves that fan out from one value to the sorted numbers.",
    )


def draw_sorting_steps(
    recorder: Recorder, numbers: Tensor, costs: Tensor, softs: Sequence[Tensor], *, trained: int
) -> None:
    """Record the soft permutations (1, N, N) of one set of numbers (1, N, 1), for a slider."""
    steps = list(range(len(softs)))
    # What is minimised: the descent scales the costs to norm 1.
    scaled = costs / torch.linalg.vector_norm(costs).clamp(min=1e-10)
    cost = torch.cat([ordering_cost(soft, scaled) for soft in softs])
    outputs = torch.cat([(soft.mT @ numbers).squeeze(2) for soft in softs])
    panels: list[FramePanel] = [
        MovingMatrix(
            torch.cat(list(softs)).tolist(),
            range=(0, 1),
            title="Weight of each number at each position",
            rows=[f"{number:.2f}" for number in numbers.flatten().tolist()],
            columns=[str(position + 1) for position in range(numbers.shape[1])],
            x_label="position",
        ),
        MovingBars(
            outputs.tolist(),
            range=(0, 1),
            title="Output at each position (lines: the sorted numbers)",
            marks=numbers.sort(dim=1).values.squeeze(2).tolist(),
            x_label="position",
        ),
        CursorLines([Line(steps, cost.tolist())], title="Ordering cost", x_label="inner step"),
    ]
    recorder.add_figure(
        "sorting-steps",
        Frames(Slider("Inner step", steps), panels),
        title=f"Follow {numbers.shape[1]} numbers into order",
        caption="Rows are the numbers in the order in which the model gets them. At step 0 every "
        "number is everywhere a little, and every position holds the mean. Each step lowers the "
        f"ordering cost. The model was trained with sets of {trained}. Not chosen: the first set "
        "of the generator.",
        alt="A matrix of weights that becomes a permutation, the outputs that spread out to the "
        "sorted numbers, and the ordering cost.",
    )


def draw_entropies(
    recorder: Recorder,
    entropies: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    sets: int,
    size: int,
) -> None:
    """Draw the entropy after each inner step, by how the model was trained and by the update."""
    panels = [
        Panel(
            [Line(list(range(len(one))), one, label=update) for update, one in updates.items()],
            title=title,
            x_label="inner step",
            y_label="entropy in nats",
        )
        for title, updates in entropies.items()
    ]
    recorder.add_figure(
        "entropy",
        Lines(panels),
        title="The usual update makes harder permutations than the true gradient",
        caption="The usual update takes the gradient at the normalised permutation as the "
        "direction for the scores; the true gradient goes through Sinkhorn and vanishes near a "
        f"hard permutation. {sets} sets of {size} numbers; each comparison and step size "
        "is used with both.",
        alt="Entropy against the inner step for both updates; the usual update falls lower.",
    )
