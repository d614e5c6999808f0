"""One kernel's launch record, read: which arrays fit, what is refused, the grid, the arguments.

    contract = KernelContract.of(record)                 # what `pipeloom emit` wrote
    laid = contract.laid({"A": view_of(a, "A"), ...})
    sizes, batches = contract.sizes(laid)
    contract.check(sizes, laid, batches)
    contract.packed(contract.values(sizes, laid, batches, {"scale": 0.125}))

The emulator, a launch through HIP and the libraries that ``pipeloom library`` writes all read
records here. What a kernel does not allow is refused before anything is launched.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .block_ends import BlockedEnd, with_ends
from .formulas import value_of
from .hip_errors import DeviceError
from .laid_arrays import MERGED, ArrayRule, LaidArray, laid_array, split_heads
from .tensors import CODES, TensorView

FORMAT = "pipeloom-launch-2"
MOST_ALONG = 65535
"""Workgroups along y, and along z (HIP, maxGridSize)."""
MOST_THREADS = 1 << 32
"""Work-items along x, workgroups times threads, stay below (HIP, hipModuleLaunchKernel)."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument's place in the argument buffer."""

    name: str
    offset: int
    size: int
    pointer: bool


@dataclass(frozen=True, slots=True)
class KernelContract:
    """A record of one kernel, checked once."""

    record: Mapping[str, Any]
    arrays: Mapping[str, ArrayRule]
    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> KernelContract:
        """Read what a writer recorded; ``DeviceError`` for anything else."""
        if not isinstance(record, Mapping) or record.get("format") != FORMAT:
            raise DeviceError(
                "this does not say how to launch a kernel: no record of format " + FORMAT,
                hint="emit the kernel with -o K.hsaco, which writes K.json; of others' kernels "
                "give a launch file (pipeloom check K.hsaco --template)",
                field="record",
            )
        try:
            slots = tuple(
                Slot(a["name"], int(a["offset"]), int(a["size"]), a["kind"] == "pointer")
                for a in record["arguments"]
            )
            pitches = record["pitch_bytes"]
            arrays = {
                a["name"]: ArrayRule(
                    a["name"],
                    int(a["offset"]),
                    a["dtype"],
                    int(a.get("bits") or CODES[a["dtype"]][1]),
                    tuple(a["dims"]),
                    tuple(a.get("batch", ())),
                    int(a.get("covers", 1)),
                    bool(a.get("output", a["name"] == "out")),
                    int(pitches.get(a["name"], 1)),
                    {**a.get("derived", {})},
                    {**a.get("least", {})},
                    tuple(a.get("zeros_past", ())),
                    str(a.get("span", "")),
                    {**a.get("blocks", {})},
                )
                for a in record["arguments"]
                if a["kind"] == "pointer" and a["name"] != _timing(record).get("pointer")
            }
        except (KeyError, TypeError, ValueError) as error:
            raise DeviceError(
                f"the launch record lacks {error}", hint="write the kernel anew", field="record"
            ) from error
        return cls(record, arrays, slots)

    @property
    def name(self) -> str:
        """The kernel's symbol."""
        return str(self.record["kernel"])

    @property
    def target(self) -> str:
        """The chip."""
        return str(self.record["target"])

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        return int(self.record["threads"])

    @property
    def scalars(self) -> tuple[str, ...]:
        """Arguments that are numbers of the caller's."""
        known = {f"{word}_{array}" for array in self.arrays for word in ("ld", "bs")}
        known |= {dim for rule in self.arrays.values() for dim in (*rule.dims, *rule.batch)}
        known |= {f"stride_{r.name}_{dim}" for r in self.arrays.values() for dim in r.batch}
        known |= {*self.record["tile"], "batches"}
        known |= {self.timing[key] for key in ("grid_x", "grid_y") if self.timing}
        return tuple(s.name for s in self.slots if not s.pointer and s.name not in known)

    @property
    def timing(self) -> Mapping[str, Any]:
        """Of a kernel that times itself: what it stores, and the arguments for that."""
        return _timing(self.record)

    def timing_bytes(self, grid: tuple[int, int, int]) -> int:
        """What the waves of a launch store."""
        return 4 * int(self.timing["words"]) * int(self.timing["waves"]) * math.prod(grid)

    def laid(self, views: Mapping[str, TensorView]) -> dict[str, LaidArray]:
        """Every array by its dimensions; ``DeviceError`` for another type or number of them."""
        batched = bool(self.record["batched"])
        found = {
            name: laid_array(self.arrays[name], view, batched)
            for name, view in views.items()
            if name in self.arrays
        }
        heads = next((one.sizes["heads"] for one in found.values() if "heads" in one.sizes), 0)
        for name, one in found.items():
            if MERGED in one.sizes:
                found[name] = split_heads(one, heads)
        return found

    def sizes(self, laid: Mapping[str, LaidArray]) -> tuple[dict[str, int], int]:
        """The size of every dimension, and the batches; arrays must agree on them."""
        found: dict[str, tuple[int, str]] = {}
        whole = [one for one in laid.values() if one.rule.covers == 1]
        for one in whole:
            for dim, size in one.sizes.items():
                had, where = found.setdefault(dim, (size, one.rule.name))
                if had != size:
                    raise DeviceError(
                        f"{one.rule.name} has {size} along {dim}, and {where} has {had}",
                        hint="; ".join(
                            f"{a.name} is {', '.join((*a.batch, *a.dims))}"
                            for a in self.arrays.values()
                        ),
                        field=one.rule.name,
                    )
        sizes = {dim: size for dim, (size, _) in found.items()}
        for one in laid.values():
            last, covers = "".join(one.rule.dims[-1:]), one.rule.covers
            if one.rule.blocks:
                sizes.setdefault(last, one.rule.least[last])
            if covers > 1 and one.row != -(-sizes.get(last, 0) // covers):
                raise DeviceError(
                    f"{one.rule.name} has {one.row} along {last}, one for {covers} each",
                    hint=f"{last} is {sizes.get(last)}: pass {-(-sizes.get(last, 0) // covers)}",
                    field=one.rule.name,
                )
            rows = {d: n for d, n in one.sizes.items() if d != last} if covers > 1 else {}
            for dim, size in rows.items():
                if sizes.setdefault(dim, size) != size:
                    raise DeviceError(
                        f"{one.rule.name} has {size} along {dim}, where others have {sizes[dim]}",
                        hint=f"pass {sizes[dim]} of them",
                        field=one.rule.name,
                    )
        rules = [one.rule for one in laid.values()]
        in_blocks = [rule for rule in rules if rule.blocks]
        for rule in rules:
            if not rule.blocks:
                self._derive(rule, sizes)
        sizes = with_ends(sizes, [end for rule in in_blocks for end in _ends(rule, sizes)])
        for rule in in_blocks:
            self._derive(rule, sizes)
        counts = {one.batches for one in laid.values() if one.batch_stride or one.batches != 1}
        wide = {one.batches for one in laid.values() if len(one.rule.dims) > 1}
        if len(counts) > 1 or (counts and wide - counts):
            raise DeviceError(
                "batches differ: "
                + ", ".join(f"{name} {one.batches}" for name, one in laid.items()),
                hint="every matrix has the same number of them",
                field="batches",
            )
        return sizes, counts.pop() if counts else 1

    def _derive(self, rule: ArrayRule, sizes: dict[str, int]) -> None:
        """Add the sizes that follow from an array with dimensions of its own."""
        for dim, least in rule.least.items():
            if sizes[dim] < least or (rule.blocks and sizes[dim] > least):
                raise DeviceError(
                    f"{rule.name} has {sizes[dim]} along {dim}, and {least} are read of it",
                    hint=f"pass {rule.words}",
                    field=rule.name,
                )
        for end in _ends(rule, sizes):
            dim, size = end.dim, end.whole
            had = sizes.setdefault(dim, size)
            if not end.allows(had) and not (had > size and dim in rule.zeros_past):
                raise DeviceError(
                    f"{rule.name} gives {size} along {dim}, where others have {had}",
                    hint=f"{dim} is {rule.derived[dim]}",
                    field=rule.name,
                )

    def grid(self, sizes: Mapping[str, int], batches: int = 1) -> tuple[int, int, int]:
        """Workgroups along x, y and z."""
        known = {**sizes, "batches": batches}
        x, y, z = (value_of(formula, known) for formula in self.record["grid"])
        return x, y, z

    def check(
        self, sizes: Mapping[str, int], laid: Mapping[str, LaidArray], batches: int = 1
    ) -> None:
        """Refuse what the kernel cannot compute, with what it can."""
        record = self.record
        for dim, size in sizes.items():
            most = int(record.get("most", {}).get(dim, record["size_limit"] - 1))
            least = 1 if dim in record.get("never_empty", ()) else 0
            if not least <= size <= most:
                raise DeviceError(
                    f"{self.name}: the size along {dim} is {size}",
                    hint=f"it takes {least} to {most}",
                    field=dim,
                )
            multiple = int(record["multiples"].get(dim, 1))
            if size % multiple:
                raise DeviceError(
                    f"{self.name}: the size along {dim} is {size}, but loads take {multiple} "
                    "elements at a time",
                    hint=f"pad it with zeros to {-(-size // multiple) * multiple}",
                    field=dim,
                )
        self._check_over(sizes)
        grid = self.grid(sizes, batches)
        for axis, count in zip("yz", grid[1:], strict=True):
            if count > MOST_ALONG:
                raise DeviceError(
                    f"{self.name}: the launch has {count} workgroups along {axis}",
                    hint=f"a grid has at most {MOST_ALONG} there; launch several times",
                    field="grid",
                )
        problems = math.prod(sizes[dim] for dim in record.get("batch", ()))
        if problems >= int(record.get("most_problems", 1 << 31)):
            raise DeviceError(
                f"{self.name}: the batch has {problems} problems",
                hint=f"it tells fewer than {record['most_problems']} apart; launch several times",
                field="batch",
            )
        if grid[0] * self.threads >= MOST_THREADS:
            raise DeviceError(
                f"{self.name}: the launch has {grid[0]} workgroups of {self.threads} along x",
                hint="launch several times",
                field="grid",
            )
        for one in laid.values():
            self._check_array(one, sizes)

    def _check_over(self, sizes: Mapping[str, int]) -> None:
        over, least, step = self.record["over"], self.record["k_min"], self.record["k_step"]
        size = sizes.get(over)
        if size is None:
            return
        beyond = size - least
        if beyond < 0 or (beyond % step if step else beyond):
            below = least + max(beyond, 0) // step * step if step else least
            near = f"{below} or {below + step}" if step and beyond > 0 else str(least)
            raise DeviceError(
                f"{self.name}: the size along {over} is {size}, but it takes {least}"
                + (f" + i * {step}" if step else ""),
                hint=f"pad it with zeros, or use {near}; pipeloom gemm writes products of any K",
                field=over,
            )

    def _check_array(self, one: LaidArray, sizes: Mapping[str, int]) -> None:
        rule = one.rule
        if not one.address and not one.is_empty:
            raise DeviceError(
                f"{rule.name} is a null pointer", hint=f"pass {rule.words}", field=rule.name
            )
        count = max(rule.aligned, rule.bits // 8, 1)
        wrong = one.misaligned(count)
        if wrong:
            raise DeviceError(
                f"{rule.name} {wrong}",
                hint=f"{self.name} takes rows that begin at multiples of {count} bytes: "
                "pad them, or make the kernel with a smaller --align",
                field=rule.name,
            )
        limit = int(self.record["size_limit"])
        for dim in (*rule.dims[:-1], *rule.batch):
            if one.strides[dim] >= limit and one.sizes[dim] > 1:
                raise DeviceError(
                    f"{rule.name} has {one.strides[dim]} elements from one {dim} to the next",
                    hint=f"bring them nearer: fewer than {limit}",
                    field=rule.name,
                )
        self._check_span(one, sizes)

    def _check_span(self, one: LaidArray, sizes: Mapping[str, int]) -> None:
        rule, record = one.rule, self.record
        over = str(record["over"])
        reached = over, self.reach(sizes.get(over, 0))
        if rule.span:
            span = value_of(rule.span, {**sizes, "pitch": one.pitch}) * rule.bits // 8
        elif len(rule.derived) > 1:  # rows of a matrix, by other names
            rows, columns = rule.derived
            span = block_span(
                (rule.bits, 1), (rows, columns), one.pitch, sizes, record["tile"], reached
            )
        else:
            element = rule.bits, rule.covers
            span = block_span(element, rule.dims, one.pitch, sizes, record["tile"], reached)
        turns = record.get("turns", "")
        if turns in rule.batch:  # of all of which one descriptor counts the bytes
            span += max(sizes[turns] - 1, 0) * one.strides[turns] * rule.bits // 8
        if span >= record["span_limit"]:
            raise DeviceError(
                f"{self.name}: what a block touches of {rule.name}, and its tile has past the end, "
                f"spans {span} bytes: 2 GiB or more",
                hint="split the problem, or bring rows nearer to each other",
                field=rule.name,
            )

    def reach(self, size: int) -> int:
        """How far the loop goes along its dimension for a size: whole trips."""
        return whole_trips(size, self.record["reach"]["least"], self.record["reach"]["step"])

    def numbers(self, given: Mapping[str, Any]) -> dict[str, float]:
        """A value for every scalar: the caller's, or the usual one."""
        usual, found = self.record["scalars"], {}
        low, high = self.record["positive_range"]
        for name in self.scalars:
            value = given.get(name, usual.get(name))
            if value is None or isinstance(value, bool | str) or not hasattr(value, "__float__"):
                raise DeviceError(
                    f"{self.name} needs the number {name}"
                    + ("" if value is None else f", and is given {value!r}"),
                    hint=f"pass {name}=...",
                    field=name,
                )
            found[name] = float(value)
            if name in self.record["positive"] and not low <= found[name] <= high:
                raise DeviceError(
                    f"{self.name} relies on a positive {name}, and is given {found[name]}",
                    hint=f"pass one from {low:.2g} to {high:.2g}",
                    field=name,
                )
        return found

    def values(
        self,
        sizes: Mapping[str, int],
        laid: Mapping[str, LaidArray],
        batches: int,
        scalars: Mapping[str, float],
    ) -> dict[str, int | float]:
        """Every argument but the pointers, by name."""
        found: dict[str, int | float] = {**sizes, "batches": batches, **scalars}
        for name, one in laid.items():
            found[f"ld_{name}"], found[f"bs_{name}"] = one.pitch, one.batch_stride
            found |= {f"stride_{name}_{dim}": one.strides[dim] for dim in one.rule.batch}
        return found

    @property
    def argument_bytes(self) -> int:
        """Of the argument buffer: whole pointers."""
        end = max((slot.offset + slot.size for slot in self.slots), default=0)
        return -(-end // 8) * 8

    def packed(self, values: Mapping[str, int | float]) -> bytearray:
        """The argument buffer as the kernel reads it; pointers are those in ``values``, or 0."""
        data = bytearray(self.argument_bytes)
        for slot in self.slots:
            value = values.get(slot.name, 0) if slot.pointer else values[slot.name]
            layout = "<Q" if slot.pointer else {4: "<i", 8: "<q"}[slot.size]
            layout = "<f" if isinstance(value, float) else layout
            struct.pack_into(layout, data, slot.offset, value)
        return data


def _ends(rule: ArrayRule, sizes: Mapping[str, int]) -> list[BlockedEnd]:
    """What an array with dimensions of its own says of others."""
    return [
        BlockedEnd(dim, rule.blocks.get(dim, 1), value_of(formula, sizes))
        for dim, formula in rule.derived.items()
    ]


def _timing(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return record.get("timing") or {}


def whole_trips(size: int, least: int, step: int) -> int:
    """How far a loop goes for a size: ``least``, and whole steps more where there are any."""
    return least + -(-max(size - least, 0) // step) * step if step else least


def block_span(
    element: tuple[int, int],
    dims: Sequence[str],
    pitch: int,
    sizes: Mapping[str, int],
    tile: Mapping[str, int],
    loop: tuple[str, int],
) -> int:
    """Bytes of an array between the first that a block touches and the end of what it may.

    A descriptor counts bytes in 32 bits, and an offset past the end has the highest set. The offset
    of a row past the end is below that bit: together with that of a column past the end it would
    come round to one that exists. ``element`` is its bits and how many elements it covers, ``loop``
    the dimension that the loop goes along, and how far.
    """
    (bits, covers), (over, reached) = element, loop
    tile = {**dict.fromkeys(dims, 1), **tile}

    def touched(dim: str) -> int:
        return reached if dim == over else min(sizes[dim], tile[dim])

    if not dims:
        return bits // 8
    *outer, last = dims
    span, most, stride = 0, 0, pitch * bits // 8
    for dim in reversed(outer):
        span += touched(dim) * stride
        most += (max(touched(dim), tile[dim]) - 1) * stride
        stride *= sizes[dim]
    span += -(-touched(last) // covers) * bits // 8 if last == over else 0
    most += -(-max(touched(last), tile[last]) // covers) * bits // 8
    return max(span, most)
