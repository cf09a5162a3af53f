"""The command line as a user calls it: in processes of their own."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from torchsets.lab.cli import main
from torchsets.lab.commands import _announced

RUN = ["run", "polygons", "--scale", "smoke", "models=mlp-chamfer", "zeroed_sizes=", "steps=30"]
KILLED = """
import os, signal, sys
from torchsets.lab.training import loop
import torchsets.lab.cli

loop._SECONDS_BETWEEN_CHECKPOINTS = -1  # save after every step
calls, moment = 0, int(sys.argv[1])

def counted(function):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call

os.fsync, os.replace = counted(os.fsync), counted(os.replace)
torchsets.lab.cli.main(sys.argv[2:])
"""


def call(*arguments, cwd, code=None):
    program = ["-m", "torchsets"] if code is None else ["-c", code]
    return subprocess.run(
        [sys.executable, *program, *arguments], capture_output=True, text=True, cwd=cwd, check=False
    )


def numbers(folder):
    result = json.loads((folder / "result.json").read_text())
    return result["complete"], result["results"], (folder / "metrics.jsonl").read_text()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with one finished run in it."""
    folder = tmp_path_factory.mktemp("cli")
    done = call(*RUN, "--out", "whole", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Chamfer loss by set size; with other settings than the thesis'" in done.stdout
    assert "MLP + Chamfer, steps=30  ours" in done.stdout
    assert "torchsets report whole -o report.html" in done.stdout
    return folder


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["run", "--help"], ["list"], ["--version"], ["reproduce", "--list"]],
)
def test_help_and_list_import_neither_torch_nor_matplotlib(arguments, tmp_path):
    code = (
        "import sys, torchsets.lab.cli, contextlib\n"
        f"with contextlib.suppress(SystemExit): torchsets.lab.cli.main({arguments!r})\n"
        "sys.exit(bool({'torch', 'matplotlib', 'jinja2'} & set(sys.modules)))"
    )
    done = call(cwd=tmp_path, code=code)
    assert done.returncode == 0
    assert "torchsets" in done.stdout


def test_list_names_experiments_tables_and_times(tmp_path):
    shown = call("list", cwd=tmp_path).stdout
    assert "polygons" in shown
    assert "fspool/polygons-chamfer" in shown
    assert "smoke" in shown


def test_the_help_of_an_experiment_shows_its_fields(tmp_path):
    shown = call("run", "polygons", "--help", cwd=tmp_path).stdout
    assert "batch_size=16  (int)" in shown
    assert "Optimiser steps of each model." in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "polygonz"], "no experiment 'polygonz'; did you mean 'polygons'?"),
        (["run", "polygons", "stepz=3"], "polygons has no field 'stepz'; did you mean 'steps'?"),
        (["run", "polygons", "--steps=3"], "has no field '--steps'; did you mean 'steps'?"),
        (["run", "polygons", "steps"], "fields are written field=value, got 'steps' alone"),
        (["run", "polygons", "steps=-5"], "steps must be at least 1, got -5"),
        (["run", "polygons", "--config", "no.json"], "there is no file no.json"),
        (["run", "polygons", "steps=many"], "steps must be int, got 'many'"),
        (["run", "polygons", "--resume", "nowhere"], "must be a run folder with a config.json"),
        (
            ["run", "polygons", "--resume", ".", "steps=1", "--scale", "cpu"],
            "--resume takes no fields, --scale or --out (got steps=1, --scale cpu); drop --resume",
        ),
        (
            ["run", "--resume", ".", "steps=1"],
            "--resume takes no fields, --scale or --out (got steps=1); drop --resume",
        ),
        (["report", "nowhere"], "path must be a folder, got nowhere"),
        (["report", "."], "there is no run folder in ."),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, message, tmp_path):
    done = call(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("sizes=2,four", "sizes must be tuple[int, ...], got '2,four'"),
        ("learning_rate=", "learning_rate must be float, got ''"),
        ("models=lstm", "models must be among fspool, mlp-chamfer"),
        ("device=abacus", "device 'abacus' is not available"),
    ],
)
def test_a_wrong_value_is_named(word, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["run", "polygons", word])
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_unknown_options_are_an_error(tmp_path):
    assert call("list", "--fast", cwd=tmp_path).returncode == 2


