# The public names: `__init__.py` reads this file.
from .arguments import (
    Linked as Linked,
    Pitched as Pitched,
    PlacedArg as PlacedArg,
    PointerInto as PointerInto,
)
from .decode import (
    Decoded as Decoded,
    decode_kernel as decode_kernel,
)
from .launches import (
    RunResult as RunResult,
    run_kernel as run_kernel,
)
from .lines import map_lines as map_lines
from .loader import (
    CodeKernel as CodeKernel,
    CodeObject as CodeObject,
    KernelArgument as KernelArgument,
    KernelMetadata as KernelMetadata,
    load_code_object as load_code_object,
)
from .observe import (
    AddressSpace as AddressSpace,
    Effect as Effect,
    LaneAccess as LaneAccess,
    Observer as Observer,
)
from .observed import (
    Defect as Defect,
    DefectKind as DefectKind,
)
from .pending import (
    Directed as Directed,
    Timing as Timing,
)
from .traps import (
    CodeObjectError as CodeObjectError,
    EmulateError as EmulateError,
    LaunchError as LaunchError,
    StepLimitError as StepLimitError,
    UnsupportedInstructionError as UnsupportedInstructionError,
)
from .wait_states import (
    WaitHazard as WaitHazard,
    check_hazards as check_hazards,
)
