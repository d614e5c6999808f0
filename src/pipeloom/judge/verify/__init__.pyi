# The public names: `__init__.py` reads this file.
from .findings import (
    Counterexample as Counterexample,
    CounterexampleStep as CounterexampleStep,
    Coverage as Coverage,
    DeadWork as DeadWork,
    Finding as Finding,
    FindingKind as FindingKind,
    Replay as Replay,
    Status as Status,
    StepPlace as StepPlace,
    Verdict as Verdict,
)
from .prove import (
    proves as proves,
    verify as verify,
)
