from importlib import import_module

import pytest
import torch

from torchsets.boxes import box_iou
from torchsets.metrics import (
    average_precision,
    box_average_precision,
    pairwise_average_precision,
    state_average_precision,
)
from torchsets.padded import lengths_to_mask

THRESHOLDS = [0.0, 0.3, 0.5, 0.8, 0.95]
DISTANCES = [float("inf"), 2.0, 1.0, 0.5, 0.1]


def random_boxes(*shape, generator):
    corner = torch.rand(*shape, 2, generator=generator, dtype=torch.float64)
    size = 0.2 + 0.3 * torch.rand(*shape, 2, generator=generator, dtype=torch.float64)
    return torch.cat([corner, corner + size], dim=-1)


def random_states(*shape, generator):
    states = torch.rand(*shape, 18, generator=generator, dtype=torch.float64)
    states[..., 5:13].mul_(0.001)[..., :2].add_(states[..., 3:5])  # few different colours
    return states


def random_task(draw, images=7, predictions=6, targets=5, *, generator):
    """Targets, predictions near some of them, scores with ties, and a mask of targets."""
    truth = draw(images, targets, generator=generator)
    guess = draw(images, predictions, generator=generator)
    near = torch.rand(images, targets, 1, generator=generator) < 0.8
    shaken = truth + 0.03 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    guess[:, :targets] = torch.where(near, shaken, guess[:, :targets])
    scores = (torch.rand(images, predictions, generator=generator, dtype=torch.float64) * 9).round()
    sizes = torch.randint(0, targets + 1, (images,), generator=generator)
    return guess, scores, truth, lengths_to_mask(sizes, size=targets)


def area_under_curve(hits, total):
    """Interpolated average precision of a list of hits, by its definition."""
    recall = [sum(hits[: k + 1]) / total for k in range(len(hits))]
    precision = [sum(hits[: k + 1]) / (k + 1) for k in range(len(hits))]
    steps = zip([0.0, *recall[:-1]], recall, range(len(hits)), strict=True)
    return sum((now - before) * max(precision[k:]) for before, now, k in steps)


def loop(predictions, scores, target_mask, closest, threshold_met):
    """Average precision one prediction after the other."""
    ranked = sorted(
        ((i, n) for i in range(len(scores)) for n in range(scores.shape[1])),
        key=lambda place: -scores[place],
    )
    used, hits = set(), []
    for image, slot in ranked:
        candidates = target_mask[image].nonzero().flatten().tolist()
        choice = closest(image, slot, candidates)
        good = choice is not None and threshold_met(image, slot, choice)
        hits.append(good and (image, choice) not in used)
        if good:
            used.add((image, choice))
    return area_under_curve(hits, int(target_mask.sum()))


def test_interpolation_agrees_with_the_author(golden):
    data = golden("ap_interp")
    torch.testing.assert_close(average_precision(data["recall"], data["precision"]), data["ap"])


def test_interpolation_works_on_several_curves(golden):
    data = golden("ap_bbox")
    torch.testing.assert_close(average_precision(data["recall"], data["precision"]), data["ap"])


def test_box_precision_agrees_with_the_author(golden):
    data = golden("ap_bbox")
    mask = lengths_to_mask(data["gt_count"], size=data["gt"].shape[1])
    scores, boxes = data["det"][..., 0], data["det"][..., 1:]
    result = box_average_precision(boxes, scores, data["gt"], mask, thresholds=data["thresholds"])
    torch.testing.assert_close(result, data["ap"])


def test_state_precision_agrees_with_the_author(golden):
    data = golden("ap_state")
    mask = lengths_to_mask(data["gt_count"], size=data["gt"].shape[1])
    scores, states = data["det"][..., 0], data["det"][..., 1:]
    result = state_average_precision(
        states, scores, data["gt"], mask, thresholds=data["thresholds_allow_inf"]
    )
    torch.testing.assert_close(result, data["ap"])


