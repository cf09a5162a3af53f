import hashlib
import os
import socket
import threading
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler

import pytest

from torchsets._downloads import find_file


@pytest.fixture
def server(tmp_path):
    """The address of a folder that is served on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    (tmp_path / "served").mkdir()
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with HTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_a_file_is_downloaded_once_and_checked(tmp_path, server):
    content = b"the right bytes"
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    (tmp_path / "served" / "file").write_bytes(content)
    path = tmp_path / "cache" / "file"
    missing = f"{server}/nothing/here"
    assert find_file(path, md5=md5, mirrors=[missing, server]).read_bytes() == content
    (tmp_path / "served" / "file").unlink()
    assert find_file(path, md5=md5, mirrors=[server]) == path
    assert os.listdir(path.parent) == ["file"]


def test_what_a_mirror_sends_is_kept_only_if_it_is_right(tmp_path, server):
    (tmp_path / "served" / "file").write_bytes(b"something else")
    path = tmp_path / "cache" / "file"
    with pytest.raises(OSError, match=r"file is missing and could not be downloaded .*has md5"):
        find_file(path, md5="0" * 32, mirrors=[server])
    assert os.listdir(path.parent) == []


def test_a_file_that_changed_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"changed")
    with pytest.raises(ValueError, match=r"file must have the md5 0+, got .*remove it to download"):
        find_file(path, md5="0" * 32, mirrors=[])
    assert path.read_bytes() == b"changed"


def test_a_mistyped_data_folder_is_named_and_not_created(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path / "tpyo"))
    with pytest.raises(FileNotFoundError, match=r"TORCHSETS_DATA is .*tpyo, which is no folder"):
        find_file(tmp_path / "tpyo" / "mnist" / "file", md5="0" * 32, mirrors=[])
    assert not (tmp_path / "tpyo").exists()


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>please log in</html>\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\ncut off",
    ],
    ids=["no HTTP", "cut off"],
)
def test_after_a_broken_answer_the_next_mirror_is_asked(tmp_path, server, answer):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def speak():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        threading.Thread(target=speak, daemon=True).start()
        broken = f"http://127.0.0.1:{listening.getsockname()[1]}"
        (tmp_path / "served" / "file").write_bytes(b"right")
        md5 = hashlib.md5(b"right", usedforsecurity=False).hexdigest()
        path = find_file(tmp_path / "cache" / "file", md5=md5, mirrors=[broken, server])
    assert path.read_bytes() == b"right"
