"""What a training has measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchsets.lab.typed import Json


@dataclass(frozen=True)
class History:
    """The learning curves of one training, those before a resume included.

    Attributes:
        lines: One mapping for each recorded step, with ``step`` and the values by name.
        seconds: How long it took.

    Example:
        >>> History([{"step": 10, "loss": 0.5}, {"step": 10, "accuracy": 99.0}], 1.0).curve("loss")
        [(10, 0.5)]
    """

    lines: Sequence[Mapping[str, Json]]
    seconds: float

    def curve(self, name: str) -> list[tuple[int, float]]:
        """Return the pairs (step, value) of one quantity."""
        return [(line["step"], line[name]) for line in self.lines if name in line]
