"""What holds for every loss between sets, in both arguments."""

from contextlib import nullcontext
from functools import partial

import pytest
import torch

from torchsets import SetBatch, SetPrediction
from torchsets.losses import MixedCost, Part, chamfer_loss, hungarian_loss, sinkhorn_loss
from torchsets.testing import random_sets, set_laws

MIXED = MixedCost(Part(slice(0, 1), "huber", weight=2.0), Part(slice(1, 3), "l1"))


def euclidean(left, right):
    """Its slope is infinite at 0, so a pair of two zeros in the padding would give nan."""
    return (left.unsqueeze(-2) - right.unsqueeze(-3)).square().sum(-1).sqrt()


converged = partial(sinkhorn_loss, epsilon=8.0, iterations=300, tolerance=1e-9)
LOSSES = {
    "chamfer": chamfer_loss,
    "chamfer-huber-mean": partial(chamfer_loss, element="huber", reduction="mean"),
    "chamfer-callable": partial(chamfer_loss, element=euclidean),
    "hungarian": hungarian_loss,
    "hungarian-huber-mean": partial(hungarian_loss, element="huber", reduction="mean"),
    "hungarian-mixed": partial(hungarian_loss, element=MIXED, reduction="mean"),
    "hungarian-callable": partial(hungarian_loss, element=euclidean),
    "sinkhorn": converged,
    "sinkhorn-huber": partial(converged, element="huber"),
}
SYMMETRIC = [name for name in LOSSES if name != "hungarian-mixed"]


@pytest.fixture(params=LOSSES)
def loss(request):
    return LOSSES[request.param]


@pytest.fixture
def other():
    """One set of four elements and two paddings that hold nan."""
    elements, mask = random_sets([4, 6], 3, torch.Generator().manual_seed(5))
    return elements[:1], mask[:1]


def for_all(other, sets):
    elements, mask = other
    return elements.expand(len(sets), -1, -1), mask.expand(len(sets), -1)


def assert_obeys_laws(loss, function, elements, mask):
    """All of them; Sinkhorn's losses refuse second derivatives, which would be wrong."""
    for name, law in set_laws().items():
        refused = name == "second-derivatives" and loss in (
            LOSSES["sinkhorn"],
            LOSSES["sinkhorn-huber"],
        )
        refusal = pytest.raises(RuntimeError, match="sinkhorn_loss has no second derivatives")
        with refusal if refused else nullcontext():
            law(function, elements, mask)


@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]], ids=str)
def test_obeys_the_laws_in_the_prediction(loss, other, sizes, generator):
    def of_prediction(elements, mask):
        target, target_mask = for_all(other, elements)
        return loss(elements, target, target_mask, prediction_mask=mask)

    assert_obeys_laws(loss, of_prediction, *random_sets(sizes, 3, generator))


@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]], ids=str)
def test_obeys_the_laws_in_the_target(loss, other, sizes, generator):
    def of_target(elements, mask):
        prediction, prediction_mask = for_all(other, elements)
        return loss(prediction, elements, mask, prediction_mask=prediction_mask)

    assert_obeys_laws(loss, of_target, *random_sets(sizes, 3, generator))


def test_a_batch_unpacks_into_target_and_its_mask(loss, generator):
    batch = SetBatch(*random_sets([4, 2], 3, generator))  # as many slots as padded targets
    prediction = torch.randn(2, 4, 3, dtype=torch.float64, generator=generator)
    alone = [
        loss(one.unsqueeze(0), real.unsqueeze(0))
        for one, real in zip(prediction, batch.to_list(), strict=True)
    ]
    torch.testing.assert_close(loss(prediction, *batch), torch.cat(alone))


@pytest.mark.parametrize("name", SYMMETRIC)
def test_is_symmetric(name, generator):
    one, one_mask = random_sets([3, 5, 0], 3, generator)
    other, other_mask = random_sets([4, 2, 1], 3, generator)
    forward = LOSSES[name](one, other, other_mask, prediction_mask=one_mask)
    backward = LOSSES[name](other, one, one_mask, prediction_mask=other_mask)
    torch.testing.assert_close(forward, backward)


def test_equal_sets_cost_nothing_in_any_order(loss, generator):
    elements, mask = random_sets([3, 5, 1], 3, generator)
    order = torch.randperm(5, generator=generator)
    result = loss(elements, elements[:, order], mask[:, order], prediction_mask=mask)
    torch.testing.assert_close(result, torch.zeros_like(result))


def test_steps_are_compared_with_the_same_target(loss, generator):
    target, target_mask = random_sets([3, 0, 2], 3, generator)
    steps = torch.randn(2, 4, 3, 5, 3, dtype=torch.float64, generator=generator)
    mask = torch.rand(3, 5, generator=generator) < 0.7
    masked = partial(loss, prediction_mask=mask)
    expected = torch.stack([masked(one, target, target_mask) for one in steps.flatten(0, 1)])
    result = masked(steps, target, target_mask)
    torch.testing.assert_close(result, expected.view(2, 4, 3))


def test_each_step_may_have_its_own_mask(loss, generator):
    target, target_mask = random_sets([3, 0, 2], 3, generator)
    steps = torch.randn(4, 3, 5, 3, dtype=torch.float64, generator=generator)
    masks = torch.rand(4, 3, 5, generator=generator) < 0.5
    singles = [
        loss(step, target, target_mask, prediction_mask=mask)
        for step, mask in zip(steps, masks, strict=True)
    ]
    together = loss(steps, target, target_mask, prediction_mask=masks)
    torch.testing.assert_close(together, torch.stack(singles))


