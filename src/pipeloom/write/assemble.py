"""From text to a code object, with the clang and lld inside the ``ziglang`` wheel.

    code = assemble(emit_program(program))
    code.data                 # an ELF that HIP and the emulator load
    code.line_map[0x1a4]      # the line, and the schedule entry, of the instruction at that offset

Every instruction gets a local label on its own line, and a section that is not loaded lists
their offsets: so the line map comes from the assembler itself, not from guesses about sizes. A
diagnostic comes back with the line of our text and the schedule entry it came from.

Text may come from others: it cannot reach other files, and the tools have limits
of time, memory and size.

Assembly of others, before the assembler sees it: nothing in it may reach another file.

LLVM's assembler takes any file by ``.include`` and ``.incbin``, and prints lines of it in its
diagnostics; ``.deplibs`` makes the linker look for one. Macros can put such a name together from
parts, so in a text with macros no name of a statement may be made from arguments, and no argument
may hold a line of its own. Comments are not told apart: an argument can end one early.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from pipeloom.errors import ConfigError
from pipeloom.files import read_file, scratch_folder, write_file
from pipeloom.machine.elf import read_sections
from pipeloom.machine.source_lines import LineMap
from pipeloom.write.faults import AssemblyError
from pipeloom.write.kernel import EmittedKernel

_REACHING = re.compile(r"\.(include|incbin|deplibs|altmacro)\b", re.IGNORECASE)
_MACROS = re.compile(r"\.(macro|rept?|irpc?)\b", re.IGNORECASE)
_LABEL = re.compile(r"(?:[\w.$@]|\\@|\\\(\))+\s*:|/\*.*?\*/|\s+")
"""What may stand before the name of a statement; ``\\@`` is a number, ``\\()`` is nothing."""


LINE_SECTION = ".pipeloom.lines"
MOST_SECONDS = 20
"""Of the assembler, and of the linker; our longest kernels take a fifth of a second."""
MOST_MEMORY, MOST_BYTES = 1 << 30, 64 << 20
"""Of address space, and of any file that they write."""
MOST_SAID = 1 << 16
"""Bytes of diagnostics that are looked at."""
_STOPS = {signal.SIGINT, signal.SIGTERM}
_LIMITED = """
{ ulimit -v "$1"; ulimit -f "$2"; ulimit -t "$3"; ulimit -c 0; } 2>/dev/null
shift 3
exec "$@"
"""
"""Sets limits, then becomes the tool: in a process of its own, which a fork cannot disturb.

A shell, because Python takes longer to start than the tools to run. A lower limit that the user
cannot raise stays. Memory counts in KiB, what is written in blocks of 512 bytes.
"""
_DIAGNOSTIC = re.compile(r"k\.s:(\d+):(\d+): error: (.*)")


@dataclass(frozen=True, slots=True)
class AssembledCode:
    """A loadable code object."""

    name: str
    """The kernel's symbol."""
    target: str
    """The chip, as LLVM names it."""
    data: bytes
    """The ELF, as HIP and the emulator load it."""
    line_map: LineMap
    """Byte offset in the kernel -> its source line."""


def assemble(emitted: EmittedKernel) -> AssembledCode:
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
    data = assemble_text(text, emitted.resources.target.encoded_as, emitted.line_map)
    table = _section(data, LINE_SECTION)
    offsets = struct.unpack(f"<{len(numbers)}I", table)
    lines = {
        offset: emitted.line_map[number] for offset, number in zip(offsets, numbers, strict=True)
    }
    return AssembledCode(emitted.name, emitted.target, data, MappingProxyType(lines))


def _labelled(text: str, numbers: Sequence[int]) -> str:
    lines = text.split("\n")
    for number in numbers:
        lines[number - 1] = f".Lline{number}: {lines[number - 1].strip()}"
    return "\n".join(lines)


