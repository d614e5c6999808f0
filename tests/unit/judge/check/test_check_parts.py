"""Parts of the judge of recorded runs, each against a slow or independent answer."""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeloom.judge.check import debug_lines as reading
from pipeloom.judge.check.debug_lines import debug_lines
from pipeloom.judge.check.pairs import Conflict, Pairs
from pipeloom.judge.check.record import WaveTrace, _cells
from pipeloom.judge.check.register_flow import FlowReader, Taint, _dead, _needs, _unmasked
from pipeloom.judge.check.retirement import Order
from pipeloom.judge.check.static import EXEC_BITS, Static, _memory, statics
from pipeloom.judge.emulate.addressing import OFF
from pipeloom.judge.emulate.pending import WaitQueue
from pipeloom.judge.emulate.register_numbers import ALL_LANES, EXEC, VGPR, register_bits

# ------------------------------------------------------------------------------ cells of an access


@pytest.mark.parametrize("granule", [1, 4])
def test_cells_are_those_that_bytes_lie_in(granule: int) -> None:
    rng = random.Random(3)
    for _ in range(300):
        size = rng.choice((1, 2, 3, 4, 6, 8, 12, 16))
        offsets = np.array([rng.randrange(64) for _ in range(rng.randrange(1, 5))], np.int64)
        cells, first = _cells(offsets, size, granule)
        touched = {(int(at) + byte) // granule for at in offsets for byte in range(size)}
        assert set(map(int, cells)) == touched
        assert len(cells) == len(touched)
        if first is not None:  # which part of the data a cell gets, of the access that has it first
            parts = size // granule
            for cell, part in zip(cells, first, strict=True):
                assert int(offsets[part // parts]) // granule + part % parts == cell


# ------------------------------------------------------------------------- order by barriers


@pytest.mark.parametrize("added", [False, True])
def test_each_wave_has_its_own_time_of_a_barrier(added: bool) -> None:
    """Wave 0 passes it late, wave 1 soon: what counts is on which side of its own each access is.

    Doubled times: an access at t is issued at 2 t, and here it has retired one later.
    """

    def wave(barrier: int) -> Any:
        return SimpleNamespace(
            retired=lambda sync: 2 * np.arange(20) + 1,
            barrier_times=lambda sync: np.array([2 * barrier - 1]),
        )

    pairs = Pairs.of(
        (*pair, Conflict.RAW, 0, 0)
        for pair in ((0, 3, 1, 4), (0, 12, 1, 4), (0, 3, 1, 1), (1, 1, 0, 11), (1, 1, 0, 9))
    )
    sync: Any = SimpleNamespace(added=added)
    late = Order([wave(10), wave(2)], pairs).unordered(sync)
    assert late.tolist() == [False, True, True, False, True]


# ------------------------------------------------------------------------- registers as meant


def _static(**changed: Any) -> Static:
    plain = {
        "reads": 0, "writes": 0, "touched": 0, "lasting": False, "whole": False,
        "branch": False, "scalar": False, "saves": 0, "joins": False, "local": 0, "place": 0,
        "stored": 0, "overwrites": changed.get("writes", 0),
    }  # fmt: skip
    return Static(**{**plain, **changed})


def _taint(step: Static, held: int, *, joined: int | None = None, lanes: int = ALL_LANES) -> int:
    trace: Any = SimpleNamespace(steps=[0], loads=[], joined={} if joined is None else {0: joined})
    taint = Taint(trace, [step], [lanes], lambda time, asked: asked, held)
    taint.advance(0)
    return taint.held


V1, V2, S4 = register_bits(VGPR + 1, 1), register_bits(VGPR + 2, 1), register_bits(4, 2)


def test_lanes_that_come_back_end_what_was_meant_of_exec_only_if_they_are_all() -> None:
    """EXEC |= s[4:5], which held all lanes of the beginning and is not meant itself."""
    step = _static(reads=S4 | EXEC_BITS, writes=EXEC_BITS, joins=True, scalar=True)
    assert _taint(step, EXEC_BITS, joined=ALL_LANES) == 0
    assert _taint(step, EXEC_BITS, joined=1) == EXEC_BITS
    assert _taint(step, EXEC_BITS | S4, joined=ALL_LANES) == EXEC_BITS | S4
    # Of an instruction that does not join lanes, nothing of the kind is known.
    other = _static(reads=S4 | EXEC_BITS, writes=EXEC_BITS, joins=False, scalar=True)
    assert _taint(other, EXEC_BITS, joined=ALL_LANES) == EXEC_BITS


def test_what_is_written_is_meant_as_its_operands_are() -> None:
    step = _static(reads=V1, writes=V2)
    assert _taint(step, V1) == V1 | V2
    assert _taint(step, V2) == 0, "overwritten"
    assert _taint(step, V2, lanes=1) == V2, "other lanes keep it"
    assert _taint(_static(reads=V1, writes=V2, whole=True), V2, lanes=1) == 0
    assert _taint(_static(reads=V1, writes=V2, overwrites=0), V2) == V2
    assert _taint(step, EXEC_BITS) == EXEC_BITS | V2, "other lanes might be active"
    assert _taint(_static(reads=0, writes=S4, scalar=True), EXEC_BITS) == EXEC_BITS
    assert _taint(_static(writes=0, reads=V1), V1) == V1
    saved = _static(reads=0, writes=S4 | EXEC_BITS, saves=S4, scalar=True)
    assert _taint(saved, EXEC_BITS) & S4 == S4, "a copy of EXEC is meant with it"
    assert _taint(saved, 0) == 0


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("lanes", [ALL_LANES, 1])
def test_a_load_is_dead_only_if_all_of_it_is_overwritten(masked: bool, lanes: int) -> None:
    """A load to v2, lanes by what v1 holds or not, v2 written anew, all lanes back, v2 stored."""
    steps = [
        _static(reads=V1, writes=V2),
        _static(reads=V1 if masked else 0, writes=EXEC_BITS, scalar=True),
        _static(writes=V2),
        _static(writes=EXEC_BITS, scalar=True),
        _static(reads=V2, stored=V2, lasting=True),
    ]
    active = [ALL_LANES, ALL_LANES, lanes, ALL_LANES, ALL_LANES]
    trace: Any = SimpleNamespace(steps=[*range(5)], loads=[(0, None, V2, ALL_LANES)], joined={})
    certain = _unmasked(trace, steps, active)
    every = lanes == ALL_LANES and not masked
    assert certain == [True, True, every, not masked, True]
    assert _dead(steps, certain, trace) == ({0} if every else set())


@pytest.mark.parametrize(
    ("first", "second", "same", "waits"),
    [
        (WaitQueue.VM, WaitQueue.VM, True, False),
        (WaitQueue.LGKM, WaitQueue.LGKM, True, False),
        (WaitQueue.VM, WaitQueue.LGKM, True, True),
        (WaitQueue.SMEM, WaitQueue.SMEM, True, True),
        (WaitQueue.VM, WaitQueue.VM, False, True),
    ],
)
def test_loads_that_return_in_order_may_write_a_register_twice(
    first: WaitQueue, second: WaitQueue, same: bool, waits: bool
) -> None:
    """The second loads v1, or writes it while it loads v2."""
    steps = [_static(writes=V1, touched=V1), _static(writes=V1, touched=V1)]
    loads = [(0, first, V1, ALL_LANES), (1, second, V1 if same else V2, ALL_LANES)]
    trace: Any = SimpleNamespace(loads=loads)
    needs, apart = _needs(steps, [ALL_LANES] * 2, trace)
    assert needs == [(0, 1, int(Conflict.REGISTER_WRITE), VGPR + 1)] * waits
    assert not apart


def test_a_load_still_waits_for_its_lanes_behind_a_step_in_others() -> None:
    """Lane 0 of v1 is loaded; lane 1 is written, then lane 0 read."""
    steps = [_static(writes=V1, touched=V1)] * 2 + [_static(reads=V1, touched=V1)]
    trace: Any = SimpleNamespace(loads=[(0, WaitQueue.VM, V1, 1)])
    needs, apart = _needs(steps, [1, 2, 1], trace)
    assert needs == [(0, 2, int(Conflict.REGISTER_READ), VGPR + 1)]
    assert apart == {(0, 1)}


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_data_decide_lanes_only_if_exec_comes_from_them(foreign: bool, late: bool) -> None:
    """s[4:5] are loaded and become EXEC, before or after the load of v1 that others overwrite."""
    reader = FlowReader(())
    reader.statics = (
        _static(writes=S4, touched=S4, scalar=True),
        _static(reads=S4, writes=EXEC_BITS, touched=S4 | EXEC_BITS, scalar=True),
        _static(writes=V1, touched=V1),
    )
    path = [0, 2, 1, 2] if late else [0, 1, 2, 2]
    trace = WaveTrace(0, steps=path, masks=[(0, 1), (3, 2)])
    trace.loads += [(0, WaitQueue.SMEM, S4, 1), (path.index(2), WaitQueue.VM, V1, 1)]
    trace.foreign |= {0} if foreign else set()
    found = reader.read(trace)
    assert found.apart == {(path.index(2), 3)}
    assert found.by_data == (((3, "which lanes use a register"),) if foreign else ())


@pytest.mark.parametrize(
    ("encoding", "saddr", "count"),
    [("GLOBAL", OFF, 2), ("GLOBAL", 4, 1), ("FLAT", OFF, 2), ("FLAT", 4, 2)],
)
def test_an_address_takes_two_registers_unless_a_scalar_has_it(
    encoding: str, saddr: int, count: int
) -> None:
    fields = {"saddr": saddr, "addr": 1}
    one = SimpleNamespace(name="x_load_dword", encoding=encoding, fields=fields)
    step: Any = SimpleNamespace(instruction=one, reads=0)
    assert _memory(step) == (0, register_bits(VGPR + 1, count), 0)


@pytest.mark.parametrize("name", ["ds_bpermute_b32", "ds_swizzle_b32"])
def test_exchanges_between_lanes_touch_no_memory(name: str) -> None:
    """They go through LDS's crossbar; the address is a lane's number."""
    one = SimpleNamespace(name=name, encoding="DS", fields={"addr": 1, "data0": 2})
    step: Any = SimpleNamespace(instruction=one, reads=V1)
    assert _memory(step) == (0, 0, 0)


def test_an_instruction_by_index_may_mean_any_register() -> None:
    def step(reads: int, writes: int, touched: int) -> Any:
        one = SimpleNamespace(name="v_mov_b32", fields={}, variant="VOP1", encoding="VOP1")
        return SimpleNamespace(
            instruction=one,
            reads=reads,
            writes=writes,
            touched=touched,
            whole_wave=False,
            keeps=0,
        )

    plain, indexed = statics([step(V1, V2, V1 | V2), step(V1, V2, V1 | V2 | S4)])
    assert (plain.reads, plain.writes, plain.overwrites) == (V1, V2, V2)
    assert (indexed.reads, indexed.writes, indexed.overwrites) == (V1 | S4, V2 | S4, 0)
    assert indexed.touched == V1 | V2 | S4
    assert register_bits(EXEC, 2) == EXEC_BITS


# -------------------------------------------------------------------- line tables (DWARF 6.2.5)

FIRST, BASE, RANGE, SHORTEST = 13, -3, 12, 4


def _elf(sections: dict[str, bytes]) -> bytes:
    """A file with these sections and nothing else."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*sections, ".shstrtab"))
    parts = [*sections.items(), (".shstrtab", names)]
    body, headers, at = b"", bytes(64), 64
    for name, data in parts:
        place = names.index(b"\0" + name.encode() + b"\0") + 1
        headers += struct.pack("<IIQQQQIIQQ", place, 1, 0, 0, at, len(data), 0, 0, 1, 0)
        body, at = body + data, at + len(data)
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 0x28, at)
    struct.pack_into("<HHH", head, 0x3A, 64, len(parts) + 1, len(parts))
    return bytes(head) + body + headers


def _table(program: bytes, *, span: int = RANGE, files: bytes = b"k.py\0\0\0\0\0") -> bytes:
    """A unit of DWARF 2 with one file."""
    lengths = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
    header = struct.pack("<BBbBB", SHORTEST, 1, BASE, span, FIRST) + lengths + b"\0" + files
    unit = struct.pack("<HI", 2, len(header)) + header + program
    return struct.pack("<I", len(unit)) + unit


def _lines(program: bytes, size: int = 64, **options: Any) -> dict[int, str]:
    return debug_lines(_elf({".debug_line": _table(program, **options)}), 0x1000, size)


SET, END = b"\0\x09\x02" + struct.pack("<Q", 0x1000), b"\x02\x02\0\x01\x01"
"""Address 0x1000; and the end, two instructions on."""


def test_every_special_opcode_steps_address_and_line() -> None:
    """Address += (opcode - first) / range instructions, line += base + (opcode - first) % range."""
    for opcode in range(FIRST, 256):
        step = opcode - FIRST
        here = 4 * (step // RANGE)
        found = _lines(SET + b"\x03\x63" + bytes((opcode,)) + END, size=here + 8)
        line = 1 + (0x63 - 0x80) + BASE + step % RANGE
        expected = dict.fromkeys(range(here, here + 8, 4), f"k.py:{line}")
        assert found == expected, opcode


def test_standard_opcodes_step_as_the_standard_says() -> None:
    steps = {
        b"\x01": (0, 1),
        b"\x02\x03\x01": (12, 1),
        b"\x03\x0a\x01": (0, 11),
        b"\x08\x01": (4 * ((255 - FIRST) // RANGE), 1),
        b"\x09\x08\x00\x01": (8, 1),
        b"\x05\x07\x0c\x02\x01": (0, 1),
    }
    for program, (at, line) in steps.items():
        assert _lines(SET + program + END, size=at + 8) == dict.fromkeys(
            range(at, at + 8, 4), f"k.py:{line}"
        )
    assert _lines(SET + b"\x04\x02\x01" + END, size=8) == {0: "?:1", 4: "?:1"}


HOSTILE = {
    "a number of a megabyte": SET + b"\x02" + b"\xff" * (1 << 20) + b"\x01",
    "an address of a megabyte": b"\0\x81\x80\x40\x02" + b"\xff" * (1 << 20),
    "cut": SET + b"\x01\x02",
}


@pytest.mark.parametrize("program", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_table_that_cannot_be_has_no_lines(program: bytes) -> None:
    assert _lines(program) == {}


def test_a_table_that_divides_by_nothing_has_no_lines() -> None:
    assert _lines(SET + b"\x20" + END, span=0) == {}


def test_a_table_of_too_many_rows_has_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_ROWS", 10)
    assert _lines(SET + b"\x01" * 9 + END, size=8) == {0: "k.py:1", 4: "k.py:1"}
    assert _lines(SET + b"\x01" * 20 + END, size=8) == {}


def test_a_million_rows_are_too_many() -> None:
    """They take a hundred megabytes."""
    assert _lines(SET + b"\x01" * (1 << 20) + END, size=8) == {}


def test_a_name_without_end_has_no_lines() -> None:
    assert _lines(SET + b"\x01" + END, files=b"k" * 5000 + b"\0\0\0\0\0") == {}


def test_a_unit_longer_than_its_section_has_no_lines() -> None:
    whole = _table(SET + b"\x01" + END)
    assert debug_lines(_elf({".debug_line": whole}), 0x1000, 8) != {}
    for length in (len(whole), 0xFFFFFF):
        longer = struct.pack("<I", length) + whole[4:]
        assert debug_lines(_elf({".debug_line": longer}), 0x1000, 8) == {}


def _unit_5(count: bytes, formats: bytes, entries: bytes) -> bytes:
    lengths = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
    header = struct.pack("<BBBbBB", SHORTEST, 1, 1, BASE, RANGE, FIRST) + lengths
    header += b"\0\0" + formats + count + entries
    unit = struct.pack("<HBBI", 5, 8, 0, len(header)) + header + SET + b"\x01" + END
    return struct.pack("<I", len(unit)) + unit


def test_files_of_dwarf_5() -> None:
    fine = _unit_5(b"\x02", b"\x01\x01\x08", b"a.py\0dir/b.py\0")
    assert debug_lines(_elf({".debug_line": fine}), 0x1000, 8) == {0: "b.py:1", 4: "b.py:1"}
    # 2**63 entries of nothing, or of more than there is.
    many = b"\xff" * 9 + b"\x01"
    for formats in (b"\0", b"\x01\x01\x08"):
        assert debug_lines(_elf({".debug_line": _unit_5(many, formats, b"")}), 0x1000, 8) == {}


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (0x0B, bytes(1)),
        (0x05, bytes(2)),
        (0x06, bytes(4)),
        (0x07, bytes(8)),
        (0x1E, bytes(16)),
        (0x0F, b"\x85\x01"),
        (0x09, b"\x03abc"),
        (0x08, b"text\0"),
    ],
)
def test_other_fields_of_a_file_are_read_over(form: int, value: bytes) -> None:
    """Sums, sizes and directories stand before and behind the name, in any form."""
    formats = b"\x03\x02" + bytes((form,)) + b"\x01\x08\x05" + bytes((form,))
    unit = _unit_5(b"\x02", formats, (value + b"a.py\0" + value) + (value + b"b.py\0" + value))
    assert debug_lines(_elf({".debug_line": unit}), 0x1000, 8) == {0: "b.py:1", 4: "b.py:1"}


@pytest.mark.parametrize(("form", "section"), [(0x0E, ".debug_str"), (0x1F, ".debug_line_str")])
def test_names_lie_in_a_section_of_strings(form: int, section: str) -> None:
    places = struct.pack("<II", 0, 5)
    unit = _unit_5(b"\x02", b"\x01\x01" + bytes((form,)), places)
    data = _elf({".debug_line": unit, section: b"a.py\0b.py\0"})
    assert debug_lines(data, 0x1000, 8) == {0: "b.py:1", 4: "b.py:1"}


def test_a_sequence_begins_again_after_its_end() -> None:
    """In the first file, at its first line."""
    again = b"\0\x09\x02" + struct.pack("<Q", 0x1008) + b"\x01" + END
    found = _lines(SET + b"\x04\x07\x03\x0a\x01" + END + again, size=16)
    assert found == {0: "?:11", 4: "?:11", 8: "k.py:1", 12: "k.py:1"}
