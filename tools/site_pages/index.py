"""The index of all recorded runs: when, which code and machine, how long, and what they say."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

from site_pages.records import RESULTS, Recorded, recorded, where
from torchsets.lab.experiments import experiments
from torchsets.lab.experiments.experiment import format_value
from torchsets.lab.records import Run, find_runs
from torchsets.lab.records.run import read_config, read_environments
from torchsets.lab.reports import duration

_FINDING = re.compile(r"^\| \[([\w-]+)\]\([^)]*\) \| (.*?) \|$", re.MULTILINE)


def findings() -> dict[str, str]:
    """Read what results/README.md says of each folder, in one line."""
    return dict(_FINDING.findall((RESULTS / "README.md").read_text(encoding="utf-8")))


def findings_table(link: str) -> str:
    """Write the findings as Markdown; ``link`` makes the address of a folder's page."""
    known = findings()
    lines = ["| experiment | in one line |", "|---|---|"]
    for one in recorded():
        address = link.format(folder=one.name, chapter=one.chapter)
        lines.append(f"| [{one.name}]({address}) | {known.get(one.name, _first_words(one))} |")
    return "\n".join(lines)


def _first_words(one: Recorded) -> str:
    return one.note.splitlines()[0].removeprefix("# ")


def runs_table(*, linked: bool = True) -> str:
    """Write one line for each run; the shards and seeds of a reproduced table share one."""
    lines = [
        "| runs | scale | seeds | begun | commit | machine | training time | command |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for folder in recorded():
        groups: dict[str, list[Run]] = {}
        for run in folder.runs:
            parts = where(run).split("/")
            groups.setdefault("/".join(parts[:2]), []).append(run)
        for name, runs in groups.items():
            lines.append(_line(name, runs, linked))
    for path in sorted(RESULTS.glob("benchmarks/*.json")):
        lines.append(_benchmark_line(path, linked))
    return "\n".join(lines)


def _line(name: str, runs: list[Run], linked: bool) -> str:
    # The shards of a merged run were begun at other times: ask the folders themselves.
    folders = find_runs([RESULTS / name])
    environments = [one for folder in folders for one in read_environments(folder)]
    first = min(environments, key=lambda one: one.started)
    commits = dict.fromkeys((one.commit or "unknown")[:7] for one in environments)
    machines = dict.fromkeys(_machine(one.machine.processor) for one in environments)
    times = [task.seconds for run in runs for task in run.tasks.values()]
    unfinished = "" if all(run.complete for run in runs) else " (not finished)"
    scales = ", ".join(sorted({run.scale for run in runs}))
    seeds = ", ".join(str(seed) for seed in sorted({run.seed or 0 for run in runs}))
    return (
        f"| {_named(name, linked)}{unfinished} | {scales} | {seeds} | "
        f"{first.started[:16].replace('T', ' ')} | {', '.join(commits)} | "
        f"{', '.join(machines)} | {duration(sum(times)) if times else '-'} | "
        f"`{_command(first.command, _fields(folders), several=len(folders) > 1)}` |"
    )


def _named(name: str, linked: bool) -> str:
    return f"[{name}]({name})" if linked else f"`{name}`"


def _command(command: str, fields: str = "", *, several: bool = False) -> str:
    """The command without the folders of the machine it ran on; ``fields`` are for --config.

    That of one of ``several`` shards gets the fields of them all in place of its own.
    """
    fields = f" {fields}" if fields else ""
    if several and " --config " not in command:
        experiment, *words = shlex.split(command.partition(" run ")[2])
        options = shlex.join(word for word in words if not re.match(r"\w+=", word))
        command = f"{command.partition(' run ')[0]} run {experiment}{fields} {options}"
    command = re.sub(r" --config ('[^']*'|\S+)", lambda _: fields, command)
    command = re.sub(r" --out ('[^']*'|\S+)", "", command)
    return re.sub(r"=/\S+", "=...", command).replace("|", "\\|")


def _fields(folders: list[Path]) -> str:
    """The fields of all runs together that differ from those of their scale as it is now."""
    configs = [read_config(folder) for folder in folders]
    experiment = experiments().get(configs[0].experiment)
    if experiment is None:
        return ""
    changed = []
    for name, usual in vars(experiment.config_at(configs[0].scale)).items():
        found = [one.config[name] for one in configs if name in one.config]
        found = [tuple(one) if isinstance(one, list) else one for one in found]
        if name not in ("seed", "device") and (value := _joined(found, usual)) != usual:
            text = "..." if value is ... else format_value(value)
            changed.append(f"{name}={shlex.quote(text) if text else ''}")
    return " ".join(changed)


def _joined(found: list[Any], usual: Any) -> Any:
    """What shards have together; ``...`` if they differ in a single value."""
    unique = list(dict.fromkeys(found))
    if len(unique) < 2:
        return unique[0] if unique else usual  # an older run did not have the field
    if not all(isinstance(one, tuple) for one in unique):
        return ...
    parts = tuple(dict.fromkeys(part for one in unique for part in one))
    same = isinstance(usual, tuple) and set(parts) == set(usual)
    return usual if same else parts


def _machine(processor: str | None) -> str:
    return (processor or "unknown").replace("(R)", "").replace(" Processor", "").strip()


def _benchmark_line(path: Path, linked: bool) -> str:
    content = json.loads(path.read_text(encoding="utf-8"))
    content = content.get(path.stem, content)  # some files name their benchmark first
    environment = content["environment"]
    name = f"benchmarks/{path.name}"
    return (
        f"| {_named(name, linked)} | - | - | {environment['started'][:16].replace('T', ' ')} | "
        f"{(environment.get('commit') or '-')[:7]} | "
        f"{_machine(environment.get('hardware', {}).get('processor'))} | - | "
        f"`{_command(environment['command'])}` |"
    )
