# The public names: `__init__.py` reads this file.
from .addresses import advance_base as advance_base
from .allocate import Allocation as Allocation
from .assemble import (
    AssembledCode as AssembledCode,
    assemble as assemble,
    assemble_text as assemble_text,
)
from .code import Code as Code
from .faults import (
    AssemblyError as AssemblyError,
    EmitError as EmitError,
    GateError as GateError,
    HazardError as HazardError,
    RegisterLimitError as RegisterLimitError,
)
from .hazard_check import (
    HazardFinding as HazardFinding,
    check_hazards as check_hazards,
    require_no_hazards as require_no_hazards,
)
from .hazards import insert_wait_states as insert_wait_states
from .kernel import EmittedKernel as EmittedKernel
from .launch import Launch as Launch
from .launch_record import (
    LAUNCH_FORMAT as LAUNCH_FORMAT,
    launch_record as launch_record,
)
from .layout import (
    TileLayout as TileLayout,
    count_conflicts as count_conflicts,
    dealt_rows as dealt_rows,
    layout_conflicts as layout_conflicts,
    layout_for as layout_for,
)
from .placing import Placing as Placing
from .text import Argument as Argument
from .writers import (
    Writer as Writer,
    emit_program as emit_program,
    occupied as occupied,
    register_writer as register_writer,
)
