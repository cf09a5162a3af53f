"""Featurewise sort pooling (FSPool) and its inverse (FSUnpool)."""

import torch
from torch import Tensor, nn

from torchsets._autograd import without_autocast
from torchsets._checks import check_counts, check_elements, check_mask, check_shape
from torchsets._relaxed_order import multiply_rows
from torchsets.piecewise import hat_basis
from torchsets.pooling.by_size import by_size
from torchsets.pooling.flat_fspool import check_points, exact_dtype, fspool_flat
from torchsets.sorting import relaxed_sort, sort_features


def fspool(elements: Tensor, weight: Tensor, mask: Tensor | None = None) -> Tensor:
    """Sort each feature of a set in descending order and take a weighted sum over the ranks.

    The weights of a feature are a piecewise linear function on [0, 1], evaluated at
    0, 1/(n-1), ..., 1 for a set of n elements, so that one function serves every size. Constant
    weights of 1 give the sum; weights that are 1 at 0 and 0 at all other points give the maximum
    of up to K elements.

    Args:
        elements: Padded sets, (B, N, D), floating point.
        weight: The D functions at K >= 2 evenly spaced points, (D, K).
        mask: True where an element is real, (B, N), bool. None: all are real.

    Returns:
        One vector per set, (B, D). An empty set gives zeros; of a single element the weight at 0
        is taken.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> elements = torch.tensor([[[1.0], [5.0], [3.0]]])
        >>> fspool(elements, torch.tensor([[1.0, 0.0, -1.0]]))  # largest minus smallest
        tensor([[4.]])

    Reference:
        Zhang, Hare, Prügel-Bennett (2020), "FSPool: learning set representations with featurewise
        sort pooling". https://arxiv.org/abs/1906.02795
    """
    check_elements(elements)
    check_points(weight, elements.shape[2])
    values, _ = sort_features(elements, mask)
    return _weighted_sum(values.transpose(1, 2), weight, mask).to(elements.dtype)


class FSPool(nn.Module):
    """:func:`fspool` with learned weights, and the order for an :class:`FSUnpool`.

    Args:
        features: Number of features D.
        pieces: Number of straight pieces of each weight function.
        init: "normal" draws the weights from N(0, 1); "ones" starts as sum pooling.
        temperature: None sorts exactly. A number above 0 relaxes the sort by
            :func:`torchsets.sorting.neural_sort`: slower, with memory for N x N numbers for each
            feature, and with gradients that reach the order too.

    Attributes:
        weight: The functions at their ``pieces + 1`` points, (features, pieces + 1).
        temperature: As above; not part of the state.

    Example:
        >>> pool = FSPool(features=2, init="ones")
        >>> pool(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[4., 6.]], grad_fn=<...>)
    """

    def __init__(
        self,
        features: int,
        *,
        pieces: int = 20,
        init: str = "normal",
        temperature: float | None = None,
    ) -> None:
        super().__init__()
        if temperature is not None and not temperature > 0:
            raise ValueError(f"temperature must be above 0, or None, got {temperature}")
        self.weight = _initial_weight(features, pieces, init)
        self.temperature = temperature
        self._init = init

    def reset_parameters(self) -> None:
        """Give the weights a new start, as at construction."""
        features, points = self.weight.shape
        with torch.no_grad():
            self.weight.copy_(_initial_weight(features, points - 1, self._init))

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        self._check(elements)
        if self.temperature is None:
            return fspool(elements, self.weight, mask)
        return self.pool_with_order(elements, mask)[0]

    def pool_with_order(
        self, elements: Tensor, mask: Tensor | None = None, *, temperature: float | None = None
    ) -> tuple[Tensor, Tensor]:
        """Pool, and return also the order that the sort put the elements into.

        Args:
            elements: Padded sets, (B, N, D), floating point.
            mask: True where an element is real, (B, N), bool. None: all are real.
            temperature: A number above 0 relaxes the sort, so that gradients reach the order too.
                None: the temperature of the module, whose None sorts exactly.

        Returns:
            The pooled vectors (B, D) and the order. Exact: long (B, N, D), the index of the
            element at each rank, padding behind. Relaxed: (B, D, N, N), rank x element, zero in
            the rows and columns of padding.
        """
        self._check(elements)
        if temperature is None:
            temperature = self.temperature
        if temperature is None:
            values, order = sort_features(elements, mask)
            pooled = _weighted_sum(values.transpose(1, 2), self.weight, mask)
            return pooled.to(elements.dtype), order
        check_elements(elements)
        if mask is not None:
            check_mask(mask, elements.shape[:2], of="elements")
            elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
        rows = elements.transpose(1, 2).to(exact_dtype(elements, self.weight))  # (B, D, N)
        each = None if mask is None else mask.unsqueeze(1).expand(rows.shape).flatten(0, 1)
        values, order = relaxed_sort(rows.flatten(0, 1), each, temperature=temperature)
        order = order.view(*rows.shape[:2], *order.shape[1:])  # (B, D, N, N)
        pooled = _weighted_sum(values.view(rows.shape), self.weight, mask)
        return pooled.to(elements.dtype), order.to(elements.dtype)

    def pool_flat(self, values: Tensor, sizes: Tensor) -> Tensor:
        """Pool flat sets, values (total, D) and sizes (B,); see :func:`fspool_flat`.

        A relaxed sort goes through :func:`torchsets.pooling.by_size`.
        """
        if self.temperature is None:
            return fspool_flat(values, sizes, self.weight)
        return by_size(self).pool_flat(values, sizes)

    def extra_repr(self) -> str:
        text = f"features={len(self.weight)}, pieces={self.weight.shape[1] - 1}"
        return text if self.temperature is None else f"{text}, temperature={self.temperature:g}"

    def _check(self, elements: Tensor) -> None:
        check_shape(elements, (None, None, len(self.weight)), name="elements", letters="(B, N, D)")


