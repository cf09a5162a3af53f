import pytest
import torch

from torchsets.data import MNIST_COLOURS, image_to_tiles, shuffle_tiles
from torchsets.lab.experiments.mosaics.configs import DIGITS, Explicit
from torchsets.lab.experiments.mosaics.figures import (
    Examples,
    Trained,
    draw_costs,
    draw_explicit,
    draw_reconstructions,
)
from torchsets.lab.experiments.mosaics.models import Mosaic
from torchsets.lab.records import Recorder, read_run

CONFIG = Explicit(dataset="digits", datasets=("mnist",), features=4, hidden=6)


@pytest.fixture
def recorder(tmp_path):
    return Recorder.start(tmp_path / "run", experiment="x", scale="smoke", config={"seed": 0})


def build(name):
    torch.manual_seed(0)
    return Mosaic(CONFIG, name, DIGITS, grid=2, side=4)


def examples(count):
    torch.manual_seed(1)
    pixels = torch.randint(256, (count, 1, 8, 8), dtype=torch.uint8)
    return pixels, MNIST_COLOURS.apply(image_to_tiles(pixels, (2, 2)))


def figure(recorder, name):
    return read_run(recorder.folder).figures[name].figure


def test_pictures_begin_as_the_mean_of_their_tiles(recorder):
    model, (pixels, tiles) = build("po-u"), examples(2)
    draw_reconstructions(recorder, "digits 2x2 PO-U", model, tiles, MNIST_COLOURS)
    shown = figure(recorder, "reconstructions digits 2x2 PO-U")
    assert shown.slider.values == [0, 1, 2, 3, 4]
    assert len(shown.panels) == 2
    start = torch.tensor(shown.panels[0].matrices[0])
    mean = pixels[0, 0].float().view(2, 4, 2, 4).mean(dim=(0, 2)) / 255
    torch.testing.assert_close(start, mean.repeat(2, 2), atol=1e-4, rtol=0)
    assert not torch.allclose(torch.tensor(shown.panels[0].matrices[4]), start, atol=1e-3)


def test_tiles_are_sorted_by_each_cost(recorder):
    model, (_, tiles) = build("po-u"), examples(1)
    draw_costs(recorder, "digits 2x2 PO-U", model, tiles, MNIST_COLOURS)
    shown = figure(recorder, "costs digits 2x2 PO-U")
    diagonals, costs = (torch.tensor(panel.matrices) for panel in shown.panels)
    assert (costs.sum(dim=2).diff(dim=1) >= -1e-4).all()
    raw = model.costs(tiles)[0, 1]  # F1: from left to right
    first = raw.sum(dim=1).argmin()
    torch.testing.assert_close(costs[0].sum(dim=1)[0], raw.sum(dim=1)[first], atol=1e-3, rtol=0)
    top = MNIST_COLOURS.undo(tiles)[0, first, 0]
    torch.testing.assert_close(diagonals[0, :4, :4], top, atol=1e-4, rtol=0)
    assert diagonals.shape == (2, 16, 16)


def test_models_that_do_not_compare_are_not_drawn(recorder):
    _, tiles = examples(3)
    shuffled, _ = shuffle_tiles(tiles, generator=torch.Generator().manual_seed(0))
    given = Examples(shuffled[:1], shuffled)
    draw_explicit(
        recorder, "digits 2x2", {"LinAssign": Trained(build("linear"), [])}, given, MNIST_COLOURS
    )
    assert read_run(recorder.folder).figures == {}
    trained = Trained(build("po-u-tags"), [(1, 0.9), (2, 1.1)])
    draw_explicit(recorder, "digits 2x2", {"PO-U, ties broken": trained}, given, MNIST_COLOURS)
    names = ("reconstructions", "costs", "sensitivity", "pair-gradients")
    assert set(read_run(recorder.folder).figures) == {
        "step-size digits 2x2",
        *(f"{name} digits 2x2 PO-U ties broken" for name in names),
    }
    (line,) = figure(recorder, "step-size digits 2x2").panels[0].lines
    assert (line.x, line.y) == ([0, 1, 2], [1, 0.9, 1.1])
