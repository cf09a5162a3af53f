import pytest
import torch

from torchsets.data import (
    Scenes,
    clevr_scenes,
    data_folder,
    sample_scenes,
    scene_cameras,
    scene_lamps,
    scene_pixels,
)
from torchsets.data.scene_projection import CAMERA, LAMPS

needs_clevr = pytest.mark.skipif(
    not (data_folder() / "clevr" / "CLEVR_v1.0" / "scenes").is_dir(),
    reason="needs the scenes of CLEVR in TORCHSETS_DATA/clevr",
)


def with_pixels(scenes, **changes):
    parts = {"cameras": None, "pixels": scene_pixels(scenes)} | changes
    return Scenes(scenes.positions, scenes.attributes, scenes.rotations, scenes.sizes, **parts)


def test_cameras_are_recovered_from_pixels():
    scenes = sample_scenes(40, seed=2)
    exact = with_pixels(scenes)
    torch.testing.assert_close(scene_cameras(exact), scenes.cameras, atol=1e-4, rtol=0)
    pixels = torch.cat([exact.pixels[:, :2].round(), exact.pixels[:, 2:]], dim=1)
    rounded = with_pixels(scenes, pixels=pixels)  # as files have them
    torch.testing.assert_close(scene_cameras(rounded), scenes.cameras, atol=2e-3, rtol=0)
    again = scene_pixels(Scenes(*objects(rounded), cameras=scene_cameras(rounded)))
    assert (again - pixels)[:, :2].abs().max() < 0.51


def objects(scenes):
    return scenes.positions, scenes.attributes, scenes.rotations, scenes.sizes


def test_cameras_are_those_of_the_golden_scenes(golden):
    known = golden("clevr_boxes_share")
    mask = known["mask"].bool()
    attributes = torch.zeros(int(mask.sum()), 4, dtype=torch.long)
    scenes = Scenes(
        known["coords"][mask],
        attributes,
        known["rotation"][mask],
        mask.sum(1),
        pixels=known["pixels"][mask],
    )
    torch.testing.assert_close(scene_cameras(scenes), known["camera"], atol=1e-3, rtol=0)


@needs_clevr
@pytest.mark.parametrize("split", ["train", "val"])
def test_pixels_of_all_real_scenes_are_reproduced(split):
    scenes = clevr_scenes(split)
    offset = (scene_pixels(scenes) - scenes.pixels).abs()
    assert offset[:, :2].max() < 0.51
    assert offset[:, 2].max() < 1e-4
    jitter = scene_cameras(scenes) - torch.tensor(CAMERA)
    assert jitter.abs().max() < 0.502
    assert jitter.abs().mean().item() == pytest.approx(0.25, abs=0.02)  # uniform


def test_a_centre_that_is_the_origin_is_in_the_middle():
    scenes = Scenes(torch.zeros(1, 3), torch.zeros(1, 4).long(), torch.zeros(1), [1])
    column, row, depth = scene_pixels(scenes)[0].tolist()
    assert (column, row) == pytest.approx((240, 160))
    assert depth == pytest.approx(torch.tensor(CAMERA).norm().item())


def test_unknown_cameras_and_lamps_are_those_of_clevr():
    scenes = Scenes(torch.zeros(0, 3), torch.zeros(0, 4).long(), torch.zeros(0), [0, 0])
    assert scene_cameras(scenes).tolist() == [list(CAMERA)] * 2
    assert scene_lamps(scenes).tolist() == [[list(lamp) for lamp in LAMPS]] * 2
    empty = Scenes(*objects(scenes), pixels=torch.zeros(0, 3))
    assert scene_cameras(empty).tolist() == [list(CAMERA)] * 2


def test_sampled_cameras_and_lamps_are_jittered_and_keyed_by_scene():
    scenes = sample_scenes(300, objects=(0, 0), seed=3)
    camera = (scenes.cameras - torch.tensor(CAMERA)).abs()
    lamps = (scenes.lamps - torch.tensor(LAMPS)).abs()
    assert 0.48 < camera.max() <= 0.5
    assert 0.97 < lamps.max() <= 1
    assert lamps.mean().item() == pytest.approx(0.5, abs=0.03)
    later = sample_scenes(10, objects=(3, 3), seed=3, first=100)  # whatever is in them
    assert torch.equal(later.cameras, scenes.cameras[100:110])
    assert torch.equal(later.lamps, scenes.lamps[100:110])
    assert torch.equal(scenes[[7, 5]].lamps, scenes.lamps[[7, 5]])
