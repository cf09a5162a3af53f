"""Answer questions about pictures with bilinear attention: does a learned order help?

BAN counts boxes already. Beside it an LSTM reads the proposals that each glimpse looks at, as they
come or in the order that permutation-optimisation (PO-U) finds.
"""

import torch
from torch import Tensor

from torchsets.encoders import ProposalReader
from torchsets.lab.experiments.vqa.configs import ORDER_ROWS, OrderVQA
from torchsets.lab.experiments.vqa.data import Asked, Data, load_data
from torchsets.lab.experiments.vqa.figures import draw_by_count, draw_order
from torchsets.lab.experiments.vqa.models import BANNet, ban_loss
from torchsets.lab.experiments.vqa.selection import (
    answer_all,
    by_true_count,
    describe_tables,
    own_cells,
    score,
    table_prefix,
    train_answerer,
)
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import pick_device, seed_everything
from torchsets.metrics.vqa import vqa_accuracy

_EPOCHS = 13  # of the schedule; a shorter or longer training stretches it
_RISE, _TOP = 0.5, 2.0
_FALLS = (10, 12)
_COLUMNS = {"Overall": "all", "Yes/No": "yes/no", "Number": "number", "Other": "other"}


def run(config: OrderVQA, recorder: Recorder) -> None:
    """Train every model and measure it on the validation questions."""
    data = load_data(config)
    recorder.add_data("training questions", data.training.digest())
    prefix = table_prefix("vqa-order", config.dataset)
    describe_tables(recorder, prefix, data)
    measured = data.validation
    if measured is None:
        raise ValueError("validation questions must be there, got none")
    by_row: dict[str, dict[int, float]] = {}
    for name in config.models:
        model, seconds = _train(config, recorder, name, data)
        row = ORDER_ROWS[name] + data.part
        predicted = answer_all(model, measured)
        recorder.add_results(own_cells(prefix, row, measured, predicted, seconds))
        recorder.add_results(_thesis_cells(row, measured, predicted))
        by_row[row] = by_true_count(measured, predicted)
        draw_order(recorder, model, measured)
    draw_by_count(recorder, by_row)


def build_model(config: OrderVQA, name: str, data: Data) -> BANNet:
    """The network of a row."""
    if data.training.pictures is None:
        raise ValueError("training questions must have pictures, got none")
    features = data.training.pictures.features.values.shape[1]
    reader = None
    if name in ("lstm", "po-u"):
        compared = config.compared if name == "po-u" else None
        reader = ProposalReader(
            features, outputs=config.read, compared=compared, steps=config.inner_steps
        )
    return BANNet(
        len(data.words),
        len(data.classes),
        features=features,
        embedding=config.embedding,
        hidden=config.hidden,
        glimpses=config.glimpses,
        objects=None if name == "ban-without-counter" else config.objects,
        reader=reader,
        dropout=(config.dropout, config.late_dropout, config.late_dropout),
    )


def learning_rate_factor(share: float) -> float:
    """The learning rate after a share of the training, as a multiple of the base rate.

    Example:
        >>> [learning_rate_factor(epoch / 13) for epoch in (0, 1, 3, 9, 10, 12)]
        [0.5, 1.0, 2.0, 2.0, 0.5, 0.125]
    """
    epoch = int(share * _EPOCHS + 1e-6)
    factor = min(_TOP, _RISE * (epoch + 1))
    return factor * 0.25 ** sum(epoch >= fall for fall in _FALLS)


def _train(config: OrderVQA, recorder: Recorder, name: str, data: Data) -> tuple[BANNet, float]:
    """Train the model of a row; and the CPU seconds of a step."""
    seed_everything(config.seed)
    model = build_model(config, name, data).to(pick_device(config.device))
    seconds = train_answerer(
        config,
        recorder,
        name,
        model,
        torch.optim.Adamax(model.parameters(), lr=config.learning_rate),
        lambda batch: ban_loss(model(batch.asked), vqa_accuracy(batch.counts)),
        data,
        places=torch.arange(len(data.training.questions)),
        schedule=lambda share, _: learning_rate_factor(share),
        clip=config.clip,
    )
    return model, seconds


def _thesis_cells(row: str, asked: Asked, predicted: Tensor) -> list[Cell]:
    found = score(asked, predicted).accuracy
    return [
        Cell("perm/vqa", row, column, None, 100 * found[kind])
        for column, kind in _COLUMNS.items()
        if kind in found
    ]
