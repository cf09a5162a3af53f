"""The 90 families of questions as data, in CLEVR's nine groups."""

from collections.abc import Iterator
from dataclasses import dataclass

from torchsets.data.scenes import ATTRIBUTES, VALUES

COMPARISONS = ("equal_integer", "less_than", "greater_than")


@dataclass(frozen=True)
class Family:
    """What the questions of a family have in common.

    Attributes:
        group: One of CLEVR's nine: "zero-hop" to "three-hop", "same-relate", "comparison",
            "compare-integer", "single-and", "single-or".
        kind: The last step: "count", "exist", "query", "equal", or one of ``COMPARISONS``.
        hops: How many relations lead to each object or set that the question is about.
        attribute: What is asked for or compared; None if nothing is.
        same: The attribute that objects must share; None if none.
        filtered: Whether what is counted or looked for is also described.
    """

    group: str
    kind: str
    hops: tuple[int, ...]
    attribute: str | None = None
    same: str | None = None
    filtered: bool = True

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers that its questions may have."""
        if self.kind == "count":
            return tuple(str(count) for count in range(11))
        if self.kind == "query" and self.attribute is not None:
            return VALUES[self.attribute]
        return ("yes", "no")


def _families() -> Iterator[Family]:
    for hops, group in enumerate(("zero-hop", "one-hop", "two-hop", "three-hop")):
        yield Family(group, "count", (hops,))
        yield Family(group, "exist", (hops,))
        for name in ATTRIBUTES:
            yield Family(group, "query", (hops,), attribute=name)
    for same in ATTRIBUTES:
        for kind in ("exist", "count"):
            for filtered in (False, True):
                yield Family("same-relate", kind, (0,), same=same, filtered=filtered)
        for name in ATTRIBUTES:
            if name != same:
                yield Family("same-relate", "query", (0,), attribute=name, same=same)
    for hops_of_both in ((0, 0), (0, 1), (1, 0), (1, 1)):
        for name in ATTRIBUTES:
            yield Family("comparison", "equal", hops_of_both, attribute=name)
    for hops_of_both in ((0, 0), (1, 0), (1, 1)):
        for kind in COMPARISONS:
            yield Family("compare-integer", kind, hops_of_both)
    yield Family("single-and", "count", (1, 1))
    for name in ATTRIBUTES:
        yield Family("single-and", "query", (1, 1), attribute=name)
    for hops_of_both in ((0, 0), (0, 1), (1, 0), (1, 1)):
        for filtered in (False, True):
            yield Family("single-or", "count", hops_of_both, filtered=filtered)


FAMILIES = tuple(_families())
"""The families; a question's ``family`` is a place in it."""
