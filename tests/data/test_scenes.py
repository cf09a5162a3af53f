import pytest
import torch

from torchsets.data import (
    Scenes,
    render_scenes,
    sample_scenes,
    scene_relations,
    scene_states,
    states_to_scenes,
)
from torchsets.data.scenes import ATTRIBUTES, BEHIND, RELATIONS, RIGHT, VALUES, scene_objects
from torchsets.metrics import state_average_precision


def small_scenes():
    """Two objects; none; one."""
    return Scenes(
        torch.tensor([[0.0, 0.0, 0.7], [3.0, 0.0, 0.35], [-1.5, 1.5, 0.35]]),
        torch.tensor([[4, 1, 0, 0], [7, 0, 2, 1], [0, 1, 1, 1]]),
        torch.tensor([10.0, 20.0, 30.0]),
        [2, 0, 1],
    )


def test_index_picks_scenes():
    scenes = sample_scenes(6)
    starts = (scenes.sizes.cumsum(0) - scenes.sizes).tolist()
    picked = scenes[[4, 1]]
    assert picked.numbers.tolist() == [4, 1]
    for place, number in enumerate((4, 1)):
        rows = slice(starts[number], starts[number] + int(scenes.sizes[number]))
        alone = scenes[number]
        for one in (alone, picked[place]):
            assert torch.equal(one.positions, scenes.positions[rows])
            assert torch.equal(one.attributes, scenes.attributes[rows])
            assert torch.equal(one.rotations, scenes.rotations[rows])
    assert len(scenes[2:5]) == 3
    assert len(scenes[scenes.sizes < 0]) == 0


def test_recorded_values_go_along_with_an_index():
    scenes = small_scenes()
    total, count = len(scenes.positions), len(scenes)
    full = Scenes(
        scenes.positions,
        scenes.attributes,
        scenes.rotations,
        scenes.sizes,
        relations=torch.arange(4 * total).view(total, 4),
        pixels=torch.arange(3.0 * total).view(total, 3),
        cameras=torch.arange(3.0 * count).view(count, 3),
    )
    last = full[-1]
    assert last.relations.tolist() == [[8, 9, 10, 11]]
    assert last.pixels.tolist() == [[6.0, 7.0, 8.0]]
    assert last.cameras.tolist() == [[6.0, 7.0, 8.0]]
    assert torch.equal(scene_relations(full), full.relations)
    assert not torch.equal(scene_relations(full, recorded=False), full.relations)


def test_relations_match_a_plain_loop():
    scenes = sample_scenes(20)
    axes = {"right": RIGHT, "behind": BEHIND}
    axes |= {"left": [-x for x in RIGHT], "front": [-x for x in BEHIND]}
    for number in range(len(scenes)):
        positions = scenes[number].positions.tolist()
        masks = scene_objects(scenes)[number].relations
        for i, one in enumerate(positions):
            for side, name in enumerate(RELATIONS):
                along = [(o[0] - one[0]) * axes[name][0] + (o[1] - one[1]) * axes[name][1]
                         for o in positions]  # fmt: skip
                expected = {j for j, offset in enumerate(along) if offset > 0}
                assert {j for j in range(62) if masks[i][side] >> j & 1} == expected


def test_states_are_one_hot_or_numbers():
    elements, mask = scene_states(small_scenes())
    assert mask.tolist() == [[True, True], [False, False], [True, False]]
    expected = [0.0] * 18
    expected[2] = 0.7 / 3
    expected[3 + 1] = expected[5 + 4] = expected[13 + 0] = expected[16 + 0] = 1.0
    torch.testing.assert_close(elements[0, 0], torch.tensor(expected))
    numbers = scene_states(small_scenes(), coding="index").elements
    torch.testing.assert_close(
        numbers[0],
        torch.tensor([[0, 0, 0.7, 5, 2, 1, 1], [3, 0, 0.35, 8, 1, 3, 2]]),
    )


