import json
import shutil

import pytest
import torch

from torchsets.data import small_digit_sets
from torchsets.lab.experiments.launch import resume_experiment
from torchsets.lab.training import load_checkpoint, load_weights

ONE = ("poolings=fspool", "starts=random", "sigmas=0")


def test_a_frozen_encoder_stays_as_it_was_and_an_unfrozen_one_moves(run_smoke, cells, tmp_path):
    auto = run_smoke("mnist-reconstruct", "models=fspool,sum-mlp", "sigmas=0", folder="auto")
    found = cells(
        run_smoke(
            "mnist-classify",
            f"encoders={auto.folder}",
            "starts=frozen,unfrozen",
            "sigmas=0",
        )
    )

    def read(run, task):
        tensors = load_checkpoint(tmp_path / run / "checkpoint" / task).tensors
        return {name.removeprefix("model."): value for name, value in tensors.items()}

    names = {"fspool": "element_encoder.0.weight", "sum": "encoder.inner.0.weight"}
    for pooling, name in names.items():
        before = read("auto", f"sigma=0.00/{pooling}{'-mlp' if pooling == 'sum' else ''}")[name]
        for start, moved in (("frozen", False), ("unfrozen", True)):
            after = read("run", f"sigma=0.00 {start}/{pooling}")["encoder.inner.0.weight"]
            assert torch.equal(before, after) is not moved
    row = f"FSPool, dataset=digits, encoders={auto.folder.name}"  # whatever their settings
    assert ("fspool/mnist2/variants", row, "1 epoch Frozen") in found


def test_encoders_trained_here_fill_the_columns_of_the_thesis(run_smoke, cells):
    found = cells(run_smoke("mnist-classify", "poolings=sum", "starts=frozen", "sigmas=0.05"))
    assert ("fspool/mnist/variants", "Sum, dataset=digits", "1 epoch Frozen") in found


def test_encoders_that_are_missing_or_of_another_form_are_named_before_training(
    run_smoke, tmp_path
):
    auto = run_smoke(
        "mnist-reconstruct", "models=fspool", "sigmas=0", "training_sets=16", folder="auto"
    )
    frozen = [f"encoders={auto.folder}", "starts=frozen", "sigmas=0"]
    with pytest.raises(ValueError, match=r"must be a run that has finished sigma=0.00/sum-mlp"):
        run_smoke("mnist-classify", *frozen, folder="one")
    with pytest.raises(ValueError, match=r"mask_feature must be that of the encoders in .* False"):
        run_smoke("mnist-classify", *frozen, "mask_feature=True", folder="two")
    with pytest.raises(ValueError, match=r"of mnist-reconstruct, got one of mnist-classify in"):
        run_smoke("mnist-classify", f"encoders={tmp_path / 'two'}", "starts=frozen", folder="four")
    shutil.rmtree(auto.folder / "checkpoint")
    with pytest.raises(ValueError, match=r"encoders must be a run with its checkpoints, got none"):
        run_smoke("mnist-classify", *frozen, "poolings=fspool", folder="three")


def test_weights_of_another_model_are_refused(run_smoke):
    run = run_smoke("mnist-classify", *ONE, "training_sets=16", "test_sets=8")
    with pytest.raises(ValueError, match=r"checkpoint in .* does not fit the model .* key"):
        load_weights(
            run.folder / "checkpoint" / "sigma=0.00 random" / "fspool", torch.nn.Linear(2, 2)
        )


def test_another_classifier_fills_a_table_of_variants(run_smoke, cells):
    usual = cells(run_smoke("mnist-classify", *ONE, folder="usual"))
    other = cells(run_smoke("mnist-classify", *ONE, "hidden=8", "latent=4", folder="other"))
    assert ("fspool/mnist2/variants", "FSPool, dataset=digits", "1 epoch Random init") in usual
    row = "FSPool, dataset=digits, hidden=8, latent=4"
    assert ("fspool/mnist2/variants", row, "1 epoch Random init") in other
    assert not any(table == "fspool/mnist2" for table, _, _ in other)
    for found in (usual, other):
        assert ("mnist/accuracy", "FSPool", "sigma=0.00, Random init, 1 epoch") in found