@pytest.mark.parametrize("seed", range(4))
def test_box_precision_agrees_with_a_loop(seed):
    generator = torch.Generator().manual_seed(seed)
    boxes, scores, targets, mask = random_task(random_boxes, generator=generator)
    overlap = box_iou(boxes, targets)

    def closest(image, slot, candidates):
        return max(candidates, key=lambda m: overlap[image, slot, m], default=None)

    expected = [
        loop(boxes, scores, mask, closest, lambda i, n, m, t=t: overlap[i, n, m] >= t)
        for t in THRESHOLDS
    ]
    result = box_average_precision(boxes, scores, targets, mask, thresholds=THRESHOLDS)
    torch.testing.assert_close(result, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("seed", range(4))
def test_state_precision_agrees_with_a_loop(seed):
    generator = torch.Generator().manual_seed(seed)
    states, scores, targets, mask = random_task(random_states, generator=generator)
    distance = 3 * (states[:, :, None, :3] - targets[:, None, :, :3]).square().sum(-1).sqrt()

    def kind(state):
        return [state[a:b].argmax().item() for a, b in [(3, 5), (5, 13), (13, 16), (16, 18)]]

    def closest(image, slot, candidates):
        same = [m for m in candidates if kind(states[image, slot]) == kind(targets[image, m])]
        return min(same, key=lambda m: distance[image, slot, m], default=None)

    expected = [
        loop(states, scores, mask, closest, lambda i, n, m, t=t: distance[i, n, m] <= t)
        for t in DISTANCES
    ]
    result = state_average_precision(states, scores, targets, mask, thresholds=DISTANCES)
    torch.testing.assert_close(result, torch.tensor(expected, dtype=torch.float64))


def points_by_distance(points, scores, targets, target_mask, *, thresholds, mask=None):
    return pairwise_average_precision(
        torch.cdist(points, targets), scores, target_mask, thresholds=thresholds, mask=mask
    )


def points_by_similarity(points, scores, targets, target_mask, *, thresholds, mask=None):
    return pairwise_average_precision(
        -torch.cdist(points, targets),
        scores,
        target_mask,
        thresholds=[-threshold for threshold in thresholds],
        largest=True,
        mask=mask,
    )


def random_points(*shape, generator):
    return torch.rand(*shape, 3, generator=generator, dtype=torch.float64)


def test_pairs_of_boxes_give_the_precision_of_boxes(generator):
    boxes, scores, targets, mask = random_task(random_boxes, generator=generator)
    real = torch.rand(scores.shape, generator=generator) < 0.8
    expected = box_average_precision(boxes, scores, targets, mask, thresholds=THRESHOLDS, mask=real)
    overlap = box_iou(boxes, targets)
    result = pairwise_average_precision(
        overlap, scores, mask, thresholds=THRESHOLDS, largest=True, mask=real
    )
    assert torch.equal(result, expected)


@pytest.mark.parametrize("metric", [points_by_distance, points_by_similarity])
@pytest.mark.parametrize("seed", range(3))
def test_pairwise_precision_agrees_with_a_loop(metric, seed):
    generator = torch.Generator().manual_seed(seed)
    points, scores, targets, mask = random_task(random_points, generator=generator)
    distance = torch.cdist(points, targets)

    def closest(image, slot, candidates):
        return min(candidates, key=lambda m: distance[image, slot, m], default=None)

    expected = [
        loop(points, scores, mask, closest, lambda i, n, m, t=t: distance[i, n, m] <= t)
        for t in DISTANCES
    ]
    result = metric(points, scores, targets, mask, thresholds=DISTANCES)
    torch.testing.assert_close(result, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
@pytest.mark.parametrize("largest", [False, True])
def test_a_forbidden_pair_is_never_matched_and_not_chosen(bad, largest):
    sign = -1 if largest else 1
    pairs = sign * torch.tensor([[[bad, 3.0], [bad, bad]]])
    result = pairwise_average_precision(
        pairs,
        torch.tensor([[0.5, 0.9]]),
        thresholds=[sign * torch.inf, sign * 2.0],
        largest=largest,
    )
    assert result.tolist() == [0.25, 0.0]  # found second, one of two targets


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(pairs=torch.zeros(2, 3)), r"pairs must have shape \(I, N, M\) = \(any, any, any\)"),
        (dict(pairs=torch.zeros(2, 3, 4).long()), "pairs must be floating point"),
        (dict(scores=torch.zeros(2, 4)), r"scores must have shape \(I, N\) = \(2, 3\)"),
        (dict(scores=torch.zeros(2, 3).long()), "scores must be floating point"),
        (dict(target_mask=torch.ones(2, 3).bool()), r"target_mask must have shape \(2, 4\)"),
        (dict(mask=torch.ones(2, 4).bool()), r"mask must have shape \(2, 3\) to match pairs"),
        (dict(mask=torch.ones(2, 3)), "mask must be bool"),
    ],
)
def test_pairwise_precision_rejects_bad_input(arguments, message):
    good = dict(pairs=torch.zeros(2, 3, 4), scores=torch.zeros(2, 3))
    with pytest.raises(ValueError, match=message):
        pairwise_average_precision(**{**good, **arguments}, thresholds=[0.5])


