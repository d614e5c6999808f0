# The public names: `__init__.py` reads this file.
from .bank_conflicts import bank_conflict as bank_conflict
from .engine import simulate_programs as simulate_programs
from .estimate import (
    Estimate as Estimate,
    estimate_gemm as estimate_gemm,
)
from .instruction import (
    Kind as Kind,
    Track as Track,
    WaveOp as WaveOp,
    WaveProgram as WaveProgram,
)
from .issued import simulate as simulate
from .run_stream import simulate_stream as simulate_stream
from .stream import (
    StreamError as StreamError,
    parse_stream as parse_stream,
)
from .trace import (
    Cause as Cause,
    Event as Event,
    LoopPhase as LoopPhase,
    StallRow as StallRow,
    Trace as Trace,
)
