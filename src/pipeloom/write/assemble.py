"""From text to a code object, with the clang and lld inside the ``ziglang`` wheel.

    code = assemble(emit_program(program))
    code.data                 # an ELF that HIP and the emulator load
    code.line_map[0x1a4]      # the line, and the schedule entry, of the instruction at that offset

Every instruction gets a local label on its own line, and a section that is not loaded lists
their offsets: so the line map comes from the assembler itself, not from guesses about sizes. A
diagnostic comes back with the line of our text and the schedule entry it came from.
"""

from __future__ import annotations

import importlib.util
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pipeloom.errors import ConfigError
from pipeloom.machine.elf import read_sections
from pipeloom.write.faults import AssemblyError
from pipeloom.write.kernel import EmittedKernel, SourceLine

LINE_SECTION = ".pipeloom.lines"
_DIAGNOSTIC = re.compile(r"k\.s:(\d+):(\d+): error: (.*)")


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A loadable code object."""

    name: str
    """The kernel's symbol."""
    target: str
    """The chip, as LLVM names it."""
    data: bytes
    """The ELF, as HIP and the emulator load it."""
    line_map: Mapping[int, SourceLine]
    """Byte offset in the kernel -> its source line."""


def assemble(emitted: EmittedKernel) -> CodeObject:
    """Assemble and link; raises ``AssemblyError`` with line and entry where that fails.

    Args:
        emitted: What ``emit`` returned.
    """
    if not isinstance(emitted, EmittedKernel):
        raise ConfigError(
            f"assemble takes an EmittedKernel, not a {type(emitted).__name__}",
            hint="pass what emit returns; pipeloom.write.assemble_text takes text and a target",
            field="emitted",
        )
    numbers = sorted(emitted.line_map)
    text = _labelled(emitted.text, numbers)
    text += f'.section {LINE_SECTION},"",@progbits\n'
    text += "".join(f".long .Lline{number}-{emitted.name}\n" for number in numbers)
    data = assemble_text(text, emitted.target, emitted.line_map)
    table = _section(data, LINE_SECTION)
    offsets = struct.unpack(f"<{len(numbers)}I", table)
    lines = {
        offset: emitted.line_map[number] for offset, number in zip(offsets, numbers, strict=True)
    }
    return CodeObject(emitted.name, emitted.target, data, MappingProxyType(lines))


def _labelled(text: str, numbers: Sequence[int]) -> str:
    lines = text.split("\n")
    for number in numbers:
        lines[number - 1] = f".Lline{number}: {lines[number - 1].strip()}"
    return "\n".join(lines)


def assemble_text(
    text: str, target: str, line_map: Mapping[int, SourceLine] | None = None
) -> bytes:
    """A code object from any assembly text for ``target``."""
    _check_tools()
    with tempfile.TemporaryDirectory(prefix="pipeloom-") as folder:
        place = Path(folder)
        (place / "k.s").write_text(text)
        compiler = ["clang", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-c"]
        _run([*compiler, "k.s", "-o", "k.o"], place, line_map or {})
        return _linked(place)


def link_object(data: bytes) -> bytes:
    """A code object from an object file."""
    _check_tools()
    with tempfile.TemporaryDirectory(prefix="pipeloom-") as folder:
        place = Path(folder)
        (place / "k.o").write_bytes(data)
        return _linked(place)


def _linked(place: Path) -> bytes:
    _run(["ld.lld", "-shared", "k.o", "-o", "k.hsaco"], place, {})
    return (place / "k.hsaco").read_bytes()


def _check_tools() -> None:
    if importlib.util.find_spec("ziglang") is None:
        raise AssemblyError(
            "assembling needs the ziglang wheel (clang and lld), which is not installed",
            hint="pip install 'pipeloom[emit]', or save the text and assemble it with LLVM 20 or "
            "later: clang -target amdgcn-amd-amdhsa -mcpu=... k.s -o k.hsaco",
        )


def _run(arguments: list[str], place: Path, line_map: Mapping[int, SourceLine]) -> None:
    command = [sys.executable, "-m", "ziglang", *arguments]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    match = _DIAGNOSTIC.search(done.stderr)
    if match is None:
        raise AssemblyError(
            f"{arguments[0]} failed: {done.stderr.strip() or f'exit {done.returncode}'}",
            hint="this is what the tool itself reported",
        )
    number = int(match[1])
    source = line_map.get(number)
    where = f"line {number}" + (f" ({source.entry})" if source and source.entry else "")
    shown = f": {source.text}" if source else ""
    raise AssemblyError(
        f"{where}: {match[3]}{shown}",
        hint="the target may lack this instruction",
        line=number,
        entry=source.entry if source else None,
    )


def _section(data: bytes, wanted: str) -> bytes:
    """The content of a section of the code object."""
    for section in read_sections(data):
        if section.name == wanted:
            return section.data
    raise AssemblyError(f"the code object has no section {wanted}", hint="please report this")
