"""Loops whose depth is derived: one tile's ops in, a pipeline of any number of stages out.

loop      what a tile does, what it costs, which buffers and registers rotate
problem   the same as a modulo scheduling problem
derive    solve it, and choose the phases for the K at hand
phases    prologue, kernel and epilogue with concrete buffers and registers
costs     what the ops of a GEMM tile cost a machine
inorder   cycles per tile of any schedule's order under the same costs
"""

from pipeloom.reference.pipelining.derive import (
    DEFAULT_OBJECTIVES,
    PipeliningGoal,
    derive_pipeline,
    solve_tile_loop,
)
from pipeloom.reference.pipelining.loop import (
    OpCycles,
    RotatingBuffer,
    RotatingRegisters,
    Rotation,
    TileLoop,
    TileOp,
)
from pipeloom.reference.pipelining.phases import PipelinedLoop, peel_tile_phases
from pipeloom.reference.pipelining.problem import modulo_problem

__all__ = [
    "DEFAULT_OBJECTIVES",
    "OpCycles",
    "PipelinedLoop",
    "PipeliningGoal",
    "RotatingBuffer",
    "RotatingRegisters",
    "Rotation",
    "TileLoop",
    "TileOp",
    "derive_pipeline",
    "modulo_problem",
    "peel_tile_phases",
    "solve_tile_loop",
]
