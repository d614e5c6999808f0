"""Scalar instructions move up between matrix instructions, and only where nothing changes."""

from __future__ import annotations

from pipeloom.write.code import Code
from pipeloom.write.isa import LDS_DMA, M0, Instruction, Label, agpr, sgpr, vgpr
from pipeloom.write.lower.hoist import hoist_scalars

MFMA = "v_mfma_f32_16x16x32_bf16"


def mfma(code: Code, at: int) -> None:
    code(MFMA, agpr(at, 4), vgpr(0, 4), vgpr(4, 4), agpr(at, 4))


def load(code: Code) -> None:
    code(LDS_DMA, vgpr(20), sgpr(8, 4), sgpr(32), modifiers=["offen", "lds"])


def names(code: Code) -> list[str]:
    lines = hoist_scalars(code.lines)
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


def test_never_past_labels_barriers_and_other_scalars() -> None:
    for stop in ("label", "s_barrier", "s_cmp_lt_i32"):
        code = Code()
        mfma(code, 0)
        if stop == "label":
            code.lines.append(Label("x"))
        elif stop == "s_barrier":
            code(stop)
        else:
            code(stop, 0, sgpr(31))
            load(code)
        code("s_add_u32", M0, sgpr(36), 0x1000)
        assert names(code)[-1] == "s_add_u32"


def test_the_counting_of_a_loop_is_spread() -> None:
    code = Code()
    for at in range(0, 16, 4):
        mfma(code, at)
    code("s_add_i32", sgpr(33), sgpr(33), 512)
    code("s_sub_u32", sgpr(31), sgpr(31), 256)
    code("s_cmp_lt_i32", 0, sgpr(31))
    found = names(code)
    assert found[-1] == MFMA
    assert [n for n in found if n != MFMA] == ["s_add_i32", "s_sub_u32", "s_cmp_lt_i32"]
    assert "s_add_i32 s_sub_u32 s_cmp_lt_i32" not in " ".join(found)