def test_fields_may_stand_before_and_after_options(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["run", "polygons", "steps=2", "zeroed_sizes=", "--scale", "smoke", "models=random"]
    main([*words, "--out", "a b", "seed=4"])
    config = json.loads((tmp_path / "a b" / "config.json").read_text())["config"]
    assert (config["steps"], config["models"], config["seed"]) == (2, ["random"], 4)
    assert "torchsets report 'a b' -o report.html" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("out", "message"),
    [("whole", "is not empty; choose another folder"), ("whole/config.json", "cannot write")],
)
def test_a_used_folder_or_a_file_is_not_written_into(out, message, finished, monkeypatch, capsys):
    monkeypatch.chdir(finished)
    before = numbers(finished / "whole")
    with pytest.raises(SystemExit, match="2"):
        main([*RUN, "--out", out])
    assert message in capsys.readouterr().err
    assert numbers(finished / "whole") == before


def test_report_is_written_from_the_records_alone_and_always_the_same(finished, monkeypatch):
    monkeypatch.chdir(finished)
    main(["report", "whole", "-o", "one.html"])
    done = call("report", "whole", "-o", "two.html", cwd=finished)
    assert done.returncode == 0, done.stderr
    pages = [(finished / name).read_text() for name in ("one.html", "two.html")]
    assert pages[0] == pages[1]
    assert "Chamfer loss by set size" in pages[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "whole", "-o", "."], "error: . is a folder: name a file in it, such as repo"),
        (["report", "whole", "-o", "file/one.html"], "error: cannot write file/one.html: "),
        (["scenes", "-o", "scenes.svg"], "error: output must be a PNG file, such as scenes.png"),
    ],
)
def test_places_that_cannot_be_written_are_told_before_drawing(
    words, message, finished, monkeypatch, capsys
):
    monkeypatch.chdir(finished)
    (finished / "file").touch()
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert message in (shown := capsys.readouterr().err)
    assert "drawing" not in shown


@pytest.mark.parametrize("moment", [pytest.param(45, marks=pytest.mark.slow), 130])
def test_a_killed_run_resumes_and_ends_with_the_same_numbers(moment, finished, tmp_path):
    killed = call(str(moment), *RUN, "--out", "cut", cwd=tmp_path, code=KILLED)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = call("run", "polygons", "--resume", "cut", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert numbers(tmp_path / "cut") == numbers(finished / "whole")


def test_ctrl_c_saves_and_says_how_to_resume(tmp_path):
    code, message, lines = stop_while_training([*RUN, "steps=100000", "--out", "my run"], tmp_path)
    assert code == 130
    advice = message.splitlines()[0].removeprefix("saved; resume with: ")
    assert advice == "torchsets run --resume 'my run'"
    code, _, more_lines = stop_while_training(shlex.split(advice)[1:], tmp_path)
    assert code == 130
    assert more_lines[: len(lines)] == lines
    steps = [json.loads(line)["step"] for line in more_lines]
    assert steps == sorted(set(steps))  # it continued where it was


def stop_while_training(arguments, folder):
    """Press Ctrl-C once the learning curve grows; return exit code, message and curve."""
    curve = folder / "my run" / "metrics.jsonl"
    before = curve.read_text() if curve.exists() else ""
    command = [sys.executable, "-m", "torchsets", *arguments]
    running = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and (not curve.exists() or len(curve.read_text()) <= len(before)):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    message = running.communicate()[1]
    return running.returncode, message, curve.read_text().splitlines()


@pytest.mark.slow
def test_a_broken_checkpoint_is_passed_over_with_a_warning_line(finished, tmp_path):
    call("60", *RUN, "--out", "cut", cwd=tmp_path, code=KILLED)
    newest = max((tmp_path / "cut" / "checkpoint" / "n=4" / "mlp-chamfer").glob("0*"))
    with (newest / "tensors.safetensors").open("r+b") as file:
        file.seek(-20, os.SEEK_END)
        file.write(b"garbage")
    done = call("run", "polygons", "--resume", "cut", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("warning: checkpoint ")
    assert numbers(tmp_path / "cut") == numbers(finished / "whole")


@pytest.mark.filterwarnings("default")
def test_a_run_folder_of_a_newer_schema_is_refused(finished, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished / "whole", tmp_path / "new")
    path = tmp_path / "new" / "config.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    for arguments in (["run", "--resume", "new"], ["report", "new"]):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert "it was written by a newer torchsets" in capsys.readouterr().err


def test_an_unknown_benchmark_is_an_error(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "nothing"])
    assert "benchmark must be all or one of" in capsys.readouterr().err


@pytest.mark.slow
def test_the_demo_ends_with_a_short_table_and_a_report_and_can_be_called_again(tmp_path):
    for count in (1, 2):
        done = call("demo", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "FSPool" in done.stdout
        assert "Test accuracy of the classifiers" in done.stdout
        assert len(list(tmp_path.glob("runs/demo-*/report.html"))) == count


def test_a_missing_extra_names_the_command_that_installs_it(finished):
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "import torchsets.lab.cli; torchsets.lab.cli.main(['report', 'whole', '-o', 'none.html'])"
    )
    done = call(cwd=finished, code=code)
    assert done.returncode == 2
    assert "pip install 'torchsets[app]'" in done.stderr


def test_a_configuration_may_come_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {"models": ["random"], "zeroed_sizes": [], "test_sets": 8}
    (tmp_path / "my config.json").write_text(json.dumps(config))
    options = ["--config", "my config.json", "--scale", "smoke", "--out", "run"]
    main(["run", "polygons", *options])
    recorded = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (recorded["test_sets"], recorded["steps"]) == (8, 50)  # 50 is that of the scale


def test_a_reader_that_has_enough_is_no_error(tmp_path):
    command = f"{shlex.quote(sys.executable)} -m torchsets reproduce --list | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("option", ["--jobs", "--repeats"])
def test_a_count_must_be_a_whole_number(option, capsys):
    command = ["reproduce", "x"] if option == "--jobs" else ["bench", "x"]
    for value in ("abc", "0"):
        with pytest.raises(SystemExit, match="2"):
            main([*command, option, value])
        assert f"must be a whole number of at least 1, got '{value}'" in capsys.readouterr().err


def test_warnings_of_other_code_are_left_alone(tmp_path):
    import warnings

    before = warnings.showwarning
    main(["list"])
    assert warnings.showwarning is before


def test_a_benchmark_says_before_measuring_that_it_cannot_write(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "fspool", "--out", "/dev/null/numbers.json"])
    shown = capsys.readouterr().err
    assert shown == "error: cannot write /dev/null/numbers.json: Not a directory\n"


