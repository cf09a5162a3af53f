"""Poolings of torchsets as aggregations of torch_geometric (PyG)."""

from typing import Any

import torch
from torch import Tensor, nn

from torchsets._autograd import is_traced
from torchsets._checks import check_shape
from torchsets._extras import import_extra
from torchsets.pooling import FSPool, by_size

Aggregation: Any = import_extra("torch_geometric.nn.aggr", "graphs").Aggregation


class SetAggregation(Aggregation):  # type: ignore[misc]  # torch_geometric may not be installed
    """Any set to vector module of torchsets as an ``Aggregation`` of torch_geometric.

    It can be the ``aggr`` of a message passing layer, a readout, or part of a
    ``MultiAggregation``. The index need not be sorted. A group without elements gives what the
    pooling gives for an empty set.

    Args:
        pool: A pooling with ``pool_flat``, or any module called as pool(elements, mask), which
            goes through :func:`torchsets.pooling.by_size`.

    Example:
        >>> from torchsets.pooling import MaxPool
        >>> aggregation = SetAggregation(MaxPool())
        >>> x, index = torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([0, 1, 0])
        >>> aggregation(x, index)
        tensor([[3.],
                [5.]])
    """

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.pool: Any = pool if hasattr(pool, "pool_flat") else by_size(pool)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Pool the rows of x, (total, D), into groups, (dim_size, D), as torch_geometric calls it.

        Args:
            x: The elements, (total, D), floating point.
            index: The group of each, (total,), long.
            ptr: Where each group begins in sorted elements, (dim_size + 1,), instead of the index.
            dim_size: The number of groups.
            dim: The axis of the elements: -2 or 0.
            max_num_elements: Not needed; there is no padding.
        """
        self.assert_two_dimensional_input(x, dim)
        if ptr is not None:
            return self.pool.pool_flat(x, ptr[1:] - ptr[:-1])
        if index is None:  # all elements are one group
            index = x.new_zeros(x.shape[0], dtype=torch.long)
        check_shape(index, (x.shape[0],), name="index", letters="(total,)")
        if dim_size is None:
            dim_size = int(index.max()) + 1 if len(index) else 0
        # An index beyond dim_size is an error here, which torch_geometric explains.
        sizes = index.new_zeros(dim_size).scatter_add(0, index, torch.ones_like(index))
        if not _is_sorted(index):
            x = x.index_select(0, index.argsort(stable=True))
        return self.pool.pool_flat(x, sizes)

    def reset_parameters(self) -> None:
        """Draw the weights of the pooling anew.

        Raises:
            TypeError: If one of its modules has weights and no ``reset_parameters``: half a model
                would keep what it has learned.
        """
        _check_resets(self.pool)
        import_extra("torch_geometric.nn.inits", "graphs").reset(self.pool)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self.pool, 'module', self.pool)})"


class FSPoolAggregation(SetAggregation):
    """Featurewise sort pooling, :class:`torchsets.pooling.FSPool`, as an ``Aggregation``.

    Args:
        features: Number of features D.
        pieces: Number of straight pieces of each weight function.
        init: "normal" draws the weights from N(0, 1); "ones" starts as a sum.

    Example:
        >>> aggregation = FSPoolAggregation(2, init="ones")
        >>> aggregation(torch.ones(3, 2), torch.tensor([0, 2, 2]), dim_size=4).tolist()
        [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]
    """

    def __init__(self, features: int, *, pieces: int = 20, init: str = "normal") -> None:
        super().__init__(FSPool(features, pieces=pieces, init=init))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pool.extra_repr()})"


def _check_resets(module: nn.Module) -> None:
    if hasattr(module, "reset_parameters"):
        return
    if next(module.parameters(recurse=False), None) is not None:
        raise TypeError(
            f"the weights of {type(module).__name__} cannot be drawn anew: it has no "
            f"reset_parameters; make a new one"
        )
    for child in module.children():
        _check_resets(child)


def _is_sorted(index: Tensor) -> bool:
    """Whether the index rises; not asked where the answer would have to be waited for."""
    if index.device.type != "cpu" or is_traced():
        return False
    return bool((index[1:] >= index[:-1]).all())
