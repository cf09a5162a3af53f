"""Optional dependencies: import one, or say which command installs it."""

from importlib import import_module
from typing import Any


def import_extra(module: str, extra: str) -> Any:
    """Import an optional module, or raise an ``ImportError`` with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        raise ImportError(
            f"{module} is needed here and not installed: pip install 'torchsets[{extra}]'"
        ) from error
