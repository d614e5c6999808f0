"""A kernel as assembly that can be changed: instructions put in, replaced or taken out.

    rewrite_text(kernel, text, edits)      # lines of the assembly that the kernel was made from
    rewrite_code(kernel, edits)            # a new file, from a code object alone

From a code object every instruction keeps its very words (``.long``, with the instruction in a
comment), so that nothing depends on how an assembler would encode it again; branches, waits and
barriers are written out. Arguments and sizes come from the kernel's own metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeloom.errors import SpecError
from pipeloom.judge.emulate import CodeKernel, Decoded, decode_kernel, map_lines

_ADDRESSES = ("s_getpc", "s_setpc", "s_swappc", "s_call", "s_cbranch_g_fork", "s_cbranch_i_fork")
"""Instructions that hold or compute addresses of code, which change when instructions move."""
_WORDS_OUT = ("s_waitcnt", "s_barrier", "s_endpgm")


@dataclass(frozen=True, slots=True)
class Edit:
    """What happens at an instruction: lines before it, and what stands in its place.

    ``instead`` is None where the instruction stays, and empty where it goes.
    """

    before: tuple[str, ...] = ()
    instead: str | None = None


Edits = Mapping[int, Edit]
"""By pc."""


def rewrite_text(kernel: CodeKernel, text: str, edits: Edits) -> str:
    """The assembly with these edits; what was there stays as a comment."""
    lines = text.split("\n")
    places = {source.line - 1: pc for pc, source in map_lines(kernel, text).items()}
    result: list[str] = []
    for number, line in enumerate(lines):
        edit = edits.get(places[number]) if number in places else None
        if edit is None:
            result.append(line)
            continue
        label, colon, rest = line.partition(":") if _has_label(line) else ("", "", line)
        if colon:
            result.append(label + colon)
        result += [f"  {one}  // pipeloom: added" for one in edit.before]
        if edit.instead is None:
            result.append(rest)
        elif edit.instead:
            result.append(f"  {edit.instead}  // pipeloom: was {rest.strip()}")
        else:
            result.append(f"  // pipeloom: not needed: {rest.strip()}")
    return "\n".join(result)


def _has_label(line: str) -> bool:
    head = line.partition(":")[0].strip()
    return ":" in line and bool(head) and " " not in head and not head.startswith(("//", ";"))


def rewrite_code(kernel: CodeKernel, edits: Edits, describe: Callable[[Decoded], str]) -> str:
    """The whole file. ``describe`` gives the comment of an instruction."""
    instructions = decode_kernel(kernel.code)
    for one in instructions:
        if one.name.startswith(_ADDRESSES):
            raise SpecError(
                f"{one.name} at pc {one.pc:#x} computes an address of code, which would change",
                hint="edit the source of the kernel instead",
            )
    targets = {one.target for one in instructions}
    lines = []
    for one in instructions:
        if one.pc in targets:
            lines.append(f".Lpc_{one.pc:x}:")
        edit = edits.get(one.pc, Edit())
        lines += [f"  {added}  // added" for added in edit.before]
        if edit.instead is None:
            lines.append(_line(kernel, one, describe))
        elif edit.instead:
            lines.append(f"  {edit.instead}  // {one.pc:#x}, was {describe(one)}")
        else:
            lines.append(f"  // {one.pc:#x}, not needed: {describe(one)}")
    return _FILE.format(
        arch=kernel.arch,
        name=kernel.name,
        body="\n".join(lines),
        group=kernel.group_segment_bytes,
        private=kernel.private_segment_bytes,
        kernarg=kernel.kernarg_bytes,
        rsrc1=kernel.rsrc1,
        rsrc2=kernel.rsrc2,
        rsrc3=kernel.rsrc3,
        properties=kernel.properties,
        preload=kernel.preload,
        metadata=_metadata(kernel),
    )


def _line(kernel: CodeKernel, one: Decoded, describe: Callable[[Decoded], str]) -> str:
    if one.target is not None:
        return f"  {one.name} .Lpc_{one.target:x}  // {one.pc:#x}"
    if one.name in _WORDS_OUT:
        return f"  {describe(one)}  // {one.pc:#x}"
    words = [
        int.from_bytes(kernel.code[at : at + 4], "little")
        for at in range(one.pc, one.pc + one.size, 4)
    ]
    return f"  .long {', '.join(f'{word:#010x}' for word in words)}  // {one.pc:#x} {describe(one)}"


def _metadata(kernel: CodeKernel) -> str:
    said = kernel.metadata
    rows: list[tuple[str, object]] = [
        (".name", kernel.name),
        (".symbol", f"{kernel.name}.kd"),
        (".kernarg_segment_size", kernel.kernarg_size),
        (".kernarg_segment_align", 8),
        (".group_segment_fixed_size", kernel.group_segment_bytes),
        (".private_segment_fixed_size", kernel.private_segment_bytes),
        (".wavefront_size", said.wavefront_size or 64),
        (".sgpr_count", said.sgprs),
        (".vgpr_count", said.vgprs),
        (".agpr_count", said.agprs),
        (".max_flat_workgroup_size", said.max_work_items),
        (".reqd_workgroup_size", None if said.required_block is None else [*said.required_block]),
    ]
    lines = [f"    {key}: {value}" for key, value in rows if value is not None]
    lines[0] = "  - " + lines[0].strip()
    if kernel.arguments:
        lines.append("    .args:")
    for argument in kernel.arguments:
        name = f".name: {argument.name}, " if argument.name else ""
        space = ", .address_space: global" if argument.value_kind == "global_buffer" else ""
        lines.append(
            f"      - {{{name}.offset: {argument.offset}, .size: {argument.size}, "
            f".value_kind: {argument.value_kind}{space}}}"
        )
    return "\n".join(lines)


_FILE = """\
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl {name}
.protected {name}
.p2align 8
.type {name},@function
{name}:
{body}
.Lend_of_kernel:
.size {name}, .Lend_of_kernel-{name}
.section .rodata,"a",@progbits
.p2align 6
.globl {name}.kd
.protected {name}.kd
.type {name}.kd,@object
.size {name}.kd, 64
{name}.kd:
  .long {group}, {private}, {kernarg}, 0
  .quad {name}-{name}.kd
  .zero 20
  .long {rsrc3:#x}, {rsrc1:#x}, {rsrc2:#x}
  .short {properties:#x}, {preload:#x}
  .long 0
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
{metadata}
...
.end_amdgpu_metadata
"""
