from torchsets.lab.experiments.mnist import classify


def test_it_has_the_stated_size_and_is_measured_after_each_epoch(run_smoke, cells):
    run = run_smoke("mnist-large", "layers=4", "hidden=16", "latent=8", "epochs=2")
    (task,) = run.tasks.values()
    sizes = [(2, 16), *[(16, 16)] * 3, (16, 16), (16, 8), (8, 16), (16, 10)]
    assert task.parameters == sum((before + 1) * after for before, after in sizes) + 16 * 21
    assert set(cells(run)) == {
        ("mnist/large", "FSPool", "1 epoch"),
        ("mnist/large", "FSPool", "2 epochs"),
    }


def test_two_stages_pool_twice(run_smoke):
    run = run_smoke("mnist-large", "two_stages=true", "hidden=16", "latent=8")
    (task,) = run.tasks.values()
    first, context, second = [(2, 16), (16, 16)], [(16, 16), (16, 16)], [(32, 16), (16, 16)]
    head = [(16, 16), (16, 8), (8, 16), (16, 10)]
    sizes = [*first, *context, *second, *head]
    assert task.parameters == sum((before + 1) * after for before, after in sizes) + 2 * 16 * 21


def test_training_sets_are_moved_and_test_sets_are_not(run_smoke, monkeypatch):
    scales, moved = [], classify.jitter

    def watch(sets, scale, *, generator):
        scales.append(scale)
        return moved(sets, scale, generator=generator)

    monkeypatch.setattr(classify, "jitter", watch)
    run_smoke("mnist-large", "augment=0.1", "hidden=8", "training_sets=64")
    assert scales == [0.1] * 2  # one for each step
    run_smoke("mnist-large", "augment=0", "hidden=8", "training_sets=64", folder="plain")
    assert scales == [0.1] * 2


def test_the_learning_rate_may_decay(run_smoke):
    losses = []
    for decay in (True, False):
        overrides = [f"decay={decay}", "hidden=8", "training_sets=64", "epochs=2"]
        run = run_smoke("mnist-large", *overrides, folder=f"decay={decay}")
        losses.append([line["loss"] for line in run.metrics if "loss" in line])
    assert losses[0] != losses[1]
