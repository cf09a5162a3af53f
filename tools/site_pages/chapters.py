"""A chapter's page: for each experiment what was observed, then tables and figures as recorded."""

import re

from site_pages.parts import Parts, figures_of, tables_of
from site_pages.records import Recorded, chapter_of, recorded, where
from torchsets.lab.records import Run
from torchsets.lab.reports import duration, groups_of


def chapter_page(parts: Parts, chapter: str) -> str:
    """``chapter NAME``: all folders of results/ that belong to it."""
    found = [one for one in recorded() if chapter_of(one.runs[0].experiment) == chapter]
    if not found:
        return "Nothing is recorded yet.\n"
    return "\n".join(_folder(parts, one) for one in found)


def _folder(parts: Parts, one: Recorded) -> str:
    title, note = _note(one)
    sections = [_section(parts, group) for group in groups_of(one.runs)]
    return (
        f"\n## {title}\n\n{note}\n\n### The records of {one.name}\n\n"
        f"Drawn from `results/{one.name}`; ours in bold, the thesis' in grey.\n" + "".join(sections)
    )


def _section(parts: Parts, group: list[Run]) -> str:
    first = group[0]
    environments = [one for run in group for one in run.environments]
    begun = min(one.started for one in environments)
    seconds = sum(task.seconds for run in group for task in run.tasks.values())
    seeds = ", ".join(str(run.seed) for run in group)
    commits = dict.fromkeys((one.commit or "unknown")[:7] for one in environments)
    about = (
        f"\n`{where(first)}`: scale {first.scale}, seed{'s' if len(group) > 1 else ''} {seeds}, "
        f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}, begun {begun[:10]}, "
        f"{duration(seconds)} of training.\n"
    )
    return about + tables_of(parts, group, "####") + figures_of(parts, first)


def _note(one: Recorded) -> tuple[str, str]:
    """Title and text of a note: headings one level down, links to other notes as words."""
    lines = one.note.splitlines()
    title = lines[0].removeprefix("# ") if lines and lines[0].startswith("# ") else one.name
    text = "\n".join(lines[1:] if title != one.name else lines)
    text = re.sub(r"^(#+) ", r"#\1 ", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)
    return title, text.strip()
