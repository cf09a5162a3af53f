"""The subcommands of the command line: what they run and what they print.

Each imports what it needs when it is called, so that ``torchsets --help`` is instant.
"""

import argparse
import dataclasses
import inspect
import json
import os
import shlex
import sys
import time
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torchsets.lab.experiments import SCALES, Experiment, experiments, find_experiment, find_table
from torchsets.lab.experiments.experiment import format_value
from torchsets.lab.experiments.values import (
    config_from_file,
    config_from_overrides,
    config_to_json,
)
from torchsets.lab.records import Run, read_config, read_runs
from torchsets.lab.typed import type_name

_RUN_HELP = """\
torchsets run NAME [field=value ...] [--scale smoke|cpu|full] [--out DIR]
torchsets run --resume DIR

  NAME           an experiment; see: torchsets list
  field=value    change a field of its configuration; see: torchsets run NAME --help
  --scale SCALE  smoke takes seconds, cpu (the default) minutes to an hour, full is the thesis'
  --config FILE  take the fields from a JSON file instead; the rest is the scale's
  --out DIR      the run folder (default: a new one in runs/)
  --resume DIR   continue a run that was stopped"""
_DEMO = ("polygons", "mnist-classify")
_DEMO_TABLES = ("fspool/polygons-chamfer", "polygons/jumps", "mnist/accuracy")


def list_experiments(options: argparse.Namespace) -> None:
    """Show every experiment."""
    from torchsets.lab.reports import thesis_tables

    del options
    width = max(map(len, experiments())) + 2
    for experiment in experiments().values():
        print(f"{experiment.name:<{width}}{experiment.summary}")
        for table in experiment.tables:
            about = thesis_tables().get(table.key)
            where = about.source if about else "not in the thesis"
            times = ", ".join(f"{scale} {table.takes[scale]}" for scale in SCALES)
            print(f"{'':<{width}}{table.key} ({where}): {times}")
        print()
    print("times are those of `torchsets reproduce TABLE` on two cores with one seed")
    print("run one:        torchsets run NAME [field=value ...] [--scale smoke|cpu|full]")
    print("see its fields: torchsets run NAME --help")


def run(options: argparse.Namespace) -> None:
    """Train one configuration, or resume a stopped run."""
    if options.experiment is None and (options.help or options.resume is None):
        print(_RUN_HELP)
        return
    if options.help:
        _print_fields(find_experiment(options.experiment))
        return
    if options.resume is not None:
        _check_resume(options)
        about = read_config(options.resume)
        name, scale, folder = about.experiment, about.scale, Path(options.resume)
        title = f"resuming {name} at scale {scale} in {folder}"
        find_experiment(name)  # before torch, which takes its time
        from torchsets.lab.experiments.launch import resume_experiment

        done = _announced(title, folder, lambda: resume_experiment(folder))
    else:
        experiment = find_experiment(options.experiment)
        name, scale = experiment.name, options.scale or "cpu"
        config = _read_config(experiment, options, scale)
        for dataset in experiment.datasets(config_to_json(config), scale) if is_first() else []:
            dataset.fetch()  # before torch: what is missing is said at once
        from torchsets.lab.experiments.launch import new_folder, run_experiment

        folder = Path(options.out) if options.out else new_folder(f"{name}-{scale}")
        title = f"{name} at scale {scale}, run folder {folder}"
        done = _announced(
            title, folder, lambda: run_experiment(name, config, scale=scale, folder=folder)
        )
    if is_first():
        _print_tables([done])
        print(f"\ndone: {done.folder}")
        print(f"see it: torchsets report {shlex.quote(str(done.folder))} -o report.html")


