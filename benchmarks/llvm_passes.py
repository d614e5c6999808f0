"""What LLVM's own passes would add to the emitted kernels: nothing.

    python -m benchmarks.llvm_passes --llvm /usr/lib/llvm-22/bin

LLVM has two passes that make machine code safe on these chips: ``si-insert-waitcnts`` puts an
s_waitcnt wherever a register or an LDS access needs one, ``post-RA-hazard-rec`` an s_nop wherever
wait states are missing. Both work on MIR, so every emitted kernel is turned into MIR (``llvm-mc``
reads the text, ``llc`` says which operands an opcode implies) and run through them.

The MIR has no memory operands. With them, the first pass would also wait for every load into LDS
before any LDS read that may alias; which of these waits are needed across waves is the verifier's
question, and no pass knows. Without them it checks registers: data of every load that is used, and
registers of every load that are written again. LLVM takes no stall at a full counter for granted
(docs/memory-model.md), so neither may we.

The right half of the table shows that the passes are awake: what they add to the same kernel when
our waits (or our s_nops) are taken out first.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.llvm_kernels import Subject, subjects
from pipeloom.errors import ScheduleError

HEADER = """--- |
  define amdgpu_kernel void @k() {{ ret void }}
...
---
name: k
tracksRegLiveness: false
machineFunctionInfo:
  isEntryFunction: true
body: |
{body}
...
"""
ENCODINGS = re.compile(r"_(vi|gfx9|gfx90a|gfx940|gfx950|gfxpre11)(?=_|$)")
"""The parts of an opcode or a register that name the encoding and not the thing."""
NAMES = ("{}", "{}_e64", "{}_gfx9", "{}_gfx9_e64", "{}_gfx9_e32")
"""How the code generator's opcode may be called, given the assembler's without its encoding."""
NO_VM, NO_LGKM = 63, 15
PACKED = re.compile("V_(PK|DOT[248])_")
OP_SEL_HI = 8
"""The bit of a first source's modifiers that says where a packed instruction (VOP3P) takes its high
half from. In an unpacked one the same bit says that the result goes to the high half (SISrcMods),
and LLVM 22's recogniser asks only for the bit: behind ``v_pk_mul_f16``, too, it adds the wait state
that the ISA asks for where a result changes its place. So packed instructions go in without it."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction as ``llvm-mc -show-inst`` has it; registers are in lower case."""

    opcode: str
    operands: tuple[str, ...]
    text: str


@dataclass(slots=True)
class Block:
    """Instructions up to a label or branch; ``labels`` are those that stand before it."""

    labels: list[str] = field(default_factory=list)
    lines: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Signature:
    """How an opcode is written in MIR: its name, its explicit results, what it implies."""

    name: str
    results: int
    implied: tuple[str, ...]
    spare: int = 0
    """Operands at the end that only the assembler's opcode has (swizzling, of an atomic)."""

    def written(self, operands: Sequence[str]) -> str:
        """The instruction as a line of MIR."""
        operands = operands[: len(operands) - self.spare]
        results, sources = operands[: self.results], operands[self.results :]
        start = f"{', '.join(results)} = " if results else ""
        return f"{start}{self.name} {', '.join((*sources, *self.implied))}".rstrip()


class LlvmError(Exception):
    """LLVM does not take what it was given."""