def assemble_text(text: str, target: str, line_map: LineMap | None = None) -> bytes:
    """A code object from any assembly text for ``target``."""
    refuse_reaching(text)
    check_tools()
    with scratch_folder() as place:
        write_file(place / "k.s", text)
        compiler = ["clang", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-c"]
        _run([*compiler, "k.s", "-o", "k.o"], place, line_map or {})
        return _linked(place)


def link_object(data: bytes) -> bytes:
    """A code object from an object file."""
    check_tools()
    with scratch_folder() as place:
        write_file(place / "k.o", data)
        return _linked(place)


def _linked(place: Path) -> bytes:
    _run(["ld.lld", "-shared", "--no-dependent-libraries", "k.o", "-o", "k.hsaco"], place, {})
    return read_file(place / "k.hsaco")


def check_tools() -> None:
    if importlib.util.find_spec("ziglang") is None:
        raise AssemblyError(
            "assembling needs the ziglang wheel (clang and lld), which is not installed",
            hint="pip install 'pipeloom[emit]', or save the text and assemble it with LLVM 20 or "
            "later: clang -target amdgcn-amd-amdhsa -mcpu=... k.s -o k.hsaco",
        )


def _run(arguments: list[str], place: Path, line_map: LineMap) -> None:
    code, said = limited_tool(arguments, place)
    if code == 0:
        return
    match = _DIAGNOSTIC.search(said)
    if code < 0 and match is None:
        raise AssemblyError(
            f"{arguments[0]} was stopped: it has {MOST_SECONDS} s, {MOST_MEMORY >> 20} MB of "
            f"memory and {MOST_BYTES >> 20} MB for what it writes",
            hint="a macro that calls itself, or a directive that repeats or fills, may be too much",
        )
    if match is None:
        raise AssemblyError(
            f"{arguments[0]} failed: {said.strip() or f'exit {code}'}",
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


def limited_tool(arguments: list[str], place: Path) -> tuple[int, str]:
    """Exit code and diagnostics of a tool; the code is negative where a limit ended it."""
    command = [sys.executable, "-m", "ziglang", *arguments]
    if os.name == "posix":
        spec = importlib.util.find_spec("ziglang")
        assert spec is not None
        assert spec.origin is not None
        limits = map(str, (MOST_MEMORY >> 10, MOST_BYTES >> 9, MOST_SECONDS))
        tool = str(Path(spec.origin).with_name("zig"))
        command = ["/bin/sh", "-c", _LIMITED, "sh", *limits, tool, *arguments]
    said = place / "said"
    with open(said, "wb") as stream:
        code = _waited(command, place, stream)
    return code, said.read_bytes()[:MOST_SAID].decode("utf-8", "replace")


def _waited(command: list[str], place: Path, stream: IO[bytes]) -> int:
    """No signal comes between a process that has begun and the one who waits for it."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS) if os.name == "posix" else set()
    process: subprocess.Popen[bytes] | None = None
    try:
        process = subprocess.Popen(
            command, cwd=place, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        )
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        _watched(process)
        return process.wait(0)
    except subprocess.TimeoutExpired:
        return -signal.SIGTERM
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _watched(process: subprocess.Popen[bytes]) -> None:
    """Returns when it ends. ``wait`` with a limit looks up to 30 ms late, as long as a tool runs.

    A process may have no descriptor where the kernel is old or a sandbox forbids it.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(process.pid)
            try:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                poll.poll(1000 * MOST_SECONDS)
            finally:
                os.close(descriptor)
            return
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(MOST_SECONDS)


def _section(data: bytes, wanted: str) -> bytes:
    """The content of a section of the code object."""
    for section in read_sections(data):
        if section.name == wanted:
            return section.data
    raise AssemblyError(f"the code object has no section {wanted}", hint="please report this")


def refuse_reaching(text: str) -> None:
    """Raise ``AssemblyError`` for text that reaches other files, or might."""
    lines = re.split(r"[\n\r]", text)
    for number, line in enumerate(lines, 1):
        found = _REACHING.search(line)
        if found is not None:
            raise _refused(number, found[0], "pass one file that holds all, without this word")
    if _MACROS.search(text) is None:
        return
    for number, line in enumerate(lines, 1):
        at = 0
        while (before := _LABEL.match(line, at)) is not None:
            at = before.end()
        name = line[at:].split(maxsplit=1)[0] if line[at:].strip() else ""
        if "\\" in name:
            raise _refused(number, name, "write the name out: no macro may make one")
        if re.sub(r"\\.", "", line).count('"') % 2:
            raise _refused(number, 'an odd number of "', "a string ends on its line")


def _refused(number: int, what: str, hint: str) -> AssemblyError:
    return AssemblyError(
        f"line {number}: {what[:60]} is refused: assembly may not read other files",
        hint=hint,
        line=number,
    )