def test_half_precision_crosses_no_threshold():
    close = torch.tensor([[[0.98828125]]]).bfloat16()
    at = dict(thresholds=[0.98, 0.99], largest=True)
    precision = pairwise_average_precision(close, torch.ones(1, 1).bfloat16(), **at)
    assert precision.tolist() == [1.0, 0.0]
    boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0]], [[0.0, 0.0, 1.0, 0.98828125]]]).bfloat16()
    real = torch.ones(1, 1, dtype=torch.bool)
    arguments = boxes[:1], torch.ones(1, 1), boxes[1:], real
    assert box_average_precision(*arguments, thresholds=[0.98, 0.99]).tolist() == [1.0, 0.0]
    state = torch.zeros(1, 1, 18)
    state[..., [3, 5, 13, 16]] = 1.0
    moved = state.clone()
    moved[..., 0] = 1.0
    moved[..., 1] = 1.0  # 3 times the square root of 2, 4.2426; 4.25 in bfloat16
    arguments = moved.bfloat16(), torch.ones(1, 1), state.bfloat16(), real
    assert state_average_precision(*arguments, thresholds=[4.243, 4.242]).tolist() == [1.0, 0.0]


def test_the_precision_is_not_rounded_to_half(generator):
    boxes, scores, targets, mask = random_task(random_boxes, generator=generator)
    half = scores.bfloat16()
    expected = box_average_precision(boxes, half.double(), targets, mask, thresholds=[0.5])
    assert expected != expected.bfloat16().double()
    found = box_average_precision(boxes, half, targets, mask, thresholds=[0.5])
    torch.testing.assert_close(found, expected.float())


METRICS = [
    pytest.param(points_by_distance, random_points, DISTANCES, id="distances"),
    pytest.param(points_by_similarity, random_points, DISTANCES, id="similarities"),
    pytest.param(box_average_precision, random_boxes, THRESHOLDS, id="boxes"),
    pytest.param(state_average_precision, random_states, DISTANCES, id="states"),
]


@pytest.mark.parametrize(("metric", "draw", "thresholds"), METRICS)
def test_padding_of_predictions_and_targets_is_ignored(metric, draw, thresholds, generator):
    guess, scores, truth, mask = random_task(draw, generator=generator)
    expected = metric(guess, scores, truth, mask, thresholds=thresholds)
    void = torch.full_like(guess, torch.nan)
    real = torch.ones_like(scores, dtype=torch.bool)
    result = metric(
        torch.stack([void, guess], dim=2).flatten(1, 2),
        torch.stack([scores + torch.inf, scores], dim=2).flatten(1, 2),
        truth.masked_fill(~mask.unsqueeze(-1), torch.nan),
        mask,
        thresholds=thresholds,
        mask=torch.stack([~real, real], dim=2).flatten(1, 2),
    )
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize(
    ("metric", "features", "threshold"),
    [(box_average_precision, 4, 0.0), (state_average_precision, 18, float("inf"))],
)
def test_padding_finds_no_target(metric, features, threshold):
    targets, real = torch.zeros(1, 1, features), torch.ones(1, 1, dtype=torch.bool)
    result = metric(targets, torch.ones(1, 1), targets, real, thresholds=[threshold], mask=~real)
    assert result.tolist() == [0.0]


