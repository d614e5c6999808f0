"""The front end for machine code of the judge of wait states (``pipeloom.judge.wait_states``).

    for hazard in check_hazards(load_code_object("k.hsaco")):
        print(hazard)      # pc 0x2a4: v_accvgpr_read_b32 lacks 3 wait state(s): ... (a0)

The emulator computes as if every result were there at once, so that a missing ``s_nop`` cannot show
in what a kernel stores. This judge looks at the decoded instructions instead, along all branches,
executed or not. Works on any code object: on ours, on a compiler's, on one whose source is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pipeloom.judge.emulate.decode import Decoded, decode_kernel
from pipeloom.judge.emulate.loader import CodeKernel, CodeObject
from pipeloom.judge.emulate.observed import Defect, DefectKind
from pipeloom.judge.wait_states import Issued, judge
from pipeloom.judge.wait_states.effects import AGPR, VCC, VGPR, Registers
from pipeloom.machine.matrix_ops import f8f6f4_bits
from pipeloom.machine.source_lines import LineMap
from pipeloom.machine.target import Target
from pipeloom.machine.wait_rules import Basis

_CARRY_OUT = ("v_add_co_", "v_sub_co_", "v_subrev_co_", "v_addc_co_", "v_subb_co_", "v_subbrev_co_")
_CARRY_IN = ("v_addc_co_", "v_subb_co_", "v_subbrev_co_", "v_cndmask_b32")
_VCC_PAIR = (VCC, VCC + 1)
_NO_SADDR = 0x7F
_SDWA_WHOLE = 6
"""dst_sel of a whole register."""
_ORDER = ("vdst", "sdst", "sdata", "src0", "src1", "src2", "ssrc0", "ssrc1")
_SCALES = ("scale_src0", "scale_src1")
_WITHOUT_OPERANDS = (
    "v_nop",
    "v_clrexcp",
    "ds_nop",
    "buffer_wbl2",
    "buffer_inv",
    "s_dcache_inv",
    "s_dcache_wb",
    "s_dcache_inv_vol",
    "s_dcache_wb_vol",
)
_XF32 = {"v_mfma_f32_16x16x8_xf32": 4, "v_mfma_f32_32x32x4_xf32": 16}
"""gfx942 only, and not in the decoder's tables, which are gfx950's; registers of C and D."""


@dataclass(frozen=True, slots=True)
class WaitHazard:
    """An instruction that may issue too early, or (``missing`` is 0) that cannot be judged."""

    kernel: str
    pc: int
    instruction: str
    missing: int
    message: str
    source: str
    """Where the rule is written; see ``pipeloom.machine.cdna_waits``."""
    basis: Basis = Basis.REQUIRED
    register: str = ""
    """What both instructions touch, where it is one register."""

    def __str__(self) -> str:
        return f"pc {self.pc:#x}: {self.instruction} {self.message}"


def check_hazards(code: CodeObject | CodeKernel) -> tuple[WaitHazard, ...]:
    """Every instruction of every kernel that lacks wait states or has no known rule, by pc."""
    kernels = (
        [code] if isinstance(code, CodeKernel) else [code.kernels[k] for k in sorted(code.kernels)]
    )
    return tuple(hazard for kernel in kernels for hazard in _of_kernel(kernel))


def hazard_findings(kernel: CodeKernel, line_map: LineMap, limit: int) -> list[Defect]:
    """The hazards of a kernel as findings of a run; they belong to no wave in particular."""
    return [
        Defect(
            kind=DefectKind.WAIT_STATES,
            message=hazard.message,
            pc=hazard.pc,
            instruction=hazard.instruction,
            workgroup=(0, 0, 0),
            wave=-1,
            source=line_map.get(hazard.pc),
        )
        for hazard in _of_kernel(kernel)[:limit]
    ]


def _of_kernel(kernel: CodeKernel) -> tuple[WaitHazard, ...]:
    return _judged(kernel.code, kernel.target, kernel.name)


@lru_cache(maxsize=64)
def _judged(code: bytes, target: Target, name: str) -> tuple[WaitHazard, ...]:
    program = read_instructions(decode_kernel(code))
    return tuple(
        WaitHazard(
            name,
            program[f.at].place,
            program[f.at].name,
            f.missing,
            f.describe(),
            f.source,
            f.basis,
            f.register,
        )
        for f in judge(program, target)
    )


def read_instructions(instructions: tuple[Decoded, ...]) -> list[Issued]:
    """Decoded instructions as the judge reads them."""
    positions = {one.pc: at for at, one in enumerate(instructions)}
    return [_issued(one, positions) for one in instructions]


def _issued(one: Decoded, positions: Mapping[int, int]) -> Issued:
    name, fields = one.name, one.fields
    if one.target is not None:
        target = positions.get(one.target)
        if target is None:
            return Issued(one.pc, name, name, problem=f"the target of {name} is not in the kernel")
        return Issued(one.pc, name, name, targets=(target,))
    if name == "s_nop":
        # The field has 4 bits on gfx9 (CDNA3 ISA, S_NOP).
        return Issued(one.pc, name, name, wait_states=(fields["simm16"] & 15) + 1)
    if one.encoding == "SOPP":
        return Issued(one.pc, name, name)
    hardware = fields["simm16"] & 63 if name.startswith(("s_setreg", "s_getreg")) else None
    widths = _operand_table().get((one.encoding, name), {} if name in _WITHOUT_OPERANDS else None)
    if widths is None:
        return Issued(one.pc, name, name, problem=f"the operands of {name} are not known")
    operands = tuple(_MEMORY.get(one.encoding, _arithmetic)(one, widths))
    return Issued(
        one.pc,
        name,
        name,
        operands,
        _modifiers(one),
        0 if one.encoding.startswith("VOP3P") else fields.get("opsel", 0),
        hardware_register=hardware,
    )


def _modifiers(one: Decoded) -> frozenset[str]:
    fields = one.fields
    found = {name for name in ("lds", "sc0", "gds", "glc") if fields.get(name)}
    found |= {f"{name}:{fields[name]}" for name in ("cbsz", "blgp") if name in fields}
    if one.variant.startswith("DPP"):
        found.add("dpp")
    if fields.get("dst_sel", _SDWA_WHOLE) != _SDWA_WHOLE:
        found.add("partial")
    return frozenset(found)


Width = tuple[int, str]
"""Registers of an operand, and the kind of register that may stand there."""


@lru_cache(maxsize=1)
def _operand_table() -> Mapping[tuple[str, str], Mapping[str, Width]]:
    """(encoding, mnemonic) -> operands by field, from the decoder's copy of AMD's ISA tables."""
    from tinygrad.runtime.autogen.amd.cdna.operands import OPERANDS

    renamed = {"v_accvgpr_read": "v_accvgpr_read_b32", "v_accvgpr_write": "v_accvgpr_write_b32"}
    table: dict[tuple[str, str], Mapping[str, Width]] = {}
    for op, operands in OPERANDS.items():
        encoding = type(op).__name__.removesuffix("Op")
        name = op.name.lower().removesuffix("_e32").removesuffix("_e64")
        table[encoding, renamed.get(name, name)] = {
            field: (max(1, bits // 32), kind.name) for field, (_, bits, kind) in operands.items()
        }
    for name, words in _XF32.items():
        source, result = "OPR_SRC_VGPR_OR_ACCVGPR", "OPR_VGPR_OR_ACCVGPR"
        sides: dict[str, Width] = {"src0": (2, source), "src1": (2, source)}
        table["VOP3P", name] = {**sides, "src2": (words, source), "vdst": (words, result)}
    return table


def _run(first: int, count: int) -> Registers:
    return tuple(range(first, first + count))


def _source(code: int, width: int, accumulator: bool = False) -> Registers:
    """Registers of a 9-bit source; none for a constant (vccz and execz count as registers)."""
    if code >= VGPR:
        return _run(code + (AGPR - VGPR if accumulator else 0), width)
    if code < 128:
        return _run(code, width)
    return (code,) if code in (251, 252) else ()


def _arithmetic(one: Decoded, widths: Mapping[str, Width]) -> Iterator[Registers]:
    """Scalar and vector arithmetic in LLVM's order: results, then sources."""
    fields, name = one.fields, one.name
    short = one.encoding in ("VOP1", "VOP2", "VOPC")
    if one.encoding == "VOPC":
        yield (fields["sdst"], fields["sdst"] + 1) if fields.get("sd") else _VCC_PAIR
    for field in _ORDER:
        wanted = widths.get(field) or widths.get(f"v{field}")
        if wanted is None:
            continue
        width, kind = wanted
        if "f8f6f4" in name and field in ("src0", "src1"):
            width = f8f6f4_bits(fields["cbsz" if field == "src0" else "blgp"])
        yield _vector_or_scalar(one, field, width, kind)
        if field == "vdst" and one.encoding == "VOP2" and name.startswith(_CARRY_OUT):
            yield _VCC_PAIR
    if short and name.startswith(_CARRY_IN):
        yield _VCC_PAIR
    for field in _SCALES:
        if field in widths:
            yield _source(fields[field], 1)


