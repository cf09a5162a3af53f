"""Graph classification datasets: the raw files of TUDataset, and the text format of GIN."""

import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchsets._catalogue import data_folder
from torchsets.graphs import Graphs

_LARGEST = 1 << 29  # bytes of a file; the published ones are below a fifth of it
_PARTS = ("A", "graph_indicator", "graph_labels", "node_labels", "node_attributes")
_NEEDED = _PARTS[:3]
_SOURCES = (
    "https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip (TUDataset), or take {name}.txt from "
    "dataset.zip at https://github.com/weihua916/powerful-gnns"
)
# RuntimeError: zipfile's for encrypted members and unknown compression.
_DAMAGE = (ValueError, EOFError, RuntimeError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
_Ints = NDArray[np.int64]


class LabelledGraphs(NamedTuple):
    """Graphs with a label each; it unpacks as ``graphs, labels = ...``.

    Attributes:
        graphs: S graphs, stored flat.
        labels: The class of each, (S,), long, from 0.
    """

    graphs: Graphs
    labels: Tensor


class _Raw(NamedTuple):
    """What either format holds: edges (2, E), sizes, labels, and features of the nodes if any."""

    edges: _Ints
    sizes: _Ints
    labels: _Ints
    node_labels: _Ints | None = None
    attributes: NDArray[np.float64] | None = None


def tu_graphs(name: str, *, degrees: bool | None = None) -> LabelledGraphs:
    """Load a dataset such as "MUTAG" from the folder ``tu`` of the data folder.

    That folder of ``TORCHSETS_DATA`` (by default of the user's cache) holds ``NAME.zip`` or an
    unpacked folder ``NAME`` with the raw files of TUDataset, or ``NAME.txt`` or ``NAME.txt.xz`` in
    the format of GIN. Nothing is downloaded: no checksum of these files is published.

    Args:
        name: Of the dataset, and so of its file.
        degrees: Whether nodes without features get their degree, one-hot. None: yes, except in
            the datasets whose name begins with REDDIT, as published results have it.

    Returns:
        What :func:`read_tu` returns.

    Raises:
        ValueError: If a file is cut off, too large or has another form.
        FileNotFoundError: If there is no file; it says where to get it.
    """
    path = find_tu(name)
    if path is None:
        raise FileNotFoundError(
            f"{_folder() / name}.zip is missing: download it from {_SOURCES.format(name=name)}, or "
            "set TORCHSETS_DATA to the folder that holds tu"
        )
    return read_tu(path, degrees=not name.startswith("REDDIT") if degrees is None else degrees)


def find_tu(name: str) -> Path | None:
    """Where the dataset of :func:`tu_graphs` with this name is; None if it is missing."""
    if not re.fullmatch(r"[\w-]+", name):
        raise ValueError(f"name must be letters, digits, - and _, got {name!r}")
    files = (f"{name}.zip", name, f"{name}.txt", f"{name}.txt.xz")
    return next((_folder() / file for file in files if (_folder() / file).exists()), None)


def _folder() -> Path:
    return data_folder() / "tu"


def read_tu(path: str | Path, *, degrees: bool = True) -> LabelledGraphs:
    """Read a dataset of graphs from a file or folder; its name says the format.

    Edges are there once in each direction that the file lists, without self-loops. Isolated nodes
    are kept. The features of a node are its attributes, then its label, one-hot. A dataset that
    has neither gets a constant 1, then the degree, one-hot.

    Args:
        path: ``NAME.zip`` or a folder ``NAME`` with ``NAME_A.txt``, ``NAME_graph_indicator.txt``,
            ``NAME_graph_labels.txt`` and perhaps ``NAME_node_labels.txt`` and
            ``NAME_node_attributes.txt``; or ``NAME.txt`` or ``NAME.txt.xz`` in the format of GIN.
        degrees: Whether nodes without features get their degree beside the constant.

    Returns:
        The graphs and their classes, numbered from 0 in the order of the file's labels.

    Raises:
        ValueError: If a file is cut off, too large or has another form.
        OSError: If a file is missing.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raw = _from_parts(_read_folder(path, path.name))
        elif path.suffix == ".zip":
            raw = _from_parts(_read_zip(path, path.stem))
        else:
            raw = _from_text(_read_text(path))
        return _to_graphs(raw, degrees)
    except _DAMAGE as error:
        raise ValueError(f"{path} is damaged or no dataset of graphs: {error}") from error


def _to_graphs(raw: _Raw, degrees: bool) -> LabelledGraphs:
    total = int(raw.sizes.sum())
    receive, send = raw.edges
    if raw.edges.size and not 0 <= raw.edges.min() <= raw.edges.max() < total:
        raise ValueError(f"edges must be between its {total} nodes, got others")
    keys = (receive * total + send)[receive != send]
    if keys.size and np.diff(keys).min(initial=1) <= 0:
        keys.sort()  # with the check below many times faster than np.unique
        keys = keys[np.diff(keys, prepend=-1) > 0]
    edges = np.stack(np.divmod(keys, max(total, 1)))
    categories, classes = raw.node_labels, 0
    nodes = np.zeros((total, 0)) if raw.attributes is None else raw.attributes
    if raw.attributes is None and categories is None:
        nodes = np.ones((total, 1))
        categories = np.bincount(edges[0], minlength=total) if degrees else None
    elif categories is not None:
        categories = categories - categories.min() if total else categories
    if categories is not None:
        classes = int(categories.max(initial=-1)) + 1
        if classes > 1 << 16:
            raise ValueError(f"node labels must span at most 65536 numbers, got {classes}")
    graphs = Graphs(
        torch.from_numpy(nodes).float(),
        torch.from_numpy(edges),
        torch.from_numpy(raw.sizes),
        categories=None if categories is None else torch.from_numpy(categories),
        classes=classes,
    )
    return LabelledGraphs(graphs, torch.from_numpy(np.unique(raw.labels, return_inverse=True)[1]))


def _from_parts(parts: Mapping[str, bytes]) -> _Raw:
    """The raw files of TUDataset, which number nodes and graphs from 1."""
    owners = _integers(parts["graph_indicator"])
    labels = _integers(parts["graph_labels"])
    if owners.size and (np.diff(owners, prepend=1).min() < 0 or owners[-1] > labels.size):
        raise ValueError(
            f"graph_indicator must rise from 1 to the number of graph labels, {labels.size}"
        )
    pairs = _integers(parts["A"])
    node_labels = attributes = None
    if "node_labels" in parts:
        node_labels = _integers(parts["node_labels"])
        _check_count("node_labels", node_labels.size, owners.size)
    if "node_attributes" in parts:
        numbers = _numbers(parts["node_attributes"], np.dtype(np.float64))
        columns = numbers.size // max(owners.size, 1)
        _check_count("node_attributes", numbers.size, columns * owners.size)
        attributes = numbers.reshape(owners.size, columns)
    if pairs.size % 2:
        raise ValueError(f"A must hold pairs of nodes, got {pairs.size} numbers")
    sizes = np.bincount(owners - 1, minlength=labels.size)
    return _Raw(pairs.reshape(-1, 2).T - 1, sizes, labels, node_labels, attributes)


def _not_negative(number: int, name: str) -> int:
    if number < 0:
        raise ValueError(f"the {name} must be at least 0, got {number}")
    return number


def _from_text(content: bytes) -> _Raw:
    """GIN's format: the number of graphs; for each ``n label``; for a node ``tag degree ...``."""
    numbers = _integers(content)
    view: Any = numbers.data  # whose items are Python integers
    sizes, labels, places, at = [], [], [], 1
    try:
        for _ in range(_not_negative(view[0], "number of graphs")):
            size, label = _not_negative(view[at], "number of nodes"), view[at + 1]
            sizes.append(size)
            labels.append(label)
            at += 2
            for _ in range(size):
                places.append(at)
                at += 2 + _not_negative(view[at + 1], "degree")
    except IndexError:
        raise EOFError("the file ends early") from None
    if at != numbers.size:
        raise ValueError(f"it must end with its last graph, got {numbers.size - at} numbers more")
    starts, counts = np.array(places, dtype=np.int64), np.array(sizes, dtype=np.int64)
    tags, degrees = numbers[starts], numbers[starts + 1].clip(0)
    nodes = np.repeat(np.arange(starts.size), degrees)
    first = np.repeat(starts + 2 - (degrees.cumsum() - degrees), degrees)
    inside = numbers[first + np.arange(first.size)]
    if inside.size and (inside.min() < 0 or (inside >= np.repeat(counts, counts)[nodes]).any()):
        raise ValueError("a node must have neighbours of its own graph, got others")
    offsets = np.repeat(counts.cumsum() - counts, counts)
    edges = np.stack([nodes, inside + offsets[nodes]])
    same = tags.size == 0 or bool((tags == tags[0]).all())  # says nothing: no label
    return _Raw(edges, counts, np.array(labels, dtype=np.int64), None if same else tags)


def _read_folder(folder: Path, name: str) -> dict[str, bytes]:
    found = {part: folder / f"{name}_{part}.txt" for part in _PARTS}
    parts = {}
    for part, path in found.items():
        if path.exists() or part in _NEEDED:
            _check_size(path.name, path.stat().st_size)
            parts[part] = path.read_bytes()
    return parts


def _read_zip(path: Path, name: str) -> dict[str, bytes]:
    """Read members where they are: nothing is unpacked, so no path in the archive matters."""
    parts: dict[str, bytes] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            match = re.fullmatch(rf"(?:{name}/+)?{name}_(\w+)\.txt", member.filename)
            if match is None or match[1] not in _PARTS:
                continue
            if match[1] in parts:
                raise ValueError(f"it must hold {name}_{match[1]}.txt once, got it twice")
            _check_size(member.filename, member.file_size)
            with archive.open(member) as file:  # checks the checksum and never gives more
                parts[match[1]] = file.read(_LARGEST + 1)
            _check_size(member.filename, len(parts[match[1]]))
    missing = [f"{name}_{part}.txt" for part in _NEEDED if part not in parts]
    if missing:
        raise ValueError(f"it must hold {', '.join(missing)}, got no such file in it")
    return parts


def _read_text(path: Path) -> bytes:
    if path.suffix != ".xz":
        _check_size(path.name, path.stat().st_size)
        return path.read_bytes()
    with lzma.open(path) as file:
        content = file.read(_LARGEST + 1)
    _check_size(path.name, len(content))
    return content


def _check_size(name: str, size: int) -> None:
    if size > _LARGEST:
        raise ValueError(f"{name} must have at most {_LARGEST} bytes unpacked, got more")


def _check_count(part: str, got: int, expected: int) -> None:
    if got != expected:
        raise ValueError(f"{part} must have one row for each node, got {got} numbers")


def _integers(content: bytes) -> _Ints:
    return _numbers(content, np.dtype(np.int64))


def _numbers(content: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers between spaces, commas and line breaks; anything else is a ``ValueError``."""
    text = content.replace(b",", b" ").strip()
    if not text:
        return np.zeros(0, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # older numpy only warns about what is no number
        try:
            return np.fromstring(text, dtype, sep=" ")
        except (DeprecationWarning, ValueError):
            raise ValueError("it must hold numbers only, got other text") from None
