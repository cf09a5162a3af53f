"""Set Transformer: attention between the elements of a set, then attention of seeds to them."""

import math

import torch
from torch import Tensor, nn

from torchsets._checks import check_counts, check_elements, check_mask
from torchsets.attention import attend, check_heads


class SetTransformer(nn.Module):
    """Encode a set by attention: blocks between its elements, a pooling by attention, one layer.

    With several seeds, a further :class:`SAB` lets what they collected interact.

    Args:
        features: Number of features D of an element.
        outputs: Size L of the result.
        hidden: Width of all blocks.
        heads: Number of attention heads; it divides ``hidden``.
        layers: Number of blocks between the elements.
        inducing: Number of inducing points of each block, for large sets: the cost of a block
            then grows with N, not with N^2. None: every element attends to every other.
        seeds: Number of vectors that the pooling collects.
        norm: Put a layer norm behind both steps of every block.

    Attributes:
        layers: The blocks, :class:`SAB` or :class:`ISAB`.
        pool: The :class:`PMA`.
        among: The block between the seeds; with one seed, nothing.
        out: The last layer.

    Example:
        >>> encoder = SetTransformer(3, 10, inducing=16)
        >>> encoder(torch.zeros(5, 7, 3)).shape
        torch.Size([5, 10])

    Reference:
        Lee et al. (2019), "Set transformer: a framework for attention-based permutation-invariant
        neural networks". https://arxiv.org/abs/1810.00825
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        hidden: int = 64,
        heads: int = 4,
        layers: int = 2,
        inducing: int | None = None,
        seeds: int = 1,
        norm: bool = False,
    ) -> None:
        super().__init__()
        check_counts(layers=layers)
        self.layers = nn.ModuleList(
            SAB(before, hidden, heads=heads, norm=norm)
            if inducing is None
            else ISAB(before, hidden, inducing=inducing, heads=heads, norm=norm)
            for before in [features, *[hidden] * (layers - 1)]
        )
        self.pool = PMA(hidden, seeds=seeds, heads=heads, norm=norm)
        self.among = SAB(hidden, hidden, heads=heads, norm=norm) if seeds > 1 else nn.Identity()
        self.out = nn.Linear(seeds * hidden, outputs)

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode padded sets (B, N, D) with their mask (B, N) to vectors (B, L).

        An empty set gives what the seeds alone give: the same learned vector for all of them.
        """
        for layer in self.layers:
            elements = layer(elements, mask)
        result: Tensor = self.out(self.among(self.pool(elements, mask)).flatten(1))
        return result


class SAB(nn.Module):
    """Set attention block: every element attends to all elements of its set.

    Args:
        features: Number of features D of an element.
        outputs: Number of features E of the result.
        heads: Number of attention heads; it divides ``outputs``.
        norm: Put a layer norm behind both steps.

    Example:
        >>> SAB(3, 8)(torch.zeros(5, 7, 3)).shape
        torch.Size([5, 7, 8])
    """

    def __init__(self, features: int, outputs: int, *, heads: int = 4, norm: bool = False) -> None:
        super().__init__()
        self.block = _Block(features, features, outputs, heads, norm)

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map padded sets (B, N, D) with their mask (B, N) to sets (B, N, E), zeros at padding."""
        elements = _fill(elements, mask)
        return _fill(self.block(elements, elements, mask), mask)


class ISAB(nn.Module):
    """Induced set attention block: the elements attend to a few points that attend to them.

    Args:
        features: Number of features D of an element.
        outputs: Number of features E of the result.
        inducing: Number of inducing points m: time and memory grow with N m.
        heads: Number of attention heads; it divides ``outputs``.
        norm: Put a layer norm behind both steps of both blocks.

    Attributes:
        points: The inducing points, (inducing, outputs).

    Example:
        >>> ISAB(3, 8, inducing=2)(torch.zeros(5, 7, 3)).shape
        torch.Size([5, 7, 8])
    """

    def __init__(
        self, features: int, outputs: int, *, inducing: int, heads: int = 4, norm: bool = False
    ) -> None:
        super().__init__()
        self.points = _learned_set(inducing, outputs, name="inducing")
        self.collect = _Block(outputs, features, outputs, heads, norm)
        self.spread = _Block(features, outputs, outputs, heads, norm)

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map padded sets (B, N, D) with their mask (B, N) to sets (B, N, E), zeros at padding."""
        elements = _fill(elements, mask)
        return _fill(self.spread(elements, self.collect(self.points, elements, mask)), mask)


class PMA(nn.Module):
    """Pooling by multi-head attention: learned seeds attend to the elements.

    Args:
        features: Number of features D of an element, and of the result.
        seeds: Number of seeds S, and of the vectors of the result.
        heads: Number of attention heads; it divides ``features``.
        norm: Put a layer norm behind both steps.

    Attributes:
        seeds: The seeds, (seeds, features).

    Example:
        >>> PMA(8, seeds=2)(torch.zeros(5, 7, 8)).shape
        torch.Size([5, 2, 8])
    """

    def __init__(
        self, features: int, *, seeds: int = 1, heads: int = 4, norm: bool = False
    ) -> None:
        super().__init__()
        self.seeds = _learned_set(seeds, features, name="seeds")
        self.block = _Block(features, features, features, heads, norm)

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map padded sets (B, N, D) with their mask (B, N) to vectors (B, S, D).

        An empty set gives what the seeds alone give.
        """
        result: Tensor = self.block(self.seeds, _fill(elements, mask), mask)
        return result


class _Block(nn.Module):
    """The multi-head attention block (MAB) of the paper, as its authors released it.

    The queries are projected first, and what the heads collect is added to them; there is no
    other output layer. All heads are scaled by 1 / sqrt(outputs).
    """

    def __init__(self, queries: int, keys: int, outputs: int, heads: int, norm: bool) -> None:
        super().__init__()
        check_heads(outputs, heads)
        self.heads = heads
        self.scale = 1 / math.sqrt(outputs)
        self.query = nn.Linear(queries, outputs)
        self.key = nn.Linear(keys, outputs)
        self.value = nn.Linear(keys, outputs)
        self.out = nn.Linear(outputs, outputs)
        self.norm_attended = nn.LayerNorm(outputs) if norm else nn.Identity()
        self.norm_out = nn.LayerNorm(outputs) if norm else nn.Identity()

    def forward(self, queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
        """Queries (B, M, Q), or (M, Q) for all sets, and keys (B, N, K) to (B, M, E)."""
        query = self.query(queries).expand(keys.shape[0], -1, -1)
        collected = attend(
            query, self.key(keys), self.value(keys), mask, heads=self.heads, scale=self.scale
        )
        attended = self.norm_attended(query + collected)
        result: Tensor = self.norm_out(attended + self.out(attended).relu())
        return result


def _fill(elements: Tensor, mask: Tensor | None) -> Tensor:
    """Zeros at padding: nan there would give nan in the gradient of the first layer."""
    check_elements(elements)
    if mask is None:
        return elements
    check_mask(mask, elements.shape[:2], of="elements")
    return elements.masked_fill(~mask.unsqueeze(-1), 0)


def _learned_set(count: int, features: int, *, name: str) -> nn.Parameter:
    check_counts(**{name: count})
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(count, features)))
