"""Where slots start: drawn from a learned Gaussian, or learned one by one."""

import torch
from torch import Tensor, nn

_BLOCK = 16  # a CPU draws normal numbers in blocks of so many, and the last one anew if it is short


class GaussianStart(nn.Module):
    """Draw slots from one learned Gaussian, anew for every set.

    Which numbers a set gets depends on the generator and on its place in the batch, and on nothing
    that the other sets hold.

    Args:
        slots: Number of slots N.
        hidden: Size H of a slot.
        learned: Whether mean and spread are trained.

    Attributes:
        mean: (1, H).
        log_spread: Logarithm of the standard deviation, (1, H).
    """

    def __init__(self, slots: int, hidden: int, *, learned: bool = True) -> None:
        super().__init__()
        self.slots, self.hidden = slots, hidden
        self.mean = nn.Parameter(torch.empty(1, hidden), requires_grad=learned)
        self.log_spread = nn.Parameter(torch.empty(1, hidden), requires_grad=learned)
        nn.init.xavier_uniform_(self.mean)
        nn.init.xavier_uniform_(self.log_spread)

    def forward(self, sets: int, generator: torch.Generator | None = None) -> Tensor:
        """Return the slots of so many sets, (B, N, H). A generator on the CPU serves any device."""
        like, count = self.mean, self.slots * self.hidden
        size = (sets, -(-count // _BLOCK) * _BLOCK)
        if generator is None:  # given as None, it would keep torch.export from an open batch size
            noise = torch.randn(size, dtype=like.dtype, device=like.device)
        else:
            device = generator.device
            noise = torch.randn(size, generator=generator, dtype=like.dtype, device=device)
        noise = noise[:, :count].reshape(sets, self.slots, self.hidden)
        return self.mean + self.log_spread.exp() * noise.to(like.device)


class LearnedStart(nn.Module):
    """One learned start per slot, the same for every set.

    Args:
        slots: Number of slots N.
        hidden: Size H of a slot.
        learned: Whether it is trained.

    Attributes:
        initial: (N, H).
    """

    def __init__(self, slots: int, hidden: int, *, learned: bool = True) -> None:
        super().__init__()
        self.initial = nn.Parameter(torch.randn(slots, hidden), requires_grad=learned)

    def forward(self, sets: int, generator: torch.Generator | None = None) -> Tensor:
        """Return the slots of so many sets, (B, N, H)."""
        return self.initial.expand(sets, -1, -1)


def check_initial(initial: Tensor, sets: int, slots: int, hidden: int) -> Tensor:
    """Return given slots (B or 1, N, H) for so many sets; raise ``ValueError`` on other shapes."""
    if initial.shape[1:] != (slots, hidden) or initial.shape[0] not in (1, sets):
        raise ValueError(
            f"initial must have shape (B or 1, slots, hidden) = ({sets} or 1, {slots}, {hidden}), "
            f"got {tuple(initial.shape)}"
        )
    return initial.expand(sets, -1, -1)
