"""Results kept on disk under the content of what was asked: a second call costs nothing.

    store = Store.usual()
    store.write(key, {...})          # one transaction: a reader sees the old or the new
    store.read(key)                  # None where there is none
    store.load(key, parse)           # what parse makes of it; None, and told, if it refuses

One SQLite file, ``store.sqlite`` in the folder that ``$PIPELOOM_STORE`` names (or is ``off``), else
in ``$XDG_CACHE_HOME/pipeloom`` or ``~/.cache/pipeloom``. Any number of processes share it; one that
is killed leaves everything that it had written. A key covers pipeloom's own sources, so no entry
outlives the code that made it. What is damaged, or of another format, is reported, set aside and
made again; a folder that cannot be written is reported, and nothing is kept. So is one that others
can write, unless ``$PIPELOOM_STORE_SHARED`` is ``yes``; and whoever reads an entry judges it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import threading
import warnings
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from pipeloom.errors import ScheduleError

VARIABLE = "PIPELOOM_STORE"
OFF = "off"
SHARED = "PIPELOOM_STORE_SHARED"
"""``yes`` lets a store be used that others can write."""
FILE = "store.sqlite"
FORMAT = 1
"""Of the file; SQLite keeps it as ``user_version``, which is 0 in a new one."""
_ROOT = Path(__file__).resolve().parent.parent
LAST = ("cli", "cms", "show", "tuning")
"""Packages that stand after what is kept."""
BUSY_SECONDS = 60
"""How long one waits for another's transaction."""
MOST_PACKED, MOST_TEXT = 8 << 20, 16 << 20
"""Bytes of an entry, as it lies in the file and unpacked; the largest seen have half a megabyte."""
_TABLE = (
    "CREATE TABLE entries (key TEXT PRIMARY KEY, digest TEXT NOT NULL,"
    " content BLOB NOT NULL) WITHOUT ROWID"
)
_REFUSALS = (
    ScheduleError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What reading an entry of the wrong form ends in."""

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "program": "program",
        "tried": "search",
        "codes": "kernel",
        "right": "verdict",
        "bounds": "bounds",
        "cost": "timing",
        "plan": "tuned",
        "findings": "report",
    }
)
"""A name that entries of one kind have, the first that fits, and what that kind is called."""

T = TypeVar("T")


class Entry(NamedTuple):
    """What the store holds under one key."""

    key: str
    kind: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Store:
    """The entries of a folder; None keeps nothing."""

    folder: Path | None

    @classmethod
    def usual(cls) -> Store:
        """Where the environment says."""
        asked = os.environ.get(VARIABLE)
        if asked == OFF:
            return cls(None)
        if asked:
            return cls(Path(asked))
        home = os.environ.get("XDG_CACHE_HOME")
        return cls((Path(home) if home else Path.home() / ".cache") / "pipeloom")

    @property
    def path(self) -> Path | None:
        """The file."""
        return None if self.folder is None else self.folder / FILE

    def read(self, key: str) -> dict[str, Any] | None:
        """The entry, if there is one and it is whole."""
        row = self._do(
            lambda db: db.execute(
                "SELECT substr(digest, 1, 65), CASE WHEN length(content) <= ? THEN content END "
                "FROM entries WHERE key = ?",
                (MOST_PACKED, key),
            ).fetchone()
        )
        if row is None:
            return None
        try:
            content = json.loads(_unpacked(row[1]))
            whole = row[0] == digest(content) and isinstance(content, dict)
        except (ValueError, TypeError, RecursionError, zlib.error):
            whole = False
        if whole:
            return dict(content)
        self._keep_aside(key, "is damaged")
        return None

    def load(self, key: str, parse: Callable[[dict[str, Any]], T]) -> T | None:
        """``parse`` of the entry, which judges it; an entry that it refuses is set aside."""
        entry = self.read(key)
        if entry is None:
            return None
        try:
            return parse(entry)
        except _REFUSALS as error:
            said = error.message if isinstance(error, ScheduleError) else str(error)
            self._keep_aside(key, f"is damaged ({said[:200] or type(error).__name__})")
            return None

    def _keep_aside(self, key: str, fault: str) -> None:
        aside = f"{key}.damaged"
        self._do(
            lambda db: db.execute(
                "UPDATE OR REPLACE entries SET key = ? WHERE key = ?", (aside, key)
            )
        )
        warnings.warn(f"{key} in {self.path} {fault}; set aside as {aside}", stacklevel=3)

    def write(self, key: str, content: Mapping[str, Any]) -> None:
        """Keep an entry, in place of what is there; one that is too large to be read is not."""
        if self.folder is None:
            return
        text = _text(content).encode()
        packed = zlib.compress(text, 1)
        if len(text) > MOST_TEXT or len(packed) > MOST_PACKED:
            warnings.warn(f"{len(text):,} bytes are too many to be kept", stacklevel=2)
            return
        row = (key, digest(content), packed)
        self._do(lambda db: db.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", row))

    def drop(self, key: str) -> None:
        """Forget an entry, if there is one."""
        self._do(lambda db: db.execute("DELETE FROM entries WHERE key = ?", (key,)))

    def keys(self) -> tuple[str, ...]:
        """Of all entries, those set aside included."""
        rows = self._do(lambda db: db.execute("SELECT key FROM entries ORDER BY key").fetchall())
        return tuple(key for (key,) in rows or ())

    def listed(self) -> tuple[Entry, ...]:
        """Every entry, what it is of and how large."""
        rows = self._do(
            lambda db: db.execute(
                "SELECT key, length(content), CASE WHEN length(content) <= ? THEN content END "
                "FROM entries ORDER BY key",
                (MOST_PACKED,),
            ).fetchall()
        )
        return tuple(Entry(key, _kind(key, content), size) for key, size, content in rows or ())

    def size(self) -> int:
        """Bytes of the file and of all that was set aside beside it."""
        path = self.path
        if path is None:
            return 0
        return sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*"))

    def prune(self, *, everything: bool = False) -> int:
        """Forget what was set aside, or everything; how many entries and files that were."""
        path = self.path
        if path is None:
            return 0
        asides = list(path.parent.glob(f"{path.name}.aside*"))
        for one in asides:
            one.unlink(missing_ok=True)
        chosen = "" if everything else " WHERE key LIKE '%.damaged'"
        dropped = self._do(lambda db: db.execute(f"DELETE FROM entries{chosen}").rowcount)
        self._do(lambda db: db.execute("VACUUM"))
        self._do(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
        return len(asides) + (dropped or 0)

    def _do(self, job: Callable[[sqlite3.Connection], T]) -> T | None:
        """Do it in the file, in a new one where that is damaged; None where there can be none."""
        path = self.path
        if path is None:
            return None
        for _ in range(3):
            opened = _open(path)
            if opened is None:
                return None
            try:
                return job(opened.connection)
            except sqlite3.OperationalError as error:
                _tell(f"{path} cannot be used now: {error}")
                return None
            except sqlite3.DatabaseError as error:
                _set_aside(path, opened.inode, f"is damaged ({error})")
        return None


@dataclass(frozen=True, slots=True)
class _Opened:
    connection: sqlite3.Connection
    inode: int


_OPEN: dict[tuple[Path, int, int], _Opened] = {}
"""One per file, process and thread: a connection must not cross a fork."""


def _open(path: Path) -> _Opened | None:
    here = (path, os.getpid(), threading.get_ident())
    opened = _OPEN.get(here)
    if opened is not None and _inode(path) == opened.inode:
        return opened
    for _ in range(3):
        inode = _inode(path)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            if (who := _others(path)) is not None:
                _tell(
                    f"{who} can be written by others, so nothing is read or kept there; use chmod "
                    f"go-w, or set {SHARED}=yes if they may decide what you are given"
                )
                return None
            connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        except (OSError, sqlite3.OperationalError) as error:
            _tell(f"{path} cannot be written, nothing is kept: {error}")
            return None
        try:
            fault = _prepared(connection)
        except sqlite3.OperationalError as error:
            connection.close()
            _tell(f"{path} cannot be written, nothing is kept: {error}")
            return None
        except sqlite3.DatabaseError as error:
            fault = f"is damaged ({error})"
        if fault is None:
            _OPEN[here] = _Opened(connection, _inode(path))
            return _OPEN[here]
        connection.close()
        _set_aside(path, inode, fault)
    return None


def _prepared(connection: sqlite3.Connection) -> str | None:
    """Make the table of a new file; what is wrong with the file otherwise."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    tables = connection.execute("SELECT type, substr(sql, 1, 1000) FROM sqlite_schema").fetchmany(2)
    if found == 0 and not tables:
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        found, tables = FORMAT, [("table", _TABLE)]
    connection.execute("COMMIT")
    if found != FORMAT:
        return f"has format {found}, and this pipeloom writes {FORMAT}"
    return None if tables == [("table", _TABLE)] else "holds other tables than ours"


def _others(path: Path) -> Path | None:
    """The folder or the file, if someone else than its owner, who is us, or root can write it."""
    if not hasattr(os, "getuid") or os.environ.get(SHARED) == "yes":
        return None
    for one in (path.parent, *(path.with_name(path.name + end) for end in ("", "-wal", "-shm"))):
        try:
            found = one.stat()
        except OSError:
            continue
        mine = found.st_uid in (os.getuid(), 0)
        if not mine or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return one
    return None


def _kind(key: str, packed: object) -> str:
    if key.endswith(".damaged"):
        return "damaged"
    try:
        found = json.loads(_unpacked(packed))
    except (ValueError, TypeError, RecursionError, zlib.error):
        return "damaged"
    return next((kind for name, kind in KINDS.items() if name in found), "other")


def _unpacked(packed: object) -> bytes:
    """What was compressed, unless it is more than an entry can be."""
    if not isinstance(packed, bytes):
        raise TypeError("an entry is bytes")
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(packed, MOST_TEXT)
    if not unpacker.eof:
        raise ValueError("an entry is cut short, or too large")
    return text


@cache
def _tell(fault: str) -> None:
    """What may stay as it is for the rest of a search is told once."""
    warnings.warn(fault, stacklevel=5)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _set_aside(path: Path, inode: int, fault: str) -> None:
    """Keep the file under another name; where another process has just done so, do nothing."""
    _OPEN.pop((path, os.getpid(), threading.get_ident()), None)
    if inode and _inode(path) != inode:
        return
    number = 1
    while (aside := path.with_name(f"{path.name}.aside{number}")).exists():
        number += 1
    try:
        for ending in ("", "-wal", "-shm"):
            part = path.with_name(path.name + ending)
            if part.exists():
                os.replace(part, aside.with_name(aside.name + ending))
    except OSError as error:
        _tell(f"{path} {fault} and stays: {error}")
        return
    warnings.warn(f"{path} {fault}; set aside as {aside.name}", stacklevel=4)


def digest(content: Any) -> str:
    """Of plain data: equal data, equal digest."""
    return hashlib.sha256(_text(content).encode()).hexdigest()


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


@cache
def version(*more: str) -> str:
    """Of this pipeloom: its sources, without those that only show and ask; and of ``more`` of them.

    Nothing that is kept may import a package of ``LAST``, unless its key names the module.
    """
    return _with(_own_sources(), _ROOT, more) if more else _own_sources()


@cache
def _own_sources() -> str:
    return sources_digest(_ROOT)


def sources_digest(root: Path, more: Collection[str] = ()) -> str:
    """Of the names and the contents of the sources under ``root``."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.partition("/")[0] not in LAST:
            found.update(name.encode())
            found.update(path.read_bytes())
    return _with(found.hexdigest(), root, more) if more else found.hexdigest()


def _with(sources: str, root: Path, more: Collection[str]) -> str:
    """A digest of sources, and of more files."""
    found = hashlib.sha256(sources.encode())
    for name in sorted(more):
        found.update(name.encode())
        found.update((root / name).read_bytes())
    return found.hexdigest()
