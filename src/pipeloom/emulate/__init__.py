"""Execute AMD code objects on the CPU, and punish missing waits. See docs/emulator.md."""

from pipeloom.emulate.arguments import Pitched
from pipeloom.emulate.decode import Instruction, decode_kernel
from pipeloom.emulate.faults import (
    CodeObjectError,
    EmulateError,
    LaunchError,
    StepLimitError,
    UnsupportedInstructionError,
)
from pipeloom.emulate.findings import Finding, FindingKind, LineMap, SourceLine
from pipeloom.emulate.launch import RunResult, run_kernel
from pipeloom.emulate.lines import map_lines
from pipeloom.emulate.loader import (
    CodeObject,
    Kernel,
    KernelArgument,
    KernelMetadata,
    load_code_object,
)
from pipeloom.emulate.pending import Timing
from pipeloom.emulate.wait_states import Hazard, check_hazards

__all__ = [
    "CodeObject",
    "CodeObjectError",
    "EmulateError",
    "Finding",
    "FindingKind",
    "Hazard",
    "Instruction",
    "Kernel",
    "KernelArgument",
    "KernelMetadata",
    "LaunchError",
    "LineMap",
    "Pitched",
    "RunResult",
    "SourceLine",
    "StepLimitError",
    "Timing",
    "UnsupportedInstructionError",
    "check_hazards",
    "decode_kernel",
    "load_code_object",
    "map_lines",
    "run_kernel",
]
