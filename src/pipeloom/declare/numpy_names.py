"""NumPy's functions of values of a loop, by NumPy's names: ``np.exp(x)``, ``np.where(c, a, b)``.

Those that the vocabulary has are its ops, others are composed as ``composed`` says. Reductions take
the name of a dimension for an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from operator import and_, invert, lshift, ne, or_, rshift, xor
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pipeloom.checks import nearest
from pipeloom.declare import composed
from pipeloom.errors import ConfigError

if TYPE_CHECKING:
    from pipeloom.declare.loop import Loop
    from pipeloom.declare.tensor import Tensor


def ufunc(
    loop: Loop, name: str, method: str, given: Sequence[Any], options: Mapping[str, Any]
) -> Tensor:
    """What NumPy calls for an element-wise function."""
    if method == "reduce" and name in _REDUCED:
        first = () if given[1:] or "axis" in options else (0,)
        return cast("Tensor", getattr(given[0], _REDUCED[name])(*given[1:], *first, **options))
    made = ELEMENTS.get(name)
    if made is None or method != "__call__" or options:
        raise _unknown(f"{name}.{method}" if method != "__call__" else name)
    # NumPy hands its own numbers over as arrays without dimensions.
    numbers = (v.item() if isinstance(v, np.ndarray) and not v.ndim else v for v in given)
    return loop.apply(made, *numbers) if isinstance(made, str) else made(*numbers)


def function(loop: Loop, name: str, given: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What NumPy calls for any other function."""
    made, taken = FUNCTIONS.get(name), _OPTIONS.get(name, {"axis", "keepdims"})
    if made is None:
        raise _unknown(name)
    if {*options} <= taken:
        return loop.apply(made, *given) if isinstance(made, str) else made(*given, **options)
    raise ConfigError(
        f"NumPy's {name} takes no {', '.join(options)} for values of a loop",
        hint="leave it out; an axis is a dimension's name",
        field=name,
    )


def _unknown(name: str) -> ConfigError:
    return ConfigError(
        f"NumPy's {name} is no function of values of a loop", hint=instead(name), field=name
    )


def instead(name: str) -> str:
    """What to write where there is no such function of values.

    Args:
        name: What NumPy or PyTorch call it.
    """
    for names, remedy in _INSTEAD.items():
        if name in names.split():
            return remedy
    return (
        f"{nearest(name, (*ELEMENTS, *FUNCTIONS))}; an op of your own is a pl.OpDef for loop.apply"
    )


def axes(
    name: str, known: Sequence[str], dims: Sequence[object], options: Mapping[str, object]
) -> tuple[str, ...]:
    """The dimensions of a reduction, named one by one, by ``axis`` or by ``dim``, or counted as an
    array's are; () where none is. Without them, others are matched by name: nothing needs
    ``keepdims``, and nothing is said against it.

    Args:
        name: The value that is reduced.
        known: Its dimensions.
        dims: Those that were named by their place.
        options: Those that were named by a keyword.
    """
    given = [*dims, options.get("axis"), options.get("dim")]
    flat = [d for one in given for d in (one if isinstance(one, tuple | list) else (one,))]
    strange = [key for key in options if key not in ("axis", "dim", "keepdims", "keepdim")]
    strange += [repr(dim) for dim in flat if not _names_one(dim, known)]
    if strange:
        raise ConfigError(
            f"a reduction of {name} takes no {', '.join(strange)}",
            hint="an axis is a dimension's name, x.max('n') or x.max(axis='n')",
            field=name,
        )
    return tuple(_named(dim, known) for dim in flat if dim is not None)


def order(name: str, known: tuple[str, ...], dims: Sequence[object]) -> tuple[str, ...]:
    """The dimensions of a value that is transposed.

    Args:
        name: The value.
        known: Its dimensions.
        dims: All of them, by name or counted, in their new order; the other way round if empty.
    """
    flat = [d for one in dims for d in (one if isinstance(one, tuple | list) else (one,))]
    if any(d is None or not _names_one(d, known) for d in flat) or (
        flat and sorted(_named(dim, known) for dim in flat) != sorted(known)
    ):
        raise ConfigError(
            f"{name} has dimensions {', '.join(known)}, and is transposed to {dims}",
            hint=f"name all of them in their new order: x.transpose{tuple(reversed(known))}",
            field=name,
        )
    return tuple(_named(dim, known) for dim in flat) or known[::-1]


def _names_one(dim: object, known: Sequence[str]) -> bool:
    if isinstance(dim, int) and not isinstance(dim, bool):
        return -len(known) <= dim < len(known)
    return dim is None or isinstance(dim, str)


def _named(dim: object, known: Sequence[str]) -> str:
    return known[dim] if isinstance(dim, int) else str(dim)


def swapped_axes(x: Tensor, first: str | int, second: str | int) -> Tensor:
    """Two dimensions change places."""
    known = x.type.dims
    one, other = (_named(d, known) if _names_one(d, known) else d for d in (first, second))
    if one not in known or other not in known:
        raise ConfigError(
            f"{x.name} has dimensions {', '.join(known)}: {first!r} and {second!r} do not swap",
            hint="name two of them, or count them from 0",
            field=x.name,
        )
    return x.transpose(*({one: other, other: one}.get(dim, dim) for dim in known))


