"""Linear assignment beside a loop over the batch with scipy.

The costs are drawn uniformly, or are squared distances between points, which are harder. Ragged
batches have the sizes of object detectors: N predictions and 1 to M targets for each image. The
loop knows the number of targets and slices; torchsets is given a mask.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from torchsets import matching
from torchsets.lab.benchmarks.harness import Case
from torchsets.losses.elements import cost_matrix
from torchsets.padded import lengths_to_mask

Step = Callable[[], object]
SQUARE = [(512, 10), (32, 100), (32, 342), (4, 1024)]
RAGGED = [  # images, predictions, fewest and most targets
    (1, 100, 1, 1),
    (1, 100, 1, 20),
    (2, 100, 1, 20),
    (8, 100, 1, 20),
    (64, 100, 1, 20),
    (16, 300, 1, 40),
    (4, 300, 100, 250),
    (8, 900, 50, 150),
    (64, 900, 50, 150),
]
LAYERS = [(6, 2, 100, 1, 20), (6, 8, 100, 1, 20)]  # the same for each layer of a decoder


class Problem(NamedTuple):
    """Costs (*S, B, N, M) and the number of real columns of each of the B sets; None: all."""

    cost: Tensor
    sizes: Tensor | None


def cases() -> list[Case]:
    """Many small problems to a few large ones; equal sizes with both kinds of costs."""
    square = [
        _case(f"({sets}, {size}, {size}), {kind}", (sets, size, size), kind, None)
        for sets, size in SQUARE
        for kind in ("uniform", "distances")
    ]
    ragged = [
        _case(
            f"({', '.join(map(str, steps))}, {rows}, {fewest} to {most})",
            (*steps, rows, most),
            "distances",
            fewest,
        )
        for *steps, rows, fewest, most in [*RAGGED, *LAYERS]
    ]
    return square + ragged


def _case(name: str, shape: tuple[int, ...], kind: str, fewest: int | None) -> Case:
    def problem() -> Problem:
        return _problem(shape, kind, fewest)

    return Case(
        name,
        {
            "torchsets": lambda: _assign(problem(), use_lapx=matching._USE_LAPX),
            "plain": lambda: _loop(problem()),
            "torchsets, scipy only": lambda: _assign(problem(), use_lapx=False),
        },
    )


def _problem(shape: tuple[int, ...], kind: str, fewest: int | None) -> Problem:
    generator = torch.Generator().manual_seed(0)
    *steps, rows, columns = shape
    if kind == "uniform":
        cost = torch.rand(shape, generator=generator)
    else:
        points = torch.rand(*steps, rows, 2, generator=generator)
        others = torch.rand(*steps, columns, 2, generator=generator)
        cost = cost_matrix("squared", points, others)
    if fewest is None:
        return Problem(cost, None)
    return Problem(cost, torch.randint(fewest, columns + 1, (steps[-1],), generator=generator))


def _assign(problem: Problem, *, use_lapx: bool) -> Step:
    cost, sizes = problem
    mask = None if sizes is None else lengths_to_mask(sizes, size=cost.shape[-1])

    def step() -> object:
        before = matching._USE_LAPX
        matching._USE_LAPX = use_lapx
        try:
            return matching.assign(cost, None, mask)
        finally:
            matching._USE_LAPX = before

    return step


def _loop(problem: Problem) -> Step:
    cost, sizes = problem
    if sizes is None:

        def whole() -> object:
            found = [torch.from_numpy(linear_sum_assignment(one)[1]) for one in cost.cpu().numpy()]
            return torch.stack(found)

        return whole
    flat = cost.flatten(0, -3)
    known = sizes.tolist() * (len(flat) // len(sizes))

    def slices() -> object:
        pairs = zip(flat.cpu().numpy(), known, strict=True)
        return [linear_sum_assignment(one[:, :size]) for one, size in pairs]

    return slices
