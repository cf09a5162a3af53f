"""Find a data file, or download it once, checked. Needs no torch."""

import hashlib
import os
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path

_SECONDS = 60
_CHUNK = 1 << 20


def find_file(path: Path, *, md5: str, mirrors: Sequence[str]) -> Path:
    """Return ``path`` once it holds the expected bytes, downloading it if it is missing.

    Args:
        path: Where the file is, or should be.
        md5: The checksum that it must have.
        mirrors: Addresses of folders that hold a file of that name, tried in turn.

    Raises:
        ValueError: If the file is there with another checksum. It is left as it is.
        OSError: If it is missing and no mirror has it; names the file and the addresses.
    """
    if path.exists():
        found = md5_of(path)
        if found != md5:
            raise ValueError(
                f"{path} must have the md5 {md5}, got {found}: it is damaged or another file; "
                "remove it to download it again"
            )
        return path
    chosen = os.environ.get("TORCHSETS_DATA")
    if chosen and not Path(chosen).is_dir():
        raise FileNotFoundError(
            f"TORCHSETS_DATA is {chosen}, which is no folder: correct it, or create the folder"
        )
    failures = []
    for mirror in mirrors:
        try:
            _download(f"{mirror.rstrip('/')}/{path.name}", path, md5)
            return path
        except (OSError, ValueError, HTTPException) as error:  # the last: no HTTP, or cut off
            failures.append(f"{mirror} ({error or type(error).__name__})")
    raise OSError(
        f"{path} is missing and could not be downloaded from {' or '.join(failures)}; put it "
        "there yourself, or set TORCHSETS_DATA to the folder that holds "
        f"{path.parent.name}/{path.name}"
    )


def md5_of(path: Path) -> str:
    """The md5 of a file, as the public checksums of datasets are given."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _download(address: str, path: Path, md5: str) -> None:
    """Download beside ``path`` and put it there only if it is right."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with (
            urllib.request.urlopen(address, timeout=_SECONDS) as answer,
            temporary.open("wb") as file,
        ):
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
        found = md5_of(temporary)
        if found != md5:
            raise ValueError(f"the downloaded file has md5 {found} instead of {md5}")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
