"""The command as a user calls it: from an empty folder, stopped, killed, continued, failing."""

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
from torchsets.lab.experiments import find_experiment
from torchsets.lab.records import find_runs, read_run
from torchsets.lab.records.lock import FolderLock
from torchsets.lab.reproduction import folders

FIELDS = ["models=fspool,random", "sizes=2,4", "steps=20"]
TABLE = ["reproduce", "fspool/polygons-chamfer", *FIELDS, "--scale", "smoke"]
LONG = [*TABLE, "steps=1000"]  # which leaves time to stop it
NAMES = ["n=2,seed=0", "n=4,seed=0"]
WITHOUT_TORCH = """
import sys, torchsets.lab.cli
torchsets.lab.cli.main(sys.argv[1:])
sys.exit("torch" in sys.modules)
"""


def call(*arguments, cwd, program=("-m", "torchsets")):
    command = [sys.executable, *program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def table_of(folder, key="fspool-polygons-chamfer"):
    return json.loads((folder / f"{key}.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder in which the table was reproduced, two shards side by side, undisturbed."""
    folder = tmp_path_factory.mktemp("whole")
    done = call(*TABLE, "--jobs", "2", "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("\nPolygon auto-encoding: Chamfer loss by set size; with other")
    assert re.search(r"\n  FSPool, steps=20 +ours( +\d+\.\d+){2}\n", done.stdout)
    assert "changed: models=fspool,random sizes=2,4 steps=20" in done.stdout
    assert "fspool/polygons-chamfer: 2 shards in out, 0 recorded already" in done.stderr
    return folder / "out"


def test_it_writes_a_run_folder_for_each_shard_and_the_table_in_three_forms(whole):
    assert [folder.name for folder in find_runs([whole])] == NAMES
    table = table_of(whole)
    assert table["complete"]
    assert [shard["state"] for shard in table["shards"]] == ["done", "done"]
    (only,) = table["tables"]
    assert only["key"] == "fspool/polygons-chamfer/variants"
    ours = {row["model"]: row["ours"] for row in only["rows"]}
    assert [cell["mean"] is not None for cell in ours["FSPool, steps=20"]] == [
        True,
        True,
    ]
    assert "n=2" in (whole / "fspool-polygons-chamfer.txt").read_text()
    page = (whole / "fspool-polygons-chamfer.html").read_text()
    assert page.count("Chamfer loss by set size") == 1, "one table for all shards"
    assert f"Polygons and their reconstructions ({NAMES[0]})" in page


def test_each_shard_has_one_thread_and_its_own_repeatable_command(whole):
    run = read_run(whole / NAMES[0])
    (environment,) = run.environments
    assert environment.machine.threads == "1"
    config = "out/logs/n=2,seed=0.config.json"
    assert environment.command == (
        f"torchsets run polygons --config {config} --scale smoke --out out/n=2,seed=0"
    )
    assert json.loads((whole.parent / config).read_text()) == run.config


def test_another_table_of_the_same_shards_runs_nothing_and_needs_no_torch(whole):
    before = {path: path.read_bytes() for path in sorted(whole.glob("n=*/*.json*"))}
    assert len(before) == 8
    command = ["reproduce", "fspool/polygons-hungarian", *TABLE[2:], "--out", "out"]
    done = call(*command, cwd=whole.parent, program=("-c", WITHOUT_TORCH))
    assert done.returncode == 0, done.stderr
    assert "2 shards in out, 2 recorded already" in done.stderr
    assert "start" not in done.stderr
    assert "Hungarian (linear assignment) loss by set size" in done.stdout
    assert {path: path.read_bytes() for path in sorted(whole.glob("n=*/*.json*"))} == before
    assert table_of(whole, "fspool-polygons-hungarian")["complete"]


@pytest.mark.slow
def test_stopped_in_every_way_and_continued_it_gives_the_same_table(tmp_path):
    command = [*LONG, "--jobs", "1", "--out", "out"]
    out, shard = tmp_path / "out", tmp_path / "out" / NAMES[1]

    code, shown = stop(command, tmp_path, signal.SIGINT, signal.SIGINT)  # the second cannot wait
    assert code == 130
    assert "stopping: what is running saves first; again to end now" in shown
    assert "ending now" in shown
    assert "stopped; run the same command to continue" in shown
    assert not table_of(out)["complete"]
    text = (out / "fspool-polygons-chamfer.txt").read_text()
    assert text.startswith("fspool/polygons-chamfer: no number is recorded yet")
    assert "NOT COMPLETE: 0 of 2" in text
    assert not list(out.glob("*.html")), "nobody waits for a page after Ctrl-C"
    before = saved(out)  # it may have been quick enough

    assert close_terminal(command, tmp_path) != 0
    assert not table_of(out)["complete"]
    assert saved(out) == before + 1

    code, shown = stop(command, tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    code, shown = finish(*start(command, tmp_path))  # at once: the shard may still be saving
    assert code == 0, shown
    assert "n=2/fspool" in shown, "the live view names the training"
    if sys.platform == "linux":  # elsewhere a shard is not told of its watcher's end
        assert saved(out) == before + 2
    assert [folder.name for folder in find_runs([tmp_path])] == NAMES
    assert len(read_run(shard).environments) == 4, "it was resumed each time"
    assert call(*LONG, "--jobs", "2", "--out", "whole", cwd=tmp_path).returncode == 0
    assert table_of(out)["tables"] == table_of(tmp_path / "whole")["tables"]


def saved(out):
    """How often the first shard has saved and stopped."""
    return (out / "logs" / f"{NAMES[1]}.txt").read_text().count("saved; resume with")


def close_terminal(command, folder):
    """Close the terminal while the first shard trains: from then on nothing can be said."""
    master, terminal = pty.openpty()
    program = [sys.executable, "-m", "torchsets", *command]
    running = subprocess.Popen(program, cwd=folder, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    wait_for_a_line(running, folder)
    os.close(master)
    running.send_signal(signal.SIGTERM)  # SIGHUP would be ignored where the tests run under nohup
    return running.wait(timeout=120)


def stop(command, folder, *signals):
    """Send signals while the first shard trains."""
    running = start(command, folder)
    wait_for_a_line(running[0], folder)
    for number in signals:
        running[0].send_signal(number)
        time.sleep(0.15)
    return finish(*running)


def wait_for_a_line(running, folder):
    """Until the first shard adds one to its learning curve."""
    curve = folder / "out" / NAMES[1] / "metrics.jsonl"

    def changed():
        return curve.stat().st_mtime_ns if curve.exists() else 0

    before = changed()
    wait_until(lambda: running.poll() is not None or changed() > before)


def wait_until(done):
    deadline = time.monotonic() + 120
    while not done() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert done()


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


@pytest.mark.slow
def test_a_shard_that_fails_is_reported_and_retried_and_the_others_are_done(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folders, "_SECONDS_TO_SAVE", 0.0)  # the other process will not stop
    fields = ["models=random", "sizes=2,4", "--scale", "cpu"]  # there is nothing to train
    command = ["reproduce", "fspool/polygons-chamfer", *fields, "--out", "out"]
    (tmp_path / "out" / "n=2,seed=0").mkdir(parents=True)
    lock = FolderLock(tmp_path / "out" / "n=2,seed=0")
    with pytest.raises(SystemExit, match="1"):
        main(command)
    shown = capsys.readouterr()
    assert "waiting for n=2,seed=0: still being written" in shown.err
    assert "done    n=4,seed=0" in shown.err
    assert "failed: n=2,seed=0; the end of out/logs/n=2,seed=0.txt:" in shown.err
    assert f"error: out/n=2,seed=0 is being written by process {os.getpid()} on" in shown.err
    assert "run the same command to retry" in shown.err
    assert "NOT COMPLETE: 1 of 2 shards are done" in shown.out
    lock.release()
    main(command)
    shown = capsys.readouterr()
    assert "1 recorded already" in shown.err
    assert re.search(r"\n  Random +ours( +\d+\.\d+){2}\n +thesis( +\d+\.\d+){2}\n", shown.out)
    assert re.search(r"\n  MLP \+ Chamfer +thesis +1.189 +1.771\n", shown.out)


def test_the_plan_is_printed_as_json_and_nothing_is_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main([*TABLE, "--plan", "--seeds", "1", "2"])
    shards = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [shard["name"] for shard in shards] == [
        f"n={size},seed={seed}" for size in (4, 2) for seed in (1, 2)
    ]
    assert shards[0]["out"] == "runs/reproduce/polygons-smoke/n=4,seed=1"
    config = find_experiment("polygons").config_at("smoke")
    assert set(shards[0]["config"]) == set(vars(config))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fspool/polygon-chamfer"], "did you mean 'fspool/polygons-chamfer'?"),
        (
            ["count/vqa-2018-winner-text"],
            "count/vqa-2018-winner-text is a table of the thesis that is not implemented yet",
        ),
        (["dspn-polygons", "stepz=3"], "no field 'stepz'; did you mean 'steps'?"),
        (["dspn-polygons", "--seeds", "one"], "seeds must be whole numbers, got 'one'"),
        (
            ["dspn-polygons", "--out", "/dev/null/out"],
            "cannot write /dev/null/out: Not a directory",
        ),
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
        main(["reproduce", "dspn-polygons", "--jobs", "0"])
    assert "must be a whole number of at least 1, got '0'" in capsys.readouterr().err


def test_help_says_what_can_be_chosen(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["reproduce", "--help"])
    shown = capsys.readouterr().out
    for word in ("TABLE", "--list", "--scale", "--seeds", "--jobs", "--out", "--plan"):
        assert word in shown