def _vector_or_scalar(one: Decoded, field: str, width: int, kind: str) -> Registers:
    fields = one.fields
    if field in ("vdst", "sdst", "sdata"):
        if "SREG" in kind or "SDST" in kind:
            return _run(fields[field], width)
        return _run(VGPR + fields[field] + _accumulator(one, field, kind), width)
    if field == "src0" and "vsrc0" in fields:
        scalar = bool(fields.get("s0"))
        return _run(fields["vsrc0"] + (0 if scalar else VGPR), width)
    if field == "src1" and "vsrc1" in fields:
        scalar = bool(fields.get("s1"))
        return _run(fields["vsrc1"] + (0 if scalar else VGPR), width)
    return _source(fields[field], width, bool(_accumulator(one, field, kind)))


def _accumulator(one: Decoded, field: str, kind: str) -> int:
    """How far from VGPRs the operand's register file is."""
    if "ACCVGPR" not in kind:
        return 0
    if "VGPR_OR_ACCVGPR" not in kind:
        return AGPR - VGPR
    if field in ("vdst", "src2"):
        chosen = one.fields.get("acc_cd", 0)
    else:
        chosen = one.fields.get("acc", 0) >> (field == "src1") & 1
    return AGPR - VGPR if chosen else 0


def _data(one: Decoded, field: str, width: int) -> Registers:
    return _run((AGPR if one.fields.get("acc") else VGPR) + one.fields[field], width)