class Llvm:
    """``llvm-mc`` and ``llc`` of one installation."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._mc, self._llc = _tool(folder, "llvm-mc"), _tool(folder, "llc")
        self._scratch = scratch / "kernel.mir"
        self._known: dict[tuple[str, str], Signature] = {}

    def version(self) -> str:
        """Of ``llc``."""
        said = subprocess.run([self._llc, "--version"], capture_output=True, text=True, check=True)
        found = re.search(r"LLVM version (\S+)", said.stdout)
        return found[1] if found else "unknown"

    def blocks(self, text: str, target: str) -> list[Block]:
        """The instructions of an assembly text, as the assembler encodes them."""
        command = [self._mc, "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-show-inst"]
        said = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if said.returncode:
            raise LlvmError(said.stderr)
        return blocks_of(said.stdout)

    def mir(self, blocks: Sequence[Block], target: str) -> str:
        """The same as MIR."""
        number = {label: n for n, block in enumerate(blocks) for label in block.labels}
        out = []
        for n, block in enumerate(blocks):
            follows = successors(block, n, number)
            out.append(f"  bb.{n}:")
            if follows:
                out.append(f"    successors: {', '.join(f'%bb.{s}' for s in follows)}")
            for line in block.lines:
                operands = [f"%bb.{number[o[1:]]}" if o[0] == "@" else o for o in line.operands]
                if PACKED.match(line.opcode):
                    operands[1] = str(int(operands[1]) & ~OP_SEL_HI)
                out.append(f"    {self._signature(line, target).written(operands)}")
        return HEADER.format(body="\n".join(out))

    def after(self, run_pass: str, mir: str, target: str) -> str:
        """What a pass makes of a function."""
        self._scratch.write_text(mir, encoding="utf-8")
        said = self._run(run_pass, target)
        if said.returncode:
            raise LlvmError(said.stderr)
        return said.stdout

    def _run(self, run_pass: str, target: str) -> subprocess.CompletedProcess[str]:
        command = [self._llc, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-o", "-"]
        command += [f"-run-pass={run_pass}", "-verify-machineinstrs", str(self._scratch)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _signature(self, line: Instruction, target: str) -> Signature:
        key = (target, line.opcode)
        if key not in self._known:
            self._known[key] = self._learn(line, target)
        return self._known[key]

    def _learn(self, line: Instruction, target: str) -> Signature:
        """Try names and numbers of results until LLVM's verifier is content."""
        said = ""
        for name in candidates(line.opcode):
            for results in (1, 0, 2):
                try:
                    return self._completed(Signature(name, results, ()), line, target)
                except LlvmError as error:
                    said = str(error)
        raise LlvmError(f"no MIR for {line.opcode} ({line.text}): {said[:500]}")

    def _completed(self, signature: Signature, line: Instruction, target: str) -> Signature:
        """Add the implied operands that the parser asks for, one by one."""
        operands = ["%bb.0" if operand[0] == "@" else operand for operand in line.operands]
        while True:
            follow = "    successors: %bb.0\n" if "%bb.0" in operands else ""
            body = f"  bb.0:\n{follow}    {signature.written(operands)}"
            if not line.opcode.startswith(("S_ENDPGM", "S_BRANCH")):
                body += "\n  bb.1:\n    S_ENDPGM 0" if follow else "\n    S_ENDPGM 0"
                body = body.replace("successors: %bb.0", "successors: %bb.0, %bb.1")
            self._scratch.write_text(HEADER.format(body=body), encoding="utf-8")
            said = self._run("none", target)
            if not said.returncode:
                return signature
            if "Extra explicit operand" in said.stderr and not signature.spare:
                signature = replace(signature, spare=1)
                continue
            missing = re.search(r"missing implicit register operand '([^']+)'", said.stderr)
            if missing is None or len(signature.implied) > 8:
                raise LlvmError(said.stderr)
            implied = (*signature.implied, missing[1])
            signature = replace(signature, implied=implied)


def _tool(folder: Path, name: str) -> str:
    for path in (folder / name, *sorted(folder.glob(f"{name}-[0-9]*"))):
        if path.is_file():
            return str(path)
    found = shutil.which(name, path=str(folder / "bin"))
    if found is None:
        sys.exit(f"no {name} in {folder}")
    return found


def candidates(opcode: str) -> Iterator[str]:
    """Names in MIR: for ``V_MFMA_F32_4X4X4_F16_gfx940_vcd`` ``V_MFMA_F32_4X4X4_F16_vgprcd_e64``."""
    base = ENCODINGS.sub("", opcode)
    base = re.sub("_acd$", "", base)
    base = re.sub("_vcd$", "_vgprcd", base)
    yield from (name.format(base) for name in NAMES)
    if base.endswith(("_e32", "_e64")):
        yield f"{base[:-4]}_gfx9{base[-4:]}"


