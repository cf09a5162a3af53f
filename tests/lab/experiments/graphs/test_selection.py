import itertools

import numpy as np
import pytest
from scipy import stats

from torchsets.lab.experiments.graphs.selection import (
    BY_FOLD,
    BY_MEAN,
    BY_TEST,
    Curves,
    batch_borders,
    choose,
    compare_datasets,
    compare_folds,
    compare_recorded,
    cut_folds,
)
from torchsets.lab.records import Recorder
from torchsets.lab.reports import thesis_tables

TABLES = ("fspool/graph-social", "fspool/graph-bio")


def printed(suffix=""):
    """The thesis' rows by dataset, over both of its tables."""
    found = {}
    for key in TABLES:
        table = thesis_tables()[f"{key}{suffix}"]
        for row in table.rows:
            values = [None if one is None else one.mean for one in row.values]
            found.setdefault(row.model, {}).update(zip(table.columns, values, strict=True))
    return found


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("count", [10, 37, 188])
def test_every_graph_is_tested_once_and_chosen_by_once(count, stratified):
    labels = np.arange(count) % 3 if stratified else None
    folds = cut_folds(count, 10, seed=1, labels=labels)
    for which in ("test", "validation"):
        together = np.concatenate([getattr(fold, which) for fold in folds])
        assert sorted(together) == list(range(count))
    for index, fold in enumerate(folds):
        assert sorted(np.concatenate(fold)) == list(range(count))  # so no graph is in two
        assert np.array_equal(fold.validation, folds[(index + 1) % 10].test)
        assert abs(len(fold.test) - count / 10) < 1


