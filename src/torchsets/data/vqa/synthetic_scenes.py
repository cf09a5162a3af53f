"""Pairs of generated scenes with proposals, for questions whose answer only the scene tells.

The two scenes of a pair differ in how many objects of a class there are, in the colour and the
digit of a reference object, and in whether a lone object is there. Both have the same number of
proposals: objects give one to three each, regions of the background fill up the rest in the same
way. So neither this number nor the sizes of the boxes say anything about the objects.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.boxes import box_iou

COLOURS = ("red", "green", "blue", "yellow", "purple", "grey")
SHAPES = ("cube", "sphere", "cylinder", "cone")
DIGITS = 10
THEME, REFERENCE, LONE, OBJECTS = slice(0, 6), 6, 11, 12
"""Slots of the theme, the reference and the lone object among all; between them distractors."""
_DISTRACTORS = slice(7, 11)
_MOST = 3  # proposals of an object
_MORE = (0.5, 0.3)  # probability of one, of two of them; else there are three
_PLACES = 8
_BACKGROUNDS = 8
_VECTORS = 20_180_215  # seed of the vectors of attributes, which are the same in all data


class SceneObjects(NamedTuple):
    """What there is in each scene.

    Attributes:
        colours: Places in ``COLOURS``, (S, 12), long.
        shapes: Places in ``SHAPES``, (S, 12), long.
        digits: (S, 12), long.
        present: Whether the slot holds an object, (S, 12), bool.
        boxes: x1, y1, x2, y2 in the unit square, (S, 12, 4).
    """

    colours: Tensor
    shapes: Tensor
    digits: Tensor
    present: Tensor
    boxes: Tensor


class SceneProposals(NamedTuple):
    """The proposals of each scene in a random order, padded.

    Attributes:
        features: (S, N, D).
        boxes: In the unit square, (S, N, 4).
        mask: True where a proposal is real, (S, N), bool.
        sources: The slot of the object that a proposal shows, -1 for background, (S, N), long.
    """

    features: Tensor
    boxes: Tensor
    mask: Tensor
    sources: Tensor


def draw_objects(pairs: int, generator: torch.Generator) -> SceneObjects:
    """Draw pairs of scenes, one behind the other: S = 2 pairs."""

    def uniform(high: int, *shape: int) -> Tensor:
        return torch.randint(high, (pairs, *shape), generator=generator)

    first = uniform(7, 1)
    counts = torch.cat([first, _other(first, uniform(6, 1), 7)], dim=1)  # (P, 2)
    slots = torch.arange(OBJECTS)
    present = slots < counts.unsqueeze(2)  # (P, 2, 12)
    present[:, :, REFERENCE] = True
    present[:, :, _DISTRACTORS] = (slots[:4] < uniform(5, 1)).unsqueeze(1)
    lone_first = uniform(2) == 1
    present[:, :, LONE] = torch.stack([lone_first, ~lone_first], dim=1)

    colour, shape = uniform(len(COLOURS), 1), uniform(len(SHAPES), 1)  # of the theme
    unique = _other(shape, uniform(len(SHAPES) - 1, 1), len(SHAPES))
    colours, shapes = colour.repeat(1, OBJECTS), shape.repeat(1, OBJECTS)
    kind = uniform(4, 4)  # 0 and 1: theme's colour alone, 2: theme's shape alone, 3: neither
    other_colour = _other(colour, uniform(len(COLOURS) - 1, 4), len(COLOURS))
    other_shape = _other_of_two(shape, unique, uniform(len(SHAPES) - 2, 4))
    colours[:, _DISTRACTORS] = torch.where(kind < 2, colour, other_colour)
    shapes[:, _DISTRACTORS] = torch.where(kind == 2, shape, other_shape)
    lone = _unused_class(colours, shapes, unique, present.any(dim=1), generator)
    colours[:, LONE], shapes[:, LONE] = lone // len(SHAPES), lone % len(SHAPES)
    shapes[:, REFERENCE] = unique.squeeze(1)
    digits = uniform(DIGITS, OBJECTS)

    both_colours, both_digits = (one.unsqueeze(1).repeat(1, 2, 1) for one in (colours, digits))
    for values, size in ((both_colours, len(COLOURS)), (both_digits, DIGITS)):
        values[:, 0, REFERENCE] = uniform(size)
        drawn = uniform(size - 1)
        values[:, 1, REFERENCE] = _other(values[:, 0, REFERENCE], drawn, size)
    boxes = _place(present.any(dim=1), generator).unsqueeze(1).repeat(1, 2, 1, 1)
    both_shapes = shapes.unsqueeze(1).repeat(1, 2, 1)
    parts = (both_colours, both_shapes, both_digits, present, boxes)
    return SceneObjects(*(part.flatten(0, 1) for part in parts))


def draw_proposals(
    objects: SceneObjects,
    generator: torch.Generator,
    *,
    sizes: tuple[int, int],
    features: int,
    noise: float,
    jitter: float,
) -> SceneProposals:
    """Draw the proposals of pairs of scenes; see `synthetic_vqa` for the arguments."""
    scenes, largest = len(objects.present), sizes[1]
    size = torch.randint(sizes[0], largest + 1, (scenes // 2,), generator=generator)
    size = size.repeat_interleave(2)

    # Candidates: each object and each region of the background, three times.
    regions = OBJECTS + largest
    is_object = torch.arange(regions) < OBJECTS
    there = torch.cat([objects.present, torch.ones(scenes, largest, dtype=torch.bool)], dim=1)
    drawn = torch.rand(scenes, regions, generator=generator)
    repeats = 1 + (drawn > _MORE[0]).long() + (drawn > sum(_MORE)).long()
    number = torch.arange(_MOST).expand(scenes, regions, _MOST)
    # Each object once, then further proposals of objects in a random order, then the background.
    later = 1 + torch.rand(scenes, regions, 1, generator=generator).expand_as(number)
    order = torch.where(number == 0, 0.0, later)
    behind = 2.0 + torch.arange(regions).view(1, -1, 1)
    order = torch.where(is_object.view(1, -1, 1), order, behind)
    order = order.masked_fill((number >= repeats.unsqueeze(2)) | ~there.unsqueeze(2), torch.inf)
    chosen = order.flatten(1).argsort(dim=1, stable=True)[:, :largest]
    mask = torch.arange(largest) < size.unsqueeze(1)
    shuffled = torch.rand(mask.shape, generator=generator).masked_fill(~mask, 2.0)
    chosen = chosen.gather(1, shuffled.argsort(dim=1)) // _MOST  # regions, (S, N)

    background = _boxes(_sides((scenes, largest), generator), generator)
    places = torch.cat([objects.boxes, background], dim=1).take_along_dim(
        chosen.unsqueeze(2), dim=1
    )
    sides = places[..., 2:] - places[..., :2]
    moved = torch.randn(places.shape, generator=generator)
    boxes = (places + jitter * sides.repeat(1, 1, 2) * moved).clamp(0, 1)
    boxes = torch.cat(  # very large noise turns a box around
        [torch.minimum(boxes[..., :2], boxes[..., 2:]), boxes[..., :2].max(boxes[..., 2:])], dim=2
    )
    values = _class_vectors(objects, largest, features, generator)
    values = values + 0.6 * noise * torch.randn(values.shape, generator=generator)
    values = values.take_along_dim(chosen.unsqueeze(2), dim=1)
    values = values + 0.8 * noise * torch.randn(values.shape, generator=generator)
    sources = chosen.masked_fill((chosen >= OBJECTS) | ~mask, -1)
    padding = ~mask.unsqueeze(2)
    return SceneProposals(
        values.masked_fill(padding, 0), boxes.masked_fill(padding, 0), mask, sources
    )


def _class_vectors(
    objects: SceneObjects, backgrounds: int, features: int, generator: torch.Generator
) -> Tensor:
    """Vectors of all objects and of regions of the background, (S, 12 + backgrounds, D)."""
    fixed = torch.Generator().manual_seed(_VECTORS)
    counts = (len(COLOURS), len(SHAPES), DIGITS, _BACKGROUNDS)
    colour, shape, digit, background = (
        torch.randn(count, features, generator=fixed) for count in counts
    )
    seen = colour[objects.colours] + shape[objects.shapes] + 0.8 * digit[objects.digits]
    drawn = torch.randint(_BACKGROUNDS, (len(seen), backgrounds), generator=generator)
    return torch.cat([seen, background[drawn]], dim=1)


def _sides(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Widths and heights of objects, (*shape, 2)."""
    drawn = torch.rand(*shape, 2, generator=generator)
    side, aspect = 0.12 + 0.18 * drawn[..., 0], (0.8 * drawn[..., 1] - 0.4).exp().sqrt()
    return torch.stack([side * aspect, side / aspect], dim=-1)


