import pytest
import torch

from torchsets.data import turned_polygons
from torchsets.lab.experiments.polygons.figures import draw_turning
from torchsets.lab.records import Recorder, read_run

LARGEST = 150_000  # bytes of a figure


@pytest.fixture
def recorder(tmp_path):
    return Recorder.start(tmp_path / "run", experiment="x", scale="smoke", config={"seed": 0})


def test_the_turning_square_is_shown_at_every_degree(recorder):
    path = turned_polygons(torch.linspace(0, torch.pi / 2, 901), 4)
    draw_turning(recorder, {"perfect": path, "also": path, "third": path})
    file = recorder.folder / "figures" / "responsibility-turning.json"
    assert file.stat().st_size < LARGEST
    figure = read_run(recorder.folder).figures["responsibility-turning"].figure
    assert figure.slider.values == list(range(91))
    for panel in figure.panels:
        torch.testing.assert_close(
            torch.tensor(panel.points), torch.tensor(panel.targets), atol=1e-5, rtol=1e-4
        )  # both are rounded to five digits
