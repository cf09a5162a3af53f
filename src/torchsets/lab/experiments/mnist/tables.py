"""Where the numbers of ``mnist-classify`` belong: the thesis' tables, and some of our own."""

from collections.abc import Sequence

from torchsets.lab.records import Recorder

ROWS = {"fspool": "FSPool", "sum": "Sum", "mean": "Mean", "max": "Max"}
STARTS = {"frozen": "Frozen", "unfrozen": "Unfrozen", "random": "Random init"}


def describe_tables(recorder: Recorder, *, relaxed: bool) -> None:
    """Describe the tables that the thesis does not have; one more if the sort was relaxed."""
    recorder.add_table(
        "mnist/accuracy",
        caption="Test accuracy of the classifiers after 1, 10, 100 and the last epoch",
        unit="%",
        better="higher",
    )
    recorder.add_table(
        "mnist/seconds",
        caption="Seconds per epoch of training with its evaluation, on the machine of the run",
        unit="s",
        better="lower",
    )
    if relaxed:
        recorder.add_table(
            "mnist/exact-sort",
            caption="Test accuracy of FSPool classifiers that were trained with the relaxed sort: "
            "measured with it, and with the exact sort",
            unit="%",
            better="higher",
        )


def record_accuracy(
    recorder: Recorder,
    sigma: float,
    start: str,
    pooling: str,
    curve: Sequence[tuple[int, float]],
    *,
    thesis: bool,
) -> None:
    """Record the accuracy after 1, 10, 100 and the last epoch, from pairs (epoch, accuracy).

    ``thesis`` is whether they belong into the thesis' tables too.
    """
    row, column = ROWS[pooling], STARTS[start]
    for epoch, accuracy in curve:
        if epoch not in (1, 10, 100, curve[-1][0]):
            continue
        epochs = "1 epoch" if epoch == 1 else f"{epoch} epochs"
        recorder.add_result(
            "mnist/accuracy",
            model=row,
            column=f"sigma={sigma:.2f}, {column}, {epochs}",
            value=accuracy,
        )
        place = _thesis_cell(sigma, column, epoch)
        if thesis and place is not None:
            recorder.add_result(place[0], model=row, column=place[1], value=accuracy)


def record_seconds(
    recorder: Recorder, sigma: float, start: str, pooling: str, task: str, *, epochs: int
) -> None:
    """Record the seconds per epoch of a training, its evaluations included."""
    about = recorder.tasks[task]
    recorder.add_result(
        "mnist/seconds",
        model=ROWS[pooling],
        column=f"sigma={sigma:.2f}, {STARTS[start]}",
        value=about["seconds"] / epochs,
    )


def _thesis_cell(sigma: float, start: str, epoch: int) -> tuple[str, str] | None:
    """The table and column of the thesis that an accuracy belongs to."""
    if sigma not in (0.0, 0.05) or epoch not in (1, 10, 100):
        return None
    if epoch == 100:
        return "fspool/mnist-100", f"sigma={sigma:.2f} {start}"
    table = "fspool/mnist" if sigma == 0.05 else "fspool/mnist2"
    return table, f"{'1 epoch' if epoch == 1 else '10 epochs'} {start}"
