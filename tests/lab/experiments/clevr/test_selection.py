import math

import pytest
from scipy import stats

from torchsets.lab.experiments.clevr.selection import compare_at_equal_time, compare_seeds
from torchsets.lab.records import Recorder, read_run

FSPOOL, SUM, MAX = (95.0, 96.0, 97.5), (94.0, 92.5, 95.5), (80.0,)


def record(folder, table):
    runs = []
    for seed in range(3):
        config = {"seed": seed}
        recorder = Recorder.start(folder / str(seed), experiment="x", scale="cpu", config=config)
        for model, values in (("FSPool", FSPOOL), ("Sum", SUM), ("Max", MAX)):
            if seed < len(values):
                recorder.add_result(table, model=model, column="accuracy", value=values[seed])
                recorder.add_result(table, model=model, column="other", value=0.0)
        recorder.finish()
        runs.append(read_run(folder / str(seed)))
    return runs


def welch(first, second):
    """Two-sided p, written out."""
    means, parts = [], []
    for values in (first, second):
        mean = sum(values) / len(values)
        means.append(mean)
        parts.append(sum((one - mean) ** 2 for one in values) / (len(values) - 1) / len(values))
    statistic = (means[0] - means[1]) / math.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (first, second), strict=True)
    )
    return 2 * stats.t.sf(abs(statistic), freedom)


@pytest.mark.parametrize(
    ("table", "outcome"),
    [
        ("fspool/clevr", "fspool/clevr-ttest-text"),
        ("clevr-questions/accuracy", "clevr-questions/tests"),
    ],
)
def test_welch_over_the_seeds(tmp_path, table, outcome):
    (cell,) = compare_seeds(record(tmp_path, table))  # one seed of Max is too few
    assert (cell.table, cell.model, cell.column) == (outcome, "FSPool", "vs Sum")
    assert cell.value == pytest.approx(welch(FSPOOL, SUM), rel=1e-9)


def test_equal_time_reads_the_curve_at_the_recorded_seconds(tmp_path):
    recorder = Recorder.start(tmp_path / "run", experiment="x", scale="cpu", config={"seed": 5})
    recorder.add_result("clevr-questions/seconds", model="Sum", column="ms", value=30.0)
    for step, accuracy in ((0, 10.0), (1999, 20.0), (2001, 30.0), (4000, 40.0)):
        recorder.add_metrics("sum", step, {"accuracy": accuracy})
    recorder.finish()
    cells = compare_at_equal_time([read_run(tmp_path / "run")])
    found = {(cell.model, cell.column, cell.seed): cell.value for cell in cells}
    assert found == {("Sum", "1 min", 5): 20.0, ("Sum", "2 min", 5): 40.0}  # 2000 steps a minute


def test_one_seed_has_no_test(tmp_path):
    assert compare_seeds(record(tmp_path, "fspool/clevr")[:1]) == []
