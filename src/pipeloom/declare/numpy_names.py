"""NumPy's functions of values of a loop, by NumPy's names: ``np.exp(x)``, ``np.where(c, a, b)``.

Those that the vocabulary has are its ops, others are composed as ``composed`` says. Reductions take
the name of a dimension for an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from operator import and_, invert, lshift, ne, or_, rshift, xor
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

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
    if name == "clip":
        return _clipped(loop, given, options)
    if name == "nan_to_num" and {*options} <= {"nan", "posinf", "neginf"} and len(given) == 1:
        return composed.nan_to_num(*given, **options)
    found = _REDUCTIONS.get(name)
    taken = {"axis", "ddof"} if name in ("var", "std") else {"axis"}
    if found is not None and {*options} <= taken:
        reduced: Tensor = getattr(given[0], found)(*given[1:], **options)
        return reduced
    known = name in _OPS or found is not None
    raise ConfigError(
        f"NumPy's {name} is no function of values of a loop"
        if not known
        else f"NumPy's {name} takes no {', '.join(options)} for values of a loop",
        hint=f"there are {', '.join((*_OPS, 'clip', 'nan_to_num', *_REDUCTIONS))}; an axis is a "
        "dimension's name",
        field=name,
    )


def axes(name: str, dims: Sequence[object], options: Mapping[str, object]) -> tuple[str, ...]:
    """The dimensions of a reduction, named one by one or by NumPy's ``axis``; () where none is.

    Args:
        name: The value that is reduced.
        dims: Those that were named by their place.
        options: Those that were named by a keyword.
    """
    given = [*dims, options.get("axis")]
    flat = [d for one in given for d in (one if isinstance(one, tuple) else (one,))]
    found = tuple(dim for dim in flat if isinstance(dim, str))
    strange = [key for key in options if key != "axis"]
    strange += [repr(dim) for dim in flat if dim is not None and not isinstance(dim, str)]
    if strange:
        raise ConfigError(
            f"a reduction of {name} takes no {', '.join(strange)}",
            hint="an axis is a dimension's name, x.max('n') or x.max(axis='n'); what is left is "
            "matched by name, so x - x.max('n') needs no keepdims",
            field=name,
        )
    return found


def _clipped(loop: Loop, given: Sequence[Any], options: Mapping[str, Any]) -> Tensor:
    """Not below one end, not above the other; None, or its keyword left out, is no end."""
    places = dict(zip(("low", "high"), given[1:], strict=False))
    bounds = places | {_BOUNDS.get(key, key): value for key, value in options.items()}
    ends = len(given) - 1 + len(options)
    if not {*bounds} <= {"low", "high"} or len(bounds) < ends or (ends == 1 and places):
        raise ConfigError(
            "clip takes a value, its lower and its upper end",
            hint="np.clip(x, 0, 1), np.clip(x, 0, None), np.clip(x, min=0, max=1)",
            field="clip",
        )
    value = given[0]
    for op, bound in (("max", bounds.get("low")), ("min", bounds.get("high"))):
        value = value if bound is None else loop.apply(op, value, bound)
    return cast("Tensor", value)


def _truth(value: Any) -> Any:
    """Whether a number is not 0; truth values as they are."""
    return value if isinstance(value, Real) or value.type.dtype.is_bool else value != 0.0


_BOUNDS = {"a_min": "low", "min": "low", "a_max": "high", "max": "high"}
"""What NumPy calls the ends of ``clip``."""
_OPS = {"where": "select", "round": "round"}
"""Functions that are ops."""
_REDUCTIONS = {
    **{
        name: name
        for name in (
            *("sum", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin"),
        )
    },
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
        "absolute": abs,
        "fabs": abs,
        "positive": lambda x: x,
        "power": lambda x, p: x**p,
        "float_power": lambda x, p: x**p,
        "remainder": composed.remainder,
        "floor_divide": composed.floor_divide,
        "tan": composed.tan,
        "sinh": composed.sinh,
        "cosh": composed.cosh,
        "arctanh": composed.arctanh,
        "log10": composed.log10,
        "cbrt": composed.cbrt,
        "hypot": composed.hypot,
        "logaddexp": composed.logaddexp,
        "heaviside": composed.heaviside,
        "isnan": composed.isnan,
        "isinf": composed.isinf,
        "isfinite": composed.isfinite,
        "degrees": composed.degrees,
        "rad2deg": composed.degrees,
        "radians": composed.radians,
        "deg2rad": composed.radians,
        "square": lambda x: x * x,
        "not_equal": ne,
        "bitwise_and": and_,
        "logical_and": lambda a, b: _truth(a) & _truth(b),
        "bitwise_or": or_,
        "logical_or": lambda a, b: _truth(a) | _truth(b),
        "bitwise_xor": xor,
        "logical_xor": lambda a, b: _truth(a) ^ _truth(b),
        "left_shift": lshift,
        "right_shift": rshift,
        "invert": invert,
        "logical_not": lambda a: ~_truth(a),
    }
)
"""Those that are made of several."""
