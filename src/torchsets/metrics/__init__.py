"""How good predicted sets are: average precision, set sizes, and the spread over runs."""

from torchsets.metrics.average_precision import (
    average_precision,
    box_average_precision,
    pairwise_average_precision,
    state_average_precision,
)
from torchsets.metrics.runs import RunSummary, summarise_runs
from torchsets.metrics.sizes import set_size_accuracy

__all__ = [
    "RunSummary",
    "average_precision",
    "box_average_precision",
    "pairwise_average_precision",
    "set_size_accuracy",
    "state_average_precision",
    "summarise_runs",
]
