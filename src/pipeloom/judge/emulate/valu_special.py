"""Vector instructions that do more than map lanes: selects, lane access, transfers, truth tables.

Each has its own screening where the default would be wrong: a select reads only the side it picks,
v_readlane reads one lane whatever EXEC says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.operands import scalar_source, scalar_writer, word_source
from pipeloom.judge.emulate.register_numbers import AGPR, LANES, VCC, VGPR
from pipeloom.judge.emulate.screening import (
    active_lanes,
    check_in_flight,
    check_sources,
    screen_copy,
    settle_writes,
)
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.valu import VecOp, build_op
from pipeloom.judge.emulate.vector_values import result_writer, source_codes, vector_sources
from pipeloom.judge.emulate.wave import NEVER_WRITTEN, Wave, lanes_of


def build_special(instruction: Decoded) -> MicroOp | None:
    """The step of an instruction with its own rules, or None."""
    name = instruction.name
    if name == "v_nop":
        return MicroOp(instruction, lambda wave: None)
    builders: dict[str, Callable[[Decoded], MicroOp]] = {
        "v_cndmask_b32": _select,
        "v_readfirstlane_b32": _read_first_lane,
        "v_readlane_b32": _read_lane,
        "v_writelane_b32": _write_lane,
        "v_swap_b32": _swap,
        "v_permlane32_swap_b32": lambda i: _half_swap(i, 32),
        "v_permlane16_swap_b32": lambda i: _half_swap(i, 16),
        "v_bitop3_b32": _truth_table,
        "v_bitop3_b16": _truth_table,
        "v_accvgpr_read_b32": _transfer,
        "v_accvgpr_write_b32": _transfer,
        "v_accvgpr_mov_b32": _transfer,
    }
    builder = builders.get(name)
    return None if builder is None else builder(instruction)


def _target(instruction: Decoded) -> int:
    return VGPR + instruction.fields["vdst"]


# --- selects ---------------------------------------------------------------------------------


def _select(instruction: Decoded) -> MicroOp:
    codes = source_codes(instruction)
    mask_code = codes[2] if len(codes) > 2 else VCC
    read_mask, mask_registers = scalar_source(mask_code, 2, instruction)
    kind = "f32" if _has_signs(instruction) else "u32"
    first, second = vector_sources(instruction, (kind, kind), codes)
    write, keeps = result_writer(instruction, "u32")
    target = _target(instruction)
    merges = keeps and instruction.variant.startswith("SDWA")

    def run(wave: Wave) -> None:
        chosen = np.where(lanes_of(read_mask(wave)), second.read(wave), first.read(wave))
        write(wave, chosen.view(np.uint32))

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, [r for r in step.read_list if r < VGPR and r in masks])
        mask = read_mask(wave)
        carried, cause = 0, NEVER_WRITTEN
        for code, lanes in ((codes[0], ~mask), (codes[1], mask)):
            used = wave.exec_mask & lanes
            if code >= VGPR:
                check_in_flight(wave, step, code, used)
                poisoned = wave.poison.get(code, 0) & used
                if poisoned:
                    carried |= poisoned
                    cause = wave.poison_cause.get(code, NEVER_WRITTEN)
            elif used:
                check_sources(wave, step, [r for r in step.read_list if r == code])
        if merges:
            check_sources(wave, step, [target])
        settle_writes(wave, step)
        if carried:
            wave.add_poison(target, carried, cause)

    masks = {mask_code, mask_code + 1}
    reads = mask_registers | first.registers | second.registers
    if merges:
        reads |= 1 << target
    return MicroOp(instruction, run, reads, 1 << target, screen, keeps=keeps << target)


def _has_signs(instruction: Decoded) -> bool:
    fields = instruction.fields
    names = ("neg", "abs", "src0_neg", "src0_abs", "src1_neg", "src1_abs")
    return any(fields.get(name) for name in names)


# --- lane access -------------------------------------------------------------------------------


def _first_active(wave: Wave) -> int:
    mask = wave.exec_mask
    return (mask & -mask).bit_length() - 1 if mask else 0


def _read_first_lane(instruction: Decoded) -> MicroOp:
    return _lane_to_scalar(instruction, source_codes(instruction)[0], _first_active)


def _read_lane(instruction: Decoded) -> MicroOp:
    codes = source_codes(instruction)
    lane = scalar_source(codes[1], 1, instruction)
    chosen = lane.then(lambda number: number & 63)
    return _lane_to_scalar(instruction, codes[0], *chosen, any_lane=True)


def _lane_to_scalar(
    instruction: Decoded,
    source: int,
    lane_of: Callable[[Wave], int],
    extra: int = 0,
    *,
    any_lane: bool = False,
) -> MicroOp:
    target = instruction.fields["vdst"]
    write = scalar_writer(target, 1, instruction)
    if source < VGPR:
        read, reads = scalar_source(source, 1, instruction)
        return MicroOp(
            instruction, lambda wave: write(wave, read(wave)), reads, 1 << target, screen_copy
        )
    row = source - VGPR

    def run(wave: Wave) -> None:
        write(wave, int(wave.v[row, lane_of(wave)]))

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, [r for r in step.read_list if r < VGPR])
        lane = 1 << lane_of(wave)
        check_in_flight(wave, step, source, lane)
        poisoned = wave.poison.get(source, 0) & lane
        cause = wave.poison_cause.get(source, NEVER_WRITTEN)
        settle_writes(wave, step)
        if poisoned:
            wave.set_poison(target, 1, cause)

    reads = 1 << source | extra
    return MicroOp(instruction, run, reads, 1 << target, screen, whole_wave=any_lane)


def _write_lane(instruction: Decoded) -> MicroOp:
    codes = source_codes(instruction)
    value, of_value = scalar_source(codes[0], 1, instruction)
    lane, of_lane = scalar_source(codes[1], 1, instruction)
    target = _target(instruction)

    def run(wave: Wave) -> None:
        wave.v[target - VGPR, lane(wave) & 63] = value(wave)

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, [r for r in step.read_list if r == codes[1]])
        mask = 1 << (lane(wave) & 63)
        check_in_flight(wave, step, codes[0], 1)
        check_in_flight(wave, step, target, mask)
        poisoned = codes[0] < 128 and codes[0] in wave.poison
        wave.clear_poison([target], mask)
        if poisoned:
            wave.add_poison(target, mask)

    here = 1 << target
    reads = of_value | of_lane
    return MicroOp(instruction, run, reads, here, screen, whole_wave=True, keeps=here)


def _swap(instruction: Decoded) -> MicroOp:
    a, b = instruction.fields["vdst"], source_codes(instruction)[0] - VGPR

    def run(wave: Wave) -> None:
        old = wave.v[a].copy()
        wave.write_vector(a, wave.v[b])
        wave.write_vector(b, old)

    return _exchange_step(instruction, run, a, b, lambda lanes_a, lanes_b: (lanes_b, lanes_a))


def _half_swap(instruction: Decoded, width: int) -> MicroOp:
    """Swap the odd blocks of ``width`` lanes of vdst with the even blocks of the source."""
    a, b = instruction.fields["vdst"], source_codes(instruction)[0] - VGPR
    odd = np.flatnonzero(np.arange(LANES) // width % 2 == 1)
    odd_mask = sum(1 << int(lane) for lane in odd)
    even_mask = odd_mask >> width

    def run(wave: Wave) -> None:
        old = wave.v[a, odd]
        wave.v[a, odd] = wave.v[b, odd - width]
        wave.v[b, odd - width] = old

    def move(lanes_a: int, lanes_b: int) -> tuple[int, int]:
        return (
            lanes_a & even_mask | (lanes_b & even_mask) << width,
            lanes_b & odd_mask | (lanes_a & odd_mask) >> width,
        )

    return replace(_exchange_step(instruction, run, a, b, move), whole_wave=True)


def _exchange_step(
    instruction: Decoded,
    run: Callable[[Wave], None],
    a: int,
    b: int,
    move: Callable[[int, int], tuple[int, int]],
) -> MicroOp:
    first, second = VGPR + a, VGPR + b

    def screen(wave: Wave, step: MicroOp) -> None:
        for register in (first, second):
            check_in_flight(wave, step, register, active_lanes(wave, step, register))
        old = wave.poison.get(first, 0), wave.poison.get(second, 0)
        causes = wave.poison_cause.get(first, ""), wave.poison_cause.get(second, "")
        new = move(*old)
        wave.set_poison(first, new[0], causes[1] or causes[0] or NEVER_WRITTEN)
        wave.set_poison(second, new[1], causes[0] or causes[1] or NEVER_WRITTEN)

    both = 1 << first | 1 << second
    return MicroOp(instruction, run, both, both, screen)


def _transfer(instruction: Decoded) -> MicroOp:
    """Between VGPRs and AGPRs."""
    name, source = instruction.name, source_codes(instruction)[0]
    if name != "v_accvgpr_write_b32" and source >= VGPR:
        source += AGPR - VGPR
    read, reads = word_source(source, "u32", instruction)
    row = instruction.fields["vdst"] + (AGPR - VGPR if name != "v_accvgpr_read_b32" else 0)
    return MicroOp(
        instruction,
        lambda wave: wave.write_vector(row, read(wave)),
        reads,
        1 << (row + VGPR),
        screen_copy,
    )


# --- others ---------------------------------------------------------------------------------------


def _truth_table(instruction: Decoded) -> MicroOp:
    """v_bitop3: any function of three bits; the table sits in the modifier fields."""
    fields = instruction.fields
    table = fields["omod"] << 6 | fields["abs"] << 3 | fields["neg"]
    kind = "u16" if instruction.name.endswith("b16") else "u32"
    # The modifier fields are taken, so the sources have none.
    plain = replace(instruction, fields={**fields, "neg": 0, "abs": 0, "omod": 0})

    def combined(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros(LANES, a.dtype)
        for i in range(8):
            if table >> i & 1:
                result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
        return result

    return build_op(plain, VecOp(kind, (kind,) * 3, combined, moves_bits=True))
