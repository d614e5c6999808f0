"""What users write: loops over named values, and what they mean in NumPy."""

from pipeloom.declare import kernels
from pipeloom.declare.functions import (
    clamp,
    exp,
    exp2,
    fma,
    keep,
    log,
    log2,
    maximum,
    minimum,
    rcp,
    rsqrt,
    sigmoid,
    sqrt,
    tanh,
    where,
    within,
)
from pipeloom.declare.loop import Loop
from pipeloom.declare.tensor import Tensor

__all__ = [
    "Loop",
    "Tensor",
    "clamp",
    "exp",
    "exp2",
    "fma",
    "keep",
    "kernels",
    "log",
    "log2",
    "maximum",
    "minimum",
    "rcp",
    "rsqrt",
    "sigmoid",
    "sqrt",
    "tanh",
    "where",
    "within",
]
