from statistics import fmean

import numpy as np
import pytest
import torch

from torchsets.data import motif_graphs
from torchsets.lab.experiments.graphs import classify
from torchsets.lab.experiments.graphs.classify import Batch, Passes, accuracy, halve
from torchsets.lab.experiments.graphs.configs import CLASSIFY, MOTIFS, ROWS, Choice
from torchsets.lab.experiments.graphs.models import build_model
from torchsets.lab.experiments.graphs.selection import compare_recorded_folds, cut_folds
from torchsets.lab.experiments.launch import resume_experiment, run_experiment
from torchsets.lab.training import load_checkpoint, load_weights, loop


def smoke(folder, **changes):
    config = CLASSIFY.config_at("smoke", **changes)
    return run_experiment("graphs-classify", config, scale="smoke", folder=folder)


def cells(run, table):
    """Rows of columns, without the label of the variants."""
    found = {}
    for cell in run.cells:
        if cell.table == table:
            row = cell.model.removesuffix(", dataset=motifs")
            found.setdefault(row, {})[cell.column] = cell.value
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return smoke(tmp_path_factory.mktemp("graphs") / "run")


def test_every_table_is_filled(run):
    accuracies = cells(run, "fspool/graph-bio/variants")
    assert list(accuracies) == list(ROWS.values())
    assert list(cells(run, "fspool/graph-bio-epochs/variants")) == list(ROWS.values())
    assert cells(run, "fspool/graph-bio-stats/variants")["Num. graphs"] == {"motifs": 30}
    protocol = cells(run, "graphs-classify/protocol")["motifs"]
    assert (protocol["folds of 10"], protocol["epochs"], protocol["settings"]) == (2, 2, 1)
    assert (protocol["hidden"], protocol["batch_size"], protocol["dropout"]) == (8, 8, 0.5)
    differences = cells(run, "graphs-classify/differences")
    assert "motifs, GIN-FSPool minus GIN-Base" in differences
    assert len(differences) == 8
    assert len(run.tasks) == 2 * len(ROWS)


def test_the_three_selections_are_those_of_the_recorded_curves(run):
    for name, row in ROWS.items():
        validation, test = (
            np.array(
                [
                    [
                        line[f"{what} accuracy"]
                        for line in run.metrics
                        if line["task"] == f"motifs {name}/fold {fold}"
                        and f"{what} accuracy" in line
                    ]
                    for fold in (1, 2)
                ]
            )
            for what in ("validation", "test")
        )
        assert test.shape == (2, 2)  # folds x epochs
        found = cells(run, "graphs-classify/selection")[f"motifs, {row}"]
        epoch = int(validation.mean(axis=0).argmax())
        assert found["epoch, mean over folds"] == epoch + 1
        assert found["validation, mean over folds"] == pytest.approx(test[:, epoch].mean())
        each = [test[fold, validation[fold].argmax()] for fold in (0, 1)]
        assert found["validation, each fold"] == pytest.approx(fmean(each))
        assert found["test, as Xu 2019 did"] == pytest.approx(test.mean(axis=0).max())
        folds = cells(run, "graphs-classify/folds")[f"motifs, {row}"]
        assert [folds["fold 1"], folds["fold 2"]] == pytest.approx(test[:, epoch].tolist())
        shown = cells(run, "fspool/graph-bio/variants")[row]["motifs"]
        assert shown == found["validation, mean over folds"]


def test_accuracies_are_of_the_graphs_that_a_fold_does_not_train_on(run):
    data = motif_graphs(30)
    seen = set()
    for number, fold in enumerate(cut_folds(30, 10, seed=0)[:2], 1):
        for name in ROWS:
            task = f"motifs {name}/fold {number}"
            model = build_model(name, MOTIFS, Choice(8, 8, 0.5), features=3, classes=2).eval()
            assert load_weights(run.folder / "checkpoint" / task, model)
            last = [line for line in run.metrics if line["task"] == task][-1]
            for what, chosen in (("validation", fold.validation), ("test", fold.test)):
                graphs = data.graphs.batch(chosen)
                right = model(*graphs).argmax(dim=1) == data.labels[chosen]
                assert last[f"{what} accuracy"] == pytest.approx(100 * right.double().mean().item())
            seen.add((last["validation accuracy"], last["test accuracy"]))
    assert any(validation != test for validation, test in seen)


@pytest.mark.parametrize("seed", [0, 3])
def test_folds_start_elsewhere_but_models_alike(seed, tmp_path, monkeypatch):
    seeds, batches, partitions = [], [], []

    def note(taken, function):
        def noted(*arguments, **options):
            taken.append((arguments, options))
            return function(*arguments, **options)

        return noted

    monkeypatch.setattr(classify, "seed_everything", note(seeds, classify.seed_everything))
    monkeypatch.setattr(classify, "Passes", note(batches, Passes))
    monkeypatch.setattr(classify, "cut_folds", note(partitions, cut_folds))
    smoke(tmp_path, models=("base", "fspool"), epochs=1, seed=seed, stratified=True)
    first = 10 * seed
    assert [arguments for arguments, _ in seeds] == [(first,), (first + 1,)] * 2
    assert [options["seed"] for _, options in batches] == [first, first + 1] * 2
    for (count, parts), options in partitions:
        assert (count, parts, options["seed"]) == (30, 10, seed)
        assert options["labels"].tolist() == [0, 1] * 15


def test_differences_are_of_the_folds(run):
    folds = cells(run, "graphs-classify/folds")
    for pair, found in cells(run, "graphs-classify/differences").items():
        first, second = pair.removeprefix("motifs, ").split(" minus ")
        values = [
            folds[f"motifs, {first}"][f"fold {fold}"] - folds[f"motifs, {second}"][f"fold {fold}"]
            for fold in (1, 2)
        ]
        assert found["mean"] == pytest.approx(fmean(values))
        assert found["standard error"] == pytest.approx(abs(values[0] - values[1]) / 2)


