"""What is shipped: one version, a README that works elsewhere, a wheel that stands alone."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import package_hook
import torchsets

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text()
RELATIVE = re.compile(r"\]\((?!https?:|#)[^)]*\)")
EXTRAS = ["rich", "matplotlib", "sklearn", "lap", "torch_geometric", "PIL", "onnx", "pandas"]
USE = """
import sys
for name in {extras}:
    sys.modules[name] = None  # as if it were not installed
import torch
import torchsets
from torchsets.lab.cli import main
for area in torchsets._AREAS:
    try:
        getattr(torchsets, area)
    except ImportError as error:
        assert "pip install 'torchsets[" in str(error), error
assert {place!r} in torchsets.__file__, torchsets.__file__
batch = torchsets.SetBatch.from_list([torch.rand(3, 2), torch.rand(0, 2)])
model = torchsets.encoders.DeepSets(
    torchsets.mlp.MLP(2, 8, 8), torchsets.pooling.FSPool(8), torchsets.mlp.MLP(8, 8, 4)
)
assert model(*batch).shape == (2, 4)
assert main(["list"]) in (0, None)
"""


def test_the_version_is_one():
    assert SETTINGS["project"]["version"] == torchsets.__version__
    assert f"\nversion: {torchsets.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_without_an_address_none_is_invented():
    text = package_hook.readme_for(README, "")
    assert RELATIVE.search(README)
    assert not RELATIVE.search(text)
    assert text.count("](") == len(re.findall(r"\]\(https?:", README))
    assert package_hook.addresses_of("") == {}


def test_with_an_address_every_link_starts_there():
    text = package_hook.readme_for(README, "https://host/owner/torchsets/")
    assert not RELATIVE.search(text)
    assert "(https://host/owner/torchsets/blob/main/results/README.md)" in text
    assert "](https://host/owner/torchsets/raw/main/docs/pictures/" in text
    assert package_hook.addresses_of("https://host/o/t")["Issues"] == "https://host/o/t/issues"


def test_the_changelog_keeps_its_form():
    text = (ROOT / "CHANGELOG.md").read_text()
    sections = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert set(sections) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert re.findall(r"^## (\S+)", text, re.MULTILINE)[0] in ("Unreleased", torchsets.__version__)


@pytest.mark.slow
def test_a_built_wheel_works_elsewhere_with_the_core_alone(tmp_path):
    dist, home = tmp_path / "dist", tmp_path / "home"
    home.mkdir()
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(dist)], cwd=ROOT)
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert "torchsets/lab/reports/parts.html" in names
    assert "torchsets/py.typed" in names
    assert not any(name.startswith(("results", "tests", "tools")) for name in names)
    with tarfile.open(sdist) as archive:
        packed = [name.split("/", 1)[-1] for name in archive.getnames()]
    assert "src/torchsets/padded.py" in packed
    assert "tools/package_hook.py" in packed
    assert not any(name.startswith("results/") for name in packed)

    place = tmp_path / "venv"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    (own,) = (place / "lib").glob("python*/site-packages")
    # The dependencies of this environment; our wheel stands before an editable install.
    dependencies = Path(torchsets_dependency()).parent.parent
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-index"]
    _run([*pip, "--target", str(own), str(wheel)], cwd=home)
    (own / "dependencies.pth").write_text(f"{dependencies}\n")
    script = USE.format(extras=EXTRAS, place=str(place))
    _run([str(python), "-c", script], cwd=home)
    (home / "own.py").write_text("from torchsets.pooling import SumPool as make\n")
    said = _run([str(python), "-m", "pytest", "-q", "--set-laws", "own:make"], cwd=home)
    assert "7 passed" in said


def torchsets_dependency():
    import torch

    return torch.__file__


def _run(command, *, cwd):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
