from functools import partial

import pytest
import torch
from torch.nn import functional

from torchsets.giou import box_giou
from torchsets.losses import MixedCost, Part, chamfer_loss, hungarian_loss
from torchsets.losses.elements import cost_matrix, pair_costs


def pairwise(function, prediction, target):
    """Each pair by itself: the slow way."""
    rows = [torch.stack([function(x, y) for y in target]) for x in prediction]
    return torch.stack(rows)


SLOW = {
    "l1": lambda x, y: (x - y).abs().sum(),
    "squared": lambda x, y: (x - y).square().sum(),
    "huber": lambda x, y: functional.smooth_l1_loss(x, y, reduction="sum"),
    "cross_entropy": lambda x, y: functional.cross_entropy(x, y),
    "probability": lambda x, y: -(x.softmax(0) * y).sum(),
    "binary_cross_entropy": lambda x, y: functional.binary_cross_entropy_with_logits(
        x, y, reduction="sum"
    ),
}


def slow_focal(logits, class_number, right, wrong):
    """The sigmoid focal loss of one slot, class by class."""
    total = 0
    for number, chance in enumerate(logits.sigmoid()):
        if number == class_number:
            total = total - right * (1 - chance) ** 2 * chance.log()
        else:
            total = total - wrong * chance**2 * (1 - chance).log()
    return total


def test_the_focal_part_is_what_a_class_adds_to_the_loss(generator):
    logits = 2 * torch.randn(5, 4, dtype=torch.float64, generator=generator)
    numbers = torch.tensor([[0.0], [3.0], [1.0]], dtype=torch.float64)
    got = MixedCost(Part(slice(0, 4), "focal", target=slice(0, 1)))(logits, numbers)
    for slot in range(5):
        nothing = slow_focal(logits[slot], None, 0.25, 0.75)
        for place, number in enumerate([0, 3, 1]):
            expected = slow_focal(logits[slot], number, 0.25, 0.75) - nothing
            torch.testing.assert_close(got[slot, place], expected)


def test_the_focal_part_is_finite_for_sure_logits():
    element = MixedCost(Part(slice(0, 1), "focal", target=slice(0, 1)))
    logits = torch.tensor([[200.0], [-200.0]], requires_grad=True)
    cost = element(logits, torch.ones(1, 1))
    assert cost.flatten().tolist() == [-150.0, 50.0]
    cost.sum().backward()
    assert logits.grad.isfinite().all()


def test_the_box_part_is_one_minus_the_generalised_overlap(generator):
    corner = torch.rand(2, 3, 4, 2, generator=generator)
    one, other = torch.cat([corner, corner + torch.rand(2, 3, 4, 2, generator=generator)], dim=-1)
    got = MixedCost(Part(slice(0, 4), "giou", weight=2.0))(one, other)
    torch.testing.assert_close(got, 2 - 2 * box_giou(one, other))
    torch.testing.assert_close(
        hungarian_loss(one, one, element=MixedCost(Part(slice(0, 4), "giou"))), torch.zeros(3)
    )
    with pytest.raises(ValueError, match=r"boxes must have shape \(\.\.\., 4\), got"):
        MixedCost(Part(slice(0, 3), "giou"))(one, other)


@pytest.mark.parametrize("cost", SLOW)
def test_each_kind_of_part_matches_torch_pair_by_pair(cost, generator):
    prediction = 2 * torch.randn(5, 4, dtype=torch.float64, generator=generator)
    target = functional.one_hot(torch.tensor([0, 3, 1]), 4).double()
    result = MixedCost(Part(slice(0, 4), cost))(prediction, target)
    torch.testing.assert_close(result, pairwise(SLOW[cost], prediction, target))


@pytest.mark.parametrize("cost", ["cross_entropy", "probability"])
def test_a_class_number_means_the_same_as_a_one_hot_vector(cost, generator):
    prediction = torch.randn(2, 5, 4, generator=generator)
    numbers = torch.tensor([[[0.0], [3.0]], [[2.0], [2.0]]])
    one_hot = functional.one_hot(numbers.squeeze(-1).long(), 4).float()
    by_number = MixedCost(Part(slice(0, 4), cost, target=slice(0, 1)))(prediction, numbers)
    by_vector = MixedCost(Part(slice(0, 4), cost))(prediction, one_hot)
    torch.testing.assert_close(by_number, by_vector)


@pytest.mark.parametrize("cost", ["cross_entropy", "probability"])
@pytest.mark.parametrize("number", [1.5, -1.0, 4.0, float("nan")])
def test_a_number_that_is_no_class_is_an_error_or_nan(cost, number, generator):
    prediction = torch.randn(1, 5, 4, generator=generator)
    element = MixedCost(Part(slice(0, 4), cost, target=slice(0, 1)))
    numbers = torch.tensor([[[0.0], [number], [3.0]]])
    with pytest.raises(ValueError, match=f"class numbers from 0 to 3, got {number:g}"):
        hungarian_loss(prediction, numbers, element=element)
    # Where values are not read: as on a GPU, the costs of that target are nan.
    compiled = torch.compile(element, backend="eager", fullgraph=True)(prediction, numbers)
    assert compiled.isnan().any(dim=1).tolist() == [[False, True, False]]


def test_half_precision_tells_more_than_256_classes_apart():
    element = MixedCost(Part(slice(0, 300), "probability", target=slice(0, 1)))
    logits, number = torch.zeros(1, 1, 300).bfloat16(), torch.tensor([[[260.0]]]).bfloat16()
    assert element(logits, number).item() == pytest.approx(-1 / 300, rel=0.01)


