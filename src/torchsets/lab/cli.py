"""The command line: list, run, reproduce, report, bench, scenes and demo.

Errors are one line on stderr and the exit code 2; Ctrl-C is 130.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from torchsets import __version__
from torchsets.lab.commands import (
    bench,
    demo,
    is_first,
    list_experiments,
    report,
    reproduce,
    run,
    scenes,
)
from torchsets.lab.experiments import SCALES

_PLAIN_ERRORS = (
    ValueError,
    OSError,
    ImportError,
    FloatingPointError,
    OverflowError,
    MemoryError,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ``arguments`` are those of the process by default."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command not in (run, reproduce):
        parser.error(f"unknown arguments: {' '.join(rest)}")
    if rest:  # fields may also stand after the options, which argparse does not foresee
        options.fields.extend(rest)
    if options.command in (run, demo):
        # Read when torch loads: threads that wait sleep instead of taking a core from the others.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            if options.command in (demo, reproduce) and int(os.environ.get("WORLD_SIZE", "1")) > 1:
                name = options.command.__name__
                raise ValueError(f"torchrun works with `torchsets run` only, not `{name}`")
            options.command(options)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough, as in `torchsets list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except _PLAIN_ERRORS as error:
        speaker = "" if is_first() else f"process {os.environ['RANK']}: "
        print(f"{speaker}error: {str(error) or type(error).__name__}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        if is_first():
            print("stopped", file=sys.stderr)
        raise SystemExit(130) from None


def _show_warning(message: Warning | str, *rest: Any, **options: Any) -> None:
    del rest, options
    print(f"warning: {message}", file=sys.stderr)


def _at_least_one(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
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
    command.add_argument("--scale", choices=[*SCALES, "demo"])
    command.add_argument("--config", metavar="FILE")
    command.add_argument("--out", metavar="DIR")
    command.add_argument("--resume", metavar="DIR")
    command.add_argument("-h", "--help", action="store_true")
    command.set_defaults(command=run)

    command = commands.add_parser("reproduce", help="reproduce a table of the thesis")
    command.add_argument("table", metavar="TABLE", nargs="?", help="see --list")
    command.add_argument("fields", metavar="field=value", nargs="*", help="as in torchsets run")
    command.add_argument("--list", action="store_true", help="show the tables and their times")
    command.add_argument("--scale", choices=SCALES, default="cpu", help="default: cpu")
    command.add_argument(
        "--seeds", nargs="+", metavar="SEED", help="default: 0; at full as many as the thesis"
    )
    command.add_argument("--jobs", type=_at_least_one, help="shards at a time; default: the cores")
    command.add_argument("--out", metavar="DIR", help="default: runs/reproduce/EXPERIMENT-SCALE")
    command.add_argument("--plan", action="store_true", help="only print the shards, as JSON")
    command.set_defaults(command=reproduce)

    command = commands.add_parser("report", help="draw one HTML page from run folders")
    command.add_argument("runs", nargs="+", metavar="RUNS", help="run folders, or folders of them")
    command.add_argument("-o", "--output", default="report.html", metavar="FILE")
    command.add_argument("--pictures", metavar="DIR", help="also write each figure as SVG file")
    command.set_defaults(command=report)

    command = commands.add_parser("bench", help="measure speed and memory")
    command.add_argument("name", metavar="NAME", help="a benchmark, or all")
    command.add_argument("--threads", type=_at_least_one, nargs="+", default=[1, 2])
    command.add_argument("--repeats", type=_at_least_one, default=7)
    command.add_argument("--out", metavar="FILE", help="write the numbers as JSON")
    command.set_defaults(command=bench)

    command = commands.add_parser("scenes", help="draw scenes of CLEVR's world on one sheet")
    command.add_argument("--count", type=_at_least_one, default=24, help="default: 24")
    command.add_argument("--size", type=_at_least_one, default=128, help="pixels; default: 128")
    command.add_argument("--seed", type=int, default=0, help="default: 0")
    command.add_argument("--boxes", action="store_true", help="with the boxes of the objects")
    command.add_argument(
        "--compare", action="store_true", help="real pictures above the same scenes, rendered"
    )
    command.add_argument("-o", "--output", default="scenes.png", metavar="FILE")
    command.set_defaults(command=scenes)

    command = commands.add_parser("demo", help="three minutes: polygons, digits, a report")
    command.add_argument("--out", metavar="DIR")
    command.set_defaults(command=demo)
    return parser
