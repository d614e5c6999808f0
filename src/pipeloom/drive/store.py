"""Results kept on disk under the content of what was asked: a second call costs nothing.

    store = Store.usual()
    store.write(key, {...})          # atomically; a reader sees the old entry or the new one
    store.read(key)                  # None where there is none

``$PIPELOOM_STORE`` names the folder, or is ``off``; else it is ``$XDG_CACHE_HOME/pipeloom`` or
``~/.cache/pipeloom``. A key covers pipeloom's own sources, so no entry outlives the code that made
it. A damaged entry is reported, set aside and made again; a folder that cannot be written is
reported, and nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "PIPELOOM_STORE"
OFF = "off"


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of entries; None keeps nothing."""

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

    def path(self, key: str) -> Path | None:
        """The file of an entry."""
        return None if self.folder is None else self.folder / f"{key}.json"

    def read(self, key: str) -> dict[str, Any] | None:
        """The entry, if there is one and it is whole."""
        path = self.path(key)
        if path is None:
            return None
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            return None
        try:
            entry = json.loads(text)
            content = entry["content"]
            whole = entry["digest"] == digest(content) and isinstance(content, dict)
        except (ValueError, KeyError, TypeError):
            whole = False
        if whole:
            return dict(content)
        self._set_aside(path)
        return None

    def write(self, key: str, content: Mapping[str, Any]) -> None:
        """Keep an entry, in place of what is there."""
        path = self.path(key)
        if path is None:
            return
        entry = {"digest": digest(content), "content": content}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=path.parent, prefix=f".{key[:8]}", delete=False
            ) as file:
                json.dump(entry, file, sort_keys=True)
            os.replace(file.name, path)
        except OSError as error:
            warnings.warn(f"{path} cannot be written, nothing is kept: {error}", stacklevel=3)

    def drop(self, key: str) -> None:
        """Forget an entry, if there is one."""
        path = self.path(key)
        if path is not None:
            path.unlink(missing_ok=True)

    def _set_aside(self, path: Path) -> None:
        aside = path.with_suffix(".damaged")
        try:
            os.replace(path, aside)
        except OSError as error:
            warnings.warn(f"{path} is damaged and stays: {error}", stacklevel=4)
            return
        warnings.warn(f"{path} is damaged; set aside as {aside.name}", stacklevel=4)


def digest(content: Any) -> str:
    """Of plain data: equal data, equal digest."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def version() -> str:
    """Of this pipeloom: its sources."""
    root = Path(__file__).resolve().parent.parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode())
        found.update(path.read_bytes())
    return found.hexdigest()
