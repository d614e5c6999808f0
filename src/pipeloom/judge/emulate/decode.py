"""Target code to instructions, through tinygrad's CDNA decoder.

The decoder's objects stop here: a ``Decoded`` holds the LLVM mnemonic, the encoding family
and the raw bit fields, and nothing of tinygrad's.

    decode_kernel(code)[0]  ->  Decoded(pc=0, size=8, name="s_load_dwordx2", encoding="SMEM",
                                            variant="", fields={"sdata": 2, "sbase": 0, ...})

Register numbers in ``fields`` are those of the ISA: a 9-bit source counts VGPRs from 256, an
8-bit VGPR field from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pipeloom.judge.emulate.traps import EmulateError, UnsupportedInstructionError

_SCALED_MFMA_PREFIX = 0xD3AC
"""First half-word pair of the only 16-byte encoding: v_mfma_ld_scale_b32 before an f8f6f4 MFMA."""

_LLVM_NAMES = {"v_accvgpr_read": "v_accvgpr_read_b32", "v_accvgpr_write": "v_accvgpr_write_b32"}
_ALIGNED_FIELDS = {"sbase": 1, "srsrc": 2}
"""SGPR fields that are stored shifted right by this much."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One decoded instruction at byte offset ``pc`` of its kernel."""

    pc: int
    size: int
    name: str
    encoding: str
    variant: str
    fields: Mapping[str, int]

    @property
    def literal(self) -> int | None:
        """The 32-bit literal that follows the instruction, if any."""
        return self.fields.get("literal")

    @property
    def target(self) -> int | None:
        """The pc that a branch goes to; None of everything else."""
        if self.encoding != "SOPP" or not self.name.startswith(("s_branch", "s_cbranch")):
            return None
        words = self.fields["simm16"]
        return self.pc + 4 + 4 * (words - (words >> 15 << 16))


_SRC, _SSRC = (0, 0x1FF), (0, 0xFF)
_SSRC2 = (_SSRC, (8, 0xFF))
_SRC3 = ((32, 0x1FF), (41, 0x1FF), (50, 0x1FF))
_ENCODINGS = (
    # (bits that name the encoding, their value, bits of the opcode, (lowest bit, mask) of the
    # sources that may hold a marker); first match counts. CDNA3 ISA, "Microcode Formats".
    (0xFF800000, 0xBE800000, 0x0000FF00, (_SSRC,)),  # SOP1
    (0xFF800000, 0xBF000000, 0x007F0000, _SSRC2),  # SOPC
    (0xFF800000, 0xBF800000, 0x007F0000, ()),  # SOPP
    (0xF0000000, 0xB0000000, 0x0F800000, ()),  # SOPK
    (0xC0000000, 0x80000000, 0x3F800000, _SSRC2),  # SOP2
    (0xFE000000, 0x7E000000, 0x0001FE00, (_SRC,)),  # VOP1
    (0xFE000000, 0x7C000000, 0x01FE0000, (_SRC,)),  # VOPC
    (0x80000000, 0x00000000, 0x7E000000, (_SRC,)),  # VOP2
    (0xFF800000, 0xD3800000, 0x007F0000, _SRC3),  # VOP3P
    (0xFC000000, 0xD0000000, 0x03FF0000, _SRC3),  # VOP3
    (0xFC000000, 0xC0000000, 0x03FC0000, ()),  # SMEM
    (0xFC000000, 0xD8000000, 0x01FE0000, ()),  # DS
    (0xFC000000, 0xDC000000, 0x01FCC000, ()),  # FLAT, with its segment
    (0xFC000000, 0xE0000000, 0x01FC0000, ()),  # MUBUF
)
_MARKERS = frozenset({249, 250, 255})
"""Source codes that change the encoding: SDWA, DPP, and a literal behind the instruction."""


class _Form(NamedTuple):
    """What all instructions of one opcode have in common."""

    name: str
    encoding: str
    variant: str
    size: int
    fields: tuple[tuple[str, int, int, int], ...]
    """(name, lowest bit, mask, shift of the value)."""


def _form_bits(raw: int) -> int | None:
    """The bits that tell forms apart: encoding, opcode and markers; None if not known."""
    for mask, value, opcode, sources in _ENCODINGS:
        if raw & mask == value:
            bits = raw & (mask | opcode)
            for lo, field in sources:
                if raw >> lo & field in _MARKERS:
                    bits |= raw & field << lo
            return bits
    return None


@lru_cache(maxsize=64)
def decode_kernel(code: bytes) -> tuple[Decoded, ...]:
    """All instructions of a kernel, in address order. Results are kept by code bytes."""
    return decode_once(code)


def decode_once(code: bytes) -> tuple[Decoded, ...]:
    """The same, and nothing is kept: for whoever reads thousands of kernels.

    Each form is looked up once: tinygrad's search through all formats is slow.
    """
    forms: dict[int, _Form] = {}
    instructions: list[Decoded] = []
    pc = 0
    while pc < len(code):
        bits = _form_bits(int.from_bytes(code[pc : pc + 8], "little"))
        form = None if bits is None else forms.get(bits)
        if form is None:
            form = _look_up(code, pc)
            if bits is not None:
                forms[bits] = form
        raw = int.from_bytes(code[pc : pc + form.size], "little")
        instruction = Decoded(
            pc=pc,
            size=form.size,
            name=form.name,
            encoding=form.encoding,
            variant=form.variant,
            fields={name: (raw >> lo & mask) << shift for name, lo, mask, shift in form.fields},
        )
        _reject_half_decoded(instruction)
        instructions.append(instruction)
        pc += form.size
    return tuple(instructions)


def _look_up(code: bytes, pc: int) -> _Form:
    """The form of the instruction at ``pc``, as tinygrad has it."""
    try:
        from tinygrad.renderer.amd import decode_inst
    except ImportError as error:
        raise EmulateError(
            "the emulator needs the tinygrad wheel to decode machine code",
            hint="pip install 'pipeloom[emulate]'",
        ) from error

    word = int.from_bytes(code[pc : pc + 4], "little")
    # Longer windows would match the scaled MFMA on the instruction after this one.
    window = 16 if word >> 16 == _SCALED_MFMA_PREFIX else 8
    try:
        decoded = decode_inst(code[pc : pc + window].ljust(16, b"\0"), "cdna")
    except (ValueError, AssertionError) as error:
        raise UnsupportedInstructionError(
            f"the word {word:#010x} at pc {pc:#x} is no instruction the decoder knows"
        ) from error
    fields = tuple(
        (name, field.lo, field.mask, _ALIGNED_FIELDS.get(name, 0))
        for name, field in decoded._fields
    )
    encoding, _, variant = type(decoded).__name__.partition("_")
    name = decoded.op_name.lower().removesuffix("_e32").removesuffix("_e64")
    return _Form(
        name=_LLVM_NAMES.get(name, name),
        encoding=encoding,
        variant=variant,
        size=decoded.size(),
        fields=fields,
    )


def _reject_half_decoded(instruction: Decoded) -> None:
    """A DPP or SDWA marker that the decoder has no class for would leave its second word behind."""
    marker = instruction.fields.get("src0")
    short = instruction.encoding in ("VOP1", "VOP2", "VOPC") and not instruction.variant
    if short and marker in (249, 250):
        kind = "SDWA" if marker == 249 else "DPP"
        raise UnsupportedInstructionError(
            f"{instruction.name} at pc {instruction.pc:#x} uses {kind} in a form the decoder lacks"
        )