def _buffer(one: Decoded, widths: Mapping[str, Width]) -> Iterator[Registers]:
    fields = one.fields
    if "vdata" in widths and not fields.get("lds"):
        yield _data(one, "vdata", widths["vdata"][0])
    if "srsrc" not in widths:
        return
    address = fields["offen"] + fields["idxen"]
    yield _run(VGPR + fields["vaddr"], address)
    yield _run(fields["srsrc"], 4)
    yield _source(fields["soffset"], 1)


def _segment(one: Decoded, widths: Mapping[str, Width]) -> Iterator[Registers]:
    """Global, flat and scratch."""
    fields, name = one.fields, one.name
    based = one.encoding != "FLAT" and fields["saddr"] != _NO_SADDR
    if one.encoding == "SCRATCH":
        address = 1 if fields["sve"] else 0
    else:
        address = 1 if based else 2
    atomic = "_atomic_" in name
    if "vdst" in widths and "_lds_" not in name and (not atomic or fields["sc0"]):
        yield _data(one, "vdst", widths["vdst"][0])
    yield _run(VGPR + fields["addr"], address)
    if "data" in widths:
        yield _data(one, "data", widths["data"][0])
    yield _run(fields["saddr"], 1 if one.encoding == "SCRATCH" else 2) if based else ()


def _lds(one: Decoded, widths: Mapping[str, Width]) -> Iterator[Registers]:
    if "vdst" in widths:
        yield _data(one, "vdst", widths["vdst"][0])
    if "addr" in widths:
        yield _run(VGPR + one.fields["addr"], 1)
    for field in ("data0", "data1"):
        if field in widths:
            yield _data(one, field, widths[field][0])


def _scalar_memory(one: Decoded, widths: Mapping[str, Width]) -> Iterator[Registers]:
    fields = one.fields
    if "sdata" in widths:
        yield _run(fields["sdata"], widths["sdata"][0])
    if "sbase" in widths:
        yield _run(fields["sbase"], widths["sbase"][0])


_MEMORY = {
    "MUBUF": _buffer,
    "MTBUF": _buffer,
    "GLOBAL": _segment,
    "FLAT": _segment,
    "SCRATCH": _segment,
    "DS": _lds,
    "SMEM": _scalar_memory,
}
