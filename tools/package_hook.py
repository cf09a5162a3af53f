"""What hatchling calls when it builds the package: a README whose links work outside of the tree.

``[tool.torchsets] address`` in pyproject.toml is the one place that says where the project is
published. While it is empty no address is invented: links become their words, pictures go.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ModuleNotFoundError:  # the tests read `readme_for` without hatchling
    MetadataHookInterface = object  # type: ignore[assignment,misc]

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]*)\)")


def readme_for(text: str, address: str) -> str:
    """Return the README with links that start at the address, or without links into the tree.

    Example:
        >>> readme_for("See [results](results/README.md).", "https://host/o/torchsets")
        'See [results](https://host/o/torchsets/blob/main/results/README.md).'
        >>> readme_for("See [results](results/README.md). ![A picture](a.svg)", "")
        'See results. '
    """

    def outside(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if not address:
            return "" if picture else words
        kind = "raw" if picture else "blob"
        return f"{picture}[{words}]({address.rstrip('/')}/{kind}/main/{target})"

    return _LINK.sub(outside, text)


def addresses_of(address: str) -> dict[str, str]:
    """Return the project's addresses for the package index; none while there is no address."""
    if not address:
        return {}
    base = address.rstrip("/")
    return {
        "Source": base,
        "Issues": f"{base}/issues",
        "Changelog": f"{base}/blob/main/CHANGELOG.md",
    }


class PackageHook(MetadataHookInterface):
    """Fills in the two dynamic fields of ``[project]``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the README and the addresses."""
        root = Path(self.root)
        settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        address = settings["tool"]["torchsets"]["address"]
        text = (root / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": readme_for(text, address),
        }
        metadata["urls"] = addresses_of(address)
