"""Single instructions between matrix instructions: spread evenly, and the results are the same."""

from __future__ import annotations

from random import Random

import pytest

from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.mnemonics import Pipe
from pipeloom.write.code import Code
from pipeloom.write.isa import SCC, Instruction, Label, Line, Opcode, Register, sgpr, vgpr
from pipeloom.write.lower.balance import balance

MFMA = "v_mfma_f32_16x16x32_bf16"
EXP = Opcode("v_exp_f32", Pipe.VALU, ("=v1", "v1"))


def mfma(code: Code, result: int, a: int = 0, b: int = 4) -> None:
    code(MFMA, vgpr(result, 4), vgpr(a, 4), vgpr(b, 4), vgpr(result, 4))


def between(lines: list[Line]) -> list[list[str]]:
    """Names behind each matrix instruction."""
    found: list[list[str]] = [[]]
    for line in lines:
        if isinstance(line, Instruction):
            found.append([]) if line.opcode.unit is Pipe.MATRIX else None
            found[-1].append(line.opcode.name)
    return found


WAVES = 8
"""Two on each SIMD."""


def test_exponentials_of_one_gap_go_to_all() -> None:
    code = Code()
    for number in range(4):
        mfma(code, 8 + 4 * number)
        for one in range(16 if number == 1 else 0):
            code(EXP, vgpr(60 + one), vgpr(40 + one))
    assert [gap.count("v_exp_f32") for gap in between(balance(code.lines, GFX950, WAVES))] == [
        4,
        3,
        3,
        3,
        3,
    ]


def test_a_wave_that_is_alone_has_no_result_and_its_reader_in_one_gap() -> None:
    """Where another wave computes meanwhile, they may stand together."""
    code = Code()
    for number in range(8):
        mfma(code, 8 + 4 * number)
        for one in range(20 if number == 1 else 0):
            code("v_cvt_f32_i32", vgpr(60 + one), vgpr(40 + one % 8))
            code("v_mul_f32", vgpr(60 + one), vgpr(60 + one), vgpr(39))

    def together(waves: int) -> int:
        gaps = between(balance(code.lines, GFX950, waves))
        return sum(min(gap.count("v_cvt_f32_i32"), gap.count("v_mul_f32")) for gap in gaps)

    assert together(GFX950.simds.value) < together(2 * GFX950.simds.value)


def test_loops_without_vector_work_stay() -> None:
    code = Code()
    for number in range(8):
        mfma(code, 8 + 4 * number)
        code("s_add_i32", sgpr(number), sgpr(number), 1)
        code("s_mul_i32", sgpr(number), sgpr(number), 3)
    assert balance(code.lines, GFX950, WAVES) == code.lines


def test_waves_that_take_turns_keep_their_vector_work_from_barrier_to_barrier() -> None:
    """From one barrier to the next they have no product: what stands there stays there, and what
    stands among products spreads among those."""
    code = Code()
    code("s_barrier")
    for one in range(20):
        code(EXP, vgpr(60 + one), vgpr(40 + one % 8))
        code("ds_read_b128", vgpr(100, 4), vgpr(38)) if one == 9 else None
    code("s_barrier")
    for number in range(4):
        mfma(code, 8 + 4 * number)
        for one in range(8 if number == 0 else 0):
            code("v_mul_f32", vgpr(90 + one), vgpr(40 + one), vgpr(39))
    found = balance(code.lines, GFX950, WAVES)
    gaps = between(found)
    assert gaps[0].count("v_exp_f32") == 20
    assert [gap.count("v_mul_f32") for gap in gaps] == [0, 2, 2, 2, 2]
    names = gaps[0]
    assert (names[0], names[-1]) == ("s_barrier", "s_barrier")
    assert names.index("ds_read_b128") == 11, "behind as much as it stood behind"


