"""Scenes of CLEVR's world: objects on a plane, with four attributes each, stored flat."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._checks import check_padded_sets, check_shape
from torchsets._inputs import Array, run_places, to_index, to_sizes
from torchsets.padded import SetBatch, plural, span

VALUES: dict[str, tuple[str, ...]] = {
    "color": ("cyan", "blue", "yellow", "purple", "red", "green", "gray", "brown"),
    "material": ("rubber", "metal"),
    "shape": ("sphere", "cube", "cylinder"),
    "size": ("large", "small"),
}
"""The attributes of an object and their values, spelt as in CLEVR's files, in our order."""
ATTRIBUTES = tuple(VALUES)
RADII = (0.7, 0.35)
"""Of a large and of a small object; the centre of an object is as far above the plane."""
RIGHT = (0.6563112735748291, 0.7544902563095093)
"""Which way is right on the plane, seen from CLEVR's camera before it is jittered."""
BEHIND = (-0.754490315914154, 0.6563112735748291)
RELATIONS = ("left", "right", "front", "behind")
REACH = 3.0
"""Objects have x and y between -REACH and REACH."""
_STATE_ORDER = ("material", "color", "shape", "size")
_MOST = 62  # objects of a scene: a set of them is the bits of an integer


class Scenes:
    """Many scenes: the objects of all of them one after the other.

    ``len(scenes)`` is the number of scenes; an int, a slice, integers or one bool for each scene
    pick some of them, as ``Scenes`` again. An int gives a single scene.

    Args:
        positions: The centre of each object, (total, 3), floating point.
        attributes: Colour, material, shape and size of each object as places in :data:`VALUES`,
            (total, 4), long.
        rotations: How far each object is turned about its axis, (total,), as CLEVR's files have it:
            0 to 360, which its renderer took for radians.
        sizes: The number of objects of each scene, (S,), integer.
        numbers: The place of each scene in its split, (S,), long. None: 0, 1, 2, ...
        relations: Recorded by a file, (total, 4), long: for left, right, front and behind the
            objects of the scene that lie there, seen from this one, as bits. None: they follow
            from the positions.
        pixels: Recorded by a file, (total, 3): column, row and depth of each centre. None: not
            recorded.
        cameras: The position of each scene's camera, (S, 3). None: not known.
        lamps: The positions of each scene's three lamps, (S, 3, 3). None: not known.

    Raises:
        ValueError: If a shape or dtype differs from the above, or the sizes do not add up.

    Example:
        >>> from torchsets.data import sample_scenes
        >>> scenes = sample_scenes(4, objects=(3, 6))
        >>> len(scenes[[0, 2]])
        2
        >>> scenes[0].positions.shape[1]
        3
    """

    def __init__(
        self,
        positions: Tensor,
        attributes: Tensor,
        rotations: Tensor,
        sizes: Tensor | Array | Sequence[int],
        *,
        numbers: Tensor | None = None,
        relations: Tensor | None = None,
        pixels: Tensor | None = None,
        cameras: Tensor | None = None,
        lamps: Tensor | None = None,
    ) -> None:
        total = len(positions)
        check_shape(positions, (total, 3), name="positions", letters="(total, 3)")
        self.sizes = to_sizes(sizes, positions)
        count = len(self.sizes)
        if count and int(self.sizes.max()) > _MOST:
            raise ValueError(f"sizes must be at most {_MOST}, got {int(self.sizes.max())}")
        if numbers is None:
            numbers = torch.arange(count)
        for name, value, shape, letters in (
            ("attributes", attributes, (total, len(ATTRIBUTES)), "(total, 4)"),
            ("rotations", rotations, (total,), "(total,)"),
            ("numbers", numbers, (count,), "(S,)"),
            ("relations", relations, (total, len(RELATIONS)), "(total, 4)"),
            ("pixels", pixels, (total, 3), "(total, 3)"),
            ("cameras", cameras, (count, 3), "(S, 3)"),
            ("lamps", lamps, (count, 3, 3), "(S, 3, 3)"),
        ):
            if value is not None:
                check_shape(value, shape, name=name, letters=letters)
        for position, (name, values) in enumerate(VALUES.items()):
            column = attributes[:, position]
            if total and not 0 <= int(column.min()) <= int(column.max()) < len(values):
                raise ValueError(f"attributes must have a {name} below {len(values)}, got others")
        self.positions, self.attributes, self.rotations = positions, attributes, rotations
        self.numbers, self.relations = numbers, relations
        self.pixels, self.cameras, self.lamps = pixels, cameras, lamps
        self._starts = self.sizes.cumsum(0) - self.sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int | slice | Tensor | Array | Sequence[int]) -> "Scenes":
        chosen = to_index(index, len(self), of="scenes")
        if isinstance(chosen, int):
            chosen = slice(chosen, chosen + 1)
        sizes = self.sizes[chosen]
        objects = run_places(self._starts[chosen], sizes)

        def take(values: Tensor | None, places: Tensor | slice) -> Tensor | None:
            return None if values is None else values[places]

        return Scenes(
            self.positions[objects],
            self.attributes[objects],
            self.rotations[objects],
            sizes,
            numbers=self.numbers[chosen],
            relations=take(self.relations, objects),
            pixels=take(self.pixels, objects),
            cameras=take(self.cameras, chosen),
            lamps=take(self.lamps, chosen),
        )

    def __repr__(self) -> str:
        return f"Scenes({plural(len(self), 'scene')} of {span(self.sizes, 'object')})"


