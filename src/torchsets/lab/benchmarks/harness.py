"""Measure variants of one computation side by side: time in one run, memory in fresh processes.

A benchmark is a file of this folder with a function ``cases()``. The variants of a case take
turns, so that a disturbance hits all of them, and the best of several rounds counts. The memory of
each variant is the growth of the peak resident size over one step, in a process of its own.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch

from torchsets.lab.records import describe_environment
from torchsets.lab.typed import Json

Step = Callable[[], object]

_SHORTEST = 0.02  # seconds: shorter steps are repeated until a round takes about this long


class Case(NamedTuple):
    """One computation in several variants.

    Attributes:
        name: What is computed, such as "(32, 342, 64), ragged".
        variants: Name to a function that prepares the inputs and returns the step to measure. The
            first is "torchsets"; the others are compared with it.
    """

    name: str
    variants: dict[str, Callable[[], Step]]


def benchmark_names() -> list[str]:
    """All benchmarks: the files of this folder."""
    files = Path(__file__).parent.glob("*.py")
    return sorted(file.stem for file in files if file.stem not in ("__init__", "harness"))


def run_benchmark(
    name: str,
    *,
    threads: Sequence[int] = (1, 2),
    repeats: int = 7,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Json]:
    """Measure all cases of a benchmark.

    Args:
        name: One of :func:`benchmark_names`.
        threads: Numbers of threads to measure with. Memory is measured with the first.
        repeats: Rounds for each case.
        progress: Called with a line of text before each case.

    Returns:
        What was measured, with the environment and the load of the machine, ready for JSON.
    """
    if name not in benchmark_names():
        raise ValueError(f"name must be one of {', '.join(benchmark_names())}, got {name!r}")
    environment = describe_environment("cpu")
    before = os.getloadavg()[0]
    measured = []
    for index, case in enumerate(_cases(name)):
        progress(f"{name} {case.name}")
        times = {
            str(count): _in_fresh_process("time", name, str(index), str(count), str(repeats))
            for count in threads
        }
        memory = {
            variant: _in_fresh_process("memory", name, str(index), str(threads[0]), variant)
            for variant in case.variants
        }
        measured.append({"case": case.name, "seconds": times, "peak_bytes": memory})
    return {
        "schema_version": 1,
        "benchmark": name,
        "environment": environment,
        "load": {"before": before, "after": os.getloadavg()[0]},
        "repeats": repeats,
        "cases": measured,
    }


def format_table(result: dict[str, Json]) -> str:
    """Lay out a result of :func:`run_benchmark` as text."""
    lines = [
        f"{result['benchmark']}: best of {result['repeats']} rounds; "
        f"load {result['load']['before']:.1f} before, {result['load']['after']:.1f} after",
    ]
    for case in result["cases"]:
        lines.append(f"\n{case['case']}")
        counts = list(case["seconds"])
        heads = [f"{count} thread{'s' * (count != '1')}" for count in counts]
        width = 2 + max(len(variant) for variant in case["peak_bytes"])
        lines.append(
            f"  {'':{width}}"
            + "".join(f"{head:>12}{'ratio':>8}" for head in heads)
            + f"{'peak':>12}"
        )
        for variant, peak in case["peak_bytes"].items():
            cells = ""
            for count in counts:
                seconds = case["seconds"][count]
                best = seconds[variant]["best"]
                ratio = best / next(iter(seconds.values()))["best"]
                digits = 2 if best >= 1e-3 else 3
                cells += f"{best * 1e3:>9.{digits}f} ms{ratio:>8.2f}"
            lines.append(f"  {variant:{width}}{cells}{peak / 2**20:>9.1f} MB")
    return "\n".join(lines)


def _cases(name: str) -> list[Case]:
    cases: list[Case] = import_module(f"torchsets.lab.benchmarks.{name}").cases()
    return cases


def _in_fresh_process(*arguments: str) -> Any:
    command = [sys.executable, "-m", "torchsets.lab.benchmarks.harness", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ChildProcessError(f"{' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _measure_time(case: Case, repeats: int) -> dict[str, dict[str, float]]:
    steps = {variant: prepare() for variant, prepare in case.variants.items()}
    rounds: dict[str, list[float]] = {variant: [] for variant in steps}
    numbers = {}
    for variant, step in steps.items():
        step()  # warm-up
        numbers[variant] = max(1, round(_SHORTEST / max(1e-7, _seconds(step, 1))))
    for _ in range(repeats):
        for variant, step in steps.items():
            rounds[variant].append(_seconds(step, numbers[variant]))
    return {
        variant: {"best": min(taken), "median": statistics.median(taken), "worst": max(taken)}
        for variant, taken in rounds.items()
    }


def _seconds(step: Step, number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        step()
    return (time.perf_counter() - start) / number


def _measure_memory(case: Case, variant: str) -> int:
    step = case.variants[variant]()
    before = _peak_bytes()
    step()
    return _peak_bytes() - before


def _peak_bytes() -> int:
    """The peak resident memory of this program so far.

    Linux hands the parent's ``ru_maxrss`` on to a child, where it would hide all growth below it;
    ``VmHWM`` starts anew with the program.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def _worker(kind: str, name: str, index: str, threads: str, last: str) -> None:
    torch.set_num_threads(int(threads))
    case = _cases(name)[int(index)]
    measured = _measure_time(case, int(last)) if kind == "time" else _measure_memory(case, last)
    sys.stdout.write(json.dumps(measured))


if __name__ == "__main__":
    _worker(*sys.argv[1:])