class FSUnpool(nn.Module):
    """Spread one vector over the elements of a set, in the order that an FSPool has stored.

    It permutes along with the elements. From an exact order equal elements get different ranks and
    so different results: their slots decide which one gets which. A relaxed order treats them
    alike.

    Args:
        features: Number of features D.
        pieces: Number of straight pieces of each weight function.
        init: "normal" draws the weights from N(0, 1); "ones" repeats the vector.

    Attributes:
        weight: The functions at their ``pieces + 1`` points, (features, pieces + 1).

    Example:
        >>> pool, unpool = FSPool(features=1), FSUnpool(features=1)
        >>> pooled, order = pool.pool_with_order(torch.tensor([[[1.0], [3.0]]]))
        >>> unpool(pooled, order).shape
        torch.Size([1, 2, 1])
    """

    def __init__(self, features: int, *, pieces: int = 20, init: str = "normal") -> None:
        super().__init__()
        self.weight = _initial_weight(features, pieces, init)

    def forward(self, vector: Tensor, order: Tensor, mask: Tensor | None = None) -> Tensor:
        """Turn a vector into a set.

        Args:
            vector: One vector per set, (B, D), floating point.
            order: What :meth:`FSPool.pool_with_order` returned: (B, N, D) long, or (B, D, N, N).
            mask: The mask that went into it, (B, N), bool.

        Returns:
            The sets, (B, N, D), with zeros at padding.
        """
        check_shape(vector, (None, len(self.weight)), name="vector", letters="(B, D)")
        batch, features = vector.shape
        relaxed = order.is_floating_point()
        slots = order.shape[-1] if relaxed else order.shape[1]
        expected = (batch, features, slots, slots) if relaxed else (batch, slots, features)
        letters = "(B, D, N, N)" if relaxed else "(B, N, D)"
        check_shape(order, expected, name="order", letters=letters)
        if mask is not None:
            check_mask(mask, torch.Size((batch, slots)), of="order")
        exact = exact_dtype(vector, self.weight)
        with without_autocast(vector):
            basis = _basis(mask, slots, self.weight.shape[1], exact, vector.device)
            scaled = vector.to(exact).unsqueeze(-1) * self.weight.to(exact)  # (B, D, K)
            ranked = scaled @ basis.transpose(1, 2)  # (B, D, N), zero from rank n on
            if relaxed:
                spread = multiply_rows(ranked, order.to(exact))
            else:
                spread = torch.zeros_like(ranked).scatter(-1, order.transpose(1, 2), ranked)
        return spread.transpose(1, 2).to(vector.dtype)

    def extra_repr(self) -> str:
        return f"features={len(self.weight)}, pieces={self.weight.shape[1] - 1}"


def _initial_weight(features: int, pieces: int, init: str) -> nn.Parameter:
    check_counts(features=features, pieces=pieces)
    if init == "normal":
        return nn.Parameter(torch.randn(features, pieces + 1))
    if init == "ones":
        return nn.Parameter(torch.ones(features, pieces + 1))
    raise ValueError(f'init must be "normal" or "ones", got {init!r}')


def _weighted_sum(ranked: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    """Sum sorted features (B, D, N), zero at padding, with the weights of their ranks: (B, D).

    The sorted features are projected onto the K points first. Neither the weights of all ranks
    nor their products with the features are ever stored, and the backward pass is a matmul.
    """
    exact = exact_dtype(ranked, weight)
    with without_autocast(ranked):  # a sum over many ranks
        basis = _basis(mask, ranked.shape[-1], weight.shape[1], exact, ranked.device)
        return ((ranked.to(exact) @ basis) * weight.to(exact)).sum(dim=-1)


def _basis(
    mask: Tensor | None, slots: int, points: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """The interpolation matrices of all sets, (B, N, K), or (1, N, K) if all have N elements."""
    sizes = torch.full((1,), slots, device=device) if mask is None else mask.sum(dim=1)
    return hat_basis(sizes, slots=slots, points=points, dtype=dtype)
