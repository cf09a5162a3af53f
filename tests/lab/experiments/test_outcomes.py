import torch
from torch import nn

from torchsets.lab.experiments.outcomes import (
    FOLLOWED,
    precision_lines,
    predict_sets,
    single_precisions,
)
from torchsets.metrics import pairwise_average_precision
from torchsets.padded import SetBatch, SetPrediction, Trajectory


class Halving(nn.Module):
    """Starts at the batch, and halves it in each step."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, batch, *, steps=None, generator=None):
        way = torch.stack([batch * 0.5**step for step in range((steps or 2) + 1)])
        ones = torch.ones(way.shape[:-1])
        return SetPrediction(way[-1], ones[-1], Trajectory(way, ones, way[:-1].sum(dim=(2, 3))))


def test_predictions_are_kept_after_each_tested_number_of_steps_for_all_sets_in_order():
    elements = torch.rand(7, 2, 1)
    found = predict_sets(
        Halving(), lambda chosen, _: elements[chosen], 7, steps=(3, 1), batch_size=3
    )
    assert list(found.after) == [1, 3]
    torch.testing.assert_close(found.after[1].elements, elements / 2)
    torch.testing.assert_close(found.after[3].elements, elements / 8)
    assert found.way.elements.shape == (4, 7, 2, 1)
    torch.testing.assert_close(found.loss[0], elements.sum(dim=(1, 2)).mean())


def test_a_model_without_steps_is_asked_for_its_last_set_alone():
    elements = torch.rand(FOLLOWED + 5, 2, 1)
    found = predict_sets(Halving(), lambda chosen, _: elements[chosen], FOLLOWED + 5)
    torch.testing.assert_close(found.after[0].elements, elements / 4)
    assert found.way.elements.shape == (1, FOLLOWED, 2, 1)
    assert len(found.loss) == 0


def test_single_precisions_do_not_rank_across_sets():
    def precision(prediction, sets):
        pairs = torch.cdist(prediction.elements, sets.elements)
        return pairwise_average_precision(pairs, prediction.presence, sets.mask, thresholds=[0.1])

    sets = SetBatch(torch.zeros(2, 1, 1), torch.ones(2, 1, dtype=torch.bool))
    wrong_but_sure = SetPrediction(torch.tensor([[[5.0]], [[0.0]]]), torch.tensor([[0.9], [0.2]]))
    assert single_precisions(wrong_but_sure, sets, precision).tolist() == [[0.0], [1.0]]
    assert precision(wrong_but_sure, sets).item() == 0.25


def test_models_without_steps_are_dashed_lines_as_long_as_the_others():
    curves = {"moving": torch.rand(4, 2), "still": torch.tensor([[1.0, 2.0]])}
    (panel,) = precision_lines(curves, {1: "AP"}).panels
    moving, still = panel.lines
    assert (still.x, still.y, still.dashed) == ([0, 3], [2.0, 2.0], True)
    assert len(moving.x) == 4
    assert not moving.dashed
