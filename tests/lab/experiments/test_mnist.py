import math
import shutil
from dataclasses import asdict

import pytest
import torch

from torchsets.data import PointSets
from torchsets.lab.experiments import mnist_classify, mnist_reconstruct
from torchsets.lab.experiments.values import config_from_words
from torchsets.lab.experiments.mnist.models import (
    SetEncoder,
    build_auto_encoder,
    encoder_weights,
)
from torchsets.lab.experiments.mnist.sets import load_sets
from torchsets.losses import chamfer_loss
from torchsets.lab.records import Recorder, read_run
from torchsets.testing import assert_obeys_laws
from torchsets.lab.training import load_checkpoint

POOLINGS = ("fspool", "sum", "mean", "max")


def run_words(module, folder, *words):
    name = module.__name__.rsplit(".", 1)[1].replace("_", "-")
    config = config_from_words(name, words, "smoke")
    module.run(config, Recorder.start(folder, experiment=name, scale="smoke", config={"seed": 0}))
    cells = read_run(folder).result["results"]
    return {(cell["table"], cell["model"], cell["column"]): cell["value"] for cell in cells}


def write_small_dataset(folder):
    for prefix in ("train", "t10k"):  # eight images of 3 x 3 pixels
        head = bytes([0, 0, 8, 3]) + b"".join(size.to_bytes(4, "big") for size in (8, 3, 3))
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(head + bytes([9, 200] * 36))
        head = bytes([0, 0, 8, 1]) + (8).to_bytes(4, "big")
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(head + bytes(range(8)))


def test_with_a_narrow_classifier_it_has_about_the_parameters_of_the_thesis():
    config = mnist_classify.Config(classifier_hidden=16)
    model = mnist_classify.build_classifier(config, "fspool")
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == pytest.approx(3820, rel=0.01)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_classifiers_obey_the_laws(pooling, generator):
    torch.manual_seed(0)
    model = mnist_classify.build_classifier(mnist_classify.Config(), pooling).double()
    elements = torch.rand(4, 6, 2, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[True] * 6, [True, False] * 3, [False] * 6, [False] * 5 + [True]])
    assert_obeys_laws(model, elements, mask)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_encoder_weights_of_an_auto_encoder_give_the_same_vector(pooling, generator):
    torch.manual_seed(0)
    name = mnist_classify.AUTO_ENCODERS[pooling]
    auto_encoder = build_auto_encoder(name, hidden=8, latent=4, slots=12, mask_feature=False)
    encoder = SetEncoder(2, pooling=pooling, hidden=8, latent=4)
    encoder.load_state_dict(encoder_weights(auto_encoder.state_dict()))
    sets, mask = torch.rand(3, 9, 2, generator=generator), torch.ones(3, 9, dtype=torch.bool)
    if pooling == "fspool":
        expected, _ = auto_encoder.encode(sets, mask)
        actual = encoder(sets, mask, temperature=1.0)
    else:
        expected, actual = auto_encoder.encoder(sets, mask), encoder(sets, mask)
    torch.testing.assert_close(actual, expected)


def test_the_temperature_falls_to_the_exact_sort():
    config = mnist_classify.Config(temperature=1.0, final_temperature=1e-4)
    assert mnist_classify.temperature_at(config, 0.0) == 1
    assert mnist_classify.temperature_at(config, 0.5) == pytest.approx(0.01)
    model = mnist_classify.build_classifier(config, "fspool")
    sets, mask = torch.rand(4, 20, 2), torch.ones(4, 20, dtype=torch.bool)
    cold = model(sets, mask, temperature=mnist_classify.temperature_at(config, 1.0))
    warm = model(sets, mask, temperature=1.0)
    exact = model(sets, mask)
    assert (cold - exact).abs().max() < 0.05 * (warm - exact).abs().max()


def test_a_final_temperature_needs_a_first_one():
    with pytest.raises(ValueError, match="temperature must be given where final_temperature is"):
        mnist_classify.Config(final_temperature=0.1)


@pytest.mark.parametrize("field", ["poolings", "starts"])
def test_unknown_names_are_refused(field):
    with pytest.raises(ValueError, match=rf"{field} must be among .* got median"):
        mnist_classify.Config(**{field: ("median",)})
    with pytest.raises(ValueError, match=r"models must be among .* got sum-mean"):
        mnist_reconstruct.Config(models=("sum-mean",))
    with pytest.raises(ValueError, match="dataset must be mnist, digits or a folder of idx"):
        load_sets("imagenet", "train")