class SceneObjects(NamedTuple):
    """One scene as plain Python: what questions are asked about.

    Attributes:
        attributes: Colour, material, shape and size of each object, as places in ``VALUES``.
        relations: For each object, the objects left, right, in front and behind of it as bits.
    """

    attributes: list[list[int]]
    relations: list[list[int]]


def scene_objects(scenes: Scenes) -> list[SceneObjects]:
    """Take scenes apart for plain Python, with their recorded or computed relations."""
    sizes = scenes.sizes.tolist()
    attributes = torch.split(scenes.attributes, sizes)
    relations = torch.split(scene_relations(scenes), sizes)
    return [
        SceneObjects(one.tolist(), other.tolist())
        for one, other in zip(attributes, relations, strict=True)
    ]


def scene_relations(scenes: Scenes, *, recorded: bool = True) -> Tensor:
    """Say which objects lie left, right, in front and behind of each object.

    Args:
        scenes: S scenes with ``total`` objects.
        recorded: Return the relations that a file recorded, if there are any. False: compute them
            from the positions in any case.

    Returns:
        A column for each of :data:`RELATIONS`, (total, 4), long; bit j stands for object j of the
        same scene. Object j is right of i if ``(p_j - p_i) . right > 0``.
    """
    if recorded and scenes.relations is not None:
        return scenes.relations
    plane, mask = SetBatch.from_flat(scenes.positions[:, :2].double(), scenes.sizes)
    bits = 2 ** torch.arange(mask.shape[1])
    columns = []
    for axis in (RIGHT, BEHIND):
        along = plane[..., 0] * axis[0] + plane[..., 1] * axis[1]  # (S, N)
        offset = along.unsqueeze(1) - along.unsqueeze(2)  # [s, i, j] = p_j - p_i
        for side in (offset < 0, offset > 0):  # left and right; front and behind
            columns.append(((side & mask.unsqueeze(1)) * bits).sum(dim=2)[mask])
    return torch.stack(columns, dim=1)


def scene_states(scenes: Scenes, *, coding: str = "one-hot") -> SetBatch:
    """Give each object as a vector: its position and attributes.

    Args:
        scenes: S scenes.
        coding: "one-hot": 18 features, the position divided by 3, then material (2), colour (8),
            shape (3) and size (2) as one-hots, as the metric of states has them. "index": 7
            features, the position, then colour, material, shape and size as numbers from 1.

    Returns:
        S sets of objects, of 18 or 7 features, float32.

    Example:
        >>> from torchsets.data import sample_scenes
        >>> scene_states(sample_scenes(2, objects=(4, 4)))
        SetBatch(2 sets of 4 elements, 18 features, float32, cpu)
    """
    positions = scenes.positions.float()
    if coding == "index":
        values = torch.cat([positions, (scenes.attributes + 1).float()], dim=1)
    elif coding == "one-hot":
        parts = [positions / REACH]
        for name in _STATE_ORDER:
            places = scenes.attributes[:, ATTRIBUTES.index(name)]
            parts.append(torch.eye(len(VALUES[name]))[places])
        values = torch.cat(parts, dim=1)
    else:
        raise ValueError(f'coding must be "one-hot" or "index", got {coding!r}')
    return SetBatch.from_flat(values, scenes.sizes)


def states_to_scenes(elements: Tensor, mask: Tensor | None = None) -> Scenes:
    """Read objects out of their states, such as predicted ones: :func:`scene_states` backwards.

    Args:
        elements: Padded sets of states with one-hots, (B, N, 18). Of each attribute, the value with
            the largest number counts.
        mask: True where an object is, (B, N), bool; for predictions ``presence >= 0.5``. None: all
            are there.

    Returns:
        B scenes. A state does not say how an object is turned: all have the same rotation.

    Example:
        >>> from torchsets.data import render_scenes, sample_scenes
        >>> scenes = states_to_scenes(*scene_states(sample_scenes(2)))
        >>> render_scenes(scenes, size=32).shape
        torch.Size([2, 3, 32, 32])
    """
    features = 3 + sum(map(len, VALUES.values()))
    check_shape(elements, (None, None, features), name="elements", letters="(B, N, 18)")
    mask = check_padded_sets(elements, mask)
    states = elements[mask]  # (total, 18)
    parts = torch.split(states[:, 3:], [len(VALUES[name]) for name in _STATE_ORDER], dim=1)
    found = {name: part.argmax(dim=1) for name, part in zip(_STATE_ORDER, parts, strict=True)}
    return Scenes(
        REACH * states[:, :3],
        torch.stack([found[name] for name in ATTRIBUTES], dim=1),
        states.new_zeros(len(states)),
        mask.sum(dim=1),
    )
