"""Scalar ALU: SOP1, SOP2, SOPC and SOPK.

What an operation computes is a row of a table in ``scalar_ops``; here are the steps around it:
read, screen for undefined values, write the result and SCC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.operands import (
    ReadOperand,
    ScalarReader,
    ScalarWriter,
    scalar_source,
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


def _target(instruction: Decoded, words: int = 1) -> tuple[ScalarWriter, int]:
    """What writes the destination, and its registers."""
    code = instruction.fields["sdst"]
    return scalar_writer(code, words, instruction), register_bits(code, words)


def _binary_step(
    instruction: Decoded, codes: tuple[int, int], spec: tuple[int, int, int, Binary]
) -> MicroOp:
    words_a, words_b, words_d, function = spec
    read_a, bits_a = scalar_source(codes[0], words_a, instruction)
    read_b, bits_b = scalar_source(codes[1], words_b, instruction)
    write, here = _target(instruction, words_d)

    def run(wave: Wave) -> None:
        value, scc = function(read_a(wave), read_b(wave))
        write(wave, value)
        if scc is not None:
            wave.scc = scc

    sets_scc = function(1, 1)[1] is not None
    return MicroOp(instruction, run, bits_a | bits_b, here | (_SCC_BIT if sets_scc else 0))


def _sop2(instruction: Decoded) -> MicroOp:
    name, fields = instruction.name, instruction.fields
    codes = (fields["ssrc0"], fields["ssrc1"])
    if name in SOP2:
        return _binary_step(instruction, codes, SOP2[name])
    if name in ("s_cselect_b32", "s_cselect_b64"):
        return _select(instruction, codes, _words(name))
    if name in ("s_addc_u32", "s_subb_u32"):
        return _carry(instruction, codes, subtract=name == "s_subb_u32")
    raise unsupported(instruction)


def _words(name: str) -> int:
    return 2 if name.endswith("64") else 1


def _select(instruction: Decoded, codes: tuple[int, int], words: int) -> MicroOp:
    sides = [scalar_source(code, words, instruction) for code in codes]
    write, here = _target(instruction, words)

    def run(wave: Wave) -> None:
        read, _ = sides[0] if wave.scc else sides[1]
        write(wave, read(wave))

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, [SCC])
        _, chosen = sides[0] if wave.scc else sides[1]
        screen_copy(wave, MicroOp(instruction, run, chosen, step.writes))

    return MicroOp(instruction, run, sides[0][1] | sides[1][1] | _SCC_BIT, here, screen)


def _carry(instruction: Decoded, codes: tuple[int, int], *, subtract: bool) -> MicroOp:
    read_a, bits_a = scalar_source(codes[0], 1, instruction)
    read_b, bits_b = scalar_source(codes[1], 1, instruction)
    write, here = _target(instruction)

    def run(wave: Wave) -> None:
        if subtract:
            total = read_a(wave) - read_b(wave) - wave.scc
            wave.scc = int(total < 0)
        else:
            total = read_a(wave) + read_b(wave) + wave.scc
            wave.scc = total >> 32
        write(wave, total & WORD)

    return MicroOp(instruction, run, bits_a | bits_b | _SCC_BIT, here | _SCC_BIT)


def _sop1(instruction: Decoded) -> MicroOp:
    name, code = instruction.name, instruction.fields["ssrc0"]
    if name in SOP1:
        words, words_d, function = SOP1[name]
        read, bits = scalar_source(code, words, instruction)
        write, here = _target(instruction, words_d)

        def run(wave: Wave) -> None:
            value, scc = function(read(wave))
            write(wave, value)
            if scc is not None:
                wave.scc = scc

        written = here | (_SCC_BIT if function(1)[1] is not None else 0)
        screen = screen_copy if name.startswith("s_mov") else screen_reads
        return MicroOp(instruction, run, bits, written, screen)
    if name.endswith("_saveexec_b64"):
        return _save_exec(instruction)
    if name in ("s_cmov_b32", "s_cmov_b64"):
        source = scalar_source(code, _words(name), instruction)
        return _conditional_move(instruction, source, _words(name))
    if name.startswith("s_bitset"):
        return _bit_set(instruction, name[8] == "1", _words(name))
    if name in ("s_andn1_wrexec_b64", "s_andn2_wrexec_b64"):
        return _write_exec(instruction)
    raise unsupported(instruction)


def _save_exec(instruction: Decoded) -> MicroOp:
    """The destination becomes EXEC, and EXEC what the operation makes of it and the source."""
    operation = instruction.name.removeprefix("s_").removesuffix("_saveexec_b64")
    swapped = operation in ("andn1", "orn1")
    combine = BITWISE.get(operation.replace("n1", "n2") if swapped else operation)
    if combine is None:
        raise unsupported(instruction)

    def new(source: int, old: int) -> int:
        return combine(old, source) if swapped else combine(source, old)

    return _exec_step(instruction, new, saves=True)


def _write_exec(instruction: Decoded) -> MicroOp:
    """EXEC and the destination become ~source & EXEC (andn1) or source & ~EXEC (andn2)."""
    if "andn1" in instruction.name:
        return _exec_step(instruction, lambda source, old: ~source & old, saves=False)
    return _exec_step(instruction, lambda source, old: source & ~old, saves=False)


def _exec_step(instruction: Decoded, new: Callable[[int, int], int], *, saves: bool) -> MicroOp:
    """EXEC becomes what ``new`` makes of the source and of it; the destination the old or that."""
    read, bits = scalar_source(instruction.fields["ssrc0"], 2, instruction)
    write, here = _target(instruction, 2)

    def run(wave: Wave) -> None:
        source, old = read(wave), wave.exec_mask
        after = new(source, old) & LONG
        if saves:
            write(wave, old)
        wave.set_exec(after)
        if not saves:
            write(wave, after)
        wave.scc = int(after != 0)

    lanes = register_bits(EXEC, 2)
    return MicroOp(instruction, run, bits | lanes, here | lanes | _SCC_BIT)


def _conditional_move(instruction: Decoded, source: ReadOperand, words: int = 1) -> MicroOp:
    read, bits = source
    write, here = _target(instruction, words)

    def run(wave: Wave) -> None:
        if wave.scc:
            write(wave, read(wave))

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, [SCC])
        if wave.scc:
            screen_copy(wave, MicroOp(instruction, run, bits, step.writes))

    return MicroOp(instruction, run, bits | _SCC_BIT, here, screen, keeps=here)


def _bit_set(instruction: Decoded, value: bool, words: int) -> MicroOp:
    read, bits = scalar_source(instruction.fields["ssrc0"], 1, instruction)
    read_old = scalar_source(instruction.fields["sdst"], words, instruction).read
    write, here = _target(instruction, words)

    def run(wave: Wave) -> None:
        bit = 1 << (read(wave) & (32 * words - 1))
        write(wave, read_old(wave) | bit if value else read_old(wave) & ~bit)

    return MicroOp(instruction, run, bits | here, here)


def _sopc(instruction: Decoded) -> MicroOp:
    name, fields = instruction.name, instruction.fields
    words, tests_bit = _words(name), name.startswith("s_bitcmp")
    read_a, bits_a = scalar_source(fields["ssrc0"], words, instruction)
    read_b, bits_b = scalar_source(fields["ssrc1"], 1 if tests_bit else words, instruction)
    if tests_bit:
        run = _bit_test(int(name[8]), 32 * words - 1, read_a, read_b)
    else:
        parts = name.split("_")
        if parts[:2] != ["s", "cmp"] or parts[2] not in COMPARE:
            raise unsupported(instruction)
        run = _comparison(parts[2], parts[3].startswith("i"), read_a, read_b)
    return MicroOp(instruction, run, bits_a | bits_b, _SCC_BIT)


def _bit_test(wanted: int, most: int, read_a: ScalarReader, read_b: ScalarReader) -> Run:
    def run(wave: Wave) -> None:
        wave.scc = int(read_a(wave) >> (read_b(wave) & most) & 1 == wanted)

    return run


def _comparison(
    relation: str,
    as_signed: bool,
    read_a: ScalarReader,
    read_b: ScalarReader,
) -> Run:
    compare = COMPARE[relation]

    def run(wave: Wave) -> None:
        a, b = read_a(wave), read_b(wave)
        wave.scc = int(compare(signed(a), signed(b)) if as_signed else compare(a, b))

    return run


def _sopk(instruction: Decoded) -> MicroOp:
    name, fields = instruction.name, instruction.fields
    target, immediate = fields["sdst"], fields["simm16"]
    extended = signed(immediate, 16) & WORD
    here = register_bits(target, 1)
    if name == "s_movk_i32":
        write, _ = _target(instruction)
        return MicroOp(instruction, lambda wave: write(wave, extended), 0, here)
    if name == "s_cmovk_i32":
        return _conditional_move(instruction, ReadOperand(lambda wave: extended, 0))
    if name == "s_getreg_b32" and immediate & 0x3F in _HARDWARE_REGISTERS:
        value = _HARDWARE_REGISTERS[immediate & 0x3F] >> (immediate >> 6 & 31)
        field = value & (1 << (immediate >> 11) + 1) - 1
        write, _ = _target(instruction)
        return MicroOp(instruction, lambda wave: write(wave, field), 0, here)
    if name in ("s_addk_i32", "s_mulk_i32"):
        given = replace(instruction, fields={**fields, "literal": extended})
        return _binary_step(given, (target, 255), SOP2[name.replace("k_", "_")])
    if name.startswith("s_cmpk_"):
        relation, kind = name.split("_")[2:]
        value = immediate if kind == "u32" else extended
        read = scalar_source(target, 1, instruction).read
        run = _comparison(relation, kind == "i32", read, lambda wave: value)
        return MicroOp(instruction, run, here, _SCC_BIT)
    if name in ("s_setreg_b32", "s_setreg_imm32_b32") and immediate & 0x3F == 1:
        # HW_REG_MODE: rounding and denormal modes are not modelled (docs/emulator.md).
        return MicroOp(instruction, lambda wave: None, 0 if "imm" in name else here, 0)
    raise unsupported(instruction)
