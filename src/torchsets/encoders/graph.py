"""Graph isomorphism networks (GIN): a graph to a vector, by any pooling of its nodes."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from torchsets._autograd import Context, apply, is_traced, is_vectorised
from torchsets._checks import check_counts, check_floating
from torchsets._inputs import Array
from torchsets.encoders.readout import make_pool
from torchsets.mlp import glorot_
from torchsets.pooling import SumPool, by_size


def neighbour_sums(nodes: Tensor, edges: Tensor) -> Tensor:
    """Add up the features of the neighbours of each node.

    Args:
        nodes: The features of all nodes, (total, D), floating point.
        edges: Pairs of nodes, (2, E), long: ``edges[0, e]`` receives from ``edges[1, e]``.

    Returns:
        The sums, (total, D); zeros for a node without neighbours.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> nodes = torch.tensor([[1.0], [2.0], [4.0]])
        >>> neighbour_sums(nodes, torch.tensor([[0, 0, 1], [1, 2, 0]])).flatten()
        tensor([6., 1., 0.])
    """
    _check_graph(nodes, edges)
    return _sum_over(nodes, edges, _adjacency(nodes, edges), 0.0)


class GIN(nn.Module):
    """Encode graphs: blocks that add the neighbours to each node, and a readout after each block.

    A block computes MLP((1 + eps) x + sum of the neighbours' x) with an MLP of two linear layers,
    each followed by ReLU and batch normalisation. The pooled nodes of all blocks, side by side, go
    through normalisation, a hidden layer and dropout to the outputs. Weights start as Glorot's.
    With batch normalisation the laws of sets hold in evaluation mode.

    Args:
        features: Number of features of a node.
        outputs: Number of outputs, such as classes.
        hidden: Width of the blocks and of the hidden layer before the outputs.
        blocks: Number of blocks.
        eps: How much more a node weighs than a neighbour. "inputs" takes the number of inputs of
            each block, as the code released with FSPool did by accident.
        pooling: Makes the readout of a block: called with the hidden size if it has a required
            parameter, such as ``FSPool`` or ``partial(FSPool, pieces=5, init="ones")``, else with
            nothing. A module without ``pool_flat`` is called as module(elements, mask).
        dropout: Before the last layer.
        norm_first: Normalise before each ReLU instead of behind it.

    Example:
        >>> from torchsets import GraphBatch
        >>> edges = torch.tensor([[0, 1], [1, 0]])
        >>> graphs = GraphBatch(torch.zeros(5, 7), edges, torch.tensor([2, 3]))
        >>> GIN(7, 2, hidden=16)(*graphs).shape
        torch.Size([2, 2])

    Reference:
        Xu, Hu, Leskovec, Jegelka (2019), "How powerful are graph neural networks?", equation 4.1.
        https://arxiv.org/abs/1810.00826
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        hidden: int,
        blocks: int = 5,
        eps: float | Literal["inputs"] = 0.0,
        pooling: Callable[..., nn.Module] = SumPool,
        dropout: float = 0.0,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        check_counts(blocks=blocks)
        if isinstance(eps, str) and eps != "inputs":
            raise ValueError(f'eps must be a number or "inputs", got {eps!r}')
        inputs = [features] + [hidden] * (blocks - 1)
        self.blocks = nn.ModuleList(
            _Block(size, hidden, float(size) if isinstance(eps, str) else eps, norm_first)
            for size in inputs
        )
        pools = [make_pool(pooling, hidden) for _ in inputs]
        self.pools = nn.ModuleList(p if hasattr(p, "pool_flat") else by_size(p) for p in pools)
        with torch.no_grad():  # as wide as what the pooling gives
            width = _pool(self.pools[0], torch.zeros(1, hidden), torch.ones(1).long()).shape[1]
        self.classifier = nn.Sequential(
            nn.BatchNorm1d(blocks * width),
            nn.Linear(blocks * width, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, outputs),
        )
        glorot_(self.blocks)
        glorot_(self.classifier)

    def forward(self, nodes: Tensor, edges: Tensor, sizes: Tensor) -> Tensor:
        """Map nodes (total, D), edges (2, E) and sizes (B,) to (B, outputs)."""
        return self.classifier(self.readouts(nodes, edges, sizes))

    def readouts(self, nodes: Tensor, edges: Tensor, sizes: Tensor) -> Tensor:
        """The pooled nodes of every block, side by side, (B, blocks * hidden)."""
        _check_graph(nodes, edges)
        matrix = _adjacency(nodes, edges)  # one for all blocks
        pooled = []
        for block, pool in zip(self.blocks, self.pools, strict=True):
            nodes = block(nodes, edges, matrix)
            pooled.append(_pool(pool, nodes, sizes))
        return torch.cat(pooled, dim=1)


class _Block(nn.Module):
    def __init__(self, inputs: int, hidden: int, eps: float, norm_first: bool) -> None:
        super().__init__()
        self.eps = eps
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(2))
        self.norm_first = norm_first

    def forward(self, nodes: Tensor, edges: Tensor, matrix: Any) -> Tensor:
        # The linear layer before the sum, which is then over fewer numbers: the same result.
        mapped = nn.functional.linear(nodes, self.first.weight)
        summed = _sum_over(mapped, edges, matrix, 1 + self.eps)
        # In place: for many nodes, fresh memory costs more than the arithmetic.
        return self._finish(self.second(self._finish(summed.add_(self.first.bias), 0)), 1)

    def _finish(self, nodes: Tensor, layer: int) -> Tensor:
        norm = self.norms[layer]
        return norm(nodes).relu_() if self.norm_first else norm(nodes.relu_())

    def extra_repr(self) -> str:
        return f"eps={self.eps:g}"


