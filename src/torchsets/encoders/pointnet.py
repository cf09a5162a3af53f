"""PointNet: encode a set, tell every element the result, and encode it again."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from torchsets._checks import check_elements, check_mask
from torchsets.encoders.readout import make_pool, pooled_width
from torchsets.mlp import MLP, ContextLinear
from torchsets.padded import fill_padding
from torchsets.pooling import MaxPool


class PointNet(nn.Module):
    """Encode a set in two stages: the vector of the first is appended to each element.

    A network on every element and a pooling give the context of the set. A second network sees
    each element beside the context; its results are pooled again.

    Args:
        features: Number of features D of an element.
        outputs: Size L of the encoded vector.
        hidden: Width H of all layers.
        pooling: Makes a pooling, as for :class:`torchsets.encoders.GIN`: called with the hidden
            size if it has a required parameter, such as ``FSPool``, else with nothing.
        transforms: Learn two matrices from each set, that the features of its elements are
            multiplied with: one for the inputs and one behind the first network. Both start as
            the identity.

    Example:
        >>> PointNet(3, 10)(torch.zeros(5, 7, 3)).shape
        torch.Size([5, 10])

    Reference:
        Qi, Su, Mo, Guibas (2017), "PointNet: deep learning on point sets for 3D classification
        and segmentation", section 4.2. https://arxiv.org/abs/1612.00593
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        hidden: int = 64,
        pooling: Callable[..., nn.Module] = MaxPool,
        transforms: bool = False,
    ) -> None:
        super().__init__()
        self.pools = nn.ModuleList(make_pool(pooling, hidden) for _ in range(2))
        width = pooled_width(self.pools[0], hidden)
        self.first = MLP(features, hidden, hidden)
        self.context = MLP(width, hidden, hidden)
        self.joint = ContextLinear(hidden, hidden, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.outer = MLP(width, hidden, outputs)
        self.transforms = nn.ModuleList(
            _Transform(size, hidden, pooling) for size in (features, hidden) if transforms
        )

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode padded sets (B, N, D) with their mask (B, N) to vectors (B, L)."""
        each = self.describe_elements(elements, mask)
        result: Tensor = self.outer(self.pools[1](each, mask))
        return result

    def describe_elements(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Describe each element in its set, (B, N, H), with zeros at padding.

        This is what PointNet labels the parts of an object by.
        """
        inside, _ = self._first_stage(elements, mask)
        context = self.context(self.pools[0](inside, mask))  # (B, H)
        each = self.second(self.joint(inside, context).relu())
        return fill_padding(each.relu(), mask)

    def orthogonality_loss(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """How far the matrix A behind the first network is from orthogonal: (B,).

        The squared Frobenius norm of I - A A^T, which the paper adds to the loss of the task with
        a weight of 0.001.

        Raises:
            ValueError: If the network has no transforms.
        """
        if not len(self.transforms):
            raise ValueError("transforms must be True for this loss, got False")
        _, matrix = self._first_stage(elements, mask)
        identity = torch.eye(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
        return (identity - matrix @ matrix.transpose(1, 2)).square().sum(dim=(1, 2))

    def _first_stage(self, elements: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The elements behind the first network, (B, N, H), and the last matrix, if any."""
        check_elements(elements)
        if mask is not None:
            check_mask(mask, elements.shape[:2], of="elements")
            elements = fill_padding(elements, mask)
        if not len(self.transforms):
            return self.first(elements).relu(), elements
        of_inputs, of_features = self.transforms
        inside = self.first(elements @ of_inputs(elements, mask)).relu()
        matrix: Tensor = of_features(inside, mask)
        return inside @ matrix, matrix


class _Transform(nn.Module):
    """A matrix from each set (B, N, D): (B, D, D)."""

    def __init__(self, features: int, hidden: int, pooling: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.inner = MLP(features, hidden, hidden)
        self.pool = make_pool(pooling, hidden)
        self.outer = nn.Linear(pooled_width(self.pool, hidden), hidden)
        self.last = nn.Linear(hidden, features**2)
        nn.init.zeros_(self.last.weight)
        with torch.no_grad():
            self.last.bias.copy_(torch.eye(features).flatten())
        self.features = features

    def forward(self, elements: Tensor, mask: Tensor | None) -> Tensor:
        pooled = self.pool(self.inner(elements).relu(), mask)
        matrix: Tensor = self.last(self.outer(pooled).relu())
        return matrix.view(-1, self.features, self.features)
