"""Which code a run was made with: a digest of the experiment and of all that it imports."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_LIST = Path(__file__).with_name("__init__.py")  # names the experiments, computes nothing


def code_digest(name: str) -> str:
    """Digest the source of an experiment and of every file of torchsets that it imports.

    A change in another experiment, in a report or in a benchmark leaves it as it is.

    Example:
        >>> len(code_digest("polygons"))
        16
    """
    digest = hashlib.sha256()
    for path in source_files(name):
        digest.update(f"{path.relative_to(_ROOT).as_posix()}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def source_files(name: str) -> list[Path]:
    """List the files of torchsets that an experiment is made of, sorted."""
    waiting = [Path(__file__).with_name(f"{name.replace('-', '_')}.py")]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found and path != _LIST:
            found.add(path)
            waiting.extend(_imported_files(path))
    return sorted(found)


def _imported_files(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            # A name may be a module itself: from torchsets.losses import chamfer.
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for module in modules:
            parts = module.split(".")
            if parts[0] == "torchsets":
                for count in range(1, len(parts) + 1):  # a package runs before what is in it
                    place = _ROOT.joinpath(*parts[1:count])
                    candidates = (place / "__init__.py", place.with_suffix(".py"))
                    yield from (file for file in candidates if file.is_file())
