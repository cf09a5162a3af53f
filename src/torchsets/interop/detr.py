"""A matcher with the signature of DETR's, for detectors of Hugging Face and the like."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from torchsets._inputs import Array
from torchsets.giou import giou_of_edges
from torchsets.losses.elements import focal_cost
from torchsets.matching import assign_flat

Outputs = Mapping[str, Tensor]
Pair = tuple[Tensor, Tensor]


class DetrMatcher(nn.Module):
    """Match predicted with annotated boxes: the same pairs as DETR's matcher, in less time.

    It takes the place of ``HungarianMatcher`` of Hugging Face's transformers. Costs are computed
    between the boxes of one image, and not of all images of a batch; all layers of a decoder can
    be matched in one call. A pair whose cost is nan or infinite is chosen last.

    Args:
        class_cost: Weight of the class.
        bbox_cost: Weight of the L1 distance of the boxes.
        giou_cost: Weight of minus the generalised intersection over union.
        classes: "probability": minus the softmax probability of the class, as in DETR. "focal":
            the focal cost of independent classes, as in Deformable DETR.

    Raises:
        ValueError: If all weights are 0, or ``classes`` is none of the above.

    Example:
        >>> boxes = torch.tensor([[[0.2, 0.2, 0.1, 0.1], [0.8, 0.8, 0.1, 0.1]]])
        >>> outputs = {"logits": torch.zeros(1, 2, 3), "pred_boxes": boxes}
        >>> wanted = torch.tensor([[0.8, 0.8, 0.2, 0.2]])
        >>> targets = [{"class_labels": torch.tensor([1]), "boxes": wanted}]
        >>> DetrMatcher(bbox_cost=5.0, giou_cost=2.0)(outputs, targets)
        [(tensor([1]), tensor([0]))]

    Reference:
        Carion et al., End-to-End Object Detection with Transformers, 2020,
        https://arxiv.org/abs/2005.12872, section 3.1
    """

    def __init__(
        self,
        class_cost: float = 1.0,
        bbox_cost: float = 1.0,
        giou_cost: float = 1.0,
        *,
        classes: Literal["probability", "focal"] = "probability",
    ) -> None:
        super().__init__()
        if class_cost == bbox_cost == giou_cost == 0:
            raise ValueError("class_cost, bbox_cost and giou_cost must not all be 0")
        if classes not in ("probability", "focal"):
            raise ValueError(f'classes must be "probability" or "focal", got {classes!r}')
        self.class_cost = class_cost
        self.bbox_cost = bbox_cost
        self.giou_cost = giou_cost
        self.classes = classes

    def forward(self, outputs: Outputs, targets: Sequence[Outputs]) -> list[Pair]:
        """Match the predictions of one layer.

        Args:
            outputs: "logits" or "pred_logits" (B, N, C), and "pred_boxes" (B, N, 4), as
                (centre x, centre y, width, height).
            targets: For each image a dict with "class_labels" or "labels" (n,), long, and
                "boxes" (n, 4), of the same form.

        Returns:
            For each image the slots, in increasing order, and the targets that they are matched
            with, both long with min(n, N) entries, on the CPU.

        Raises:
            ValueError: If an entry is missing or a shape differs from the above.
        """
        return self.match_layers([outputs], targets)[0]

    @torch.no_grad()
    def match_layers(
        self, layers: Sequence[Outputs], targets: Sequence[Outputs]
    ) -> list[list[Pair]]:
        """Match the predictions of several layers with the same targets, all at once.

        Args:
            layers: The outputs of each layer; see :meth:`forward`. DETR has them as
                ``[outputs, *outputs["auxiliary_outputs"]]``.
            targets: As in :meth:`forward`.

        Returns:
            What :meth:`forward` gives for each of the layers.
        """
        if not layers:
            return []
        logits = _join(layers, "logits", "pred_logits")  # (L, B, N, C)
        boxes = _join(layers, "pred_boxes", "pred_boxes")  # (L, B, N, 4)
        labels = [_entry(target, "class_labels", "labels") for target in targets]
        wanted = [_entry(target, "boxes", "boxes") for target in targets]
        sizes = [len(one) for one in wanted]
        _check(logits, boxes, labels, wanted)
        if any(sizes):
            place = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(boxes.device)
            numbers = torch.cat([one.long() for one in labels])  # an empty one may be float
            _check_classes(numbers, logits.shape[-1])
            cost = self._cost(logits, boxes, numbers, torch.cat(wanted), place)
            slots = assign_flat(cost.cpu(), sizes, invalid="worst").numpy()
        else:
            slots = np.zeros((len(layers), 0), dtype=np.int64)
        return _pairs(slots, sizes, logits.shape[2])

    def _cost(
        self, logits: Tensor, boxes: Tensor, labels: Tensor, wanted: Tensor, place: Tensor
    ) -> Tensor:
        """The cost of each target with each slot of its image, (L, total, N)."""
        if self.classes == "probability":
            chances = logits.softmax(dim=-1).mT[:, place, labels]
            cost = chances.mul_(-self.class_cost)
        else:
            cost = focal_cost(logits.mT[:, place, labels]).mul_(self.class_cost)
        # Coordinates come first, (8, L, total, N) and (8, 1, total, 1).
        ours = _with_edges(boxes.movedim(-1, 0)).index_select(2, place)
        theirs = _with_edges(wanted.to(boxes).t()[:, None, :, None])
        cost.add_((ours[:4] - theirs[:4]).abs_().sum(dim=0), alpha=self.bbox_cost)
        return cost.sub_(giou_of_edges(ours[4:], theirs[4:]), alpha=self.giou_cost)


def _entry(dictionary: Outputs, name: str, other: str) -> Tensor:
    if name in dictionary:
        return dictionary[name]
    if other in dictionary:
        return dictionary[other]
    known = f"{name!r}" if name == other else f"{name!r} or {other!r}"
    raise ValueError(f"outputs and targets must have {known}, got only {sorted(dictionary)}")


def _join(layers: Sequence[Outputs], name: str, other: str) -> Tensor:
    """One entry of all layers, in float32 at least, with an axis for the layers."""
    entries = [_entry(layer, name, other) for layer in layers]
    joined = torch.stack(entries) if len(entries) > 1 else entries[0].unsqueeze(0)
    return joined.to(torch.promote_types(joined.dtype, torch.float32))


def _check(logits: Tensor, boxes: Tensor, labels: list[Tensor], wanted: list[Tensor]) -> None:
    if logits.ndim != 4 or boxes.shape != (*logits.shape[:-1], 4):
        raise ValueError(
            "logits and pred_boxes must have shapes (B, N, C) and (B, N, 4), "
            f"got {tuple(logits.shape[1:])} and {tuple(boxes.shape[1:])}"
        )
    if len(wanted) != logits.shape[1]:
        raise ValueError(
            f"targets must be one for each of the {logits.shape[1]} images, got {len(wanted)}"
        )
    for image, (numbers, one) in enumerate(zip(labels, wanted, strict=True)):
        if one.shape != (len(numbers), 4) or numbers.ndim != 1:
            raise ValueError(
                "labels and boxes of a target must have shapes (n,) and (n, 4), "
                f"got {tuple(numbers.shape)} and {tuple(one.shape)} in image {image}"
            )
        if len(numbers) and numbers.is_floating_point():
            raise ValueError(f"labels must be integers, got {numbers.dtype} in image {image}")


def _check_classes(numbers: Tensor, classes: int) -> None:
    if numbers.device.type != "cpu":  # reading values makes a GPU wait
        return
    least, largest = int(numbers.min()), int(numbers.max())
    if not 0 <= least <= largest < classes:
        raise ValueError(
            f"labels must be class numbers from 0 to {classes - 1}, got {least} to {largest}"
        )


def _with_edges(boxes: Tensor) -> Tensor:
    """Boxes with centres and sizes, (4, ...), and after them their edges, (8, ...)."""
    centre, half = boxes[:2], boxes[2:] / 2
    return torch.cat([boxes, half - centre, half + centre])


def _pairs(slots: Array, sizes: list[int], count: int) -> list[list[Pair]]:
    """The slot of each target, (L, total), as pairs for each layer and image, by slot."""
    ends = list(accumulate(sizes, initial=0))
    layers = []
    for layer in slots:
        images = []
        for begin, end in pairwise(ends):
            own = layer[begin:end]
            # Targets without a slot have -1 and come first: there are as many as slots lack.
            order = own.argsort()[max(0, end - begin - count) :]
            images.append((torch.from_numpy(own[order]), torch.from_numpy(order)))
        layers.append(images)
    return layers