def test_padding_needs_no_class(generator):
    prediction = torch.randn(1, 5, 4, generator=generator)
    element = MixedCost(Part(slice(0, 4), "cross_entropy", target=slice(0, 1)))
    numbers, mask = torch.tensor([[[2.0], [1.5]]]), torch.tensor([[True, False]])
    masked = hungarian_loss(prediction, numbers, mask, element=element)
    torch.testing.assert_close(masked, hungarian_loss(prediction, numbers[:, :1], element=element))


def test_parts_are_weighted_and_added(generator):
    prediction, target = torch.randn(2, 3, 4, 5, generator=generator)
    parts = [Part(slice(0, 2), "l1", weight=5.0), Part(slice(2, 5), "squared", weight=0.5)]
    expected = 5 * cost_matrix(MixedCost(Part(slice(0, 2), "l1")), prediction, target)
    expected = expected + 0.5 * cost_matrix("squared", prediction[..., 2:], target[..., 2:])
    torch.testing.assert_close(MixedCost(*parts)(prediction, target), expected)


@pytest.mark.parametrize("loss", [chamfer_loss, hungarian_loss])
def test_boxes_with_classes_are_matched_by_both(loss, generator):
    logits = 20 * functional.one_hot(torch.tensor([[0, 1, 2]]), 3).float()
    boxes = torch.tensor([0.0, 1.0, 2.0]).view(1, 3, 1).expand(1, 3, 4)
    prediction = torch.cat([boxes, logits], dim=-1).requires_grad_()
    classes = torch.tensor([[[2.0], [0.0], [1.0], [float("nan")]]])
    order = torch.tensor([2, 0, 1, 0])
    target = torch.cat([boxes[:, order], classes], dim=-1)
    mask = torch.tensor([[True, True, True, False]])
    element = MixedCost(
        Part(slice(0, 4), "l1", weight=5.0),
        Part(slice(4, 7), "cross_entropy", target=slice(4, 5)),
    )
    result = loss(prediction, target, mask, element=element)
    torch.testing.assert_close(result, torch.zeros(1), atol=1e-6, rtol=0)  # e^-20 remains
    result.sum().backward()
    assert prediction.grad.isfinite().all()


@pytest.mark.parametrize("element", ["squared", "huber", partial(cost_matrix, "huber")])
def test_pairs_cost_what_the_matrix_says(element, generator):
    one, other = 2 * torch.randn(2, 6, 3, generator=generator)
    matrix = cost_matrix(element, one, other)
    torch.testing.assert_close(pair_costs(element, one, other), matrix.diagonal())


@pytest.mark.parametrize("cost", ["cross_entropy", "probability", "focal"])
def test_a_single_class_has_the_number_0(cost):
    logits, number = torch.tensor([[[-5.0], [5.0]]]), torch.zeros(1, 1, 1)
    one_hot = MixedCost(Part(slice(0, 2), cost))
    beside = torch.cat([logits, torch.full_like(logits, -torch.inf)], dim=-1)  # never another
    expected = one_hot(beside, torch.tensor([[[1.0, 0.0]]]))
    single = MixedCost(Part(slice(0, 1), cost))
    torch.testing.assert_close(single(logits, number), expected)
    torch.testing.assert_close(single(logits, number + 1), expected)  # its one-hot vector
    with pytest.raises(ValueError, match="class numbers from 0 to 0, got 2"):
        single(logits, number + 2)


@pytest.mark.parametrize("cost", ["cross_entropy", "probability", "focal"])
def test_a_wrong_class_that_cannot_be_is_no_problem(cost):
    classes = MixedCost(Part(slice(0, 3), cost, target=slice(0, 1)))
    numbers = torch.tensor([[[0.0], [2.0]]])
    never = torch.tensor([[[0.0, 1.0, -torch.inf]]], requires_grad=True)
    hardly = torch.tensor([[[0.0, 1.0, -80.0]]], requires_grad=True)
    costs, expected = classes(never, numbers), classes(hardly, numbers)
    torch.testing.assert_close(costs[..., 0], expected[..., 0])
    assert costs[0, 0, 1] >= expected[0, 0, 1]  # nothing is as expensive
    (found,) = torch.autograd.grad(costs[0, 0, 0], never)
    torch.testing.assert_close(found, torch.autograd.grad(expected[0, 0, 0], hardly)[0])


def test_rejects_parts_that_make_no_sense():
    sets = torch.zeros(1, 2, 3)
    with pytest.raises(ValueError, match="parts must hold at least one Part"):
        MixedCost()
    with pytest.raises(ValueError, match=r"cost must be one of .*'l1'.*, got 'cosine'"):
        MixedCost(Part(slice(0, 1), "cosine"))
    with pytest.raises(ValueError, match="got 2 of the prediction and 1 of the target"):
        MixedCost(Part(slice(0, 2), "l1", target=slice(0, 1)))(sets, sets)
    with pytest.raises(ValueError, match="at least one, got 0 of the prediction"):
        MixedCost(Part(slice(3, 5), "l1"))(sets, sets)


def test_says_what_it_compares():
    text = repr(MixedCost(Part(slice(0, 4), "l1", weight=5.0)))
    assert text.startswith("MixedCost(Part(features=slice(0, 4, None), cost='l1', weight=5.0")