_INSTRUCTION = re.compile(r"^\t(.*?)\s*; <MCInst #\d+ (\w+)(>?)$")
_OPERAND = re.compile(r"^\s*;  <MCOperand (\w+):(.*?)>>?$")
_LABEL = re.compile(r"^([.\w$]+):\s*$")


def blocks_of(listing: str) -> list[Block]:
    """The blocks of a listing with ``-show-inst``."""
    return list(_read(listing))


def _read(listing: str) -> Iterator[Block]:
    """Only branches and labels end a block."""
    block = Block()
    text, opcode, operands = "", "", list[str]()

    def finished() -> bool:
        """Take over the instruction that was being read; whether it is a branch."""
        nonlocal opcode, operands
        if not opcode:
            return False
        block.lines.append(Instruction(opcode, tuple(operands), text))
        ends = opcode.startswith(("S_CBRANCH", "S_BRANCH"))
        opcode, operands = "", []
        return ends

    for line in listing.splitlines():
        if found := _OPERAND.match(line):
            operands.append(_operand(*found.groups()))
            continue
        if finished():
            yield block
            block = Block()
        if found := _INSTRUCTION.match(line):
            text, opcode = found[1], found[2]
        elif (found := _LABEL.match(line)) and not line.startswith("amdhsa"):
            if block.lines:
                yield block
                block = Block()
            block.labels.append(found[1])
    finished()
    if block.lines:
        yield block


def _operand(kind: str, value: str) -> str:
    if kind == "Reg":
        return f"${ENCODINGS.sub('', value.lower())}" if value else "$noreg"
    if kind == "Expr":
        return f"@{value}"
    return value


def successors(block: Block, number: int, labels: Mapping[str, int]) -> list[int]:
    """The blocks that may come next."""
    last = block.lines[-1]
    to = [labels[operand[1:]] for operand in last.operands if operand[0] == "@"]
    falls = not last.opcode.startswith(("S_BRANCH", "S_ENDPGM"))
    return list(dict.fromkeys([*to, *([number + 1] if falls else [])]))


# --------------------------------------------------------------------------- before and after


@dataclass(slots=True)
class Gap:
    """What stands before an instruction: the tightest waits, and wait states."""

    vm: int = NO_VM
    lgkm: int = NO_LGKM
    exports: int = 7
    states: int = 0

    def take(self, name: str, immediate: int) -> None:
        """Count one s_waitcnt or s_nop in."""
        if name == "S_NOP":
            self.states += immediate + 1
            return
        self.vm = min(self.vm, immediate & 15 | immediate >> 10 & 0x30)
        self.exports = min(self.exports, immediate >> 4 & 7)
        self.lgkm = min(self.lgkm, immediate >> 8 & 15)

    def waits_more(self, other: Gap) -> bool:
        """Whether it waits for something that ``other`` does not."""
        return self.vm < other.vm or self.lgkm < other.lgkm or self.exports < other.exports


_MIR_LINE = re.compile(r"^    (?:[^=]* = )?([A-Z]\w+)\b ?(\S*?)(?:,.*)?$")


def gaps_of(mir: str) -> list[tuple[str, Gap]]:
    """Each instruction but waits and nops, with the gap before it."""
    found = []
    gap = Gap()
    for line in mir.split("\nbody:", 1)[1].splitlines():
        match = _MIR_LINE.match(line)
        if match is None:
            continue
        if match[1] in ("S_WAITCNT", "S_NOP"):
            gap.take(match[1], int(match[2]))
        else:
            found.append((match[1], gap))
            gap = Gap()
    return found


@dataclass(frozen=True, slots=True)
class Added:
    """What a pass adds: places where it waits more, and wait states."""

    waits: int
    states: int


