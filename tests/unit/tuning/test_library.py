"""What is written into a library: one type, safe names, nothing that others may have written."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.store import Store
from pipeloom.errors import ScheduleError
from pipeloom.judge.simulate.whole_gpu import Plan
from pipeloom.tuning import library
from tests.unit.tuning.library_stand import (
    BLOCK,
    tuned_as,
    write_quickly,
)


def test_a_library_is_of_one_type(tmp_path: Path) -> None:
    one = tuned_as(GemmProblem(96, 64, 128), Plan(BLOCK))
    other = replace(one, chip="MI350X")
    with pytest.raises(ScheduleError, match="one chip, one type, one layout"):
        write_quickly([one, other], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ScheduleError, match="cannot write"):
        write_quickly([one], tmp_path / "file" / "lib")


def test_no_byte_of_a_kernel_comes_from_the_store(tmp_path: Path) -> None:
    """Whatever every entry says, the same code and the same record are written."""
    store = Store(tmp_path)
    spec = tuned_as(GemmProblem(96, 64, 128), Plan(BLOCK)).spec
    before = library.kernel_of(spec, store)
    for key in store.keys():  # noqa: SIM118
        entry = store.read(key) or {}
        if "program" not in entry and "tried" not in entry:
            store.write(key, {"right": "x", "record": {"kernel": "../../evil"}, "codes": {"a": ""}})
    assert library.kernel_of(spec, store) == before


@pytest.mark.parametrize("name", ["../evil", "a b", "", "a\n", 'a"', "é", "a" * 300, "1a"])
def test_names_are_identifiers(name: str) -> None:
    with pytest.raises(ScheduleError, match="no name of a kernel"):
        library._identifier(name)


def test_no_field_of_a_record_ends_as_code(folder: Path) -> None:
    """Text is escaped as C has it, numbers are numbers."""
    table = json.loads((folder / "dispatch.json").read_text())
    evil = '"}; system("x"); /* \\ é\n'
    for place in (table, next(iter(table["kernels"].values()))):
        for key in [key for key, value in place.items() if isinstance(value, int)]:
            changed = json.loads(json.dumps(table))
            (changed if place is table else next(iter(changed["kernels"].values())))[key] = evil
            try:
                written = library.c_table(changed)
            except (ValueError, ScheduleError):
                continue
            assert "system" not in written, key
    record = next(iter(table["kernels"].values()))
    record["file"] = evil
    written = library.c_table(table)
    (line,) = [line for line in written.splitlines() if "system" in line]
    literal = line.split(", ")[1]
    assert literal[0] == literal[-1] == '"'
    assert ast.literal_eval("b" + literal).decode() == evil
    table["target"] = evil
    with pytest.raises(ScheduleError, match="no name"):
        library.c_table(table)


def test_an_argument_that_a_kernel_does_not_take_has_no_offset(folder: Path) -> None:
    table = json.loads((folder / "dispatch.json").read_text())
    records = {record["kernel"]: record for record in table["kernels"].values()}
    for line in library.c_table(table).splitlines():
        name = next((name for name in records if line.lstrip().startswith(f'{{"{name}"')), None)
        if name is None:
            continue
        taken = {a["name"]: a["offset"] for a in records[name]["arguments"]}
        offsets = [int(n) for n in line[line.rindex("{") + 1 : line.rindex("}, ")].split(", ")]
        assert offsets == [taken.pop(value, -1) for value in library._VALUES]
        assert -1 in offsets
        assert not taken
        del records[name]
    assert not records