def test_the_partition_follows_the_seed():
    first, again, other = (cut_folds(50, 10, seed=seed)[0].test for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_stratified_parts_have_the_same_share_of_each_class():
    labels = np.array([0] * 60 + [1] * 30 + [2] * 10)
    for fold in cut_folds(100, 10, seed=0, labels=labels):
        assert np.bincount(labels[fold.test]).tolist() == [6, 3, 1]
    plain = [np.bincount(labels[fold.test], minlength=3) for fold in cut_folds(100, 10, seed=0)]
    assert any(counts.tolist() != [6, 3, 1] for counts in plain)


@pytest.mark.parametrize("parts", [2, 11])
def test_parts_must_leave_graphs_to_train_on(parts):
    with pytest.raises(ValueError, match=rf"parts must be between 3 and 10 .*, got {parts}"):
        cut_folds(10, parts, seed=0)


def test_no_batch_has_one_graph_and_none_is_lost():
    for count in range(2, 70):
        for size in (2, 8, 32, 128):
            borders = batch_borders(count, size)
            sizes = np.diff(borders)
            assert borders[0] == 0
            assert borders[-1] == count
            assert sizes.min() >= 2
            assert sizes.max() <= size + 1
            assert (sizes[:-1] == size).all()


def test_choices_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    curves = Curves(*(rng.integers(0, 5, (2, 4, 3, 6)).astype(float)))  # few values: many ties
    found = choose(curves)
    places = [(setting, epoch) for setting in range(4) for epoch in range(6)]
    by_mean, by_test = (
        max(places, key=lambda one: sum(values[one[0], fold, one[1]] for fold in range(3)))
        for values in (curves.validation, curves.test)
    )
    for how, (setting, epoch) in ((BY_MEAN, by_mean), (BY_TEST, by_test)):
        assert found[how].settings.tolist() == [setting] * 3
        assert found[how].epochs.tolist() == [epoch + 1] * 3
        assert np.array_equal(found[how].accuracies, curves.test[setting, :, epoch])
    for fold in range(3):
        setting, epoch = max(places, key=lambda one: curves.validation[one[0], fold, one[1]])
        assert found[BY_FOLD].settings[fold] == setting
        assert found[BY_FOLD].epochs[fold] == epoch + 1
        assert found[BY_FOLD].accuracies[fold] == curves.test[setting, fold, epoch]
    assert len({tuple(one.accuracies) for one in found.values()}) == 3  # they do differ


def test_of_equal_means_the_first_counts_whatever_the_last_bit():
    accuracies = np.array([[[0.3, 0.1], [0.2, 0.2], [0.1, 0.3]]])  # (settings, folds, epochs)
    first, second = accuracies.mean(axis=1)[0]
    assert first < second  # by rounding alone
    assert choose(Curves(accuracies, accuracies))[BY_MEAN].epochs.tolist() == [1, 1, 1]


def test_differences_are_paired():
    first, second = np.array([80.0, 90.0, 70.0]), np.array([78.0, 86.0, 70.0])
    found = compare_folds(first, second)
    assert found == (2.0, pytest.approx(stats.sem([2.0, 4.0, 0.0])), 3)
    one = compare_folds(first[:1], second[:1])
    assert one.mean == 2
    assert np.isnan(one.error)


@pytest.mark.parametrize(
    ("suffix", "statistic", "normal", "exact"),
    [("", 6.5, 0.0578, 15 / 256), ("-epochs", 9, 0.1094, 31 / 256)],
)
def test_wilcoxon_on_the_thesis_own_table(suffix, statistic, normal, exact):
    """The thesis prints W = 7 and p = 0.07, and W = 9 and p = 0.11; the table is rounded."""
    rows = printed(suffix)
    names = rows["GIN-Base"]
    assert len(names) == 9
    differences = [round(rows["GIN-FSPool"][name] - rows["GIN-Base"][name], 6) for name in names]
    found = compare_datasets(differences)
    assert found.statistic == statistic
    assert found.normal == pytest.approx(normal, abs=1e-4)
    assert found.exact == pytest.approx(exact, abs=1e-4)


def test_the_exact_probability_counts_all_signs_where_ranks_are_equal():
    differences = np.array([2.0, 2.0, -2.0, 1.0, 1.0, 3.0, 0.5])
    ranks = stats.rankdata(np.abs(differences))
    statistics = [
        min(ranks[np.array(signs)].sum(), ranks[~np.array(signs)].sum())
        for signs in itertools.product([True, False], repeat=len(differences))
    ]
    found = compare_datasets(differences.tolist())
    assert found.statistic == min(ranks[differences > 0].sum(), ranks[differences < 0].sum())
    assert found.exact == pytest.approx(np.mean(np.array(statistics) <= found.statistic))


def test_many_differences_take_no_longer():
    found = compare_datasets([1.0 + i / 7 for i in range(40)])
    assert found.exact == pytest.approx(2 / (2**16 + 1))  # none of the drawn signs is as extreme


def test_recorded_shards_are_compared_over_all_datasets(tmp_path):
    for kind in TABLES:  # a run for each, as shards are; two seeds, one above and one below
        for seed in (0, 1):
            name = f"{kind.replace('/', '-')}-{seed}"
            recorder = Recorder.start(
                tmp_path / name, experiment="x", scale="cpu", config={"seed": seed}
            )
            for suffix in ("", "-epochs"):
                table = thesis_tables()[kind + suffix]
                for row in table.rows:
                    for column, value in zip(table.columns, row.values, strict=True):
                        if value is not None:
                            number = value.mean + (1 if seed else -1)
                            recorder.add_result(
                                kind + suffix, model=row.model, column=column, value=number
                            )
            recorder.finish()
    found = compare_recorded(tmp_path)
    assert found["accuracy difference"].statistic == 6.5
    assert found["convergence-speed difference"].statistic == 9


def test_a_folder_without_both_rows_is_refused(tmp_path):
    recorder = Recorder.start(tmp_path / "run", experiment="x", scale="cpu", config={"seed": 0})
    recorder.add_result(TABLES[0], model="GIN-Base", column="IMDB-B", value=70.0)
    recorder.finish()
    with pytest.raises(ValueError, match="folder must have runs that fill fspool/graph-social or"):
        compare_recorded(tmp_path)
