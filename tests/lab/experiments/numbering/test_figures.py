import torch

from torchsets.lab.experiments.numbering.figures import Descent, draw_descents
from torchsets.lab.records import Recorder, read_run


def test_every_step_is_a_frame_that_says_how_many_are_right(tmp_path):
    steps = torch.eye(3).expand(5, 3, 3)
    right = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]).bool()
    descent = Descent(torch.tensor([0, 0, 1]), steps, right, torch.ones(4))
    recorder = Recorder.start(tmp_path / "run", experiment="numbering", scale="cpu", config={})
    draw_descents(recorder, {"iDSPN": descent})
    recorder.finish()
    frames = read_run(tmp_path / "run").figures["descent"].figure
    assert list(frames.slider.values) == [0, 1, 2, 3, 4]
    assert frames.start == 4
    assert frames.texts[3] == "After step 3: iDSPN: 2 of 3 right."
    matrix, shares = frames.panels
    assert matrix.rows == ["A", "A", "B"]
    assert len(matrix.matrices) == 5
    assert shares.lines[0].y[-1] == 100
