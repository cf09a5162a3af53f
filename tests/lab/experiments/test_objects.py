import torch

from torchsets.data.scenes import Scenes, scene_states
from torchsets.lab.experiments.objects import compare, describe, match, set_encoder

SCENES = Scenes(
    torch.tensor([[0.0, 0.0, 0.7], [2.0, 1.0, 0.35]]),
    torch.tensor([[4, 1, 1, 0], [0, 0, 0, 1]]),  # large red metal cube, small cyan rubber sphere
    torch.zeros(2),
    [2],
)
TARGET = scene_states(SCENES).elements[0]


def test_slots_are_matched_to_objects_in_any_order_after_each_step():
    elements = torch.stack([TARGET[[1, 0]], TARGET])
    presence = torch.ones(2, 2)
    assert match(elements, presence, TARGET).tolist() == [[1, 0], [0, 1]]


def test_a_slot_that_is_not_present_is_not_taken_for_an_object():
    elements = torch.cat([TARGET, TARGET])[None]
    presence = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
    assert match(elements, presence, TARGET).tolist() == [[2, 3]]


def test_wrong_attributes_and_positions_are_marked():
    chosen = TARGET.clone()
    chosen[0, 3:5] = torch.tensor([0.9, 0.2])  # rubber
    chosen[1, 0] += 0.3 / 3
    right = compare(chosen[None], torch.ones(1, 2), TARGET)[0]
    # size, colour, material, shape, position
    assert right.tolist() == [[True, True, False, True, True], [True, True, True, True, False]]
    assert describe(chosen, right, TARGET) == (
        "1 large red [rubber, not metal] cube; 2 small cyan rubber sphere [misplaced]."
    )


def test_a_near_slot_that_is_not_present_counts_as_misplaced():
    right = compare(TARGET[None], torch.tensor([[1.0, 0.4]]), TARGET)[0]
    assert right[:, -1].tolist() == [True, False]


def test_fspool_has_one_weight_for_each_rank():
    encoder = set_encoder(19, 16, 32, slots=6, pooling="fspool")
    sets = torch.randn(2, 6, 19)
    ranked = encoder.inner(sets).sort(dim=1, descending=True).values
    expected = (ranked * encoder.pool.weight.T).sum(dim=1)
    torch.testing.assert_close(encoder(sets), expected)
