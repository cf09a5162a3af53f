"""Splits of rendered scenes, kept on disk: the first call renders, later ones read."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.lib.format import open_memmap
from torch import Tensor

from torchsets.data.build_once import build_once, made_folder
from torchsets.data.scene_rendering import render_scenes
from torchsets.data.scene_sampling import MOST, sample_scenes
from torchsets.data.scenes import Scenes

_CODE = ("sampling", "projection", "outlines", "rays", "shadows", "light", "rendering")
_BLOCK = 32  # scenes between two reports of progress
_ALONE = 256  # fewer scenes are rendered sooner than other processes would start
_ARRAYS = ("positions", "attributes", "rotations", "sizes", "numbers", "cameras", "lamps")
_WORKER = "from torchsets.data.rendered_splits import _work; _work()"

Progress = Callable[[int, int], None]


class _Split(NamedTuple):
    total: int
    low: int
    high: int
    seed: int
    first: int
    size: int
    samples: int


class ScenePictures(NamedTuple):
    """Scenes and a picture of each.

    Attributes:
        scenes: S scenes, with their cameras.
        images: (S, 3, size, size), uint8. If they are read from a file, it is mapped to memory:
            only what is used is read, and changes do not reach the file.
    """

    scenes: Scenes
    images: Tensor


def rendered_scenes(
    count: int,
    *,
    objects: tuple[int, int] = (3, MOST),
    seed: int = 0,
    first: int = 0,
    size: int = 64,
    samples: int = 2,
    processes: int | None = None,
    progress: Progress | None = None,
) -> ScenePictures:
    """Draw scenes whose objects are all visible, and render them, once.

    They are kept in the folder ``torchsets/made`` of the user's cache (``XDG_CACHE_HOME``), under a
    fingerprint of the settings and of the code that draws and renders: 12 kB a picture at 64
    pixels. If several processes ask for them, one renders and the others wait.

    Args:
        count: Number of scenes.
        objects: Smallest and largest number of objects.
        seed: Of all random numbers: one seed is one split.
        first: The number of the first scene; see :func:`sample_scenes`.
        size: Pixels along each side.
        samples: Rays along each side of a pixel.
        processes: How many render. None: one for each core.
        progress: Called with the numbers of scenes that are done and of all. None: a line on
            stderr, if it takes more than a few seconds.

    Raises:
        ValueError: If an argument is out of range.
        ChildProcessError: If a process that renders fails.
        OSError: If the cache cannot be written.
    """
    sample_scenes(0, objects=objects, seed=seed, first=first)  # raises for arguments out of range
    if count < 0 or size < 1 or samples < 1:
        raise ValueError(
            f"count must be at least 0, size and samples at least 1, got {count}, {size}, {samples}"
        )
    if processes is not None and processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}")
    split = _Split(count, *objects, seed, first, size, samples)
    workers = 1 if count < _ALONE else min(processes or os.cpu_count() or 1, count)
    report = progress or _line_on_stderr()
    folder = made_folder() / f"scenes-{_fingerprint(split)}"
    return read_pictures(
        build_once(folder, lambda unfinished: _build(unfinished, split, workers, report))
    )


def write_pictures(folder: Path, scenes: Scenes, images: Tensor) -> None:
    """Write pictures to a folder of the cache."""
    np.save(folder / "pictures.npy", images.numpy())
    _write_scenes(folder / "scenes.npz", [scenes])


def read_pictures(folder: Path) -> ScenePictures:
    """Open the pictures of a folder of the cache."""
    images = np.load(folder / "pictures.npy", mmap_mode="c", allow_pickle=False)
    return ScenePictures(_read_scenes(folder / "scenes.npz"), torch.from_numpy(images))


def _write_scenes(path: Path, parts: list[Scenes]) -> None:
    known = [name for name in _ARRAYS if getattr(parts[0], name) is not None]
    arrays = {name: torch.cat([getattr(part, name) for part in parts]) for name in known}
    np.savez(path, allow_pickle=False, **{name: value.numpy() for name, value in arrays.items()})


def _read_scenes(path: Path) -> Scenes:
    with np.load(path, allow_pickle=False) as arrays:
        known = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    objects = [known.pop(name) for name in ("positions", "attributes", "rotations", "sizes")]
    return Scenes(*objects, **known)


def _fingerprint(split: _Split) -> str:
    """Of the settings, the code, and numpy, which draws the random numbers."""
    digest = hashlib.sha256(json.dumps([split, np.__version__]).encode())
    for name in ("scenes.py", *(f"scene_{part}.py" for part in _CODE)):
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()[:20]


def _build(folder: Path, split: _Split, workers: int, report: Progress) -> None:
    shape = (split.total, 3, split.size, split.size)
    if split.total == 0:  # a file of no pictures cannot be mapped
        write_pictures(folder, sample_scenes(0), torch.zeros(shape, dtype=torch.uint8))
        return
    (folder / "settings.json").write_text(json.dumps(split._asdict()) + "\n")
    open_memmap(folder / "pictures.npy", mode="w+", dtype=np.uint8, shape=shape).flush()
    starts = [split.total * number // workers for number in range(workers)]
    if workers == 1:
        _render_share(folder, split, 0, split.total, lambda done: report(done, split.total))
    else:
        _run_workers(folder, split, starts, lambda done: report(done, split.total))
    parts = [folder / f"part-{start}.npz" for start in starts]
    _write_scenes(folder / "scenes.npz", [_read_scenes(part) for part in parts])
    for part in parts:
        part.unlink()


def _render_share(
    folder: Path, split: _Split, start: int, stop: int, report: Callable[[int], None]
) -> None:
    """Render the scenes from ``start`` to ``stop`` of a split into its file."""
    images = np.load(folder / "pictures.npy", mmap_mode="r+", allow_pickle=False)
    parts = []
    for begin in range(start, stop, _BLOCK):
        end = min(begin + _BLOCK, stop)
        parts.append(
            sample_scenes(
                end - begin,
                objects=(split.low, split.high),
                seed=split.seed,
                first=split.first + begin,
                visible=True,
            )
        )
        images[begin:end] = render_scenes(parts[-1], size=split.size, samples=split.samples)
        report(end - start)
    images.flush()
    _write_scenes(folder / f"part-{start}.npz", parts)


def _run_workers(
    folder: Path, split: _Split, starts: list[int], report: Callable[[int], None]
) -> None:
    """One process for each share; all report to one pipe.

    If this process is killed, they cannot report any more, and end too.
    """
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    reading, writing = os.pipe()
    workers: list[subprocess.Popen[bytes]] = []
    try:
        with os.fdopen(reading) as lines, (folder / "errors").open("w+") as errors:
            for start, stop in zip(starts, [*starts[1:], split.total], strict=True):
                command = [sys.executable, "-c", _WORKER, str(folder), json.dumps(split)]
                command += [str(start), str(stop)]
                worker = subprocess.Popen(command, stdout=writing, stderr=errors, env=environment)
                workers.append(worker)
            os.close(writing)
            done = dict.fromkeys(starts, 0)
            for line in lines:  # until the last of them has closed the pipe
                start, number = map(int, line.split())
                done[start] = number
                report(sum(done.values()))
                if any(worker.poll() for worker in workers):
                    break
            if any(worker.poll() for worker in workers) or any(worker.wait() for worker in workers):
                errors.seek(0)
                *_, reason = "killed", *errors.read().splitlines()
                raise ChildProcessError(f"a process that renders scenes failed: {reason}")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    (folder / "errors").unlink()


def _work() -> None:
    folder, split, start, stop = sys.argv[1:]

    def report(done: int) -> None:
        sys.stdout.write(f"{start} {done}\n")
        sys.stdout.flush()

    _render_share(Path(folder), _Split(*json.loads(split)), int(start), int(stop), report)


def _line_on_stderr() -> Progress:
    """On a terminal one line that changes; elsewhere a line every half minute."""
    began = time.monotonic()
    shown = began
    terminal = sys.stderr.isatty()

    def report(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        ended = terminal and shown > began and done == total  # of a line that is there
        if now - shown < (0.5 if terminal else 30) and not ended:
            return
        shown = now
        left = (total - done) * (now - began) / max(done, 1)
        line = f"rendering scenes: {done} of {total}, {left:.0f} s left"
        end = "\n" if done == total or not terminal else ""
        sys.stderr.write(f"\r{line:<60}{end}" if terminal else f"{line}\n")
        sys.stderr.flush()

    return report
