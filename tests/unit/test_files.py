"""Files: plain and bounded on the way in, whole or not at all on the way out."""

from __future__ import annotations

import ast
import errno
import os
import re
import socket
from pathlib import Path

import pytest

from pipeloom import files
from pipeloom.errors import GraphError, SpecError
from pipeloom.files import read_file, read_text, reading, scratch_folder, write_file, write_files

SOURCE = Path(__file__).parents[2] / "src" / "pipeloom"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "é\n")
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa9\n"
    assert read_text(tmp_path / "a") == "é\n"
    (tmp_path / "b").write_bytes(b"1\r\n2\r3")
    assert read_text(tmp_path / "b") == "1\n2\n3"
    assert read_file(tmp_path / "b") == b"1\r\n2\r3"


def test_half_of_a_surrogate_pair_is_written_as_its_escape(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "x\udc80y")
    assert read_text(tmp_path / "a") == "x\\udc80y"


def test_too_much_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    assert len(read_file(tmp_path / "a", 100)) == 100
    with pytest.raises(OSError, match="more than 99 bytes"):
        read_file(tmp_path / "a", 99)


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices in the file system")
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.close()
    path = {"device": Path("/dev/zero"), "folder": tmp_path}.get(kind, path)
    with pytest.raises(OSError, match=r"regular|director|No such device"):
        read_file(path)


def test_many_files_are_written_with_their_folders(tmp_path: Path) -> None:
    write_files({tmp_path / "lib" / "a": "1", tmp_path / "lib" / "in" / "b": b"2"})
    assert {p.name for p in tmp_path.rglob("*")} == {"lib", "in", "a", "b"}


class FullError(Exception):
    """Not an OSError: what a signal does."""


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), FullError()])
@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int, fault: Exception
) -> None:
    """Neither halves, nor a library whose table and kernels are of two runs, nor new folders."""
    (tmp_path / "old").write_text("old")
    real, count = files._bytes, 0

    def fill(content: str | bytes) -> bytes:
        nonlocal count
        count += 1
        if count > when:
            raise fault
        return real(content)

    monkeypatch.setattr(files, "_bytes", fill)
    names = ("old", "lib/a", "lib/in/b")
    expected = SpecError if isinstance(fault, OSError) else FullError
    with pytest.raises(expected, match="No space left" if expected is SpecError else None):
        write_files({tmp_path / name: "new" for name in names})
    assert [p.name for p in tmp_path.rglob("*")] == ["old"]
    assert (tmp_path / "old").read_text() == "old"


def test_a_scratch_folder_is_gone_whatever_happens() -> None:
    places = []

    def work() -> None:
        with scratch_folder() as folder:
            places.append(folder)
            (folder / "inner").mkdir()
            (folder / "inner" / "a").write_text("x")
            raise FullError

    with pytest.raises(FullError):
        work()
    assert not places[0].exists()


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_what_cannot_be_read_is_an_error_of_pipeloom(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GraphError) as caught, reading("the list", "give one", "names", GraphError):
        read_text(path)
    assert "the list" in caught.value.message
    assert (caught.value.hint, caught.value.field) == ("give one", "names")


METHODS = {"read_text", "write_text", "write_bytes", "fdopen", "mkstemp", "TemporaryDirectory"}
_WORDS = re.compile(r"\bopen\(|read_|write_|fdopen|mkstemp|TemporaryDirectory")
OWN = {
    *("files.py", "drive/store.py", "write/assemble.py"),
    *("tuning/binding.py", "device/images.py", "device/hip_search.py"),
}
"""Who may: this module, the database, what tools say; the launcher that is copied out."""


def test_no_other_module_opens_files() -> None:
    """One place that bounds what is read, and writes whole files; always UTF-8."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).as_posix() in OWN:
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if _WORDS.search(text) else ():
            if not isinstance(node, ast.Call):
                continue
            opens = isinstance(node.func, ast.Name) and node.func.id == "open"
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            bare = method == "read_bytes" and not node.args
            resource = "here /" in ast.unparse(node) or "files(" in ast.unparse(node)
            if (opens or bare or method in METHODS) and not resource:
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}")
    assert found == [], "use pipeloom.files"
