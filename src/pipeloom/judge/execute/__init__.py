"""An executor that can be wrong: runs a schedule as the memory model allows, not as one hopes.

    from pipeloom import build_schedule
    from pipeloom.judge.execute import execute, operands

    compiled = build_schedule("four_wave")
    a, b = operands(compiled, trips=1)
    execution = execute(compiled, a, b, trips=1)
    print(execution.describe())

``program`` unrolls a schedule, ``timing`` and ``order`` choose what the model leaves open,
``machine`` runs it on ``tokens`` (tile numbers) or ``arrays`` (numbers), ``replay`` steers it,
``mutate`` and ``classify`` ask of thousands of broken schedules whether they are ever wrong.
"""

from pipeloom.judge.execute.classify import Classification, Failure, Setting, classify, settings
from pipeloom.judge.execute.mutate import Mutant, MutationKind, mutants, sample_mutants
from pipeloom.judge.execute.order import ORDERS, adversarial_orders, wave_last
from pipeloom.judge.execute.outcome import (
    POISON,
    POISON_VALUE,
    Access,
    Execution,
    FlightState,
    PairReport,
    PoisonedRead,
    Standing,
    Status,
    Symptom,
    SymptomKind,
    TraceEvent,
)
from pipeloom.judge.execute.replay import (
    Hold,
    Land,
    Replayer,
    RunThrough,
    RunTo,
    provoke,
    replay,
)
from pipeloom.judge.execute.run import Executor, dry_run, execute, operands
from pipeloom.judge.execute.strict import fully_synchronized, thinned
from pipeloom.judge.execute.timing import TIMINGS, Moment, Timing

__all__ = [
    "ORDERS",
    "POISON",
    "POISON_VALUE",
    "TIMINGS",
    "Access",
    "Classification",
    "Execution",
    "Executor",
    "Failure",
    "FlightState",
    "Hold",
    "Land",
    "Moment",
    "Mutant",
    "MutationKind",
    "PairReport",
    "PoisonedRead",
    "Replayer",
    "RunThrough",
    "RunTo",
    "Setting",
    "Standing",
    "Status",
    "Symptom",
    "SymptomKind",
    "Timing",
    "TraceEvent",
    "adversarial_orders",
    "classify",
    "dry_run",
    "execute",
    "fully_synchronized",
    "mutants",
    "operands",
    "provoke",
    "replay",
    "sample_mutants",
    "settings",
    "thinned",
    "wave_last",
]