def reproduce(options: argparse.Namespace) -> None:
    """Run all shards of a table that are not recorded yet, and print the table."""
    from torchsets.lab import reproduction

    if options.table is None and options.seeds:  # the table may follow the seeds, too
        words = [word for word in options.seeds if "=" not in word and not _is_whole(word)]
        options.table = words[0] if words else None
        options.seeds = [word for word in options.seeds if word != options.table]
    if options.table is None and (options.seeds or options.fields or options.out or options.plan):
        raise ValueError("reproduce needs the name of a table; see: torchsets reproduce --list")
    if options.list or options.table is None:
        print(reproduction.list_tables())
        return
    overrides, seeds = [*options.fields], None
    if options.seeds is not None:  # fields may follow the seeds, which argparse does not foresee
        overrides += [word for word in options.seeds if "=" in word]
        seeds = [_whole(word) for word in options.seeds if "=" not in word]
    out = Path(options.out) if options.out else None
    if options.plan:
        table, experiment = find_table(options.table)
        folder = out or reproduction.default_folder(experiment.name, options.scale)
        for shard in reproduction.plan_shards(
            table, experiment, overrides, scale=options.scale, seeds=seeds
        ):
            print(json.dumps({**dataclasses.asdict(shard), "out": str(folder / shard.name)}))
        return
    done = reproduction.reproduce(
        options.table,
        scale=options.scale,
        out=out,
        overrides=overrides,
        seeds=seeds,
        jobs=options.jobs,
    )
    print(f"\n{done.text}")
    for path in done.files:
        print(f"wrote {path}")
    for job in done.failed:
        print(f"\nfailed: {job.shard.name}; the end of {job.log}:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in job.last_lines()), file=sys.stderr)
    if done.stopped:
        print("stopped; run the same command to continue", file=sys.stderr)
        raise SystemExit(130)
    if done.failed:
        print("run the same command to retry", file=sys.stderr)
        raise SystemExit(1)


def report(options: argparse.Namespace) -> None:
    """Draw one HTML page from run folders."""
    from torchsets.lab.records.files import explained
    from torchsets.lab.reports import merge_shards, write_pictures, write_report

    found = read_runs(options.runs)
    runs = merge_shards(found)
    if not runs:
        raise ValueError(f"there is no run folder in {', '.join(options.runs)}")
    output = Path(options.output)
    if output.is_dir():
        raise ValueError(f"{output} is a folder: name a file in it, such as report.html")
    with explained(output):  # before drawing
        output.parent.mkdir(parents=True, exist_ok=True)
    print(f"drawing {_count(len(found), 'run')}", file=sys.stderr, flush=True)
    write_report(runs, output)
    print(f"wrote {options.output}: {_count(len(found), 'run')}")
    if options.pictures is not None:
        for path in write_pictures(runs, Path(options.pictures)):
            print(f"wrote {path}")


def bench(options: argparse.Namespace) -> None:
    """Measure speed and memory against a straightforward implementation."""
    from torchsets.lab.benchmarks import harness
    from torchsets.lab.records import write_atomically
    from torchsets.lab.records.files import explained

    known = list(harness.benchmark_names())
    if options.name not in (*known, "all"):
        raise ValueError(f"benchmark must be all or one of {', '.join(known)}, got {options.name}")
    if options.out is not None:  # before measuring: can it be written? What is in it stays
        with explained(Path(options.out)):
            Path(options.out).open("a").close()
    results = {}
    for name in known if options.name == "all" else [options.name]:
        results[name] = harness.run_benchmark(
            name,
            threads=options.threads,
            repeats=options.repeats,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
        print(harness.format_table(results[name]))
    if options.out is not None:
        write_atomically(Path(options.out), json.dumps(results, indent=1) + "\n")
        print(f"wrote {options.out}")


def scenes(options: argparse.Namespace) -> None:
    """Draw scenes on one sheet, or real pictures above the same scenes rendered."""
    from torchsets.lab.scenes import compare_scenes, draw_scenes

    path = Path(options.output)
    if path.suffix.lower() != ".png":
        raise ValueError(f"output must be a PNG file, such as scenes.png, got {path}")
    if options.compare:
        print(compare_scenes(path))
    else:
        chosen = {name: getattr(options, name) for name in ("count", "size", "seed", "boxes")}
        draw_scenes(path, **chosen)
    print(f"wrote {path}")


def demo(options: argparse.Namespace) -> None:
    """Train small models on polygons and digits, and show what came out."""
    from torchsets.lab.experiments.launch import new_folder, run_experiment
    from torchsets.lab.reports import write_report

    folder = Path(options.out) if options.out else new_folder("demo")
    started = time.monotonic()
    runs = []
    for name in _DEMO:
        print(f"{name}: {find_experiment(name).summary}", flush=True)
        runs.append(run_experiment(name, scale="demo", folder=folder / name))
    write_report(runs, folder / "report.html")
    _print_tables(runs, only=_DEMO_TABLES)
    print("\nA short demonstration. The thesis' settings: torchsets run polygons --scale cpu")
    print(f"{time.monotonic() - started:.0f} s; the report: {folder / 'report.html'}")


def _announced(title: str, folder: Path, start: Callable[[], Run]) -> Run:
    """Say what begins, and how to resume it if it is stopped."""
    if is_first():
        print(title, flush=True)
    remedy = f"resume with: torchsets run --resume {shlex.quote(str(folder))}"
    begun = (folder / "config.json").exists
    try:
        return start()
    except KeyboardInterrupt:
        if is_first() and begun():
            print(f"saved; {remedy}", file=sys.stderr)
        raise
    except OSError as error:  # a full disk, a missing file
        raise OSError(f"{error}; {remedy}" if begun() else f"{error}") from error
    except RuntimeError as error:
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            raise  # a mistake in the code: its traceback is needed
        reason = str(error).splitlines()[0]
        raise OSError(f"another process seems to have died ({reason}); {remedy}") from error


def _read_config(experiment: Experiment[Any], options: argparse.Namespace, scale: str) -> Any:
    if options.config is None:
        return config_from_overrides(experiment, options.fields, scale)
    if options.fields:
        raise ValueError(f"--config gives the fields, got also {' '.join(options.fields)}")
    return config_from_file(experiment, Path(options.config), scale)


def _check_resume(options: argparse.Namespace) -> None:
    given = {"--scale": options.scale, "--out": options.out, "--config": options.config}
    named = options.experiment or ""
    fields = [named, *options.fields] if "=" in named else options.fields
    new = [*fields, *(f"{key} {value}" for key, value in given.items() if value)]
    if new:
        raise ValueError(
            f"--resume takes no fields, --scale or --out (got {', '.join(new)}); drop --resume to "
            "start a new run"
        )
    found = read_config(options.resume).experiment
    if options.experiment not in (None, found):
        raise ValueError(f"{options.resume} is a run of {found}, not of {options.experiment}")


def _print_tables(runs: Sequence[Run], *, only: Sequence[str] = ()) -> None:
    from torchsets.lab.reports import collect_tables, table_as_text

    for table in collect_tables(runs):
        if table.has_numbers and (not only or table.key.removesuffix("/variants") in only):
            print("\n" + table_as_text(table))


def _print_fields(experiment: Experiment[Any]) -> None:
    from torchsets.lab.reports import thesis_tables

    print(_RUN_HELP.replace("NAME", experiment.name).splitlines()[0] + "\n")
    print(experiment.summary + "\n")
    print((inspect.getdoc(experiment.config) or "") + "\n")
    for table in experiment.tables:
        about = thesis_tables().get(table.key)
        print(f"fills {table.key}" + (f" ({about.source}: {about.caption})" if about else ""))
    print()
    print("Defaults (scale full; the other scales change some):")
    hints = typing.get_type_hints(experiment.config)
    for field in dataclasses.fields(experiment.config):
        print(f"  {field.name}={format_value(field.default)}  ({type_name(hints[field.name])})")


def is_first() -> bool:
    """Whether this process is the one that prints."""
    return os.environ.get("RANK", "0") == "0"  # torchrun sets it


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _is_whole(word: str) -> bool:
    return word.removeprefix("-").isdigit()


def _whole(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError(f"seeds must be whole numbers, got {word!r}") from None
