"""The store: what is written is read, what is damaged is told and set aside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeloom.drive.store import Store, digest, version

KEY = "0123456789abcdef"


def test_written_and_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "folder")
    assert store.read(KEY) is None
    store.write(KEY, {"cycles": 2048.0, "notes": ["a"]})
    assert store.read(KEY) == {"cycles": 2048.0, "notes": ["a"]}
    store.write(KEY, {"cycles": 1})
    assert store.read(KEY) == {"cycles": 1}
    assert [p.name for p in (tmp_path / "new" / "folder").iterdir()] == [f"{KEY}.json"]
    store.drop(KEY)
    store.drop(KEY)
    assert store.read(KEY) is None


@pytest.mark.parametrize("damage", ["truncate", "change", "nonsense"])
def test_a_damaged_entry_is_set_aside(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    store.write(KEY, {"cycles": 2048})
    path = tmp_path / f"{KEY}.json"
    text = path.read_text()
    changed = {"truncate": text[:-9], "change": text.replace("2048", "1024"), "nonsense": "[]"}
    path.write_text(changed[damage])
    with pytest.warns(UserWarning, match="is damaged; set aside"):
        assert store.read(KEY) is None
    assert (tmp_path / f"{KEY}.damaged").read_text() == changed[damage]
    assert store.read(KEY) is None
    store.write(KEY, {"cycles": 2048})
    assert store.read(KEY) == {"cycles": 2048}


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="cannot be written"):
        Store(tmp_path / "file" / "folder").write(KEY, {})


def test_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELOOM_STORE", str(tmp_path / "here"))
    assert Store.usual().folder == tmp_path / "here"
    monkeypatch.setenv("PIPELOOM_STORE", "off")
    off = Store.usual()
    off.write(KEY, {"cycles": 1})
    assert off.read(KEY) is None
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
