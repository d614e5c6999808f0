"""NumPy's functions of values of a loop, by NumPy's names: ``np.exp(x)``, ``np.where(c, a, b)``.

Those that the vocabulary has are its ops, others are composed as ``composed`` says. Reductions take
the name of a dimension for an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import and_, invert, lshift, ne, or_, rshift, xor
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeloom.declare import composed
from pipeloom.errors import ConfigError

if TYPE_CHECKING:
    from pipeloom.declare.loop import Loop
    from pipeloom.declare.tensor import Tensor


def ufunc(
    loop: Loop, name: str, method: str, given: Sequence[Any], options: Mapping[str, Any]
) -> Tensor:
    """What NumPy calls for an element-wise function."""
    op, made = _UFUNCS.get(name), _COMPOSED.get(name)
    if (op is None and made is None) or method != "__call__" or options:
        raise ConfigError(
            f"NumPy's {name} is no function of values of a loop",
            hint=f"there are {', '.join((*_UFUNCS, *_COMPOSED))}",
            field=name,
        )
    # NumPy hands its own numbers over as arrays without dimensions.
    numbers = (v.item() if isinstance(v, np.ndarray) and not v.ndim else v for v in given)
    return made(*numbers) if made is not None else loop.apply(str(op), *numbers)


def function(loop: Loop, name: str, given: Sequence[Any], options: Mapping[str, Any]) -> Tensor:
    """What NumPy calls for any other function."""
    if name in _OPS and not options:
        return loop.apply(_OPS[name], *given)
    if name in _COMPOSED and not options:
        return _COMPOSED[name](*given)
    found, axis = _REDUCTIONS.get(name), options.get("axis", ())
    axis = (axis,) if isinstance(axis, str) else axis
    if found is not None and {*options} <= {"axis"} and isinstance(axis, tuple):
        reduced: Tensor = getattr(given[0], found)(*given[1:], *axis)
        return reduced
    known = name in _OPS or found is not None
    raise ConfigError(
        f"NumPy's {name} is no function of values of a loop"
        if not known
        else f"NumPy's {name} takes no {', '.join(options)} for values of a loop",
        hint=f"there are {', '.join((*_OPS, 'clip', *_REDUCTIONS))}; an axis is a dimension's name",
        field=name,
    )


_OPS = {"where": "select", "round": "round"}
"""Functions that are ops."""
_REDUCTIONS = {
    **{name: name for name in ("sum", "mean", "max", "min", "any", "all", "argmax", "argmin")},
    "amax": "max",
    "amin": "min",
}
"""Functions that are methods."""
_UFUNCS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "negative": "neg",
    "maximum": "max",
    "fmax": "max",
    "minimum": "min",
    "fmin": "min",
    "exp2": "exp2",
    "log2": "log2",
    "reciprocal": "rcp",
    "sqrt": "sqrt",
    "sin": "sin",
    "cos": "cos",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "round",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "equal": "eq",
}
"""Ops by NumPy's name for them."""
_COMPOSED: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "exp": composed.exp,
        "expm1": composed.expm1,
        "log": composed.log,
        "log1p": composed.log1p,
        "tanh": composed.tanh,
        "sign": composed.sign,
        "clip": composed.clamp,
        "absolute": abs,
        "square": lambda x: x * x,
        "not_equal": ne,
        "bitwise_and": and_,
        "logical_and": and_,
        "bitwise_or": or_,
        "logical_or": or_,
        "bitwise_xor": xor,
        "logical_xor": xor,
        "left_shift": lshift,
        "right_shift": rshift,
        "invert": invert,
        "logical_not": invert,
    }
)
"""Those that are made of several."""
