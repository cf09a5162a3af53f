import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from torchsets.data.vqa import Picture, build_features, feature_files, load_features, write_tsv

D = 6


def pictures(count, *, features=D, seed=0, boxes=(0, 9)):
    """Pictures that are drawn one at a time, so that a large file needs no memory."""
    random = np.random.default_rng(seed)
    for place in range(count):
        n = int(random.integers(boxes[0], boxes[1] + 1))
        yield Picture(
            1000 + 7 * place,
            640,
            480 + place % 5,
            random.random((n, 4), np.float32),
            random.random((n, features), np.float32),
        )


def write(path, rows):
    write_tsv(path, rows)
    return path


def assert_holds(store, rows):
    rows = list(rows)
    assert store.ids.tolist() == [row.image_id for row in rows]
    assert store.shapes.tolist() == [[row.width, row.height] for row in rows]
    for place, row in enumerate(rows):
        assert np.array_equal(store.features[place].numpy(), row.features)
        assert np.array_equal(store.boxes[place].numpy(), row.boxes)


def test_reads_back_what_was_written(tmp_path):
    rows = list(pictures(12))
    files = [write(tmp_path / "a.tsv", rows[:5]), write(tmp_path / "b.tsv", rows[5:])]
    seen = []
    store = build_features(
        files, tmp_path / "store", features=D, progress=lambda *done: seen.append(done)
    )
    assert_holds(store, rows)
    sizes = [file.stat().st_size for file in files]
    assert seen == [(sizes[0], sum(sizes)), (sum(sizes), sum(sizes))]
    assert_holds(load_features(tmp_path / "store"), rows)
    files[0].unlink()
    assert len(build_features(files, tmp_path / "store", features=D)) == 12  # nothing is read


def test_batches_are_padded_and_found_by_number(tmp_path):
    rows = list(pictures(6))
    store = build_features([write(tmp_path / "a.tsv", rows[::-1])], tmp_path / "s", features=D)
    chosen = [rows[4], rows[0], rows[4]]
    batch = store.batch(torch.tensor([row.image_id for row in chosen]))
    assert batch.mask.sum(dim=1).tolist() == [len(row.boxes) for row in chosen]
    assert batch.features.shape[1] == max(len(row.boxes) for row in chosen)
    for place, row in enumerate(chosen):
        real = batch.mask[place]
        assert np.array_equal(batch.features[place][real].numpy(), row.features)
        wide = np.array([row.width, row.height] * 2, np.float32)
        np.testing.assert_allclose(batch.scaled_boxes[place][real].numpy(), row.boxes / wide)
    with pytest.raises(ValueError, match="image_ids must be in the store, got 1 others such as 5"):
        store.batch(torch.tensor([5, rows[0].image_id]))


def test_duplicates_and_damaged_rows_are_left_out_and_counted(tmp_path):
    rows = list(pictures(5, boxes=(3, 9)))
    path = write(tmp_path / "a.tsv", [*rows, rows[2]._replace(width=1)])
    lines = path.read_bytes().splitlines(keepends=True)
    fields = lines[1].split(b"\t")
    nan = write(tmp_path / "nan.tsv", [rows[1]._replace(boxes=rows[1].boxes * np.nan)])
    damaged = [
        b"\n",
        b"\t".join(fields[:5]) + b"\n",
        b"\t".join([b"x", *fields[1:]]),
        b"\t".join([*fields[:3], b"2", *fields[4:]]),
        b"\t".join([*fields[:5], b"#" + fields[5]]),
        nan.read_bytes(),
        b"a" * 300 + b"\n",
        lines[4][:-40],  # the last row of a file that was cut off
    ]
    path.write_bytes(b"".join(lines[:4] + lines[5:] + damaged))
    store = build_features([path], tmp_path / "store", features=D)
    assert_holds(store, rows[:4])
    assert (store.duplicates, store.damaged) == (1, len(damaged))
    assert "1 duplicates and 8 damaged rows left out" in repr(store)


def test_a_row_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_files, "_LONGEST", 2000)
    rows = list(pictures(2))
    path = write(tmp_path / "a.tsv", rows)
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"A" * 7001 + b"\n" + second)
    store = build_features([path], tmp_path / "store", features=D)
    assert_holds(store, rows)
    assert store.damaged == 1


class StopError(Exception):
    pass


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_resumes_where_the_journal_ends(tmp_path, monkeypatch, stop):
    monkeypatch.setattr(feature_files, "_SAVE", 800)
    rows = list(pictures(12))
    files = [
        write(tmp_path / "a.tsv", [*rows[:5], rows[1]]),
        write(tmp_path / "b.tsv", [*rows[3:], rows[11]]),
    ]

    def build(progress=None):
        return build_features(files, tmp_path / "store", features=D, progress=progress)

    seen = []

    def stop_early(*done):
        seen.append(done)
        if len(seen) == stop:
            raise StopError

    with pytest.raises(StopError):
        build(stop_early)
    with pytest.raises(ValueError, match="is damaged"):  # it is not whole yet
        load_features(tmp_path / "store")
    # What a kill leaves behind the last entry of the journal: a picture that is not whole.
    for name, rest in (("ids", np.int64(rows[-1].image_id).tobytes()), ("features", b"x" * 9999)):
        with (tmp_path / "store" / f"{name}.bin").open("ab") as file:
            file.write(rest)
    resumed = []
    store = build(lambda *done: resumed.append(done))
    assert_holds(store, rows)
    assert (store.duplicates, store.damaged) == (4, 0)
    assert resumed[0][0] > seen[-1][0]  # not from the beginning


