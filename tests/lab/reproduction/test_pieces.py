"""Pieces: distinct, together the whole, each told by words."""

import itertools

import pytest
from torchsets.lab.experiments.tables import TABLES

from torchsets.lab.experiments import SCALES
from torchsets.lab.reproduction import plan_pieces

CASES = list(itertools.product(TABLES, SCALES))


@pytest.mark.parametrize(("key", "scale"), CASES)
def test_the_pieces_of_a_table_are_distinct(key, scale):
    pieces = plan_pieces(TABLES[key], [], scale, [3, 5, 3])
    assert len({piece.name for piece in pieces}) == len(pieces)
    assert len({str(piece.config) for piece in pieces}) == len(pieces)
    assert {piece.config["seed"] for piece in pieces} == {3, 5}
    assert {piece.experiment for piece in pieces} == {TABLES[key].experiment}


def test_the_largest_polygons_come_first_with_all_their_models_and_no_controls():
    pieces = plan_pieces(TABLES["fspool/polygons-chamfer"], [], "cpu", None)
    assert [piece.config["sizes"] for piece in pieces] == [[32], [16], [8], [4], [2]]
    for piece in pieces:
        assert len(piece.config["models"]) == 4
        assert piece.config["zeroed_sizes"] == piece.config["enlarged_sizes"] == []


def test_sizes_of_the_sorting_keep_their_own_settings():
    pieces = plan_pieces(TABLES["perm/sorting-text"], [], "cpu", None)
    by_size = {piece.config["sizes"][0]: piece.config for piece in pieces}
    assert (by_size[5]["seeds"], by_size[5]["batch_sizes"]) == ([5], [512])
    assert (by_size[1024]["seeds"], by_size[1024]["batch_sizes"]) == ([1], [8])


def test_sweeps_and_tasks_are_split():
    names = [piece.name for piece in plan_pieces(TABLES["count-toy"], [], "cpu", None)]
    assert names[0] == "sides=0.2,seed=0"
    assert names[-1] == "noises=0.5,seed=0"
    names = [piece.name for piece in plan_pieces(TABLES["dspn-polygons"], [], "smoke", None)]
    assert names == ["sizes=4,tasks=predict,seed=0", "sizes=4,tasks=auto-encode,seed=0"]


def test_a_changed_field_is_in_the_name_and_in_the_words():
    (piece,) = plan_pieces(TABLES["fspool/polygons-direct"], ["steps=7", "seed=4"], "smoke", None)
    assert piece.name == "sizes=4,steps=7,seed=4"
    assert piece.words == ["zeroed_sizes=", "steps=7", "seed=4"]


def test_a_value_with_a_slash_does_not_make_folders_of_folders():
    words = ["dataset=/data/fashion", "sigmas=0.0", "poolings=sum", "starts=random"]
    (piece,) = plan_pieces(TABLES["fspool/mnist2"], words, "cpu", None)
    assert piece.name.startswith("dataset=_data_fashion,poolings=sum")
    assert piece.config["dataset"] == "/data/fashion"


def test_a_table_may_have_several_seeds_at_a_scale():
    table = TABLES["fspool/polygons-direct"]._replace(seeds={"full": 2})
    seeds = {piece.config["seed"] for piece in plan_pieces(table, [], "full", None)}
    assert seeds == {0, 1}


def test_a_table_with_nothing_to_run_is_an_error():
    with pytest.raises(ValueError, match=r"must leave something of fspool/mnist to run, got scale"):
        plan_pieces(TABLES["fspool/mnist"], ["sigmas=0.5"], "cpu", None)