def test_the_epochs_of_the_thesis_and_the_last_are_recorded(run_smoke, cells):
    found = cells(run_smoke("mnist-classify", *ONE, "epochs=12", "training_sets=16"))
    names = ("1 epoch", "10 epochs", "12 epochs")
    assert {column for table, _, column in found if table == "mnist/accuracy"} == {
        f"sigma=0.00, Random init, {name}" for name in names
    }
    assert {column for table, _, column in found if table == "fspool/mnist2/variants"} == {
        f"{name} Random init" for name in names[:2]
    }


def test_a_hundred_epochs_have_a_table_for_both_noises(run_smoke, cells):
    overrides = ["poolings=sum", "starts=random", "epochs=100", "training_sets=16", "test_sets=4"]
    found = cells(run_smoke("mnist-classify", *overrides))
    assert {column for table, _, column in found if table == "fspool/mnist-100/variants"} == {
        "sigma=0.05 Random init",
        "sigma=0.00 Random init",
    }


def test_a_noise_that_the_thesis_does_not_have_fills_no_table_of_it(run_smoke, cells):
    found = cells(run_smoke("mnist-classify", "poolings=sum", "starts=random", "sigmas=0.02"))
    assert {table for table, _, _ in found} == {"mnist/accuracy", "mnist/seconds"}


def test_a_folder_of_another_dataset_is_a_variant(run_smoke, cells, small_dataset):
    overrides = [f"dataset={small_dataset}", "starts=random", "batch_size=2", "poolings=sum"]
    found = cells(run_smoke("mnist-classify", *overrides))
    assert {table for table, _, _ in found} == {
        "mnist/accuracy",
        "mnist/seconds",
        "fspool/mnist/variants",
        "fspool/mnist2/variants",
    }


def test_data_that_changes_under_a_run_stops_its_resume(run_smoke, small_dataset):
    overrides = [f"dataset={small_dataset}", "starts=random", "batch_size=2"]
    folder = run_smoke("mnist-classify", *overrides).folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    images = small_dataset / "train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-1] + bytes([0]))  # one pixel
    with pytest.raises(ValueError, match=r"the data for training sets changed since run .* star"):
        resume_experiment(folder)
    for path, content in before.items():
        assert path.name in ("result.json", ".lock") or path.read_bytes() == content


def test_a_run_of_an_earlier_version_is_not_resumed_with_other_settings(run_smoke):
    folder = run_smoke("mnist-classify", *ONE, "training_sets=16", "test_sets=8").folder
    described = json.loads((folder / "config.json").read_text())
    described["config"]["temperature"] = 1.0  # as mnist-classify had it once
    (folder / "config.json").write_text(json.dumps(described))
    with pytest.raises(ValueError, match=r"got also temperature; .* another version"):
        resume_experiment(folder)


def test_a_figure_shows_the_first_test_digits(run_smoke):
    run = run_smoke("mnist-classify", *ONE, "training_sets=16")
    panels = run.figures["digits"].figure.panels
    sets, labels = small_digit_sets("test")
    assert [panel.title for panel in panels] == [str(one) for one in labels[:10].tolist()]
    assert [len(panel.points) for panel in panels] == sets.sizes[:10].tolist()
    torch.testing.assert_close(torch.tensor(panels[0].points), sets[0], rtol=1e-4, atol=0)
    assert {"accuracy", "weight-functions"} < set(run.figures)


@pytest.mark.slow
def test_fspool_classifies_digits_far_better_than_sum(run_smoke, cells):
    overrides = ["starts=random", "epochs=15", "training_sets=1347", "test_sets=450"]
    found = cells(run_smoke("mnist-classify", *overrides))
    column = "sigma=0.00, Random init, 15 epochs"
    fspool, plain = (found["mnist/accuracy", name, column] for name in ("FSPool", "Sum"))
    assert fspool > 65  # 74.7 and more on the machines tried
    assert fspool > plain + 10
