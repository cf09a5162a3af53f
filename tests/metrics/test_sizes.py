import pytest
import torch

from torchsets.metrics import set_size_accuracy, set_size_error


def test_a_set_is_right_when_as_many_slots_exist_as_targets():
    presence = torch.tensor([[0.9, 0.5, 0.1], [0.4, 0.0, 0.0], [1.0, 1.0, 1.0], [0.6, 0.0, 0.7]])
    mask = torch.tensor([[True, True], [False, False], [True, True], [False, True]])
    assert set_size_accuracy(presence, mask).item() == 0.5
    assert set_size_accuracy(presence, mask, threshold=0.3).item() == 0.25


def test_the_size_error_counts_elements_too_many_and_too_few():
    presence = torch.tensor([[0.9, 0.5, 0.1], [0.4, 0.0, 0.0], [1.0, 1.0, 1.0], [0.6, 0.0, 0.7]])
    mask = torch.tensor([[True, True], [True, True], [True, False], [False, True]])
    assert set_size_error(presence, mask).item() == (0 + 2 + 2 + 1) / 4
    assert set_size_error(presence, mask, threshold=0.3).item() == (0 + 1 + 2 + 1) / 4


def test_no_sets_have_accuracy_zero():
    assert set_size_error(torch.zeros(0, 3), torch.zeros(0, 2, dtype=torch.bool)).item() == 0.0
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
@pytest.mark.parametrize("metric", [set_size_accuracy, set_size_error])
def test_sizes_reject_bad_input(metric, presence, mask, message):
    with pytest.raises(ValueError, match=message):
        metric(presence, mask)


def test_many_sets_in_half_precision_are_counted_right():
    ones = torch.ones(70_000, 1, dtype=torch.half)
    result = set_size_accuracy(ones, ones.bool())
    assert (result.item(), result.dtype) == (1, torch.float32)
    assert set_size_error(torch.ones(7000, 10).half(), torch.zeros(7000, 10).bool()).item() == 10
