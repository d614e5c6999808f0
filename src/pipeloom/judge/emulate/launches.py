"""Run a kernel over a grid, as a driver would: pack arguments, set registers, go.

    code = load_code_object("k.hsaco")
    result = run_kernel(code, "gemm", grid=(2, 2, 1), block=(512, 1, 1),
                        args=[a, b, c, m, n, k], seed=7)
    assert not result.findings          # c now holds what the kernel stored

Array arguments are passed by reference: after the run they hold what the kernel wrote.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from pipeloom.array_kinds import Octets
from pipeloom.judge.emulate.arguments import Arguments, Dim3, copy_back, pack_arguments
from pipeloom.judge.emulate.ds import is_sub_dword
from pipeloom.judge.emulate.executable import build_program
from pipeloom.judge.emulate.global_memory import GlobalMemory
from pipeloom.judge.emulate.lds_shadow import LocalMemory
from pipeloom.judge.emulate.limits import check_block, check_descriptor, check_registers
from pipeloom.judge.emulate.loader import CodeKernel, CodeObject
from pipeloom.judge.emulate.observe import Observer
from pipeloom.judge.emulate.observed import Defect
from pipeloom.judge.emulate.pending import Directed, Timing
from pipeloom.judge.emulate.register_numbers import FLAT_SCRATCH, LANES, VGPR, lane_mask
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.traps import EmulateError, LaunchError, UnsupportedInstructionError
from pipeloom.judge.emulate.wait_states import hazard_findings
from pipeloom.judge.emulate.wave import POISON_WORD, Wave
from pipeloom.judge.emulate.workgroup import DefectLog, EnoughFindingsError, Workgroup
from pipeloom.machine.source_lines import LineMap

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
_KERNARG_POINTER, _DISPATCH_ID = 3, 4
_THIS_DISPATCH = 1
"""Number of the packet in its queue; not 0, so that it differs from memory never written."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run found and did."""

    findings: tuple[Defect, ...]
    """What the emulator saw go wrong."""
    instructions: Mapping[str, int]
    """How often each instruction was executed, by mnemonic."""
    stopped: str | None = None
    """Why it ended early; None where it ran to its end."""

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
    code: CodeObject | CodeKernel,
    kernel_name: str | None = None,
    *,
    grid: Sequence[int],
    block: Sequence[int],
    args: Arguments,
    seed: int = 0,
    timing: Timing | Directed | str = Timing.RANDOM,
    line_map: LineMap | None = None,
    max_findings: int = 20,
    dynamic_lds: int = 0,
    check_races: bool = True,
    check_wait_states: bool = True,
    counter_stall: bool = False,
    max_instructions: int = 20_000_000,
    observer: Observer | None = None,
    workgroups: int | None = None,
    last_first: bool = False,
    leftover: int = POISON_WORD,
    memory: GlobalMemory | None = None,
) -> RunResult:
    """Execute every workgroup of a launch in the emulator.

    The same seed gives the same run. Output arrays are written in place.

    Args:
        code: A code object, or one of its kernels.
        kernel_name: The kernel's name, where the code object holds several.
        grid: Workgroups along x, y and z.
        block: Work-items of a workgroup along x, y and z.
        args: The explicit arguments in order: arrays for pointers (None for a null pointer),
            numbers or bytes for values; or each as ``Placed``, by its offset. One array passed
            twice is one buffer.
        seed: What timing and the order of waves are drawn from.
        timing: When operations land: at random, as early or as late as waits allow, or as directed.
        line_map: Where instructions come from, for findings.
        max_findings: After so many the run stops.
        dynamic_lds: Bytes of LDS that the launch adds to the kernel's own.
        check_races: Whether the order of LDS accesses is checked. Without it, what a race does to
            the data is still computed, but not reported: for schedules that are known to lean on
            timing.
        check_wait_states: Whether wait states are judged, which looks at the code and not at the
            run.
        counter_stall: Whether the issue of an operation past a counter's limit waits for the oldest
            one. No vendor promises it, so by default only ``s_waitcnt`` retires.
        max_instructions: A workgroup that issues more is taken not to end.
        observer: Watches the run.
        workgroups: Runs only the first so many of the grid.
        last_first: Whether workgroups run in the other order.
        leftover: What registers and LDS hold that nothing has written, word by word.
        memory: Buffers that have addresses already; arguments hold them as numbers.
    """
    kernel = code if isinstance(code, CodeKernel) else code.kernel(kernel_name)
    groups, items = _dim3(grid, "grid"), _dim3(block, "block")
    try:
        when = timing if isinstance(timing, Directed) else Timing(timing)
    except ValueError as error:
        choices = ", ".join(t.value for t in Timing)
        raise LaunchError(f"unknown timing {timing!r}", hint=f"one of: {choices}") from error
    check_descriptor(kernel)
    check_block(kernel, items, dynamic_lds)
    lds_bytes = kernel.group_segment_bytes + dynamic_lds
    try:
        program = build_program(kernel.code, kernel.arch)
    except UnsupportedInstructionError as error:
        raise UnsupportedInstructionError(
            f"{kernel.name} ({kernel.arch}): {error.message}", hint=error.hint
        ) from error
    check_registers(kernel, program)
    memory = GlobalMemory(seed) if memory is None else memory
    kernarg, bound = pack_arguments(kernel, args, memory, groups, items)
    segment = memory.allocate("the kernarg segment", kernarg)
    ledger = DefectLog(line_map or {}, max_findings)
    counts: Tally[str] = Tally()
    stopped: str | None = None
    granule = 1 if any(is_sub_dword(step.instruction.name) for step in program) else 4
    waves = -(-(items[0] * items[1] * items[2]) // LANES)
    try:
        with np.errstate(all="ignore"):
            count = groups[0] * groups[1] * groups[2]
            order = range(count if workgroups is None else min(count, workgroups))
            for index in reversed(order) if last_first else order:
                place = (
                    index % groups[0],
                    index // groups[0] % groups[1],
                    index // (groups[0] * groups[1]),
                )
                group = Workgroup(
                    list(program),
                    memory,
                    LocalMemory(lds_bytes, waves, granule, check_races, leftover),
                    ledger,
                    place,
                    seed * 1_000_003 + index,
                    when,
                    max_instructions,
                    counter_stall,
                    observer,
                )
                _start_waves(group, kernel, program, items, segment.base, kernarg, leftover)
                group.run(counts)
    except EnoughFindingsError:
        stopped = f"max_findings={max_findings} reached"
    except EmulateError as error:
        # After a defect the kernel may do anything, such as loop on garbage: keep what was found.
        if not ledger.findings:
            raise
        stopped = error.message
    copy_back(bound)
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


# --- initial registers ----------------------------------------------------------------------------


def _start_waves(
    group: Workgroup,
    kernel: CodeKernel,
    program: tuple[MicroOp, ...],
    items: Dim3,
    kernarg_base: int,
    kernarg: Octets,
    leftover: int,
) -> None:
    work_items = items[0] * items[1] * items[2]
    entry = 0
    if kernel.preload_dwords:
        entry = next((i for i, s in enumerate(program) if s.instruction.pc == _PRELOAD_SKIP), 0)
    for index in range(-(-work_items // LANES)):
        wave = Wave(group, index, kernel.private_segment_bytes // 4, leftover)
        wave.next = entry
        _set_scalars(wave, kernel, kernarg_base, kernarg)
        linear = np.arange(index * LANES, (index + 1) * LANES)
        x, rest = linear % items[0], linear // items[0]
        packed = x | rest % items[1] << 10 | rest // items[1] << 20
        wave.v[0] = packed.astype(np.uint32)
        wave.set_poison(VGPR, 0)
        wave.set_exec(lane_mask(min(LANES, work_items - index * LANES)))
        group.waves.append(wave)


def _set_scalars(wave: Wave, kernel: CodeKernel, kernarg_base: int, kernarg: Octets) -> None:
    register = 0
    for bit, count in _USER_SGPRS:
        if not kernel.properties >> bit & 1:
            continue
        known = {_KERNARG_POINTER: kernarg_base, _DISPATCH_ID: _THIS_DISPATCH}
        if bit in known:
            wave.define_scalar(register, known[bit])
            wave.define_scalar(register + 1, known[bit] >> 32)
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
