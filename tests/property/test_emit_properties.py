"""Properties of the emitter's passes on random input."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom.machine.chips import TARGETS, target_for
from pipeloom.write import Code, check_hazards, insert_wait_states
from pipeloom.write.allocate import LiveValue, allocate
from pipeloom.write.faults import RegisterLimitError
from pipeloom.write.isa import LDS_DMA, M0, VCC, Bank, Instruction, Line, Operand, agpr, sgpr, vgpr


def random_program(seed: int, length: int, loop: bool) -> Code:
    """Instructions on few registers, so that they meet, with a branch forward and perhaps back."""
    rng = random.Random(seed)
    code = Code()

    def four() -> int:
        return 4 * rng.randrange(3)

    def one() -> None:
        kind = rng.randrange(9)
        if kind == 0:
            d = four()
            c = rng.choice([d, d, 4 * rng.randrange(3) + 2])
            code(
                "v_mfma_f32_16x16x32_bf16", agpr(d, 4), vgpr(four(), 4), vgpr(four(), 4), agpr(c, 4)
            )
        elif kind == 1:
            wide = agpr(0, 16)
            code("v_mfma_f32_32x32x16_f16", wide, vgpr(four(), 4), vgpr(four(), 4), wide)
        elif kind == 2:
            code("v_mov_b32", vgpr(rng.randrange(12)), rng.randrange(64))
        elif kind == 3 and rng.random() < 0.3:
            code("v_accvgpr_write_b32", agpr(rng.randrange(12)), 0)
        elif kind == 3:
            code("v_accvgpr_read_b32", vgpr(rng.randrange(12)), agpr(rng.randrange(12)))
        elif kind == 4:
            code("s_add_u32", M0, sgpr(2), 4)
        elif kind == 5:
            code(LDS_DMA, vgpr(0), sgpr(4, 4), sgpr(8), modifiers=["offen", "lds"])
        elif kind == 6:
            code("v_cmp_gt_u32", VCC, sgpr(3), vgpr(rng.randrange(4)))
        elif kind == 7:
            code("v_cndmask_b32", vgpr(rng.randrange(4)), vgpr(1), vgpr(2), VCC)
        else:
            at = vgpr(rng.randrange(12))
            offset: Operand = 0 if rng.random() < 0.5 else sgpr(8)
            data = agpr(four(), 4)
            code("buffer_store_dwordx4", data, at, sgpr(4, 4), offset, modifiers=["offen"])

    code.label(".Lback")
    for at in range(length):
        one()
        if at == length // 3:
            code("s_cbranch_scc1", ".Lforth")
        if at == 2 * length // 3:
            code.label(".Lforth")
    if loop:
        code("s_cbranch_scc1", ".Lback")
    code("s_endpgm")
    return code


def text_of(lines: list[Line]) -> str:
    return "\n".join(str(line) for line in lines)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 24),
    st.booleans(),
    st.sampled_from([t.arch for t in TARGETS]),
)
def test_the_judge_accepts_what_the_pass_made(
    seed: int, length: int, loop: bool, target: str
) -> None:
    filled = insert_wait_states(random_program(seed, length, loop).lines, target_for(target))
    assert check_hazards(text_of(filled), target) == ()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 24), st.sampled_from([t.arch for t in TARGETS]))
def test_no_nop_is_in_vain(seed: int, length: int, target: str) -> None:
    """Without a loop, each inserted s_nop one shorter is a hazard, to a judge of its own."""
    filled = insert_wait_states(random_program(seed, length, loop=False).lines, target_for(target))
    for at, line in enumerate(filled):
        if isinstance(line, Instruction) and line.opcode.name == "s_nop":
            states = line.wait_states - 1
            shorter: list[Line] = []
            if states:
                code = Code()
                code("s_nop", states - 1)
                shorter = code.lines
            assert check_hazards(text_of(filled[:at] + shorter + filled[at + 1 :]), target)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 40),
            st.frozensets(st.integers(0, 6), min_size=1),
            st.sampled_from([Bank.VECTOR, Bank.ACCUMULATOR]),
        ),
        max_size=12,
    )
)
def test_values_that_are_live_together_never_share(
    drawn: list[tuple[int, frozenset[int], Bank]],
) -> None:
    values = [LiveValue(f"v{i}", bank, n, live) for i, (n, live, bank) in enumerate(drawn)]
    try:
        placed = allocate(values, target_for("gfx950"), waves=4)
    except RegisterLimitError:
        assert sum(v.count + 1 for v in values) > 256
        return
    for i, left in enumerate(values):
        assert placed[left.name].index % left.align == 0
        for right in values[:i]:
            if left.live & right.live:
                assert not placed[left.name].overlaps(placed[right.name])
