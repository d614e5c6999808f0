"""Launch files with names for their sizes, before they are read: every expression becomes a number.

    {"sizes": {"M": 256, "K": 64}, "grid": ["ceil(M / 128)"], "args": [
       {"is": "buffer", "name": "A", "offset": 0, "shape": ["M", "K"], "type": "bf16"},
       {"is": "value", "name": "strideA", "offset": 8, "type": "i32", "value": "2 * K"},
       {"is": "struct", "offset": 16, "layout": "args.h:Args", "fields": {"m": "M", "a": "A"}}]}

Where a number is wanted, a text is an expression of sizes (``device.formulas``: nothing is run).
Numbers in nested lists are laid out one after the other, and a struct becomes its fields. A header
is read from the launch file's folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from pipeloom.checks import check_known, nearest
from pipeloom.device.formulas import worth
from pipeloom.errors import SpecError
from pipeloom.machine_code.c_structs import StructField, header_layout

MOST_NESTED = 8
_CONTENT = ("values", "file", "cumulative")
_WHOLE = ("grid", "block", "dynamic_lds", "shape", "cumulative", "byte", "seed", "at")
"""What is a whole number, or a list of them."""
_NUMBERS = (*_WHOLE, "value", "low", "high")


def resolved(data: object, sizes: Mapping[str, int | str], folder: Path, name: str) -> object:
    """Plain data without sizes and expressions; what is wrong otherwise is left to the reader."""
    if not isinstance(data, Mapping):
        return data
    known = _sizes(data.get("sizes", {}), sizes, name)
    found = _worked_out({k: v for k, v in data.items() if k != "sizes"}, known)
    if isinstance(found.get("args"), list):
        found["args"] = [
            row
            for at, one in enumerate(found["args"])
            for row in _rows(one, known, folder, f"args[{at}]")
        ]
    return found


def _sizes(listed: object, given: Mapping[str, int | str], name: str) -> dict[str, Fraction]:
    """Each size, from those before it; what is given from outside comes first."""
    if not isinstance(listed, Mapping):
        raise SpecError(
            f"sizes of {name} is {str(listed)[:60]}, but must be a mapping",
            hint='write {"M": 256, "N": "2 * M"}',
            field="sizes",
        )
    for one in given:
        if one not in listed:
            raise SpecError(
                f"{name} has no size {one!r}",
                hint=nearest(one, listed) if listed else "it names no sizes",
                field="sizes",
            )
    known: dict[str, Fraction] = {}
    for key, value in listed.items():
        found = _number(given.get(key, value), known, f"sizes.{key}")
        if found is None:
            raise SpecError(
                f"size {key} is not given",
                hint=f"fill it in, or say --sizes {key}=...",
                field=f"sizes.{key}",
            )
        if not isinstance(found, Fraction):
            raise SpecError(
                f"sizes.{key} is {str(value)[:60]!r}", hint="give a number", field=f"sizes.{key}"
            )
        known[str(key)] = found
    return known


def _number(value: object, known: Mapping[str, Fraction], where: str) -> object:
    """The number that an expression gives; anything but a number or an expression as it is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if not isinstance(value, str):
        return value
    try:
        return worth(value, known)
    except KeyError as error:
        raise SpecError(
            f"{where} is {value[:80]!r}, and there is no size {error.args[0]!r}",
            hint=nearest(str(error.args[0]), known) if known else 'name it under "sizes"',
            field=where,
        ) from error
    except ValueError as error:
        raise SpecError(
            f"{where} is {value[:80]!r}, which is no expression: {error}",
            hint="numbers, names of sizes, + - * / // %, ceil, sqrt, max and min",
            field=where,
        ) from error


def _numbers(value: object, known: Mapping[str, Fraction], where: str, whole: bool) -> object:
    """A number, or each of a list: an int where it is whole, else a float."""
    if isinstance(value, list):
        return [_numbers(one, known, f"{where}[{at}]", whole) for at, one in enumerate(value)]
    found = _number(value, known, where)
    if not isinstance(found, Fraction):
        return found
    if found.denominator == 1:
        return int(found)
    if whole:
        raise SpecError(
            f"{where} is {value!r}: {float(found)}, no whole number",
            hint="use ceil() or //",
            field=where,
        )
    return float(found)


def _worked_out(
    row: Mapping[str, Any], known: Mapping[str, Fraction], where: str = ""
) -> dict[str, Any]:
    """A mapping with numbers under all keys that stand for some."""
    numbers = {
        key: _numbers(value, known, f"{where}{key}", key in _WHOLE)
        for key, value in row.items()
        if key in _NUMBERS
    }
    return {**row, **numbers}


def _rows(row: object, known: Mapping[str, Fraction], folder: Path, where: str) -> Iterator[object]:
    if not isinstance(row, Mapping):
        yield row
        return
    match row.get("is"):
        case "buffer":
            yield _buffer(_worked_out(row, known, f"{where}."), known, folder, where)
        case "value":
            yield _worked_out(row, known, f"{where}.")
        case "struct":
            for inner in _struct(row, known, folder, where):
                yield from _rows(inner, known, folder, f"{where}.{inner['name']}")
        case _:
            yield row


