"""The digest of the code of a run covers what the experiment imports, and nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import torchsets
from torchsets.lab.experiments import sources
from torchsets.lab.experiments.digest import code_digest, source_files

ROOT = Path(torchsets.__file__).parent


def test_the_files_are_those_that_python_loads():
    code = (
        "import sys, torchsets.lab.experiments.polygons.auto_encode\n"
        "for name, module in sys.modules.items():\n"
        "    if name.split('.')[0] == 'torchsets': print(module.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {Path(line) for line in done.stdout.splitlines()}
    loaded -= {ROOT / "experiments" / "__init__.py"}  # only lists the experiments
    assert loaded <= set(source_files("polygons"))


def test_other_experiments_and_reports_are_not_among_them():
    names = {path.relative_to(ROOT).as_posix() for path in source_files("polygons")}
    assert {"experiments/polygons.py", "losses/chamfer.py", "training/loop.py"} <= names
    for name in names:
        assert not name.startswith(("reports", "benchmarks", "cli", "reproduction"))
    assert "experiments/count_toy.py" not in names


def test_a_change_in_an_imported_file_changes_it_and_one_elsewhere_does_not(tmp_path, monkeypatch):
    copy = tmp_path / "torchsets"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "_ROOT", copy)
    monkeypatch.setattr(sources, "__file__", str(copy / "experiments" / "sources.py"))
    monkeypatch.setattr(sources, "_LIST", copy / "experiments" / "__init__.py")
    before = code_digest("polygons")
    for name in ("reports/page.py", "experiments/digits.py", "experiments/__init__.py"):
        (copy / name).write_text((copy / name).read_text() + "\n# changed\n")
    assert code_digest("polygons") == before
    (copy / "mlp.py").write_text((copy / "mlp.py").read_text() + "\n# changed\n")
    assert code_digest("polygons") != before