def test_refuses_to_mix_sources_and_options(tmp_path):
    path = write(tmp_path / "a.tsv", pictures(3))
    with pytest.raises(StopError):
        build_features([path], tmp_path / "store", features=D, progress=stop_at_once)
    with pytest.raises(ValueError, match=r"was begun with .*; remove it to start anew"):
        build_features([path], tmp_path / "store", features=D, half=True)
    build_features([path], tmp_path / "store", features=D)
    with pytest.raises(ValueError, match=r"has 6 features of torch.float32, got features=2048"):
        build_features([path], tmp_path / "store")
    other = write(tmp_path / "b.tsv", pictures(3))
    with pytest.raises(ValueError, match=r"was built from a\.tsv, got b\.tsv"):
        build_features([other], tmp_path / "store", features=D)
    write(path, pictures(4))
    with pytest.raises(ValueError, match=r"got a\.tsv, or files of other sizes; remove it"):
        build_features([path], tmp_path / "store", features=D)


def test_numbers_that_do_not_fit_are_damage(tmp_path):
    first, second, third = pictures(3, boxes=(1, 3))
    rows = [first._replace(image_id=10**30), second._replace(features=second.features + 1e6), third]
    path = write(tmp_path / "a.tsv", rows)
    store = build_features([path], tmp_path / "half", features=D, half=True)
    assert (store.ids.tolist(), store.damaged) == ([third.image_id], 2)
    store = build_features([path], tmp_path / "whole", features=D)
    assert (len(store), store.damaged) == (2, 1)


def test_a_second_process_waits_for_the_first(tmp_path, monkeypatch):
    path, built = write(tmp_path / "a.tsv", pictures(4)), []
    original = feature_files._build

    def count(*arguments, **options):
        built.append(threading.get_ident())
        time.sleep(0.2)
        original(*arguments, **options)

    monkeypatch.setattr(feature_files, "_build", count)
    with ThreadPoolExecutor(3) as threads:
        make = [threads.submit(build_features, [path], tmp_path / "s", features=D) for _ in "abc"]
    assert [len(one.result()) for one in make] == [4, 4, 4]
    assert len(built) == 1


def stop_at_once(*_):
    raise StopError


def test_half_precision_halves_the_features(tmp_path):
    rows = list(pictures(4))
    path = write(tmp_path / "a.tsv", rows)
    store = build_features([path], tmp_path / "store", features=D, half=True)
    assert store.features.values.dtype == torch.float16
    joined = np.concatenate([row.features for row in rows])
    assert np.array_equal(store.features.values.numpy(), joined.astype(np.float16))
    assert store.boxes.values.dtype == torch.float32


def test_a_damaged_store_is_told(tmp_path):
    path = write(tmp_path / "a.tsv", pictures(3))
    build_features([path], tmp_path / "store", features=D)
    (tmp_path / "store" / "boxes.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=r"damaged: boxes.bin must have .*; remove it and build"):
        load_features(tmp_path / "store")


def test_empty_files_and_empty_pictures(tmp_path):
    (tmp_path / "a.tsv").touch()
    assert len(build_features([tmp_path / "a.tsv"], tmp_path / "none", features=D)) == 0
    path = write(tmp_path / "b.tsv", pictures(2, boxes=(0, 0)))
    store = build_features([path], tmp_path / "empty", features=D)
    assert store.batch(store.ids).features.shape == (2, 0, D)


BUILD = """
import json, resource, sys, time
from torchsets.data.vqa import build_features, feature_files
feature_files._SAVE = 1 << 23
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def progress(done, total):
    print(json.dumps([done, total]), flush=True)
    time.sleep(float(sys.argv[3]))
store = build_features([sys.argv[1]], sys.argv[2], progress=progress)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([before, after]), flush=True)
"""


def start(path, folder, pause):
    command = [sys.executable, "-c", BUILD, str(path), str(folder), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_thousand_pictures_killed_half_way(tmp_path):
    """1.2 GB of rows: a real kill, and what the build adds to the memory of Python and torch."""
    path = tmp_path / "a.tsv"
    write_tsv(path, pictures(2000, features=2048, boxes=(10, 100)))
    with start(path, tmp_path / "store", 0.05) as first:
        for line in first.stdout:
            done, total = json.loads(line)
            if done > total / 2:
                break
        os.kill(first.pid, signal.SIGKILL)
    assert not (tmp_path / "store" / "header.json").exists()
    with start(path, tmp_path / "store", 0) as second:
        out, _ = second.communicate(timeout=600)
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[0][0] > total / 2
    before, after = lines[-1]
    assert after - before < 50_000, f"{before} to {after} kB"
    store = load_features(tmp_path / "store")
    assert len(store) == 2000
    expected = pictures(2000, features=2048, boxes=(10, 100))
    for place, row in enumerate(expected):
        assert np.array_equal(store.features[place].numpy(), row.features)
        assert np.array_equal(store.boxes[place].numpy(), row.boxes)
