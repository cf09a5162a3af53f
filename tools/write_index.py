"""Write the generated parts of results/README.md: ``python tools/write_index.py`` (make index)."""

import sys

from site_pages.coverage import coverage_table
from site_pages.index import runs_table
from site_pages.records import RESULTS

INDEX = RESULTS / "README.md"


def with_generated_parts(text: str) -> str:
    """Return the text with new content between its ``generated`` marks."""
    for name, content in (("runs", runs_table()), ("tables", coverage_table())):
        start, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        if not rest or not after:
            raise ValueError(f"{INDEX} must have the marks of {name}")
        text = f"{before}{start}\n{content}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    old = INDEX.read_text(encoding="utf-8")
    new = with_generated_parts(old)
    INDEX.write_text(new, encoding="utf-8")
    sys.stdout.write(f"{INDEX} {'is unchanged' if new == old else 'was written'}\n")
