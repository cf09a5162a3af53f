"""Janossy pooling: an ordinary function of lists, averaged over the orders of a set."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from torchsets._autograd import is_traced
from torchsets._checks import check_counts, check_padded_sets
from torchsets.encoders.last_state import check_state, last_states
from torchsets.padded import fill_padding

# About this many tuples, and this many sets in some order, are computed at once.
_TUPLES = 1 << 16
_SETS = 1 << 12


def tuple_mean(
    elements: Tensor,
    function: Callable[[Tensor], Tensor],
    mask: Tensor | None = None,
    *,
    k: int,
) -> Tensor:
    """Average a function over all ordered tuples of k different elements of each set.

    There are n! / (n - k)! of them in a set of n elements. They are taken in blocks, so that
    memory does not grow with their number unless gradients are needed.

    Args:
        elements: Padded sets, (B, N, D), floating point.
        function: Of k elements side by side, (B, T, k * D) -> (B, T, L).
        mask: True where an element is real, (B, N), bool. None: all are real.
        k: How many elements are in a tuple, at least 1.

    Returns:
        One vector per set, (B, L). A set of fewer than k elements gives zeros.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> elements = torch.tensor([[[1.0], [2.0], [6.0]]])
        >>> tuple_mean(elements, lambda pairs: pairs.prod(dim=2, keepdim=True), k=2)
        tensor([[6.6667]])

    Reference:
        Murphy, Srinivasan, Rao, Ribeiro (2019), "Janossy pooling: learning deep
        permutation-invariant functions for variable-size inputs", equation 7.
        https://arxiv.org/abs/1811.01900
    """
    check_counts(k=k)
    mask = check_padded_sets(elements, mask)
    elements = fill_padding(elements, mask)
    batch, slots, _ = elements.shape
    totals = []
    for part in _tuples(slots, k, elements.device, _TUPLES // max(1, batch)):
        columns = part.unbind(1)
        chosen = torch.cat([elements.index_select(1, one) for one in columns], dim=2)
        real = torch.stack([mask.index_select(1, one) for one in columns]).all(dim=0)
        real = real & _distinct(part)
        values = fill_padding(function(chosen), real)
        wide = torch.promote_types(values.dtype, torch.float32)
        totals.append(values.sum(dim=1, dtype=wide))
    sizes = mask.sum(dim=1, keepdim=True)
    count = torch.stack([sizes - taken for taken in range(k)]).prod(dim=0)
    total = torch.stack(totals).sum(dim=0)
    return (total / count.clamp(min=1)).to(values.dtype)


def read_in_orders(
    elements: Tensor,
    recurrent: nn.Module,
    orders: Tensor,
    mask: Tensor | None = None,
    *,
    state: str = "hidden",
) -> Tensor:
    """Read sets as lists, in given orders, and take the last state of each list.

    Args:
        elements: Padded sets, (B, N, D), floating point.
        recurrent: As for :class:`JanossyPooling`.
        orders: Each order a permutation of the slots, (O, B, N), long. Padding is left out.
        mask: True where an element is real, (B, N), bool. None: all are real.
        state: "hidden" or "cell".

    Returns:
        The states, (O, B, L). An empty set gives zeros.

    Example:
        >>> gru = nn.GRU(1, 3, batch_first=True)
        >>> read_in_orders(torch.rand(1, 2, 1), gru, torch.tensor([[[0, 1]], [[1, 0]]])).shape
        torch.Size([2, 1, 3])
    """
    mask = check_padded_sets(elements, mask)
    elements = fill_padding(elements, mask)
    # Real elements first, in their order: behind them nothing is read.
    padding = (~mask).expand(orders.shape).gather(2, orders)
    orders = orders.gather(2, padding.byte().argsort(dim=2, stable=True))
    sizes = mask.sum(dim=1)
    parts = []
    for part in _blocks(orders, _SETS, elements.shape[0]):
        shape = (*part.shape, elements.shape[2])
        lists = elements.expand(shape).gather(2, part.unsqueeze(-1).expand(shape))
        states = last_states(
            recurrent,
            lists.flatten(0, 1),
            sizes.repeat(part.shape[0]),
            state,
            caller="JanossyPooling",
        )
        parts.append(states.view(*part.shape[:2], states.shape[-1]))
    return torch.cat(parts)


class JanossyPooling(nn.Module):
    """Average a module that reads lists over the orders of a set.

    With ``k`` the module sees every ordered tuple of k different elements, and the mean over all
    of them is exact. Without, it is a recurrent network that reads the whole set in random orders
    (pi-SGD): in one order in train mode, and in evaluation mode the mean of the vectors over
    ``orders`` of them, another order for each set. The mean over all orders does not depend on
    the order of the slots, and the random ones have that mean as their expectation.

    Args:
        module: With k, any module on k elements side by side: (..., k * D) -> (..., L). Without,
            ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN`` with ``batch_first=True`` in one direction, or a
            module that is called in the same way and does not look ahead.
        k: Number of elements in a tuple. None: whole sets in random orders.
        state: The last "hidden" state, or the last "cell" state of an ``nn.LSTM``, is the result.
        orders: Number of random orders in evaluation mode.

    Example:
        >>> triples = JanossyPooling(nn.Sequential(nn.Linear(3 * 2, 8), nn.ReLU()), k=3)
        >>> triples(torch.rand(5, 7, 2)).shape
        torch.Size([5, 8])
        >>> reader = JanossyPooling(nn.LSTM(2, 8, batch_first=True)).eval()
        >>> generator = torch.Generator().manual_seed(0)
        >>> reader(torch.rand(5, 7, 2), generator=generator).shape
        torch.Size([5, 8])

    Reference:
        Murphy, Srinivasan, Rao, Ribeiro (2019), "Janossy pooling: learning deep
        permutation-invariant functions for variable-size inputs", sections 2.2 and 2.3.
        https://arxiv.org/abs/1811.01900
    """

    def __init__(
        self, module: nn.Module, *, k: int | None = None, state: str = "hidden", orders: int = 20
    ) -> None:
        super().__init__()
        if k is not None and k < 1:
            raise ValueError(f"k must be at least 1, or None, got {k}")
        check_state(state)
        check_counts(orders=orders)
        if k is None:
            _check_recurrent(module, state)
        self.module = module
        self.k = k
        self.state = state
        self.orders = orders

    def forward(
        self,
        elements: Tensor,
        mask: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Pool padded sets (B, N, D) with their mask (B, N) to vectors (B, L).

        An empty set, and with k a set of fewer than k elements, gives zeros.
        """
        if self.k is not None:
            return tuple_mean(elements, self.module, mask, k=self.k)
        return self.vectors_by_order(elements, mask, generator=generator).mean(dim=0)

    def vectors_by_order(
        self,
        elements: Tensor,
        mask: Tensor | None = None,
        *,
        orders: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Read each set in random orders, without averaging the vectors: (orders, B, L).

        So that predictions can be averaged instead, such as log-probabilities.

        Args:
            elements: Padded sets, (B, N, D), floating point.
            mask: True where an element is real, (B, N), bool. None: all are real.
            orders: Number of orders. None: 1 in train mode, that of the module in evaluation mode.
            generator: Draws the orders.

        Raises:
            ValueError: If the module pools tuples, which have no order to draw.
        """
        if self.k is not None:
            raise ValueError(f"k must be None for random orders, got {self.k}")
        mask = check_padded_sets(elements, mask)
        if orders is None:
            orders = 1 if self.training else self.orders
        check_counts(orders=orders)
        device = mask.device if generator is None else generator.device
        # In float64, where two equal numbers, which a sort would not order at random, are rare.
        draw = torch.empty(orders, *mask.shape, dtype=torch.float64, device=device)
        order = draw.uniform_(generator=generator).argsort(dim=2).to(mask.device)
        return read_in_orders(elements, self.module, order, mask, state=self.state)

    def extra_repr(self) -> str:
        if self.k is not None:
            return f"k={self.k}"
        return f"state={self.state!r}, orders={self.orders}"


def _check_recurrent(module: nn.Module, state: str) -> None:
    if isinstance(module, nn.RNNBase):
        if not module.batch_first:
            raise ValueError("module must have batch_first=True, got False")
        if module.bidirectional:
            raise ValueError("module must read in one direction, got a bidirectional one")
    if state == "cell" and not isinstance(module, nn.LSTM):
        raise ValueError(f"module must be an nn.LSTM for the cell state, got {module}")


def _blocks(rows: Tensor, count: int, batch: int) -> tuple[Tensor, ...]:
    """Cut the first axis so that about ``count`` rows of all sets are in each part."""
    return (rows,) if is_traced() else torch.split(rows, max(1, count // max(1, batch)))


def _tuples(slots: int, k: int, device: torch.device, count: int) -> Iterator[Tensor]:
    """All ordered tuples of k different slots, (T, k), at most ``count`` at a time.

    Where sizes have to be open they come at once, with repetitions.
    """

    def from_to(start: int, stop: int) -> Tensor:
        number = torch.arange(start, stop, device=device)
        digits = [number // slots**place % slots for place in reversed(range(k))]
        return torch.stack(digits, dim=1)

    if is_traced():  # ONNX has no remainder by an open size
        digits = torch.meshgrid(*[torch.arange(slots, device=device)] * k, indexing="ij")
        yield torch.stack([one.flatten() for one in digits], dim=1)
        return
    total, step = slots**k, max(1, count)
    for start in range(0, max(1, total), step):
        chosen = from_to(start, min(start + step, total))
        yield chosen[_distinct(chosen)]


def _distinct(chosen: Tensor) -> Tensor:
    """Whether the slots of each tuple (T, k) differ, (T,)."""
    ranked = chosen.sort(dim=1).values
    return (ranked[:, 1:] != ranked[:, :-1]).all(dim=1)
