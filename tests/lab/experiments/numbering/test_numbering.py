import itertools
from dataclasses import replace

import pytest
import torch

from torchsets.lab.experiments import find_experiment
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.numbering.configs import NUMBERERS, Numbering
from torchsets.lab.experiments.numbering.numbering import (
    draw_sets,
    match_in_classes,
    pair_costs,
    right_elements,
    row_name,
)
from torchsets.lab.reports import collect_tables, table_as_text, thesis_tables

SMALL = find_experiment("numbering").config_at("smoke")


def test_an_element_has_the_number_of_its_predecessors_in_its_class(generator):
    labels, numbers = draw_sets(50, 9, 3, generator)
    for classes, found in zip(labels.tolist(), numbers.tolist(), strict=True):
        assert found == [classes[:index].count(one) for index, one in enumerate(classes)]
    assert labels.unique().tolist() == [0, 1, 2]


@pytest.mark.parametrize("on_simplex", [True, False])
def test_cost_of_a_pair(on_simplex, generator):
    scores = torch.randn(2, 3, 3, dtype=torch.float64, generator=generator)
    numbers = torch.tensor([[0, 1, 0], [0, 0, 2]])
    costs = pair_costs(scores, numbers, on_simplex=on_simplex)
    for batch, i, j in itertools.product(range(2), range(3), range(3)):
        target = torch.zeros(3, dtype=torch.float64)
        target[numbers[batch, j]] = 1
        score = scores[batch, i]
        entropy = -(target * score.softmax(dim=0).log()).sum()
        expected = (score - target).square().sum() if on_simplex else entropy
        torch.testing.assert_close(costs[batch, i, j], expected)


def test_matching_is_the_best_of_all_permutations_within_classes(generator):
    labels, numbers = draw_sets(20, 5, 2, generator)
    scores = torch.randn(20, 5, 5, dtype=torch.float64, generator=generator)
    costs = pair_costs(scores, numbers, on_simplex=True)
    matches = match_in_classes(costs, labels)
    for cost, classes, match in zip(costs, labels.tolist(), matches.tolist(), strict=True):
        allowed = [
            order
            for order in itertools.permutations(range(5))
            if all(classes[i] == classes[j] for i, j in enumerate(order))
        ]
        totals = {order: sum(cost[i, j].item() for i, j in enumerate(order)) for order in allowed}
        assert tuple(match) in totals
        assert totals[tuple(match)] == pytest.approx(min(totals.values()))


@pytest.mark.parametrize("on_simplex", [True, False])
def test_any_order_within_a_class_is_right_and_other_numbers_are_not(on_simplex):
    labels = torch.tensor([[0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    numbers = torch.tensor([[0, 0, 1, 2], [0, 0, 1, 1], [0, 1, 0, 1]])
    planted = torch.tensor([[2, 0, 0, 1], [1, 0, 0, 0], [0, 1, 1, 2]])
    scores = 5.0 * torch.nn.functional.one_hot(planted, 4)
    right = right_elements(scores, labels, numbers, on_simplex=on_simplex)
    assert right.sum(dim=1).tolist() == [4, 3, 3]
    assert right[1, [0, 3]].all()
    assert right[2].tolist() == [True, True, True, False]


def test_published_numbers_stand_beside_ours_only_at_64_elements(tmp_path):
    published = thesis_tables()["numbering"]
    assert published.by == "published"
    rows = {row.model: [value.mean for value in row.values] for row in published.rows}
    assert rows["iDSPN"] == [96.8, 98.1, 97.9]
    for name in {*NUMBERERS} - {"fs-unpool"}:
        assert row_name(Numbering(), name) in rows
        assert row_name(SMALL, name) == f"{NUMBERERS[name]}, 6 elements"
    assert row_name(Numbering(steps=9), "idspn") == "iDSPN, 9 updates of 128"
    config = replace(SMALL, models=("idspn", "deep-sets"), steps=2)
    run = run_experiment("numbering", config, scale="smoke", folder=tmp_path / "run")
    assert list(run.figures) == ["descent"]
    table = next(one for one in collect_tables([run]) if one.key == "numbering/variants")
    assert [row.model for row in table.rows if row.ours] == [
        "iDSPN, 6 elements, steps=2",
        "DeepSets, 6 elements, steps=2",
    ]


def test_the_reproduced_table_shows_both(tmp_path):
    config = replace(SMALL, models=("deep-sets",))
    run = run_experiment("numbering", config, scale="smoke", folder=tmp_path / "run")
    table = next(one for one in collect_tables([run]) if one.key == "numbering")
    lines = table_as_text(table, all_rows=True).splitlines()
    assert any(line.split()[:4] == ["DeepSets,", "6", "elements", "ours"] for line in lines)
    assert any(line.split() == ["iDSPN", "published", "96.80", "±", "0.600"] for line in lines)
