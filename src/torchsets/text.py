"""Questions as numbers: words, a vocabulary, and an encoder that reads the real words only."""

import re
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from torchsets._autograd import is_traced, run_lstm
from torchsets._checks import check_counts, check_shape
from torchsets.padded import check_lengths, lengths_to_mask

# Texts are read in up to this many groups of similar length, of at least so many texts.
_GROUPS, _GROUP = 4, 32
_WORD = re.compile(r"[\w'-]+|[^\w\s'-]")


def split_words(text: str) -> list[str]:
    """Lower-case words; each punctuation mark is a word of its own.

    Example:
        >>> split_words("Is it red; or large?")
        ['is', 'it', 'red', ';', 'or', 'large', '?']
    """
    return _WORD.findall(text.lower())


class Vocabulary:
    """A list of words, numbered from 1; 0 stands for padding.

    Args:
        words: In the order of their numbers, each once.

    Attributes:
        words: As above; ``len(vocabulary)`` is their number.

    Raises:
        ValueError: If a word is there twice.

    Example:
        >>> vocabulary = Vocabulary.from_texts(["is it red?"])
        >>> vocabulary.encode(["is red", "red"])
        (tensor([[1, 3],
                [3, 0]]), tensor([2, 1]))
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self.numbers = {word: number for number, word in enumerate(self.words, start=1)}
        if len(self.numbers) != len(self.words):
            twice = next(word for word in self.words if self.words.count(word) > 1)
            raise ValueError(f"words must be different, got {twice!r} twice")

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> "Vocabulary":
        """The words of texts in order of appearance; see :func:`split_words`."""
        return cls(dict.fromkeys(word for text in texts for word in split_words(text)))

    def number(self, word: str) -> int:
        """The number of a word; raise ``ValueError`` if it is unknown."""
        try:
            return self.numbers[word]
        except KeyError:
            raise ValueError(
                f"words must be among the {len(self)} of the vocabulary, got {word!r}"
            ) from None

    def encode(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Texts as numbers (B, T), long, zeros behind, and their lengths (B,), long."""
        rows = [[self.number(word) for word in split_words(text)] for text in texts]
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        tokens = torch.zeros(len(rows), max(map(len, rows), default=0), dtype=torch.long)
        for place, row in enumerate(rows):
            tokens[place, : len(row)] = torch.tensor(row)
        return tokens, lengths

    def decode(self, numbers: Iterable[int]) -> str:
        """The words of numbers, between spaces; 0 is left out. Others raise ``ValueError``."""
        numbers = list(numbers)
        if not all(0 <= number <= len(self) for number in numbers):
            raise ValueError(f"numbers must be from 0 to {len(self)}, got {numbers}")
        return " ".join(self.words[number - 1] for number in numbers if number)

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words)"


class QuestionEncoder(nn.Module):
    """Encode a text as the last state of a recurrent network that reads its words.

    Padding is never read: a text gives the same result alone and beside longer ones.

    Args:
        words: Number of words V; they are numbered from 1 to V.
        embedding: Features of a word.
        hidden: Size of the state, and of the result.
        cell: ``nn.LSTM`` or ``nn.GRU``.
        reverse: Read from the last word to the first.
        activation: Applied to the embedded words, such as dropout and tanh. None: nothing.

    Attributes:
        embedding: A row for each word; row 0 is for words that are unknown.
        recurrent: The network.

    Example:
        >>> encoder = QuestionEncoder(9, hidden=16)
        >>> encoder(torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([3, 1])).shape
        torch.Size([2, 16])
    """

    def __init__(
        self,
        words: int,
        *,
        embedding: int = 32,
        hidden: int = 256,
        cell: type[nn.LSTM] | type[nn.GRU] = nn.LSTM,
        reverse: bool = False,
        activation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        check_counts(words=words, embedding=embedding, hidden=hidden)
        self.embedding = nn.Embedding(words + 1, embedding)
        self.activation = nn.Identity() if activation is None else activation
        self.recurrent = cell(embedding, hidden, batch_first=True)
        self.reverse = reverse

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Encode texts.

        Args:
            tokens: The numbers of the words, (B, T), long. Behind the text may stand anything.
            lengths: The number of words of each text, (B,), long. None: T.

        Returns:
            A vector for each text, (B, hidden); zeros for a text without words.

        Raises:
            ValueError: If a shape or dtype differs from the above.
        """
        check_shape(tokens, (None, None), name="tokens", letters="(B, T)")
        if tokens.dtype != torch.long:
            raise ValueError(f"tokens must be long, got {tokens.dtype}")
        batch, size = tokens.shape
        if lengths is None:
            lengths = torch.full((batch,), size, dtype=torch.long, device=tokens.device)
        check_shape(lengths, (batch,), name="lengths", letters="(B,)")
        if lengths.dtype != torch.long:
            raise ValueError(f"lengths must be long, got {lengths.dtype}")
        check_lengths(lengths, size)
        if batch == 0 or size == 0:  # a recurrent network needs one of each
            # 0, but with a gradient: an empty batch can be backpropagated like any other
            nothing = sum(weight.flatten()[:0].sum() for weight in self.parameters())
            zeros = self.embedding.weight.new_zeros(batch, self.recurrent.hidden_size)
            return zeros + cast(Tensor, nothing)
        if self.reverse:
            places = lengths.unsqueeze(1) - 1 - torch.arange(size, device=tokens.device)
            tokens = tokens.gather(1, places.clamp(min=0))
        tokens = tokens.masked_fill(~lengths_to_mask(lengths, size=size), 0)
        if batch < 2 * _GROUP or tokens.device.type != "cpu" or is_traced():
            return self._read(tokens, lengths)
        # Texts of similar length together: the short ones do not wait for the longest.
        order = lengths.argsort()
        parts = [
            self._read(tokens[rows, : max(1, int(lengths[rows[-1]]))], lengths[rows])
            for rows in torch.tensor_split(order, min(_GROUPS, batch // _GROUP))
        ]
        return torch.cat(parts).index_select(0, order.argsort())

    def _read(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        words = self.activation(self.embedding(tokens))
        if isinstance(self.recurrent, nn.LSTM):
            states, _ = run_lstm(self.recurrent, words)  # (B, T, hidden)
        else:
            states = self.recurrent(words)[0]
        # The network does not look ahead, so what lies behind the last word is ignored.
        last = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
        state = states.gather(1, last).squeeze(1)
        return torch.where(lengths.unsqueeze(1) > 0, state, 0)