def _buffer(
    row: dict[str, Any], known: Mapping[str, Fraction], folder: Path, where: str
) -> dict[str, Any]:
    given = next((key for key in _CONTENT if row.get(key) is not None), None)
    if given is not None and "fill" in row:
        raise SpecError(
            f"{where} has both {given} and fill", hint="give one of them", field=f"{where}.fill"
        )
    if isinstance(row.get("values"), list):
        flat, shape = _flat(row["values"], known, f"{where}.values")
        row["values"] = flat
        if len(shape) > 1:
            row.setdefault("shape", shape)
    if isinstance(row.get("file"), str):
        row["file"] = str(beside(folder, row["file"], f"{where}.file"))
    if isinstance(row.get("pointers"), list):
        row["pointers"] = [_link(one, known, f"{where}.pointers") for one in row["pointers"]]
    return row


def _link(one: object, known: Mapping[str, Fraction], where: str) -> object:
    """``"A"`` and null in short, else a mapping."""
    if one is None or isinstance(one, str):
        return {"to": one}
    if not isinstance(one, Mapping):
        return one
    return _worked_out(one, known, f"{where}.")


def _flat(
    values: list[Any], known: Mapping[str, Fraction], where: str, depth: int = 0
) -> tuple[list[object], list[int]]:
    """The numbers of nested lists, and their shape."""
    if not values or depth == MOST_NESTED:
        raise SpecError(
            f"{where} is an empty list" if not values else f"{where} is nested too deeply",
            hint=f"give numbers, in lists at most {MOST_NESTED} deep",
            field=where,
        )
    if not any(isinstance(one, list) for one in values):
        found = [
            _numbers(one, known, f"{where}[{at}]", whole=False) for at, one in enumerate(values)
        ]
        return found, [len(values)]
    parts = [
        _flat(one if isinstance(one, list) else [one], known, f"{where}[{at}]", depth + 1)
        for at, one in enumerate(values)
    ]
    shapes = [shape for _, shape in parts]
    if any(shape != shapes[0] for shape in shapes) or not all(isinstance(v, list) for v in values):
        raise SpecError(
            f"{where} has lists of several lengths", hint="give rows of one length", field=where
        )
    return [number for numbers, _ in parts for number in numbers], [len(values), *shapes[0]]


def beside(folder: Path, name: str, where: str) -> Path:
    """A file of the launch file's folder: a launch file of a stranger reaches no other."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise SpecError(
            f"{where} is {name!r}, which lies elsewhere",
            hint="a launch file names files of its own folder, and of folders in it",
            field=where,
        )
    return folder / name


def _struct(
    row: Mapping[str, Any], known: Mapping[str, Fraction], folder: Path, where: str
) -> Iterator[dict[str, Any]]:
    """The fields of a struct as arguments, each at its offset."""
    for key in row:
        if key != "is":
            known_keys = ("name", "offset", "layout", "fields")
            said = f"{where} has no key {key!r}"
            check_known(key, known_keys, said, f"{where}.{key}", SpecError)
    begin = _numbers(row.get("offset"), known, f"{where}.offset", whole=True)
    layout, given = row.get("layout"), row.get("fields")
    if type(begin) is not int or not isinstance(layout, str) or not isinstance(given, Mapping):
        raise SpecError(
            f"{where} is a struct and lacks its offset, layout or fields",
            hint='write "offset": 0, "layout": "args.h:Args", "fields": {...}',
            field=where,
        )
    header, _, struct = layout.partition(":")
    fields = header_layout(f"{beside(folder, header, where)}:{struct}")
    names = sorted({one.path for one in fields})
    for name in given:
        said = f"{layout} has no field {name!r}"
        check_known(name, names, said, f"{where}.fields.{name}", SpecError)
    for one in fields:
        if one.path in given:
            yield field_row(one, given[one.path], begin, where)
        elif not one.is_padding:
            raise SpecError(
                f"{where} does not say what {one.path} of {layout} is",
                hint=f"add it to fields: {one.words}",
                field=f"{where}.fields",
            )


def field_row(one: StructField, value: object, begin: int, where: str) -> dict[str, Any]:
    """A field as an argument of its own."""
    place = {"name": one.path, "offset": begin + one.offset}
    if one.type == "pointer":
        if value is None:
            return {"is": "value", **place, "type": "u64", "value": 0}
        if isinstance(value, str):
            return {"is": "buffer", **place, "same_as": value}
        if isinstance(value, Mapping):
            return {"is": "buffer", **place, **value}
        raise SpecError(
            f"{where}.{one.path} is a pointer, and {str(value)[:60]} is none",
            hint='name a buffer, describe one ({"shape": [...], "type": "bf16"}), or say null',
            field=f"{where}.fields.{one.path}",
        )
    if one.type == "bytes":
        return {"is": "bytes", **place, "hex": value}
    return {"is": "value", **place, "type": one.type, "value": value}