def added(before: str, after: str) -> Added:
    """By comparison, instruction by instruction."""
    was, now = gaps_of(before), gaps_of(after)
    if [name for name, _ in was] != [name for name, _ in now]:
        raise LlvmError("the pass changed more than waits and nops")
    pairs = [(old, new) for (_, old), (_, new) in zip(was, now, strict=True)]
    return Added(
        sum(new.waits_more(old) for old, new in pairs),
        sum(max(0, new.states - old.states) for old, new in pairs),
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel: what it has, what LLVM adds, and what it adds without ours."""

    instructions: int
    waits: int
    states: int
    added: Added
    control: Added


WAITS, HAZARDS = "si-insert-waitcnts", "post-RA-hazard-rec"


def judged(text: str, target: str, llvm: Llvm) -> Row:
    """Run both passes over one kernel, and over it without its waits, or its nops."""
    blocks = llvm.blocks(text, target)
    mir = llvm.mir(blocks, target)
    lines = mir.splitlines(keepends=True)
    no_waits = "".join(line for line in lines if "S_WAITCNT" not in line)
    no_nops = "".join(line for line in lines if "S_NOP" not in line)
    gaps = [gap for _, gap in gaps_of(mir)]
    found = {
        (name, run_pass): added(code, llvm.after(run_pass, code, target))
        for run_pass, control in ((WAITS, no_waits), (HAZARDS, no_nops))
        for name, code in (("ours", mir), ("control", control))
    }
    return Row(
        sum(len(block.lines) for block in blocks),
        sum(gap.waits_more(Gap()) for gap in gaps),
        sum(gap.states for gap in gaps),
        Added(found["ours", WAITS].waits, found["ours", HAZARDS].states),
        Added(found["control", WAITS].waits, found["control", HAZARDS].states),
    )


def summary(rows: Sequence[tuple[Subject, Row]]) -> Iterator[str]:
    """One line per family, chip and type."""
    yield (
        "| family | chip | type | kernels | instructions | waits | added | wait states | added "
        "| added to the kernel without its waits | without its s_nops |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for subject, row in rows:
        groups.setdefault((subject.family, subject.target, subject.dtype), []).append(row)
    for key, group in groups.items():
        yield _line(key, group)
    yield _line(("all", "", ""), [row for _, row in rows])


def _line(key: tuple[str, ...], group: Sequence[Row]) -> str:
    cells = [
        len(group),
        sum(row.instructions for row in group),
        sum(row.waits for row in group),
        sum(row.added.waits for row in group),
        sum(row.states for row in group),
        sum(row.added.states for row in group),
        sum(row.control.waits for row in group),
        sum(row.control.states for row in group),
    ]
    return "| " + " | ".join((*key, *map(str, cells))) + " |"


def main() -> int:
    """Print the table; 1 if LLVM adds anything to any kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llvm", type=Path, required=True, help="folder of llvm-mc and llc")
    parser.add_argument("--family", nargs="+", help="these only")
    arguments = parser.parse_args()
    rows, refused = list[tuple[Subject, Row]](), 0
    with tempfile.TemporaryDirectory() as scratch:
        llvm = Llvm(arguments.llvm, Path(scratch))
        print(f"LLVM {llvm.version()}", file=sys.stderr)
        for subject in subjects():
            if arguments.family is not None and subject.family not in arguments.family:
                continue
            try:
                kernels = subject.emit()
            except ScheduleError as error:
                refused += 1
                print(f"refused: {subject}: {error.message}", file=sys.stderr, flush=True)
                continue
            for kernel in kernels:
                row = judged(kernel.text, subject.target, llvm)
                rows.append((subject, row))
                print(f"{subject.target} {kernel.name}: {row.added}", file=sys.stderr, flush=True)
    print("\n".join(summary(rows)))
    if refused:
        print(f"\n{refused} are refused by the emitter")
    return int(any(row.added != Added(0, 0) for _, row in rows))


if __name__ == "__main__":
    sys.exit(main())
