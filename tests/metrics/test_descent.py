import pytest
import torch

from torchsets.metrics import descent_progress
from torchsets.padded import Trajectory


def test_a_set_is_at_rest_when_neither_an_element_nor_a_presence_moves():
    elements = torch.zeros(3, 3, 2, 1)  # 2 steps, 3 sets, 2 slots
    presence = torch.full((3, 3, 2), 0.5)
    elements[1:, 0, 1] = 0.3  # the first set moves an element in the first step,
    presence[2, 1, 0] = 0.4  # the second a presence in the second, the third nothing
    loss = torch.tensor([[3.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    progress = descent_progress(Trajectory(elements, presence, loss))
    torch.testing.assert_close(progress.loss, torch.tensor([1.0, 1.0]))
    torch.testing.assert_close(progress.movement, torch.tensor([0.1, 0.1 / 3]))
    torch.testing.assert_close(progress.at_rest, torch.tensor([2 / 3, 2 / 3]))
    loose = descent_progress(Trajectory(elements, presence, loss), tolerance=0.2)
    torch.testing.assert_close(loose.at_rest, torch.tensor([2 / 3, 1.0]))


def test_without_sets_all_numbers_are_zero():
    way = Trajectory(torch.zeros(4, 0, 2, 1), torch.zeros(4, 0, 2), torch.zeros(3, 0))
    assert [numbers.tolist() for numbers in descent_progress(way)] == [[0.0] * 3] * 3


def test_rejects_a_negative_tolerance():
    way = Trajectory(torch.zeros(2, 1, 2, 1), torch.zeros(2, 1, 2), torch.zeros(1, 1))
    with pytest.raises(ValueError, match=r"tolerance must be at least 0, got -0\.1"):
        descent_progress(way, tolerance=-0.1)


def test_sets_without_slots_are_at_rest_nowhere():
    progress = descent_progress(Trajectory(*map(torch.zeros, [(3, 2, 0, 1), (3, 2, 0), (2, 2)])))
    assert [len(numbers) for numbers in progress] == [2, 2, 2]
    assert progress.movement.tolist() == [0.0, 0.0]
