import pytest
import torch
from torch.nn.functional import smooth_l1_loss

from torchsets.losses import present_chamfer_loss, set_size_loss
from torchsets.padded import SetPrediction
from torchsets.testing import assert_obeys_laws, random_sets


def slowly(slots, presence, target, *, size_weight=1.0):
    """One set, in loops."""

    def cost(i, j):
        left = torch.cat([slots[i], presence[i : i + 1]])
        return smooth_l1_loss(left, torch.cat([target[j], target.new_ones(1)]))

    count = len(target)
    surplus = (presence.sum() - count).abs()
    price = surplus**2 / 2 if surplus < 1 else surplus - 0.5
    price = price + sum(4 * p**2 * (1 - p) ** 2 for p in presence)
    loss = size_weight * price / len(slots)
    for j in range(count):
        loss = loss + min(cost(i, j) for i in range(len(slots))) / count
    for i in range(len(slots)) if count else ():
        near = min(smooth_l1_loss(slots[i], target[j], reduction="sum") for j in range(count))
        loss = loss + max(0.1, presence[i].item()) * near / (slots.shape[1] + 1) / count
    return loss


def example(generator, sizes=(3, 1, 5, 0)):
    target, mask = random_sets(list(sizes), 2, generator)
    slots = 2 * torch.randn(len(sizes), 6, 2, generator=generator, dtype=torch.float64)
    presence = torch.rand(len(sizes), 6, generator=generator, dtype=torch.float64)
    return slots, presence, target, mask


@pytest.mark.parametrize("size_weight", [0.0, 0.3])
def test_equals_the_slow_loop_for_sets_of_any_size(size_weight, generator):
    slots, presence, target, mask = example(generator)
    expected = [
        slowly(*one, real[known], size_weight=size_weight)
        for *one, real, known in zip(slots, presence, target, mask, strict=True)
    ]
    loss = present_chamfer_loss(slots, presence, target, mask, size_weight=size_weight)
    torch.testing.assert_close(loss, torch.stack(expected))


def test_the_gradient_is_that_of_the_slow_loop(generator):
    slots, presence, target, mask = example(generator)
    slots.requires_grad_(), presence.requires_grad_()
    gradients = torch.autograd.grad(
        present_chamfer_loss(slots, presence, target, mask).sum(), (slots, presence)
    )
    parts = zip(slots, presence, target, mask, strict=True)
    total = sum(slowly(*one, real[known]) for *one, real, known in parts)
    for found, expected in zip(
        gradients, torch.autograd.grad(total, (slots, presence)), strict=True
    ):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]], ids=str)
def test_obeys_the_laws_in_the_target(sizes, generator):
    slots, presence, _, _ = example(generator, (2,))

    def of_target(elements, mask):
        count = len(elements)
        return present_chamfer_loss(
            slots.expand(count, -1, -1), presence.expand(count, -1), elements, mask
        )

    assert_obeys_laws(of_target, *random_sets(sizes, 2, generator))


def test_neither_the_order_of_the_slots_nor_leading_axes_matter(generator):
    slots, presence, target, mask = example(generator)
    loss = present_chamfer_loss(slots, presence, target, mask)
    order = torch.randperm(6, generator=generator)
    steps = torch.stack([slots, slots[:, order]]), torch.stack([presence, presence[:, order]])
    torch.testing.assert_close(
        present_chamfer_loss(*steps, target, mask), torch.stack([loss, loss])
    )


def test_switching_all_slots_on_costs_where_presence_as_a_feature_of_padding_does_not(generator):
    _, _, target, mask = example(generator, (3,))
    filled = target.masked_fill(~mask.unsqueeze(-1), 0)
    slots = torch.cat([filled, filled], dim=1)
    right = torch.tensor([[1.0, 1, 1, 0, 0, 0]], dtype=torch.float64)
    assert present_chamfer_loss(slots, right, target, mask) == 0
    assert present_chamfer_loss(slots, torch.ones_like(right), target, mask) == 2.5 / 6


def test_no_slots_cost_the_size_alone():
    loss = present_chamfer_loss(torch.zeros(1, 0, 2), torch.zeros(1, 0), torch.zeros(1, 3, 2))
    assert loss.tolist() == [2.5]


@pytest.mark.parametrize(
    ("presence", "options", "message"),
    [
        (torch.ones(1, 3), {}, r"presence must have shape"),
        (torch.ones(1, 4).long(), {}, "presence must be floating point"),
        (torch.ones(1, 4), {"element": "l1"}, 'element must be "squared" or "huber", got \'l1\''),
    ],
)
def test_rejects_bad_input(presence, options, message):
    with pytest.raises(ValueError, match=message):
        present_chamfer_loss(torch.zeros(1, 4, 2), presence, torch.zeros(1, 2, 2), **options)


def test_the_price_of_a_size_is_zero_for_ones_and_zeros_of_the_right_number_alone():
    presence = torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 0.5, 0.5, 0.0], [1.0, 1.0, 1.0, 1.0]])
    loss = set_size_loss(presence, torch.tensor([2, 2, 2]))
    # one half is doubted with 1/4; a surplus of 2 costs 1.5
    torch.testing.assert_close(loss, torch.tensor([0.0, 0.5 / 4, 1.5 / 4]))


def test_the_price_of_a_size_is_that_of_every_step():
    steps = torch.rand(3, 2, 4)
    expected = torch.stack([set_size_loss(step, torch.tensor([1, 3])) for step in steps])
    torch.testing.assert_close(set_size_loss(steps, torch.tensor([1, 3])), expected)


def test_a_price_needs_floating_point_presences():
    with pytest.raises(ValueError, match="presence must be floating point"):
        set_size_loss(torch.ones(1, 2, dtype=torch.long), torch.tensor([1]))


def test_half_precision_counts_exactly():
    presence = torch.ones(1, 342)
    expected = set_size_loss(presence, torch.tensor([341]))
    half = set_size_loss(presence.bfloat16(), torch.tensor([341]))
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), expected, rtol=0.01, atol=0)


def test_rejects_sizes_of_another_shape():
    with pytest.raises(ValueError, match=r"sizes must have shape \(B,\) = \(3\), got \(3, 1\)"):
        set_size_loss(torch.rand(3, 4), torch.ones(3, 1))
    with pytest.raises(ValueError, match=r"presence must have shape \(\*S, B, N\), got \(4,\)"):
        set_size_loss(torch.rand(4), torch.ones(1))


def test_a_prediction_is_taken_apart_by_the_user():
    prediction = SetPrediction(torch.zeros(1, 4, 2), torch.ones(1, 4))
    with pytest.raises(TypeError, match=r"pass its elements, prediction\.elements"):
        present_chamfer_loss(prediction, prediction.presence, torch.zeros(1, 2, 2))
