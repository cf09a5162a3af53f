"""The networks that answer questions about pictures."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, log_softmax, one_hot, relu

from torchsets.boxes import non_maximum_suppression
from torchsets.counting import Counter, count_features
from torchsets.data.vqa import PEOPLE
from torchsets.encoders import BAN, NormalisedLinear, ProposalReader
from torchsets.padded import lengths_to_mask
from torchsets.pooling import GlimpsePool, fuse, glimpse_pool
from torchsets.text import QuestionEncoder


class VQABatch(NamedTuple):
    """Questions, each with the proposals of its picture.

    Attributes:
        tokens: The words, (B, T), long, zeros behind.
        lengths: How many there are, (B,), long.
        features: Of the proposals, (B, N, D), padded.
        boxes: x1, y1, x2, y2, (B, N, 4): in pixels, or from 0 to 1 for BAN.
        mask: True where a proposal is real, (B, N), bool.
    """

    tokens: Tensor
    lengths: Tensor
    features: Tensor
    boxes: Tensor
    mask: Tensor


def soft_answer_loss(logits: Tensor, counts: Tensor) -> Tensor:
    """Cross-entropy to how many people gave each answer, (B, A), mean over questions.

    Those who gave another answer weigh nothing: the weights are not scaled to a sum of 1.
    """
    return -(counts / PEOPLE * log_softmax(logits, dim=1)).sum(dim=1).mean()


def ban_loss(logits: Tensor, scores: Tensor) -> Tensor:
    """Binary cross-entropy, summed over answers, mean over questions; scores are accuracies."""
    return binary_cross_entropy_with_logits(logits, scores, reduction="sum") / len(logits)


def unit_vectors(features: Tensor, mask: Tensor) -> Tensor:
    """Proposals (B, N, D) of length 1; zeros at padding and for a vector of zeros."""
    zero = ~mask.unsqueeze(-1) | (features == 0).all(dim=2, keepdim=True)
    # Away from 0 first: the gradient of a quotient of zeros would be huge, or nan.
    safe = features.masked_fill(zero, 1)
    return (safe / (safe.norm(dim=2, keepdim=True) + 1e-12)).masked_fill(zero, 0)


class CounterFeatures(nn.Module):
    """+ counting: the counting module on the first glimpse."""

    def __init__(self, objects: int = 10) -> None:
        super().__init__()
        self.counter = Counter(objects, attention="logits")
        self.outputs = objects + 1

    def forward(self, boxes: Tensor, logits: Tensor, mask: Tensor) -> Tensor:
        """Count features (B, outputs) of boxes (B, N, 4) and logits (B, N, G)."""
        count: Tensor = self.counter(boxes, logits[..., 0], mask)
        return count


class NMSFeatures(nn.Module):
    """+ NMS: how many of the ``objects`` boxes with the largest mean logit suppression leaves.

    One-hot, without a gradient. With ``largest=False`` all boxes take part.
    """

    def __init__(self, objects: int = 10, *, largest: bool = True, threshold: float = 0.5) -> None:
        super().__init__()
        self.objects, self.largest, self.threshold = objects, largest, threshold
        self.outputs = objects + 1

    def forward(self, boxes: Tensor, logits: Tensor, mask: Tensor) -> Tensor:
        """Count features (B, outputs) of boxes (B, N, 4) and logits (B, N, G)."""
        scores = logits.detach().mean(dim=2).masked_fill(~mask, -torch.inf)
        boxes = boxes.detach()
        if self.largest:
            scores, kept = scores.topk(min(self.objects, mask.shape[1]), dim=1)
            boxes, mask = boxes.take_along_dim(kept.unsqueeze(-1), dim=1), mask.gather(1, kept)
        left = non_maximum_suppression(boxes, scores, mask, threshold=self.threshold)
        count = left.sum(dim=1).clamp(max=self.objects)
        return one_hot(count, self.outputs).to(logits.dtype)


class SumFeatures(nn.Module):
    """+ sum: the attention of the first glimpse added up, without regard to duplicates."""

    def __init__(self, objects: int = 10) -> None:
        super().__init__()
        self.objects, self.outputs = objects, objects + 1

    def forward(self, boxes: Tensor, logits: Tensor, mask: Tensor) -> Tensor:
        """Count features (B, outputs) of boxes (B, N, 4), which are ignored, and logits."""
        del boxes
        weights = logits[..., 0].masked_fill(~mask, 0).sigmoid().masked_fill(~mask, 0)
        return count_features(weights.sum(dim=1), objects=self.objects)


class AnswerClassifier(nn.Module):
    """Join what was seen, the question and count features; give logits of the answers.

    Args:
        seen: Number of features of what was seen.
        question: The same of the question.
        hidden: Width.
        answers: Number of answers.
        counts: Number of count features. None: there are none.
        dropout: Share of inputs that is set to 0 in training, but not of the count features.
    """

    def __init__(
        self,
        seen: int,
        question: int,
        hidden: int,
        answers: int,
        *,
        counts: int | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.seen = nn.Linear(seen, hidden)
        self.question = nn.Linear(question, hidden)
        self.count = None if counts is None else nn.Linear(counts, hidden)
        self.count_norm = None if counts is None else nn.BatchNorm1d(hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.answer = nn.Linear(hidden, answers)
        self.dropout = nn.Dropout(dropout)

    def forward(self, seen: Tensor, question: Tensor, counts: Tensor | None = None) -> Tensor:
        """Logits (B, answers)."""
        joined = fuse(self.seen(self.dropout(seen)), self.question(self.dropout(question)))
        if self.count is not None and self.count_norm is not None:
            joined = joined + self.count_norm(relu(self.count(counts)))
        logits: Tensor = self.answer(self.dropout(self.norm(joined)))
        return logits


class SoftAttentionNet(nn.Module):
    """The soft attention model of the thesis, with or without count features.

    Args:
        words: Number of words.
        answers: Number of answers.
        features: Of a proposal. 0: the question alone is answered.
        embedding: Features of a word.
        question: Size of the question's vector.
        attention: Width of the attention.
        hidden: Width of the classifier.
        glimpses: Number of averages of the proposals.
        count: Makes count features of boxes and logits. None: the baseline.
        dropout: Share of inputs that is set to 0 in training.
    """

    def __init__(
        self,
        words: int,
        answers: int,
        *,
        features: int = 2048,
        embedding: int = 300,
        question: int = 1024,
        attention: int = 512,
        hidden: int = 1024,
        glimpses: int = 2,
        count: CounterFeatures | NMSFeatures | SumFeatures | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.question = QuestionEncoder(
            words,
            embedding=embedding,
            hidden=question,
            cell=nn.GRU,
            activation=nn.Sequential(nn.Dropout(dropout), nn.Tanh()),
        )
        self.pool = None
        if features:
            self.pool = GlimpsePool(
                features, question, hidden=attention, glimpses=glimpses, dropout=dropout
            )
        self.count = count
        self.classifier = AnswerClassifier(
            max(1, glimpses * features),  # a layer needs one
            question,
            hidden,
            answers,
            counts=None if count is None else count.outputs,
            dropout=dropout,
        )
        start_from_xavier(self)

    def forward(self, batch: VQABatch) -> Tensor:
        """Logits of the answers, (B, A)."""
        question = self.question(batch.tokens, batch.lengths)
        if self.pool is None:
            return self.classifier(question.new_zeros(len(question), 1), question)
        proposals = unit_vectors(batch.features, batch.mask)
        attention = self.pool.logits(proposals, batch.mask, question)
        seen = glimpse_pool(proposals, attention, batch.mask)
        counts = None if self.count is None else self.count(batch.boxes, attention, batch.mask)
        return self.classifier(seen, question, counts)


class BANNet(nn.Module):
    """BAN, with or without a counter and a reader of the proposals.

    Args:
        words: Number of words.
        answers: Number of answers.
        features: Of a proposal.
        embedding: Features of a word in each of the two embeddings.
        hidden: Width.
        glimpses: Number of glimpses.
        objects: Largest count. None: there is no counter.
        reader: Reads the proposals. None: nothing is read.
        mask_words: Leave out what stands behind a question. False: attend to it and sum it as the
            released code does; then all questions have to be padded to one length.
        dropout: Of the inputs of layers, of projected elements, and in the classifier.
    """

    def __init__(
        self,
        words: int,
        answers: int,
        *,
        features: int = 2048,
        embedding: int = 300,
        hidden: int = 1280,
        glimpses: int = 8,
        objects: int | None = 10,
        reader: ProposalReader | None = None,
        mask_words: bool = True,
        dropout: tuple[float, float, float] = (0.2, 0.5, 0.5),
    ) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(
            nn.Embedding(words + 1, embedding, padding_idx=0) for _ in range(2)
        )
        self.gru = nn.GRU(2 * embedding, hidden, batch_first=True)
        self.mask_words = mask_words
        self.encoder = BAN(
            features,
            hidden,
            glimpses=glimpses,
            counter=None if objects is None else Counter(objects, attention="logits"),
            reader=reader,
            dropout=dropout[0],
            rank_dropout=dropout[1],
        )
        self.classifier = nn.Sequential(
            NormalisedLinear(hidden, 2 * hidden),
            nn.ReLU(),
            nn.Dropout(dropout[2]),
            NormalisedLinear(2 * hidden, answers),
        )
        if reader is not None:
            start_from_xavier(reader)

    def forward(self, batch: VQABatch) -> Tensor:
        """Logits of the answers, (B, A)."""
        real = lengths_to_mask(batch.lengths, size=batch.tokens.shape[1])
        tokens = batch.tokens.masked_fill(~real, 0)
        words = self.gru(torch.cat([embed(tokens) for embed in self.embeddings], dim=2))[0]
        vector = self.encoder(
            batch.features,
            batch.mask,
            words=words,
            word_mask=real if self.mask_words else None,
            boxes=batch.boxes,
        )
        logits: Tensor = self.classifier(vector)
        return logits


def start_from_xavier(module: nn.Module) -> None:
    """Initial weights of the thesis: Xavier's uniform ones, for each gate apart; no biases."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.xavier_uniform_(part.weight)
        elif isinstance(part, nn.RNNBase):
            for name, weight in part.named_parameters():
                if name.startswith("bias"):
                    nn.init.zeros_(weight)
                    continue
                for gate in weight.chunk(len(weight) // part.hidden_size):
                    nn.init.xavier_uniform_(gate)
