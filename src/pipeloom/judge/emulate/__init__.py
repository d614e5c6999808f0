"""Execute AMD code objects on the CPU, and punish missing waits. See docs/emulator.md."""

from pipeloom.judge.emulate.arguments import Pitched, Placed
from pipeloom.judge.emulate.decode import Instruction, decode_kernel
from pipeloom.judge.emulate.launches import RunResult, run_kernel
from pipeloom.judge.emulate.lines import map_lines
from pipeloom.judge.emulate.loader import (
    CodeObject,
    Kernel,
    KernelArgument,
    KernelMetadata,
    load_code_object,
)
from pipeloom.judge.emulate.observe import Effect, Observer, Space, Touch
from pipeloom.judge.emulate.observed import Finding, FindingKind, LineMap, SourceLine
from pipeloom.judge.emulate.pending import Directed, Timing
from pipeloom.judge.emulate.traps import (
    CodeObjectError,
    EmulateError,
    LaunchError,
    StepLimitError,
    UnsupportedInstructionError,
)
from pipeloom.judge.emulate.wait_states import Hazard, check_hazards

__all__ = [
    "CodeObject",
    "CodeObjectError",
    "Directed",
    "Effect",
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
    "Observer",
    "Pitched",
    "Placed",
    "RunResult",
    "SourceLine",
    "Space",
    "StepLimitError",
    "Timing",
    "Touch",
    "UnsupportedInstructionError",
    "check_hazards",
    "decode_kernel",
    "load_code_object",
    "map_lines",
    "run_kernel",
]
