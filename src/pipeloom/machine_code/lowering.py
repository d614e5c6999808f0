"""One instruction as the simulator's, whether it was read from text or from machine code.

    ds_read_b128 v[8:11], v2 offset:1024      ->  LDS read of 16 bytes per lane
    v_mfma_f32_16x16x32_bf16 a[0:3], ...      ->  MFMA of that shape, on the value a[0:3]

All front ends (``read_line`` for lines of our emitter, ``read_step`` for decoded instructions,
``read_text_line`` for a disassembly) give a ``MachineLine``, and only that is lowered: a kernel
takes the same cycles as text and as a code object. Registers become values (``values_of``), so that
real dependences count. A branch not taken costs a scalar slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeloom.errors import ConfigError
from pipeloom.judge.emulate.disassembly import instruction_text
from pipeloom.judge.emulate.pending import WaitCounts
from pipeloom.judge.emulate.register_numbers import AGPR, SCC, VGPR, each_register, register_name
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.simulate import Kind, WaveOp
from pipeloom.judge.wait_states import read_assembly, registers_of
from pipeloom.machine.cdna import CYCLES_PER_PASS
from pipeloom.machine.facts import Fact, FactKind
from pipeloom.machine.matrix_ops import MatrixOp, f8f6f4_bits
from pipeloom.machine.mnemonics import MNEMONICS, is_transcendental, passes_of, traits_of
from pipeloom.machine.target import Target
from pipeloom.write import isa

_LDS = re.compile(r"ds_(read|write)(2(?:st64)?)?_(?:addtid_)?[bui](\d+)")
_WORDS = re.compile(r"dword(?:x(\d))?|format_(?:d16_)?(xyzw|xyz|xy|x)")
_COUNT = re.compile(r"(vm|lgkm)cnt\((\d+)\)")
_FIELD = re.compile(r"\b(cbsz|blgp):(\d{1,2})\b")
_AMOUNT = re.compile(r"^s_\w+ (0x[0-9a-fA-F]{1,4}|\d{1,5})$")
_PACKED = re.compile(r"v_pk_\w+_f32$")
_MEMORY = ("buffer_", "tbuffer_", "global_", "flat_", "scratch_")
_SHAPE = re.compile(r"_(\d+)x(\d+)x(\d+)")
_NARROW = {"byte": 1, "short": 2}
_BANKS = {isa.Bank.VECTOR: VGPR, isa.Bank.ACCUMULATOR: AGPR, isa.Bank.SCALAR: 0}
_SPECIAL = {"scc": (SCC,), "vcc": (106, 107), "m0": (124,), "exec": (126, 127)}
_SLEEP = 16
"""``s_nop`` counts in one of ``s_sleep``, which is 64 cycles (CDNA3 ISA)."""


@dataclass(frozen=True, slots=True)
class MachineLine:
    """What the simulator asks of an instruction. Registers are numbered as the emulator does."""

    name: str
    text: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """Of a wait, by the name that the simulator has for the counter."""
    amount: int = 0
    to_lds: bool = False
    formats: tuple[int, int] = (0, 0)
    """cbsz and blgp."""


def read_line(line: isa.Instruction) -> MachineLine:
    """A line of an emitted kernel."""
    words = line.modifiers.split()
    fields = dict(word.split(":", 1) for word in words if ":" in word)
    writes = _numbers(line.writes)
    traits = traits_of(line.opcode.name)
    swaps = traits is not None and traits.swaps
    return MachineLine(
        line.opcode.name,
        str(line),
        _numbers(line.reads) + (writes if swaps else ()),
        writes,
        _counts(line.modifiers),
        next((operand for operand in line.operands if isinstance(operand, int)), 0),
        "lds" in words,
        (int(fields.get("cbsz", 0)), int(fields.get("blgp", 0))),
    )


def _counts(text: str) -> dict[str, int]:
    return {counter: int(count) for counter, count in _COUNT.findall(text)}


def named_counts(counts: WaitCounts) -> dict[str, int]:
    """What a wait counts, by the names that a ``MachineLine`` has."""
    return {queue.value.removesuffix("cnt"): count for queue, count in counts.counts.items()}


def _numbers(registers: Iterable[isa.Register]) -> tuple[int, ...]:
    found: list[int] = []
    for register in registers:
        if register.bank in _BANKS:
            first = _BANKS[register.bank] + register.index
            found += range(first, first + register.count)
        else:
            found += _SPECIAL[str(register)]
    return tuple(found)


def read_step(step: MicroOp) -> MachineLine:
    """A decoded instruction."""
    one = step.instruction
    fields = one.fields
    waits = one.name == "s_waitcnt"
    return MachineLine(
        one.name,
        instruction_text(one),
        tuple(each_register(step.reads)),
        tuple(each_register(step.writes)),
        named_counts(WaitCounts.of(fields["simm16"])) if waits else {},
        fields.get("simm16", 0),
        bool(fields.get("lds")) or "_lds_" in one.name,
        (fields.get("cbsz", 0), fields.get("blgp", 0)),
    )


def read_text_line(text: str, machine: Target) -> MachineLine:
    """A line of a disassembly; the target of a branch need not be known."""
    found, _ = read_assembly(text)
    if len(found) != 1:
        raise ConfigError(
            f"{text[:80]!r} is not one instruction", hint="give LLVM's disassembly", field="kernel"
        )
    one = found[0]
    reads, writes = registers_of(one, machine)
    fields = {name: int(value) for name, value in _FIELD.findall(text)}
    amount = _AMOUNT.search(text)
    return MachineLine(
        one.name,
        one.text,
        reads,
        writes,
        _counts(text),
        int(amount[1], 0) if amount else 0,
        "lds" in one.modifiers or "_lds_" in one.name,
        (fields.get("cbsz", 0), fields.get("blgp", 0)),
    )


def lower_line(
    line: MachineLine, machine: Target, *, jumped: bool = False, conflict: float = 1.0
) -> WaveOp:
    """The instruction as the engine takes it, named by its mnemonic.

    ``jumped`` says that it is a branch that was taken, ``conflict`` is the bank conflict of an
    access to LDS. ``ConfigError`` for an instruction that the engine does not model.
    """
    name = line.name
    if name.startswith("s_"):
        return _scalar(line, jumped)
    if name.startswith(("v_mfma", "v_smfmac")):
        return WaveOp.mfma(_matrix_op(line, machine), label=name)
    if name.startswith("v_"):
        kind = Kind.TRANS if is_transcendental(name) else Kind.VALU
        return WaveOp.valu(Kind.PACKED if _PACKED.match(name) else kind, label=name)
    if name.startswith("ds_"):
        return _lds(name, conflict)
    if name.startswith(_MEMORY):
        return _memory(line)
    raise ConfigError(
        f"the simulator does not model {line.text!r}",
        hint="it takes MFMA, VALU, LDS, buffer, global, flat and scratch memory, SALU and control",
        field="kernel",
    )


def _scalar(line: MachineLine, jumped: bool) -> WaveOp:
    match line.name:
        case "s_barrier":
            return WaveOp.barrier(label=line.name)
        case "s_waitcnt" if line.counts:
            return WaveOp.wait(**line.counts)
        case "s_setprio":
            return WaveOp.set_prio(line.amount)
        case "s_nop":
            return WaveOp.nop(line.amount)
        case "s_sleep":
            return WaveOp.nop(_SLEEP * line.amount)
    if jumped:
        return WaveOp.branch(label=line.text)
    if line.name.startswith(("s_load", "s_buffer_load", "s_scratch_load", "s_mem")):
        return WaveOp.scalar_load(label=line.text)
    return WaveOp.salu(label=line.text)


def _lds(name: str, conflict: float) -> WaveOp:
    found = _LDS.match(name)
    if found is None:
        # Swizzles, permutes and atomics: a word per lane, or two.
        return WaveOp.lds_read(8 if name.endswith("64") else 4, conflict=conflict, label=name)
    width = min(max(int(found[3]) // 8, 1) * (2 if found[2] else 1), 16)
    make = WaveOp.lds_read if found[1] == "read" else WaveOp.lds_write
    return make(width, conflict=conflict, label=name)


def _memory(line: MachineLine) -> WaveOp:
    name = line.name
    words = _WORDS.search(name)
    if words is not None:
        width = 4 * (int(words[1]) if words[1] else len(words[2] or "x"))
    elif "atomic" in name:
        width = 8 if "x2" in name or "64" in name else 4
    else:
        width = next((size for part, size in _NARROW.items() if part in name), 4)
    if "store" in name or ("atomic" in name and not line.writes):
        return WaveOp.global_store(width, label=name)
    return WaveOp.global_load(width, to_lds=line.to_lds, label=name)


def _matrix_op(line: MachineLine, machine: Target) -> MatrixOp:
    """The chip's record of it; of one that the record lacks, the passes LLVM gives."""
    name = line.name
    widest = max(map(f8f6f4_bits, line.formats))
    if name.endswith("f8f6f4"):
        name = name.replace("f8f6f4", f"fp{widest}")
    traits, shape = MNEMONICS.get(line.name), _SHAPE.search(line.name)
    try:
        return machine.matrix_op(name)
    except ConfigError:
        if traits is None or not traits.passes or shape is None:
            raise
    m, n, k = (int(part) for part in shape.groups())
    cycles = CYCLES_PER_PASS * passes_of(line.name, widest, machine.encoded_as)
    source = "passes of LLVM's scheduling model"
    fact = Fact(cycles, "cycles", FactKind.VENDOR, source)
    return MatrixOp(m, n, k, name.rpartition("_")[2], fact)


