"""Arrows point one way: each area imports only from the lines above its own."""

import ast
from pathlib import Path

import pytest

import torchsets
from torchsets.lab.experiments import SUBJECTS

ROOT = Path(torchsets.__file__).parent
SUBJECT_AREAS = [f"lab.experiments.{subject}" for subject in SUBJECTS]
LINES = [
    ["_checks", "_autograd", "_downloads", "_extras", "_inputs"],
    ["_catalogue", "_progress", "_ragged", "_relaxed_order", "_tables"],
    ["padded", "piecewise", "sorting", "matching", "boxes", "giou", "mlp", "resnet"],
    ["attention"],
    ["transformer"],
    ["sets", "collating", "flat", "graphs", "text"],
    ["pooling", "permutations", "losses", "counting"],
    ["encoders", "decoders", "metrics"],
    ["testing", "data"],
    ["fitting"],
    ["estimators", "interop", "pytest_plugin"],
    ["lab.typed", "lab.signals"],
    ["lab.figures"],
    ["lab.records"],
    ["lab.training"],
    ["lab.experiments.experiment"],
    [
        "lab.experiments.values",
        "lab.experiments.poolings",
        "lab.experiments.objects",
        "lab.experiments.picture_networks",
        "lab.experiments.outcomes",
        "lab.reports",
    ],
    SUBJECT_AREAS,  # never another subject
    ["lab.experiments.digest"],
    ["lab.experiments"],
    ["lab.experiments.launch"],
    ["lab.reproduction", "lab.benchmarks", "lab.scenes"],
    ["lab.commands"],
    ["lab.cli"],
    ["__main__"],
]
RANK = {area: rank for rank, line in enumerate(LINES) for area in line}
FILES = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path not in (ROOT / "__init__.py", ROOT / "lab" / "__init__.py")
]


def area_of(module):
    """The longest area that a dotted name below torchsets belongs to."""
    parts = module.split(".")
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((name for name in names if name in RANK), module)


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_areas(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            if node.module == "torchsets" or (node.module or "").startswith("torchsets."):
                inside = node.module.removeprefix("torchsets").removeprefix(".")
                for alias in node.names:  # a name may be a module itself
                    yield area_of(f"{inside}.{alias.name}".removeprefix("."))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("torchsets."):
                    yield area_of(alias.name.removeprefix("torchsets."))


def wrong_imports(path, own):
    return [
        area
        for area in imported_areas(path)
        if area not in ("__version__", own) and (area not in RANK or RANK[area] >= RANK[own])
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_up(path):
    own = area_of(module_of(path))
    assert own in RANK, f"{own} is not in the layout"
    assert wrong_imports(path, own) == []


@pytest.mark.parametrize("area", list(RANK))
def test_every_area_of_the_layout_exists(area):
    place = ROOT.joinpath(*area.split("."))
    assert place.is_dir() or place.with_suffix(".py").is_file()


@pytest.mark.parametrize(
    ("own", "code", "culprit"),
    [
        ("pooling", "import torchsets.lab.cli", "lab.cli"),
        ("data", "from torchsets.lab.records import Recorder", "lab.records"),
        ("pooling", "from torchsets.losses.chamfer import chamfer_loss", "losses"),
        ("pooling", "from torchsets import lab", "lab"),
        (
            SUBJECT_AREAS[0],
            f"from torchsets.{SUBJECT_AREAS[-1]}.models import anything",
            SUBJECT_AREAS[-1],
        ),
        ("lab.reports", "from torchsets.lab.experiments import experiments", "lab.experiments"),
    ],
)
def test_a_wrong_import_is_seen(own, code, culprit, tmp_path):
    path = tmp_path / "culprit.py"
    path.write_text(f"{code}\nfrom torchsets._checks import check_mask\n")
    assert wrong_imports(path, own) == [culprit]


@pytest.mark.parametrize("path", [ROOT / "lab" / "experiments" / s for s in SUBJECTS], ids=SUBJECTS)
def test_a_subject_has_a_closed_list_of_files(path):
    """Declare, load data, one article for each experiment, models, choose afterwards, figures."""
    from torchsets.lab.experiments import experiments

    articles = {one.run.split(":")[0].split(".")[-1] for one in experiments().values()}
    files = {file.stem for file in path.glob("*.py")}
    assert files <= {"__init__", "configs", "data", "models", "selection", "figures"} | articles
