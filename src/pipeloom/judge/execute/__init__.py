"""An executor that can be wrong: runs a program as the memory model allows, not as one hopes.

    from pipeloom.judge.execute import execute

    outcome = execute(program, trips=1)
    print(outcome.describe())

``truth`` makes inputs and says what should come out, ``actions`` what each step does with numbers,
``walk`` unrolls a program, ``timing`` and ``order`` choose what the model leaves open, ``machine``
runs it on a ``memory``, ``watch`` says who read the wrong thing, and ``replay`` steers it.
"""

from pipeloom.judge.execute.order import ORDERS, adversarial_orders, wave_last
from pipeloom.judge.execute.outcome import (
    Fault,
    Meeting,
    Outcome,
    Place,
    Standing,
    Suspect,
    TraceEvent,
    Wrong,
)
from pipeloom.judge.execute.replay import provoke, replay
from pipeloom.judge.execute.run import Executor, execute
from pipeloom.judge.execute.timing import TIMINGS, Timing

__all__ = [
    "ORDERS",
    "TIMINGS",
    "Executor",
    "Fault",
    "Meeting",
    "Outcome",
    "Place",
    "Standing",
    "Suspect",
    "Timing",
    "TraceEvent",
    "Wrong",
    "adversarial_orders",
    "execute",
    "provoke",
    "replay",
    "wave_last",
]
