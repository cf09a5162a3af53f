import pytest
import torch

from torchsets.data import MNIST_COLOURS
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.mosaics.configs import DIGITS, EXPLICIT, SOURCES, Explicit
from torchsets.lab.experiments.mosaics.explicit import (
    Data,
    Pictures,
    evaluate,
    load_data,
    share_of,
    steps_of,
)
from torchsets.lab.records import Recorder


class Oracle(torch.nn.Module):
    """Sends a tile of brightness 10 k to position k, whichever way equal tiles go."""

    def __init__(self, wrong=False):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.wrong = wrong

    def permute(self, tiles):
        level = (MNIST_COLOURS.undo(tiles).mean(dim=(2, 3, 4)) * 25.5).round().long()
        order = level.argsort(dim=1, stable=True).argsort(dim=1)
        if self.wrong:
            order = order.flip(1)
        return torch.nn.functional.one_hot(order, 4).float()


def pictures(levels, count=200):
    """Pictures of 2 x 2 tiles of one pixel."""
    images = (10 * torch.tensor(levels)).byte().view(1, 1, 2, 2).expand(count, 1, 2, 2)
    return Pictures(images.__getitem__, torch.zeros(count).long(), "mnist", 2, count)


def test_tiles_in_place_are_scored_as_right():
    scores = evaluate(Oracle(), pictures([0, 1, 2, 3]), seed=1)
    assert scores == (0, 100, 100, 100)


def test_equal_tiles_may_swap_in_restored_pictures_but_not_in_right_ones():
    scores = evaluate(Oracle(), pictures([0, 0, 2, 3], count=2000), seed=1)
    assert (scores.error, scores.restored, scores.ceiling) == (0, 100, 50)
    assert 45 < scores.right < 55  # shuffled, or all would be right by accident


def test_wrong_pictures_have_the_error_of_their_pixels():
    """Means over pictures: also where the last batch is a short one."""
    good, bad = pictures([0, 1, 2, 3], count=251), Oracle(wrong=True)
    scores = evaluate(bad, good, seed=1)
    assert scores.right < 100
    unit = (10 / 255 / 0.3081) ** 2
    assert 0 < scores.error < 9 * unit
    assert scores == evaluate(bad, good, seed=1)
    assert scores != evaluate(bad, good, seed=2)


def test_rows_say_if_the_files_hold_a_part_of_the_pictures():
    def data(training, test):
        return Data(*(pictures([0, 1, 2, 3], count=1) for _ in range(2)))._replace(
            training=Pictures(len, torch.zeros(1), "cifar10", 2, training),
            test=Pictures(len, torch.zeros(1), "cifar10", 2, test),
        )

    assert share_of(SOURCES["cifar10"], data(50_000, 10_000)) == ""
    for counts in ((10_000, 2000), (50_000, 2000), (10_000, 10_000)):
        text = f", part of CIFAR10: {counts[0]} and {counts[1]} pictures"
        assert share_of(SOURCES["cifar10"], data(*counts)) == text


def test_the_thesis_steps_are_those_of_twenty_epochs():
    whole = Pictures(len, torch.zeros(60_000), "mnist", 2, 60_000)
    assert steps_of(Explicit(), SOURCES["mnist"], whole) == 37_500
    assert steps_of(Explicit(epochs=1), SOURCES["mnist"], whole) == 1875
    assert steps_of(Explicit(epochs=1, steps=3), SOURCES["mnist"], whole) == 3


def test_pictures_are_rescaled_and_recorded(tmp_path):
    config = EXPLICIT.config_at("smoke", test_pictures=5)
    recorder = Recorder.start(tmp_path, experiment="x", scale="smoke", config={"seed": 0})
    data = load_data(config, recorder, "digits", DIGITS, 3)
    assert data.training.tiles(torch.tensor([0, 7])).shape == (2, 9, 1, 3, 3)
    assert len(data.training.labels) == 1347
    assert (len(data.test.labels), data.test.whole) == (5, 450)
    assert [chosen.tolist() for chosen in data.test.batches()] == [[0, 1, 2, 3, 4]]
    other = EXPLICIT.config_at("smoke", test_pictures=6)
    with pytest.raises(ValueError, match="the data for digits test changed"):
        load_data(other, recorder, "digits", DIGITS, 3)


def test_models_of_ours_are_never_in_the_tables_of_the_thesis(tmp_path):
    config = EXPLICIT.config_at("smoke", steps=2, grids=(2,))
    run = run_experiment("mosaics", config, scale="smoke", folder=tmp_path / "run")
    rows = {}
    for cell in run.cells:
        rows.setdefault(cell.table, []).append(cell.model)
    tagged = ["PO-U, ties broken", "PO-LA, ties broken"]
    names = ["LinAssign", "PO-U", "PO-LA"]
    for key in ("perm/mosaic/variants", "perm/mosaic2/variants"):
        assert rows[key] == [f"{name}, dataset=digits, steps=2" for name in names]
    assert rows["mosaics/error"] == rows["mosaics/restored"] == names + tagged
    assert set(rows["mosaics/right"]) == {*names, *tagged, "largest possible"}
    assert {cell.column for cell in run.cells} == {"digits 2x2"}


def test_training_lowers_the_error(tmp_path):
    config = EXPLICIT.config_at(
        "smoke", steps=150, grids=(2,), models=("po-u",), features=16, learning_rate=3e-3
    )
    run = run_experiment("mosaics", config, scale="smoke", folder=tmp_path / "run")
    values = {cell.table: cell.value for cell in run.cells if cell.model == "PO-U"}
    assert values["mosaics/error"] < 0.7  # a random order: about 2.5
    assert values["mosaics/restored"] > 40


def tiny(**changes):
    return Explicit(
        grids=(2,), models=("po-u",), steps=1, batch_size=2, features=2, hidden=2, **changes
    )


def test_a_part_of_the_published_files_is_named_in_the_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    folder = tmp_path / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    for name, count in (("data_batch_1.bin", 7), ("test_batch.bin", 5)):
        records = torch.randint(256, (count, 3073), dtype=torch.uint8, generator=generator)
        records[:, 0] = 3
        (folder / name).write_bytes(records.numpy().tobytes())
    config = tiny(datasets=("cifar10",))
    run = run_experiment("mosaics", config, scale="full", folder=tmp_path / "run")
    rows = {cell.model for cell in run.cells if cell.table.startswith("perm/")}
    assert len(rows) == 1
    assert rows.pop().startswith("PO-U, part of CIFAR10: 7 and 5 pictures")
    assert {cell.column for cell in run.cells} == {"CIFAR10 2x2"}


def test_imagenet_is_read_from_folders_of_pictures(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    config = tiny(datasets=("imagenet",))
    with pytest.raises(FileNotFoundError, match=r"ILSVRC2012_img_train.tar from https://image-net"):
        run_experiment("mosaics", config, scale="full", folder=tmp_path / "missing")
    for split in ("train", "val"):
        for number, name in enumerate(("n01440764", "n01443537")):
            folder = tmp_path / "imagenet" / split / name
            folder.mkdir(parents=True)
            for index in range(2):
                shade = 40 * (2 * number + index)
                image.new("RGB", (70, 90), (shade, 200 - shade, 9)).save(folder / f"{index}.png")
    run = run_experiment("mosaics", config, scale="full", folder=tmp_path / "run")
    assert run.complete
    assert {cell.column for cell in run.cells} == {"ImageNet64 2x2"}