def test_a_frozen_encoder_stays_as_it_was_and_an_unfrozen_one_moves(tmp_path):
    words = ["models=fspool", "sigmas=0", "test_sets=8"]
    config = config_from_words("mnist-reconstruct", words, "smoke")
    recorder = Recorder.start(
        tmp_path / "auto", experiment="mnist-reconstruct", scale="smoke", config=asdict(config)
    )
    mnist_reconstruct.run(config, recorder)
    words = [
        f"encoders={tmp_path / 'auto'}",
        "poolings=fspool",
        "starts=frozen,unfrozen",
        "sigmas=0",
    ]
    cells = run_words(mnist_classify, tmp_path / "run", *words)
    folder = tmp_path / "auto" / "checkpoint" / "sigma=0.00" / "fspool"
    before = load_checkpoint(folder).tensors["model.element_encoder.0.weight"]
    for start, moved in (("frozen", False), ("unfrozen", True)):
        task = tmp_path / "run" / "checkpoint" / f"sigma=0.00 {start}" / "fspool"
        after = load_checkpoint(task).tensors["model.encoder.element_encoder.0.weight"]
        assert torch.equal(before, after) is not moved
    assert ("fspool/mnist2", "FSPool", "1 epoch Frozen") in cells


def test_encoders_that_are_missing_or_of_another_form_are_named_before_training(tmp_path):
    words = ["models=fspool", "sigmas=0", "test_sets=8", "training_sets=16"]
    config = config_from_words("mnist-reconstruct", words, "smoke")
    recorder = Recorder.start(
        tmp_path / "auto", experiment="mnist-reconstruct", scale="smoke", config=asdict(config)
    )
    mnist_reconstruct.run(config, recorder)
    frozen = [f"encoders={tmp_path / 'auto'}", "starts=frozen", "sigmas=0"]
    with pytest.raises(ValueError, match=r"must be a run that has finished sigma=0.00/sum-mlp"):
        run_words(mnist_classify, tmp_path / "one", *frozen)
    with pytest.raises(ValueError, match=r"mask_feature must be that of the encoders in .* False"):
        run_words(mnist_classify, tmp_path / "two", *frozen, "mask_feature=True")
    shutil.rmtree(tmp_path / "auto" / "checkpoint")
    with pytest.raises(ValueError, match=r"encoders must be a run with its checkpoints, got none"):
        run_words(mnist_classify, tmp_path / "three", *frozen, "poolings=fspool")


@pytest.mark.parametrize("words", [["hidden=8"], ["augment=0.1"], ["temperature=1"]])
def test_another_model_fills_no_table_of_the_thesis(tmp_path, words):
    usual = ["poolings=fspool", "starts=random", "sigmas=0", "training_sets=64", "test_sets=20"]
    for name, changes in (("usual", []), ("changed", words)):
        cells = run_words(mnist_classify, tmp_path / name, *usual, *changes)
        assert any(table == "fspool/mnist2" for table, *_ in cells) is (name == "usual")


@pytest.mark.parametrize("module", [mnist_classify, mnist_reconstruct])
def test_noises_of_the_same_name_are_refused(module):
    with pytest.raises(ValueError, match=r"sigmas must be at least 0 and differ in two decimals"):
        module.Config(sigmas=(0.0, 0.004))


def test_sets_larger_than_the_slots_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"slots must be at least 35, the largest set, got 20"):
        run_words(mnist_reconstruct, tmp_path / "run", "slots=20", "test_sets=450")


def test_layers_of_auto_encoders_are_those_of_the_thesis():
    with pytest.raises(ValueError, match=r"layers must be 2 where starts has trained encoders"):
        mnist_classify.Config(layers=3)


def test_training_with_the_relaxed_sort_is_measured_with_both_sorts(tmp_path):
    words = ["poolings=fspool", "starts=random", "sigmas=0", "temperature=1", "test_sets=20"]
    cells = run_words(mnist_classify, tmp_path / "run", *words, "training_sets=64")
    row = "FSPool, sigma=0.00, random init"
    for column in ("relaxed at test", "exact at test"):
        assert 0 <= cells["mnist/exact-sort", row, column] <= 100


