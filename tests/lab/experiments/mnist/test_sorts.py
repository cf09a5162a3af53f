import pytest
import torch

from torchsets.lab.experiments.launch import resume_experiment
from torchsets.lab.experiments.mnist import classify
from torchsets.lab.experiments.mnist.configs import Sorts
from torchsets.lab.experiments.mnist.models import Classifier
from torchsets.lab.experiments.mnist.sorts import temperature_at
from torchsets.lab.training import load_checkpoint, loop

COOLED = (
    "sigmas=0.05",
    "temperature=1",
    "final_temperature=0.1",
    "training_sets=64",
    "test_sets=20",
    "epochs=2",
)
ROW = "FSPool, sigma=0.05, random init"


def test_a_temperature_falls_geometrically_or_stays():
    config = Sorts(temperature=1.0, final_temperature=1e-4)
    shares = (0.0, 0.5, 1.0)
    assert [temperature_at(config, share) for share in shares] == pytest.approx([1, 1e-2, 1e-4])
    assert [temperature_at(Sorts(temperature=2.0), share) for share in shares] == [2.0] * 3


def test_each_step_has_its_temperature_and_each_evaluation_sorts_exactly(run_smoke, monkeypatch):
    seen = []
    monkeypatch.setattr(
        classify,
        "cross_entropy",
        lambda scores, labels: (
            seen.append(pool.temperature) or torch.nn.functional.cross_entropy(scores, labels)
        ),
    )
    measured = []
    build, forward = classify.build_classifier, Classifier.forward

    def build_and_keep(*arguments, **options):
        nonlocal pool
        model = build(*arguments, **options)
        pool = model.encoder.pool
        return model

    def watch(model, elements, mask):
        if not model.training:
            measured.append(pool.temperature)
        return forward(model, elements, mask)

    pool = None
    monkeypatch.setattr(classify, "build_classifier", build_and_keep)
    monkeypatch.setattr(Classifier, "forward", watch)
    run_smoke("mnist-sorts", *COOLED)
    assert seen == pytest.approx([0.1 ** (step / 8) for step in range(8)])
    # After each epoch; then relaxed, in two parts, and exact.
    assert measured == [None, None, *[pytest.approx(0.1)] * 2, None, None]


def test_both_sorts_measure_the_same_classifier(run_smoke, cells):
    found = cells(run_smoke("mnist-sorts", *COOLED))
    assert {key[1:] for key in found} == {(ROW, "relaxed at test"), (ROW, "exact at test")}
    assert {key[0] for key in found} == {"mnist/exact-sort"}
    assert all(0 <= value <= 100 for value in found.values())


def test_another_temperature_trains_another_classifier(run_smoke):
    losses = [
        [line["loss"] for line in run.metrics if "loss" in line]
        for run in (
            run_smoke("mnist-sorts", *COOLED, "final_temperature=none", folder="warm"),
            run_smoke("mnist-sorts", *COOLED, folder="cooled"),
        )
    ]
    assert losses[0] != losses[1]


def test_an_encoder_may_come_from_an_auto_encoder(run_smoke, cells):
    overrides = ["sigmas=0", "starts=frozen", "training_sets=16", "test_sets=8"]
    run = run_smoke("mnist-sorts", *overrides)
    assert "sigma=0.00 auto-encoder/fspool" in run.tasks
    rows = {row for _, row, _ in cells(run)}
    assert rows == {"FSPool, sigma=0.00, frozen"}


def test_a_stopped_training_resumes_at_its_temperature(run_smoke, cells, monkeypatch):
    whole = run_smoke("mnist-sorts", *COOLED, folder="whole")
    monkeypatch.setattr(loop, "_SECONDS_BETWEEN_CHECKPOINTS", 0)
    calls = 0

    def stop(*arguments):
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return torch.nn.functional.cross_entropy(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(classify, "cross_entropy", stop)
        with pytest.raises(KeyboardInterrupt):
            run_smoke("mnist-sorts", *COOLED, folder="cut")
    cut = resume_experiment(whole.folder.with_name("cut"))
    assert cut.complete
    assert cells(cut) == cells(whole)
    assert list(cut.metrics) == list(whole.metrics)
    task = "checkpoint/sigma=0.05 random/fspool"
    weights, expected = (load_checkpoint(run.folder / task).tensors for run in (cut, whole))
    for name, value in expected.items():
        assert torch.equal(weights[name], value), name
