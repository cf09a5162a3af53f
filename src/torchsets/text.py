"""Questions as vectors: a recurrent network that never reads padding."""

from typing import Literal

import torch
from torch import Tensor, nn

from torchsets._checks import check_shape

_CELLS = {"lstm": nn.LSTM, "gru": nn.GRU}


class QuestionEncoder(nn.Module):
    """Read the words of a question one after the other; the last hidden state is the vector.

    Args:
        words: Number of different words; they are counted from 0.
        hidden: Size H of the hidden state.
        embedding: Size of the vector that stands for a word.
        cell: "lstm" or "gru".
        backwards: Whether to read from the last word to the first.

    Example:
        >>> encoder = QuestionEncoder(20, 16)
        >>> encoder(torch.tensor([[3, 1, 4], [1, 5, 0]]), torch.tensor([3, 2])).shape
        torch.Size([2, 16])
    """

    def __init__(
        self,
        words: int,
        hidden: int,
        *,
        embedding: int = 32,
        cell: Literal["lstm", "gru"] = "lstm",
        backwards: bool = False,
    ) -> None:
        super().__init__()
        if cell not in _CELLS:
            raise ValueError(f'cell must be "lstm" or "gru", got {cell!r}')
        self.backwards = backwards
        self.embedding = nn.Embedding(words, embedding)
        self.reader = _CELLS[cell](embedding, hidden, batch_first=True)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Encode questions.

        Args:
            words: Numbers of the words of each question, (B, T), integer; anything at padding.
            lengths: How many words a question has, (B,), integer, at most T.

        Returns:
            One vector per question, (B, H); zeros for a question without words.

        Raises:
            ValueError: If a shape, dtype or length differs from the above.
        """
        check_shape(words, (None, None), name="words", letters="(B, T)")
        check_shape(lengths, (words.shape[0],), name="lengths", letters="(B,)")
        for name, tensor in (("words", words), ("lengths", lengths)):
            if tensor.is_floating_point() or tensor.dtype == torch.bool:
                raise ValueError(f"{name} must be integer, got {tensor.dtype}")
        if words.shape[1] == 0:
            return self.embedding.weight.new_zeros(words.shape[0], self.reader.hidden_size)
        places = torch.arange(words.shape[1], device=words.device)
        real = places < lengths.unsqueeze(1)
        words = words.masked_fill(~real, 0)
        if self.backwards:
            # The last word comes first; what lies behind the question stays behind it.
            words = words.gather(1, torch.where(real, lengths.unsqueeze(1) - 1 - places, 0))
        # A state depends on the words up to it alone, so padding behind them is never seen.
        states: Tensor = self.reader(self.embedding(words))[0]
        last = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
        return states.gather(1, last).squeeze(1).masked_fill(lengths.unsqueeze(1) == 0, 0)