def test_padding_is_no_part_of_the_direct_loss(generator):
    torch.manual_seed(0)
    model = build_auto_encoder("fspool", hidden=8, latent=4, slots=12, mask_feature=True)
    sets = PointSets(
        torch.rand(9, 2, generator=generator), torch.tensor([6, 3]), torch.tensor([0, 0])
    )
    both = mnist_reconstruct.draw_batch(sets, torch.arange(2), 0.0, True, generator)
    alone = [
        mnist_reconstruct.draw_batch(sets, torch.tensor([index]), 0.0, True, generator)
        for index in range(2)
    ]
    joint, *single = (
        mnist_reconstruct.auto_encoding_loss(model, batch, slots=12) for batch in (both, *alone)
    )
    torch.testing.assert_close(joint, torch.stack(single).mean())


@pytest.mark.parametrize("mask_feature", [False, True])
@pytest.mark.parametrize("name", ["sum-mlp", "max-lstm"])
def test_the_loss_of_the_baselines_is_the_chamfer_loss_of_zero_padded_sets(
    name, mask_feature, generator
):
    torch.manual_seed(0)
    model = build_auto_encoder(name, hidden=8, latent=4, slots=7, mask_feature=mask_feature)
    sets = PointSets(torch.rand(5, 2, generator=generator), torch.tensor([5]), torch.tensor([0]))
    batch = mnist_reconstruct.draw_batch(sets, torch.tensor([0]), 0.0, mask_feature, generator)
    prediction = model(batch.noisy, batch.mask)
    predicted = prediction.elements
    if mask_feature:
        predicted = torch.cat([predicted, prediction.presence.unsqueeze(-1)], dim=-1)
    target = torch.zeros(1, 7, 2 + mask_feature)
    target[0, :5, :2] = sets.values
    target[0, :5, 2:] = 1
    expected = chamfer_loss(predicted, target, reduction="mean").mean()
    loss = mnist_reconstruct.auto_encoding_loss(model, batch, slots=7)
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("words", [["mask_feature=True"], ["models=max-lstm,mean-mlp"]])
def test_every_auto_encoder_trains_and_is_measured(tmp_path, words):
    cells = run_words(mnist_reconstruct, tmp_path / "run", "training_sets=64", *words)
    tables = {table for table, _, _ in cells}
    expected = "fspool/mnist1-masked" if words[0].startswith("mask") else "fspool/mnist1"
    assert tables == {expected, "mnist/masked-chamfer"}
    assert all(math.isfinite(value) and value > 0 for value in cells.values())


def test_a_folder_of_another_dataset_fills_no_table_of_the_thesis(tmp_path):
    write_small_dataset(tmp_path)
    cells = run_words(
        mnist_classify, tmp_path / "run", f"dataset={tmp_path}", "starts=random", "batch_size=2"
    )
    assert {table for table, _, _ in cells} == {"mnist/accuracy", "mnist/seconds"}


def test_data_that_changes_under_a_run_stops_its_resume(tmp_path):
    folder, data = tmp_path / "run", tmp_path / "data"
    data.mkdir()
    write_small_dataset(data)
    run_words(mnist_classify, folder, f"dataset={data}", "starts=random", "batch_size=2")
    config = mnist_classify.Config(dataset=str(data), batch_size=2)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    images = data / "train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-1] + bytes([0]))  # one pixel
    with pytest.raises(ValueError, match=r"training sets must be the data that the run .* began"):
        mnist_classify.run(config, Recorder.resume(folder))
    for path, content in before.items():
        assert path.name == "result.json" or path.read_bytes() == content


@pytest.mark.parametrize(
    ("module", "table", "count"),
    [
        (mnist_classify, "fspool/mnist", 8),
        (mnist_classify, "fspool/mnist2", 8),
        (mnist_classify, "fspool/mnist-100", 16),
        (mnist_reconstruct, "fspool/mnist1", 30),
        (mnist_reconstruct, "fspool/mnist1-masked", 30),
    ],
)
def test_a_table_falls_into_independent_pieces(module, table, count):
    pieces = module.pieces(table, module.Config())
    assert len(set(pieces)) == len(pieces) == count
    if module is mnist_classify:
        assert {piece.epochs for piece in pieces} == {100}
        assert {piece.starts for piece in pieces} == {("frozen", "unfrozen"), ("random",)}
    else:
        assert {piece.mask_feature for piece in pieces} == {table.endswith("masked")}


@pytest.mark.slow
def test_fspool_classifies_digits_far_better_than_sum(tmp_path):
    words = ["starts=random", "epochs=15", "training_sets=1347", "test_sets=450"]
    cells = run_words(mnist_classify, tmp_path / "run", *words)
    column = "sigma=0.00, Random init, 15 epochs"
    fspool, plain = (cells["mnist/accuracy", name, column] for name in ("FSPool", "Sum"))
    assert fspool > 75
    assert fspool > plain + 10
