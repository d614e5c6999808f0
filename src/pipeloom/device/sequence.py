"""What one call launches: a kernel, or with copies of operands before and a sum of slices after.

    plan = planned(record, views, scalars)
    plan.steps, plan.workspace_bytes          # kernels in order, and the memory between them

A record has ``before`` where rows may have any alignment (an operand is copied only where it needs
to be), and ``then`` where K is cut into slices. A plan depends on shapes and strides, not on
addresses (but for how they are aligned): those are filled in at every launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .contracts import KernelContract
from .fixed_launches import FIXED, fixed_arguments, fixed_rules
from .formulas import value_of
from .hip_errors import DeviceError
from .laid_arrays import ArrayRule, LaidArray
from .tensors import TensorView, contiguous

APART = 256
"""Bytes of which arrays in a workspace begin at multiples."""
WORKSPACE = "workspace"


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where an address goes: that of an array (None: of the workspace), so many bytes further."""

    offset: int
    array: str | None
    more: int = 0


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """One kernel of a call."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_lds: int
    arguments: bytes
    pointers: tuple[Pointer, ...]


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """All kernels of a call, for arrays of certain shapes."""

    steps: tuple[LaunchStep, ...]
    workspace_bytes: int
    parts: tuple[tuple[int, int], ...]
    """What lies in the workspace, copies of operands and sums: where each begins, and its bytes."""
    sizes: Mapping[str, int]


def operand_rules(record: Mapping[str, Any]) -> dict[str, ArrayRule]:
    """The arrays that a caller passes, by name, over all kernels of the record."""
    if record.get("format") == FIXED:
        return fixed_rules(record)
    found: dict[str, ArrayRule] = {}
    for one in (record, record.get("then")):
        if one is not None:
            own = {name for name, value in one.get("call", {}).items() if value == WORKSPACE}
            contract = KernelContract.of(one)
            found |= {name: rule for name, rule in contract.arrays.items() if name not in own}
            if contract.timing:
                name = str(contract.timing["pointer"])
                found[name] = ArrayRule(name, 0, "u32", 32, ("words",), (), 1, True, 4)
    return found


def scalar_names(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The numbers that a caller passes."""
    if record.get("format") == FIXED:
        return ()
    both = (KernelContract.of(one) for one in (record, record.get("then")) if one is not None)
    return tuple(dict.fromkeys(name for one in both for name in one.scalars))


def scalar_defaults(record: Mapping[str, Any]) -> dict[str, float]:
    """Those of them that a caller may leave out, and what they are then."""
    both = (one.get("scalars", {}) for one in (record, record.get("then")) if one is not None)
    return {name: float(value) for one in both for name, value in one.items()}


def planned(
    record: Mapping[str, Any], views: Mapping[str, TensorView], scalars: Mapping[str, Any]
) -> LaunchPlan:
    """The kernels of a call; ``DeviceError`` for what they cannot compute."""
    if record.get("format") == FIXED:
        return _fixed_plan(record, views)
    main, then = KernelContract.of(record), record.get("then")
    rules = operand_rules(record)
    times = main.timing.get("pointer")
    whole = replace(main, arrays={name: rule for name, rule in rules.items() if name != times})
    laid = whole.laid(views)
    lacking = [name for name in rules if name not in views]
    if lacking:
        raise DeviceError(
            f"{main.name} is not given {lacking[0]}",
            hint=f"pass {lacking[0]}, {rules[lacking[0]].words}",
            field=lacking[0],
        )
    sizes, batches = whole.sizes(laid)
    if batches != 1 and not record["batched"]:
        raise DeviceError(
            f"{main.name} computes one product, and is given {batches}",
            hint="make it with batches",
            field="batches",
        )
    maker = _Steps(sizes, batches, scalars)
    if times is not None:
        _check_timing(main, views[times], main.grid(sizes, batches))
    operands = dict(laid)
    if "before" in record and 0 not in sizes.values():
        operands |= maker.pack(record, main, laid)
    given = {name: operands[name] for name in main.arrays if name in operands}
    if then is None:
        maker.add(main, given, record)
    else:
        maker.parts(record, main, given)
        last = KernelContract.of(then)
        maker.add(last, {name: laid[name] for name in last.arrays if name in laid}, then)
    return LaunchPlan(tuple(maker.steps), maker.end, tuple(maker.reserved), sizes)


