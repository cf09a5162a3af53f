"""Sort numbers by a learned comparison: permutation-optimisation against linear assignment.

Models train on sets of numbers from [0, 1] with the sorted numbers as target, and are evaluated on
other intervals, and on larger sets, in double precision. What must carry over is the comparison.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from torchsets.lab.experiments.sorting.figures import draw_figures
from torchsets.lab.records import Recorder
from torchsets.lab.training import Settings, pick_device, seed_everything, train
from torchsets.permutations import (
    LinearAssignment,
    OrderedSets,
    PairwiseCost,
    PermutationOptimiser,
    hard_permutation,
    optimise_permutation,
)

ROWS = {"po-u": "PO-U", "linear": "LinAssign"}
INTERVALS = ((0, 1), (0, 10), (0, 1000), (1, 2), (10, 11), (100, 101), (1000, 1001))
TEST_SEED = 10_007
LARGEST_SMALL_SIZE = 120  # above it fewer sets are evaluated
THESIS_SETS = 2**18  # training sets; rows of models that see fewer say so


@dataclass(frozen=True)
class Config:
    """The defaults are the thesis' settings (lines 5458-5475); fewer training sets from 512 on.

    Attributes:
        sizes: Numbers per set.
        training_sets: How many sets the models of each size see, one entry for each size.
        batch_sizes: Sets per step, one entry for each size.
        seeds: How often PO-U is trained from other initial weights, one entry for each size.
        models: Any of po-u, linear.
        inner_steps: Gradient steps on the permutation, T.
        hidden: Hidden units of the comparison.
        hidden_bias: Whether they have a bias, as in the thesis. Without, F(s x, s y) = s F(x, y):
            sets from [0, s] are sorted exactly as those from [0, 1].
        learning_rate: Of Adam.
        evaluation_step_size: Step size of trained PO-U models when they are evaluated and drawn; 0:
            the learned one, as in the thesis.
        test_sets: Sets per interval for sizes up to 120.
        large_test_sets: Sets per interval for larger ones.
        transfer_from: Training sizes of the PO-U models that are tried on other sizes.
        transfer_to: The sizes that they are tried on.
        huge_test_sets: Sets per interval for transfer to more than 1024 numbers.
        true_gradient_size: Size at which the true gradient through Sinkhorn is compared, 0: none.
        seed: The first seed of the weights and of the sets.
        device: auto, cpu or cuda.
    """

    sizes: tuple[int, ...] = (5, 10, 15, 80, 100, 120, 512, 1024)
    training_sets: tuple[int, ...] = (*[THESIS_SETS] * 6, 2**14, 2**12)
    batch_sizes: tuple[int, ...] = (*[512] * 6, 64, 16)
    seeds: tuple[int, ...] = (5, 5, 5, 1, 1, 1, 1, 1)
    models: tuple[str, ...] = ("po-u", "linear")
    inner_steps: int = 6
    hidden: int = 16
    hidden_bias: bool = True
    learning_rate: float = 0.1
    evaluation_step_size: float = 0.0
    test_sets: int = 1000
    large_test_sets: int = 100
    transfer_from: tuple[int, ...] = (10, 100)
    transfer_to: tuple[int, ...] = (5, 10, 15, 80, 100, 120, 512, 1024, 2048, 4096)
    huge_test_sets: int = 10
    true_gradient_size: int = 10
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        unknown = set(self.models) - set(ROWS)
        if unknown:
            raise ValueError(f"models must be among {', '.join(ROWS)}, got {', '.join(unknown)}")
        for name in ("training_sets", "batch_sizes", "seeds"):
            if len(getattr(self, name)) != len(self.sizes):
                raise ValueError(
                    f"{name} must have one entry for each of the {len(self.sizes)} sizes, "
                    f"got {len(getattr(self, name))}"
                )


SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        "sizes": (5, 10),
        "training_sets": (2**10, 2**10),
        "batch_sizes": (64, 64),
        "seeds": (2, 1),
        "test_sets": 20,
        "transfer_from": (10,),
        "transfer_to": (5, 20),
        "true_gradient_size": 5,
    },
    "cpu": {
        "training_sets": (2**18, 2**18, 2**18, 2**15, 2**15, 2**15, 2**11, 2**9),
        "batch_sizes": (512, 512, 512, 512, 512, 512, 32, 8),
        "seeds": (5, 3, 3, 1, 1, 1, 1, 1),
        "huge_test_sets": 2,
    },
    "full": {},
}


class Score(NamedTuple):
    """Percentages over the sets of one interval: sorted without a mistake, and right positions."""

    perfect: float
    positions: float


class TrueGradientOptimiser(nn.Module):
    """PO-U that follows the true gradient through Sinkhorn, for the comparison of entropies."""

    def __init__(self, cost: PairwiseCost, *, steps: int) -> None:
        super().__init__()
        self.cost = cost
        self.steps = steps
        self.step_size = nn.Parameter(torch.ones(()))

    def forward(self, elements: Tensor) -> OrderedSets:
        permutation = optimise_permutation(
            self.cost(elements), steps=self.steps, step_size=self.step_size, through_sinkhorn=True
        )
        real = torch.ones(elements.shape[:2], dtype=torch.bool, device=elements.device)
        return OrderedSets(permutation.mT @ elements, permutation, real)


def run(config: Config, recorder: Recorder) -> None:
    """Train every model at every size, evaluate on all intervals, carry over, and draw."""
    _describe_tables(config, recorder)
    optimisers: dict[int, nn.Module] = {}
    mistakes: dict[str, dict[int, dict[tuple[int, int], bool]]] = {}
    for index, size in enumerate(config.sizes):
        for name in config.models:
            count = config.seeds[index] if name == "po-u" else 1
            for seed in range(config.seed, config.seed + count):
                model = _train(config, recorder, name, size, index, seed)
                if name == "po-u":
                    optimisers.setdefault(size, model)
                row = _row(f"{_label(config, name)}, n={size}", config.training_sets[index])
                scores = _measure(config, recorder, model, row, size, seed)
                wrong = mistakes.setdefault(name, {}).setdefault(size, {})
                for interval, score in scores.items():
                    wrong[interval] = wrong.get(interval, False) or score.perfect < 100
    _summarise(config, recorder, mistakes)
    for size in config.transfer_from:
        if size in optimisers:
            _transfer(config, recorder, optimisers[size], size)
    rival = None
    if config.true_gradient_size in config.sizes:
        index = config.sizes.index(config.true_gradient_size)
        rival = _train(config, recorder, "true-gradient", config.sizes[index], index, config.seed)
    draw_figures(recorder, optimisers, rival, config)


def pieces(table: str, config: Config) -> list[Config]:
    """One size with all its models and seeds each."""
    del table
    columns = (config.sizes, config.training_sets, config.batch_sizes, config.seeds)
    return [
        replace(
            config,
            sizes=(size,),
            training_sets=(training_sets,),
            batch_sizes=(batch_size,),
            seeds=(seeds,),
        )
        for size, training_sets, batch_size, seeds in sorted(
            zip(*columns, strict=True), reverse=True
        )
    ]


def build_model(config: Config, name: str, size: int) -> nn.Module:
    """Return an untrained model."""
    if name == "linear":
        return LinearAssignment(1, size)
    cost = PairwiseCost(1, config.hidden)
    cast(nn.Linear, cost.compare[0]).bias.requires_grad_(config.hidden_bias)  # it starts at 0
    if name == "true-gradient":
        return TrueGradientOptimiser(cost, steps=config.inner_steps)
    return PermutationOptimiser(cost, steps=config.inner_steps)


def evaluate(model: nn.Module, sets: Tensor) -> Score:
    """Sort sets (B, N, 1) in double precision, with the hard permutation of largest weight."""
    perfect, right = 0, 0
    with torch.no_grad():
        for piece in _pieces(sets):
            hard = hard_permutation(model(piece).permutation)
            same = (hard.mT @ piece == piece.sort(dim=1).values).squeeze(2)
            perfect += int(same.all(dim=1).sum())
            right += int(same.sum())
    return Score(100 * perfect / len(sets), 100 * right / (sets.shape[0] * sets.shape[1]))


def draw_sets(count: int, size: int, interval: tuple[int, int], *, seed: int) -> Tensor:
    """Draw sets of numbers, uniform on an interval, (count, size, 1), double precision."""
    generator = torch.Generator().manual_seed(seed)
    low, high = interval
    uniform = torch.rand(count, size, 1, dtype=torch.float64, generator=generator)
    return low + (high - low) * uniform


def _train(
    config: Config, recorder: Recorder, name: str, size: int, index: int, seed: int
) -> nn.Module:
    seed_everything(seed)
    model = build_model(config, name, size).to(pick_device(config.device))
    batch_size = config.batch_sizes[index]
    steps = max(1, config.training_sets[index] // batch_size)
    every = max(1, steps // 128)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def loss(sets: Tensor) -> Tensor:
        ordered: OrderedSets = model(sets)
        return (ordered.elements - sets.sort(dim=1).values).square().mean()

    def step_size() -> dict[str, float]:
        return {"step size": abs(cast(Tensor, model.step_size)).item()}

    train(
        model,
        torch.optim.Adam(trained, lr=config.learning_rate),
        loss,
        lambda step, generator: torch.rand(batch_size, size, 1, generator=generator),
        recorder=recorder,
        task=f"n={size}/{name}" + (f" seed {seed}" if seed != config.seed else ""),
        settings=Settings(steps, seed=seed, record_every=every, evaluate_every=every),
        evaluate=None if name == "linear" else step_size,
    )
    model = deepcopy(model).double().requires_grad_(False)
    if name == "po-u" and config.evaluation_step_size:
        cast(Tensor, model.step_size).fill_(config.evaluation_step_size)
    return model


def _measure(
    config: Config, recorder: Recorder, model: nn.Module, row: str, size: int, seed: int
) -> dict[tuple[int, int], Score]:
    count = config.test_sets if size <= LARGEST_SMALL_SIZE else config.large_test_sets
    device = next(model.parameters()).device
    scores = {}
    for interval in INTERVALS:
        sets = draw_sets(count, size, interval, seed=TEST_SEED + seed).to(device)
        scores[interval] = score = evaluate(model, sets)
        for table, value in (("perfect", score.perfect), ("positions", score.positions)):
            recorder.add_result(
                f"sort-numbers/{table}",
                model=row,
                column=str(list(interval)),
                value=value,
                seed=seed,
            )
    return scores


def _label(config: Config, name: str) -> str:
    label = ROWS[name]
    if name == "po-u" and not config.hidden_bias:
        label += " without bias"
    if name == "po-u" and config.evaluation_step_size:
        label += f", step size {config.evaluation_step_size:g}"
    return label


def _row(name: str, training_sets: int) -> str:
    return name if training_sets == THESIS_SETS else f"{name}, {training_sets} sets"


def _summarise(
    config: Config,
    recorder: Recorder,
    mistakes: dict[str, dict[int, dict[tuple[int, int], bool]]],
) -> None:
    """Fill the thesis' table: which sizes have no mistake, and where mistakes begin."""
    table = "perm/sorting-text"
    for name, sizes in mistakes.items():
        perfect = [size for size, wrong in sizes.items() if not any(wrong.values())]
        cells = {
            "smallest size sorted perfectly": min(perfect, default=None),
            "largest size sorted perfectly": max(perfect, default=None),
            "size at which mistakes begin on [0, 1]": min(
                (size for size, wrong in sizes.items() if wrong[0, 1]), default=None
            ),
            "size at which generalisation to [1000, 1001] is lost": min(
                (size for size, wrong in sizes.items() if wrong[1000, 1001]), default=None
            ),
        }
        for column, size in cells.items():
            if size is not None:
                row = _row(_label(config, name), max(config.training_sets))
                recorder.add_result(table, model=row, column=column, value=size)


