"""Gumbel-Sinkhorn: soft permutations drawn at random."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_counts
from torchsets.permutations.sinkhorn import check_scores, sinkhorn


class GumbelSinkhorn(nn.Module):
    """Add Gumbel noise to scores in train mode, then normalise with :func:`sinkhorn`.

    As the temperature goes to 0 the results approach hard permutations: the best one of the
    noisy scores.

    Args:
        steps: Rounds of normalising rows and columns.
        temperature: Noisy scores are divided by it.
        noise: Scale of the noise; 0 gives none.

    Example:
        >>> soft = GumbelSinkhorn(temperature=0.1)(torch.zeros(2, 3, 3))
        >>> soft.sum(dim=1).round(decimals=4)
        tensor([[1., 1., 1.],
                [1., 1., 1.]])

    Reference:
        Mena et al. 2018, https://arxiv.org/abs/1802.08665.
    """

    def __init__(self, *, steps: int = 20, temperature: float = 1.0, noise: float = 1.0) -> None:
        super().__init__()
        check_counts(steps=steps)
        if not temperature > 0:
            raise ValueError(f"temperature must be positive, got {temperature}")
        if not noise >= 0:
            raise ValueError(f"noise must be at least 0, got {noise}")
        self.steps = steps
        self.temperature = temperature
        self.noise = noise

    def forward(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Scores (B, N, N) and mask (B, N) to soft permutations (B, N, N)."""
        check_scores(scores, mask)
        if self.training and self.noise > 0:
            # Minus the logarithm of an exponential variable is a Gumbel variable.
            # In half precision some would be 0, and their logarithms infinite.
            wide = torch.promote_types(scores.dtype, torch.float32)
            draw = torch.empty_like(scores, dtype=wide).exponential_(generator=generator).log()
            scores = scores - (self.noise * draw).to(scores.dtype)
        return sinkhorn(scores, steps=self.steps, temperature=self.temperature, mask=mask)
