"""Execute AMD code objects on the CPU, and punish missing waits. See docs/emulator.md."""

from pipeloom.judge.emulate.arguments import Linked, Pitched, PlacedArg, PointerInto
from pipeloom.judge.emulate.decode import Decoded, decode_kernel
from pipeloom.judge.emulate.launches import RunResult, run_kernel
from pipeloom.judge.emulate.lines import map_lines
from pipeloom.judge.emulate.loader import (
    CodeKernel,
    CodeObject,
    KernelArgument,
    KernelMetadata,
    load_code_object,
)
from pipeloom.judge.emulate.observe import AddressSpace, Effect, LaneAccess, Observer
from pipeloom.judge.emulate.observed import Defect, DefectKind
from pipeloom.judge.emulate.pending import Directed, Timing
from pipeloom.judge.emulate.traps import (
    CodeObjectError,
    EmulateError,
    LaunchError,
    StepLimitError,
    UnsupportedInstructionError,
)
from pipeloom.judge.emulate.wait_states import WaitHazard, check_hazards

__all__ = [
    "AddressSpace",
    "CodeKernel",
    "CodeObject",
    "CodeObjectError",
    "Decoded",
    "Defect",
    "DefectKind",
    "Directed",
    "Effect",
    "EmulateError",
    "KernelArgument",
    "KernelMetadata",
    "LaneAccess",
    "LaunchError",
    "LineMap",
    "Linked",
    "Observer",
    "Pitched",
    "PlacedArg",
    "PointerInto",
    "RunResult",
    "StepLimitError",
    "Timing",
    "UnsupportedInstructionError",
    "WaitHazard",
    "check_hazards",
    "decode_kernel",
    "load_code_object",
    "map_lines",
    "run_kernel",
]