def test_folds_of_several_shards_are_compared_as_those_of_one(run, tmp_path):
    config = CLASSIFY.config_at("smoke", models=("base", "base-inputs"))
    for name, shard in CLASSIFY.split("graphs-classify", config).items():
        run_experiment("graphs-classify", shard, scale="smoke", folder=tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 2
    found = compare_recorded_folds(tmp_path)
    pair = "motifs, GIN-Base, eps=inputs minus GIN-Base"
    assert list(found) == [pair]
    recorded = cells(run, "graphs-classify/differences")[pair]
    assert list(found[pair]) == pytest.approx(list(recorded.values()))


def test_folds_of_two_protocols_are_not_compared(tmp_path):
    for epochs in (1, 2):
        smoke(tmp_path / str(epochs), models=("base",), epochs=epochs)
    with pytest.raises(ValueError, match=r"one number for fold 1 of motifs, GIN-Base, seed 0, got"):
        compare_recorded_folds(tmp_path)


def test_a_stopped_run_resumes_bit_for_bit(tmp_path, monkeypatch):
    fewer = {"models": ("fspool",), "epochs": 3}
    whole = smoke(tmp_path / "whole", **fewer)
    monkeypatch.setattr(loop, "_SECONDS_BETWEEN_CHECKPOINTS", 0)
    calls = 0

    def stop(*arguments):
        nonlocal calls
        calls += 1
        if calls == 14:  # in the second fold: three batches an epoch
            raise KeyboardInterrupt
        return torch.nn.functional.cross_entropy(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(classify, "cross_entropy", stop)
        with pytest.raises(KeyboardInterrupt):
            smoke(tmp_path / "cut", **fewer)
    cut = resume_experiment(tmp_path / "cut")
    assert cut.complete
    assert list(cut.cells) == list(whole.cells)
    assert list(cut.metrics) == list(whole.metrics)
    for fold in (1, 2):
        place = f"checkpoint/motifs fspool/fold {fold}"
        weights, expected = (load_checkpoint(one.folder / place).tensors for one in (cut, whole))
        assert all(torch.equal(weights[name], value) for name, value in expected.items())


def test_a_grid_is_chosen_from_and_the_choice_is_recorded(tmp_path):
    grid = {"hidden_sizes": (4, 8), "dropouts": (0.0, 0.5), "models": ("base",), "epochs": 1}
    found = smoke(tmp_path, **grid)
    assert len(found.tasks) == 8
    chosen = cells(found, "fspool/graph-params/variants")
    label = ", ".join(next(c.model for c in found.cells if "params" in c.table).split(", ")[1:])
    assert set(chosen) == {
        f"GIN-Base {what}, {label}" for what in ("dimensionality", "batch size", "dropout")
    }
    assert chosen[f"GIN-Base dimensionality, {label}"]["motifs"] in (4, 8)


def test_it_learns(tmp_path):
    one = {"folds": 1, "hidden_sizes": (16,), "batch_sizes": (24,), "dropouts": (0.0,)}
    steady = {"protocol": "thesis", "epochs": 20}  # halves the rate later
    found = smoke(tmp_path, models=("base", "fspool"), **one, **steady)
    for name in ("base", "fspool"):
        task = f"motifs {name}/fold 1"
        losses = [line["loss"] for line in found.metrics if line["task"] == task and "loss" in line]
        assert losses[-1] < 0.1 * losses[0]


def test_a_pass_sees_every_training_graph_once():
    data = motif_graphs(30)
    chosen = cut_folds(30, 10, seed=0)[0].training[:17]  # two batches of 8, and one left over
    passes = Passes(data, chosen, 8, seed=0)
    assert passes.per_epoch == 2
    batches = [passes(step) for step in range(4)]
    assert [len(batch.labels) for batch in batches] == [8, 9, 8, 9]
    for epoch in (batches[:2], batches[2:]):
        sizes = torch.cat([batch.graphs.sizes for batch in epoch])
        assert sorted(sizes.tolist()) == sorted(data.graphs.sizes[chosen].tolist())
    assert not torch.equal(batches[0].graphs.sizes, batches[2].graphs.sizes)
    again = Passes(data, chosen, 8, seed=0)(3)  # of the step alone
    assert torch.equal(again.graphs.nodes, batches[3].graphs.nodes)
    assert torch.equal(again.labels, batches[3].labels)


def test_accuracy_is_over_all_graphs_of_all_batches():
    scores = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    batches = [
        Batch((scores,), torch.tensor([0, 1, 0])),  # two of three
        Batch((scores[:1],), torch.tensor([1])),
    ]
    assert accuracy(lambda given: given, batches) == pytest.approx(50)


@pytest.mark.parametrize(("epochs", "halvings"), [(500, 10), (250, 5), (30, 10), (6, 10), (22, 22)])
def test_the_learning_rate_is_halved_at_the_start_of_epochs(epochs, halvings):
    per_epoch = 7
    steps = epochs * per_epoch
    factors = [halve(step / steps, halvings=halvings) for step in range(steps)]
    for step, factor in enumerate(factors):
        assert factor == 0.5 ** (step * halvings // steps)
    assert factors[-1] == 0.5 ** (halvings - 1)


def test_a_missing_dataset_says_where_its_file_belongs(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path / "nothing"))
    config = CLASSIFY.config_at("cpu", datasets=("REDDIT-MULTI-5K",))
    with pytest.raises(FileNotFoundError, match=r"REDDIT-MULTI-5K\.zip is missing: download it"):
        run_experiment("graphs-classify", config, scale="cpu", folder=tmp_path / "run")
