"""The judge of wait states: one table, read by a front end for text and one for machine code.

CDNA's pipes are not fully interlocked: between some pairs of instructions software must leave wait
states. A chip's record holds its rules (``Target.wait_rules``). ``effects`` says which of them an
instruction starts and meets, ``early_issue`` walks a program along all its paths, ``assembly``
reads text. The front end for machine code is ``pipeloom.judge.emulate.wait_states``. Nothing here
knows the pass that inserts ``s_nop`` (``pipeloom.write.hazards``): it reads the same rules, and its
own instructions. LLVM's pass is asked about both in the tests.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
