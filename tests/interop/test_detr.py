"""DETR's matcher beside a plain loop; beside the one of Hugging Face in a slow test."""

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from torchsets.boxes import centres_to_corners
from torchsets.interop.detr import DetrMatcher
from torchsets.losses import MixedCost, Part


def draw(sizes, *, slots=12, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def boxes(*shape):
        return 0.1 + 0.5 * torch.rand(*shape, 4, generator=generator)

    outputs = {
        "logits": torch.randn(len(sizes), slots, classes, generator=generator),
        "pred_boxes": boxes(len(sizes), slots),
    }
    targets = [
        {"class_labels": torch.randint(classes, (n,), generator=generator), "boxes": boxes(n)}
        for n in sizes
    ]
    return outputs, targets


def slow_match(outputs, targets, weights, classes):
    """One image after the other: costs of MixedCost, which has tests of its own, and scipy."""
    class_cost, bbox_cost, giou_cost = weights
    count = outputs["logits"].shape[-1]
    element = MixedCost(
        Part(slice(0, 4), "l1", bbox_cost),
        Part(slice(4, 8), "giou", giou_cost),
        Part(slice(8, 8 + count), classes, class_cost, target=slice(8, 9)),
    )
    pairs = []
    for image, target in enumerate(targets):
        boxes, wanted = outputs["pred_boxes"][image], target["boxes"]
        numbers = target["class_labels"].unsqueeze(1)
        prediction = [boxes, centres_to_corners(boxes), outputs["logits"][image]]
        annotation = [wanted, centres_to_corners(wanted), numbers]
        cost = element(
            torch.cat([one.double() for one in prediction], dim=-1),
            torch.cat([one.double() for one in annotation], dim=-1),
        )
        pairs.append(tuple(map(torch.as_tensor, linear_sum_assignment(cost))))
    return pairs


def assert_same_pairs(got, expected):
    assert len(got) == len(expected)
    for (slots, numbers), (wanted_slots, wanted_numbers) in zip(got, expected, strict=True):
        assert slots.dtype == numbers.dtype == torch.int64
        assert slots.tolist() == wanted_slots.tolist()
        assert numbers.tolist() == wanted_numbers.tolist()


# By the class alone two targets of one class would cost the same: 0.01 tells them apart.
@pytest.mark.parametrize("classes", ["probability", "focal"])
@pytest.mark.parametrize("weights", [(1.0, 5.0, 2.0), (1.0, 0.01, 0.0), (0.0, 1.0, 0.0), (0, 0, 1)])
@pytest.mark.parametrize("sizes", [[3, 0, 7], [1], [12, 13, 2], [20]])
def test_matches_a_plain_loop(sizes, weights, classes):
    outputs, targets = draw(sizes)
    matcher = DetrMatcher(*weights, classes=classes)
    assert_same_pairs(matcher(outputs, targets), slow_match(outputs, targets, weights, classes))


def test_all_layers_are_matched_in_one_call():
    matcher = DetrMatcher(1, 5, 2)
    layers = [draw([3, 0, 13], seed=seed)[0] for seed in range(4)]
    targets = draw([3, 0, 13])[1]
    together = matcher.match_layers(layers, targets)
    assert len(together) == 4
    for outputs, pairs in zip(layers, together, strict=True):
        assert_same_pairs(pairs, matcher(outputs, targets))


def test_the_names_of_the_original_work_too():
    outputs, targets = draw([3, 2])
    renamed = {"pred_logits": outputs["logits"], "pred_boxes": outputs["pred_boxes"]}
    labels = [{"labels": one["class_labels"], "boxes": one["boxes"]} for one in targets]
    assert_same_pairs(DetrMatcher()(renamed, labels), DetrMatcher()(outputs, targets))


def test_images_without_boxes_have_no_pairs():
    outputs, targets = draw([0, 0])
    (first, _), _ = DetrMatcher()(outputs, targets)
    assert first.tolist() == []
    outputs, targets = draw([])
    assert DetrMatcher()(outputs, targets) == []


def test_an_empty_list_of_labels_has_no_type():
    outputs, targets = draw([3, 0])
    expected = DetrMatcher()(outputs, targets)
    targets[1]["class_labels"] = torch.tensor([])  # float32, as torch makes it
    assert_same_pairs(DetrMatcher()(outputs, targets), expected)
    assert DetrMatcher().match_layers([], targets) == []


def test_an_image_gives_the_same_pairs_alone():
    outputs, targets = draw([3, 9, 1])
    together = DetrMatcher(1, 5, 2)(outputs, targets)
    for image in range(3):
        alone = {name: one[image : image + 1] for name, one in outputs.items()}
        assert_same_pairs(
            DetrMatcher(1, 5, 2)(alone, targets[image : image + 1]), together[image:][:1]
        )


def test_what_is_invalid_is_matched_last():
    outputs, targets = draw([3], slots=4)
    outputs["pred_boxes"][0, 1] = float("nan")
    ((slots, _),) = DetrMatcher()(outputs, targets)
    assert slots.tolist() == [0, 2, 3]


def test_half_precision_and_gradients_do_no_harm():
    outputs, targets = draw([3, 5])
    exact = {name: one.bfloat16().float() for name, one in outputs.items()}
    half = {name: one.bfloat16().requires_grad_() for name, one in outputs.items()}
    assert_same_pairs(DetrMatcher(1, 5, 2)(half, targets), DetrMatcher(1, 5, 2)(exact, targets))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o, t: o.pop("logits"), r"must have 'logits' or 'pred_logits', got only \['pred_b"),
        (lambda o, t: t[0].pop("boxes"), r"must have 'boxes', got only \['class_labels'\]"),
        (lambda o, t: t.pop(), "one for each of the 2 images, got 1"),
        (
            lambda o, t: o.update(pred_boxes=torch.zeros(2, 12, 3)),
            r"got \(2, 12, 5\) and \(2, 12, 3",
        ),
        (lambda o, t: t[1].update(boxes=torch.zeros(1, 4)), r"\(2,\) and \(1, 4\) in image 1"),
        (lambda o, t: t[1].update(class_labels=torch.tensor([0, 9])), "from 0 to 4, got 0 to 9"),
        (lambda o, t: t[1].update(class_labels=torch.tensor([0, -1])), "from 0 to 4, got -1 to"),
    ],
)
def test_mistakes_are_named(change, message):
    outputs, targets = draw([3, 2])
    change(outputs, targets)
    with pytest.raises(ValueError, match=message):
        DetrMatcher()(outputs, targets)


