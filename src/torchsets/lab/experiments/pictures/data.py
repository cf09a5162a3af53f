"""Pictures of scenes, what is to be predicted from them, and how predictions are scored."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from torchsets.data import (
    clevr_pictures,
    render_scenes,
    rendered_scenes,
    scene_boxes,
    scene_states,
)
from torchsets.data.rendered_splits import ScenePictures
from torchsets.data.scenes import Scenes
from torchsets.lab.experiments.outcomes import Measure
from torchsets.lab.experiments.pictures.configs import OBJECTS, Pictures
from torchsets.metrics import box_average_precision, state_average_precision
from torchsets.padded import SetBatch, SetPrediction

TRAINING_SEED, TEST_SEED = 1_000_003, 2_000_003
FEATURES = {"states": 18, "boxes": 4}


class Compared(NamedTuple):
    """A table of the thesis beside which our numbers stand.

    Attributes:
        key: Of the table.
        columns: A column for each threshold.
        precision: A prediction and the true sets to average precisions in %, (thresholds,).
    """

    key: str
    columns: Sequence[str]
    precision: Measure


class Target(NamedTuple):
    """What is predicted.

    Attributes:
        name: states or boxes.
        table: The key of our table.
        columns: A column for each threshold.
        precision: A prediction and the true sets to average precisions in %, (thresholds,).
        thesis: The thesis' tables of a DSPN that is trained for all sets, and for the last.
        ablation: The thesis' table of poolings.
    """

    name: str
    table: str
    columns: Sequence[str]
    precision: Measure
    thesis: dict[str, tuple[Compared, ...]]
    ablation: Compared


def _precision(measure: Callable[..., Tensor], thresholds: Sequence[float]) -> Measure:
    def in_percent(prediction: SetPrediction, sets: SetBatch) -> Tensor:
        return 100 * measure(prediction.elements, prediction.presence, *sets, thresholds=thresholds)

    return in_percent


_DISTANCES = (float("inf"), 1.0, 0.5, 0.25, 0.125)
_STATE_COLUMNS = [f"AP_{distance:g}" for distance in _DISTANCES]
_STATE_PRECISION = _precision(state_average_precision, _DISTANCES)
_OVERLAPS, _STRICT = (50, 60, 70, 80, 90), (50, 90, 95, 98, 99)

_BOX_COLUMNS = [f"AP{overlap}" for overlap in _OVERLAPS]
_BOX_PRECISION = _precision(box_average_precision, [overlap / 100 for overlap in _OVERLAPS])
_STRICT_COLUMNS = [f"AP{overlap}" for overlap in _STRICT]
_STRICT_PRECISION = _precision(box_average_precision, [overlap / 100 for overlap in _STRICT])

STATES = Target(
    "states",
    "dspn-images",
    _STATE_COLUMNS,
    _STATE_PRECISION,
    {
        "all": (Compared("dspn/state-fixed", _STATE_COLUMNS, _STATE_PRECISION),),
        "last": (Compared("dspn/state", _STATE_COLUMNS, _STATE_PRECISION),),
    },
    Compared("dspn/state-fspool", _STATE_COLUMNS, _STATE_PRECISION),
)
BOXES = Target(
    "boxes",
    "dspn-boxes",
    _BOX_COLUMNS,
    _BOX_PRECISION,
    {
        "all": (Compared("dspn/box-fixed2", _BOX_COLUMNS, _BOX_PRECISION),),
        "last": (
            Compared("dspn/box-fixed1", _BOX_COLUMNS, _BOX_PRECISION),
            Compared("dspn/box", _STRICT_COLUMNS, _STRICT_PRECISION),
        ),
    },
    Compared("dspn/box-fspool", _STRICT_COLUMNS, _STRICT_PRECISION),
)


class Batch(NamedTuple):
    """Pictures, what they show, and where a DSPN starts.

    Attributes:
        images: (B, 3, H, W), uint8.
        elements: The objects, (B, slots, D), 0 at padding.
        mask: True at real ones, (B, slots).
        noise: Standard normal numbers, (B, slots, D).
        joint: Whether all parts are trained together by now.
        steps: Of a DSPN in training. None: as many as it has.
    """

    images: Tensor
    elements: Tensor
    mask: Tensor
    noise: Tensor
    joint: bool = True
    steps: int | None = None


class Split(NamedTuple):
    """Pictures and their targets.

    Attributes:
        images: (S, 3, H, W), uint8.
        sets: The states or boxes of the objects, with a slot for every possible one.
    """

    images: Tensor
    sets: SetBatch

    def draw(
        self,
        chosen: Tensor,
        generator: torch.Generator,
        *,
        joint: bool = True,
        steps: int | None = None,
    ) -> Batch:
        """Choose some pictures, and draw a start for each."""
        elements, mask = self.sets.select(chosen)
        noise = torch.randn(elements.shape, generator=generator)
        return Batch(self.images[chosen], elements, mask, noise, joint, steps)


def load_split(config: Pictures, target: str, *, training: bool) -> Split:
    """Render or read the pictures of a split, and compute what is to be predicted."""
    low, high = OBJECTS[config.objects]
    count = config.training_scenes if training else config.test_scenes
    if config.dataset == "rendered":
        seed = (TRAINING_SEED if training else TEST_SEED) + config.seed
        found = rendered_scenes(count or 0, objects=(low, high), seed=seed, size=config.size)
    else:
        found = _few_objects(clevr_pictures("train" if training else "val", size=config.size), high)
        found = ScenePictures(found.scenes[:count], found.images[:count])
    sets = _targets(found.scenes, config, target)
    return Split(found.images, forget(sets, config.missing, config.seed) if training else sets)


def forget(sets: SetBatch, share: float, seed: int) -> SetBatch:
    """Drop a share of the elements at random, as if nobody had noted them down."""
    generator = torch.Generator().manual_seed(seed)
    mask = sets.mask & (torch.rand(sets.mask.shape, generator=generator) >= share)
    return SetBatch(sets.elements.masked_fill(~mask.unsqueeze(-1), 0), mask)


class RealPictures(NamedTuple):
    """Real pictures, and our renderings of the same scenes."""

    pictures: Split
    renderings: Split


def real_pictures(config: Pictures, target: str) -> RealPictures | None:
    """The real pictures that are on disk with few enough objects; None if there are none.

    Those of both splits where nothing was trained on either; otherwise those of the test alone.
    """
    found = []
    for split in ("val",) if config.dataset == "clevr" else ("train", "val"):
        try:
            found.append(clevr_pictures(split, size=config.size))
        except FileNotFoundError:
            continue
    kept = [_few_objects(one, OBJECTS[config.objects][1]) for one in found]
    if not kept:
        return None
    sets = [_targets(one.scenes, config, target) for one in kept]
    both = SetBatch(*(torch.cat(parts) for parts in zip(*sets, strict=True)))
    rendered = torch.cat([render_scenes(one.scenes, size=config.size) for one in kept])
    return RealPictures(Split(torch.cat([one.images for one in kept]), both), Split(rendered, both))


def _targets(scenes: Scenes, config: Pictures, target: str) -> SetBatch:
    """What is to be predicted, with a slot for every possible object."""
    thesis = config.dataset == "clevr"  # its estimate of the boxes, which are not clipped
    if target == "states":
        sets = scene_states(scenes)
    else:
        sets = scene_boxes(scenes, clip=not thesis, boxes="thesis" if thesis else "exact")
        boxes = config.box_scale * (sets.elements - config.box_centre)
        sets = SetBatch(boxes.masked_fill(~sets.mask.unsqueeze(-1), 0), sets.mask)
    missing = OBJECTS[config.objects][1] - sets.mask.shape[1]  # few scenes may all be small
    return SetBatch(pad(sets.elements, (0, 0, 0, missing)), pad(sets.mask, (0, missing)))


def in_shares(boxes: Tensor, config: Pictures) -> Tensor:
    """Boxes as they are learned to shares of the picture's sides."""
    return boxes / config.box_scale + config.box_centre


def _few_objects(found: ScenePictures, most: int) -> ScenePictures:
    few = (found.scenes.sizes <= most).nonzero().flatten()
    return ScenePictures(found.scenes[few], found.images[few])
