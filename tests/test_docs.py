"""The code of the README and of docs/ runs as printed: one namespace per page, top to bottom."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "results" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    namespace = {"__name__": "docs"}
    for block in BLOCK.finditer(page.read_text()):
        line = page.read_text()[: block.start()].count("\n") + 1
        exec(compile("\n" * line + block.group(1), str(page), "exec"), namespace)


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page} links to {target}"
