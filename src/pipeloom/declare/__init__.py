"""What users write: loops over named values, and what they mean in NumPy."""

from pipeloom.declare import kernels
from pipeloom.declare.loop import Loop
from pipeloom.declare.tensor import (
    Tensor,
    exp2,
    fma,
    keep,
    log2,
    maximum,
    minimum,
    rcp,
    rsqrt,
    where,
    within,
)

__all__ = [
    "Loop",
    "Tensor",
    "exp2",
    "fma",
    "keep",
    "kernels",
    "log2",
    "maximum",
    "minimum",
    "rcp",
    "rsqrt",
    "where",
    "within",
]