Values = tuple[tuple[str, ...], tuple[str, ...]]


def values_of(lines: Mapping[int, MachineLine]) -> dict[int, Values]:
    """Per line, the values that it needs and gives.

    Of all registers only those matter that some MFMA or VALU instruction writes; registers that
    the same instructions touch are one value, named by its registers.
    """
    given = {r for line in lines.values() if line.name.startswith("v_") for r in line.writes}
    touched: dict[int, list[int]] = {}
    for at in sorted(lines):
        line = lines[at]
        for register in {*line.reads, *line.writes} & given:
            touched.setdefault(register, []).append(at)
    together: dict[tuple[int, ...], list[int]] = {}
    for register in sorted(touched):
        together.setdefault(tuple(touched[register]), []).append(register)
    name_of = {r: _value_name(group) for group in together.values() for r in group}
    return {
        at: (_names(line.reads, name_of), _names(line.writes, name_of))
        for at, line in lines.items()
    }


def _names(registers: Sequence[int], name_of: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name_of[r] for r in registers if r in name_of))


def _value_name(registers: Sequence[int]) -> str:
    first, last = register_name(registers[0]), register_name(registers[-1])
    return first if first == last else f"{first}..{last}"


def with_values(instruction: WaveOp, values: Values) -> WaveOp:
    """The instruction with its dependences; waits and barriers need no register."""
    if instruction.kind in (Kind.WAIT, Kind.BARRIER, Kind.NOP, Kind.SET_PRIO, Kind.BRANCH):
        return instruction
    return replace(instruction, needs=values[0], gives=values[1])
