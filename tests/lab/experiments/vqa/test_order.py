"""vqa-order: what the tables hold, the schedule, the targets, and the order that is drawn."""

import pytest
import torch

from torchsets.data.vqa import synthetic_vqa
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.vqa.configs import ORDER_ROWS, ORDER_VQA, OrderVQA
from torchsets.lab.experiments.vqa.data import load_data
from torchsets.lab.experiments.vqa.figures import _binned, _orders
from torchsets.lab.experiments.vqa.order import build_model, learning_rate_factor
from torchsets.metrics.vqa import vqa_accuracy

SMALL = {"models": ("lstm", "po-u"), "steps": 2, "evaluations": 1}


@pytest.fixture(scope="module")
def data():
    return load_data(ORDER_VQA.config_at("smoke"))


def test_smoke_fills_the_tables_apart_from_the_thesis(tmp_path):
    config = ORDER_VQA.config_at("smoke", **SMALL)
    run = run_experiment("vqa-order", config, scale="smoke", folder=tmp_path / "run")
    tables = {cell.table for cell in run.cells}
    assert "perm/vqa/variants" in tables
    assert "perm/vqa" not in tables
    rows = {cell.model for cell in run.cells if cell.table == "vqa-order/seconds"}
    assert rows == {ORDER_ROWS[name] for name in config.models}
    assert {"order", "order-scenes", "by-count"} == set(run.figures)


def test_the_learning_rate_rises_over_four_epochs_and_falls_twice():
    factors = [learning_rate_factor(epoch / 13) for epoch in range(13)]
    assert factors == [0.5, 1.0, 1.5, *[2.0] * 7, 0.5, 0.5, 0.125]


def test_targets_are_accuracies_and_boxes_are_scaled(data):
    index = torch.tensor([0, 3, 77])
    batch = data.training.batch(index)
    assert batch.asked.boxes.max() <= 1
    drawn = synthetic_vqa(20)
    scores = vqa_accuracy(batch.counts)
    for row, place in enumerate(index.tolist()):
        given = [
            drawn.questions.answers.strings[one] for one in drawn.questions.answers.given[place]
        ]
        for answer, value in zip(data.classes, scores[row].tolist(), strict=True):
            assert value == pytest.approx(min(1, 0.3 * given.count(answer)))


@pytest.mark.parametrize("name", ORDER_ROWS)
def test_the_order_of_proposals_matters_to_the_lstm_alone(data, name, generator):
    torch.manual_seed(0)
    model = build_model(ORDER_VQA.config_at("smoke"), name, data).eval()
    batch = data.validation.batch(torch.arange(20)).asked
    order = torch.randperm(batch.mask.shape[1], generator=generator)
    moved = batch._replace(
        features=batch.features[:, order], boxes=batch.boxes[:, order], mask=batch.mask[:, order]
    )
    same = torch.allclose(model(batch), model(moved), rtol=1e-4, atol=1e-5)
    assert same is (name != "lstm")


@torch.no_grad()
def test_the_drawn_order_is_that_of_the_first_glimpse(data):
    model = build_model(ORDER_VQA.config_at("smoke"), "po-u", data).eval()
    order = model.encoder.reader.encoder.order
    chosen = torch.tensor([4, 9, 30])
    elements, permutation, mask = _orders(model, order, data.validation, chosen)
    torch.testing.assert_close(permutation.sum(dim=2), mask.float(), rtol=0, atol=0.05)
    torch.testing.assert_close(permutation, order(elements, mask).permutation)
    boxes = data.validation.batch(chosen).asked.boxes
    largest = boxes.flatten(1).amax(dim=1)[:, None, None]
    torch.testing.assert_close(elements[..., :4][mask], (boxes / largest)[mask])


def test_ranks_are_averaged_over_equal_shares():
    values = torch.arange(20.0).flip(0)
    middles, means = _binned(values, values / 20)
    assert middles[0] == pytest.approx(0.05)
    assert means == pytest.approx([(0.5 + 2 * part) / 20 for part in range(10)])


def test_missing_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"questions.json is missing: download it from"):
        load_data(OrderVQA())
