import pytest
import torch

from torchsets.data import Minibatches, SizeBuckets


def test_buckets_visit_every_set_once_an_epoch_in_a_new_order(generator):
    sizes = torch.randint(300, (1000,), generator=generator)
    buckets = SizeBuckets(sizes, 10, seed=3)
    epochs = [[buckets(epoch * 100 + step) for step in range(100)] for epoch in range(2)]
    for epoch in epochs:
        assert sorted(torch.cat(epoch).tolist()) == list(range(1000))
    assert not torch.equal(torch.stack(epochs[0]), torch.stack(epochs[1]))
    again = SizeBuckets(sizes, 10, seed=3)
    assert torch.equal(again(157), epochs[1][57])  # a function of the step alone


def test_buckets_cut_the_padding_and_are_not_in_order_of_size(generator):
    sizes = torch.randint(300, (1000,), generator=generator)
    buckets = SizeBuckets(sizes, 10, seed=0)
    spans = torch.tensor(
        [float(sizes[buckets(step)].amax() - sizes[buckets(step)].amin()) for step in range(100)]
    )
    assert spans.mean() < 30  # of 300; a random batch of ten spans 250
    means = torch.tensor([sizes[buckets(step)].double().mean() for step in range(100)])
    assert (means.diff() < 0).sum() > 30


def test_a_batch_cannot_be_larger_than_the_data():
    with pytest.raises(ValueError, match="batch_size must be between 1 and 2, got 3"):
        SizeBuckets(torch.tensor([1, 2]), 3, seed=0)


def test_minibatches_of_an_epoch_are_disjoint_and_depend_on_the_step_alone():
    minibatches = Minibatches(10, 3, seed=1)
    epochs = [torch.cat([minibatches(step) for step in range(3 * e, 3 * e + 3)]) for e in (0, 1)]
    assert [len(epoch.unique()) for epoch in epochs] == [9, 9]
    assert not torch.equal(*epochs)
    assert torch.equal(Minibatches(10, 3, seed=1)(4), minibatches(4))
    assert not torch.equal(Minibatches(10, 3, seed=2)(4), minibatches(4))


def test_a_minibatch_cannot_be_larger_than_the_data():
    with pytest.raises(ValueError, match="batch_size must be between 1 and 5, got 6"):
        Minibatches(5, 6, seed=0)
