"""Does the exact sort at test time lower the accuracy of a classifier trained with the relaxed one?

With frozen encoders it does not, says the thesis (section 5.6.3). Here both sorts measure the same
classifier under the same noise, after a training at one temperature or at one that falls.
"""

from torchsets.lab.experiments.mnist.classify import (
    Case,
    Trained,
    accuracy,
    cases,
    draw_trained,
    train_classifier,
)
from torchsets.lab.experiments.mnist.configs import Classify, Sorts
from torchsets.lab.experiments.mnist.reconstruct import load_data
from torchsets.lab.records import Cell, Recorder

_TEST_BATCH = 16  # the relaxed sort needs 32 N^2 numbers for each set


def run(config: Sorts, recorder: Recorder) -> None:
    """Train an FSPool classifier for each noise and start, and measure it with both sorts."""
    recorder.add_table(
        "mnist/exact-sort",
        caption="Test accuracy of FSPool classifiers that were trained with the relaxed sort: "
        "measured with it, and with the exact sort",
        unit="%",
        better="higher",
    )
    usual = Classify(
        dataset=config.dataset,
        poolings=("fspool",),
        sigmas=config.sigmas,
        starts=config.starts,
        epochs=config.epochs,
        training_sets=config.training_sets,
        test_sets=config.test_sets,
        bucketed=config.bucketed,
        seed=config.seed,
        device=config.device,
    )
    data = load_data(usual, recorder)
    sorts = {"relaxed at test": temperature_at(config, 1.0), "exact at test": None}
    trained: dict[Case, Trained] = {}
    for case in cases(usual):
        trained[case] = one = train_classifier(
            usual, recorder, case, data, temperature=lambda share: temperature_at(config, share)
        )
        values = {
            column: accuracy(
                usual, case, one.model, data.test, temperature=last, batch_size=_TEST_BATCH
            )
            for column, last in sorts.items()
        }
        recorder.add_results(
            Cell("mnist/exact-sort", f"FSPool, {case.panel}", column, None, value)
            for column, value in values.items()
        )
    draw_trained(recorder, trained)


def temperature_at(config: Sorts, share: float) -> float:
    """Return the temperature of the sort after that share of the training, in [0, 1].

    Example:
        >>> temperature_at(Sorts(temperature=1.0, final_temperature=0.01), 0.5)
        0.1
    """
    first, last = config.temperature, config.final_temperature
    return first if last is None else float(first * (last / first) ** share)
