"""Whoever can write the store decides nothing: what is read is judged again, or set aside."""

from __future__ import annotations

import copy
import os
import shutil
import sqlite3
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeloom.declare.kernels import gemm
from pipeloom.drive import deriving, store
from pipeloom.drive.deriving import _tried, derive, derived_key
from pipeloom.drive.loop_cycles import steady_cycles
from pipeloom.drive.store import FILE, SHARED, Store, sources_digest
from pipeloom.errors import SpecError
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.plain import from_plain
from pipeloom.program.program import Program

KEY = "0123456789abcdef"
LOOP, TARGET = gemm(64, 64, 32), target_for("gfx950")

pytestmark = pytest.mark.usefixtures("short_search")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The entries that derive writes: its result, and what it has tried."""
    kept = Store(tmp_path_factory.mktemp("derived"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deriving, "VARIED", 0)
        assert derive(LOOP, TARGET, 4, store=kept) is not None
    return {key: kept.read(key) or {} for key in kept.keys()}  # noqa: SIM118


@pytest.fixture
def derived(searched: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The result."""
    return searched[derived_key(LOOP, TARGET, 4)]


def _without_waits(entry: dict[str, Any]) -> None:
    """Of one counter, in the loop."""
    (group,) = entry["program"]["groups"]
    steps = next(s["steps"] for s in group["sections"] if s["name"] == "loop")
    counter = next(s["counter"] for s in steps if s["is"] == "wait")
    steps[:] = [s for s in steps if s["is"] != "wait" or s["counter"] != counter]


def _other_cycles(entry: dict[str, Any]) -> None:
    entry["cycles"] /= 2


def _other_notes(entry: dict[str, Any]) -> None:
    entry["program"]["provenance"]["notes"] = ["faster than light"]


def _other_bound(entry: dict[str, Any]) -> None:
    entry["bound"] = 1


def _of_another_loop(entry: dict[str, Any]) -> None:
    entry["program"]["meaning"]["name"] = "another"


def _malformed(entry: dict[str, Any]) -> None:
    entry["program"]["groups"] = 7


@pytest.mark.parametrize(
    "change",
    [_without_waits, _other_cycles, _other_notes, _other_bound, _of_another_loop, _malformed],
)
def test_a_changed_result_of_derive_is_made_again(
    tmp_path: Path,
    searched: dict[str, dict[str, Any]],
    derived: dict[str, Any],
    change: Callable[[dict[str, Any]], None],
) -> None:
    kept, key = _store_of(tmp_path, searched), derived_key(LOOP, TARGET, 4)
    entry = copy.deepcopy(derived)
    change(entry)
    assert entry != derived
    if change is _without_waits:
        assert not verify(from_plain(Program, entry["program"])).proved
    kept.write(key, entry)
    with pytest.warns(UserWarning, match="is damaged .*set aside"):
        found = derive(LOOP, TARGET, 4, store=kept)
    assert found is not None
    assert verify(found.program).proved
    assert kept.read(key) == derived
    assert {f"{key}.damaged"} <= set(kept.keys())


def test_an_unchanged_result_is_taken(tmp_path: Path, derived: dict[str, Any]) -> None:
    kept = Store(tmp_path)
    kept.write(derived_key(LOOP, TARGET, 4), derived)
    assert derive(LOOP, TARGET, 4, store=kept) is not None
    assert kept.keys() == (derived_key(LOOP, TARGET, 4),), "nothing was searched"


def _store_of(folder: Path, searched: dict[str, dict[str, Any]]) -> Store:
    kept = Store(folder)
    for key, entry in searched.items():
        kept.write(key, entry)
    return kept


def test_cycles_that_an_earlier_search_claims_are_simulated_again(
    tmp_path: Path, searched: dict[str, dict[str, Any]], derived: dict[str, Any]
) -> None:
    kept = _store_of(tmp_path, searched)
    log = f"{derived_key(LOOP, TARGET, 4)}-search"
    tried = copy.deepcopy(searched[log])
    for one in tried["tried"]:
        one["cycles"] = one["cycles"] and one["cycles"] * 1.01
    kept.write(log, tried)
    kept.drop(derived_key(LOOP, TARGET, 4))
    again = derive(LOOP, TARGET, 4, store=kept)
    assert again is not None
    assert again.cycles == steady_cycles(again.program) == derived["cycles"]


@pytest.mark.parametrize("cycles", [-1, 0, 99, float("inf"), float("nan"), "many", [1]])
def test_a_log_of_a_search_that_cannot_be_true_is_refused(
    tmp_path: Path, derived: dict[str, Any], cycles: object
) -> None:
    kept = Store(tmp_path)
    kept.write(KEY, {"tried": [{"pattern": derived["pattern"], "cycles": cycles}]})
    with pytest.warns(UserWarning, match="is damaged"):
        assert kept.load(KEY, lambda entry: _tried(entry, bound=100)) is None
    kept.write(KEY, {"tried": [{"pattern": derived["pattern"], "cycles": 100.0}]})
    assert list((kept.load(KEY, lambda entry: _tried(entry, bound=100)) or {}).values()) == [100]


def _row(folder: Path, content: bytes) -> None:
    Store(folder).write(KEY, {"n": 1})
    with sqlite3.connect(folder / FILE) as db:
        db.execute("UPDATE entries SET content = ? WHERE key = ?", (content, KEY))
    db.close()


