"""Target code to instructions, through tinygrad's CDNA decoder.

The decoder's objects stop here: an ``Instruction`` holds the LLVM mnemonic, the encoding family
and the raw bit fields, and nothing of tinygrad's.

    decode_kernel(code)[0]  ->  Instruction(pc=0, size=8, name="s_load_dwordx2", encoding="SMEM",
                                            variant="", fields={"sdata": 2, "sbase": 0, ...})

Register numbers in ``fields`` are those of the ISA: a 9-bit source counts VGPRs from 256, an
8-bit VGPR field from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pipeloom.judge.emulate.faults import EmulateError, UnsupportedInstructionError

_SCALED_MFMA_PREFIX = 0xD3AC
"""First half-word pair of the only 16-byte encoding: v_mfma_ld_scale_b32 before an f8f6f4 MFMA."""

_LLVM_NAMES = {"v_accvgpr_read": "v_accvgpr_read_b32", "v_accvgpr_write": "v_accvgpr_write_b32"}
_ALIGNED_FIELDS = {"sbase": 1, "srsrc": 2}
"""SGPR fields that are stored shifted right by this much."""


@dataclass(frozen=True, slots=True)
class Instruction:
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


@lru_cache(maxsize=64)
def decode_kernel(code: bytes) -> tuple[Instruction, ...]:
    """All instructions of a kernel, in address order. Results are kept by code bytes."""
    try:
        from tinygrad.renderer.amd import decode_inst
    except ImportError as error:
        raise EmulateError(
            "the emulator needs the tinygrad wheel to decode machine code",
            hint="pip install 'pipeloom[emulate]'",
        ) from error

    instructions: list[Instruction] = []
    pc = 0
    while pc < len(code):
        word = int.from_bytes(code[pc : pc + 4], "little")
        # Longer windows would match the scaled MFMA on the instruction after this one.
        window = 16 if word >> 16 == _SCALED_MFMA_PREFIX else 8
        try:
            decoded = decode_inst(code[pc : pc + window].ljust(16, b"\0"), "cdna")
        except (ValueError, AssertionError) as error:
            raise UnsupportedInstructionError(
                f"the word {word:#010x} at pc {pc:#x} is no instruction the decoder knows"
            ) from error
        raw = decoded._raw
        fields = {
            name: ((raw >> field.lo) & field.mask) << _ALIGNED_FIELDS.get(name, 0)
            for name, field in decoded._fields
        }
        encoding, _, variant = type(decoded).__name__.partition("_")
        name = decoded.op_name.lower().removesuffix("_e32").removesuffix("_e64")
        instruction = Instruction(
            pc=pc,
            size=decoded.size(),
            name=_LLVM_NAMES.get(name, name),
            encoding=encoding,
            variant=variant,
            fields=fields,
        )
        _reject_half_decoded(instruction)
        instructions.append(instruction)
        pc += instruction.size
    return tuple(instructions)


def _reject_half_decoded(instruction: Instruction) -> None:
    """A DPP or SDWA marker that the decoder has no class for would leave its second word behind."""
    marker = instruction.fields.get("src0")
    short = instruction.encoding in ("VOP1", "VOP2", "VOPC") and not instruction.variant
    if short and marker in (249, 250):
        kind = "SDWA" if marker == 249 else "DPP"
        raise UnsupportedInstructionError(
            f"{instruction.name} at pc {instruction.pc:#x} uses {kind} in a form the decoder lacks"
        )
