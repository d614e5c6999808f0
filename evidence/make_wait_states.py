"""Write wait-states.md from the judge's table: ``python -m evidence.make_wait_states``."""

from __future__ import annotations

from pathlib import Path

from pipeloom.machine.cdna import PROCESSORS
from pipeloom.machine.cdna_waits import CDNA_WAIT_RULES
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.mnemonics import Matrix, Pipe, Traits
from pipeloom.machine.target import Target
from pipeloom.machine.wait_rules import WaitRule

PAGE = Path(__file__).parent / "wait-states.md"

HEAD = """# Wait states

What software must leave between two instructions on gfx942 and gfx950, because no interlock does
(`pipeloom.judge.wait_states`). One instruction is one wait state, `s_nop n` is n + 1. This page is
made from the table by `python -m evidence.make_wait_states`.

Matrix instructions are told apart by kind and passes of four cycles: XDL with 2, 4, 8, 16 passes;
SGEMM (f32 operands) with 2, 8, 16; DGEMM 4x4x4 with 4, DGEMM 16x16x4 with 8 (gfx942) or 16
(gfx950). A row lists the wait states in that order. Passes are those of LLVM's SISchedule.td; an
f8f6f4 instruction without an fp8 operand takes half.

Sources: [L] LLVM's GCNHazardRecognizer.cpp (ROCm/llvm-project, read in November 2026), by
function; [P] an LLVM pull request; [R] the wait-state observers of AMD's rocRoller; [I] the ISA
documents (CDNA3 tables 11 and 37, CDNA4 tables 11 and 38), read in transcription. If they differ,
the stricter one counts. Two rows go beyond LLVM as Triton ships it: the opcode of a chain ([P]
218363, not merged when read) and stores with a scalar offset ([P] 197267).

*Customary* rows are kept by compilers and by every kernel written here, but left out by the ten
thousand in shipped kernels that were written by hand: `pipeloom check` lists them and fails no
kernel for them.

| first | then | gfx942 | gfx950 | class | source |
|---|---|---|---|---|---|
"""

TAIL = """
## What is not in the table

- XNACK. If it is on, memory instructions of one run may be replayed, and a load must not overwrite
  an address that the run still needs. LLVM breaks such runs with an `s_nop`; we take XNACK to be
  off.
- After a packed instruction (`v_pk_*`) LLVM waits once if op_sel_hi of the first source is set,
  which is the default: in its operands that bit is also "high half of the destination". With
  op_sel_hi cleared it does not wait, and no table of the ISA asks for it.
- The CDNA4 ISA says (section 7.3) that conversions which write the two halves of a register in turn
  need an instruction between them. Here, as in LLVM, only a conversion to the high half, or to fp4,
  starts a wait.
- Instructions that change what register numbers or addresses mean: register indexing, `s_setvskip`,
  indirect jumps, calls. The judge reports them as unknown.
"""


def states(rule: WaitRule, target: Target) -> str:
    """One number, or the numbers by kind and passes; kinds that need nothing are left out."""
    if rule.states.always:
        return str(rule.states.always)
    long = PROCESSORS[target.encoded_as].long_f64_passes
    kinds = {Matrix.XDL: (2, 4, 8, 16), Matrix.SGEMM: (2, 8, 16), Matrix.DGEMM: (4, long)}
    parts = []
    for kind, passes in kinds.items():
        traits = [Traits(Pipe.MATRIX, passes=n, matrix=kind) for n in passes]
        numbers = [target.wait_table.after(rule, one) for one in traits]
        if any(numbers):
            parts.append(f"{kind.value} {', '.join(map(str, numbers))}")
    return "; ".join(parts)


def page() -> str:
    """The whole page."""
    rows = [
        f"| {rule.first} | {rule.second} | {states(rule, GFX942)} "
        f"| {states(rule, GFX950)} | {rule.basis.value} | {rule.source} |"
        for rule in CDNA_WAIT_RULES
    ]
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
