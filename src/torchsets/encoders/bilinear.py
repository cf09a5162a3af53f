"""Bilinear attention networks (BAN): a set of elements and a list of words look at each other."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, relu

from torchsets._checks import check_counts, check_padded_sets, check_shape
from torchsets.counting import Counter
from torchsets.encoders.proposals import ProposalReader


class NormalisedLinear(nn.Module):
    """A linear layer whose weight matrix is g V / ||V||, with one learned number g.

    Args:
        inputs: Number of input features.
        outputs: Number of output features.

    Attributes:
        weight: V, (outputs, inputs); as in ``nn.Linear`` at first.
        scale: g, at first the norm of V.
        bias: (outputs,).

    Example:
        >>> NormalisedLinear(3, 2)(torch.zeros(5, 3)).shape
        torch.Size([5, 2])

    Reference:
        Salimans, Kingma 2016, https://arxiv.org/abs/1602.07868, with one g for all rows.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        plain = nn.Linear(inputs, outputs)
        self.weight, self.bias = plain.weight, plain.bias
        self.scale = nn.Parameter(self.weight.detach().norm())

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer to the last axis."""
        return linear(inputs, self.scale / self.weight.norm() * self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"inputs={self.weight.shape[1]}, outputs={self.weight.shape[0]}"


class BilinearAttention(nn.Module):
    """How much each element and each word have to do with each other, for several glimpses.

    ``logit_gnt = sum_k h_gk relu(V x_n)_k relu(W q_t)_k + b_g``.

    Args:
        features: Number of features D of an element.
        words: Number of features E of a word.
        rank: Number of products k.
        glimpses: Number of glimpses G.
        dropout: Share of the inputs that is set to 0 in training.
        rank_dropout: The same for the projected elements.

    Example:
        >>> attention = BilinearAttention(3, 5, rank=8, glimpses=2)
        >>> attention(torch.rand(4, 7, 3), torch.rand(4, 6, 5)).shape
        torch.Size([4, 2, 7, 6])
    """

    def __init__(
        self,
        features: int,
        words: int,
        *,
        rank: int,
        glimpses: int,
        dropout: float = 0.0,
        rank_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.element = NormalisedLinear(features, rank)
        self.word = NormalisedLinear(words, rank)
        self.weight = nn.Parameter(torch.randn(glimpses, rank))
        self.scale = nn.Parameter(self.weight.detach().norm())
        self.bias = nn.Parameter(torch.randn(glimpses))
        self.dropout, self.rank_dropout = nn.Dropout(dropout), nn.Dropout(rank_dropout)

    def forward(self, elements: Tensor, words: Tensor) -> Tensor:
        """The logits of elements (B, N, D) and words (B, T, E) without padding: (B, G, N, T)."""
        left = self.rank_dropout(relu(self.element(self.dropout(elements))))
        right = relu(self.word(self.dropout(words)))  # (B, T, K)
        weight = self.scale / self.weight.norm() * self.weight
        # There are fewer words than elements: multiply the weights into those.
        weighted = (right.unsqueeze(1) * weight[:, None, :]).flatten(1, 2)  # (B, G T, K)
        logits = (left @ weighted.transpose(1, 2)).unflatten(2, (len(self.bias), words.shape[1]))
        return logits.transpose(1, 2) + self.bias[:, None, None]


class BilinearPool(nn.Module):
    """One glimpse: ``sum_nt weight_nt relu(V x_n) relu(W q_t)``, feature by feature.

    Args:
        features: Number of features D of an element.
        words: Number of features E of a word.
        outputs: Number of features of the result.
        dropout: Share of the inputs that is set to 0 in training.

    Example:
        >>> pool = BilinearPool(3, 5, 8)
        >>> pool(torch.rand(4, 7, 3), torch.rand(4, 6, 5), torch.rand(4, 7, 6)).shape
        torch.Size([4, 8])
    """

    def __init__(self, features: int, words: int, outputs: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.element = NormalisedLinear(features, outputs)
        self.word = NormalisedLinear(words, outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, elements: Tensor, words: Tensor, weights: Tensor) -> Tensor:
        """Pool elements (B, N, D) and words (B, T, E) with weights (B, N, T) to (B, outputs)."""
        left = relu(self.element(self.dropout(elements)))
        right = relu(self.word(self.dropout(words)))
        return ((weights.transpose(1, 2) @ left) * right).sum(dim=1)


class BANAttention(NamedTuple):
    """Where a network looks.

    Attributes:
        logits: (B, G, N, T); meaningless at padding.
        weights: Their softmax over all real pairs of an element and a word, (B, G, N, T); exactly 0
            at padding.
    """

    logits: Tensor
    weights: Tensor


class BAN(nn.Module):
    """Encode a set in the light of a text: bilinear attention with residual glimpses.

    The attention of all glimpses is found first. Then each glimpse in turn adds to every word what
    it sees, and, where there are such parts, a count of the boxes it looks at and what a reader of
    them says. The result is the sum of the words.

    Args:
        features: Number of features D of an element.
        hidden: Number of features H of a word, and of the result.
        glimpses: Number of glimpses G.
        counter: Counts boxes, with ``attention="logits"``. None: no count.
        reader: Reads boxes and features as a list. None: nothing is read.
        dropout: Share of the inputs of each layer that is set to 0 in training.
        rank_dropout: The same for the projected elements of the attention.

    Example:
        >>> network = BAN(3, 8, glimpses=2)
        >>> network(torch.rand(4, 7, 3), words=torch.rand(4, 6, 8)).shape
        torch.Size([4, 8])

    Reference:
        Kim, Jun, Zhang 2018, https://arxiv.org/abs/1805.07932.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        *,
        glimpses: int = 8,
        counter: Counter | None = None,
        reader: ProposalReader | None = None,
        dropout: float = 0.0,
        rank_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_counts(glimpses=glimpses)
        if counter is not None and counter.attention != "logits":
            raise ValueError(f'counter must take "logits", got {counter.attention!r}')

        def layers(inputs: int) -> nn.ModuleList:
            return nn.ModuleList(NormalisedLinear(inputs, hidden) for _ in range(glimpses))

        self.attention = BilinearAttention(
            features,
            hidden,
            rank=3 * hidden,
            glimpses=glimpses,
            dropout=dropout,
            rank_dropout=rank_dropout,
        )
        self.pools = nn.ModuleList(
            BilinearPool(features, hidden, hidden, dropout=dropout) for _ in range(glimpses)
        )
        self.residuals = layers(hidden)
        self.counter, self.reader = counter, reader
        self.counted = None if counter is None else layers(counter.objects + 1)
        self.read = None if reader is None else layers(reader.outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        elements: Tensor,
        mask: Tensor | None = None,
        *,
        words: Tensor,
        word_mask: Tensor | None = None,
        boxes: Tensor | None = None,
    ) -> Tensor:
        """Encode sets.

        Args:
            elements: Padded sets, (B, N, D), floating point.
            mask: True where an element is real, (B, N), bool. None: all are real.
            words: The states of the words, (B, T, H).
            word_mask: True where a word is real, (B, T), bool. None: all are real.
            boxes: x1, y1, x2, y2 of each element, (B, N, 4), if there is a counter or a reader.

        Returns:
            One vector for each set, (B, H). An empty set leaves the words as the biases of the
            glimpses change them; a text without words gives zeros.

        Raises:
            ValueError: If a shape or dtype differs from the above, or boxes are missing.
        """
        elements, mask, words, word_mask = self._prepare(elements, mask, words, word_mask)
        logits, weights = self._attend(elements, mask, words, word_mask)
        said = self._say(elements, mask, boxes, _over_words(logits, word_mask))
        for glimpse, pool in enumerate(self.pools):
            seen = pool(elements, words, weights[:, glimpse])
            change = self.residuals[glimpse](self.dropout(seen))
            for layers, vectors in said:
                change = change + relu(layers[glimpse](vectors[:, glimpse]))
            words = words + change.unsqueeze(1)
        return words.masked_fill(~word_mask.unsqueeze(-1), 0).sum(dim=1)

    def attend(
        self,
        elements: Tensor,
        mask: Tensor | None = None,
        *,
        words: Tensor,
        word_mask: Tensor | None = None,
    ) -> BANAttention:
        """The attention of all glimpses, for inspection; the arguments are those of ``forward``."""
        return self._attend(*self._prepare(elements, mask, words, word_mask))

    def _prepare(
        self, elements: Tensor, mask: Tensor | None, words: Tensor, word_mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mask = check_padded_sets(elements, mask)
        word_mask = check_padded_sets(words, word_mask, name="words", mask_name="word_mask")
        hidden = self.attention.word.weight.shape[1]
        check_shape(words, (elements.shape[0], None, hidden), name="words", letters="(B, T, H)")
        if words.shape[1] == 0:  # the largest logit of no word is not defined
            words, word_mask = pad(words, (0, 0, 0, 1)), pad(word_mask, (0, 1))
        elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
        return elements, mask, words.masked_fill(~word_mask.unsqueeze(-1), 0), word_mask

    def _attend(
        self, elements: Tensor, mask: Tensor, words: Tensor, word_mask: Tensor
    ) -> BANAttention:
        logits = self.attention(elements, words)
        padding = ~(mask.unsqueeze(2) & word_mask.unsqueeze(1)).unsqueeze(1)  # (B, 1, N, T)
        real = logits.masked_fill(padding, torch.finfo(logits.dtype).min).flatten(2)
        weights = real.softmax(dim=2).view(logits.shape).masked_fill(padding, 0)
        return BANAttention(logits, weights)

    def _say(
        self, elements: Tensor, mask: Tensor, boxes: Tensor | None, logits: Tensor
    ) -> list[tuple[nn.ModuleList, Tensor]]:
        """What the parts say to each glimpse (B, G, ..), and the layers that take it."""
        if self.counter is None and self.reader is None:
            return []
        if boxes is None:
            raise ValueError("boxes must be given for a counter or a reader, got None")
        check_shape(boxes, (*mask.shape, 4), name="boxes", letters="(B, N, 4)")
        batch, glimpses, _ = logits.shape
        said = []
        if self.counter is not None and self.counted is not None:
            many = boxes.repeat_interleave(glimpses, dim=0)
            repeated = mask.repeat_interleave(glimpses, dim=0)
            counts = self.counter(many, logits.flatten(0, 1), repeated)
            said.append((self.counted, counts.unflatten(0, (batch, glimpses))))
        if self.reader is not None and self.read is not None:
            said.append((self.read, self.reader(elements, boxes, logits, mask)))
        return said


def _over_words(logits: Tensor, word_mask: Tensor) -> Tensor:
    """The largest logit of each element over the real words, (B, G, N); 0 without words."""
    lowest = torch.finfo(logits.dtype).min
    largest = logits.masked_fill(~word_mask[:, None, None, :], lowest).amax(dim=3)
    return largest.masked_fill(~word_mask.any(dim=1)[:, None, None], 0)
