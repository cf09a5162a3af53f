from dataclasses import asdict

import pytest
import torch
from torch import nn

from torchsets.lab.experiments.sorting.numbers import (
    INTERVALS,
    SCALES,
    Config,
    TrueGradientOptimiser,
    build_model,
    draw_sets,
    evaluate,
    run,
)
from torchsets.permutations import OrderedSets, PairwiseCost, PermutationOptimiser
from torchsets.lab.records import Recorder, read_run
from torchsets.lab.reports import draw_figure


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    config = Config(**SCALES["smoke"])
    folder = tmp_path_factory.mktemp("sort-numbers") / "run"
    recorder = Recorder.start(
        folder, experiment="sort-numbers", scale="smoke", config=asdict(config)
    )
    run(config, recorder)
    recorder.finish()
    return read_run(folder)


def cells(record, table):
    return {
        (result["model"], result["column"], result["seed"]): result["value"]
        for result in record.result["results"]
        if result["table"] == table
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


@pytest.mark.parametrize(
    "name",
    [
        "comparison-F",
        "comparison-f-inner",
        "step-size",
        "sorting-permutations",
        "sorting-outputs",
        "entropy",
    ],
)
def test_every_figure_can_be_drawn(smoke, name):
    assert draw_figure(name, smoke.figures[name]).lstrip().startswith("<svg")


def test_the_comparison_is_drawn_antisymmetric(smoke):
    for panel in smoke.figures["comparison-F"]["data"]["panels"]:
        matrix = torch.tensor(panel["matrix"])
        torch.testing.assert_close(matrix, -matrix.mT)


@pytest.mark.parametrize("bias", [True, False])
def test_without_bias_wider_intervals_are_sorted_in_the_same_way(bias):
    torch.manual_seed(0)
    model = build_model(Config(hidden_bias=bias), "po-u", 5).double()
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter)
    sets = draw_sets(7, 5, (0, 1), seed=0)
    same = torch.allclose(model(sets).permutation, model(1000 * sets).permutation)
    assert same == (not bias)


@pytest.mark.parametrize(
    ("options", "row"),
    [
        ({"hidden_bias": False}, "PO-U without bias, n=5, 64 sets"),
        ({"evaluation_step_size": 1e-9}, "PO-U, step size 1e-09, n=5, 64 sets"),
    ],
)
def test_rows_of_other_models_say_so(options, row, tmp_path):
    config = Config(
        sizes=(5,),
        training_sets=(64,),
        batch_sizes=(64,),
        seeds=(1,),
        models=("po-u",),
        test_sets=2,
        transfer_from=(),
        true_gradient_size=0,
        **options,
    )
    recorder = Recorder.start(
        tmp_path / "run", experiment="sort-numbers", scale="smoke", config=asdict(config)
    )
    run(config, recorder)
    recorder.finish()
    record = read_run(tmp_path / "run")
    assert {model for model, _, _ in cells(record, "sort-numbers/perfect")} == {row}
    if config.evaluation_step_size:  # steps of this size leave the permutation as it starts
        soft = torch.tensor(record.figures["sorting-permutations"]["data"]["panels"][-1]["matrix"])
        torch.testing.assert_close(soft, torch.full_like(soft, 1 / len(soft)))


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


def test_the_true_gradient_model_matches_the_function():
    torch.manual_seed(0)
    cost = PairwiseCost(1, 4)
    sets = torch.rand(2, 5, 1)
    usual = PermutationOptimiser(cost, steps=0)(sets)
    true = TrueGradientOptimiser(cost, steps=0)(sets)
    torch.testing.assert_close(true, usual)
    assert not torch.allclose(
        TrueGradientOptimiser(cost, steps=3)(sets).elements,
        PermutationOptimiser(cost, steps=3)(sets).elements,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ("po",)}, "models must be among po-u, linear, got po"),
        ({"sizes": (5,)}, "training_sets must have one entry for each of the 1 sizes, got 8"),
        ({"seeds": (1,)}, "seeds must have one entry for each of the 8 sizes, got 1"),
    ],
)
def test_rejects_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        Config(**options)
