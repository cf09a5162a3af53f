"""Arrows point one way: each area imports only from the lines above its own."""

import ast
from pathlib import Path

import pytest

import torchsets

ROOT = Path(torchsets.__file__).parent
LINES = [
    ["_autograd", "_checks", "_environment", "_extras", "_files", "_folders", "_locks"],
    ["padded", "piecewise", "sorting", "matching", "boxes", "mlp", "attention"],
    ["pooling", "permutations", "losses", "counting"],
    ["encoders", "decoders", "metrics"],
    ["testing", "data", "records"],
    ["training"],
    ["experiments", "benchmarks", "reports"],
    ["reproduction"],
    ["cli"],
    ["__main__"],
]
RANK = {area: rank for rank, line in enumerate(LINES) for area in line}
FILES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def area_of(path):
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported_areas(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            if node.module == "torchsets":
                yield from (alias.name for alias in node.names)
            elif (node.module or "").startswith("torchsets."):
                yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("torchsets."):
                    yield alias.name.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_up(path):
    own = area_of(path)
    assert own in RANK, f"{own} is not in the layout"
    for area in imported_areas(path):
        if area in ("__version__", own):
            continue
        assert RANK[area] < RANK[own], f"{path.relative_to(ROOT)} imports {area}"


def test_a_wrong_import_is_seen(tmp_path):
    culprit = tmp_path / "culprit.py"
    culprit.write_text("import torchsets.cli\nfrom torchsets.pooling.fspool import FSPool\n")
    assert list(imported_areas(culprit)) == ["cli", "pooling"]
