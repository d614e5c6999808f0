"""Python files of the user's own: imported as a script is, with errors that name their line."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import traceback
from pathlib import Path
from types import ModuleType

from pipeloom.checks import nearest
from pipeloom.errors import SpecError


def import_file(path: Path, field: str = "schedule") -> ModuleType:
    """The file as a module, with its folder on the path as for a script."""
    if not path.is_file():
        raise SpecError(
            f"there is no file {path}", hint="check the path before the colon", field=field
        )
    name = f"pipeloom_declared_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise raised(str(path), error, f"importing {path} raised", field) from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module


def named_object(text: str, field: str) -> object:
    """What ``my.py:name`` names."""
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py") or not name:
        raise SpecError(
            f"{text!r} names nothing of a Python file", hint="write my.py:NAME", field=field
        )
    module = import_file(Path(path), field)
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise SpecError(f"{path} has no name {name!r}", hint=nearest(name, public), field=field)
    found: object = getattr(module, name)
    return found


def raised(text: str, error: BaseException, what: str, field: str = "schedule") -> SpecError:
    """The error with the last line of the user's own file that it came through."""
    file = text.rpartition(":")[0] if ".py:" in text else text
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(file)]
    number = frames[-1].lineno if frames else getattr(error, "lineno", None)
    line = linecache.getline(file, number).strip() if number else ""
    place = f"{file}:{number}: {line}" if line else f"look at {file}"
    return SpecError(f"{what} {type(error).__name__}: {error}", hint=place, field=field)
