import pytest
import torch

from torchsets.data import contact_sheet, draw_boxes, write_png
from torchsets.padded import SetBatch


def test_pictures_are_laid_out_row_by_row():
    images = torch.arange(5, dtype=torch.uint8).view(5, 1, 1, 1).expand(5, 3, 2, 3)
    sheet = contact_sheet(images, columns=3, gap=1)
    assert sheet.shape == (3, 5, 11)
    assert sheet[0, 0].tolist() == [0, 0, 0, 255, 1, 1, 1, 255, 2, 2, 2]
    assert sheet[2, 2].tolist() == [255] * 11
    assert sheet[1, 4].tolist() == [3, 3, 3, 255, 4, 4, 4, 255, 255, 255, 255]


def test_boxes_are_drawn_around_what_they_hold():
    images = torch.zeros(2, 3, 5, 9, dtype=torch.uint8)
    boxes = SetBatch.from_list([torch.zeros(0, 4), torch.tensor([[0.25, 0.0, 1.5, 0.75]])])
    drawn = draw_boxes(images, boxes)
    assert drawn[0].max() == 0
    painted = (drawn[1].amax(dim=0) > 0).int().tolist()
    assert painted == [
        [0, 0, 1, 1, 1, 1, 1, 1, 1],
        [0, 0, 1, 0, 0, 0, 0, 0, 1],
        [0, 0, 1, 0, 0, 0, 0, 0, 1],
        [0, 0, 1, 1, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert images.max() == 0


def test_pillow_reads_what_is_written(tmp_path, generator):
    pillow = pytest.importorskip("PIL.Image")
    image = torch.randint(256, (3, 7, 5), dtype=torch.uint8, generator=generator)
    write_png(tmp_path / "image.png", image)
    with pillow.open(tmp_path / "image.png") as file:
        assert (file.mode, file.size) == ("RGB", (5, 7))
        pixels = [list(file.getpixel((x, y))) for y in range(7) for x in range(5)]
    assert pixels == image.permute(1, 2, 0).reshape(-1, 3).tolist()


@pytest.mark.parametrize("image", [torch.zeros(3, 2, 2), torch.zeros(1, 2, 2).byte()])
def test_rejects_what_is_no_picture(image, tmp_path):
    with pytest.raises(ValueError, match=r"image must be uint8 of shape \(3, H, W\)"):
        write_png(tmp_path / "image.png", image)
