"""Run a kernel over a grid, as a driver would: pack arguments, set registers, go.

    code = load_code_object("k.hsaco")
    result = run_kernel(code, "gemm", grid=(2, 2, 1), block=(512, 1, 1),
                        args=[a, b, c, m, n, k], seed=7)
    assert not result.findings          # c now holds what the kernel stored

Array arguments are passed by reference: after the run they hold what the kernel wrote.
"""

from __future__ import annotations

import struct
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pipeloom.emulate.ds import is_sub_dword
from pipeloom.emulate.faults import EmulateError, LaunchError
from pipeloom.emulate.findings import Finding, LineMap
from pipeloom.emulate.lds import LocalMemory
from pipeloom.emulate.loader import CodeObject, Kernel, KernelArgument
from pipeloom.emulate.memory import GlobalMemory
from pipeloom.emulate.pending import Timing
from pipeloom.emulate.program import build_program
from pipeloom.emulate.registers import FLAT_SCRATCH, LANES, VGPR, lane_mask
from pipeloom.emulate.step import Step
from pipeloom.emulate.wait_states import hazard_findings
from pipeloom.emulate.wave import Wave
from pipeloom.emulate.workgroup import EnoughFindingsError, Ledger, Workgroup

Argument: TypeAlias = "npt.NDArray[Any] | np.generic | int | float | bytes | None"
Dim3: TypeAlias = tuple[int, int, int]

LDS_BYTES = {"gfx942": 64 * 1024, "gfx950": 160 * 1024}
"""LDS per workgroup (vendor documents; see the chips' data in ``targets``)."""

_PRELOAD_SKIP = 256
"""With preloaded kernarg SGPRs the entry skips the compatibility loads (LLVM AMDGPUUsage)."""

