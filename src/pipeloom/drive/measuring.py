"""A thread trace beside the simulation of the same instructions; with the kernel that it is of.

    overlay = lay_over_trace("out", arch=None)
    overlay = lay_over_trace("out", of=emission)       # refuses a trace of another kernel

A trace names its code objects, and rocprofv3 keeps them byte for byte: so a kernel that was emitted
here is known by its hash, and each traced instruction by its address.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from types import MappingProxyType

from pipeloom.drive.emitting import Emission
from pipeloom.errors import ConfigError, SpecError
from pipeloom.judge.emulate import EmulateError, load_code_object
from pipeloom.judge.simulate import Trace
from pipeloom.machine.chips import ANY_CHIP, target_for
from pipeloom.machine.target import Target
from pipeloom.thread_trace import Capture, Overlay, lay_over, read_capture, viewer_files
from pipeloom.thread_trace.viewer_files import code_lines
from pipeloom.write import AssembledCode, EmittedKernel, assemble


def lay_over_trace(
    folder: str | os.PathLike[str],
    *,
    machine: Target | str | None = None,
    of: Emission | None = None,
) -> Overlay:
    """Read a folder of rocprofv3 and simulate what its waves executed.

    The chip is ``machine``, else that of the kernel, else what the traced code object is for.
    """
    capture = read_capture(folder)
    if of is not None:
        code = assemble(of.kernel)
        capture = _named(capture, of, code)
        machine = of.kernel.resources.target if machine is None else machine
    return lay_over(capture, _chip(capture) if machine is None else target_for(machine))


def _chip(capture: Capture) -> Target:
    for data in capture.objects.values():
        try:
            return target_for(load_code_object(data).arch)
        except (EmulateError, ConfigError):
            continue
    return target_for(ANY_CHIP)


def _named(capture: Capture, of: Emission, code: AssembledCode) -> Capture:
    """The trace with our steps as its sources; refused where it is of another kernel."""
    mine = hashlib.sha256(code.data).hexdigest()
    numbers = {
        row.code_object for row in capture.code.rows.values() if row.kernel == of.kernel.name
    }
    if not numbers:
        shown = ", ".join(sorted({row.kernel for row in capture.code.rows.values()})[:4])
        raise SpecError(
            f"the trace is not of {of.kernel.name}",
            hint=f"it is of {shown}; name that, or leave the name out",
            field="measured",
        )
    for number in numbers:
        if (theirs := capture.digest(number)) and theirs != mine:
            raise SpecError(
                f"the trace is of another build of {of.kernel.name}: its code object has sha256 "
                f"{theirs[:12]}, this one {mine[:12]}",
                hint="emit with the options that the traced kernel was emitted with, or leave the "
                "name out",
                field="measured",
            )
    rows = dict(capture.code.rows)
    for number, row in rows.items():
        if row.kernel != of.kernel.name:
            continue
        line = code.line_map.get(row.pc)
        if line is None or line.text.split()[0] != row.text.split()[0]:
            raise SpecError(
                f"the trace is of another build of {of.kernel.name}: at {row.pc:#x} it has "
                f"{row.text!r}, this one {line.text if line else 'nothing'!r}",
                hint="emit with the options that the traced kernel was emitted with, or leave the "
                "name out",
                field="measured",
            )
        rows[number] = replace(row, source=line.entry or "")
    return replace(capture, code=replace(capture.code, rows=MappingProxyType(rows)))


def emitted_trace_files(kernel: EmittedKernel, trace: Trace) -> dict[str, str | bytes]:
    """A simulated run of an emitted kernel as rocprofv3 would write it, by file name."""
    code = assemble(kernel)
    lines = code_lines(kernel, code)
    return viewer_files(trace, lines, kernel.name, code_object=code.data)
