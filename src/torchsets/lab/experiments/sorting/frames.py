"""A figure to play with: a set of numbers on its way into order, step by step."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchsets.lab.experiments.rounding import rounded
from torchsets.lab.records import Recorder
from torchsets.permutations import ordering_cost


def draw_sorting_steps(
    recorder: Recorder, numbers: Tensor, costs: Tensor, course: Sequence[Tensor], *, trained: int
) -> None:
    """Record the soft permutations (1, N, N) of one set of numbers (1, N, 1) at every step."""
    steps = list(range(len(course)))
    # What is minimised: the descent scales the costs to norm 1.
    scaled = costs / torch.linalg.vector_norm(costs).clamp(min=1e-10)
    cost = torch.cat([ordering_cost(soft, scaled) for soft in course])
    outputs = torch.cat([(soft.mT @ numbers).squeeze(2) for soft in course])
    panels: list[dict[str, Any]] = [
        {
            "kind": "matrix",
            "title": "Weight of each number at each position",
            "matrices": rounded(torch.cat(list(course))),
            "range": [0, 1],
            "rows": [f"{number:.2f}" for number in numbers.flatten().tolist()],
            "columns": [str(position + 1) for position in range(numbers.shape[1])],
            "x_label": "position",
        },
        {
            "kind": "bars",
            "title": "Output at each position (lines: the sorted numbers)",
            "bars": rounded(outputs),
            "marks": rounded(numbers.sort(dim=1).values.squeeze(2)),
            "range": [0, 1],
            "x_label": "position",
        },
        {
            "kind": "lines",
            "title": "Ordering cost",
            "lines": [{"x": steps, "y": rounded(cost, 4)}],
            "x_label": "inner step",
        },
    ]
    recorder.add_figure(
        "sorting-steps",
        kind="frames",
        title=f"Follow {numbers.shape[1]} numbers into order",
        caption="Rows are the numbers in the order in which the model gets them. At step 0 every "
        "number is everywhere a little, and every position holds the mean. Each step lowers the "
        f"ordering cost. The model was trained with sets of {trained}. Not chosen: the first set "
        "of the generator.",
        alt="A matrix of weights that becomes a permutation, the outputs that spread out to the "
        "sorted numbers, and the ordering cost.",
        data={"slider": {"label": "Inner step", "values": steps}, "panels": panels},
    )
