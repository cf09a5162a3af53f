import math

import pytest
import torch

from torchsets.metrics import set_size_accuracy, summarise_runs


def test_a_set_is_right_when_as_many_slots_exist_as_targets():
    presence = torch.tensor([[0.9, 0.5, 0.1], [0.4, 0.0, 0.0], [1.0, 1.0, 1.0], [0.6, 0.0, 0.7]])
    mask = torch.tensor([[True, True], [False, False], [True, True], [False, True]])
    assert set_size_accuracy(presence, mask).item() == 0.5
    assert set_size_accuracy(presence, mask, threshold=0.3).item() == 0.25


def test_no_sets_have_accuracy_zero():
    assert set_size_accuracy(torch.zeros(0, 3), torch.zeros(0, 2, dtype=torch.bool)).item() == 0.0


@pytest.mark.parametrize(
    ("presence", "mask", "message"),
    [
        (torch.zeros(3), torch.zeros(3, 2).bool(), r"presence must have shape \(B, N\)"),
        (torch.zeros(3, 2).long(), torch.zeros(3, 2).bool(), "presence must be floating point"),
        (torch.zeros(3, 2), torch.zeros(2, 2).bool(), r"target_mask must have shape \(3, 2\)"),
        (torch.zeros(3, 2), torch.zeros(3, 2), "target_mask must be bool"),
    ],
)
def test_sizes_reject_bad_input(presence, mask, message):
    with pytest.raises(ValueError, match=message):
        set_size_accuracy(presence, mask)


def test_mean_and_spread_of_known_runs():
    summary = summarise_runs([1.0, 2.0, 6.0])
    assert summary.mean == 3.0
    assert summary.spread == pytest.approx(math.sqrt(7.0))
    assert str(summary) == "3.0 ± 2.6 (3 runs)"


def test_spread_of_large_numbers_keeps_its_digits():
    assert summarise_runs([1e9 + 1, 1e9 + 2, 1e9 + 3]).spread == pytest.approx(1.0)


def test_a_single_run_has_no_spread():
    summary = summarise_runs([2.5])
    assert math.isnan(summary.spread)
    assert str(summary) == "2.5 (1 run)"


def test_no_runs_are_an_error():
    with pytest.raises(ValueError, match="results must hold the result of at least one run"):
        summarise_runs([])
