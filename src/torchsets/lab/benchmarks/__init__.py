"""Speed and memory of the hot functions, beside the plain way of writing them."""

from torchsets.lab.benchmarks.harness import Case, benchmark_names, format_table, run_benchmark

__all__ = ["Case", "benchmark_names", "format_table", "run_benchmark"]
