"""A copy of the tree in which mutants are present together, each asleep until it is asked for.

The changed expression stands beside the original, ``(changed if __mutant__(7) else original)``, so
one process that has everything imported can be forked for every mutant, and knows which of their
places a test comes by. ``PIPELOOM_MUTANT`` wakes one in processes that tests start, too.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.mutation.mutants import Mutant

VARIABLE = "PIPELOOM_MUTANT"
"""Names the number of the mutant that is awake."""
SWITCH = f"""
import builtins as _builtins
import os as _os

_AWAKE = int(_os.environ.get({VARIABLE!r}, "-1"))
if not hasattr(_builtins, "__mutant__"):
    _builtins.__mutant__ = lambda number: number == _AWAKE
"""
"""What the package begins with."""


def copy_tree(root: Path, into: Path) -> None:
    """The files of the work tree that git knows of, copied to ``into``."""
    shutil.rmtree(into, ignore_errors=True)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        if (root / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, into / name)
    (into / "build").mkdir(exist_ok=True)


def lay_out(root: Path, into: Path, numbered: Mapping[int, Mutant]) -> set[int]:
    """A copy of ``root`` with the mutants asleep, and the numbers of those left out.

    Mutants of patterns, which hold no conditions, cannot stand beside the original. Each of them
    needs a tree of its own.
    """
    copy_tree(root, into)
    package = into / "src" / "pipeloom"
    init = package / "__init__.py"
    init.write_text(init.read_text("utf-8") + SWITCH, "utf-8")
    left: set[int] = set()
    for path in sorted({m.path for m in numbered.values()}):
        file = package / path
        of = {n: m for n, m in numbered.items() if m.path == path}
        changed, out = with_switches(file.read_bytes(), of)
        file.write_bytes(changed)
        left |= out
    return left


def with_switches(source: bytes, numbered: Mapping[int, Mutant]) -> tuple[bytes, set[int]]:
    """``source`` with both texts at each place, and the numbers of those left out.

    From the back, and what lies within another one before that: a place that is come to has
    behind it, and in it, what has been changed already.
    """
    left: set[int] = set()
    changed = source
    grown: list[tuple[int, int, int]] = []
    for number, mutant in sorted(numbered.items(), key=lambda item: (-item[1].start, item[1].end)):
        inside = sum(by for start, end, by in grown if mutant.start <= start and end <= mutant.end)
        tried = _switched(changed, number, mutant, mutant.end + inside)
        if not _is_python(tried):
            left.add(number)
            continue
        grown.append((mutant.start, mutant.end, len(tried) - len(changed)))
        changed = tried
    return changed, left


def _switched(source: bytes, number: int, mutant: Mutant, end: int) -> bytes:
    before, after = source[mutant.start : end], mutant.after.encode()
    if mutant.after in ("break", "continue"):
        column = mutant.start - (source.rfind(b"\n", 0, mutant.start) + 1)
        text = b"if __mutant__(%d): %s\n%selse: %s" % (number, after, b" " * column, before)
    elif mutant.after == "pass":
        text = b"(None if __mutant__(%d) else %s)" % (number, before)
    else:
        text = b"(%s if __mutant__(%d) else (%s))" % (after, number, before)
    return source[: mutant.start] + text + source[end:]


def _is_python(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
