import itertools

import pytest
import torch

from torchsets.decoders import DSPN
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.numbering.configs import (
    DESCENTS,
    RANDOM_SET_MODELS,
    RANDOM_SETS,
    RandomSets,
    split_random_sets,
)
from torchsets.lab.experiments.numbering.random_sets import (
    as_tokens,
    build,
    column,
    evaluate,
    random_sets,
    rows,
    score,
    set_encoder,
)
from torchsets.lab.reports.thesis import thesis_tables

SMOKE = RANDOM_SETS.config_at("smoke", steps=2)
SHAPE = (4, 2)


def make(name, config=SMOKE):
    torch.manual_seed(0)
    inner = 3 if name in DESCENTS else 0
    return build(config, name, inner, SHAPE).double()


def test_smoke_run_measures_every_model_and_draws_every_step(tmp_path):
    run = run_experiment("random-sets", SMOKE, scale="smoke", folder=tmp_path)
    labels = [row for _, _, row in rows(SMOKE)]
    cells = {(cell.table.removesuffix("/variants"), cell.model): cell for cell in run.cells}
    for row in labels:  # the test takes fewer steps than the scale, and the rows say so
        table = "random-sets/order" if row == "FSPool-FSUnpool" else "random-sets"
        assert 0 < cells.pop((table, f"{row}, steps=2")).value < 2000
        assert cells.pop(("random-sets/seconds", f"{row}, steps=2")).value > 0
    assert not cells
    figure = run.figures["steps n=4 d=2"].figure
    assert figure.slider.values == [0, 1, 2, 3]  # queries have three layers, slots three rounds
    *panels, curves = figure.panels
    assert [panel.title for panel in panels] == [line.label for line in curves.lines] == labels
    moving = {panel.title for panel in panels if panel.points[0] != panel.points[-1]}
    assert moving == {
        row for row in labels if row not in ("MLP", "LSTM", "TSPN", "FSPool-FSUnpool")
    }


def test_the_full_scale_has_every_published_row_and_all_25_kinds_of_sets():
    config = RANDOM_SETS.config_at("full")
    published = thesis_tables()["random-sets"]
    assert {one.model for one in published.rows} <= {row for _, _, row in rows(config)}
    assert set(published.columns) <= {column(cell) for cell in config.cells}
    assert len(config.cells) == 25
    assert (config.training_sets, config.steps, config.batch_size) == (64_000, 20_000, 128)


def test_sets_are_standard_normal_and_decided_by_the_seed():
    sets = random_sets(20_000, SHAPE, seed=0)
    assert sets.shape == (20_000, 4, 2)
    # 20000 draws for each of the 8 numbers: standard errors of 0.7 % and 0.5 %
    assert sets.mean(dim=0).abs().max() < 0.05
    assert (sets.std(dim=0) - 1).abs().max() < 0.05
    assert sets.equal(random_sets(20_000, SHAPE, seed=0))
    assert not sets[:5].equal(random_sets(5, SHAPE, seed=1))


def test_the_score_is_the_huber_loss_of_the_best_matching():
    generator = torch.Generator().manual_seed(0)
    sets, others = torch.randn(2, 5, 4, 2, generator=generator).double()
    expected = [
        min(
            torch.nn.functional.smooth_l1_loss(one[list(order)], other)
            for order in itertools.permutations(range(4))
        )
        for one, other in zip(sets, others, strict=True)
    ]
    torch.testing.assert_close(score(sets, others), torch.stack(expected))


def test_the_encoder_has_one_weight_for_each_rank():
    encoder = set_encoder(SMOKE, (5, 3)).double()
    sets = torch.randn(2, 5, 3).double()
    ranked = encoder.inner(sets).sort(dim=1, descending=True).values
    weight = encoder.pool.weight.T  # (5, latent)
    torch.testing.assert_close(encoder(sets), (ranked * weight).sum(dim=1))


def test_tokens_are_the_parts_of_the_vector_and_their_places():
    tokens = as_tokens(torch.arange(32.0).view(2, 16))
    assert tokens.shape == (2, 8, 10)
    assert tokens[1, 3].tolist() == [22.0, 23.0, 0, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("name", [name for name in RANDOM_SET_MODELS if name != "fspool"])
def test_no_decoder_sees_more_than_the_latent_vector(name):
    model = make(name)
    sets = torch.randn(2, *SHAPE).double()
    fixed = torch.randn(2, SMOKE.latent).double()
    model.encoder.forward = lambda _: fixed
    generators = [torch.Generator().manual_seed(0) for _ in range(2)]
    first, second = model(sets, generators[0]), model(sets + 1, generators[1])
    torch.testing.assert_close(first.elements, second.elements)


@pytest.mark.parametrize("name", DESCENTS)
def test_descending_models_have_an_encoder_of_their_own_and_train_their_start(name):
    model = make(name)
    assert isinstance(model.decoder, DSPN)
    assert model.decoder.encoder is not model.encoder
    model.loss(torch.randn(4, *SHAPE).double()).backward()
    weights = [model.decoder.initial_elements, *model.encoder.parameters()]
    assert all((weight.grad != 0).any() for weight in weights)


@pytest.mark.parametrize("name", ["idspn", "slot", "tspn"])
def test_measuring_again_gives_the_same_number(name):
    model, sets = make(name), torch.randn(6, *SHAPE).double()
    assert evaluate(model, sets) == evaluate(model, sets)


def test_each_shard_is_one_kind_of_set_with_all_models():
    whole = RANDOM_SETS.config_at("cpu")
    shards = split_random_sets("random-sets", whole)
    assert list(shards) == ["8x8", "8x2", "4x4", "2x2"]
    assert {(shard.cells, shard.models) for shard in shards.values()} == {
        ((cell,), whole.models) for cell in whole.cells
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ()}, "models must have at least one entry, got none"),
        ({"cells": ("3x2",)}, "cells must be among 2x2, .*, got 3x2"),
        ({"models": ("gan",)}, "models must be among dspn, .*, got gan"),
        ({"latent": 20}, "latent must be a multiple of 8, got 20"),
        ({"decay_from": 1.5}, "decay_from must be between 0 and 1, got 1.5"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"implicit_steps": (20, 0)}, "implicit_steps must be at least 1, got 20,0"),
    ],
)
def test_rejects_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        RandomSets(**options)