def test_a_row_that_unpacks_to_gigabytes_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 GB take 4 MB, packed; here the limit is as far below what is unpacked."""
    monkeypatch.setattr(store, "MOST_TEXT", 1 << 12)
    asked: list[int] = []

    class Watched:
        def __init__(self) -> None:
            self.inner = real()

        def decompress(self, data: bytes, most: int) -> bytes:
            asked.append(most)
            return self.inner.decompress(data, most)

        @property
        def eof(self) -> bool:
            return self.inner.eof

    real = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Watched)
    _row(tmp_path, zlib.compress(b'{"n": "' + b"0" * (1 << 22) + b'"}'))
    with pytest.warns(UserWarning, match="is damaged"):
        assert Store(tmp_path).read(KEY) is None
    assert asked == [1 << 12]


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"n":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"n":1}' + b" " * 100,
        b"\xff\xfe",
    ],
)
def test_a_row_of_nonsense_is_damaged(tmp_path: Path, content: bytes) -> None:
    _row(tmp_path, zlib.compress(content)[: None if content[:1] != b"[" else -3])
    if content.strip() == b'{"n":1}':
        assert Store(tmp_path).read(KEY) == {"n": 1}
        return
    with pytest.warns(UserWarning, match="is damaged"):
        assert Store(tmp_path).read(KEY) is None


def test_a_row_of_more_bytes_than_are_read_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_PACKED", 64)
    _row(tmp_path, zlib.compress(b'{"n":1}') + bytes(64))
    with pytest.warns(UserWarning, match="is damaged"):
        assert Store(tmp_path).read(KEY) is None


def test_an_entry_that_could_not_be_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_TEXT", 100)
    with pytest.warns(UserWarning, match="too many to be kept"):
        Store(tmp_path).write(KEY, {"n": "0" * 100})
    assert Store(tmp_path).keys() == ()


def test_a_table_that_computes_its_rows_is_set_aside(tmp_path: Path) -> None:
    """A view in place of the table could run for ever, and write rows as it is read."""
    db = sqlite3.connect(tmp_path / FILE)
    db.execute(
        "CREATE VIEW entries AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT '' AS key, '' AS digest, x AS content FROM n"
    )
    db.execute(f"PRAGMA user_version = {store.FORMAT}")
    db.commit()
    db.close()
    os.chmod(tmp_path / FILE, 0o600)
    with pytest.warns(UserWarning, match="other tables than ours; set aside"):
        assert Store(tmp_path).read(KEY) is None


posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners and modes")


@posix
@pytest.mark.parametrize("which", ["folder", "file"])
@pytest.mark.parametrize("mode", [stat.S_IWGRP, stat.S_IWOTH])
def test_a_store_that_others_can_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, mode: int
) -> None:
    folder = tmp_path / "store"
    Store(folder).write(KEY, {"n": 1})
    store._OPEN.clear()
    store._tell.cache_clear()
    changed = folder if which == "folder" else folder / FILE
    changed.chmod(stat.S_IMODE(changed.stat().st_mode) | mode)
    with pytest.warns(UserWarning, match=f"{changed.name} can be written by others.*chmod"):
        assert Store(folder).read(KEY) is None
    monkeypatch.setenv(SHARED, "yes")
    assert Store(folder).read(KEY) == {"n": 1}


@posix
def test_a_store_of_someone_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path).write(KEY, {"n": 1})
    owner = (tmp_path / FILE).stat().st_uid
    os_stat = Path.stat

    def of_another(path: Path, **options: bool) -> os.stat_result:
        found = os_stat(path, **options)
        return os.stat_result((*found[:4], owner + 1, *found[5:])) if path.name == FILE else found

    monkeypatch.setattr(Path, "stat", of_another)
    assert store._others(tmp_path / FILE) == tmp_path / FILE


@posix
def test_a_new_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        Store(tmp_path / "new").write(KEY, {"n": 1})
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "new" / FILE).stat().st_mode) == 0o600


def test_what_reading_refuses_is_set_aside(tmp_path: Path) -> None:
    kept = Store(tmp_path)
    kept.write(KEY, {"n": 1})

    def refuse(entry: dict[str, Any]) -> int:
        raise SpecError(f"{entry['n']} is not what it says")

    with pytest.warns(UserWarning, match="1 is not what it says.*set aside"):
        assert kept.load(KEY, refuse) is None
    assert kept.load(KEY, lambda entry: int(entry["n"])) is None
    kept.write(KEY, {"n": 2})
    assert kept.load(KEY, lambda entry: int(entry["n"])) == 2


# ------------------------------------------------------------- keys cover the sources


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name in ("drive/a.py", "judge/verify/b.py", "cli/c.py", "tuning/d.py", "show/e.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}")
    return tmp_path


@pytest.mark.parametrize("name", ["drive/a.py", "judge/verify/b.py"])
def test_an_upgrade_forgets_what_older_sources_made(sources: Path, name: str) -> None:
    before = sources_digest(sources)
    (sources / name).write_text("# changed")
    changed = sources_digest(sources)
    (sources / name).rename(sources / name.replace(".py", "2.py"))
    assert len({before, changed, sources_digest(sources)}) == 3


@pytest.mark.parametrize("name", ["cli/c.py", "tuning/d.py", "show/e.py"])
def test_what_only_shows_is_not_part_of_a_key_unless_it_is_named(sources: Path, name: str) -> None:
    before, named = sources_digest(sources), sources_digest(sources, (name,))
    (sources / name).write_text("# changed")
    assert sources_digest(sources) == before != named
    assert sources_digest(sources, (name,)) != named


def test_the_same_sources_elsewhere_give_the_same_key(sources: Path, tmp_path: Path) -> None:
    other = tmp_path.parent / f"{tmp_path.name}-other"
    shutil.copytree(sources, other)
    assert sources_digest(sources) == sources_digest(other)
