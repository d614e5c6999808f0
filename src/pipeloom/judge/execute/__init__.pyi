# The public names: `__init__.py` reads this file.
from .access_times import (
    TIMINGS as TIMINGS,
    Latencies as Latencies,
)
from .executor import (
    ORDERS as ORDERS,
    Executor as Executor,
    adversarial_orders as adversarial_orders,
    execute as execute,
    wave_last as wave_last,
)
from .outcome import (
    Fault as Fault,
    Meeting as Meeting,
    Outcome as Outcome,
    Standing as Standing,
    StepAt as StepAt,
    Suspect as Suspect,
    TraceEvent as TraceEvent,
    Wrong as Wrong,
)
from .steering import (
    provoke as provoke,
    replay as replay,
)
