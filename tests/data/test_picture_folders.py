import pytest
import torch

from torchsets.data import PictureFolder, imagenet_pictures, resize_and_crop

image = pytest.importorskip("PIL.Image", reason="needs Pillow: torchsets[pictures]")


@pytest.fixture
def folder(tmp_path, generator):
    """Two classes with three pictures, also grey and deeper down, and things that are none."""
    pixels = torch.randint(256, (20, 30, 3), generator=generator, dtype=torch.uint8)
    for name, content in (
        ("n02/dog.png", pixels),
        ("n01/deeper/b.PNG", pixels.transpose(0, 1)),
        ("n01/a.png", pixels[..., 0]),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(content.contiguous().numpy()).save(path)
    (tmp_path / "n01" / "notes.txt").write_text("not a picture")
    (tmp_path / "empty").mkdir()
    (tmp_path / "stray.png").write_bytes(b"")
    return tmp_path, pixels


def test_classes_are_folders_in_the_order_of_their_names(folder):
    pictures = PictureFolder(folder[0], size=8)
    assert pictures.classes == ["n01", "n02"]
    assert [path.name for path in pictures.paths] == ["a.png", "b.PNG", "dog.png"]
    assert pictures.labels.tolist() == [0, 0, 1]
    assert len(pictures) == 3


def test_pictures_are_rescaled_and_cropped_in_colour(folder):
    path, pixels = folder
    read = PictureFolder(path, size=8).read(torch.tensor([2, 0, 1]))
    assert read.shape == (3, 3, 8, 8)
    assert read.dtype == torch.uint8
    colour = pixels.permute(2, 0, 1)
    assert torch.equal(read[0], resize_and_crop(colour, 8))
    assert torch.equal(read[1], resize_and_crop(colour[:1].expand(3, -1, -1), 8))
    assert torch.equal(read[2], resize_and_crop(colour.mT, 8))


def test_reading_nothing_gives_an_empty_batch(folder):
    read = PictureFolder(folder[0]).read(torch.zeros(0, dtype=torch.long))
    assert read.shape == (0, 3, 64, 64)
    assert read.dtype == torch.uint8


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_picture_is_named(folder, share):
    path = folder[0] / "n02" / "dog.png"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"dog.png must be a whole picture, got"):
        PictureFolder(folder[0]).read(torch.tensor([2]))


def test_folders_without_pictures_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is missing; it must hold one folder"):
        PictureFolder(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="holds no folder with pictures"):
        PictureFolder(tmp_path)
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        PictureFolder(tmp_path, size=0)


def test_without_imagenet_the_error_says_which_files_and_where_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"ILSVRC2012_img_val.tar from https://image-net"):
        imagenet_pictures("val")
    with pytest.raises(ValueError, match='split must be "train" or "val", got \'test\''):
        imagenet_pictures("test")


def test_imagenet_is_found_in_the_data_folder(folder, tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("data")
    (home / "imagenet").mkdir()
    (home / "imagenet" / "train").symlink_to(folder[0])
    monkeypatch.setenv("TORCHSETS_DATA", str(home))
    assert imagenet_pictures("train", size=66).read(torch.tensor([1])).shape == (1, 3, 66, 66)