def test_weights_and_names_of_costs_are_checked():
    with pytest.raises(ValueError, match="must not all be 0"):
        DetrMatcher(0, 0, 0)
    with pytest.raises(ValueError, match='classes must be "probability" or "focal"'):
        DetrMatcher(classes="softmax")


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2, 8])
def test_a_detector_of_hugging_face_has_the_same_loss(batch, monkeypatch):
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed: pip install transformers"
    )
    from transformers.loss import loss_for_object_detection as theirs

    torch.manual_seed(0)
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=backbone,
        d_model=32,
        encoder_layers=1,
        decoder_layers=3,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=20,
        num_labels=5,
        auxiliary_loss=True,
        dropout=0.0,
    )
    model = transformers.DetrForObjectDetection(config)
    with torch.no_grad():  # or all queries predict nearly the same, and rounding decides
        model.model.query_position_embeddings.weight.mul_(30)
    _, targets = draw([3, 0, 5, 1, 9, 2, 4, 1][:batch])
    pixels = torch.rand(batch, 3, 64, 64)

    def step():
        model.zero_grad()
        output = model(pixel_values=pixels, labels=targets)
        output.loss.backward()
        gradients = [one.grad.clone() for one in model.parameters() if one.grad is not None]
        return output.loss.detach(), gradients

    expected, expected_gradients = step()
    calls = []

    class Ours(DetrMatcher):
        def forward(self, outputs, targets):
            calls.append(1)
            return super().forward(outputs, targets)

    monkeypatch.setattr(theirs, "HungarianMatcher", Ours)
    loss, gradients = step()
    assert len(calls) == config.decoder_layers
    torch.testing.assert_close(loss, expected)
    for got, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-3)  # sums in another order


def test_labels_that_are_no_class_numbers_are_refused():
    outputs = {"logits": torch.zeros(1, 3, 2), "pred_boxes": torch.rand(1, 3, 4)}
    target = {"class_labels": torch.tensor([1.7]), "boxes": torch.rand(1, 4)}
    with pytest.raises(ValueError, match=r"labels must be integers, got torch\.float32 in image 0"):
        DetrMatcher()(outputs, [target])
    empty = {"class_labels": torch.zeros(0), "boxes": torch.zeros(0, 4)}  # as torch.tensor([]) is
    assert len(DetrMatcher()(outputs, [empty])[0][0]) == 0
