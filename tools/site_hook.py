"""What mkdocs calls while it builds the site: pages get their numbers and figures from results/.

A line ``<!-- records: WHAT ... -->`` in a page is replaced by what the records say; see
``_DIRECTIVES``. Drawn figures and tables enter after the Markdown is read, because they are large.
"""

import re
from collections.abc import Callable
from typing import Any

from mkdocs.structure.files import File, Files

from site_pages.chapters import chapter_page
from site_pages.coverage import coverage_table
from site_pages.index import findings_table, runs_table
from site_pages.parts import Parts, record_tables
from site_pages.records import ROOT, recorded
from torchsets.lab.reports import frames_script

_DIRECTIVE = re.compile(r"^<!-- records: (\S+) ?(.*?) -->$", re.MULTILINE)
_DIRECTIVES: dict[str, Callable[[Parts, str], str]] = {
    "chapter": chapter_page,
    "table": record_tables,
    "coverage": lambda parts, _: coverage_table(link="{chapter}.md"),
    "findings": lambda parts, _: findings_table(link="{chapter}.md"),
    "runs": lambda parts, _: runs_table(linked=False),
}
_pages: dict[str, Parts] = {}


def on_files(files: Files, config: Any) -> Files:
    """Add the script of the figures with a slider, and the changelog as a page."""
    files.append(File.generated(config, "assets/frames.js", content=frames_script()))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=changelog))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the directives, and links that leave docs/."""
    parts = _pages[page.file.src_uri] = Parts(page.file.src_uri)

    def replace(found: re.Match[str]) -> str:
        what, options = found.groups()
        if what not in _DIRECTIVES:
            raise ValueError(f"{page.file.src_uri}: there is no directive {what!r}")
        return _DIRECTIVES[what](parts, options)

    return _without_links_outside(_DIRECTIVE.sub(replace, markdown))


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the tables and figures where the page has a place for them."""
    return _pages.pop(page.file.src_uri).insert(html)


def _without_links_outside(markdown: str) -> str:
    """Links to a folder of results/ lead to its chapter; others out of docs/ become their words."""
    chapters = {one.name: one.chapter for one in recorded()}

    def inside(found: re.Match[str]) -> str:
        words, up, target = found.groups()
        folder = re.match(r"results/([\w-]+)/", target)
        if folder is None or folder[1] not in chapters:
            return words
        return f"[{words}]({'thesis/' if up == '../' else ''}{chapters[folder[1]]}.md)"

    return re.sub(r"\[([^\]]+)\]\(((?:\.\./)+)((?:results|src|tests)[^)]*)\)", inside, markdown)
