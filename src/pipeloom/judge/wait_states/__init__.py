"""The judge of wait states: one table, read by a front end for text and one for machine code.

CDNA's pipes are not fully interlocked: between some pairs of instructions software must leave wait
states. A chip's record holds its rules (``Target.wait_rules``). ``effects`` says which of them an
instruction starts and meets, ``early_issue`` walks a program along all its paths, ``assembly``
reads text. The front end for machine code is ``pipeloom.judge.emulate.wait_states``. Nothing here
knows the pass that inserts ``s_nop`` (``pipeloom.write.hazards``): it reads the same rules, and its
own instructions. LLVM's pass is asked about both in the tests.
"""

from pipeloom.judge.wait_states.assembly import read_assembly
from pipeloom.judge.wait_states.early_issue import Shortfall, judge
from pipeloom.judge.wait_states.effects import Issued, register_name, registers_of
from pipeloom.machine.wait_rules import Basis

__all__ = [
    "Basis",
    "Issued",
    "Shortfall",
    "judge",
    "read_assembly",
    "register_name",
    "registers_of",
]
