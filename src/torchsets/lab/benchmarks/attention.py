"""Set Transformer, forward and backward, beside its blocks on nn.MultiheadAttention and FSPool."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from torchsets.encoders import DeepSets, SetTransformer
from torchsets.lab.benchmarks.harness import Case, Step
from torchsets.mlp import MLP
from torchsets.pooling import FSPool

_WIDTH, _HEADS, _INDUCING = 64, 4, 16
_MEDIUM, _LARGE = 342, 10000
_PLAIN = "plain: blocks on nn.MultiheadAttention"


def cases() -> list[Case]:
    """Full attention and inducing points; for scale, one block of full attention on a large set."""
    return [
        _case((32, _MEDIUM), None),
        _case((32, _MEDIUM), _INDUCING),
        _case((8, _LARGE), _INDUCING),
        Case(
            f"one block, one set (1, {_LARGE}, {_WIDTH}), full attention",
            {
                "torchsets": partial(_prepare, partial(_ours, None, layers=1), (1, _LARGE)),
                _PLAIN: partial(
                    _prepare, partial(PlainSetTransformer, None, layers=1), (1, _LARGE)
                ),
                f"limit: {_INDUCING} inducing points": partial(
                    _prepare, partial(_ours, _INDUCING, layers=1), (1, _LARGE)
                ),
            },
        ),
    ]


def _case(shape: tuple[int, int], inducing: int | None) -> Case:
    kind = "full attention" if inducing is None else f"{inducing} inducing points"
    return Case(
        f"SetTransformer ({shape[0]}, {shape[1]}, {_WIDTH}), ragged, {kind}",
        {
            "torchsets": partial(_prepare, partial(_ours, inducing), shape),
            _PLAIN: partial(_prepare, partial(PlainSetTransformer, inducing), shape),
            "limit: MLP and FSPool": partial(_prepare, _fspool, shape),
        },
    )


def _prepare(build: Callable[[], nn.Module], shape: tuple[int, int]) -> Step:
    torch.manual_seed(0)
    model = build()
    elements = torch.randn(*shape, _WIDTH).requires_grad_()
    sizes = torch.randint(shape[1] // 2, shape[1] + 1, (shape[0], 1))
    mask = torch.arange(shape[1]) < sizes
    wanted = [elements, *model.parameters()]
    return lambda: torch.autograd.grad(model(elements, mask).sum(), wanted)


def _ours(inducing: int | None, *, layers: int = 2) -> nn.Module:
    return SetTransformer(
        _WIDTH, _WIDTH, hidden=_WIDTH, heads=_HEADS, layers=layers, inducing=inducing
    )


def _fspool() -> nn.Module:
    return DeepSets(MLP(_WIDTH, _WIDTH, _WIDTH), FSPool(_WIDTH), nn.Linear(_WIDTH, _WIDTH))


class PlainSetTransformer(nn.Module):
    """The same blocks, as one writes them down from the paper's equations 6 to 11."""

    def __init__(self, inducing: int | None, *, layers: int = 2) -> None:
        super().__init__()
        self.points = nn.ParameterList(
            torch.randn(1, inducing, _WIDTH) for _ in range(layers) if inducing is not None
        )
        self.collect = nn.ModuleList(_PlainBlock() for _ in self.points)
        self.spread = nn.ModuleList(_PlainBlock() for _ in range(layers))
        self.pool = _PlainBlock()
        self.seed = nn.Parameter(torch.randn(1, 1, _WIDTH))
        self.out = nn.Linear(_WIDTH, _WIDTH)

    def forward(self, elements: Tensor, mask: Tensor) -> Tensor:
        """Encode padded sets (B, N, D) to vectors (B, D)."""
        elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
        for index, spread in enumerate(self.spread):
            if self.collect:
                points = self.points[index].expand(len(elements), -1, -1)
                keys, key_mask = self.collect[index](points, elements, mask), None
            else:
                keys, key_mask = elements, mask
            elements = spread(elements, keys, key_mask)
        seed = self.seed.expand(len(elements), -1, -1)
        result: Tensor = self.out(self.pool(seed, elements, mask).squeeze(1))
        return result


class _PlainBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(_WIDTH, _HEADS, batch_first=True)
        self.out = nn.Linear(_WIDTH, _WIDTH)

    def forward(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        padding = None if mask is None else ~mask
        collected, _ = self.attention(
            queries, keys, keys, key_padding_mask=padding, need_weights=False
        )
        attended = queries + collected
        result: Tensor = attended + self.out(attended).relu()
        return result
