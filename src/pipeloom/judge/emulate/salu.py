"""Scalar ALU: SOP1, SOP2, SOPC and SOPK.

What an operation computes is a row of a table in ``scalar_ops``; here are the steps around it:
read, screen for undefined values, write the result and SCC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.operands import (
    scalar_bits,
    scalar_reader,
    scalar_writer,
    unsupported,
)
from pipeloom.judge.emulate.register_numbers import EXEC, SCC, WORD, register_bits
from pipeloom.judge.emulate.scalar_ops import BITWISE, COMPARE, LONG, SOP1, SOP2, Binary, signed
from pipeloom.judge.emulate.screening import (
    check_sources,
    screen_copy,
    screen_reads,
)
from pipeloom.judge.emulate.step import MicroOp, Run
from pipeloom.judge.emulate.wave import Wave

_SCC_BIT = 1 << SCC
_HARDWARE_REGISTERS = {1: 0x3F0, 4: 0, 20: 0}
"""MODE (nearest even, denormals kept, DX10_CLAMP and IEEE on), HW_ID and XCC_ID of the one chip."""


def build(instruction: Decoded) -> MicroOp | None:
    """The step of a scalar ALU instruction, or None for other families."""
    builder = {"SOP1": _sop1, "SOP2": _sop2, "SOPC": _sopc, "SOPK": _sopk}.get(instruction.encoding)
    return None if builder is None else builder(instruction)


def _binary_step(
    instruction: Decoded, codes: tuple[int, int], spec: tuple[int, int, int, Binary]
) -> MicroOp:
    words_a, words_b, words_d, function = spec
    read_a = scalar_reader(codes[0], words_a, instruction)
    read_b = scalar_reader(codes[1], words_b, instruction)
    target = instruction.fields["sdst"]
    write = scalar_writer(target, words_d, instruction)

    def run(wave: Wave) -> None:
        value, scc = function(read_a(wave), read_b(wave))
        write(wave, value)
        if scc is not None:
            wave.scc = scc

    sets_scc = function(1, 1)[1] is not None
    return MicroOp(
        instruction,
        run,
        reads=scalar_bits(codes[0], words_a) | scalar_bits(codes[1], words_b),
        writes=register_bits(target, words_d) | (_SCC_BIT if sets_scc else 0),
    )


def _sop2(instruction: Decoded) -> MicroOp:
    name, fields = instruction.name, instruction.fields
    codes = (fields["ssrc0"], fields["ssrc1"])
    if name in SOP2:
        return _binary_step(instruction, codes, SOP2[name])
    if name in ("s_cselect_b32", "s_cselect_b64"):
        return _select(instruction, codes, 2 if name.endswith("b64") else 1)
    if name in ("s_addc_u32", "s_subb_u32"):
        return _carry(instruction, codes, subtract=name == "s_subb_u32")
    raise unsupported(instruction)


def _select(instruction: Decoded, codes: tuple[int, int], words: int) -> MicroOp:
    read = [scalar_reader(code, words, instruction) for code in codes]
    target = instruction.fields["sdst"]
    write = scalar_writer(target, words, instruction)
    sides = [scalar_bits(code, words) for code in codes]

    def run(wave: Wave) -> None:
        write(wave, read[0](wave) if wave.scc else read[1](wave))

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, [SCC])
        chosen = sides[0] if wave.scc else sides[1]
        screen_copy(wave, MicroOp(instruction, run, chosen, step.writes))

    return MicroOp(
        instruction, run, sides[0] | sides[1] | _SCC_BIT, register_bits(target, words), screen
    )


def _carry(instruction: Decoded, codes: tuple[int, int], *, subtract: bool) -> MicroOp:
    read_a = scalar_reader(codes[0], 1, instruction)
    read_b = scalar_reader(codes[1], 1, instruction)
    target = instruction.fields["sdst"]
    write = scalar_writer(target, 1, instruction)

    def run(wave: Wave) -> None:
        if subtract:
            total = read_a(wave) - read_b(wave) - wave.scc
            wave.scc = int(total < 0)
        else:
            total = read_a(wave) + read_b(wave) + wave.scc
            wave.scc = total >> 32
        write(wave, total & WORD)

    return MicroOp(
        instruction,
        run,
        scalar_bits(codes[0]) | scalar_bits(codes[1]) | _SCC_BIT,
        register_bits(target, 1) | _SCC_BIT,
    )


def _sop1(instruction: Decoded) -> MicroOp:
    name, fields = instruction.name, instruction.fields
    if name in SOP1:
        words, words_d, function = SOP1[name]
        read = scalar_reader(fields["ssrc0"], words, instruction)
        write = scalar_writer(fields["sdst"], words_d, instruction)

        def run(wave: Wave) -> None:
            value, scc = function(read(wave))
            write(wave, value)
            if scc is not None:
                wave.scc = scc

        sets_scc = function(1)[1] is not None
        return MicroOp(
            instruction,
            run,
            scalar_bits(fields["ssrc0"], words),
            register_bits(fields["sdst"], words_d) | (_SCC_BIT if sets_scc else 0),
            screen_copy if name.startswith("s_mov") else screen_reads,
        )
    if name.endswith("_saveexec_b64"):
        return _save_exec(instruction)
    if name in ("s_cmov_b32", "s_cmov_b64"):
        return _conditional_move(instruction, 2 if name.endswith("b64") else 1)
    if name.startswith("s_bitset"):
        return _bit_set(instruction, name[8] == "1", 2 if name.endswith("b64") else 1)
    if name in ("s_andn1_wrexec_b64", "s_andn2_wrexec_b64"):
        return _write_exec(instruction)
    raise unsupported(instruction)


def _save_exec(instruction: Decoded) -> MicroOp:
    operation = instruction.name.removeprefix("s_").removesuffix("_saveexec_b64")
    function = BITWISE.get(operation)
    swapped = operation in ("andn1", "orn1")
    if swapped:
        function = BITWISE["andn2" if operation == "andn1" else "orn2"]
    if function is None:
        raise unsupported(instruction)
    combine = function
    read = scalar_reader(instruction.fields["ssrc0"], 2, instruction)
    target = instruction.fields["sdst"]
    write = scalar_writer(target, 2, instruction)

    def run(wave: Wave) -> None:
        source, old = read(wave), wave.exec_mask
        write(wave, old)
        new = (combine(old, source) if swapped else combine(source, old)) & LONG
        wave.set_exec(new)
        wave.scc = int(new != 0)

    return MicroOp(
        instruction,
        run,
        scalar_bits(instruction.fields["ssrc0"], 2) | register_bits(EXEC, 2),
        register_bits(target, 2) | register_bits(EXEC, 2) | _SCC_BIT,
    )


def _conditional_move(instruction: Decoded, words: int) -> MicroOp:
    read = scalar_reader(instruction.fields["ssrc0"], words, instruction)
    target = instruction.fields["sdst"]
    write = scalar_writer(target, words, instruction)

    def run(wave: Wave) -> None:
        if wave.scc:
            write(wave, read(wave))

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, [SCC])
        if wave.scc:
            moved = scalar_bits(instruction.fields["ssrc0"], words)
            screen_copy(wave, MicroOp(instruction, run, moved, step.writes))

    reads = scalar_bits(instruction.fields["ssrc0"], words) | _SCC_BIT
    return MicroOp(instruction, run, reads, register_bits(target, words), screen)


def _bit_set(instruction: Decoded, value: bool, words: int) -> MicroOp:
    read = scalar_reader(instruction.fields["ssrc0"], 1, instruction)
    target = instruction.fields["sdst"]
    read_old = scalar_reader(target, words, instruction)
    write = scalar_writer(target, words, instruction)

    def run(wave: Wave) -> None:
        bit = 1 << (read(wave) & (32 * words - 1))
        write(wave, read_old(wave) | bit if value else read_old(wave) & ~bit)

    here = register_bits(target, words)
    return MicroOp(instruction, run, scalar_bits(instruction.fields["ssrc0"]) | here, here)


def _write_exec(instruction: Decoded) -> MicroOp:
    """EXEC and the destination become ~source & EXEC (andn1) or source & ~EXEC (andn2)."""
    read = scalar_reader(instruction.fields["ssrc0"], 2, instruction)
    target = instruction.fields["sdst"]
    write = scalar_writer(target, 2, instruction)
    first = "andn1" in instruction.name

    def run(wave: Wave) -> None:
        source, old = read(wave), wave.exec_mask
        new = ~source & old if first else source & ~old
        wave.set_exec(new & LONG)
        write(wave, new & LONG)
        wave.scc = int(new & LONG != 0)

    both = register_bits(target, 2) | register_bits(EXEC, 2)
    reads = scalar_bits(instruction.fields["ssrc0"], 2) | register_bits(EXEC, 2)
    return MicroOp(instruction, run, reads, both | _SCC_BIT)


def _sopc(instruction: Decoded) -> MicroOp:
    name, fields = instruction.name, instruction.fields
    words = 2 if name.endswith("64") else 1
    if name.startswith("s_bitcmp"):
        wanted = int(name[8])
        read_a = scalar_reader(fields["ssrc0"], words, instruction)
        read_b = scalar_reader(fields["ssrc1"], 1, instruction)

        def run_bit(wave: Wave) -> None:
            bit = read_b(wave) & (32 * words - 1)
            wave.scc = int(read_a(wave) >> bit & 1 == wanted)

        reads = scalar_bits(fields["ssrc0"], words) | scalar_bits(fields["ssrc1"])
        return MicroOp(instruction, run_bit, reads, _SCC_BIT)
    parts = name.split("_")
    if parts[:2] != ["s", "cmp"] or parts[2] not in COMPARE:
        raise unsupported(instruction)
    reads = scalar_bits(fields["ssrc0"], words) | scalar_bits(fields["ssrc1"], words)
    run = _comparison(
        parts[2],
        parts[3].startswith("i"),
        scalar_reader(fields["ssrc0"], words, instruction),
        scalar_reader(fields["ssrc1"], words, instruction),
    )
    return MicroOp(instruction, run, reads, _SCC_BIT)


def _comparison(
    relation: str,
    as_signed: bool,
    read_a: Callable[[Wave], int],
    read_b: Callable[[Wave], int],
) -> Run:
    compare = COMPARE[relation]

    def run(wave: Wave) -> None:
        a, b = read_a(wave), read_b(wave)
        wave.scc = int(compare(signed(a), signed(b)) if as_signed else compare(a, b))

    return run


def _sopk(instruction: Decoded) -> MicroOp:
    name, fields = instruction.name, instruction.fields
    target, immediate = fields["sdst"], fields["simm16"]
    here = register_bits(target, 1)
    extended = signed(immediate, 16) & WORD
    if name == "s_movk_i32":
        write = scalar_writer(target, 1, instruction)
        return MicroOp(instruction, lambda wave: write(wave, extended), 0, here)
    if name == "s_cmovk_i32":
        write_if = scalar_writer(target, 1, instruction)

        def move(wave: Wave) -> None:
            if wave.scc:
                write_if(wave, extended)

        return MicroOp(instruction, move, _SCC_BIT | here, here)
    if name == "s_getreg_b32" and immediate & 0x3F in _HARDWARE_REGISTERS:
        value = _HARDWARE_REGISTERS[immediate & 0x3F] >> (immediate >> 6 & 31)
        field = value & (1 << (immediate >> 11) + 1) - 1
        write_field = scalar_writer(target, 1, instruction)
        return MicroOp(instruction, lambda wave: write_field(wave, field), 0, here)
    if name in ("s_addk_i32", "s_mulk_i32"):
        given = replace(instruction, fields={**fields, "literal": extended})
        return _binary_step(given, (target, 255), SOP2[name.replace("k_", "_")])
    if name.startswith("s_cmpk_"):
        relation, kind = name.split("_")[2:]
        value = immediate if kind == "u32" else extended
        read = scalar_reader(target, 1, instruction)
        run = _comparison(relation, kind == "i32", read, lambda wave: value)
        return MicroOp(instruction, run, here, _SCC_BIT)
    if name in ("s_setreg_b32", "s_setreg_imm32_b32") and immediate & 0x3F == 1:
        # HW_REG_MODE: rounding and denormal modes are not modelled (docs/emulator.md).
        return MicroOp(instruction, lambda wave: None, 0 if "imm" in name else here, 0)
    raise unsupported(instruction)
