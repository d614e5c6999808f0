"""Target code from programs. See docs/emitting.md."""

from pipeloom.machine.occupancy import Resources
from pipeloom.write.addresses import advance_base
from pipeloom.write.allocate import Allocation
from pipeloom.write.assemble import AssembledCode, assemble, assemble_text
from pipeloom.write.code import Code
from pipeloom.write.faults import (
    AssemblyError,
    EmitError,
    GateError,
    HazardError,
    RegisterLimitError,
)
from pipeloom.write.hazard_check import HazardFinding, check_hazards, require_no_hazards
from pipeloom.write.hazards import insert_wait_states
from pipeloom.write.kernel import EmittedKernel
from pipeloom.write.launch import Launch
from pipeloom.write.launch_record import LAUNCH_FORMAT, launch_record
from pipeloom.write.layout import (
    TileLayout,
    count_conflicts,
    dealt_rows,
    layout_conflicts,
    layout_for,
)
from pipeloom.write.placing import Placing
from pipeloom.write.text import Argument
from pipeloom.write.writers import Writer, emit_program, occupied, register_writer

__all__ = [
    "LAUNCH_FORMAT",
    "Allocation",
    "Argument",
    "AssembledCode",
    "AssemblyError",
    "Code",
    "EmitError",
    "EmittedKernel",
    "GateError",
    "HazardError",
    "HazardFinding",
    "Launch",
    "Placing",
    "RegisterLimitError",
    "Resources",
    "TileLayout",
    "Writer",
    "advance_base",
    "assemble",
    "assemble_text",
    "check_hazards",
    "count_conflicts",
    "dealt_rows",
    "emit_program",
    "insert_wait_states",
    "launch_record",
    "layout_conflicts",
    "layout_for",
    "occupied",
    "register_writer",
    "require_no_hazards",
]
