"""Visual question answering: accuracy by kind of question, and balanced pairs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._checks import check_mask, check_shape

COUNT_WORDS = "how many"
"""Questions that start with this, in any case, are of the kind "count"."""


class VQAScores(NamedTuple):
    """Shares from 0 to 1 for each kind of question; a kind without questions is left out.

    Attributes:
        accuracy: The mean VQA accuracy.
        pairs: The share of balanced pairs of which both questions are answered perfectly.
    """

    accuracy: dict[str, float]
    pairs: dict[str, float]


def vqa_accuracy(agreeing: Tensor) -> Tensor:
    """Score an answer that so many of ten people gave: min(0.3 * agreeing, 1).

    The official score leaves out each of the ten in turn, scores min(k / 3, 1) against the other
    nine, and takes the mean; for 0 to 10 people that is the same number. From 4 people on it is
    exactly 1.

    Args:
        agreeing: How many people gave the answer, any shape and dtype.

    Returns:
        The scores, in the dtype of ``agreeing`` if that is floating point, else the default one.

    Example:
        >>> vqa_accuracy(torch.tensor([0, 1, 2, 3, 4, 10]))
        tensor([0.0000, 0.3000, 0.6000, 0.9000, 1.0000, 1.0000])
    """
    if not agreeing.is_floating_point():
        agreeing = agreeing.to(torch.get_default_dtype())
    return (0.3 * agreeing).clamp(max=1)


def question_kinds(questions: Sequence[str], answer_types: Sequence[str]) -> dict[str, Tensor]:
    """Mark the questions of each kind: number, count, all, yes/no, other.

    "number", "yes/no" and "other" are the answer's type; "count" are the questions that start with
    "how many". So "what number is on the bus?" is a number but no count, and a few counts are
    answered by "lots", of type other.

    Returns:
        A mask (Q,), bool, for each kind.

    Example:
        >>> kinds = question_kinds(["How many cats?", "Which bus?"], ["number", "number"])
        >>> kinds["count"]
        tensor([ True, False])
    """
    if len(questions) != len(answer_types):
        raise ValueError(
            f"answer_types must have one for each of the {len(questions)} questions, "
            f"got {len(answer_types)}"
        )
    counts = [question.lower().startswith(COUNT_WORDS) for question in questions]

    def of_type(wanted: str) -> Tensor:
        return torch.tensor([one == wanted for one in answer_types], dtype=torch.bool)

    return {
        "number": of_type("number"),
        "count": torch.tensor(counts, dtype=torch.bool),
        "all": torch.ones(len(questions), dtype=torch.bool),
        "yes/no": of_type("yes/no"),
        "other": of_type("other"),
    }


def pair_accuracy(accuracy: Tensor, pairs: Tensor) -> Tensor:
    """Whether both questions of each balanced pair are answered perfectly: accuracy exactly 1.

    The questions of a pair have the same words and different answers, so nothing but the picture
    can tell them apart.

    Args:
        accuracy: The accuracy of each question, (Q,), from :func:`vqa_accuracy`.
        pairs: The places of both questions, (P, 2), long.

    Returns:
        One truth value for each pair, (P,), bool.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> pair_accuracy(torch.tensor([1.0, 1.0, 0.9]), torch.tensor([[0, 1], [1, 2]]))
        tensor([ True, False])
    """
    check_shape(accuracy, (None,), name="accuracy", letters="(Q,)")
    check_shape(pairs, (None, 2), name="pairs", letters="(P, 2)")
    if pairs.dtype != torch.long:
        raise ValueError(f"pairs must be long, got {pairs.dtype}")
    return (accuracy[pairs] >= 1).all(dim=1)


def vqa_scores(
    accuracy: Tensor, kinds: Mapping[str, Tensor], pairs: Tensor | None = None
) -> VQAScores:
    """Average by kind of question; a pair is of a kind if both of its questions are.

    Args:
        accuracy: The accuracy of each question, (Q,), from :func:`vqa_accuracy`.
        kinds: A mask (Q,), bool, for each kind, such as :func:`question_kinds` gives.
        pairs: The places of both questions of each balanced pair, (P, 2), long. None: no pairs.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> kinds = {"all": torch.tensor([True, True, True])}
        >>> vqa_scores(torch.tensor([1.0, 1.0, 0.4]), kinds, torch.tensor([[0, 1], [1, 2]]))
        VQAScores(accuracy={'all': 0.8...}, pairs={'all': 0.5})
    """
    if pairs is None:
        pairs = torch.zeros(0, 2, dtype=torch.long, device=accuracy.device)
    both = pair_accuracy(accuracy, pairs)
    scores = VQAScores({}, {})
    for kind, chosen in kinds.items():
        check_mask(chosen, accuracy.shape, name=f"kinds[{kind!r}]", of="accuracy")
        for results, values in (
            (scores.accuracy, accuracy[chosen]),
            (scores.pairs, both[chosen[pairs].all(dim=1)]),
        ):
            if len(values):
                results[kind] = float(values.double().mean())
    return scores
