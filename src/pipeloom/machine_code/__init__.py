"""Emitted kernels on the machine model: cycles of the instructions that were really written.

``simulate`` lowers a program by what its steps say they issue. ``simulate_emitted`` takes the
kernel's own lines, with address arithmetic, wait states, branches and stores:

    emitted = emit_program(program)
    trace = simulate_emitted(emitted, k_tiles=32)
    trace.steady_cycles_per_iteration

``executed_lines`` follows each wave through the branches, ``lowering`` turns lines into the
simulator's instructions. The package stands above ``write`` and ``judge.simulate``, which do not
know each other. ``__init__.pyi`` lists what is imported from it when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
