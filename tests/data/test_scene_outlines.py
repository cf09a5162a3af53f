import numpy as np
import pytest
import torch

from torchsets.boxes import box_iou
from torchsets.data import Scenes, clevr_scenes, data_folder, sample_scenes, scene_boxes
from torchsets.data.scene_rays import _hits, ray_grid, scene_rays

needs_clevr = pytest.mark.skipif(
    not (data_folder() / "clevr" / "CLEVR_v1.0" / "scenes").is_dir(),
    reason="needs the scenes of CLEVR in TORCHSETS_DATA/clevr",
)


def one_object(shape, size, position=(0.0, 0.0), rotation=0.0):
    height = (0.7, 0.35)[size]
    return Scenes(
        torch.tensor([[*position, height]]),
        torch.tensor([[0, 0, shape, size]]),
        torch.tensor([rotation]),
        [1],
    )


def silhouette_box(scenes, place, columns, rows):
    """Of all rays that hit an object, tried over the whole picture: x1 y1 x2 y2 in cells."""
    rays = scene_rays(scenes, columns, rows)
    rays = rays._replace(windows=[[0, columns, 0, rows]] * len(rays.shape))
    _, hit = _hits(rays, place, ray_grid(columns, rows))
    found_rows, found_columns = np.nonzero(hit)
    return [
        found_columns.min(),
        found_rows.min(),
        found_columns.max() + 1,
        found_rows.max() + 1,
    ]


def test_boxes_are_those_of_silhouettes():
    """Every ray of a fine grid is tried, so an outline is known to one cell."""
    scenes = sample_scenes(12, seed=5)
    boxes = scene_boxes(scenes).to_flat()[0].double()
    assert set(scenes.attributes[:, 2].tolist()) == {0, 1, 2}
    columns, rows = 480, 320
    for place, box in enumerate(boxes):
        seen = torch.tensor(silhouette_box(scenes, place, columns, rows))
        exact = box * torch.tensor([columns, rows, columns, rows])
        assert (seen - exact).abs().max() <= 1


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_boxes_of_far_corners_are_exact_too(shape):
    for position in ((-3.0, 3.0), (3.0, 3.0), (-3.0, -3.0), (3.0, -3.0)):
        scenes = one_object(shape, 0, position, rotation=100.0)
        exact = scene_boxes(scenes).elements[0, 0] * torch.tensor([1920.0, 1280.0, 1920.0, 1280.0])
        seen = torch.tensor(silhouette_box(scenes, 0, 1920, 1280))
        assert (seen - exact).abs().max() <= 1.01


def test_boxes_are_clipped_only_if_wanted():
    scenes = one_object(1, 0, (3.0, -3.0))
    scenes.cameras = torch.tensor([[7.0, -7.0, 4.9]])
    whole, inside = scene_boxes(scenes, clip=False).elements, scene_boxes(scenes).elements
    assert whole.max() > 1
    assert torch.equal(inside, whole.clamp(0, 1))


def test_a_turned_cube_is_wider():
    flat, turned = (scene_boxes(one_object(1, 0, rotation=r)).elements[0, 0] for r in (0.72, 1.5))
    assert (turned - flat).abs().max() > 0.01
    ball, rolled = (scene_boxes(one_object(0, 0, rotation=r)).elements for r in (0.0, 1.5))
    assert torch.equal(ball, rolled)


def test_the_estimate_is_the_thesis(golden):
    known = golden("clevr_boxes_share")
    scenes = golden_scenes(known)
    boxes, mask = scene_boxes(scenes, clip=False, boxes="thesis")
    expected = known["boxes"][:, : mask.shape[1]][mask]
    torch.testing.assert_close(boxes[mask].double(), expected, atol=1e-6, rtol=0)


def golden_scenes(known):
    mask = known["mask"].bool()
    names = ("color", "material", "shape", "size")
    attributes = torch.stack([known[name][mask].long() for name in names], dim=1)
    return Scenes(
        known["coords"][mask],
        attributes,
        known["rotation"][mask],
        mask.sum(1),
        pixels=known["pixels"][mask],
    )


def test_the_estimate_is_near_the_exact_boxes(golden):
    """Its overlap with them is 0.785 on average over 1500 real scenes."""
    scenes = golden_scenes(golden("clevr_boxes_share"))
    exact, mask = scene_boxes(scenes, clip=False)
    estimate = scene_boxes(scenes, clip=False, boxes="thesis").elements
    overlap = box_iou(exact, estimate).diagonal(dim1=1, dim2=2)[mask]
    assert 0.74 < overlap.mean() < 0.83
    assert overlap.min() > 0.5


@needs_clevr
def test_the_estimate_overlaps_with_exact_boxes_as_measured():
    scenes = clevr_scenes("val")
    exact, mask = scene_boxes(scenes, clip=False)
    estimate = scene_boxes(scenes, clip=False, boxes="thesis").elements
    overlap = box_iou(exact, estimate).diagonal(dim1=1, dim2=2)[mask]
    assert overlap.mean().item() == pytest.approx(0.785, abs=0.005)


def test_scenes_without_objects_have_no_boxes():
    assert scene_boxes(sample_scenes(2, objects=(0, 0))).elements.shape == (2, 0, 4)
    assert scene_boxes(sample_scenes(0)).elements.shape[0] == 0


def test_rejects_other_boxes():
    with pytest.raises(ValueError, match='boxes must be "exact" or'):
        scene_boxes(sample_scenes(1), boxes="tight")