def clipped(x: Tensor, *given: Any, **options: Any) -> Tensor:
    """Not below one end, not above the other; None, or its keyword left out, is no end."""
    places = dict(zip(("low", "high"), given, strict=False))
    bounds = places | {_BOUNDS.get(key, key): value for key, value in options.items()}
    ends = len(given) + len(options)
    if not {*bounds} <= {"low", "high"} or len(bounds) < ends or (ends == 1 and places):
        raise ConfigError(
            "clip takes a value, its lower and its upper end",
            hint="np.clip(x, 0, 1), np.clip(x, 0, None), np.clip(x, min=0, max=1)",
            field="clip",
        )
    for op, bound in (("max", bounds.get("low")), ("min", bounds.get("high"))):
        x = x if bound is None else x._loop.apply(op, x, bound)
    return x


def _truth(value: Any) -> Any:
    """Whether a number is not 0; truth values as they are."""
    kind = getattr(value, "type", None)
    return value if kind is None or kind.dtype.is_bool else value != 0.0


_BOUNDS = {"a_min": "low", "min": "low", "a_max": "high", "max": "high"}
"""What NumPy calls the ends of ``clip``."""


def _method(name: str) -> Callable[..., Any]:
    return lambda x, *more, **options: getattr(x, name)(*more, **options)


def _without_nan(x: Tensor, other: float) -> Tensor:
    return x._loop.apply("select", composed.isnan(x), other, x)


def _selected(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0.0) -> Any:
    found = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        found = condition._loop.apply("select", condition, choice, found)
    return found


_REDUCTIONS = ("sum", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin")
FUNCTIONS: Mapping[str, str | Callable[..., Any]] = MappingProxyType(
    {
        "where": "select",
        "round": "round",
        "clip": clipped,
        **{name: _method(name) for name in (*_REDUCTIONS, "transpose")},
        "amax": _method("max"),
        "amin": _method("min"),
        "average": _method("mean"),
        "ptp": lambda x, *d, **o: x.max(*d, **o) - x.min(*d, **o),
        "norm": composed.norm,
        "count_nonzero": lambda x, *d, **o: _truth(x).sum(*d, **o),
        "nansum": lambda x, *d, **o: _without_nan(x, 0.0).sum(*d, **o),
        "nanmax": lambda x, *d, **o: _without_nan(x, -inf).max(*d, **o),
        "nanmin": lambda x, *d, **o: _without_nan(x, inf).min(*d, **o),
        "nan_to_num": composed.nan_to_num,
        "select": _selected,
        "dot": lambda a, b: a @ b,
        "inner": lambda a, b: a @ b,
        "outer": lambda a, b: a * b,
        "swapaxes": swapped_axes,
    }
)
"""Functions of values and dimensions, or the op that they are."""
_OPTIONS = {
    "clip": {*_BOUNDS},
    **{name: {"axis", "keepdims", "ddof", "correction"} for name in ("var", "std")},
    "nan_to_num": {"nan", "posinf", "neginf"},
    "transpose": {"axes"},
    **{name: set[str]() for name in ("where", "round", "dot", "inner", "outer", "swapaxes")},
    "select": {"default"},
}
"""What they take by keyword, where that is not ``axis`` and ``keepdims``."""
_REDUCED = {
    "add": "sum",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "any",
    "logical_and": "all",
    "logaddexp": "logsumexp",
}
"""What ``np.add.reduce`` and others are, along the first axis unless one is named."""
_INSTEAD = {
    "cumsum cumprod cummax cummin logcumsumexp accumulate add.accumulate": "run the loop along it "
    "with a tile of 1 and carry what has come so far: y = total + x; loop.store('out', y); "
    "total.becomes(y.sum('n'))",
    "sort argsort topk median quantile percentile partition": "the largest ones one after the "
    "other: i = x.argmax('n'); x = pl.where(loop.index('n') == i, -np.inf, x); else sort outside",
    "take take_along_axis gather index_select choose": "of columns, "
    "pl.where(loop.index('n') == i, x, 0.0).sum('n'); of rows, loop.indices and loop.place",
    "split chunk narrow array_split hsplit vsplit tensor_split unbind": "declare a stream for each "
    "part; a launch passes parts of one array",
    "concatenate concat stack hstack vstack cat append": "store each part as an output of its own; "
    "a launch passes parts of one array",
    "reshape view flatten ravel unflatten squeeze unsqueeze expand_dims expand broadcast_to": (
        "declare arrays with the dimensions that are needed, a launch passes views; values of "
        "other dimensions are matched by name, x * row_factor"
    ),
    "repeat tile repeat_interleave": "values are matched by name, and repeated where one has no "
    "such dimension; one element for 32 is pl.F32.per(32)",
    "flip flipud fliplr roll diff shift pad": "declare the array a second time, as another "
    "stream, and pass a view of it that begins elsewhere",
    "einsum tensordot": "a @ b sums over the dimension that both have; elsewhere (a * b).sum('k')",
    "prod": "of positive numbers np.exp(np.log(x).sum('n'))",
    "tril triu tri": "pl.where(loop.index('n') <= loop.index('m'), x, 0.0)",
    "arange linspace": "loop.index('n') is the place along a dimension",
    "zeros_like ones_like full_like zeros ones full empty": "numbers are values: 0.0 * x + 1.0",
    "backward grad detach requires_grad": "write the backward pass as a loop of its own",
    "shape size ndim dtype dims": "x.type has dims, shape, sizes and dtype; loop.size('n') is how "
    "many elements the array has",
    "item tolist numpy cpu cuda": "loop.evaluate computes the numbers",
}
"""What to write where there is no such function."""
ELEMENTS: Mapping[str, str | Callable[..., Tensor]] = MappingProxyType(
    {
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
        "matmul": lambda a, b: a @ b,
        "vecdot": lambda a, b: a @ b,
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
"""NumPy's functions of elements, by its name: the op that each is, or what it is made of."""
