"""What is a method elsewhere: ``x.exp()``, ``x.clamp(min=0)``, ``x.float()``, ``x.softmax("n")``.

NumPy's functions of elements by its names, PyTorch's by theirs, and the ops of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial, wraps
from inspect import Parameter, signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pipeloom.declare import composed, numpy_names
from pipeloom.errors import ConfigError, UnknownMemberError
from pipeloom.machine.dtypes import BF16, BOOL, F32, FP16, I32, dtype_for

if TYPE_CHECKING:
    from pipeloom.declare.tensor import Tensor

Method = TypeVar("Method", bound=Callable[..., Any])


def found(value: Tensor, name: str) -> Callable[..., Any]:
    """The method of a value; raises for what none has.

    Args:
        value: The value.
        name: What it is called.
    """
    known = value._loop.ops
    function = _METHODS.get(name) or numpy_names.ELEMENTS.get(name)
    if function is None and name in known and known[name].reduce is None:
        function = name
    function = function or numpy_names.FUNCTIONS.get(name)
    if function is None:
        raise UnknownMemberError(
            f"a value of a loop has no {name}", hint=_instead(value, name), field=name
        )
    if isinstance(function, str):
        function = partial(_op, function)
    return partial(_called, name, function, value)


def _instead(value: Tensor, name: str) -> str:
    """A value's own methods first: most of what is not found is one of them, misspelt."""
    own = [one for one in (*dir(type(value)), *_METHODS) if not one.startswith("_")]
    close = get_close_matches(name, own, n=1, cutoff=0.7)
    return f"did you mean {close[0]!r}?" if close else numpy_names.instead(name)


def checked(method: Method) -> Method:
    """A method that says what it takes where it is called with something else.

    Args:
        method: The method as it is written.
    """

    @wraps(method)
    def called(x: Tensor, *given: Any, **options: Any) -> Any:
        return _called(method.__name__, method, x, *given, **options)

    return cast("Method", called)


def _called(name: str, function: Callable[..., Any], /, *given: Any, **options: Any) -> Any:
    try:
        return function(*given, **options)
    except TypeError as error:
        takes = signature(function)
        try:
            takes.bind(*given, **options)
        except TypeError as wrong:
            known = [*takes.parameters.values()][1:]
            listed = ", ".join(str(one.replace(annotation=Parameter.empty)) for one in known)
            raise ConfigError(
                f"{name} of a value: {wrong}", hint=f"it is called x.{name}({listed})", field=name
            ) from error
        raise


def _op(op: str, x: Tensor, *operands: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    return x._loop.apply(op, x, *operands, dtype=dtype, name=name)


def as_type(x: Tensor, dtype: object) -> Tensor:
    """Converted as NumPy and PyTorch do: to whole numbers towards 0, where ``to`` rounds."""
    to = dtype_for(dtype)
    if to.is_bool:
        return x if x.type.dtype.is_bool else x != 0.0
    whole = to.is_integer and not x.type.dtype.is_integer
    return (x._loop.apply("trunc", x) if whole else x).to(to)


def softmax(x: Tensor, *dims: Any, **options: Any) -> Tensor:
    """Exponentials over their sum."""
    e = composed.exp(x - x.max(*dims, **options))
    return e / e.sum(*dims, **options)


_METHODS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "float": lambda x: x.to(F32),
        "half": lambda x: x.to(FP16),
        "bfloat16": lambda x: x.to(BF16),
        "int": lambda x: as_type(x, I32),
        "bool": lambda x: as_type(x, BOOL),
        "astype": as_type,
        "abs": abs,
        "pow": lambda x, power: x**power,
        "neg": lambda x: -x,
        "add": lambda x, other: x + other,
        "sub": lambda x, other: x - other,
        "mul": lambda x, other: x * other,
        "div": lambda x, other: x / other,
        **{name: lambda x, other: x @ other for name in ("mm", "bmm")},
        "relu": lambda x: x._loop.apply("max", x, 0.0),
        "sigmoid": composed.sigmoid,
        "silu": composed.silu,
        "gelu": composed.gelu,
        "erf": composed.erf,
        "clamp": numpy_names.clipped,
        "clamp_min": lambda x, low: x._loop.apply("max", x, low),
        "clamp_max": lambda x, high: x._loop.apply("min", x, high),
        "masked_fill": lambda x, mask, value: x._loop.apply("select", mask, value, x),
        "where": lambda x, condition, other: x._loop.apply("select", condition, x, other),
        "logsumexp": composed.log_sum_exp,
        "softmax": softmax,
        "log_softmax": lambda x, *d, **o: x - composed.log_sum_exp(x, *d, **o),
        "t": lambda x: x.T,
        "permute": lambda x, *dims: x.transpose(*dims),
        "contiguous": lambda x: x,
        "copy": lambda x: x,
        "clone": lambda x: x,
    }
)
"""Methods that are no functions of NumPy."""
