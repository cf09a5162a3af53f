"""The command as a user calls it: from an empty folder, stopped, continued, failing."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from torchsets.lab.cli import main
from torchsets.lab.records import find_runs, read_run
from torchsets.lab.records.lock import FolderLock

FIELDS = ["models=fspool,random", "sizes=2,4", "steps=300"]
TABLE = ["reproduce", "fspool/polygons-chamfer", *FIELDS, "--scale", "smoke"]
NAMES = ["sizes=2,steps=300,seed=0", "sizes=4,steps=300,seed=0"]
WITHOUT_TORCH = "import sys, torchsets.lab.cli\ntorchsets.lab.cli.main(sys.argv[1:])\nsys.exit('torch' in sys.modules)"


def call(*arguments, cwd, program=("-m", "torchsets")):
    command = [sys.executable, *program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def table_of(folder, key="fspool-polygons-chamfer"):
    return json.loads((folder / f"{key}.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder in which the table was redrawn, two pieces side by side, without a disturbance."""
    folder = tmp_path_factory.mktemp("whole")
    done = call(*TABLE, "--jobs", "2", "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("\nPolygon auto-encoding: Chamfer loss by set size (1e-2, lower")
    assert re.search(r"\n  FSPool +ours( +0\.\d{3}){2}\n +thesis +0.001   0.001\n", done.stdout)
    assert re.search(r"\n  MLP \+ Chamfer +thesis +1.189   1.771\n", done.stdout)
    assert "fspool/polygons-chamfer: 2 pieces in out, 0 recorded already" in done.stderr
    return folder / "out"


def test_it_writes_a_run_folder_for_each_piece_and_the_table_in_three_forms(whole):
    assert [folder.name for folder in find_runs([whole])] == NAMES
    table = table_of(whole)
    assert table["complete"]
    assert [piece["state"] for piece in table["pieces"]] == ["done", "done"]
    (only,) = table["tables"]
    ours = {row["model"]: row["ours"] for row in only["rows"]}
    assert [cell["mean"] is not None for cell in ours["FSPool"]][:3] == [True, True, False]
    assert "n=2" in (whole / "fspool-polygons-chamfer.txt").read_text()
    page = (whole / "fspool-polygons-chamfer.html").read_text()
    assert page.count("Chamfer loss by set size") == 1, "one table for all pieces"
    assert f"Polygons and their reconstructions ({NAMES[0]})" in page


def test_each_piece_has_one_thread_and_its_own_repeatable_command(whole):
    (environment,) = read_run(whole / NAMES[0]).environments
    assert environment["hardware"]["threads"] == "1"
    assert environment["command"] == (
        "torchsets run polygons sizes=2 models=fspool,random zeroed_sizes= steps=300 "
        f"--scale smoke --out out/{NAMES[0]}"
    )


def test_another_table_of_the_same_pieces_runs_nothing_and_needs_no_torch(whole):
    before = {path: path.read_bytes() for path in sorted(whole.glob("sizes*/*.json*"))}
    command = ["reproduce", "fspool/polygons-hungarian", *TABLE[2:], "--out", "out"]
    done = call(*command, cwd=whole.parent, program=("-c", WITHOUT_TORCH))
    assert done.returncode == 0, done.stderr
    assert "2 pieces in out, 2 recorded already" in done.stderr
    assert "start" not in done.stderr
    assert "Hungarian (linear assignment) loss by set size" in done.stdout
    assert {path: path.read_bytes() for path in sorted(whole.glob("sizes*/*.json*"))} == before
    assert table_of(whole, "fspool-polygons-hungarian")["complete"]


def test_stopped_twice_and_continued_one_by_one_it_gives_the_same_table(whole, tmp_path):
    command = [*TABLE, "--jobs", "1", "--out", "out"]
    code, shown = stop(command, tmp_path, signals=2)  # the second Ctrl-C does not wait
    assert code == 130
    assert "ending now" in shown
    assert not table_of(tmp_path / "out")["complete"]
    text = (tmp_path / "out" / "fspool-polygons-chamfer.txt").read_text()
    assert text.startswith("fspool/polygons-chamfer: no number is recorded yet")
    assert "NOT COMPLETE: 0 of 2" in text
    assert not list((tmp_path / "out").glob("*.html")), "nobody waits for a page after Ctrl-C"
    code, shown = stop(command, tmp_path, signals=1)
    assert code == 130
    assert "saves first" in shown
    assert "stopped; the same command goes on" in shown
    code, shown = watch(command, tmp_path)
    assert code == 0
    assert "n=2/fspool" in shown, "the live view names the training"
    assert [folder.name for folder in find_runs([tmp_path])] == NAMES
    assert len(read_run(tmp_path / "out" / NAMES[1]).environments) == 3, "it was resumed"
    assert table_of(tmp_path / "out")["tables"] == table_of(whole)["tables"]


def test_a_closed_terminal_lets_the_running_piece_save(tmp_path):
    master, terminal = pty.openpty()
    program = [sys.executable, "-m", "torchsets", *TABLE, "--jobs", "1", "--out", "out"]
    running = subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    curve = tmp_path / "out" / NAMES[1] / "metrics.jsonl"
    while running.poll() is None and not curve.exists():
        time.sleep(0.05)
    os.close(master)  # from now on nothing can be said
    running.send_signal(signal.SIGTERM)  # SIGHUP would be ignored where the tests run under nohup
    assert running.wait(timeout=120) != 0
    assert list((tmp_path / "out" / NAMES[1] / "checkpoint").rglob("manifest.json"))
    assert not table_of(tmp_path / "out")["complete"]


def stop(command, folder, *, signals):
    """Press Ctrl-C while the first piece trains."""
    running = start(command, folder)
    curve = folder / "out" / NAMES[1] / "metrics.jsonl"
    before = curve.stat().st_mtime_ns if curve.exists() else 0
    while running[0].poll() is None and not (curve.exists() and curve.stat().st_mtime_ns > before):
        time.sleep(0.05)
    for _ in range(signals):
        running[0].send_signal(signal.SIGINT)
        time.sleep(0.15)
    return finish(*running)


def watch(command, folder):
    return finish(*start(command, folder))


def start(command, folder):
    """Start it with a terminal as stderr; collect what that shows."""
    master, terminal = pty.openpty()
    program = [sys.executable, "-m", "torchsets", *command]
    running = subprocess.Popen(
        program, cwd=folder, stdout=subprocess.DEVNULL, stderr=terminal, env={**os.environ}
    )
    os.close(terminal)
    shown = []
    reader = threading.Thread(target=read_all, args=(master, shown))
    reader.start()
    return running, reader, shown


def read_all(master, shown):
    while True:
        try:
            shown.append(os.read(master, 4096))
        except OSError:  # the other side is closed
            os.close(master)
            return


def finish(running, reader, shown):
    code = running.wait()
    reader.join()
    return code, b"".join(shown).decode()


def test_a_piece_that_fails_is_reported_and_tried_again_and_the_others_are_done(tmp_path):
    fields = ["models=random", "sizes=2,4", "--scale", "smoke"]
    command = ["reproduce", "fspool/polygons-direct", *fields, "--out", "out"]
    (tmp_path / "out" / "sizes=2,seed=0").mkdir(parents=True)
    lock = FolderLock(tmp_path / "out" / "sizes=2,seed=0")
    done = call(*command, cwd=tmp_path)
    assert done.returncode == 1
    assert "done    sizes=4,seed=0" in done.stderr
    assert "failed: sizes=2,seed=0; the end of out/logs/sizes=2,seed=0.txt:" in done.stderr
    assert "error: folder must be written by one process at a time" in done.stderr
    assert "NOT COMPLETE: 1 of 2 pieces are done" in done.stdout
    lock.release()
    done = call(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 recorded already" in done.stderr
    assert "thesis" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fspool/polygon-chamfer"], "the nearest is 'fspool/polygons-chamfer'"),
        (["fspool/clevr"], "got fspool/clevr, which is not implemented yet"),
        (["count-toy", "stepz=3"], "got 'stepz'; the nearest is 'steps'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", *arguments])
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_jobs_must_be_at_least_one(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", "count-toy", "--jobs", "0"])
    assert "must be at least 1, got 0" in capsys.readouterr().err


def test_help_says_what_can_be_chosen(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["reproduce", "--help"])
    shown = capsys.readouterr().out
    for word in ("TABLE", "--list", "--scale", "--seeds", "--jobs", "--out"):
        assert word in shown