def _boxes(sides: Tensor, generator: torch.Generator) -> Tensor:
    """Boxes of given sides (..., 2) anywhere in the unit square, (..., 4)."""
    corner = torch.rand(sides.shape, generator=generator) * (1 - sides)
    return torch.cat([corner, corner + sides], dim=-1)


def _place(present: Tensor, generator: torch.Generator) -> Tensor:
    """Boxes (P, 12, 4): of 8 places for each the one that overlaps earlier objects least."""
    pairs = len(present)
    sides = _sides((pairs, OBJECTS), generator)
    boxes = torch.zeros(pairs, OBJECTS, 4)
    for slot in range(OBJECTS):
        # The places have one size: the best of several sizes would be small, and sizes would tell.
        candidates = _boxes(sides[:, slot : slot + 1].expand(-1, _PLACES, -1), generator)
        best = torch.zeros(pairs, dtype=torch.long)
        if slot:
            overlap = box_iou(candidates, boxes[:, :slot])
            overlap = overlap.masked_fill(~present[:, None, :slot], 0).amax(dim=2)
            best = overlap.argmin(dim=1)
        boxes[:, slot] = candidates[torch.arange(pairs), best]
    return boxes


def _other(value: Tensor, drawn: Tensor, size: int) -> Tensor:
    """Another number below ``size``, given one drawn from ``size - 1``."""
    return (value + 1 + drawn) % size


def _other_of_two(first: Tensor, second: Tensor, drawn: Tensor) -> Tensor:
    """A shape that is neither of two, given a number drawn from two less."""
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    drawn = drawn + (drawn >= low).long()
    return drawn + (drawn >= high).long()


def _unused_class(
    colours: Tensor,
    shapes: Tensor,
    unique: Tensor,
    present: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """A class that neither theme nor distractors have, and not of the reference's shape, (P,)."""
    pairs = len(colours)
    free = torch.ones(pairs, len(COLOURS) * len(SHAPES), dtype=torch.bool)
    used = (colours * len(SHAPES) + shapes)[:, :LONE]
    theme = used[:, :1]  # nothing is the theme's class but its objects, even if there are none
    free.scatter_(1, theme, False)
    for slot in range(_DISTRACTORS.start, _DISTRACTORS.stop):
        taken = torch.where(present[:, slot : slot + 1], used[:, slot : slot + 1], theme)
        free.scatter_(1, taken, False)
    of_shape = torch.arange(len(COLOURS) * len(SHAPES)) % len(SHAPES)
    free &= of_shape != unique
    drawn = torch.rand(free.shape, generator=generator)
    return drawn.masked_fill(~free, -1).argmax(dim=1)
