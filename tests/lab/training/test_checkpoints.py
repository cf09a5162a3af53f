import errno
import hashlib
import io
import json
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from torchsets.lab.training import load_checkpoint, save_checkpoint
from torchsets.lab.training.checkpoints import capture, check_config, restore

KILL_AT_EVERY_MOMENT = """
import os, pathlib, signal, sys
import torch
from torchsets.lab.training import load_checkpoint, save_checkpoint

folder = pathlib.Path(sys.argv[1])
save_checkpoint(folder, 1, {"w": torch.full((1000,), 1.0)}, {"step": 1})

def killed_at(moment):
    calls = 0
    def counted(function):
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)
        return call
    for name in ("mkdir", "open", "fsync", "replace", "rmdir", "unlink"):
        setattr(os, name, counted(getattr(os, name)))
    save_checkpoint(folder, 2, {"w": torch.full((1000,), 2.0)}, {"step": 2})
    os._exit(0)

for moment in range(1, 1000):
    child = os.fork()
    if child == 0:
        killed_at(moment)
    status = os.waitpid(child, 0)[1]
    found = load_checkpoint(folder)
    step = found.state["step"]
    assert torch.equal(found.tensors["w"], torch.full((1000,), float(step)))
    print(moment, step)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0 and step == 2
        break
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoint"


def save(folder, step, value):
    save_checkpoint(folder, step, {"w": torch.tensor([value])}, {"step": step})


def test_tensors_and_state_come_back_exactly(folder, generator):
    weight = torch.randn(3, 4, generator=generator)
    tensors = {
        "strided": weight.t(),
        "tied": weight,
        "again": weight,
        "double": torch.tensor(1 / 3, dtype=torch.float64),
        "half": torch.tensor([1.5], dtype=torch.bfloat16),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "parameter": nn.Parameter(torch.ones(2)),
    }
    save_checkpoint(folder, 1, tensors, {"rate": 0.1, "none": None})
    found = load_checkpoint(folder)
    assert found.state == {"rate": 0.1, "none": None}
    assert found.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(found.tensors[name], tensor.detach(), rtol=0, atol=0)


def test_only_json_and_safetensors_are_written(folder):
    save(folder, 1, 1.0)
    assert {path.suffix for path in folder.rglob("*.*")} == {".json", ".safetensors"}


def test_the_last_two_are_kept(folder):
    for step in (1, 2, 10):
        save(folder, step, float(step))
    assert sorted(path.name for path in folder.iterdir()) == ["000000002", "000000010"]
    assert load_checkpoint(folder).state["step"] == 10


def test_without_any_there_is_none(folder):
    assert load_checkpoint(folder) is None


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["changed", "cut", "gone", "zeros"])
def test_a_broken_one_is_passed_over_with_a_warning(folder, name, damage):
    save(folder, 1, 1.0)
    save(folder, 2, 2.0)
    path = folder / "000000002" / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "zeros":  # what some file systems leave when the power goes
        path.write_bytes(b"\xff\0\0\0")
    else:
        path.write_bytes(content[:-9] if damage == "cut" else content[:-9] + b"~" + content[-8:])
    with pytest.warns(UserWarning, match=r"000000002 is broken .*, trying an earlier"):
        found = load_checkpoint(folder)
    assert found.state["step"] == 1
    save(folder, 2, 3.0)  # the run goes on and comes to that step again
    assert load_checkpoint(folder).tensors["w"].item() == 3.0


def test_when_all_are_broken_nothing_is_removed(folder):
    save(folder, 1, 1.0)
    (folder / "000000001" / "state.json").write_text("{}")
    with (
        pytest.warns(UserWarning, match="state.json does not match its checksum"),
        pytest.raises(ValueError, match=r"the checkpoint in .* is corrupt; remove that folder"),
    ):
        load_checkpoint(folder)
    assert (folder / "000000001" / "tensors.safetensors").exists()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE])
def test_one_that_may_not_be_read_is_an_error_and_not_passed_over(folder, number, monkeypatch):
    save(folder, 1, 1.0)
    save(folder, 2, 2.0)
    opened = io.open

    def refuse(path, *rest, **options):  # root may read anything
        if "000000002" in str(path):
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, *rest, **options)

    with monkeypatch.context() as refusing:
        refusing.setattr(io, "open", refuse)
        with pytest.raises(
            OSError, match=r"cannot read checkpoint .*000000002: .*; nothing is lost"
        ):
            load_checkpoint(folder)
    assert load_checkpoint(folder).state["step"] == 2


@pytest.mark.parametrize(
    ("model", "optimiser", "reason"),
    [
        (nn.Linear(2, 3), torch.optim.Adam, "size mismatch for weight"),
        (nn.Linear(2, 2, bias=False), torch.optim.Adam, "Unexpected key"),
        (nn.Sequential(nn.Linear(2, 2)), torch.optim.Adam, "Missing key"),
        (
            nn.Linear(2, 2),
            lambda parameters: torch.optim.Adam([{"params": [one]} for one in parameters]),
            "zip",
        ),
    ],
)
def test_one_that_does_not_fit_is_an_error_of_one_line(model, optimiser, reason, generator):
    made = nn.Linear(2, 2)
    captured = capture(made, torch.optim.Adam(made.parameters()), generator)
    with pytest.raises(
        ValueError, match=f"the checkpoint does not fit .*{reason}.*made by other"
    ) as error:
        restore(captured, model, optimiser(model.parameters()), generator)
    assert "\n" not in str(error.value)


def test_a_changed_configuration_is_named_field_by_field(folder):
    made_with = {"seed": 0, "sizes": [2, 4], "old": None, "device": "cuda"}
    check_config(made_with, {**made_with, "device": "cpu"}, folder)  # may go on elsewhere
    with pytest.raises(ValueError, match=r"got new=1 instead of nothing, old=nothing .* null, siz"):
        check_config(made_with, {"seed": 0, "sizes": [2], "new": 1, "device": "cuda"}, folder)


def test_a_newer_schema_is_an_error_and_not_passed_over(folder):
    save(folder, 1, 1.0)
    save(folder, 2, 2.0)
    manifest = folder / "000000002" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema_version": 2}))
    with pytest.raises(ValueError, match="schema version 1 or less, got 2"):
        load_checkpoint(folder)


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(folder):
    command = [sys.executable, "-c", KILL_AT_EVERY_MOMENT, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps = [int(line.split()[1]) for line in done.stdout.splitlines()]
    assert steps[0] == 1  # killed at the first moment: the old one
    assert steps[-1] == 2  # not killed: the new one
    assert len(steps) > 8  # fsync of three files and two folders, renaming, removing


ODD = {
    "no manifest": ("manifest.json", None),
    "manifest is a list": ("manifest.json", b"[]"),
    "manifest is empty": ("manifest.json", b"{}"),
    "version is a text": ("manifest.json", b'{"schema_version": "one", "sha256": {}}'),
    "version is null": ("manifest.json", b'{"schema_version": null, "sha256": {}}'),
    "no checksums": ("manifest.json", b'{"schema_version": 1, "sha256": {}}'),
    "checksums are a list": ("manifest.json", b'{"schema_version": 1, "sha256": []}'),
    "deep": ("manifest.json", b"[" * 100_000),
    "state is a list": ("state.json", b"[1]"),
    "state lacks an entry": ("state.json", b"{}"),
    "an entry has another type": ("state.json", b'{"step": "two"}'),
    "state is no text": ("state.json", b"\xff\xfe"),
    "tensors are garbage": ("tensors.safetensors", b"garbage!" * 12),
    "tensors are empty": ("tensors.safetensors", b""),
}


@pytest.mark.parametrize("attack", ODD)
def test_odd_content_is_passed_over_for_the_earlier_checkpoint(attack, folder):
    save(folder, 1, 1.0)
    save(folder, 2, 2.0)
    newest = folder / "000000002"
    name, content = ODD[attack]
    if content is None:
        (newest / name).unlink()
    else:
        (newest / name).write_bytes(content)
    if name != "manifest.json":  # whole checksums: only the content is odd
        sums = {
            one: hashlib.sha256((newest / one).read_bytes()).hexdigest()
            for one in ("tensors.safetensors", "state.json")
        }
        manifest = {"schema_version": 1, "sha256": sums}
        (newest / "manifest.json").write_text(json.dumps(manifest))
    with pytest.warns(UserWarning, match=r"000000002 is broken .*, trying an earlier"):
        found = load_checkpoint(folder, {"step": int})
    assert found.state["step"] == 1
