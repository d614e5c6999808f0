"""The expressions of launch records and launch files: ``ceil(n / 256)``, ``4 * batches * m * n``.

    value_of("ceil(k / 64) * 64", {"k": 100})      # 128
    worth("1 / sqrt(d)", {"d": 64})                # Fraction(1, 8)

Numbers, names, ``+ - * / // %``, ``ceil``, ``sqrt``, ``max`` and ``min``, and nothing else: what
stands in a file is not run. Numbers are fractions; only a root is rounded.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt

from .hip_errors import DeviceError

MOST_CHARACTERS = 1000


def value_of(formula: str, sizes: Mapping[str, int]) -> int:
    """What a formula is for such sizes; ``DeviceError`` for one that is none."""
    try:
        found = worth(formula, sizes)
    except ValueError as error:
        raise DeviceError(
            f"the record says {str(formula)[:80]!r}, which is no formula: {error}",
            hint="write the kernel anew",
            field="record",
        ) from error
    except KeyError as error:
        raise DeviceError(
            f"the record says {formula!r}, and there is no {error.args[0]!r}",
            hint=f"there are {', '.join(sizes)}",
            field="record",
        ) from error
    if found.denominator != 1:
        raise DeviceError(f"{formula!r} is {found}, no whole number", field="record")
    return int(found)


def worth(formula: str, sizes: Mapping[str, int | Fraction]) -> Fraction:
    """What a formula is; ``ValueError`` says why it is none, ``KeyError`` which name is unknown."""
    try:
        return _value(_parsed(formula), sizes)
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(str(error) or "it is too deep") from error


@lru_cache(maxsize=256)
def _parsed(formula: str) -> ast.expr:
    if len(formula) > MOST_CHARACTERS:
        raise ValueError("too long")
    return ast.parse(formula, mode="eval").body


def _value(node: ast.expr, sizes: Mapping[str, int | Fraction]) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Fraction(number)
        case ast.Name(id=name):
            return Fraction(sizes[name])
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _value(left, sizes), _value(right, sizes)
            match operator:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return a / b
                case ast.FloorDiv():
                    return Fraction(a // b)
                case ast.Mod():
                    return a % b
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, sizes)
        case ast.Call(func=ast.Name(id="ceil"), args=[inner]):
            return Fraction(ceil(_value(inner, sizes)))
        case ast.Call(func=ast.Name(id="sqrt"), args=[inner]):
            return Fraction(sqrt(_value(inner, sizes)))
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[first, second]):
            a, b = _value(first, sizes), _value(second, sizes)
            return max(a, b) if name == "max" else min(a, b)
    raise ValueError(f"{ast.unparse(node)!r} is not allowed in it")
