import gzip
import io
import json
import os
import subprocess
import sys
import tracemalloc

import pytest

from torchsets.data import json_stream
from torchsets.data.json_stream import read_records, read_values

RECORDS = [{"name": f"é {place}", "parts": [place, {"x": -1.5e3}, "]},{"]} for place in range(50)]


def write(folder, text, name="file.json"):
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return path


@pytest.mark.parametrize("chunk", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("name", ["file.json", "file.json.gz"])
@pytest.mark.parametrize("indent", [None, 2])
def test_reads_what_json_reads(tmp_path, monkeypatch, chunk, name, indent):
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    whole = {"info": {"parts": [1]}, "count": 12345, "parts": RECORDS, "end": 678, "more": []}
    path = write(tmp_path, json.dumps(whole, indent=indent), name)
    assert list(read_records(path, "parts")) == RECORDS


@pytest.mark.parametrize("name", ["file.json", "file.json.gz"])
def test_text_is_utf_8_whatever_the_locale(tmp_path, name):
    path = write(tmp_path, '["é"]', name)
    script = (
        "import pathlib, sys; from torchsets.data.json_stream import read_values; "
        "print(ascii(list(read_values(pathlib.Path(sys.argv[1])))))"
    )
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    told = subprocess.run(
        [sys.executable, "-c", script, str(path)], env=plain, capture_output=True, text=True
    )
    assert told.stdout == "['\\xe9']\n", told.stderr


def test_an_empty_list_has_no_records(tmp_path):
    assert list(read_records(write(tmp_path, '{"parts": [ ] }'), "parts")) == []


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "_CHUNK", 1 << 14)
    path = write(tmp_path, json.dumps({"parts": RECORDS * 200}))
    tracemalloc.start()
    count = sum(1 for _ in read_records(path, "parts"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 200 * len(RECORDS)
    assert peak < path.stat().st_size / 3


@pytest.mark.parametrize("cut", [1, 20, 60, 100, -3, -1])
@pytest.mark.parametrize("name", ["file.json", "file.json.gz"])
def test_a_cut_off_file_is_refused(tmp_path, cut, name):
    text = json.dumps({"info": {}, "parts": RECORDS, "after": 1})
    path = write(tmp_path, text[:cut], name)
    with pytest.raises(ValueError, match=r"file.json.* is cut off or damaged: the file ends early"):
        list(read_records(path, "parts"))


def test_a_cut_off_archive_is_refused(tmp_path):
    path = write(tmp_path, json.dumps({"parts": RECORDS}), "file.json.gz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="is cut off or damaged"):
        list(read_records(path, "parts"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", 'must be JSON: expected "{", got "\\["'),
        ('{"other": 1}', 'must have a list "parts", got none'),
        ('{"parts": {}}', 'expected "\\[", got "{"'),
        ('{"parts": [1]}', 'must have objects in "parts", got 1'),
        ('{"parts": [{} {}]}', 'expected "," or "\\]", got "{"'),
        ("{1: 2}", 'expected a name, got "1"'),
        ("\x1f\x8b", "expected"),
    ],
)
def test_another_form_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        list(read_records(write(tmp_path, text), "parts"))


def test_nonsense_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(json_stream, "_LONGEST", 100)
    monkeypatch.setattr(json_stream, "_CHUNK", 50)
    endless = io.StringIO('{"parts": [' + "x" * 10_000)
    with pytest.raises(json_stream._WrongFormError, match="must be JSON"):
        list(json_stream._Reader(endless).records("parts"))
    assert endless.tell() < 400


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
@pytest.mark.parametrize(
    "values", [[], [[1, 23], [456, 7]], [1, "]", {"x": []}], [-1.5, 2e-17, 3e200]]
)
def test_reads_a_bare_list(tmp_path, monkeypatch, chunk, values):
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    assert list(read_values(write(tmp_path, json.dumps(values) + "\n", "a.json.gz"))) == values


def test_a_bare_list_must_be_whole_and_alone(tmp_path):
    with pytest.raises(ValueError, match="is cut off or damaged: the file ends early"):
        list(read_values(write(tmp_path, "[[1, 2], [3")))
    with pytest.raises(ValueError, match=r"must be a JSON list, got '\[3\]' behind it"):
        list(read_values(write(tmp_path, "[[1, 2]] [3]")))
    path = write(tmp_path, json.dumps(list(range(5000))), "b.json.gz")
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="is cut off or damaged"):
        list(read_values(path))


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_nothing_may_stand_behind_the_object(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    path = write(tmp_path, '{"parts": [{}], "more": 2}\n trailing')
    with pytest.raises(ValueError, match=r"must be a JSON object, got '.* behind it"):
        list(read_records(path, "parts"))
