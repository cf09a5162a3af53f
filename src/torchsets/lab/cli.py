"""The command line: list, run, reproduce, report, bench and demo.

Each subcommand imports what it needs, so ``--help`` is instant. Errors are one line on stderr and
the exit code 2; Ctrl-C is 130.
"""

import argparse
import dataclasses
import difflib
import itertools
import json
import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from torchsets import __version__
from torchsets.lab.experiments import (
    EXPERIMENTS,
    SCALES,
    load_experiment,
    read_description,
    read_fields,
)
from torchsets.lab.experiments.digest import code_digest
from torchsets.lab.experiments.values import config_from_record, config_from_words
from torchsets.lab.records import Recorder, Run, find_runs, read_config, read_run

_RUN_HELP = """\
torchsets run NAME [field=value ...] [--scale smoke|cpu|full] [--out DIR] [--resume DIR]

  NAME           an experiment; see: torchsets list
  field=value    change a field of its Config; see: torchsets run NAME --help
  --scale SCALE  smoke takes seconds, cpu (the default) minutes to an hour, full is the thesis'
  --out DIR      the run folder (default: a new one in runs/)
  --resume DIR   go on with a run that was stopped"""

_DEMO = {
    "polygons": [
        "sizes=4,8",
        "models=fspool,mlp-hungarian,random",
        "zeroed_sizes=",
        "enlarged_sizes=",
        "steps=3000",
    ],
    "digits": ["poolings=fspool,sum", "steps=2500"],
}
_DEMO_TABLES = ("fspool/polygons-chamfer", "polygons/jumps", "digits/accuracy")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ``arguments`` are those of the process by default."""
    warnings.showwarning = _show_warning
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command not in (run, reproduce):
        parser.error(f"unknown arguments: {' '.join(rest)}")
    if rest:  # fields may also stand after the options, which argparse does not foresee
        options.fields.extend(rest)
    if options.command in (run, demo):
        # Read when torch loads: threads that wait sleep instead of taking a core from the others.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    rank = os.environ.get("RANK", "0")  # torchrun sets it
    speaker = "" if rank == "0" else f"process {rank}: "
    try:
        if options.command in (demo, reproduce) and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ValueError(f"torchrun must start torchsets run, got {options.command.__name__}")
        options.command(options)
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        print(f"{speaker}error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        if not speaker:
            print("stopped", file=sys.stderr)
        raise SystemExit(130) from None


def list_experiments(options: argparse.Namespace) -> None:
    """Show every experiment, or the fields of one."""
    del options
    for experiment in EXPERIMENTS.values():
        print(f"{experiment.name:<16}{experiment.summary}")
        print(f"{'':<16}tables: {', '.join(experiment.tables) or 'none of the thesis'}")
        times = ", ".join(f"{scale} {experiment.durations[scale]}" for scale in SCALES)
        print(f"{'':<16}time on two cores: {times}\n")
    print("run one:        torchsets run NAME [field=value ...] [--scale smoke|cpu|full]")
    print("see its fields: torchsets run NAME --help")


def run(options: argparse.Namespace) -> None:
    """Train one configuration, or go on with a stopped run."""
    name = options.experiment
    if name is None:
        print(_RUN_HELP)
        return
    if name not in EXPERIMENTS:
        nearest = difflib.get_close_matches(name, EXPERIMENTS, n=1, cutoff=0)[0]
        raise ValueError(
            f"experiment must be one of {', '.join(EXPERIMENTS)}, got {name!r}; "
            f"the nearest is {nearest!r}"
        )
    if options.help:
        _print_fields(name)
        return
    if options.resume is not None:
        if options.fields or options.scale or options.out:
            given = {"--scale": options.scale, "--out": options.out}
            new = [*options.fields, *(f"{key} {value}" for key, value in given.items() if value)]
            raise ValueError(
                f"a resumed run must keep its fields, scale and folder, got {', '.join(new)}; "
                "without --resume a new run begins"
            )
        begin = partial(_resume, name, options.resume)
    else:
        scale = options.scale or "cpu"
        config = config_from_words(name, options.fields, scale)
        folder = Path(options.out) if options.out else _new_folder(f"{name}-{scale}")
        begin = partial(_start, name, config, scale, folder)
    from torchsets.lab.training import is_first, join_processes

    with join_processes():
        folder = begin()
        if is_first():
            _print_tables([read_run(folder)])
            print(f"\ndone: {folder}")
            print(f"see it: torchsets report {shlex.quote(str(folder))} -o report.html")


def reproduce(options: argparse.Namespace) -> None:
    """Run all pieces of a table that are not recorded yet, and print the table."""
    from torchsets import reproduction
    from torchsets.lab.experiments.tables import TABLES

    if options.list or options.table is None:
        print(reproduction.list_tables())
        return
    if options.table not in TABLES:
        raise ValueError(reproduction.explain_unknown(options.table))
    table = TABLES[options.table]
    words, seeds = [*options.fields], None
    if options.seeds is not None:  # fields may follow the seeds, which argparse does not foresee
        words += [word for word in options.seeds if "=" in word]
        seeds = [_whole(word) for word in options.seeds if "=" not in word]
    if options.plan:
        for piece in reproduction.plan_pieces(table, words, options.scale, seeds):
            print(json.dumps(dataclasses.asdict(piece)))
        return
    out = Path(options.out or f"runs/reproduce/{table.experiment}-{options.scale}")
    done = reproduction.reproduce(
        table,
        scale=options.scale,
        out=out,
        words=words,
        seeds=seeds,
        jobs=options.jobs,
    )
    print(f"\n{done.text}")
    for path in done.files:
        print(f"wrote {path}")
    for job in done.failed:
        print(f"\nfailed: {job.piece.name}; the end of {job.log}:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in job.last_lines()), file=sys.stderr)
    if done.stopped:
        print("stopped; the same command goes on", file=sys.stderr)
        raise SystemExit(130)
    if done.failed:
        print("the same command tries the failed pieces again", file=sys.stderr)
        raise SystemExit(1)


def _whole(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError(f"seeds must be whole numbers, got {word!r}") from None


def report(options: argparse.Namespace) -> None:
    """Draw one HTML page from run folders."""
    from torchsets.lab.reports import write_pictures, write_report
    from torchsets.lab.reproduction import merge_pieces

    runs = merge_pieces([read_run(folder) for folder in find_runs(options.runs)])
    if not runs:
        raise ValueError(f"runs must hold run folders, got none in {', '.join(options.runs)}")
    write_report(runs, Path(options.output))
    print(f"wrote {options.output}: {len(runs)} run{'s' if len(runs) > 1 else ''}")
    if options.pictures is not None:
        for path in write_pictures(runs, Path(options.pictures)):
            print(f"wrote {path}")


def bench(options: argparse.Namespace) -> None:
    """Measure speed and memory against plain PyTorch."""
    from torchsets.lab.benchmarks import harness

    known = list(harness.benchmark_names())
    if options.name not in (*known, "all"):
        raise ValueError(f"benchmark must be all or one of {', '.join(known)}, got {options.name}")
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
        Path(options.out).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {options.out}")


def demo(options: argparse.Namespace) -> None:
    """Train small models on polygons and digits, and show what came out."""
    folder = Path(options.out) if options.out else _new_folder("demo")
    started = time.monotonic()
    for name, fields in _DEMO.items():
        config = config_from_words(name, fields, "cpu")
        _start(name, config, "demo", folder / name)
    runs = [read_run(folder / name) for name in _DEMO]
    from torchsets.lab.reports import write_report

    write_report(runs, folder / "report.html")
    _print_tables(runs, only=_DEMO_TABLES)
    print("\nA short demonstration. The thesis' settings: torchsets run polygons --scale cpu")
    print(f"{time.monotonic() - started:.0f} s; the report: {folder / 'report.html'}")


def _print_tables(runs: Sequence[Run], *, only: Sequence[str] = ()) -> None:
    from torchsets.lab.reports import collect_tables, table_as_text

    for table in collect_tables(runs):
        if not only or table.key in only:
            print("\n" + table_as_text(table))


def _start(name: str, config: Any, scale: str, folder: Path) -> Path:
    return _run_recorded(
        config,
        name,
        lambda: Recorder.start(
            folder,
            experiment=name,
            scale=scale,
            config=dataclasses.asdict(config),
            tables=EXPERIMENTS[name].tables,
            device=_device(config),
            code=code_digest(name),
        ),
        f"{name} at scale {scale}, run folder {folder}",
    )


def _resume(name: str, folder: str) -> Path:
    found = read_config(folder)
    if found["experiment"] != name:
        raise ValueError(f"folder must be a run of {name}, got one of {found['experiment']}")
    config = config_from_record(name, found["config"])
    return _run_recorded(
        config,
        name,
        lambda: Recorder.resume(folder, device=_device(config), code=code_digest(name)),
        f"{name} at scale {found['scale']}, going on in {folder}",
    )


def _run_recorded(config: Any, name: str, open_folder: Callable[[], Recorder], title: str) -> Path:
    from torchsets.lab.training import is_first, keep_freed_memory, pick_device, use_one_thread

    use_one_thread(pick_device(getattr(config, "device", "auto")))
    recorder = _first_writes(open_folder, name, dataclasses.asdict(config))
    if is_first():
        print(title, flush=True)
    keep_freed_memory()
    remedy = f"go on with: torchsets run {name} --resume {shlex.quote(str(recorder.folder))}"
    try:
        load_experiment(name).run(config, recorder)
        recorder.finish()
    except KeyboardInterrupt:
        if is_first():
            print(f"saved; {remedy}", file=sys.stderr)
        raise
    except OSError as error:  # a full disk, a missing file
        raise OSError(f"{error}; {remedy}") from error
    return recorder.folder


def _first_writes(open_folder: Callable[[], Recorder], name: str, config: Any) -> Recorder:
    """Open the run folder; all processes but the first get a recorder that writes nothing."""
    from torchsets.lab.training import on_first

    opened: list[Recorder] = []

    def open_and_name() -> Path:
        opened.append(open_folder())
        return opened[0].folder

    folder = on_first(open_and_name)
    return opened[0] if opened else Recorder.silent(folder, experiment=name, config=config)


def _device(config: Any) -> str:
    import torch

    from torchsets.lab.training import pick_device

    device = pick_device(getattr(config, "device", "auto"))
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def _new_folder(name: str) -> Path:
    stamped = f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    names = (stamped if count == 1 else f"{stamped}-{count}" for count in itertools.count(1))
    return next(folder for folder in map(Path("runs").joinpath, names) if not folder.exists())


def _print_fields(name: str) -> None:
    print(_RUN_HELP.replace("NAME", name).splitlines()[0] + "\n")
    print(EXPERIMENTS[name].summary + "\n")
    print(read_description(name) + "\n")
    print("Defaults (scale full; the other scales change some):")
    for field in read_fields(name):
        print(f"  {field.name}={field.default}  ({field.type})")


def _show_warning(message: Warning | str, *rest: Any, **options: Any) -> None:
    del rest, options
    print(f"warning: {message}", file=sys.stderr)


def _at_least_one(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="torchsets", description="Deep learning on sets.")
    parser.add_argument("--version", action="version", version=f"torchsets {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("list", help="show the experiments")
    command.set_defaults(command=list_experiments)

    command = commands.add_parser(
        "run", help="run an experiment", add_help=False, allow_abbrev=False
    )
    command.add_argument("experiment", metavar="NAME", nargs="?")
    command.add_argument("fields", metavar="field=value", nargs="*")
    command.add_argument("--scale", choices=SCALES)
    command.add_argument("--out", metavar="DIR")
    command.add_argument("--resume", metavar="DIR")
    command.add_argument("-h", "--help", action="store_true")
    command.set_defaults(command=run)

    command = commands.add_parser("reproduce", help="redraw a table of the thesis")
    command.add_argument("table", metavar="TABLE", nargs="?", help="see --list")
    command.add_argument("fields", metavar="field=value", nargs="*", help="as in torchsets run")
    command.add_argument("--list", action="store_true", help="show the tables and their times")
    command.add_argument("--scale", choices=SCALES, default="cpu", help="default: cpu")
    command.add_argument(
        "--seeds", nargs="+", metavar="SEED", help="default: 0; at full as many as the thesis"
    )
    command.add_argument("--jobs", type=_at_least_one, help="pieces at a time; default: the cores")
    command.add_argument("--out", metavar="DIR", help="default: runs/reproduce/EXPERIMENT-SCALE")
    command.add_argument("--plan", action="store_true", help="only print the pieces, as JSON")
    command.set_defaults(command=reproduce)

    command = commands.add_parser("report", help="draw one HTML page from run folders")
    command.add_argument("runs", nargs="+", metavar="RUNS", help="run folders, or folders of them")
    command.add_argument("-o", "--output", default="report.html", metavar="FILE")
    command.add_argument("--pictures", metavar="DIR", help="also write each figure as SVG file")
    command.set_defaults(command=report)

    command = commands.add_parser("bench", help="measure speed and memory")
    command.add_argument("name", metavar="NAME", help="a benchmark, or all")
    command.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    command.add_argument("--repeats", type=int, default=7)
    command.add_argument("--out", metavar="FILE", help="write the numbers as JSON")
    command.set_defaults(command=bench)

    command = commands.add_parser("demo", help="three minutes: polygons, digits, a report")
    command.add_argument("--out", metavar="DIR")
    command.set_defaults(command=demo)
    return parser