def test_gradient(loss, generator):
    prediction, prediction_mask = random_sets([3, 2], 3, generator)
    target, target_mask = random_sets([4, 1], 3, generator)
    prediction, target = (x.nan_to_num().requires_grad_() for x in (prediction, target))
    assert torch.autograd.gradcheck(
        lambda x, y: loss(x, y, target_mask, prediction_mask=prediction_mask), (prediction, target)
    )


@pytest.mark.parametrize(
    ("slots", "others"), [(0, 3), (3, 0), (0, 0), (3, 3)], ids=["no N", "no M", "none", "masked"]
)
def test_an_empty_side_gives_a_connected_zero(loss, slots, others):
    prediction = torch.ones(2, slots, 3, dtype=torch.float64, requires_grad=True)
    target = torch.ones(2, others, 3, dtype=torch.float64, requires_grad=True)
    nobody = torch.zeros(2, slots, dtype=torch.bool)
    result = loss(prediction, target, prediction_mask=nobody)
    assert result.tolist() == [0.0, 0.0]
    for gradient in torch.autograd.grad(result.sum(), (prediction, target)):
        assert not gradient.any()


@pytest.mark.parametrize("shape", [(0, 3, 2, 3), (2, 0, 2, 3)])
def test_no_steps_and_no_sets_give_no_losses(loss, shape):
    assert loss(torch.zeros(shape), torch.zeros(shape[1], 4, 3)).shape == shape[:2]


def test_autocast_changes_nothing_but_the_inputs(loss, generator):
    prediction = torch.randn(2, 5, 3, generator=generator).bfloat16()
    target = torch.randn(2, 4, 3, generator=generator).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = loss(prediction, target)
    expected = loss(prediction.float(), target)
    torch.testing.assert_close(result, expected)
    gradients = [torch.autograd.grad(x.sum(), target)[0] for x in (result, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_keeps_the_dtype(loss, dtype, generator):
    prediction = torch.randn(2, 5, 3, generator=generator).to(dtype)
    result = loss(prediction, prediction[:, :3])
    assert result.dtype == dtype
    assert result.isfinite().all()


@pytest.mark.parametrize(
    ("prediction", "target", "masks", "message"),
    [
        (torch.zeros(2, 3), torch.zeros(1, 2, 3), {}, r"prediction must have shape \(\*S, B, N, D"),
        (torch.zeros(1, 2, 3).long(), torch.zeros(1, 2, 3), {}, "prediction must be floating"),
        (torch.zeros(1, 2, 3), torch.zeros(2, 3), {}, r"target must have shape \(B, N, D\)"),
        (torch.zeros(1, 2, 3), torch.zeros(2, 2, 3), {}, r"target must have shape \(B, M, D\)"),
        (
            torch.zeros(1, 2, 3),
            torch.zeros(1, 2, 3),
            {"prediction_mask": torch.ones(1, 2)},
            "prediction_mask must be bool",
        ),
        (
            torch.zeros(4, 1, 2, 3),
            torch.zeros(1, 2, 3),
            {"prediction_mask": torch.ones(2, 1, 2).bool()},
            r"prediction_mask must have shape \(4, 1, 2\)",
        ),
        (
            torch.zeros(1, 2, 3),
            torch.zeros(1, 2, 3),
            {"target_mask": torch.ones(1, 3).bool()},
            r"target_mask must have shape \(1, 2\)",
        ),
    ],
)
def test_rejects_bad_input(loss, prediction, target, masks, message):
    with pytest.raises(ValueError, match=message):
        loss(prediction, target, **masks)


def test_says_what_to_pass_instead_of_a_prediction_or_a_batch(loss):
    sets = torch.zeros(1, 2, 3)
    with pytest.raises(TypeError, match=r"prediction must be a tensor, got SetPrediction; .*Loss"):
        loss(SetPrediction(sets, sets[..., 0]), sets)
    with pytest.raises(TypeError, match=r"target must be a tensor, got SetBatch; .*\*batch"):
        loss(sets, SetBatch(sets, sets[..., 0] == 0))
    with pytest.raises(TypeError, match="prediction must be a tensor, got list"):
        loss([[[1.0]]], sets)


@pytest.mark.parametrize("plain", [chamfer_loss, hungarian_loss, sinkhorn_loss])
def test_rejects_an_unknown_element_and_other_features(plain):
    sets = torch.zeros(1, 2, 3)
    with pytest.raises(ValueError, match='element must be "squared", "huber" or a callable'):
        plain(sets, sets, element="cosine")
    with pytest.raises(ValueError, match=r"target must have shape \(B, M, D\) = \(1, any, 3\)"):
        plain(sets, sets[..., :2])
    with pytest.raises(ValueError, match=r"element must return the shape"):
        plain(sets, sets, element=lambda left, right: left)


@pytest.mark.parametrize("plain", [chamfer_loss, hungarian_loss])
def test_rejects_an_unknown_reduction(plain):
    with pytest.raises(ValueError, match='reduction must be "sum" or "mean"'):
        plain(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), reduction="none")


@pytest.mark.parametrize("loss", [chamfer_loss, hungarian_loss, sinkhorn_loss])
def test_a_loss_cannot_be_traced_into_wrong_numbers(loss, generator):
    sets = [torch.rand(2, 3, 2, generator=generator) for _ in range(2)]
    with pytest.raises(RuntimeError, match="a loss between sets cannot be exported or traced"):
        torch.jit.trace(loss, tuple(sets))
