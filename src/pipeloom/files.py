"""Files: read if they are plain and not too large, written whole or not at all.

    text = read_text("loop.json")                    # OSError for a pipe, a device, 20 MB
    write_files({"lib/a.hsaco": code, "lib/a.json": text})
    with scratch_folder() as folder: ...             # gone afterwards, whatever happens

Text is UTF-8 whatever the locale says. Every file that pipeloom reads or writes goes through here,
but for the store's database.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeloom.errors import ScheduleError, SpecError

MOST_TEXT = 16 << 20
"""Bytes of a text file: parsed, JSON takes some twenty times its size."""
MOST_BINARY = 128 << 20
"""Bytes of a code object."""


def read_file(path: str | os.PathLike[str], most: int = MOST_BINARY) -> bytes:
    """The content of a regular file of at most ``most`` bytes; ``OSError`` says what is wrong."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as stream:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file")
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return data


def read_text(path: str | os.PathLike[str], most: int = MOST_TEXT) -> str:
    """The same as text; ``UnicodeDecodeError`` where it is not UTF-8."""
    return read_file(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


@contextmanager
def reading(
    what: object,
    hint: str | None = None,
    field: str | None = None,
    error: type[ScheduleError] = SpecError,
) -> Iterator[None]:
    """A file that is read in here; what is wrong with it is raised as one of pipeloom's errors."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as found:
        why = getattr(found, "strerror", None) or found
        raise error(f"cannot read {what}: {why}", hint=hint, field=field) from found


def read_data(
    path: str | os.PathLike[str], what: str, hint: str, field: str | None = None, *, form: str
) -> Any:
    """What a file of JSON or TOML (``form``) holds; ``SpecError`` where there is no such file.

    ``what`` is the file in words (``the chip file x.toml``), ``hint`` how to come by one.
    """
    read = {"JSON": json.loads, "TOML": tomllib.loads}[form]
    try:
        return read(read_text(path))
    except OSError as error:
        why = f"cannot read {what}: {error.strerror}"
        raise SpecError(why, hint=hint, field=field) from error
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{what} is not {form}: {error}", hint=hint, field=field) from error


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write the whole file or leave the old one.

    A device or pipe (``/dev/stdout``, ``/dev/null``) is written in place: renaming over it would
    put a plain file where the device was.
    """
    target = Path(path)
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(_bytes(content))
            return
    except OSError as error:
        raise _unwritten(target, error, "check that the folder exists") from error
    write_files({target: content})


def write_files(contents: Mapping[Path, str | bytes]) -> None:
    """Write all of them, or leave every old one: temporary files beside them, then renames.

    Folders that are missing are made for more than one file.
    """
    staged: dict[Path, Path] = {}
    made: list[Path] = []
    target = Path()
    try:
        for target, content in contents.items():
            if len(contents) > 1:
                _make_folder(target.parent, made)
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            staged[target] = target.parent / f".{secrets.token_hex(8)}.part"
            with open(staged[target], "xb") as stream:
                stream.write(_bytes(content))
        for target, temporary in staged.items():
            os.replace(temporary, target)
        made.clear()
    except OSError as error:
        hint = "name a folder" if len(contents) > 1 else "check that the folder exists"
        raise _unwritten(target, error, hint) from error
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
        for folder in reversed(made):
            try:
                folder.rmdir()
            except OSError:
                break


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for others' programs to work in, with all that they leave in it."""
    folder = Path(tempfile.gettempdir()) / f"pipeloom-{secrets.token_hex(8)}"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _bytes(content: str | bytes) -> bytes:
    """Half of a surrogate pair, which UTF-8 cannot say, becomes its escape."""
    return content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")


def _make_folder(folder: Path, made: list[Path]) -> None:
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        made.append(one)
        one.mkdir()
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _unwritten(target: Path, error: OSError, hint: str) -> SpecError:
    hint = "give the path of a file" if isinstance(error, IsADirectoryError) else hint
    return SpecError(f"cannot write {target}: {error.strerror}", hint=hint, field="output")
