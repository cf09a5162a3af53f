import sys

import pytest
import torch

from torchsets.data import (
    clevr_pictures,
    data_folder,
    resize_bilinear,
    sample_scenes,
    scene_cameras,
    write_clevr_scenes,
    write_png,
)

pytest.importorskip("PIL.Image")
module = sys.modules["torchsets.data.clevr_images"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three scenes, and pictures of the first and the last."""
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    inner = tmp_path / "clevr" / "CLEVR_v1.0"
    (inner / "scenes").mkdir(parents=True)
    (inner / "images" / "val").mkdir(parents=True)
    write_clevr_scenes(inner / "scenes" / "CLEVR_val_scenes.json", sample_scenes(3), "val")
    for number in (0, 2):
        write_png(inner / "images" / "val" / f"CLEVR_val_{number:06}.png", frame(number))
    return inner


def frame(number):
    seed = torch.Generator().manual_seed(number)
    return torch.randint(256, (3, 320, 480), dtype=torch.uint8, generator=seed)


def test_the_whole_frame_is_squeezed_and_scenes_without_a_picture_are_left_out(folder):
    scenes, images = clevr_pictures("val", size=16)
    assert scenes.numbers.tolist() == [0, 2]
    assert torch.equal(images[1], resize_bilinear(frame(2), (16, 16)))
    assert torch.equal(scenes.cameras, scene_cameras(scenes))


def test_many_pictures_are_kept(folder, monkeypatch, tmp_path):
    few = clevr_pictures("val", size=16)
    monkeypatch.setattr(module, "_FEW", 1)
    many = clevr_pictures("val", size=16)
    assert torch.equal(many.images, few.images)
    assert torch.equal(many.scenes.cameras, few.scenes.cameras)
    monkeypatch.setattr(module, "read_picture", None)
    again = clevr_pictures("val", size=16)
    assert torch.equal(again.images, few.images)
    assert torch.equal(again.scenes.positions, few.scenes.positions)


def test_missing_pictures_say_where_to_get_them(folder):
    for path in (folder / "images" / "val").iterdir():
        path.unlink()
    message = (
        r"CLEVR_val_000000\.png and all other pictures are missing: download .*CLEVR_v1\.0\.zip"
    )
    with pytest.raises(FileNotFoundError, match=message):
        clevr_pictures("val")
    (folder / "images" / "val").rmdir()
    with pytest.raises(FileNotFoundError, match="for pictures without a download"):
        clevr_pictures("val")


def test_rejects_bad_arguments(folder):
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        clevr_pictures("val", size=0)
    (folder / "images" / "val" / "CLEVR_val_000000.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"CLEVR_val_000000\.png must be a whole picture"):
        clevr_pictures("val")


@pytest.mark.skipif(
    not (data_folder() / "clevr" / "CLEVR_v1.0" / "images").is_dir(),
    reason="needs pictures of CLEVR in TORCHSETS_DATA/clevr",
)
def test_real_pictures_are_found():
    scenes, images = clevr_pictures("val", size=64)
    assert images.shape == (len(scenes), 3, 64, 64)
    assert 60 < images.float().mean() < 180
