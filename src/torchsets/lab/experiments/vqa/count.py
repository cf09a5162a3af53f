"""Answer questions about pictures with soft attention: does the counting module help to count?

The baseline sees averages of the proposals, which cannot be counted. Beside the counting module
stand the number of boxes that non-maximum suppression leaves, and the plain sum of the attention.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torchsets.counting import Counter
from torchsets.data import CountingSets, toy_counting_sets
from torchsets.data.vqa import write_vqa_results
from torchsets.lab.experiments.vqa.configs import COUNT_ROWS, QUESTION_ONLY, CountVQA
from torchsets.lab.experiments.vqa.data import Asked, Data, load_data
from torchsets.lab.experiments.vqa.figures import draw_by_count, draw_functions, draw_scenes
from torchsets.lab.experiments.vqa.models import (
    CounterFeatures,
    NMSFeatures,
    SoftAttentionNet,
    SumFeatures,
    soft_answer_loss,
)
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
from torchsets.lab.training import Settings, pick_device, seed_everything, train

_COUNTS = {"counting": CounterFeatures, "nms": NMSFeatures, "sum": SumFeatures}
_SIDE, _NOISES, _TOY_BATCH = 0.2, (0.4, 0.7, 1.0), 1024  # of the toy task, as in the thesis' figure
_TOY_RATE = 0.01
_KINDS = ("Number", "Count", "All")
_TEST_KINDS = ("Yes/No", "Number", "Other", "All")


def run(config: CountVQA, recorder: Recorder) -> None:
    """Train every model and measure it on the validation questions."""
    data = load_data(config)
    recorder.add_data("training questions", data.training.digest())
    prefix = table_prefix("vqa-count", config.dataset)
    describe_tables(recorder, prefix, data)
    by_row: dict[str, dict[int, float]] = {}
    for name in config.models:
        model, seconds = _train(config, recorder, name, data)
        row = COUNT_ROWS[name] + data.part
        if data.measured is not None:
            predicted = answer_all(model, data.measured)
            recorder.add_results(own_cells(prefix, row, data.measured, predicted, seconds))
            if config.parts == "train":
                recorder.add_results(_validation_cells(row, data.measured, predicted))
            by_row[row] = by_true_count(data.measured, predicted)
            draw_scenes(recorder, name, model, data.measured, data.classes)
        if isinstance(model.count, CounterFeatures):
            toys = {noise: _train_toy(config, recorder, noise) for noise in _NOISES}
            draw_functions(recorder, model.count.counter, toys)
        if data.test is not None:
            predicted = answer_all(model, data.test)
            if data.test.questions.answers is not None:
                recorder.add_results(_test_cells(row, data.test, predicted))
            answers = [data.classes[one] for one in predicted.tolist()]
            path = recorder.folder / f"answers-{name}.json"
            write_vqa_results(path, data.test.questions.question_ids, answers)
    draw_by_count(recorder, by_row)


def build_model(config: CountVQA, name: str, data: Data) -> SoftAttentionNet:
    """The network of a row."""
    pictures = data.training.pictures
    features = 0
    if name != QUESTION_ONLY and pictures is not None:
        features = pictures.features.values.shape[1]
    return SoftAttentionNet(
        len(data.words),
        len(data.classes),
        features=features,
        embedding=config.embedding,
        question=config.question,
        attention=config.attention,
        hidden=config.hidden,
        count=_COUNTS[name](config.objects) if name in _COUNTS else None,
        dropout=config.dropout,
    )


def _train(
    config: CountVQA, recorder: Recorder, name: str, data: Data
) -> tuple[SoftAttentionNet, float]:
    """Train the model of a row; and the CPU seconds of a step."""
    seed_everything(config.seed)
    model = build_model(config, name, data).to(pick_device(config.device))
    counter = [] if model.count is None else list(model.count.parameters())
    known = {id(one) for one in counter}
    others = [one for one in model.parameters() if id(one) not in known]
    rate = config.learning_rate
    optimiser = torch.optim.Adam(others, lr=rate)
    if counter:
        optimiser.add_param_group({"params": counter, "lr": config.counter_rate * rate})
    seconds = train_answerer(
        config,
        recorder,
        name,
        model,
        optimiser,
        lambda batch: soft_answer_loss(model(batch.asked), batch.counts),
        data,
        places=data.training.answerable(),
        # halved before the first step already, as in the author's code
        schedule=lambda share, steps: 0.5 ** ((share * steps + 1) / config.half_life),
    )
    return model, seconds


def _train_toy(config: CountVQA, recorder: Recorder, noise: float) -> Counter:
    """A counting module that the toy task trained, to compare its functions with."""
    seed_everything(config.seed)
    counter = Counter(config.objects)
    project = nn.Linear(config.objects + 1, config.objects + 1)

    def draw(step: int, generator: torch.Generator) -> CountingSets:
        del step
        return toy_counting_sets(
            _TOY_BATCH, side=_SIDE, noise=noise, boxes=config.objects, generator=generator
        )

    def loss(sets: CountingSets) -> Tensor:
        return cross_entropy(project(counter(sets.boxes, sets.weights)), sets.counts)

    model = nn.ModuleList([counter, project]).to(pick_device(config.device))
    train(
        model,
        torch.optim.Adam(model.parameters(), lr=_TOY_RATE),
        loss,
        draw,
        recorder=recorder,
        task=f"toy task/q={noise:g}",
        settings=Settings(config.toy_steps, seed=config.seed),
    )
    return counter


def _validation_cells(row: str, asked: Asked, predicted: Tensor) -> list[Cell]:
    found = score(asked, predicted)
    return [
        Cell("count/vqa-val", row, f"{title} {kind}", None, 100 * values[kind.lower()])
        for title, values in (("VQA accuracy", found.accuracy), ("Balanced pair", found.pairs))
        for kind in _KINDS
        if kind.lower() in values
    ]


def _test_cells(row: str, asked: Asked, predicted: Tensor) -> list[Cell]:
    found = score(asked, predicted).accuracy
    return [
        Cell("count/vqa-test", row, f"test {kind}", None, 100 * found[kind.lower()])
        for kind in _TEST_KINDS
        if kind.lower() in found
    ]