_USER_SGPRS = (
    # (property bit, SGPRs), in the order in which they are assigned.
    (0, 4),  # private segment buffer
    (1, 2),  # dispatch pointer
    (2, 2),  # queue pointer
    (3, 2),  # kernarg segment pointer
    (4, 2),  # dispatch id
    (5, 2),  # flat scratch init
    (6, 1),  # private segment size
)
_KERNARG_POINTER = 3


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run found and did. ``stopped`` says why it ended early, if it did."""

    findings: tuple[Finding, ...]
    instructions: Mapping[str, int]
    stopped: str | None = None

    @property
    def complete(self) -> bool:
        """Every wave of every workgroup reached its end."""
        return self.stopped is None

    @property
    def ok(self) -> bool:
        """Ran to the end without findings."""
        return self.complete and not self.findings

    @property
    def executed(self) -> int:
        """Instructions executed, over all waves."""
        return sum(self.instructions.values())


def run_kernel(
    code: CodeObject | Kernel,
    kernel_name: str | None = None,
    *,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Argument],
    seed: int = 0,
    timing: Timing | str = Timing.RANDOM,
    line_map: LineMap | None = None,
    max_findings: int = 20,
    dynamic_lds: int = 0,
    check_races: bool = True,
    check_wait_states: bool = True,
    max_instructions: int = 20_000_000,
) -> RunResult:
    """Execute every workgroup of ``grid`` (counted in workgroups) with ``block`` work-items.

    ``args`` are the explicit arguments in order: arrays for pointers (None for a null pointer),
    numbers or bytes for values. The same seed gives the same run. ``check_races=False`` turns off
    the ordering check on LDS, for schedules that are known to lean on timing: what a race does to
    the data is then still computed, but not reported. ``check_wait_states=False`` turns off the
    judge of wait states, which looks at the code and not at the run.
    """
    kernel = code if isinstance(code, Kernel) else code.kernel(kernel_name)
    groups, items = _dim3(grid, "grid"), _dim3(block, "block")
    try:
        when = Timing(timing)
    except ValueError as error:
        choices = ", ".join(t.value for t in Timing)
        raise LaunchError(f"unknown timing {timing!r}", hint=f"one of: {choices}") from error
    work_items = items[0] * items[1] * items[2]
    if work_items > 1024:
        raise LaunchError(f"block {items} has {work_items} work-items; the limit is 1024")
    lds_bytes = kernel.group_segment_bytes + dynamic_lds
    if lds_bytes > LDS_BYTES[kernel.arch]:
        raise LaunchError(
            f"the kernel asks for {lds_bytes} bytes of LDS; {kernel.arch} has "
            f"{LDS_BYTES[kernel.arch]}"
        )
    program = build_program(kernel.code, kernel.arch)
    memory = GlobalMemory()
    kernarg = _pack_arguments(kernel, args, memory, groups, items)
    segment = memory.allocate("the kernarg segment", kernarg)
    ledger = Ledger(line_map or {}, max_findings)
    counts: Tally[str] = Tally()
    stopped: str | None = None
    granule = 1 if any(is_sub_dword(step.instruction.name) for step in program) else 4
    waves = -(-work_items // LANES)
    try:
        with np.errstate(all="ignore"):
            for index in range(groups[0] * groups[1] * groups[2]):
                place = (
                    index % groups[0],
                    index // groups[0] % groups[1],
                    index // (groups[0] * groups[1]),
                )
                group = Workgroup(
                    list(program),
                    memory,
                    LocalMemory(lds_bytes, waves, granule, check_races),
                    ledger,
                    place,
                    seed * 1_000_003 + index,
                    when,
                    max_instructions,
                )
                _start_waves(group, kernel, program, items, segment.base, kernarg)
                group.run(counts)
    except EnoughFindingsError:
        stopped = f"max_findings={max_findings} reached"
    except EmulateError as error:
        # After a defect the kernel may do anything, such as loop on garbage: keep what was found.
        if not ledger.findings:
            raise
        stopped = error.message
    _copy_back(args, memory)
    early = hazard_findings(kernel, line_map or {}, max_findings) if check_wait_states else []
    return RunResult(
        (*ledger.findings, *early), MappingProxyType(dict(sorted(counts.items()))), stopped
    )


def _dim3(value: Sequence[int], name: str) -> Dim3:
    sizes = [int(v) for v in value] + [1] * (3 - len(value))
    if len(sizes) != 3 or min(sizes) < 1:
        raise LaunchError(
            f"{name} must be one to three positive numbers, got {tuple(value)}", field=name
        )
    return sizes[0], sizes[1], sizes[2]


# --- arguments ------------------------------------------------------------------------------------


def _pack_arguments(
    kernel: Kernel, args: Sequence[Argument], memory: GlobalMemory, groups: Dim3, items: Dim3
) -> npt.NDArray[np.uint8]:
    wanted = kernel.explicit_arguments
    if len(args) != len(wanted):
        raise LaunchError(
            f"kernel {kernel.name} takes {len(wanted)} arguments, got {len(args)}",
            hint="in order: " + ", ".join(_describe(a) for a in wanted),
        )
    packed = bytearray(kernel.kernarg_bytes)
    for position, (argument, value) in enumerate(zip(wanted, args, strict=True)):
        data = _encode(argument, value, position, memory)
        packed[argument.offset : argument.offset + argument.size] = data
    hidden = {
        "hidden_block_count_x": groups[0],
        "hidden_block_count_y": groups[1],
        "hidden_block_count_z": groups[2],
        "hidden_group_size_x": items[0],
        "hidden_group_size_y": items[1],
        "hidden_group_size_z": items[2],
        "hidden_grid_dims": 3,
    }
    for argument in kernel.arguments:
        if argument.value_kind in hidden:
            value = hidden[argument.value_kind].to_bytes(argument.size, "little")
            packed[argument.offset : argument.offset + argument.size] = value
    return np.frombuffer(bytes(packed), np.uint8)


def _describe(argument: KernelArgument) -> str:
    name = f"{argument.name}: " if argument.name else ""
    kind = "array" if argument.is_pointer else "value"
    return f"{name}{kind} of {argument.size} bytes"


def _encode(
    argument: KernelArgument, value: Argument, position: int, memory: GlobalMemory
) -> bytes:
    name = argument.name or f"arg {position}"
    if argument.is_pointer:
        if value is None:
            return bytes(argument.size)
        if not isinstance(value, np.ndarray):
            raise LaunchError(
                f"{name} is a pointer and needs a NumPy array, got {type(value).__name__}"
            )
        if not value.flags.c_contiguous:
            raise LaunchError(f"{name} must be C-contiguous", hint="pass np.ascontiguousarray(x)")
        octets = value.reshape(-1).view(np.uint8)
        return memory.allocate(name, octets).base.to_bytes(8, "little")
    if isinstance(value, bytes):
        data = value
    elif isinstance(value, np.generic):
        data = value.tobytes()
    elif isinstance(value, float):
        data = struct.pack("<f" if argument.size == 4 else "<d", value)
    elif isinstance(value, int):
        data = (value & ((1 << 8 * argument.size) - 1)).to_bytes(argument.size, "little")
    else:
        raise LaunchError(f"{name} is a value and needs a number, got {type(value).__name__}")
    if len(data) != argument.size:
        raise LaunchError(f"{name} takes {argument.size} bytes, got {len(data)}")
    return data


def _copy_back(args: Sequence[Argument], memory: GlobalMemory) -> None:
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    for array, buffer in zip(arrays, memory.buffers, strict=False):
        if array.flags.writeable and array.size:
            array.reshape(-1).view(np.uint8)[:] = buffer.octets[: buffer.size]


# --- initial registers ----------------------------------------------------------------------------


def _start_waves(
    group: Workgroup,
    kernel: Kernel,
    program: tuple[Step, ...],
    items: Dim3,
    kernarg_base: int,
    kernarg: npt.NDArray[np.uint8],
) -> None:
    work_items = items[0] * items[1] * items[2]
    entry = 0
    if kernel.preload_dwords:
        entry = next((i for i, s in enumerate(program) if s.instruction.pc == _PRELOAD_SKIP), 0)
    for index in range(-(-work_items // LANES)):
        wave = Wave(group, index, kernel.private_segment_bytes // 4)
        wave.next = entry
        _set_scalars(wave, kernel, kernarg_base, kernarg)
        linear = np.arange(index * LANES, (index + 1) * LANES)
        x, rest = linear % items[0], linear // items[0]
        packed = x | rest % items[1] << 10 | rest // items[1] << 20
        wave.v[0] = packed.astype(np.uint32)
        wave.set_poison(VGPR, 0)
        wave.set_exec(lane_mask(min(LANES, work_items - index * LANES)))
        group.waves.append(wave)


def _set_scalars(
    wave: Wave, kernel: Kernel, kernarg_base: int, kernarg: npt.NDArray[np.uint8]
) -> None:
    register = 0
    for bit, count in _USER_SGPRS:
        if not kernel.properties >> bit & 1:
            continue
        if bit == _KERNARG_POINTER:
            wave.define_scalar(register, kernarg_base)
            wave.define_scalar(register + 1, kernarg_base >> 32)
        register += count
    words = kernarg[: kernarg.size & ~3].view(np.uint32)
    for i in range(kernel.preload_dwords):
        at = kernel.preload_offset + i
        if at < words.size:
            wave.define_scalar(register, int(words[at]))
        register += 1
    register = kernel.rsrc2 >> 1 & 0x1F
    for axis in range(3):
        if kernel.rsrc2 >> (7 + axis) & 1:
            wave.define_scalar(register, wave.group.workgroup_id[axis])
            register += 1
    for special in (126, 127):
        wave.set_poison(special, 0)
    if kernel.uses_private_segment:
        wave.define_scalar(FLAT_SCRATCH, 0)
        wave.define_scalar(FLAT_SCRATCH + 1, 0)
