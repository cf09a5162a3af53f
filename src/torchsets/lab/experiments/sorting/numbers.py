"""Sort numbers by a learned comparison: permutation-optimisation against linear assignment.

Models train on sets of numbers from [0, 1] with the sorted numbers as target, and are evaluated on
other intervals, and on larger sets, in double precision. What must carry over is the comparison.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from torchsets.lab.experiments.sorting.configs import (
    MODELS,
    THESIS_SETS,
    SortNumbers,
    Training,
    trainings_of,
)
from torchsets.lab.experiments.sorting.figures import (
    draw_comparison,
    draw_entropies,
    draw_sorting,
    draw_step_sizes,
)
from torchsets.lab.experiments.sorting.models import (
    Optimiser,
    Sorter,
    build_model,
    build_rival,
    permutations_by_step,
)
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import History, Settings, pick_device, seed_everything, train
from torchsets.permutations import (
    LinearAssignment,
    OrderedSets,
    PermutationOptimiser,
    hard_permutation,
)

INTERVALS = ((0, 1), (0, 10), (0, 1000), (1, 2), (10, 11), (100, 101), (1000, 1001))
TEST_SEED = 10_007
LARGEST_SMALL_SIZE = 120  # above it fewer sets are evaluated
ENTROPY_SETS = 100

Interval = tuple[int, int]
Model = TypeVar("Model", bound=Sorter)


class Score(NamedTuple):
    """Percentages over the sets of one interval: sorted without a mistake, and right positions."""

    perfect: float
    positions: float


def run(config: SortNumbers, recorder: Recorder) -> None:
    """Train every model at every size, evaluate on all intervals, carry over, and draw."""
    _describe_tables(config, recorder)
    trainings = trainings_of(config)
    learned: dict[int, Optimiser] = {}  # PO-U of each size, first seed
    step_sizes: dict[int, list[tuple[int, float]]] = {}  # its step size after training steps
    mistakes: dict[str, dict[int, set[Interval]]] = {name: {} for name in config.models}
    for training in trainings:
        for name in config.models:
            wrong = mistakes[name].setdefault(training.size, set())
            count = training.seeds if name == "po-u" else 1
            for seed in range(config.seed, config.seed + count):
                build = partial(build_model, config, name, training.size)
                model, history = _train(config, recorder, build, name, training, seed)
                if not isinstance(model, LinearAssignment) and seed == config.seed:
                    learned[training.size] = model
                    step_sizes[training.size] = history.curve("step size")
                row = _row(f"{_label(config, name)}, n={training.size}", training.sets)
                scores = _measure(config, recorder, model, row, training.size, seed)
                wrong |= {interval for interval, score in scores.items() if score.perfect < 100}
    _summarise(config, recorder, mistakes)
    for size in config.transfer_from:
        if size in learned:
            _transfer(config, recorder, learned[size], size)
    if learned:
        _draw(config, recorder, learned)
        draw_step_sizes(recorder, step_sizes)
    for training in trainings:
        if training.size == config.true_gradient_size and training.size in learned:
            _compare_entropies(config, recorder, learned[training.size], training)


def evaluate(model: Callable[[Tensor], OrderedSets], sets: Tensor) -> Score:
    """Sort sets (B, N, 1) in double precision, with the hard permutation of largest weight."""
    perfect, right = 0, 0
    with torch.no_grad():
        # In chunks whose matrices fit into memory at the same time.
        for chunk in torch.split(sets, max(1, 2**21 // sets.shape[1] ** 2)):
            hard = hard_permutation(model(chunk).permutation)
            same = (hard.mT @ chunk == chunk.sort(dim=1).values).squeeze(2)
            perfect += int(same.all(dim=1).sum())
            right += int(same.sum())
    return Score(100 * perfect / len(sets), 100 * right / (sets.shape[0] * sets.shape[1]))


def count_test_sets(config: SortNumbers, size: int) -> int:
    """How many sets of a size are evaluated per interval."""
    return config.test_sets if size <= LARGEST_SMALL_SIZE else config.large_test_sets


def draw_sets(count: int, size: int, interval: Interval, *, seed: int) -> Tensor:
    """Draw sets of numbers, uniform on an interval, (count, size, 1), double precision."""
    generator = torch.Generator().manual_seed(seed)
    low, high = interval
    uniform = torch.rand(count, size, 1, dtype=torch.float64, generator=generator)
    return low + (high - low) * uniform


def _train(
    config: SortNumbers,
    recorder: Recorder,
    build: Callable[[], Model],
    name: str,
    training: Training,
    seed: int,
) -> tuple[Model, History]:
    seed_everything(seed)
    model = build()
    model.to(pick_device(config.device))
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    every = max(1, training.steps // 128)
    shape = (training.batch_size, training.size, 1)

    def loss(sets: Tensor) -> Tensor:
        ordered: OrderedSets = model(sets)
        return (ordered.elements - sets.sort(dim=1).values).square().mean()

    history = train(
        model,
        torch.optim.Adam(learned, lr=config.learning_rate),
        loss,
        lambda step, generator: torch.rand(shape, generator=generator),
        recorder=recorder,
        task=f"n={training.size}/{name}" + (f" seed {seed}" if seed != config.seed else ""),
        settings=Settings(training.steps, seed=seed, record_every=every, evaluate_every=every),
        evaluate=None if isinstance(model, LinearAssignment) else partial(_step_size, model),
    )
    model.double().requires_grad_(False)
    if isinstance(model, PermutationOptimiser) and config.evaluation_step_size:
        model.step_size.fill_(config.evaluation_step_size)
    return model, history


def _step_size(model: Optimiser) -> dict[str, float]:
    return {"step size": model.step_size.abs().item()}


def _measure(
    config: SortNumbers, recorder: Recorder, model: Sorter, row: str, size: int, seed: int
) -> dict[Interval, Score]:
    count, device = count_test_sets(config, size), pick_device(config.device)
    scores = {
        interval: evaluate(
            model, draw_sets(count, size, interval, seed=TEST_SEED + seed).to(device)
        )
        for interval in INTERVALS
    }
    recorder.add_results(
        Cell(f"sort-numbers/{what}", row, str(list(interval)), seed, value)
        for interval, score in scores.items()
        for what, value in score._asdict().items()
    )
    return scores


def _label(config: SortNumbers, name: str) -> str:
    label = MODELS[name]
    if name == "po-u" and not config.hidden_bias:
        label += " without bias"
    if name == "po-u" and config.evaluation_step_size:
        label += f", step size {config.evaluation_step_size:g}"
    return label


def _row(name: str, *training_sets: int) -> str:
    least, most = min(training_sets), max(training_sets)
    if least == THESIS_SETS:
        return name
    return f"{name}, {least} sets" if least == most else f"{name}, {least} to {most} sets"


def _summarise(
    config: SortNumbers,
    recorder: Recorder,
    mistakes: Mapping[str, Mapping[int, set[Interval]]],
) -> None:
    """Fill the thesis' table: which sizes have no mistake, and where mistakes begin."""
    for name, sizes in mistakes.items():
        perfect = [size for size, wrong in sizes.items() if not wrong]
        near = [size for size, wrong in sizes.items() if INTERVALS[0] in wrong]
        far = [size for size, wrong in sizes.items() if INTERVALS[-1] in wrong]
        cells = {
            "smallest size sorted perfectly": min(perfect, default=None),
            "largest size sorted perfectly": max(perfect, default=None),
            "size at which mistakes begin on [0, 1]": min(near, default=None),
            "size at which generalisation to [1000, 1001] is lost": min(far, default=None),
        }
        # The table's fixed fields say the rest, but each size has its own number of sets.
        row = _row(MODELS[name], *config.training_sets)
        recorder.add_results(
            Cell("perm/sorting-text", row, column, None, size)
            for column, size in cells.items()
            if size is not None
        )


