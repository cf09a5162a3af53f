import pytest
import torch

from torchsets.data import shuffle_tiles, tiles_to_image
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.mosaics.classify import measure_classifier, measure_model
from torchsets.lab.experiments.mosaics.configs import CLASSIFY, DIGITS
from torchsets.lab.experiments.mosaics.explicit import load_data
from torchsets.lab.experiments.mosaics.models import Judged, Mosaic
from torchsets.lab.records import Recorder


class Lookup(torch.nn.Module):
    """Knows the class of every picture that it has seen, bit by bit; 0 for others."""

    def __init__(self, pictures, labels):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.known, self.labels = pictures.flatten(1), labels

    def forward(self, pictures):
        same = torch.cdist(pictures.flatten(1), self.known, p=1) < 1e-3
        found = torch.where(same.any(dim=1), self.labels[same.int().argmax(dim=1)], 0)
        return torch.nn.functional.one_hot(found, 10).float()


def load(tmp_path):
    config = CLASSIFY.config_at("smoke")
    recorder = Recorder.start(tmp_path, experiment="x", scale="smoke", config={"seed": 0})
    pictures = load_data(config, recorder, "digits", DIGITS, 2).test
    tiles = pictures.tiles(torch.arange(len(pictures.labels)))
    return config, pictures, Lookup(tiles_to_image(tiles, (2, 2)), pictures.labels)


def test_max_is_of_intact_and_min_of_shuffled_pictures(tmp_path):
    _, pictures, classifier = load(tmp_path)
    assert measure_classifier(classifier, pictures, seed=None) == (100, 0)
    shuffled = measure_classifier(classifier, pictures, seed=1)
    assert shuffled.accuracy < 40
    assert 1.5 < shuffled.error < 3.5
    assert shuffled != measure_classifier(classifier, pictures, seed=2)


def test_the_classifier_gets_the_soft_picture(tmp_path):
    config, pictures, classifier = load(tmp_path)
    torch.manual_seed(0)
    mosaic = Mosaic(config, "po-u", DIGITS, grid=2, side=4)
    model = Judged(mosaic, classifier, batch_statistics=False)
    scores = measure_model(model.eval(), pictures, seed=1)
    tiles = pictures.tiles(torch.arange(len(pictures.labels)))
    shuffled, _ = shuffle_tiles(tiles, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        mixed = torch.einsum("bik,bichw->bkchw", mosaic.permute(shuffled), shuffled)
    assert scores.error == pytest.approx((mixed - tiles).square().mean().item(), rel=1e-4)
    known = classifier(tiles_to_image(mixed, (2, 2))).argmax(dim=1) == pictures.labels
    assert scores.accuracy == pytest.approx(100 * known.double().mean().item())


def test_every_row_of_the_tables_is_filled(tmp_path):
    config = CLASSIFY.config_at("smoke", steps=2, classifier_steps=2, grids=(2,))
    run = run_experiment("mosaics-classify", config, scale="smoke", folder=tmp_path / "run")
    rows = {}
    for cell in run.cells:
        rows.setdefault(cell.table, {})[cell.model.partition(", ")[0]] = cell.value
    names = ["max", "min", "LinAssign", "PO-U", "PO-LA"]
    assert list(rows["perm/classify/variants"]) == names
    assert list(rows["perm/classify2/variants"]) == names
    assert list(rows["mosaics-classify/pooling"]) == ["mean", "FSPool"]
    assert rows["perm/classify/variants"]["max"] == rows["mosaics-classify/pooling"]["mean"]
    assert rows["perm/classify2/variants"]["max"] == 0
    assert set(run.tasks) == {
        f"digits 2x2/{name}"
        for name in ("classifier", "classifier fspool", "linear", "po-u", "po-la")
    }
