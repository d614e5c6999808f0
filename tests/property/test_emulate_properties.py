"""Properties of the emulator's parts against brute-force oracles."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom.judge.emulate import Decoded
from pipeloom.judge.emulate.formats import bf16_to_f32, encode_float, f32_to_bf16, float_table
from pipeloom.judge.emulate.global_memory import GlobalMemory
from pipeloom.judge.emulate.lds_shadow import LocalMemory
from pipeloom.judge.emulate.metadata import parse_metadata
from pipeloom.judge.emulate.pending import WaitQueue
from pipeloom.judge.emulate.wave import lanes_of, mask_of

INSTRUCTION = Decoded(0, 8, "test", "DS", "", {})
FLOAT8 = st.sampled_from(["e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"])


@given(st.integers(0, 2**64 - 1))
def test_masks_round_trip(mask: int) -> None:
    lanes = lanes_of(mask)
    assert mask_of(lanes) == mask
    assert [bool(b) for b in lanes] == [bool(mask >> i & 1) for i in range(64)]


@given(FLOAT8, st.integers(0, 255))
def test_float8_values_encode_to_themselves(name: str, code: int) -> None:
    value = float_table(name)[code : code + 1]
    again = float_table(name)[encode_float(value, name)]
    np.testing.assert_array_equal(again, value)


@given(FLOAT8, st.floats(-60000, 60000, width=32))
def test_float8_encoding_is_nearest_even(name: str, value: float) -> None:
    table = float_table(name).astype(np.float64)
    finite = np.flatnonzero(np.isfinite(table))
    code = int(encode_float(np.array([value], np.float32), name)[0])
    got = table[code]
    distance = np.abs(table[finite] - value)
    if not np.isfinite(got):
        largest = np.abs(table[finite]).max()
        step = largest - np.sort(np.abs(table[finite]))[-3]
        assert abs(value) >= largest + step / 2
        return
    assert abs(got - value) == distance.min()
    ties = finite[distance == distance.min()]
    if len({table[c] for c in ties}) > 1:
        assert code & 1 == 0


@given(st.floats(width=32, allow_nan=False))
def test_bf16_rounds_to_nearest_even(value: float) -> None:
    bits = int(f32_to_bf16(np.array([value], np.float32))[0])
    got = float(bf16_to_f32(np.array([bits], np.uint16))[0])
    if np.isinf(got):
        assert abs(value) > 3.38e38
        return
    for other in (bits - 1 & 0xFFFF, bits + 1 & 0xFFFF):
        neighbour = float(bf16_to_f32(np.array([other], np.uint16))[0])
        if not np.isfinite(neighbour):
            continue
        assert abs(got - value) <= abs(neighbour - value)
        if abs(got - value) == abs(neighbour - value) and neighbour != got:
            assert bits & 1 == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**32) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


def pack(value: Any) -> bytes:
    """MessagePack, the long forms only."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return (
            b"\xcf" + struct.pack(">Q", value) if value >= 0 else b"\xd3" + struct.pack(">q", value)
        )
    if isinstance(value, str):
        data = value.encode()
        return b"\xda" + struct.pack(">H", len(data)) + data
    if isinstance(value, list):
        return b"\xdc" + struct.pack(">H", len(value)) + b"".join(map(pack, value))
    items = b"".join(pack(k) + pack(v) for k, v in value.items())
    return b"\xde" + struct.pack(">H", len(value)) + items


@given(JSON)
def test_metadata_round_trip(value: Any) -> None:
    assert parse_metadata(pack(value)) == value


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-8, 40)), min_size=1, max_size=64))
def test_memory_split_agrees_with_a_search(places: list[tuple[int, int]]) -> None:
    memory = GlobalMemory()
    buffers = [memory.allocate(str(i), np.zeros(size, np.uint8)) for i, size in
               enumerate((32, 4, 3, 16))]  # fmt: skip
    addresses = np.array([buffers[b].base + offset for b, offset in places])
    extents, outside = memory.split(addresses, 4)
    expected = {
        lane: b for lane, (b, offset) in enumerate(places) if 0 <= offset <= buffers[b].size - 4
    }
    got = {int(lane): int(e.buffer.name) for e in extents for lane in e.where}
    assert got == expected
    assert outside.size == len(places) - len(expected)
    for extent in extents:
        assert (addresses[extent.where] == extent.buffer.base + extent.offsets).all()


# --- the LDS shadow against the definition of a race ----------------------------------------------

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 2),  # wave
        st.sampled_from(["read", "write", "dma", "wait_vm", "wait_lgkm"]),
        st.integers(0, 3),  # first granule
        st.integers(1, 2),  # granules
    ),
    max_size=10,
)
PHASES = st.lists(EVENTS, min_size=1, max_size=4)


class Record:
    """One access with everything the definition of "happens before" needs."""

    def __init__(self, wave: int, kind: str, granules: set[int], phase: int, order: int) -> None:
        self.wave, self.kind, self.granules = wave, kind, granules
        self.issued_phase, self.order = phase, order
        self.retired: tuple[int, int] | None = None  # (phase, order) of the retiring wait


def ordered(first: Record, second: Record) -> bool:
    """``first`` (issued earlier) happens before ``second``, by KERNELS.md section 4."""
    if first.wave == second.wave:
        same_queue = (first.kind == "dma") == (second.kind == "dma")
        retired = first.retired is not None and first.retired[1] < second.order
        return same_queue or retired
    return first.retired is not None and first.retired[0] < second.issued_phase


@settings(max_examples=300)
@given(PHASES)
def test_shadow_finds_a_race_exactly_when_one_exists(
    phases: list[list[tuple[int, str, int, int]]],
) -> None:
    """Phases are separated by barriers that all waves take; two granules lie in a block of LDS."""
    lds = LocalMemory(4096, 3, 4)
    records: list[Record] = []
    numbers: list[int] = []
    found, order = False, 0
    for phase, events in enumerate(phases):
        for wave, kind, first, count in events:
            order += 1
            if kind.startswith("wait"):
                for record, number in zip(records, numbers, strict=True):
                    mine = record.wave == wave and record.retired is None
                    if mine and (record.kind == "dma") == (kind == "wait_vm"):
                        record.retired = (phase, order)
                        lds.retire(number, phase)
                continue
            addresses = 512 * np.arange(first, first + count, dtype=np.int64)
            piece = lds.footprint(addresses, np.arange(count), 4)
            counter = WaitQueue.VM if kind == "dma" else WaitQueue.LGKM
            number = lds.begin(wave, counter, INSTRUCTION, writes=kind != "read")
            if kind == "read":
                found |= lds.record_read(number, phase, piece) > 0
            else:
                found |= lds.record_write(number, phase, piece) > 0
            records.append(Record(wave, kind, set(range(first, first + count)), phase, order))
            numbers.append(number)
    exists = any(
        a.granules & b.granules and (a.kind != "read" or b.kind != "read") and not ordered(a, b)
        for i, a in enumerate(records)
        for b in records[i + 1 :]
    )
    assert found == exists
