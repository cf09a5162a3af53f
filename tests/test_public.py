"""What users can import: every public name exists and is documented, and nothing loads early."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import torchsets

ROOT = Path(torchsets.__file__).parent
AREAS = sorted(
    ".".join(path.relative_to(ROOT.parent).parent.parts)
    for path in ROOT.glob("*/__init__.py")
    if "__all__" in path.read_text()
)


@pytest.mark.parametrize("area", ["torchsets", *AREAS])
def test_every_public_name_is_documented(area):
    module = import_module(area)
    assert module.__doc__
    for name in module.__all__:
        value = getattr(module, name)
        assert value.__doc__, f"{area}.{name} has no docstring"


def test_importing_torchsets_imports_no_torch():
    code = (
        "import sys, torchsets; loaded = 'torch' in sys.modules; "
        "pool = torchsets.pooling.FSPool; batch = torchsets.SetBatch; "
        "sys.exit(loaded or 'torch' not in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'pooled'"):
        torchsets.pooled  # noqa: B018
    assert "pooling" in dir(torchsets)
