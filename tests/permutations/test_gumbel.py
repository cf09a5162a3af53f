import pytest
import torch

from torchsets.permutations import GumbelSinkhorn, hard_permutation, sinkhorn


def test_without_noise_it_is_sinkhorn(generator):
    scores = torch.randn(2, 4, 4, generator=generator)
    expected = sinkhorn(scores, steps=20, temperature=0.5)
    torch.testing.assert_close(GumbelSinkhorn(temperature=0.5).eval()(scores), expected)
    torch.testing.assert_close(GumbelSinkhorn(temperature=0.5, noise=0.0)(scores), expected)


def test_the_generator_decides_the_draw():
    scores = torch.zeros(2, 4, 4)
    draws = [
        GumbelSinkhorn()(scores, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_equal_scores_give_all_permutations_equally_often(generator):
    soft = GumbelSinkhorn(steps=50, temperature=0.05)(torch.zeros(6000, 3, 3), generator=generator)
    hard = hard_permutation(soft)
    codes = hard.argmax(dim=2) @ torch.tensor([9, 3, 1])
    counts = codes.unique(return_counts=True)[1]
    assert len(counts) == 6
    assert (counts.float() - 1000).abs().max() < 150  # five standard deviations


def test_noise_is_gumbels(generator):
    """Of two positions, element 0 takes the first with probability sigmoid of the score gap.

    Total weights differ by (s_00 + s_11) - (s_01 + s_10) plus the difference of two sums of two
    Gumbel variables; for a gap of 0 in one row this is the law of the difference of those sums.
    """
    scores = torch.zeros(40000, 2, 2)
    scores[:, 0, 0] = 2.0
    soft = GumbelSinkhorn(steps=50, temperature=0.01)(scores, generator=generator)
    first = (soft[:, 0, 0] > 0.5).double().mean()
    uniform = torch.rand(400000, 4, generator=generator, dtype=torch.float64)
    gumbel = -(-uniform.log()).log()
    expected = (2 + gumbel[:, 0] + gumbel[:, 1] > gumbel[:, 2] + gumbel[:, 3]).double().mean()
    assert abs(first - expected) < 0.015


def test_masked_scores_stay_zero(generator):
    mask = torch.tensor([[True, False, True]])
    soft = GumbelSinkhorn()(torch.zeros(1, 3, 3), mask, generator=generator)
    assert (soft[0, 1] == 0).all()
    assert (soft[0, :, 2] == 0).all()
    torch.testing.assert_close(soft.sum(), torch.tensor(2.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be positive, got 0"),
        ({"temperature": float("nan")}, "temperature must be positive, got nan"),
        ({"noise": float("nan")}, "noise must be at least 0, got nan"),
        ({"noise": -1.0}, "noise must be at least 0, got -1"),
    ],
)
def test_rejects_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        GumbelSinkhorn(**options)


def test_rejects_whole_numbers():
    with pytest.raises(ValueError, match="scores must be floating point"):
        GumbelSinkhorn()(torch.zeros(1, 3, 3).long())


def test_draws_in_half_precision_are_finite(generator, monkeypatch):
    """Exponential variables in float16 are 0 now and then, which has no logarithm."""
    drawn = []
    exponential = torch.Tensor.exponential_

    def watched(tensor, *args, **options):
        drawn.append(tensor.dtype)
        return exponential(tensor, *args, **options)

    monkeypatch.setattr(torch.Tensor, "exponential_", watched)
    soft = GumbelSinkhorn()(torch.zeros(2, 3, 3, dtype=torch.float16), generator=generator)
    assert soft.dtype == torch.float16
    assert soft.isfinite().all()
    assert drawn == [torch.float32]
