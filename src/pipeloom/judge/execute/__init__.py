"""An executor that can be wrong: runs a program as the memory model allows, not as one hopes.

    from pipeloom.judge.execute import execute

    outcome = execute(program, trips=1)
    print(outcome.describe())

``truth`` makes inputs and says what should come out, ``enclosure`` how far from it a right program
may be, ``actions`` what each step does with numbers, ``unrolled`` unrolls a program,
``access_times`` and ``executor`` choose what the model leaves open, ``machine`` runs it on a
``workgroup_memory``, ``watch`` says who read the wrong thing, and ``steering`` steers it.
"""

from pipeloom.judge.execute.access_times import TIMINGS, Latencies
from pipeloom.judge.execute.executor import ORDERS, Executor, adversarial_orders, execute, wave_last
from pipeloom.judge.execute.outcome import (
    Fault,
    Meeting,
    Outcome,
    Standing,
    StepAt,
    Suspect,
    TraceEvent,
    Wrong,
)
from pipeloom.judge.execute.steering import provoke, replay

__all__ = [
    "ORDERS",
    "TIMINGS",
    "Executor",
    "Fault",
    "Latencies",
    "Meeting",
    "Outcome",
    "Standing",
    "StepAt",
    "Suspect",
    "TraceEvent",
    "Wrong",
    "adversarial_orders",
    "execute",
    "provoke",
    "replay",
    "wave_last",
]
