"""The judge of wait states: one table, read by a front end for text and one for machine code.

CDNA's pipes are not fully interlocked: between some pairs of instructions software must leave wait
states. ``rules`` holds what is needed and where that is written, ``mnemonics`` which instructions
are known at all, ``early_issue`` walks a program along all its paths, ``assembly`` reads text. The
front end for machine code is ``pipeloom.judge.emulate.wait_states``. Nothing here knows the pass
that inserts ``s_nop`` (``pipeloom.write.hazards``), which has a table of its own.
"""

from pipeloom.judge.wait_states.assembly import read_assembly
from pipeloom.judge.wait_states.early_issue import Shortfall, judge
from pipeloom.judge.wait_states.instruction_facts import Issued, register_name
from pipeloom.judge.wait_states.mnemonics import Target
from pipeloom.judge.wait_states.rules import RULES, Basis, Rule

__all__ = [
    "RULES",
    "Basis",
    "Issued",
    "Rule",
    "Shortfall",
    "Target",
    "judge",
    "read_assembly",
    "register_name",
]
