"""The counting module: how many objects there are behind overlapping, weighted proposals.

Reference:
    Zhang, Hare, Prügel-Bennett, "Learning to count objects in natural images for visual question
    answering", 2018, https://arxiv.org/abs/1802.05766
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from torchsets._checks import check_counts
from torchsets.counting.features import count_features
from torchsets.counting.graph import Graph, box_graph, distance_graph, pairs, symmetric_index
from torchsets.counting.similarity import similar_rows
from torchsets.piecewise import PiecewiseLinear, monotone_values


class CountDetails(NamedTuple):
    """What the counting module saw in each set, for inspection.

    Attributes:
        A: Attention matrix, the outer product of the weights, (B, n, n).
        D: Distance matrix, 1 - overlap, (B, n, n).
        C: Count matrix, whose sum is the square of the count, (B, n, n).
        total: The count before it is turned into a vector, (B,).
        confidence: Factor of the output from 0 to 1, (B,).
        kept: Slots of the n largest weights in the order of the slots, (B, n), long.
    """

    A: Tensor
    D: Tensor
    C: Tensor
    total: Tensor
    confidence: Tensor
    kept: Tensor


class Counter(nn.Module):
    """Count the objects behind a set of weighted proposals that may overlap, differentiably.

    The proposals form a graph with an edge between any two that are relevant (weights) and apart
    (boxes). Edges within an object vanish, those between objects are divided by the number of
    proposals of either, and the square root of what remains is the count. With weights of 0 or 1
    and boxes that are equal or disjoint it is exact; eight learned functions handle what lies
    between. The output is a vector over the counts 0 .. ``objects``, scaled by a confidence.

    Args:
        objects: Largest count; the proposals with the ``objects`` largest weights take part, and
            the first slots among equal ones at the end: sets with more proposals than that, whose
            weights are equal, are not counted alike in every order.
        pieces: Number of straight pieces of each function.
        attention: "weights" from 0 to 1 (what lies outside counts as the nearer end), or "logits",
            to which the logistic function is applied.

    Attributes:
        activations: f_1 .. f_8 at 0 .. 7, each a :class:`~torchsets.piecewise.PiecewiseLinear`.

    Raises:
        ValueError: If ``objects`` is below 1 or ``attention`` is neither of the two.

    Example:
        >>> box, other = [0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]
        >>> boxes = torch.tensor([[box, box, other, other]])
        >>> Counter(objects=3)(boxes, torch.tensor([[1.0, 1.0, 1.0, 0.0]]))
        tensor([[0., 0., 1., 0.]], grad_fn=<MulBackward0>)
    """

    def __init__(self, objects: int = 10, *, pieces: int = 16, attention: str = "weights") -> None:
        super().__init__()
        check_counts(objects=objects)
        if attention not in ("weights", "logits"):
            raise ValueError(f"attention must be 'weights' or 'logits', got {attention!r}")
        self.objects = objects
        self.attention = attention
        self.activations = nn.ModuleList(PiecewiseLinear(pieces) for _ in range(8))

    def forward(self, boxes: Tensor, attention: Tensor, mask: Tensor | None = None) -> Tensor:
        """Count features of each set.

        Args:
            boxes: Boxes (x1, y1, x2, y2), (B, N, 4), floating point. One with x2 < x1 or y2 < y1
                overlaps nothing and counts as an object of its own; see
                :func:`torchsets.boxes.check_boxes`.
            attention: Weight or logit of each box, (B, N), floating point.
            mask: True where a box is real, (B, N), bool. None: all are real.

        Returns:
            One vector per set, (B, objects + 1), with the dtype of ``attention``. An empty set
            gives 1 at count 0.

        Raises:
            ValueError: If a shape or dtype differs from the above.
        """
        return self._features(self._box_graph(boxes, attention, mask)).to(attention.dtype)

    def from_distances(
        self, distances: Tensor, attention: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """The same for proposals of any kind, given how different each pair of them is.

        Args:
            distances: 0 for the same object, 1 for different ones, (B, N, N), floating point. The
                two distances of a pair are averaged; the diagonal counts as 0.
            attention: Weight or logit of each proposal, (B, N), floating point.
            mask: True where a proposal is real, (B, N), bool. None: all are real.

        Returns:
            One vector per set, (B, objects + 1), as from ``forward``.

        Raises:
            ValueError: If a shape or dtype differs from the above.

        Example:
            >>> points = torch.tensor([[[0.0, 0.0], [0.0, 0.1], [4.0, 3.0]]])
            >>> distances = torch.cdist(points, points).clamp(max=1)
            >>> Counter(3).from_distances(distances, torch.ones(1, 3)).argmax(dim=1)
            tensor([2])
        """
        return self._features(self._distance_graph(distances, attention, mask)).to(attention.dtype)

    def inspect(self, boxes: Tensor, attention: Tensor, mask: Tensor | None = None) -> CountDetails:
        """The matrices, count and confidence behind ``forward``, in the dtype of ``attention``."""
        return self._details(self._box_graph(boxes, attention, mask), attention.dtype)

    def inspect_distances(
        self, distances: Tensor, attention: Tensor, mask: Tensor | None = None
    ) -> CountDetails:
        """The matrices, count and confidence behind ``from_distances``."""
        graph = self._distance_graph(distances, attention, mask)
        return self._details(graph, attention.dtype)

    def _box_graph(self, boxes: Tensor, attention: Tensor, mask: Tensor | None) -> Graph:
        logits = self.attention == "logits"
        return box_graph(boxes, attention, mask, objects=self.objects, logits=logits)

    def _distance_graph(self, distances: Tensor, attention: Tensor, mask: Tensor | None) -> Graph:
        logits = self.attention == "logits"
        return distance_graph(distances, attention, mask, objects=self.objects, logits=logits)

    def _functions(self) -> list[PiecewiseLinear]:
        return cast(list[PiecewiseLinear], list(self.activations))

    def _features(self, graph: Graph) -> Tensor:
        count = _count(*self._edges(graph))
        confidence = self._confidence(graph).unsqueeze(1)
        return confidence * count_features(count, objects=self.objects)

    def _edges(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """Entries of the count matrix: one of each pair (P, B), and the diagonal (n, B)."""
        f1, f2, f3, f4, f5 = self._functions()[:5]
        weights, distances, valid, _ = graph
        first, second = pairs(weights)
        products = weights.index_select(0, first) * weights.index_select(0, second)
        rows = f4(products) * f5(distances)  # X of the thesis; its diagonal is 0
        index = symmetric_index(weights).flatten()
        rows = torch.cat([rows, torch.zeros_like(weights[:1])]).index_select(0, index)
        # The weights are one more column of X: it tells a single proposal from irrelevant ones.
        rows = torch.cat([rows.view(*weights.shape[:1], *weights.shape), weights.unsqueeze(0)])
        scale = 1 / similar_rows(rows, monotone_values(f3.weight).to(rows.dtype), valid)
        scales = scale.index_select(0, first) * scale.index_select(0, second)
        # Self-loops are scaled once: their number grows linearly with that of the duplicates.
        return f1(products) * f2(distances) * scales, f1(weights.square()) * scale

    def _confidence(self, graph: Graph) -> Tensor:
        """How far weights and distances are from undecided, (B,); 1 for an empty set."""
        f6, f7, f8 = self._functions()[5:]
        by_weight = (f6(graph.weights) - 0.5).abs()
        by_distance = (f7(graph.distances) - 0.5).abs()
        n = torch.full_like(graph.weights.sum(dim=0), len(graph.weights))
        if graph.valid is not None:
            first, second = pairs(graph.weights)
            both = graph.valid[first] & graph.valid[second]
            by_weight = by_weight.where(graph.valid, 0)
            by_distance = by_distance.where(both, 0)
            n = graph.valid.sum(dim=0).to(n.dtype)
        at_least_one = n.clamp(min=1)
        # the diagonal of D is 0, half away from 1 / 2
        mean_distance = (2 * by_distance.sum(dim=0) + n / 2) / at_least_one.square()
        sum_of_means = by_weight.sum(dim=0) / at_least_one + mean_distance
        return f8(sum_of_means.where(n > 0, 1))

    def _details(self, graph: Graph, dtype: torch.dtype) -> CountDetails:
        edges, loops = self._edges(graph)
        first, second = pairs(graph.weights)
        products = graph.weights[first] * graph.weights[second]
        distances = graph.distances
        if graph.valid is not None:
            distances = distances.where(graph.valid[first] & graph.valid[second], 0)
        return CountDetails(
            _matrix(products, graph.weights.square()).to(dtype),
            _matrix(distances, torch.zeros_like(loops)).to(dtype),
            _matrix(edges, loops).to(dtype),
            _count(edges, loops).to(dtype),
            self._confidence(graph).to(dtype),
            graph.kept,
        )


def _count(edges: Tensor, loops: Tensor) -> Tensor:
    """Square root of the sum of a symmetric matrix given by pairs and diagonal, (B,)."""
    total = 2 * edges.sum(dim=0) + loops.sum(dim=0)
    positive = total > 0
    # the slope of the root is infinite at 0; taking 0 there leaves every gradient finite
    return torch.where(positive, total, 1).sqrt().where(positive, 0)


def _matrix(entries: Tensor, diagonal: Tensor) -> Tensor:
    """Symmetric matrices (B, n, n) from the pairs (P, B) and the diagonal (n, B)."""
    index = symmetric_index(diagonal)
    full = torch.cat([entries, torch.zeros_like(diagonal[:1])])[index]  # (n, n, B)
    return full.permute(2, 0, 1) + torch.diag_embed(diagonal.t())
