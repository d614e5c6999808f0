"""Kernels that others wrote, and how they are launched: what ``check`` and its kin take.

    file = open_kernel("k.hsaco")
    result, arrays = Start((1,), (256,), [a, b, c]).run(file.kernel)

A kernel is a code object, an object file or assembly.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.drive.code_objects import ASSEMBLY
from pipeloom.errors import SpecError
from pipeloom.files import read_file, reading
from pipeloom.judge.check.debug_lines import debug_lines
from pipeloom.judge.emulate import (
    CodeKernel,
    CodeObject,
    EmulateError,
    Linked,
    Pitched,
    PlacedArg,
    PointerInto,
    RunResult,
    load_code_object,
    map_lines,
    run_kernel,
)
from pipeloom.judge.emulate.arguments import Argument, Arguments
from pipeloom.machine_code.launch_file import LaunchSpec
from pipeloom.write.assemble import assemble_text, link_object
from pipeloom.write.faults import AssemblyError

Array = npt.NDArray[Any]

_TARGET = re.compile(r'\.amdgcn_target\s+"([^"]*)"')
_CHIP = re.compile(r"gfx\w+")


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A kernel and where it comes from."""

    kernel: CodeKernel
    """The kernel's code, descriptor and metadata."""
    data: bytes
    """The code object; empty where the kernel was given in memory."""
    name: str = ""
    """The file's name; empty in memory."""
    text: str = ""
    """Its assembly, where that was given."""

    def __repr__(self) -> str:
        return f"<KernelFile {self.name or 'in memory'}: {self.kernel!r}>"

    def lines(self) -> dict[int, str]:
        """pc -> ``file:line``, as far as it is known."""
        if not self.text:
            return debug_lines(self.data, self.kernel.entry, len(self.kernel.code))
        try:
            found = map_lines(self.kernel, self.text)
        except EmulateError:
            return {}
        return {pc: f"{Path(self.name).name}:{source.line}" for pc, source in found.items()}


@dataclass(frozen=True, slots=True)
class Start:
    """How the kernel is launched."""

    grid: tuple[int, ...]
    """Workgroups along x, y and z."""
    block: tuple[int, ...]
    """Work-items of a workgroup along x, y and z."""
    args: Arguments
    """The explicit arguments in order."""
    dynamic_lds: int = 0
    """Bytes of LDS that the launch adds to the kernel's own."""

    @classmethod
    def of(cls, launch: LaunchSpec) -> Start:
        """What a launch file says, with arrays made."""
        return cls(launch.grid, launch.block, launch.arguments(), launch.more_lds())

    def __repr__(self) -> str:
        return f"<Start of grid {self.grid}, block {self.block}: {len(self.args)} arguments>"

    def fresh(self) -> tuple[list[Argument | PlacedArg], list[Array]]:
        """The arguments with arrays of their own, and those arrays."""
        copies: dict[int, Array] = {}

        def copied(value: Argument) -> Argument:
            if isinstance(value, Pitched):
                return replace(value, array=own(value.array))
            if isinstance(value, PointerInto):
                return pointer(value)
            if isinstance(value, Linked):
                return linked(value)
            if isinstance(value, np.ndarray):
                return own(value)
            return value

        def own(array: Array) -> Array:
            return copies.setdefault(id(array), array.copy())

        def pointer(value: PointerInto) -> PointerInto:
            target = value.target
            return replace(
                value, target=linked(target) if isinstance(target, Linked) else own(target)
            )

        def linked(value: Linked) -> Linked:
            links = tuple((at, None if link is None else pointer(link)) for at, link in value.links)
            return Linked(own(value.array), links)

        args = [
            replace(one, value=copied(one.value)) if isinstance(one, PlacedArg) else copied(one)
            for one in self.args
        ]
        return args, list(copies.values())

    def run(self, kernel: CodeKernel, **options: Any) -> tuple[RunResult, list[Array]]:
        """Emulate the launch, with nothing judged on the way; and its arrays as they are then.

        Args:
            kernel: The kernel to launch.
            **options: Those of ``run_kernel``.
        """
        args, outputs = self.fresh()
        result = run_kernel(
            kernel,
            grid=self.grid,
            block=self.block,
            args=args,
            dynamic_lds=self.dynamic_lds,
            check_races=False,
            check_wait_states=False,
            **options,
        )
        return result, outputs


def open_kernel(
    source: str | os.PathLike[str] | bytes | CodeObject | CodeKernel, kernel: str | None = None
) -> KernelFile:
    """Load a code object, link an object file or assemble text."""
    if isinstance(source, CodeKernel):
        return KernelFile(source, b"")
    if isinstance(source, CodeObject):
        return KernelFile(source.kernel(kernel), b"")
    if isinstance(source, bytes):
        data, name = source, ""
    else:
        name = os.fspath(source)
        with reading(name, "give a .hsaco, .co, .o or .s file"):
            data = read_file(name)
    text = ""
    if name.endswith(ASSEMBLY):
        text, data = assembled(data.decode("utf-8", "replace"), name)
    elif data[:4] == b"\x7fELF" and data[16:18] == b"\x01\x00":
        data = link_object(data)
    return KernelFile(load_code_object(data).kernel(kernel), data, name, text)


def assembled(text: str, name: str = "the assembly") -> tuple[str, bytes]:
    """Assembly as our assembler takes it, and the code object of it.

    Compilers spell the target id in ways that another LLVM refuses; only the chip in it counts.
    """
    found = _TARGET.search(text)
    chip = _CHIP.search(found[1]) if found else None
    if found is None or chip is None:
        raise SpecError(
            f"{name} does not say which chip it is for",
            hint='begin it with .amdgcn_target "amdgcn-amd-amdhsa--gfx950"',
        )
    plain = f'.amdgcn_target "amdgcn-amd-amdhsa--{chip[0]}"'
    text = text[: found.start()] + plain + text[found.end() :]
    try:
        return text, assemble_text(text, chip[0])
    except AssemblyError as error:
        raise AssemblyError(
            f"{name}: {error.message}", hint=error.hint, line=error.line, entry=error.entry
        ) from error
