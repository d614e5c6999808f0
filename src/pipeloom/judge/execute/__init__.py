"""An executor that can be wrong: runs a program as the memory model allows, not as one hopes.

    from pipeloom.judge.execute import execute

    outcome = execute(program, trips=1)
    print(outcome.describe())

``truth`` makes inputs and says what should come out, ``enclosure`` how far from it a right program
may be, ``actions`` what each step does with numbers, ``unrolled`` unrolls a program,
``access_times`` and ``executor`` choose what the model leaves open, ``machine`` runs it on a
``workgroup_memory``, ``watch`` says who read the wrong thing, and ``steering`` steers it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
