import json
import os

import pytest

from torchsets.lab import benchmarks
from torchsets.lab.benchmarks import harness
from torchsets.lab.benchmarks.harness import benchmark_names, format_table, run_benchmark

TINY = '''
"""A benchmark for the test of the harness: small and large sums."""
import torch
from torchsets.lab.benchmarks.harness import Case

def cases():
    return [Case("sum of ones", {
        "torchsets": lambda: lambda: torch.ones(10).sum(),
        "plain": lambda: lambda: torch.ones(20_000_000).sum(),
    })]
'''


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Put a benchmark called tiny beside the others, for this and its fresh processes."""
    package = tmp_path / "torchsets" / "benchmarks"
    package.mkdir(parents=True)
    (package / "tiny.py").write_text(TINY)
    (tmp_path / "sitecustomize.py").write_text(
        f"import torchsets.lab.benchmarks as b; b.__path__.append({str(package)!r})\n"
    )
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setattr(benchmarks, "__path__", [str(package)])
    monkeypatch.setattr(harness, "benchmark_names", lambda: ["tiny"])


@pytest.mark.slow
def test_measures_time_and_memory_of_each_variant(tiny):
    result = run_benchmark("tiny", threads=(1,), repeats=2)
    assert json.loads(json.dumps(result)) == result
    (case,) = result["cases"]
    times = case["seconds"]["1"]
    assert times["torchsets"]["best"] < times["plain"]["best"] <= times["plain"]["worst"]
    assert case["peak_bytes"]["plain"] > 60e6  # 20 million ones take 80 MB
    assert case["peak_bytes"]["torchsets"] < 20e6
    assert result["environment"]["versions"]["torch"]
    table = format_table(result)
    assert "sum of ones" in table
    assert "plain" in table


def test_every_benchmark_has_cases_that_start_with_torchsets():
    assert "fspool" in benchmark_names()
    for name in benchmark_names():
        for case in harness._cases(name):
            assert next(iter(case.variants)) == "torchsets"
            assert len(case.variants) > 1 or "not run" in case.name, (name, case.name)


def test_an_unknown_benchmark_is_named():
    with pytest.raises(ValueError, match=r"name must be one of .*fspool.*, got 'speed'"):
        run_benchmark("speed")


def test_a_failing_process_is_reported():
    with pytest.raises(ChildProcessError, match="memory fspool 0 1 nothing failed") as error:
        harness._in_fresh_process("memory", "fspool", "0", "1", "nothing")
    assert "KeyError: 'nothing'" in str(error.value)
    assert "Warning" not in str(error.value)