def _transfer(config: SortNumbers, recorder: Recorder, model: Optimiser, trained: int) -> None:
    """Try a model of one size on sets of others."""
    device = pick_device(config.device)
    for size in config.transfer_to:
        count = config.huge_test_sets if size > 1024 else count_test_sets(config, size)
        for interval in (INTERVALS[0], INTERVALS[-1]):
            sets = draw_sets(count, size, interval, seed=TEST_SEED + config.seed).to(device)
            row = f"{_label(config, 'po-u')} trained on n={trained}, {list(interval)}"
            recorder.add_results(
                Cell(f"sort-numbers/transfer-{what}", row, f"n={size}", None, value)
                for what, value in evaluate(model, sets)._asdict().items()
            )


def _compare_entropies(
    config: SortNumbers, recorder: Recorder, usual: Optimiser, training: Training
) -> None:
    """How hard the permutations become, with the usual update and with the true gradient."""
    build = partial(build_rival, config)
    rival, _ = _train(config, recorder, build, "true-gradient", training, config.seed)
    recorder.add_table(
        "sort-numbers/entropy",
        caption=f"Mean entropy of a number's weights over the positions after the last inner step, "
        f"{ENTROPY_SETS} sets of {training.size} numbers",
        unit="nats",
        better="lower",
    )
    numbers = draw_sets(ENTROPY_SETS, training.size, (0, 1), seed=config.seed)
    numbers = numbers.to(pick_device(config.device))
    entropies: dict[str, dict[str, list[float]]] = {}
    for row, model in (
        ("trained with the usual update", usual),
        ("trained with the true gradient", rival),
    ):
        for column, through in (("usual update", False), ("true gradient", True)):
            softs = permutations_by_step(
                model, numbers, config.inner_steps, through_sinkhorn=through
            )
            entropies.setdefault(row, {})[column] = [
                torch.special.entr(soft).sum(dim=2).mean().item() for soft in softs
            ]
    recorder.add_results(
        Cell("sort-numbers/entropy", row, column, None, values[-1])
        for row, columns in entropies.items()
        for column, values in columns.items()
    )
    draw_entropies(recorder, entropies, sets=ENTROPY_SETS, size=training.size)


def _draw(config: SortNumbers, recorder: Recorder, learned: Mapping[int, Optimiser]) -> None:
    size = max((size for size in learned if size <= 100), default=min(learned))
    draw_comparison(recorder, learned[size], trained=size)
    draw_sorting(recorder, learned[size], trained=size, steps=config.inner_steps, seed=config.seed)


def _describe_tables(config: SortNumbers, recorder: Recorder) -> None:
    trained = ", ".join(f"{one.sets} sets of {one.size}" for one in trainings_of(config))
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
