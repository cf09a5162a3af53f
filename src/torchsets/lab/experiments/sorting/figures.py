"""The figures of the experiment ``sort-numbers``."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from torchsets.lab.experiments.sorting.frames import draw_sorting_steps
from torchsets.lab.records import Recorder, read_run
from torchsets.permutations import PairwiseCost, optimise_permutation

_POINTS = 41  # of a heat map along each axis
_SHOWN = 10  # numbers in the set that is sorted step by step
_ENTROPY_SETS = 100


def draw_figures(
    recorder: Recorder, optimisers: dict[int, nn.Module], rival: nn.Module | None, config: Any
) -> None:
    """Draw what PO-U learned; ``optimisers`` holds a trained model for each size."""
    if not optimisers:
        return
    size = max((size for size in optimisers if size <= 100), default=min(optimisers))
    _draw_comparison(recorder, optimisers[size], size)
    _draw_step_sizes(recorder, config.sizes)
    _draw_sorting(recorder, optimisers[size], size, config)
    if rival is not None:
        _draw_entropies(recorder, optimisers, rival, config)


def _draw_comparison(recorder: Recorder, model: nn.Module, size: int) -> None:
    """F and f for all pairs of numbers of two intervals."""
    shapes: dict[str, list[dict[str, Any]]] = {"F": [], "f": []}
    for high in (1.0, 1000.0):
        numbers = torch.linspace(0, high, _POINTS, dtype=torch.float64)
        pairs = torch.cartesian_prod(numbers, numbers).view(_POINTS, _POINTS, 2)
        one_way = _compare(model, pairs)
        for name, values in (("f", one_way), ("F", one_way - one_way.mT)):
            shapes[name].append(
                {
                    "title": f"[0, {high:g}]",
                    "matrix": [[round(x, 6) for x in row] for row in values.tolist()],
                    "x_label": "second number",
                    "y_label": "first number",
                    "extent": [0, high, high, 0],
                }
            )
    recorder.add_figure(
        "comparison-F",
        kind="heatmaps",
        title="The learned comparison F",
        caption="Red: the first number belongs after the second; blue: before it. F is only "
        f"trained on [0, 1], here with sets of {size}.",
        alt="Two heat maps of F over pairs of numbers, on 0 to 1 and on 0 to 1000: blue where the "
        "first number is smaller, red where it is larger, white on the diagonal.",
        data={"panels": shapes["F"], "columns": 2, "colours": "diverging", "bar": True},
    )
    recorder.add_figure(
        "comparison-f-inner",
        kind="heatmaps",
        title="The network f inside: F(a, b) = f(a, b) - f(b, a)",
        caption="A function of one of the two numbers alone would be enough: then F is the "
        "difference of the two values.",
        alt="Two heat maps of f over pairs of numbers, on 0 to 1 and on 0 to 1000.",
        data={"panels": shapes["f"], "columns": 2, "bar": True},
    )


@torch.no_grad()
def _compare(model: nn.Module, pairs: Tensor) -> Tensor:
    device = next(model.parameters()).device
    compare = cast(PairwiseCost, model.cost).compare
    outputs: Tensor = compare(pairs.to(device))
    return outputs.squeeze(-1).cpu()


def _draw_step_sizes(recorder: Recorder, sizes: tuple[int, ...]) -> None:
    """The step size eta after each training step, from the records."""
    metrics = read_run(recorder.folder).metrics
    lines = []
    for size in sizes:
        course = [
            (line["step"], line["step size"])
            for line in metrics
            if line["task"] == f"n={size}/po-u" and "step size" in line
        ]
        if course:
            steps, values = zip((0, 1.0), *course, strict=True)
            lines.append({"label": f"n={size}", "x": [1 + s for s in steps], "y": list(values)})
    recorder.add_figure(
        "step-size",
        kind="lines",
        title="The step size during training",
        caption="Of PO-U, first seed. It falls from 1 while the comparison is wrong, and rises "
        "above 1 once it is right. The first point is before the first step.",
        alt="Curves of the learned step size against the training step, one for each set size.",
        data={
            "panels": [
                {
                    "x_label": "training step + 1",
                    "y_label": "step size",
                    "log_x": True,
                    "lines": lines,
                }
            ]
        },
    )


@torch.no_grad()
def _draw_sorting(recorder: Recorder, model: nn.Module, size: int, config: Any) -> None:
    """One set on its way from the uniform permutation to the sorted list."""
    generator = torch.Generator().manual_seed(config.seed)
    numbers = torch.rand(1, _SHOWN, 1, dtype=torch.float64, generator=generator)
    given = numbers.to(next(model.parameters()).device)
    numbers = given.sort(dim=1).values
    course = _course(model, numbers, config.inner_steps, through_sinkhorn=False)
    panels = [
        {
            "title": f"step {step}",
            "matrix": [[round(x, 5) for x in row] for row in soft[0].tolist()],
            "x_label": "position",
            "y_label": "number, ascending" if step == 0 else "",
        }
        for step, soft in enumerate(course)
    ]
    recorder.add_figure(
        "sorting-permutations",
        kind="heatmaps",
        title=f"A set of {_SHOWN} numbers is sorted, step by step",
        caption="Weight of each number (row) at each position (column); white is 1. Rows are in "
        "ascending order only to make the picture readable: the model does not see it. The model "
        f"was trained with sets of {size}. Not chosen: the first set of the generator.",
        alt="A row of matrices, from uniform grey to a bright diagonal.",
        data={"panels": panels, "columns": 4, "range": [0, 1]},
    )
    outputs = torch.stack([(soft.mT @ numbers).squeeze() for soft in course])
    steps = list(range(len(course)))
    lines: list[dict[str, Any]] = [
        {"x": steps, "y": outputs[:, k].tolist(), "value": k + 1} for k in range(_SHOWN)
    ]
    lines += [
        {"x": [steps[-1], steps[-1] + 0.6], "y": [number, number], "black": True}
        for number in numbers.flatten().tolist()
    ]
    recorder.add_figure(
        "sorting-outputs",
        kind="lines",
        title="The soft output at each position, step by step",
        caption="At step 0 every position holds the mean of the set. The black marks on the "
        "right are the numbers.",
        alt="Curves that fan out from one value to the sorted numbers.",
        data={
            "panels": [{"x_label": "inner step", "y_label": "output", "lines": lines}],
            "colour_label": "position",
        },
    )
    course = _course(model, given, config.inner_steps, through_sinkhorn=False)
    costs = cast(PairwiseCost, model.cost)(given).cpu()
    draw_sorting_steps(recorder, given.cpu(), costs, course, trained=size)


@torch.no_grad()
def _draw_entropies(
    recorder: Recorder, optimisers: dict[int, nn.Module], rival: nn.Module, config: Any
) -> None:
    """How hard the permutations become, with the usual update and with the true gradient."""
    size = config.true_gradient_size
    usual = optimisers.get(size)
    if usual is None:
        return
    generator = torch.Generator().manual_seed(config.seed)
    numbers = torch.rand(_ENTROPY_SETS, size, 1, dtype=torch.float64, generator=generator)
    numbers = numbers.to(next(rival.parameters()).device)
    steps = list(range(config.inner_steps + 1))
    panels = []
    for title, followed in (
        ("trained with the usual update", usual),
        ("trained with the true gradient", rival),
    ):
        lines = []
        for label, through in (("usual update", False), ("true gradient", True)):
            course = _course(followed, numbers, config.inner_steps, through_sinkhorn=through)
            entropy = [torch.special.entr(soft).sum(dim=2).mean().item() for soft in course]
            lines.append({"label": label, "x": steps, "y": entropy})
            recorder.add_result(
                "sort-numbers/entropy", model=title, column=label, value=entropy[-1]
            )
        panels.append(
            {"title": title, "x_label": "inner step", "y_label": "entropy in nats", "lines": lines}
        )
    recorder.add_table(
        "sort-numbers/entropy",
        caption=f"Mean entropy of a number's weights over the positions after the last inner step, "
        f"{_ENTROPY_SETS} sets of {size} numbers",
        unit="nats",
        better="lower",
    )
    recorder.add_figure(
        "entropy",
        kind="lines",
        title="The usual update makes harder permutations than the true gradient",
        caption="The usual update takes the gradient at the normalised permutation as the "
        "direction for the scores; the true gradient goes through Sinkhorn and vanishes near a "
        f"hard permutation. {_ENTROPY_SETS} sets of {size} numbers; each comparison and step size "
        "is used with both.",
        alt="Entropy against the inner step for both updates; the usual update falls lower.",
        data={"panels": panels, "columns": 2},
    )


def _course(
    model: nn.Module, numbers: Tensor, steps: int, *, through_sinkhorn: bool
) -> list[Tensor]:
    """The permutations before the first and after each inner step."""
    costs = cast(PairwiseCost, model.cost)(numbers)
    size = cast(Tensor, model.step_size)
    return [
        optimise_permutation(
            costs, steps=step, step_size=size, through_sinkhorn=through_sinkhorn
        ).cpu()
        for step in range(steps + 1)
    ]