def test_a_process_that_died_beside_this_one_is_told_with_how_to_resume(tmp_path, monkeypatch):
    def lose_a_neighbour():
        raise RuntimeError("Connection closed by peer\nand many more lines")

    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "config.json").touch()
    told = r"died \(Connection closed by peer\); resume with: torchsets run --resume "
    with pytest.raises(OSError, match=told):
        _announced("title", tmp_path, lose_a_neighbour)
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(RuntimeError):  # a mistake in the code keeps its traceback
        _announced("title", tmp_path, lose_a_neighbour)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "polygons", "seed=-1"], "seed must be from 0 to 4294967295, got -1"),
        (["run", "polygons", "learning_rate=inf"], "learning_rate must be float, got 'inf'"),
        (["run", "polygons", "enlarged_hidden=0"], "enlarged_hidden must be at least 1, got 0"),
        (["run", "dspn-polygons", "hidden=-1"], "hidden must be at least 1, got -1"),
        (["run", "polygons", "--config", "list.json"], "list.json must be"),
        (["run", "polygons", "--config", "deep.json"], "deep.json must be a JSON file, got"),
        (["reproduce", "dspn-polygons", "--seeds", "-1"], "seed must be from 0 to 4294967295"),
        (
            ["reproduce", "dspn-polygons", "seed=3", "--seeds", "0"],
            "seeds are given by --seeds or by seed=, got both",
        ),
        (["reproduce", "--seeds", "0"], "reproduce needs the name of a table; see"),
        (["reproduce", "--seeds", "0", "1", "polygon"], "no table 'polygon'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_written(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert message in shown
    assert len(shown.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"list.json", "deep.json"}


def test_a_table_may_follow_the_seeds(capsys):
    main(["reproduce", "--plan", "--scale", "smoke", "--seeds", "3", "dspn-polygons", "sizes=4"])
    names = [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()]
    assert names
    assert all(name.endswith("seed=3") for name in names)


def test_the_help_of_resume_is_that_of_run(capsys):
    main(["run", "--resume", "anything", "--help"])
    assert "torchsets run --resume DIR" in capsys.readouterr().out
