"""What a run or a benchmark was made with: commit, versions, machine, command."""

import os
import platform
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from torchsets.lab.typed import Json

_PACKAGES = ("torchsets", "torch", "numpy", "scipy", "safetensors", "lapx", "scikit-learn")


def describe_environment(device: str, code: str | None = None) -> dict[str, Json]:
    """Say with what, on what and how a run was started."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["torchsets", *sys.argv[1:]]),
        **_git_state(),
        "code": code,
        "versions": {"python": platform.python_version(), **_package_versions()},
        "hardware": {
            "device": device,
            "machine": platform.machine(),
            "system": platform.system(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "threads": os.environ.get("OMP_NUM_THREADS"),
            "processes": int(os.environ.get("WORLD_SIZE", "1")),  # torchrun sets it
        },
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _package_versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def _git_state() -> dict[str, Json]:
    """The commit of the checkout that the package is imported from, if it is from one."""
    source = Path(__file__).resolve().parents[2]
    try:
        root = _git(source, "rev-parse", "--show-toplevel")
        if Path(root) / "src" / "torchsets" != source:
            return {"commit": None, "uncommitted_changes": None}
        changes = _git(source, "status", "--porcelain", "--", str(source))
        return {"commit": _git(source, "rev-parse", "HEAD"), "uncommitted_changes": bool(changes)}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "uncommitted_changes": None}


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str | None:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or None
    match = re.search(r"model name\s*:\s*(.+)", text)
    return match.group(1) if match else platform.processor() or None