def _check_timing(contract: KernelContract, view: TensorView, grid: tuple[int, int, int]) -> None:
    """The records of a kernel that times itself have a place each."""
    needed, name = contract.timing_bytes(grid), contract.timing["pointer"]
    gaps = view.strides != contiguous(view.shape)
    if view.bytes_to_end != needed or gaps or view.address % 4 or not view.address:
        raise DeviceError(
            f"{name} has {view.bytes_to_end} bytes at {view.address:#x}",
            hint=f"{contract.name} stores {needed} bytes of times for this launch, of zeros before",
            field=str(name),
        )


def _fixed_plan(record: Mapping[str, Any], views: Mapping[str, TensorView]) -> LaunchPlan:
    arguments, places = fixed_arguments(record, views)
    pointers = tuple(Pointer(offset, name, more) for offset, name, more in places)
    (gx, gy, gz), (bx, by, bz) = record["grid"], record["block"]
    lds, name = int(record["dynamic_lds"]), str(record["kernel"])
    step = LaunchStep(name, (gx, gy, gz), (bx, by, bz), lds, arguments, pointers)
    return LaunchPlan((step,), 0, (), {})


class _Steps:
    """The launches of one call as they are made up; ``end`` is that of the workspace so far."""

    def __init__(self, sizes: Mapping[str, int], batches: int, scalars: Mapping[str, Any]) -> None:
        self.sizes, self.batches, self.scalars = dict(sizes), batches, scalars
        self.steps: list[LaunchStep] = []
        self.packed: dict[str, Pointer] = {}
        self.reserved: list[tuple[int, int]] = []
        self.end = 0
        self._parts = 0

    def parts(
        self, record: Mapping[str, Any], main: KernelContract, given: Mapping[str, LaidArray]
    ) -> None:
        """The product over slices, whose sums go to the workspace."""
        size = value_of(record["workspace"], {**self.sizes, "batches": self.batches})
        self._parts = self.reserve(size)
        self.add(main, given, record)

    def reserve(self, size: int) -> int:
        """So many bytes of the workspace: where they begin."""
        at = self.end
        self.reserved.append((at, size))
        self.end += -(-size // APART) * APART
        return at

    def pack(
        self, record: Mapping[str, Any], main: KernelContract, laid: Mapping[str, LaidArray]
    ) -> dict[str, LaidArray]:
        """Copies of the operands whose rows, or whose K, the kernel cannot take as they are."""
        told = value_of(record["call"]["k"], self.sizes)
        found = {}
        for name, copier in record["before"].items():
            one = laid[name]
            if told == self.sizes["k"] and not one.misaligned(max(one.rule.aligned, 1)):
                continue
            found[name] = self._copy(KernelContract.of(copier), copier, name, one)
        self.sizes["k"] = told
        return found

    def _copy(
        self, contract: KernelContract, record: Mapping[str, Any], name: str, one: LaidArray
    ) -> LaidArray:
        known = {**self.sizes, "batches": self.batches}
        call = {key: value_of(formula, known) for key, formula in record["call"].items()}
        unit = contract.arrays["X"].bits
        shared = unit // min(one.rule.bits, unit)
        at = self.reserve(call["bytes"])
        rows, columns = call["r"], call["c"]
        source, copied = contract.arrays["X"], contract.arrays["P"]
        sizes = {source.dims[0]: rows, source.dims[1]: columns}
        pitches = {"X": one.pitch // shared, "P": call["ld_P"]}
        strides = {"X": one.batch_stride // shared, "P": call["bs_P"]}
        laid = {
            rule.name: LaidArray(
                rule,
                APART,
                sizes,
                {rule.dims[0]: pitches[rule.name], rule.dims[1]: 1},
                one.batches,
                strides[rule.name],
            )
            for rule in (source, copied)
        }
        contract.check(sizes, laid, self.batches)
        values = contract.values(sizes, laid, self.batches, {})
        pointers = (Pointer(source.offset, name), Pointer(copied.offset, None, at))
        self._step(contract, sizes, values, pointers)
        self.packed[name] = Pointer(0, None, at + call["begin"] * unit // 8)
        high, wide = call["bs_P"] // call["ld_P"], call["ld_P"] * shared
        inner = dict(zip(one.rule.dims, (high, wide), strict=True))
        kept = {dim: min(size, inner[dim]) for dim, size in one.sizes.items()}
        return replace(
            one,
            address=APART,
            sizes=kept,
            strides={one.rule.dims[0]: wide, one.rule.dims[1]: 1},
            batch_stride=call["bs_P"] * shared,
        )

    def add(
        self, contract: KernelContract, given: Mapping[str, LaidArray], record: Mapping[str, Any]
    ) -> None:
        """A kernel with the arrays of the caller, and what its record says of the others."""
        known = {**self.sizes, "batches": self.batches}
        call = record.get("call", {})
        own = {name: value for name, value in call.items() if value != WORKSPACE}
        given = {name: one for name, one in given.items() if call.get(name) != WORKSPACE}
        more = {name: value_of(value, known) for name, value in own.items()}
        rules = contract.arrays.values()
        inner = {dim for rule in rules for dim in (*rule.dims, *rule.batch, *rule.derived)}
        sizes = {dim: more.get(dim, self.sizes.get(dim, 0)) for dim in inner}
        if 0 in contract.grid({**self.sizes, **sizes}, self.batches):
            return
        between = {
            name: _in_workspace(rule, sizes, more, self.batches)
            for name, rule in contract.arrays.items()
            if name not in given
        }
        contract.check(sizes, {**given, **between}, self.batches)
        scalars = contract.numbers(self.scalars)
        values = {**contract.values(sizes, given, self.batches, scalars), **more}
        pointers = []
        if contract.timing:
            x, y, _ = contract.grid({**self.sizes, **sizes}, self.batches)
            values |= {contract.timing["grid_x"]: x, contract.timing["grid_y"]: y}
            name = str(contract.timing["pointer"])
            places = {slot.name: slot.offset for slot in contract.slots}
            pointers.append(Pointer(places[name], name))
        for name, rule in contract.arrays.items():
            if name in given:
                place = self.packed.get(name, Pointer(0, name))
                pointers.append(replace(place, offset=rule.offset))
            else:
                pointers.append(Pointer(rule.offset, None, self._parts))
        self._step(contract, sizes, values, tuple(pointers))

    def _step(
        self,
        contract: KernelContract,
        sizes: Mapping[str, int],
        values: Mapping[str, int | float],
        pointers: tuple[Pointer, ...],
    ) -> None:
        grid = contract.grid({**self.sizes, **sizes}, self.batches)
        self.steps.append(
            LaunchStep(
                contract.name,
                grid,
                (contract.threads, 1, 1),
                0,
                bytes(contract.packed(values)),
                pointers,
            )
        )


def _in_workspace(
    rule: ArrayRule, sizes: Mapping[str, int], told: Mapping[str, int], batches: int
) -> LaidArray:
    """An array between two kernels: it begins where everything is aligned."""
    *outer, last = rule.dims
    strides, step = {last: 1}, told.get(f"ld_{rule.name}", sizes[last])
    for dim in reversed(outer):
        strides[dim] = step
        step *= sizes[dim]
    own = {dim: sizes[dim] for dim in rule.dims}
    return LaidArray(rule, APART, own, strides, batches, told.get(f"bs_{rule.name}", 0))
