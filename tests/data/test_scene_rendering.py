import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from torchsets.data import (
    Scenes,
    clevr_pictures,
    data_folder,
    render_scenes,
    resize_bilinear,
    sample_scenes,
    scene_boxes,
)
from torchsets.data.scene_rendering import _shrink, _spread

needs_pictures = pytest.mark.skipif(
    not (data_folder() / "clevr" / "CLEVR_v1.0" / "images").is_dir(),
    reason="needs pictures of CLEVR in TORCHSETS_DATA/clevr",
)


@pytest.fixture(scope="module")
def scenes():
    return sample_scenes(5, seed=11, visible=True)


@pytest.fixture(scope="module")
def pictures(scenes):
    return render_scenes(scenes, size=32)


def bare(scenes):
    """The same cameras and lamps, without objects."""
    nothing = torch.zeros(0, 3), torch.zeros(0, 4, dtype=torch.long), torch.zeros(0)
    sizes = torch.zeros(len(scenes), dtype=torch.long)
    return Scenes(*nothing, sizes, cameras=scenes.cameras, lamps=scenes.lamps)


def test_a_picture_is_the_same_in_any_chunk(scenes, pictures):
    assert pictures.dtype == torch.uint8
    for place in range(len(scenes)):
        assert torch.equal(render_scenes(scenes[place], size=32)[0], pictures[place])
    order = torch.tensor([3, 0, 3])
    assert torch.equal(render_scenes(scenes[order], size=32), pictures[order])


def test_chunks_are_cut_without_a_trace(scenes, pictures, monkeypatch):
    monkeypatch.setattr(sys.modules["torchsets.data.scene_rendering"], "_CHUNK", 2)
    assert torch.equal(render_scenes(scenes, size=32), pictures)


def test_a_picture_is_the_same_in_any_process_and_with_any_number_of_threads(pictures):
    code = (
        "import torch, sys; torch.set_num_threads(2)\n"
        "from torchsets.data import render_scenes, sample_scenes\n"
        "scenes = sample_scenes(3, seed=11, first=2, visible=True)\n"
        "sys.stdout.buffer.write(render_scenes(scenes, size=32).numpy().tobytes())\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == pictures[2:].numpy().tobytes()


def test_the_order_of_the_objects_hardly_matters(scenes, pictures):
    """Shadows are products of float32, so a byte may differ."""
    size = int(scenes.sizes[0])
    back = torch.arange(size - 1, -1, -1)
    one = scenes[0]
    turned = Scenes(
        one.positions[back],
        one.attributes[back],
        one.rotations[back],
        one.sizes,
        cameras=one.cameras,
        lamps=one.lamps,
    )
    assert (render_scenes(turned, size=32)[0].int() - pictures[0].int()).abs().max() <= 1


def test_pictures_look_as_they_did(scenes, pictures, golden):
    """Drawn once and looked at; other processors may round some bytes differently."""
    known = golden("rendered_scenes")["pictures"].int()
    offset = (pictures.int() - known).abs()
    assert offset.float().mean() < 0.2
    assert (offset > 3).float().mean() < 0.005


def test_objects_are_drawn_inside_their_boxes_only(scenes):
    """Outside there is only shadow, which is soft and never brighter."""
    with_objects, without = render_scenes(scenes, size=64), render_scenes(bare(scenes), size=64)
    offset = with_objects.int() - without.int()
    outside = torch.ones(len(scenes), 64, 64, dtype=torch.bool)
    for place, boxes in enumerate(scene_boxes(scenes).to_list()):
        for left, top, right, bottom in (boxes * 64).tolist():
            rows = slice(max(0, int(top) - 1), int(bottom) + 3)
            outside[place, rows, max(0, int(left) - 1) : int(right) + 3] = False
    away = offset.permute(0, 2, 3, 1)[outside]
    assert away.max() <= 0
    assert (away < 0).float().mean() > 0.1
    inside = offset.permute(0, 2, 3, 1)[~outside]
    assert inside.abs().float().mean() > 10 * away.abs().float().mean()


def test_more_rays_change_outlines_only(scenes):
    rough, fine = (
        render_scenes(scenes, size=48, samples=1),
        render_scenes(scenes, size=48, samples=4),
    )
    offset = (rough.int() - fine.int()).abs()
    assert offset.float().mean() < 4
    assert (offset > 40).float().mean() < 0.03
    plain = render_scenes(bare(scenes), size=48, samples=1)
    assert torch.equal(plain, render_scenes(bare(scenes), size=48, samples=3))


@pytest.mark.parametrize("samples", [1, 2, 3, 4])
def test_rays_are_averaged_as_pictures_are_resized(samples):
    size = 6
    side = samples * size
    image = torch.rand(3, side, side, generator=torch.Generator().manual_seed(samples))
    hits = np.arange(side * side)
    canvas = _spread(hits, image.view(3, -1).numpy(), samples, size)
    shrunk = torch.from_numpy(_shrink(canvas, samples, size).copy())
    torch.testing.assert_close(shrunk[:3], resize_bilinear(image, (size, size)))
    torch.testing.assert_close(shrunk[3], torch.ones(size, size))


@pytest.mark.parametrize("size", [1, 2, 7, 33])
def test_any_size_can_be_rendered(size):
    assert render_scenes(sample_scenes(2), size=size).shape == (2, 3, size, size)


def test_no_scenes_and_no_objects():
    assert render_scenes(sample_scenes(0)).shape == (0, 3, 64, 64)
    ground = render_scenes(sample_scenes(1, objects=(0, 0)), size=32)[0].float()
    assert 80 < ground.mean() < 150
    assert ground[:, -4:].mean() > ground[:, :4].mean()  # it is brighter in front


def test_rejects_bad_sizes():
    for options in ({"size": 0}, {"samples": 0}):
        with pytest.raises(ValueError, match="size and samples must be at least 1"):
            render_scenes(sample_scenes(1), **options)


def differences(real, scenes):
    """To real pictures: of each colour, and inside the boxes, of ours and of bare ground."""
    size = real.shape[-1]
    ours, ground = render_scenes(scenes, size=size), render_scenes(bare(scenes), size=size)
    inside = torch.zeros(len(scenes), size, size, dtype=torch.bool)
    for place, boxes in enumerate(scene_boxes(scenes).to_list()):
        for left, top, right, bottom in (boxes * size).tolist():
            inside[place, int(top) : int(bottom) + 1, int(left) : int(right) + 1] = True
    away, bare_away = ((one.float() - real.float()).abs() for one in (ours, ground))
    return (
        away.mean(dim=(0, 2, 3)),
        away.mean(dim=1)[inside].mean().item(),
        bare_away.mean(dim=1)[inside].mean().item(),
    )


@needs_pictures
@pytest.mark.parametrize(
    ("split", "count"), [("val", 10), pytest.param("train", 1000, marks=pytest.mark.slow)]
)
def test_pictures_are_close_to_the_real_ones(split, count):
    """All 277: 4.3 on average, 7.6 inside the boxes, where bare ground has 43.8."""
    scenes, real = clevr_pictures(split)
    colours, inside, ground = differences(real[:count], scenes[:count])
    assert colours.max() < 6
    assert inside < 0.5 * ground
    assert inside < 10
