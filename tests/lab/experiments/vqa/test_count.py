"""vqa-count: what the tables hold, the metric, the schedule, and the data of the real formats."""

import json

import pytest
import torch

from torchsets.data.vqa import synthetic_vqa, write_vqa
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.vqa.configs import (
    COUNT_ROWS,
    COUNT_VQA,
    QUESTION_ONLY,
    CountVQA,
    split_count,
)
from torchsets.lab.experiments.vqa.count import build_model
from torchsets.lab.experiments.vqa.data import load_data
from torchsets.lab.experiments.vqa.models import soft_answer_loss
from torchsets.lab.experiments.vqa.selection import (
    accuracies,
    by_true_count,
    chosen_questions,
    score,
    step_seconds,
    true_counts,
)

SMALL = {"models": (QUESTION_ONLY, "counting"), "steps": 2, "evaluations": 1}


@pytest.fixture(scope="module")
def data():
    return load_data(COUNT_VQA.config_at("smoke"))


def test_smoke_fills_the_tables_apart_from_the_thesis(tmp_path):
    config = COUNT_VQA.config_at("smoke", **SMALL)
    run = run_experiment("vqa-count", config, scale="smoke", folder=tmp_path / "run")
    tables = {cell.table for cell in run.cells}
    assert {"count/vqa-val/variants", "count/vqa-test/variants"} <= tables
    assert not {"count/vqa-val", "count/vqa-test"} & tables
    rows = {cell.model for cell in run.cells if cell.table == "vqa-count/accuracy"}
    assert rows == {COUNT_ROWS[name] for name in config.models}
    assert {"functions", "scenes-counting", "by-count"} <= set(run.figures)
    assert "not VQA v2's" in run.descriptions["vqa-count/accuracy"].caption
    written = json.loads((tmp_path / "run" / "answers-counting.json").read_text())
    assert len(written) == 10 * config.test_pairs
    assert set(written[0]) == {"question_id", "answer"}


def test_synthetic_files_give_the_same_as_the_generator(tmp_path, monkeypatch, data):
    """With the files of the four formats in a folder, ``dataset=vqa-v2`` reads the same data."""
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for split, pairs, seed in (("train", 20, 0), ("val", 10, 1), ("test", 10, 2)):
        drawn = synthetic_vqa(pairs, seed=seed)
        write_vqa(tmp_path, split, drawn.questions, pairs=drawn.pairs, pictures=drawn.pictures)
    found = load_data(COUNT_VQA.config_at("smoke", dataset="vqa-v2"))
    assert found.classes == data.classes
    assert found.words.words == data.words.words
    index = torch.arange(0, 100, 7)
    for ours, theirs in zip(
        found.validation.batch(index).asked, data.validation.batch(index).asked, strict=True
    ):
        assert torch.equal(ours, theirs)
    assert torch.equal(found.validation.pairs, data.validation.pairs)
    assert found.part == ", part of VQA v2: 200 and 100 questions"
    both = load_data(COUNT_VQA.config_at("smoke", dataset="vqa-v2", parts="train+val"))
    assert len(both.training.questions) == 300
    assert both.measured is None  # the answers to the test questions are not known
    assert both.test.questions.answers is None
    texts = both.training.questions
    assert texts.texts[200:] == data.validation.questions.texts
    for place in (3, 207, 299):
        part, at = (data.training, place) if place < 200 else (data.validation, place - 200)
        expected = [part.questions.answers.strings[one] for one in part.questions.answers.given[at]]
        assert [texts.answers.strings[one] for one in texts.answers.given[place]] == expected


def test_train_and_val_together_are_tested_on_other_synthetic_questions():
    both = load_data(COUNT_VQA.config_at("smoke", parts="train+val"))
    assert len(both.training.questions) == 300
    assert both.measured is both.test
    everything = both.training.batch(torch.tensor([0, 299]))  # of both stores
    assert everything.asked.mask.any(dim=1).all()


def test_a_batch_has_the_proposals_of_each_questions_picture(data):
    index = torch.tensor([0, 57, 199])
    batch = data.training.batch(index).asked
    drawn = synthetic_vqa(20)
    for row, place in enumerate(index.tolist()):
        real = batch.features[row, batch.mask[row]]
        assert torch.equal(real, drawn.pictures.features[place // 5])
    assert batch.features.shape[1] == batch.mask.sum(dim=1).max()


def test_scores_by_kind_and_by_count(data):
    asked = data.validation
    answers = asked.questions.answers
    place = {string: number for number, string in enumerate(data.classes)}
    best = torch.tensor([place[answers.strings[one]] for one in answers.chosen.tolist()])
    found = score(asked, best)
    assert found.accuracy["all"] > 0.99
    assert found.pairs["count"] > 0.95
    assert set(found.accuracy) == {"all", "yes/no", "number", "count", "other numbers", "other"}
    counts = true_counts(asked.questions)
    assert (counts.view(-1, 5)[:, :2] >= 0).all()
    assert (counts.view(-1, 5)[:, 2:] == -1).all()
    wrong = best.clone()
    wrong[counts == 3] = place["yes"]
    by_count = by_true_count(asked, wrong)
    assert by_count.pop(3) == 0
    assert min(by_count.values()) > 98
    assert accuracies(asked, wrong)[counts == 3].max() == 0
    assert (counts[chosen_questions(asked, 5)] >= 0).all()


def test_measuring_a_step_leaves_the_model_as_it_was(data):
    model = build_model(COUNT_VQA.config_at("smoke"), "counting", data).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batches = [data.training.batch(torch.arange(8))]
    loss = lambda batch: soft_answer_loss(model(batch.asked), batch.counts)  # noqa: E731
    assert step_seconds(model, loss, batches) > 0
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.training


def test_missing_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"questions.json is missing: download it from"):
        load_data(CountVQA())
    drawn = synthetic_vqa(2)
    for split in ("train", "val"):
        write_vqa(tmp_path, split, drawn.questions)
    with pytest.raises(FileNotFoundError, match=r"trainval has no .tsv files: download"):
        load_data(CountVQA())
    alone = load_data(CountVQA(models=(QUESTION_ONLY,)))  # needs neither proposals nor pairs
    assert alone.training.pictures is None
    assert alone.validation.pairs is None


def test_the_test_table_of_vqa_is_trained_on_validation_too():
    shards = split_count("count/vqa-test", CountVQA())
    assert {shard.parts for shard in shards.values()} == {"train+val"}
    assert {shard.parts for shard in split_count("count/vqa-val", CountVQA()).values()} == {"train"}
    assert len(shards) == len(COUNT_ROWS)


def test_refuses_unknown_names():
    with pytest.raises(ValueError, match="models must be among question-only"):
        CountVQA(models=("ban",))
    with pytest.raises(ValueError, match="parts must be among train, train"):
        CountVQA(parts="test")
