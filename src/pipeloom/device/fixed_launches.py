"""Kernels that others wrote, launched as their launch file says: one grid, places of arguments.

A record of this format has arguments by offset, with a type and a shape for every buffer, and a
value for everything else; it comes from a launch file (``pipeloom check --template``). Buffers that
only others point to are ``memory``, and ``links`` are the addresses that stand inside buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .hip_errors import DeviceError
from .laid_arrays import ArrayRule
from .tensors import CODES, UNSIGNED, TensorView, contiguous

FIXED = "pipeloom-fixed-launch-1"
_KINDS = {"i": 0, "u": UNSIGNED, "f": 2}


def fixed_rules(record: Mapping[str, Any]) -> dict[str, ArrayRule]:
    """The buffers of the launch by name; kernels may write all of them."""
    return {
        one["name"]: ArrayRule(
            one["name"],
            int(one["offset"] or 0),
            one["dtype"],
            int(one["bits"]),
            tuple(f"axis {i}" for i in range(len(one["shape"]))),
            (),
            1,
            True,
            1,
        )
        for one in record["arguments"]
        if one["kind"] in ("pointer", "memory")
    }


def fixed_arguments(
    record: Mapping[str, Any], views: Mapping[str, TensorView]
) -> tuple[bytes, list[tuple[int, str, int]]]:
    """The argument buffer without addresses, and which buffer's goes where, how many bytes on."""
    placed = [a for a in record["arguments"] if a["kind"] != "memory"]
    size = max((a["offset"] + a["size"] for a in placed), default=0)
    data, places = bytearray(-(-size // 8) * 8), []
    for one in record["arguments"]:
        if one["kind"] in ("pointer", "memory"):
            _check(one, views.get(one["name"]))
        if one["kind"] == "pointer":
            places.append((int(one["offset"]), str(one["name"]), int(one.get("byte", 0))))
        elif one["kind"] == "value":
            data[one["offset"] : one["offset"] + one["size"]] = bytes.fromhex(one["hex"])
    return bytes(data), places


def linked_addresses(
    record: Mapping[str, Any], addresses: Mapping[str, int]
) -> list[tuple[str, int, int]]:
    """The addresses that stand inside buffers: in which, at which byte, and the address."""
    return [
        (name, at, 0 if to is None else addresses[to] + more + byte)
        for name, links in record.get("links", {}).items()
        for at, to, more, byte in links
    ]


def _check(one: Mapping[str, Any], view: TensorView | None) -> None:
    name, shape = one["name"], tuple(one["shape"])
    wanted = f"{one['dtype']} of {' x '.join(map(str, shape))}"
    if view is None:
        raise DeviceError(f"{name} is not given", hint=f"pass {wanted}", field=name)
    code, bits = CODES.get(one["dtype"]) or (_KINDS.get(one["dtype"][0], -1), int(one["bits"]))
    packed = shape if bits >= 8 else (*shape[:-1], shape[-1] * bits // 8)
    same = view.code in (code, UNSIGNED) and view.bits == max(bits, 8)
    if not same or view.shape != packed:
        raise DeviceError(f"{name} is {view.words}", hint=f"pass {wanted}", field=name)
    if view.strides != contiguous(packed) and max(packed, default=0) > 1:
        raise DeviceError(f"{name} has gaps", hint="pass a contiguous array", field=name)
    if not view.address:
        raise DeviceError(f"{name} is a null pointer", hint=f"pass {wanted}", field=name)
