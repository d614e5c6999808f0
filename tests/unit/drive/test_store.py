"""The store: what is written is read, what is damaged is told and set aside, whoever is killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import pipeloom
from pipeloom.drive.store import FILE, FORMAT, Store, digest, sources_digest, version

KEY = "0123456789abcdef"


def test_written_and_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "folder")
    assert store.read(KEY) is None
    store.write(KEY, {"cycles": 2048.0, "notes": ["a"]})
    assert store.read(KEY) == {"cycles": 2048.0, "notes": ["a"]}
    store.write(KEY, {"cycles": 1})
    assert store.read(KEY) == {"cycles": 1}
    assert store.keys() == (KEY,)
    store.drop(KEY)
    store.drop(KEY)
    assert store.read(KEY) is None


@pytest.mark.parametrize("damage", ["digest = 'no'", "content = x'00'", "content = '[]'"])
def test_a_damaged_entry_is_set_aside(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    store.write(KEY, {"cycles": 2048})
    store.write("other", {"cycles": 1})
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute(f"UPDATE entries SET {damage} WHERE key = ?", (KEY,))
    db.close()
    with pytest.warns(UserWarning, match="is damaged; set aside"):
        assert store.read(KEY) is None
    assert store.keys() == (f"{KEY}.damaged", "other")
    store.write(KEY, {"cycles": 2048})
    assert store.read(KEY) == {"cycles": 2048}


@pytest.mark.parametrize("damage", ["truncate", "overwrite", "nonsense"])
def test_a_damaged_file_is_kept_aside(tmp_path: Path, damage: str) -> None:
    """In a process of its own: this one may hold the file's pages."""
    path = tmp_path / FILE
    script = f"""
from pathlib import Path
from pipeloom.drive.store import Store
store = Store(Path({str(tmp_path)!r}))
for n in range(200):
    store.write(str(n), {{"n": list(range(n))}})
"""
    subprocess.run([sys.executable, "-c", script], check=True, env=_environment())
    whole = path.read_bytes()
    cut = len(whole) // 2
    broken = {
        "truncate": whole[:cut],
        "overwrite": whole[:512] + b"\x5a" * cut + whole[512 + cut :],
        "nonsense": b"not a database, " * 100,
    }[damage]
    path.write_bytes(broken)
    store = Store(tmp_path)
    with pytest.warns(UserWarning, match="set aside as store.sqlite.aside1"):
        found = [store.read(str(n)) for n in range(200)]
    assert all(entry in (None, {"n": list(range(n))}) for n, entry in enumerate(found))
    assert (tmp_path / f"{FILE}.aside1").read_bytes() == broken
    store.write(KEY, {"cycles": 1})
    assert store.read(KEY) == {"cycles": 1}


def test_a_file_of_another_format_is_kept_aside(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("CREATE TABLE results (a)")
    db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    db.commit()
    db.close()
    store = Store(tmp_path)
    with pytest.warns(UserWarning, match=f"has format {FORMAT + 1}.*set aside"):
        assert store.read(KEY) is None
    assert sqlite3.connect(tmp_path / f"{FILE}.aside1").execute("SELECT * FROM results")
    store.write(KEY, {"cycles": 1})
    assert store.keys() == (KEY,)


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="cannot be written"):
        Store(tmp_path / "file" / "folder").write(KEY, {})
    with warnings.catch_warnings(record=True) as again:
        warnings.simplefilter("always")
        assert Store(tmp_path / "file" / "folder").read(KEY) is None
    assert not again, "a search would say it hundreds of times"


def test_threads_share_it(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fill(start: int) -> None:
        for n in range(start, start + 20):
            store.write(str(n), {"n": n})

    workers = [threading.Thread(target=fill, args=(start,)) for start in (0, 10, 20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [store.read(str(n)) for n in range(40)] == [{"n": n} for n in range(40)]


def test_what_a_killed_process_said_it_kept_is_there(tmp_path: Path) -> None:
    """Two writers share the file; one is killed with -9 in the middle, the other goes on."""
    script = f"""
import sys
from pathlib import Path
from pipeloom.drive.store import Store
store = Store(Path({str(tmp_path)!r}))
for n in range(100000):
    store.write(f"{{sys.argv[1]}}-{{n}}", {{"n": [n] * 200}})
    print(n, flush=True)
"""
    command = [sys.executable, "-c", script]
    pipe = subprocess.PIPE
    writers = [
        subprocess.Popen([*command, name], stdout=pipe, text=True, env=_environment())
        for name in "ab"
    ]
    said: list[list[str]] = []
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    time.sleep(0.15)
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
        assert writer.stdout is not None
        said.append(writer.stdout.read().split())
        writer.wait()
    store = Store(tmp_path)
    for name, lines in zip("ab", said, strict=True):
        assert len(lines) > 3
        for n in map(int, lines):
            assert store.read(f"{name}-{n}") == {"n": [n] * 200}


def test_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELOOM_STORE", str(tmp_path / "here"))
    assert Store.usual().folder == tmp_path / "here"
    monkeypatch.setenv("PIPELOOM_STORE", "off")
    off = Store.usual()
    off.write(KEY, {"cycles": 1})
    assert off.read(KEY) is None
    assert off.keys() == ()
    monkeypatch.delenv("PIPELOOM_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Store.usual().folder == tmp_path / "pipeloom"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Store.usual().folder == tmp_path / ".cache" / "pipeloom"


def test_digests_go_by_content() -> None:
    assert digest({"a": 1, "b": [2]}) == digest(json.loads('{"b": [2], "a": 1}'))
    assert digest({"a": 1}) != digest({"a": 2})
    assert version() == version()


def test_the_version_is_of_our_sources_and_those_named() -> None:
    root, more = Path(pipeloom.__file__).parent, ("tuning/library.py", "tuning/search.py")
    assert version() == sources_digest(root)
    assert version(*more) == sources_digest(root, more)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
