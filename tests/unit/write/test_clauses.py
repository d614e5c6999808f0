"""Soft clauses that could not be replayed are broken, where LLVM 22.1.8 breaks them too."""

from __future__ import annotations

import pytest

from pipeloom.write import Code
from pipeloom.write.clauses import break_clauses
from pipeloom.write.isa import LDS_DMA, Instruction, sgpr, vgpr


def load(code: Code, to: int, address: int) -> None:
    code("buffer_load_dwordx4", vgpr(to, 4), vgpr(address), sgpr(16, 4), 0, modifiers=["offen"])


def store(code: Code, data: int) -> None:
    code("buffer_store_dword", vgpr(data), vgpr(52), sgpr(32, 4), 0, modifiers=["offen"])


def stored_data_loaded(code: Code) -> None:
    store(code, 17)
    load(code, 2, 181)
    load(code, 14, 184)


def address_loaded(code: Code) -> None:
    load(code, 2, 181)
    load(code, 14, 3)


def address_overwritten(code: Code) -> None:
    load(code, 2, 184)
    load(code, 184, 181)


def own_address_and_another(code: Code) -> None:
    load(code, 2, 2)
    load(code, 12, 21)


def store_behind_load(code: Code) -> None:
    load(code, 2, 181)
    store(code, 17)


def lds_behind_load(code: Code) -> None:
    load(code, 2, 181)
    code(LDS_DMA, vgpr(52), sgpr(32, 4), 0, modifiers=["offen", "lds"])


def across_a_label(code: Code) -> None:
    load(code, 2, 181)
    code.label("here")
    load(code, 14, 3)


def scalars(code: Code) -> None:
    code("s_load_dwordx2", sgpr(2, 2), sgpr(0, 2), 0)
    code("s_load_dwordx2", sgpr(0, 2), sgpr(4, 2), 0)


def own_address(code: Code) -> None:
    load(code, 2, 2)


def apart(code: Code) -> None:
    load(code, 2, 181)
    load(code, 14, 184)


def behind_a_branch(code: Code) -> None:
    load(code, 2, 181)
    code("s_branch", "there")
    code.label("there")
    store(code, 17)


def of_two_kinds(code: Code) -> None:
    load(code, 2, 181)
    code("s_load_dwordx4", sgpr(16, 4), sgpr(0, 2), 0)


BROKEN = (
    stored_data_loaded,
    address_loaded,
    address_overwritten,
    own_address_and_another,
    store_behind_load,
    lds_behind_load,
    across_a_label,
    scalars,
)
WHOLE = (own_address, apart, behind_a_branch, of_two_kinds)


@pytest.mark.parametrize("write", [*BROKEN, *WHOLE], ids=lambda write: write.__name__)
def test_a_clause_ends_before_what_could_not_be_replayed(write: object) -> None:
    assert callable(write)
    code = Code()
    write(code)
    lines = list(break_clauses(code.lines))
    names = [line.opcode.name for line in lines if isinstance(line, Instruction)]
    assert names.count("s_nop") == (write in BROKEN)
    assert [line for line in lines if str(line) != "s_nop 0"] == list(code.lines)
    assert "s_nop" not in (names[0], names[-1])
    assert list(break_clauses(lines)) == lines