def _pool(pool: Any, nodes: Tensor, sizes: Tensor) -> Tensor:
    return pool.pool_flat(nodes, sizes)


def _check_graph(nodes: Tensor, edges: Tensor) -> None:
    if nodes.ndim != 2:
        raise ValueError(f"nodes must have shape (total, D), got {tuple(nodes.shape)}")
    check_floating(nodes, name="nodes")
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype != torch.long:
        raise ValueError(
            f"edges must be long with shape (2, E), got {edges.dtype} {tuple(edges.shape)}"
        )


def _adjacency(nodes: Tensor, edges: Tensor) -> Any:
    """The sparse matrix of the edges, or None where torch has to do the sums."""
    if nodes.device.type != "cpu" or type(edges) is not Tensor or is_traced():
        return None
    ones: Array = np.ones(
        edges.shape[1], np.float64 if nodes.dtype == torch.float64 else np.float32
    )
    receive, send = edges.numpy()
    shape = (nodes.shape[0], nodes.shape[0])
    try:
        return sparse.csr_array(sparse.coo_array((ones, (receive, send)), shape=shape))
    except ValueError as error:
        raise ValueError(
            f"edges must be between the {len(nodes)} nodes, got {int(edges.min())} to "
            f"{int(edges.max())}"
        ) from error


def _sum_over(nodes: Tensor, edges: Tensor, matrix: Any, own: float) -> Tensor:
    """The sums over the neighbours plus ``own`` times the node itself."""
    if matrix is not None and nodes.dtype in (torch.float32, torch.float64):
        return apply(_SparseProduct, nodes, edges, matrix, own)
    sums = torch.zeros_like(nodes).index_add(0, edges[0], nodes.index_select(0, edges[1]))
    return sums.add_(nodes, alpha=own) if own else sums


class _SparseProduct(torch.autograd.Function):
    """(A + own I) times nodes, A a sparse matrix of scipy; several times faster than index_add."""

    @staticmethod
    def forward(ctx: Context, nodes: Tensor, edges: Tensor, matrix: Any, own: float) -> Tensor:
        ctx.edges, ctx.matrix, ctx.own = edges, matrix, own
        nodes = nodes.detach()
        sums = torch.from_numpy(matrix @ nodes.numpy())
        return sums.add_(nodes, alpha=own) if own else sums

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        matrix = None if is_vectorised(gradient) else ctx.matrix.T
        return _sum_over(gradient, ctx.edges.flip(0), matrix, ctx.own), None, None, None
