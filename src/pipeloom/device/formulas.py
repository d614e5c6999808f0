"""The expressions of a launch record: ``ceil(n / 256)``, ``4 * 3 * batches * m * n``.

    value_of("ceil(k / 64) * 64", {"k": 100})      # 128

Whole numbers, names, ``+ - * /``, ``ceil`` and ``max``, and nothing else: a record is a file, and
what stands in it is not run.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil

from .hip_errors import DeviceError

MOST_CHARACTERS = 1000


def value_of(formula: str, sizes: Mapping[str, int]) -> int:
    """What a formula is for such sizes; ``DeviceError`` for one that is none."""
    try:
        found = _value(_parsed(formula), sizes)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError) as error:
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


@lru_cache(maxsize=256)
def _parsed(formula: str) -> ast.expr:
    if len(formula) > MOST_CHARACTERS:
        raise ValueError("too long")
    return ast.parse(formula, mode="eval").body


def _value(node: ast.expr, sizes: Mapping[str, int]) -> Fraction:
    match node:
        case ast.Constant(value=int() as number):
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
        case ast.Call(func=ast.Name(id="ceil"), args=[inner]):
            return Fraction(ceil(_value(inner, sizes)))
        case ast.Call(func=ast.Name(id="max"), args=[first, second]):
            return max(_value(first, sizes), _value(second, sizes))
    raise ValueError(f"{ast.unparse(node)!r} is not allowed in it")
