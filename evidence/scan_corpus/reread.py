"""Read definite findings a second time, from the text of the disassembly alone.

    python -m evidence.scan_corpus.reread FOLDER ROWS.jsonl [ROWS.jsonl ...]

The scan joins what is in flight over all paths; this follows single paths from the first
instruction of a finding to the second, counts what is issued behind the first, and looks at each
``s_waitcnt`` and ``s_barrier`` on the way. It shares nothing with the scan but the disassembler.
``way`` is added to every definite finding of the rows: ``every`` if on no path between the two the
first is over for the second, ``some`` if on some paths, ``none`` if it always is. Which bytes of
LDS two waves touch is not read again.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeloom.files import write_file
from pipeloom.judge.emulate import load_code_object
from pipeloom.judge.emulate.decode import decode_once
from pipeloom.judge.emulate.disassembly import instruction_text

Line = tuple[int, str]
"""pc and text."""
_COUNT = {name: re.compile(rf"{name}\((\d+)\)") for name in ("vmcnt", "lgkmcnt")}
_VECTOR_MEMORY = ("buffer_", "global_", "flat_", "scratch_")
_NO_MEMORY = ("buffer_wbl2", "buffer_inv")
_KINDS = ("register", "lds", "lds-waves")
_MOST_BEHIND = 64
_FREE, _OVER, _KNOWN = range(3)
"""In flight; over for its own wave; over for all waves."""


@dataclass(frozen=True, slots=True)
class _Place:
    at: int
    behind: int
    stage: int


def _counter(text: str) -> str:
    """The counter that an instruction raises."""
    if text.startswith(_VECTOR_MEMORY) and not text.startswith(_NO_MEMORY):
        return "vmcnt"
    if text.startswith("ds_"):
        return "lgkmcnt"
    return "scalar" if text.startswith(("s_load", "s_buffer_load")) else ""


def read(lines: Sequence[Line], first: int, second: int, across: bool) -> str:
    """``every``, ``some`` or ``none``; ``first`` and ``second`` are positions."""
    places = {pc: at for at, (pc, _) in enumerate(lines)}
    counter = _counter(lines[first][1])
    seen: set[_Place] = set()
    todo = [_Place(at, 0, _FREE) for at in _follow(lines, places, first)]
    open_, over = False, False
    while todo:
        place = todo.pop()
        if place in seen or place.at >= len(lines):
            continue
        seen.add(place)
        if place.at == second:
            done = place.stage == _KNOWN if across else place.stage != _FREE
            over, open_ = over or done, open_ or not done
            continue
        if place.at == first:
            continue
        text = lines[place.at][1]
        behind, stage = place.behind, place.stage
        if _counter(text) == counter:
            behind = min(behind + 1, _MOST_BEHIND)
        if text.startswith("s_waitcnt") and stage == _FREE and _retires(text, counter, behind):
            stage = _OVER
        if text.startswith("s_barrier") and stage == _OVER:
            stage = _KNOWN
        todo += [_Place(at, behind, stage) for at in _follow(lines, places, place.at)]
    if not open_:
        return "none"
    return "some" if over else "every"


def _retires(text: str, counter: str, behind: int) -> bool:
    """Whether a wait leaves no more than were issued behind; scalar loads return in any order."""
    found = _COUNT["lgkmcnt" if counter == "scalar" else counter].search(text)
    return found is not None and int(found[1]) <= (0 if counter == "scalar" else behind)


def _follow(lines: Sequence[Line], places: dict[int, int], at: int) -> list[int]:
    name, _, operand = lines[at][1].partition(" ")
    if name == "s_endpgm":
        return []
    if name == "s_branch":
        return [places[int(operand, 16)]]
    if name.startswith("s_cbranch"):
        return [at + 1, places[int(operand, 16)]]
    return [at + 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", nargs="+", type=Path)
    arguments = parser.parse_args()
    for path in arguments.rows:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            _reread(arguments.folder, row)
        write_file(path, "".join(json.dumps(row) + "\n" for row in rows))


def _reread(folder: Path, row: dict[str, Any]) -> None:
    asked = [f for f in row["findings"] if f["definite"] and f["kind"] in _KINDS]
    if not asked:
        return
    (kernel,) = load_code_object((folder / row["file"]).read_bytes()).kernels.values()
    lines = [(one.pc, instruction_text(one)) for one in decode_once(kernel.code)]
    places = {pc: at for at, (pc, _) in enumerate(lines)}
    for finding in asked:
        first, second = (places[finding[side][0]] for side in ("first", "second"))
        finding["way"] = read(lines, first, second, finding["kind"] == "lds-waves")


if __name__ == "__main__":
    main()
