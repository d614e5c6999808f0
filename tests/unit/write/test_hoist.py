"""Scalar instructions move up under matrix instructions, and only where nothing changes."""

from __future__ import annotations

from pipeloom.machine.chips import target_for
from pipeloom.write.code import Code
from pipeloom.write.isa import LDS_DMA, M0, Instruction, Label, agpr, sgpr, vgpr
from pipeloom.write.lower.early_loads import early_loads
from pipeloom.write.lower.hoist import hoist_scalars

MFMA = "v_mfma_f32_16x16x32_bf16"


def mfma(code: Code, at: int) -> None:
    code(MFMA, agpr(at, 4), vgpr(0, 4), vgpr(4, 4), agpr(at, 4))


def load(code: Code) -> None:
    code(LDS_DMA, vgpr(20), sgpr(8, 4), sgpr(32), modifiers=["offen", "lds"])


def names(code: Code) -> list[str]:
    lines = hoist_scalars(code.lines, target_for("gfx950"))
    assert sorted(map(str, lines)) == sorted(map(str, code.lines))
    return [line.opcode.name for line in lines if isinstance(line, Instruction)]


def test_an_address_goes_before_the_product_in_front() -> None:
    code = Code()
    mfma(code, 0)
    mfma(code, 4)
    code("s_add_u32", M0, sgpr(36), 0x1000)
    load(code)
    assert names(code) == [MFMA, "s_add_u32", MFMA, "buffer_load_dwordx4"]


def test_never_past_a_load_that_reads_it() -> None:
    code = Code()
    mfma(code, 0)
    load(code)
    code("s_add_u32", M0, sgpr(36), 0x1000)
    load(code)
    assert names(code)[1:] == ["buffer_load_dwordx4", "s_add_u32", "buffer_load_dwordx4"]
    code = Code()
    mfma(code, 0)
    load(code)
    code("s_add_i32", sgpr(32), sgpr(33), 128)
    assert names(code)[-1] == "s_add_i32"


def test_never_past_labels_and_what_is_asked_for() -> None:
    for stop in ("label", "s_cselect_b32", "s_setprio"):
        code = Code()
        mfma(code, 0)
        if stop == "label":
            code.lines.append(Label("x"))
        elif stop == "s_setprio":
            code(stop, 1)
        else:
            code(stop, sgpr(30), 0, 1)
        code("s_add_u32", M0, sgpr(36), 0x1000)
        mfma(code, 4)
        assert names(code)[-2:] == ["s_add_u32", MFMA], stop


def test_what_a_branch_asks_for_stays_in_front_of_it() -> None:
    """The writer moves the pair as one."""
    code = Code()
    mfma(code, 0)
    mfma(code, 4)
    code("s_or_b64", sgpr(40, 2), sgpr(42, 2), sgpr(42, 2))
    code("s_cbranch_scc0", "over")
    code.label("over")
    assert names(code) == [MFMA, MFMA, "s_or_b64", "s_cbranch_scc0"]


def test_nothing_is_added_to_the_time_of_a_barrier() -> None:
    code = Code()
    mfma(code, 0)
    mfma(code, 4)
    code("s_barrier")
    mfma(code, 8)
    code("s_add_u32", M0, sgpr(36), 0x1000)
    load(code)
    assert names(code) == [MFMA, "s_add_u32", MFMA, "s_barrier", MFMA, "buffer_load_dwordx4"]


def test_a_scaled_product_leaves_room_for_one() -> None:
    plain, scaled = (
        "v_mfma_f32_16x16x128_f8f6f4 fp4",
        "v_mfma_scale_f32_16x16x128_f8f6f4 fp4",
    )
    for name, room in ((plain, 2), (scaled, 1)):
        code = Code()
        for at in (0, 4, 8):
            scales = (vgpr(8), vgpr(9)) if name == scaled else ()
            code(name, agpr(at, 4), vgpr(0, 4), vgpr(4, 4), agpr(at, 4), *scales)
        for at in range(3):
            code("s_mul_i32", sgpr(40 + at), sgpr(36), 3)
        assert names(code)[1 : room + 2] == ["s_mul_i32"] * room + [name.split()[0]]


def test_the_counting_of_a_loop_is_spread() -> None:
    """Each where there is room, the question last: the branch behind the body asks for it."""
    code = Code()
    for at in range(0, 20, 4):
        mfma(code, at)
    for at in (0, 1):
        code("s_add_u32", M0, sgpr(36), 0x1000 * at)
        load(code)
    code("s_add_i32", sgpr(33), sgpr(33), 512)
    code("s_sub_u32", sgpr(31), sgpr(31), 256)
    code("s_cmp_lt_i32", 0, sgpr(31))
    found = names(code)
    assert found[1:4] == ["s_add_i32", "s_sub_u32", MFMA]
    scalars = [n for n in found if n.startswith("s_")]
    assert scalars == ["s_add_i32", "s_sub_u32", "s_add_u32", "s_add_u32", "s_cmp_lt_i32"]


def entries(code: Code, at: int, place: int) -> None:
    """Pages that a scalar load brings, and what is made of the first."""
    code("s_add_u32", sgpr(place), sgpr(60), 64)
    code("s_buffer_load_dwordx4", sgpr(at, 4), sgpr(4, 4), sgpr(place))
    code.wait(lgkm=0)
    code("s_min_u32", sgpr(at), sgpr(at), sgpr(61))


def test_scalar_loads_go_first_with_their_places() -> None:
    code = Code()
    mfma(code, 0)
    load(code)
    entries(code, 40, 30)
    moved = early_loads(code.lines)
    assert moved[:2] == code.lines[2:4]
    assert moved[2:] == [*code.lines[:2], *code.lines[4:]]


def test_scalar_loads_stay_behind_what_takes_their_registers() -> None:
    for at, place, stays in ((40, 31, True), (44, 30, False), (44, 31, False)):
        code = Code()
        entries(code, 40, 30)
        entries(code, at, place)
        moved = [str(line) for line in early_loads(code.lines)]
        first, second = ((i, line) for i, line in enumerate(moved) if "s_buffer_load" in line)
        assert (second[0] > 3) is stays, moved
        assert first[1] == str(code.lines[1])
    code = Code()
    code("s_mov_b32", sgpr(60), 0)
    entries(code, 40, 30)
    assert early_loads(code.lines) == code.lines