def test_scenes_come_back_from_their_states_whatever_the_padding_holds():
    scenes = small_scenes()
    elements, mask = scene_states(scenes)
    read = states_to_scenes(elements.masked_fill(~mask.unsqueeze(-1), float("nan")), mask)
    assert read.sizes.tolist() == [2, 0, 1]
    torch.testing.assert_close(read.positions, scenes.positions.float())
    assert read.attributes.equal(scenes.attributes)
    assert len(states_to_scenes(elements).positions) == 6  # without a mask all are there
    assert states_to_scenes(elements[:0], mask[:0]).sizes.tolist() == []


def test_the_largest_number_of_an_attribute_counts():
    state = torch.zeros(1, 1, 18)
    state[..., 3:5] = torch.tensor([0.2, -0.1])  # rubber
    state[..., 5 + 6], state[..., 5 + 1] = 0.9, 0.8  # grey rather than blue
    state[..., 13 + 2] = 0.1  # cylinder
    state[..., 16 + 1] = 2.0  # small
    assert states_to_scenes(state).attributes.tolist() == [[6, 0, 2, 1]]


def test_a_scene_without_objects_can_be_rendered():
    nothing = states_to_scenes(torch.zeros(1, 2, 18), torch.zeros(1, 2, dtype=torch.bool))
    assert render_scenes(nothing, size=32).shape == (1, 3, 32, 32)


def test_states_are_those_of_the_metric():
    elements, mask = scene_states(sample_scenes(8))
    scores = mask.float()
    perfect = state_average_precision(elements, scores, elements, mask, thresholds=[0.1])
    torch.testing.assert_close(perfect, torch.ones(1))


def test_states_agree_with_the_authors(golden):
    numbers = golden("clevr_boxes_share")
    mask = numbers["mask"]
    attributes = torch.stack([numbers[name][mask].long() for name in ATTRIBUTES], dim=1)
    scenes = Scenes(numbers["coords"][mask], attributes, numbers["rotation"][mask], mask.sum(dim=1))
    elements, ours = scene_states(scenes)
    expected = numbers["states"][mask].float()
    torch.testing.assert_close(elements[ours], expected)


def test_no_scenes_are_legal():
    nothing = sample_scenes(0)
    assert len(nothing) == 0
    assert scene_states(nothing).elements.shape == (0, 0, 18)
    assert scene_relations(nothing).shape == (0, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": torch.zeros(3, 2)}, r"positions must have shape \(total, 3\)"),
        ({"attributes": torch.zeros(3, 3).long()}, r"attributes must have shape \(total, 4\)"),
        ({"attributes": torch.full((3, 4), 2)}, "attributes must have a material below 2"),
        ({"sizes": [1, 1]}, "sizes must be non-negative and add up to the 3 rows"),
        ({"numbers": torch.zeros(2)}, r"numbers must have shape \(S,\) = \(3\)"),
        ({"relations": torch.zeros(3, 3)}, r"relations must have shape \(total, 4\)"),
        ({"cameras": torch.zeros(3, 2)}, r"cameras must have shape \(S, 3\)"),
    ],
)
def test_rejects_bad_scenes(change, message):
    scenes = small_scenes()
    arguments = {
        "positions": scenes.positions,
        "attributes": scenes.attributes,
        "rotations": scenes.rotations,
        "sizes": scenes.sizes,
    } | change
    with pytest.raises(ValueError, match=message):
        Scenes(**arguments)


def test_rejects_too_many_objects():
    with pytest.raises(ValueError, match="sizes must be at most 62, got 63"):
        Scenes(torch.zeros(63, 3), torch.zeros(63, 4).long(), torch.zeros(63), [63])


@pytest.mark.parametrize(
    ("elements", "mask", "message"),
    [
        (torch.zeros(2, 3, 7), None, r"elements must have shape \(B, N, 18\)"),
        (torch.zeros(2, 3, 18), torch.ones(2, 3), "mask must be bool"),
    ],
)
def test_rejects_bad_states(elements, mask, message):
    with pytest.raises(ValueError, match=message):
        states_to_scenes(elements, mask)


def test_rejects_an_unknown_coding():
    with pytest.raises(ValueError, match="coding must be"):
        scene_states(small_scenes(), coding="binary")


def test_says_what_it_holds():
    assert repr(small_scenes()) == "Scenes(3 scenes of 0 to 2 objects)"
    assert [len(values) for values in VALUES.values()] == [8, 2, 3, 2]