@pytest.mark.parametrize(("metric", "draw", "thresholds"), METRICS)
def test_the_order_of_images_predictions_and_targets_does_not_matter(
    metric, draw, thresholds, generator
):
    guess, scores, truth, mask = random_task(draw, generator=generator)
    scores = torch.rand(scores.shape, generator=generator)  # without ties
    expected = metric(guess, scores, truth, mask, thresholds=thresholds)
    images, slots, places = (torch.randperm(n, generator=generator) for n in (7, 6, 5))
    result = metric(
        guess[images][:, slots],
        scores[images][:, slots],
        truth[images][:, places],
        mask[images][:, places],
        thresholds=thresholds,
    )
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize(("metric", "draw", "thresholds"), METRICS)
def test_perfect_predictions_score_one(metric, draw, thresholds, generator):
    _, _, truth, mask = random_task(draw, generator=generator)
    scores = torch.rand(mask.shape, generator=generator)
    result = metric(truth, scores, truth, mask, thresholds=thresholds, mask=mask)
    assert result.tolist() == [1.0] * len(thresholds)


@pytest.mark.parametrize(("metric", "draw", "thresholds"), METRICS)
@pytest.mark.parametrize(
    ("images", "predictions", "targets"), [(2, 3, 0), (2, 0, 3), (0, 3, 3), (2, 0, 0)]
)
def test_nothing_to_find_or_nothing_found_is_zero(
    metric, draw, thresholds, images, predictions, targets, generator
):
    guess = draw(images, predictions, generator=generator)
    truth = draw(images, targets, generator=generator)
    scores = torch.zeros(images, predictions)
    real = torch.ones(images, targets, dtype=torch.bool)
    result = metric(guess, scores, truth, real, thresholds=thresholds)
    assert result.tolist() == [0.0] * len(thresholds)


def test_the_second_prediction_of_one_target_is_wrong():
    box = torch.tensor([[[0.0, 0.0, 1.0, 1.0]]])
    twice, scores = box.repeat(1, 2, 1), torch.tensor([[0.9, 0.8]])
    targets = torch.cat([box, box + 5], dim=1)
    real = torch.ones(1, 2, dtype=torch.bool)
    result = box_average_precision(twice, scores, targets, real, thresholds=[0.5])
    assert result.tolist() == [0.5]


def test_many_images_are_compared_in_parts(monkeypatch, generator):
    task = random_task(random_boxes, generator=generator)
    whole = box_average_precision(*task, thresholds=THRESHOLDS)
    module = import_module("torchsets.metrics.average_precision")
    monkeypatch.setattr(module, "_CHUNK", 1)
    torch.testing.assert_close(box_average_precision(*task, thresholds=THRESHOLDS), whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(boxes=torch.zeros(2, 3, 5)), r"boxes must have shape \(I, N, D\) = \(any, any, 4\)"),
        (dict(scores=torch.zeros(2, 1)), r"scores must have shape \(I, N\) = \(2, 3\)"),
        (dict(scores=torch.zeros(2, 3).long()), "scores must be floating point"),
        (dict(targets=torch.zeros(1, 3, 4)), r"target_mask must have shape \(1, 3\)"),
        (
            dict(targets=torch.zeros(1, 3, 4), target_mask=torch.ones(1, 3).bool()),
            r"targets must have shape \(I, M, D\) = \(2, any, 4\)",
        ),
        (dict(target_mask=torch.ones(2, 3)), "target_mask must be bool"),
        (dict(mask=torch.ones(2, 3)), "mask must be bool"),
    ],
)
def test_rejects_bad_input(arguments, message):
    good = dict(
        boxes=torch.zeros(2, 3, 4),
        scores=torch.zeros(2, 3),
        targets=torch.zeros(2, 3, 4),
        target_mask=torch.ones(2, 3, dtype=torch.bool),
    )
    with pytest.raises(ValueError, match=message):
        box_average_precision(**{**good, **arguments}, thresholds=[0.5])


def test_one_threshold_is_a_list_too():
    with pytest.raises(ValueError, match=r"thresholds must have shape \(T,\) = \(any\), got \(\)"):
        pairwise_average_precision(torch.zeros(1, 1, 1), torch.zeros(1, 1), thresholds=0.5)


def test_rejects_curves_of_different_lengths():
    with pytest.raises(ValueError, match=r"same shape \(\.\.\., K\), got \(3,\) and \(2,\)"):
        average_precision(torch.zeros(3), torch.zeros(2))


def test_a_score_that_is_nan_comes_last():
    distance = torch.tensor([[[0.0], [5.0]]])
    for low in (0.1, float("nan")):
        scores = torch.tensor([[0.9, low]])
        result = pairwise_average_precision(distance, scores, thresholds=(1.0,))
        assert result.tolist() == [1.0]
