import dataclasses

import pytest
import torch
from torch import nn

from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.sorting.configs import SORT_NUMBERS, SortNumbers
from torchsets.lab.experiments.sorting.numbers import (
    INTERVALS,
    count_test_sets,
    draw_sets,
    evaluate,
)
from torchsets.permutations import OrderedSets

SHORT = SORT_NUMBERS.config_at(
    "smoke",
    sizes=(5,),
    training_sets=(64,),
    batch_sizes=(64,),
    seeds=(1,),
    models=("po-u",),
    transfer_from=(),
    true_gradient_size=0,
)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sort-numbers")
    return run_experiment("sort-numbers", scale="smoke", folder=folder)


def cells(run, table):
    return {
        (cell.model, cell.column, cell.seed): cell.value
        for cell in run.cells
        if cell.table == table
    }


def test_every_model_is_measured_on_every_interval_with_every_seed(smoke):
    rows = [("PO-U, n=5", 0), ("PO-U, n=5", 1), ("PO-U, n=10", 0)]
    rows += [("LinAssign, n=5", 0), ("LinAssign, n=10", 0)]
    expected = {
        (f"{row}, 1024 sets", str(list(interval)), seed)
        for row, seed in rows
        for interval in INTERVALS
    }
    assert set(cells(smoke, "sort-numbers/perfect")) == expected
    assert set(cells(smoke, "sort-numbers/positions")) == expected


def test_a_few_steps_are_enough_to_sort_ten_numbers(smoke):
    assert cells(smoke, "sort-numbers/perfect")["PO-U, n=10, 1024 sets", "[0, 1]", 0] == 100


def test_the_comparison_carries_over_to_larger_sets(smoke):
    row = "PO-U trained on n=10, [0, 1]"
    assert cells(smoke, "sort-numbers/transfer-perfect")[row, "n=20", 0] == 100


def test_the_usual_update_has_lower_entropy(smoke):
    entropy = cells(smoke, "sort-numbers/entropy")
    row = "trained with the usual update"
    assert entropy[row, "usual update", 0] < entropy[row, "true gradient", 0]
    drawn = {
        (panel.title, line.label, 0): line.y[-1]
        for panel in smoke.figures["entropy"].figure.panels
        for line in panel.lines
    }
    assert drawn == pytest.approx(entropy, rel=1e-4)  # figures have five digits


def test_the_thesis_table_says_what_was_sorted_perfectly(smoke):
    perfect = cells(smoke, "sort-numbers/perfect")
    sorted_sizes = [
        size
        for size in (5, 10)
        if all(
            value == 100 for key, value in perfect.items() if key[0] == f"PO-U, n={size}, 1024 sets"
        )
    ]
    column = "largest size sorted perfectly"
    found = cells(smoke, "perm/sorting-text").get(("PO-U, 1024 sets", column, 0))
    assert found == max(sorted_sizes, default=None)
    wrong = {key[0] for key, value in perfect.items() if key[1] == "[0, 1]" and value < 100}
    linear = [size for size in (5, 10) if f"LinAssign, n={size}, 1024 sets" in wrong]
    column = "size at which mistakes begin on [0, 1]"
    found = cells(smoke, "perm/sorting-text").get(("LinAssign, 1024 sets", column, 0))
    assert linear
    assert found == min(linear)


def test_it_draws_what_was_learned(smoke):
    assert set(smoke.figures) == {
        "comparison-F",
        "comparison-f-inner",
        "step-size",
        "sorting-permutations",
        "sorting-outputs",
        "sorting-steps",
        "entropy",
    }


def test_the_step_size_is_drawn_as_it_was_recorded(smoke):
    (panel,) = smoke.figures["step-size"].figure.panels
    assert [line.label for line in panel.lines] == ["n=5", "n=10"]
    for line in panel.lines:
        recorded = [
            (one["step"], one["step size"])
            for one in smoke.metrics
            if one["task"] == f"{line.label}/po-u" and "step size" in one
        ]
        assert len(recorded) == 16
        drawn = [(x - 1, y) for x, y in zip(line.x, line.y, strict=True)]
        assert drawn[0] == (0, 1)
        assert drawn[1:] == [pytest.approx(pair, rel=1e-4) for pair in recorded]


@pytest.mark.parametrize(
    ("options", "row", "variant"),
    [
        ({"hidden_bias": False}, "PO-U without bias", "hidden_bias=False"),
        (
            {"evaluation_step_size": 1e-9},
            "PO-U, step size 1e-09",
            "evaluation_step_size=1e-09",
        ),
    ],
)
def test_rows_of_other_models_say_so(options, row, variant, tmp_path):
    config = dataclasses.replace(SHORT, test_sets=2, **options)
    run = run_experiment("sort-numbers", config, scale="smoke", folder=tmp_path)
    assert {model for model, _, _ in cells(run, "sort-numbers/perfect")} == {f"{row}, n=5, 64 sets"}
    assert not cells(run, "perm/sorting-text")
    beside = {model for model, _, _ in cells(run, "perm/sorting-text/variants")}
    assert beside == {f"PO-U, 64 sets, {variant}, test_sets=2"}
    if config.evaluation_step_size:  # steps of this size leave the permutation as it starts
        soft = torch.tensor(run.figures["sorting-permutations"].figure.panels[-1].matrix)
        torch.testing.assert_close(soft, torch.full_like(soft, 1 / len(soft)))


@pytest.mark.parametrize(("sets", "row"), [(64, "PO-U, 64 sets"), (2**18, "PO-U")])
def test_only_rows_with_the_thesis_training_sets_have_the_plain_name(sets, row, tmp_path):
    config = dataclasses.replace(SHORT, training_sets=(sets,), batch_sizes=(sets,))
    config = dataclasses.replace(config, sizes=(2,))  # one step on many small sets
    run = run_experiment("sort-numbers", config, scale="smoke", folder=tmp_path)
    assert {model for model, _, _ in cells(run, "perm/sorting-text")} == {row}


def test_sizes_with_fewer_training_sets_are_named(tmp_path):
    sizes = {"sizes": (2, 3), "training_sets": (64, 32), "batch_sizes": (64, 32), "seeds": (1, 1)}
    config = dataclasses.replace(SHORT, test_sets=2, **sizes)
    run = run_experiment("sort-numbers", config, scale="smoke", folder=tmp_path)
    beside = {model for model, _, _ in cells(run, "perm/sorting-text/variants")}
    assert beside == {"PO-U, 32 to 64 sets, test_sets=2"}


@pytest.mark.parametrize(("size", "sets"), [(120, 1000), (121, 100)])
def test_fewer_large_sets_are_evaluated(size, sets):
    assert count_test_sets(SortNumbers(), size) == sets


class Fixed(nn.Module):
    """Swaps the two smallest numbers of every set."""

    def __init__(self, swap):
        super().__init__()
        self.swap = swap

    def forward(self, sets):
        rank = sets.squeeze(2).argsort(dim=1).argsort(dim=1)
        if self.swap:
            rank = torch.where(rank < 2, 1 - rank, rank)
        permutation = nn.functional.one_hot(rank, sets.shape[1]).to(sets)
        return OrderedSets(permutation.mT @ sets, permutation, sets[:, :, 0] > -1)


@pytest.mark.parametrize(("swap", "expected"), [(False, (100, 100)), (True, (0, 60))])
def test_the_score_counts_sets_and_positions(swap, expected):
    sets = draw_sets(7, 5, (10, 11), seed=0)
    assert sets.min() >= 10
    assert sets.max() < 11
    assert evaluate(Fixed(swap), sets) == expected