def _transfer(config: Config, recorder: Recorder, model: nn.Module, trained: int) -> None:
    """Try a model of one size on sets of others."""
    device = next(model.parameters()).device
    for size in config.transfer_to:
        for interval in (INTERVALS[0], INTERVALS[-1]):
            count = _transfer_sets(config, size)
            sets = draw_sets(count, size, interval, seed=TEST_SEED + config.seed).to(device)
            score = evaluate(model, sets)
            for what, value in (("perfect", score.perfect), ("positions", score.positions)):
                recorder.add_result(
                    f"sort-numbers/transfer-{what}",
                    model=f"{_label(config, 'po-u')} trained on n={trained}, {list(interval)}",
                    column=f"n={size}",
                    value=value,
                )


def _transfer_sets(config: Config, size: int) -> int:
    if size > 1024:
        return config.huge_test_sets
    return config.test_sets if size <= LARGEST_SMALL_SIZE else config.large_test_sets


def _describe_tables(config: Config, recorder: Recorder) -> None:
    pairs = zip(config.training_sets, config.sizes, strict=True)
    trained = ", ".join(f"{sets} sets of {size}" for sets, size in pairs)
    evaluated = (
        f"{config.test_sets} sets per interval up to {LARGEST_SMALL_SIZE} numbers, "
        f"{config.large_test_sets} above"
    )
    # Of several runs with a size each, the rows alone say it.
    more = f". Trained on {trained}, all from [0, 1]" if len(config.sizes) > 1 else ""
    for key, what in (
        ("perfect", "Sets sorted without a mistake"),
        ("positions", "Numbers at their right position"),
    ):
        recorder.add_table(
            f"sort-numbers/{key}",
            caption=f"{what}, by evaluation interval{more}; evaluated on {evaluated}",
            unit="%",
            better="higher",
        )
        recorder.add_table(
            f"sort-numbers/transfer-{key}",
            caption=f"{what} when sets are larger or smaller than in training; evaluated on "
            f"{evaluated}, {config.huge_test_sets} above 1024",
            unit="%",
            better="higher",
        )


def _pieces(sets: Tensor) -> Iterator[Tensor]:
    """The sets in pieces whose matrices fit into memory at the same time."""
    yield from torch.split(sets, max(1, 2**21 // sets.shape[1] ** 2))
