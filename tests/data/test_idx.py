import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from torchsets.data import read_idx

CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}


def idx_bytes(array):
    kind = array.dtype.newbyteorder(">")
    head = bytes([0, 0, CODES[array.dtype.str[1:]], array.ndim])
    return head + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(kind).tobytes()


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_array_of_every_type_comes_back(tmp_path, code, suffix):
    array = np.arange(-12, 12).reshape(2, 3, 4).astype(code)
    path = tmp_path / f"array{suffix}"
    path.write_bytes(gzip.compress(idx_bytes(array)) if suffix else idx_bytes(array))
    read = read_idx(path)
    np.testing.assert_array_equal(read, array)
    assert read.dtype == array.dtype


def test_the_format_is_the_published_one(tmp_path):
    path = tmp_path / "labels"
    path.write_bytes(bytes([0, 0, 8, 1]) + bytes([0, 0, 0, 2]) + bytes([5, 250]))
    assert read_idx(path).tolist() == [5, 250]


@pytest.mark.parametrize(("change", "message"), [(-3, "it is cut off"), (2, "more: too long")])
def test_a_file_of_the_wrong_length_is_refused(tmp_path, change, message):
    content = idx_bytes(np.zeros((5, 4), dtype=np.uint8))
    path = tmp_path / "images"
    path.write_bytes(content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(ValueError, match=rf"must have 32 bytes .*\(5, 4\), got .*{message}"):
        read_idx(path)


def test_a_truncated_download_is_refused(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.random.default_rng(0).random((50, 9))))[:-40])
    with pytest.raises(ValueError, match=r"images.gz must be a whole gzip file"):
        read_idx(path)


@pytest.mark.parametrize("head", [bytes([0, 0, 8, 1, 0, 0, 0, 3]), b"<htm"], ids=["idx", "other"])
def test_a_bomb_is_not_unpacked(tmp_path, head):
    """64 MB of zeros behind three labels: only as much is read as the head states."""
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(head + bytes(1 << 26)))
    assert path.stat().st_size < 1 << 17
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"must (have 11 bytes|be an idx file)"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 23
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_head_that_promises_too_much_takes_no_memory(tmp_path, suffix):
    content = bytes([0, 0, 14, 3]) + b"\xff" * 12 + b"few"
    path = tmp_path / f"images{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    with pytest.raises(ValueError, match="got 19: it is cut off"):
        read_idx(path)


@pytest.mark.parametrize("content", [b"", b"\x00\x00", b"<html>not found</html>", b"\0\0\7\1\0\0"])
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"must be an idx file, got one that begins with"):
        read_idx(path)


def test_a_head_without_its_sizes_is_refused(tmp_path):
    path = tmp_path / "images"
    path.write_bytes(bytes([0, 0, 8, 3, 0, 0]))
    with pytest.raises(ValueError, match="must state 3 sizes, got 6 bytes"):
        read_idx(path)


@pytest.mark.parametrize("sizes", [[0] * 70, [0, *[2**32 - 1] * 5]], ids=["many", "huge"])
def test_shapes_that_no_array_can_have_are_refused(tmp_path, sizes):
    path = tmp_path / "file"
    path.write_bytes(bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes))
    with pytest.raises(ValueError, match="file must state the shape of an array, got"):
        read_idx(path)
