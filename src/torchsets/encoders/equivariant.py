"""Equivariant Deep Sets layers: linear maps from sets to sets."""

from torch import Tensor, nn

from torchsets._checks import check_elements, check_mask
from torchsets.padded import fill_padding
from torchsets.pooling import max_pool, mean_pool

_CENTRES = {"mean": mean_pool, "max": max_pool}


class EquivariantLinear(nn.Module):
    """Map each element x of a set to W x + b - V c, where c is the mean or maximum of the set.

    Reordering the elements reorders the result. Put an activation between two of these layers.

    Args:
        features: Number of features D of an element.
        outputs: Number of output features H.
        centre: "mean" or "max": what c is, feature by feature.

    Attributes:
        each: W and b, a linear layer.
        centred: V, a linear layer without bias.

    Example:
        >>> import torch
        >>> layers = EquivariantLinear(3, 32), EquivariantLinear(32, 2, centre="max")
        >>> elements, mask = torch.zeros(5, 7, 3), torch.ones(5, 7, dtype=torch.bool)
        >>> layers[1](layers[0](elements, mask).relu(), mask).shape
        torch.Size([5, 7, 2])

    Reference:
        Zaheer et al. (2017), "Deep sets", lemma 3 and section 3.2.
        https://arxiv.org/abs/1703.06114
    """

    def __init__(self, features: int, outputs: int, *, centre: str = "mean") -> None:
        super().__init__()
        if centre not in _CENTRES:
            raise ValueError(f'centre must be "mean" or "max", got {centre!r}')
        self.each = nn.Linear(features, outputs)
        self.centred = nn.Linear(features, outputs, bias=False)
        self.centre = centre

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map padded sets (B, N, D) with their mask (B, N) to sets (B, N, H), 0 at padding."""
        check_elements(elements)
        if mask is not None:
            check_mask(mask, elements.shape[:2], of="elements")
            elements = fill_padding(elements, mask)
        centre = _CENTRES[self.centre](elements, mask)
        moved = self.each(elements) - self.centred(centre).unsqueeze(1)
        return fill_padding(moved, mask)

    def extra_repr(self) -> str:
        return f"centre={self.centre!r}"