@pytest.mark.parametrize("seed", range(30))
def test_same_values_whatever_moved(seed: int) -> None:
    """Registers and memory as symbols: same results, the same order of memory and branches."""
    rng = Random(seed)
    code = Code()
    _random_body(code, rng)
    moved = balance(code.lines, GFX950, WAVES >> seed % 2)
    for taken in (False, True):
        assert _meaning(moved, taken) == _meaning(code.lines, taken)
    assert moved != code.lines


def _random_body(code: Code, rng: Random) -> None:
    """Matrix results in 40 to 55, fragments from LDS in 0 to 7, vectors in 16 to 39."""

    def vector() -> Register:
        return vgpr(rng.choice((rng.randrange(16, 40), rng.randrange(40, 56), rng.randrange(8))))

    for gap in range(12):
        code.wait(lgkm=0)
        mfma(code, 40 + 4 * rng.randrange(4), 4 * rng.randrange(2), 8)
        for _ in range(rng.randrange(8)):
            kind = rng.randrange(6)
            if kind == 0:
                code(EXP, vgpr(rng.randrange(16, 40)), vector())
            elif kind == 1:
                code("v_cmp_ne_u32", sgpr(2 * rng.randrange(3), 2), 0, vector())
            elif kind == 2:
                code("v_cndmask_b32", vector(), vector(), vector(), sgpr(2 * rng.randrange(3), 2))
            elif kind == 3:
                code("s_add_u32", sgpr(rng.randrange(8, 12)), sgpr(rng.randrange(8, 12)), 1)
            else:
                code("v_add_f32", vector(), vector(), vector())
        if rng.randrange(3) == 0:
            code("s_or_b64", sgpr(6, 2), sgpr(0, 2), sgpr(2, 2))
            code("s_cbranch_scc0", f"skip{gap}")
            code("v_mul_f32", vector(), vector(), vector())
            code("v_mul_f32", vector(), vector(), vector())
            code.label(f"skip{gap}")
        for _ in range(rng.randrange(2)):
            code("ds_read_b128", vgpr(4 * rng.randrange(2), 4), vgpr(15))
        if rng.randrange(4) == 0:
            code("s_barrier")
    code("s_cmp_lt_i32", 0, sgpr(8))
    code.wait(lgkm=0)
    mfma(code, 40)
    for _ in range(6):
        code("v_add_f32", vector(), vector(), vector())


def _meaning(lines: list[Line], taken: bool) -> tuple[object, ...]:
    """Two trips: what every register holds in the end, and what happened in order.

    What a read brings is unknown until the wait; a wrong move finds the unknown.
    """
    values: dict[tuple[object, int], object] = {}
    pending: dict[tuple[object, int], object] = {}
    happened: list[object] = []
    skip = ""
    for trip in range(2):
        for line in lines:
            if skip or not isinstance(line, Instruction):
                skip = "" if isinstance(line, Label) and line.name == skip else skip
                continue
            reads = tuple(values.get(key, key) for r in line.reads for key in _keys(r))
            name = line.opcode.name
            if name == "s_waitcnt":
                values |= pending
                pending = {}
            elif line.opcode.unit is Pipe.LDS:
                brought = (trip, sum(isinstance(x, tuple) and x[0] == "read" for x in happened))
                happened.append(("read", *reads))
                pending |= {
                    key: (brought, n) for r in line.writes for n, key in enumerate(_keys(r))
                }
                values |= {key: ("unknown", brought) for r in line.writes for key in _keys(r)}
                continue
            elif line.opcode.unit in (Pipe.CONTROL, Pipe.MATRIX) or SCC in line.opcode.reads:
                happened.append((name, *reads))
            if name.startswith("s_cbranch") and taken:
                skip = str(line.operands[0])
            constants = tuple(x for x in line.operands if not isinstance(x, Register))
            made = hash((name, reads, constants))
            values |= {key: (made, n) for r in line.writes for n, key in enumerate(_keys(r))}
    return tuple(sorted(values.items(), key=str)), tuple(happened)


def _keys(register: Register) -> list[tuple[object, int]]:
    return [
        (register.bank.value or register.name, register.index + n) for n in range(register.count)
    ]
