import base64
import hashlib
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest

from torchsets.lab.figures import Frames, Line, Lines, MovingBars, Panel, Slider
from torchsets.lab.records import Recorder, read_run
from torchsets.lab.reports import collect_tables, table_as_text, write_pictures, write_report

CHAMFER = "fspool/polygons-chamfer"
LINES = Lines([Panel([Line([0, 1], [1, 2], label="$x_1$")], title="a < b & c")])


def make_run(
    folder, *, seed=0, value=0.25, scale="cpu", finish=True, model="FSPool", steps=5, drawn=False
):
    recorder = Recorder.start(
        folder,
        experiment="polygons",
        scale=scale,
        config={"seed": seed, "steps": steps},
        tables=[CHAMFER],
    )
    for step in (1, 2) if drawn else ():
        recorder.add_metrics("n=4/fspool", step, {"loss": 0.5 / step})
    recorder.add_task("n=4/fspool", steps=2, seconds=75.0, parameters=10, data_seconds=6.0)
    if value is not None:
        recorder.add_result(CHAMFER, model=model, column="n=4", value=value)
    if drawn:  # takes time, which not every test needs
        recorder.add_figure("lines", LINES, title="<b>T</b>", caption="c", alt='say "hi" <now>')
    if finish:
        recorder.finish()
    return read_run(folder)


def page_of(tmp_path, *runs):
    write_report(runs, tmp_path / "deep" / "report.html")
    return (tmp_path / "deep" / "report.html").read_text()


class Checker(HTMLParser):
    """Finds tags that are not closed in order, and whatever would load something."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.texts = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag in ("script", "link", "iframe", "img"):
            self.loads.append(tag)
        self.loads += [
            value
            for name, value in attributes
            if name in ("src", "href", "xlink:href") and not value.startswith(("#", "data:"))
        ]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_is_whole_and_loads_nothing(tmp_path):
    page = page_of(tmp_path, make_run(tmp_path / "a", drawn=True))
    assert page.count("<svg") == 2
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.loads == []
    assert "url(http" not in page


def test_moving_figures_bring_one_script_and_no_other_may_run(tmp_path):
    recorder = Recorder.start(tmp_path / "a", experiment="x", scale="cpu", config={"seed": 0})
    evil = "</script><script>alert(1)</script>"
    for name in ("one", "two"):
        bars = MovingBars([[1], [2]], range=(0, 2), title=evil)
        frames = Frames(Slider(evil, [0, 1]), [bars])
        recorder.add_figure(name, frames, title=evil, caption=evil, alt='say "hi" <now>')
    page = page_of(tmp_path, read_run(tmp_path / "a"))
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.loads == ["script"] * 3  # inline: the data of two figures, and the program
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "alert(1)</script>" not in page
    assert page.count('role="group" aria-label="say &#34;hi&#34; &lt;now&gt;"') == 2


def test_ours_stands_beside_the_thesis(tmp_path):
    page = page_of(tmp_path, make_run(tmp_path / "a"))
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr.*?</tr>", page)]
    ours = next(row for row in rows if row[:2] == ["FSPool", "ours, 1 seed"])
    thesis = rows[rows.index(ours) + 1]
    assert ours[2:] == ["–", "0.250", "–", "–", "–", "–"]  # noqa: RUF001
    assert thesis == ["", "thesis", "0.001", "0.001", "0.001", "0", "0.001", "0.002"]


def test_rows_that_were_not_run_appear_as_missing(tmp_path):
    page = page_of(tmp_path, make_run(tmp_path / "a", value=None, finish=False))
    assert page.count("ours, not run") == 4
    assert "not finished" in page


def test_seeds_are_averaged_with_their_spread(tmp_path):
    runs = [make_run(tmp_path / str(seed), seed=seed, value=1.0 + seed) for seed in range(3)]
    page = page_of(tmp_path, *runs)
    assert "ours, 3 seeds" in page
    assert "2.000 ± 1.000" in page


def test_other_scales_and_configurations_are_never_mixed(tmp_path):
    runs = [
        make_run(tmp_path / "a", value=1.0),
        make_run(tmp_path / "b", value=3.0, scale="smoke"),
        make_run(tmp_path / "c", value=5.0, steps=6),
    ]
    page = page_of(tmp_path, *runs)
    assert page.count("<section") == 3
    assert page.count("ours, 1 seed<") == 3
    assert "the numbers are not meaningful" in page


def test_text_from_records_is_escaped(tmp_path):
    page = page_of(
        tmp_path, make_run(tmp_path / "a", model="<script>alert(1)</script>", drawn=True)
    )
    assert "<script>" not in page
    assert "<b>T</b>" not in page
    assert "&lt;b&gt;T&lt;/b&gt;" in page
    assert 'aria-label="say &quot;hi&quot; &lt;now>"' in page


def test_pictures_are_files_that_follow_the_theme(tmp_path):
    (path,) = write_pictures([make_run(tmp_path / "a", drawn=True)], tmp_path / "deep" / "pictures")
    assert path.name == "a-lines.svg"
    assert "prefers-color-scheme: dark" in path.read_text()
    ElementTree.fromstring(path.read_text())


def test_pictures_of_folders_with_one_name_are_all_kept(tmp_path):
    runs = [make_run(tmp_path / place / "a", drawn=True) for place in "123"]
    paths = write_pictures(runs, tmp_path / "pictures")
    assert len(set(paths)) == 3
    assert sorted((tmp_path / "pictures").iterdir()) == sorted(paths)


def test_it_says_what_was_run(tmp_path):
    run = make_run(tmp_path / "a", seed=7)
    page = page_of(tmp_path, run)
    assert "scale: cpu" in page
    assert "<td>7</td>" in page
    assert "1 min 15 s, 8% of it loading data" in page
    assert (run.environments[0].commit or "unknown")[:10] in page


def test_the_same_records_give_the_same_page(tmp_path):
    run = make_run(tmp_path / "a", drawn=True)
    assert page_of(tmp_path, run) == page_of(tmp_path, run)


def test_a_nan_result_is_missing_and_not_averaged(tmp_path):
    runs = [
        make_run(tmp_path / "0", seed=0, value=float("nan")),
        make_run(tmp_path / "1", seed=1, value=2.0),
    ]
    (table,) = collect_tables(runs)
    cell = table.rows[0].ours[1]
    assert (cell.mean, cell.spread, cell.seeds) == (2.0, None, 1)


@pytest.mark.parametrize("value", [0.25, None])
def test_the_terminal_shows_columns_that_were_run(tmp_path, value):
    (table,) = collect_tables([make_run(tmp_path / "a", value=value, finish=False)])
    text = table_as_text(table)
    assert ("n=4" in text) is (value is not None)
    assert "n=16" not in text


def test_a_table_to_which_a_complete_run_adds_nothing_is_left_out(tmp_path):
    assert collect_tables([make_run(tmp_path / "a", value=None)]) == []
    assert len(collect_tables([make_run(tmp_path / "b", value=None, finish=False)])) == 1
