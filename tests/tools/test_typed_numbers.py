"""Numbers that are typed on pages are those of the records."""

import json
import re
from pathlib import Path

import pytest

from torchsets.lab.benchmarks.harness import format_table

ROOT = Path(__file__).parents[2]
LINKS = re.findall(
    r"\[([^\]]*\d[^\]]*)\]\((results/[^)]*README\.md)\)", (ROOT / "README.md").read_text("utf-8")
)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "results/benchmarks").glob("*.json")), ids=lambda path: path.stem
)
def test_the_page_of_benchmarks_shows_what_is_recorded(path):
    recorded = json.loads(path.read_text("utf-8"))
    recorded = recorded.get(path.stem, recorded)  # version 0.1 has no name around it
    page = {line.rstrip() for line in (ROOT / "docs/benchmarks.md").read_text("utf-8").split("\n")}
    lines = [line.rstrip() for line in format_table(recorded).split("\n") if line.strip()]
    assert [line for line in lines if line not in page] == []


def test_the_readme_has_numbers_with_links():
    assert len(LINKS) > 10


@pytest.mark.parametrize(("text", "note"), LINKS, ids=[text for text, _ in LINKS])
def test_the_numbers_of_the_readme_are_in_the_note(text, note):
    found = re.findall(r"\d+(?:\.\d+)?", (ROOT / note).read_text("utf-8"))
    known = {float(number) for number in found}
    for number in re.findall(r"\d+(?:\.\d+)?", text):
        digits = len(number.partition(".")[2])
        assert any(round(one, digits) == float(number) for one in known), (number, note)
