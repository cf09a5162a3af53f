"""The random starts of decoders."""

import torch
from torch import Tensor


def normal_noise(
    size: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Draw standard normal numbers, of the dtype and on the device of ``like``.

    A generator on the CPU serves every device.
    """
    if generator is None:  # given as None, it would keep torch.export from open sizes
        return torch.randn(size, dtype=like.dtype, device=like.device)
    noise = torch.randn(size, generator=generator, dtype=like.dtype, device=generator.device)
    return noise.to(like.device)
