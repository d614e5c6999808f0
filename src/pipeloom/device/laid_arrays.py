"""Arrays by the dimensions of a kernel: which is which, and how far neighbours are apart.

A rule is what a launch record says of one pointer; an array that does not fit it is refused with
what would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .hip_errors import DeviceError
from .tensors import UNSIGNED, TensorView

HEADS = ("heads", "group")
"""Key heads, and the query heads of each: as one dimension, or as two."""
MERGED = "+".join(HEADS)


@dataclass(frozen=True, slots=True)
class ArrayRule:
    """What the record says of a pointer."""

    name: str
    offset: int
    dtype: str
    bits: int
    dims: tuple[str, ...]
    batch: tuple[str, ...]
    covers: int
    output: bool
    aligned: int
    """Bytes of which rows and the beginning are multiples."""
    derived: Mapping[str, str] = field(default_factory=dict)
    """Sizes of the kernel that follow from those of an array with dimensions of its own."""
    least: Mapping[str, int] = field(default_factory=dict)
    """The least sizes of the array's own."""
    zeros_past: tuple[str, ...] = ()
    """Derived sizes that may be more, where it reads as zero."""
    span: str = ""
    """Of such an array: elements that a block may address, by sizes and ``pitch``."""
    blocks: Mapping[str, int] = field(default_factory=dict)
    """Of a matrix that lies block by block, without gaps: what a block has along each dimension.
    The last one may be filled in part."""

    @property
    def words(self) -> str:
        """For messages."""
        order = ", ".join((*self.batch, *self.dims))
        plain = f"uint{max(self.bits, 8)}" if self.bits < 32 else self.dtype
        shared = ", two to a byte" if self.bits < 8 else ""
        return f"{self.dtype} (or its codes, {plain}{shared}), by {order}"


@dataclass(frozen=True, slots=True)
class LaidArray:
    """An array as the kernel takes it: sizes and strides by dimension, in codes."""

    rule: ArrayRule
    address: int
    sizes: Mapping[str, int]
    strides: Mapping[str, int]
    batches: int = 1
    batch_stride: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing lies anywhere, whatever the address and the strides."""
        return not self.batches or 0 in self.sizes.values()

    @property
    def row(self) -> int:
        """Codes of a row."""
        return self.sizes[self.rule.dims[-1]] if self.rule.dims else 1

    @property
    def pitch(self) -> int:
        """Codes from one row to the next."""
        if len(self.rule.dims) < 2:
            return self.row
        rows = self.rule.dims[-2]
        return self.strides[rows] if self.sizes[rows] > 1 else max(self.strides[rows], self.row)

    def misaligned(self, count: int) -> str:
        """What does not begin at multiples of so many bytes; empty where everything does."""
        if self.is_empty:
            return ""
        if self.address % count:
            return f"begins at {self.address:#x}"
        steps = {dim: self.strides[dim] for dim in self.strides if self.sizes[dim] > 1}
        for dim in self.rule.dims[-1:]:
            steps.pop(dim, None)
        steps |= {"batch": self.batch_stride} if self.batches > 1 else {}
        for dim, step in steps.items():
            if step * self.rule.bits % (8 * count):
                return f"has {step} elements of {self.rule.bits} bits from one {dim} to the next"
        return ""


def laid_array(rule: ArrayRule, view: TensorView, batched: bool) -> LaidArray:
    """An array by the dimensions of its rule."""
    pairs = _codes_per_element(rule, view)
    shape = [*view.shape]
    strides = [stride * pairs for stride in view.strides]
    dims, batches, batch_stride = _dims_of(rule, len(view.shape), batched), 1, 0
    if dims[:1] == ["batches"]:
        batches, batch_stride = shape.pop(0), strides.pop(0)
        dims = dims[1:]
    if shape and shape[-1] > 1 and view.strides[-1] != 1:
        raise DeviceError(
            f"{rule.name} has {view.strides[-1]} elements from one {dims[-1]} to the next",
            hint=f"its rows must be contiguous: {rule.words}",
            field=rule.name,
        )
    if shape:
        shape[-1] *= pairs
        strides[-1] = 1
    sizes = dict(zip(dims, shape, strict=True))
    apart = dict(zip(dims, strides, strict=True))
    sizes |= {dim: 1 for dim in rule.batch if dim not in dims and MERGED not in dims}
    apart |= {dim: 0 for dim in sizes if dim not in apart}
    one = LaidArray(rule, view.address, sizes, apart, batches, batch_stride)
    _check_strides(one)
    return one


def _check_strides(one: LaidArray) -> None:
    if one.is_empty:
        return
    rule = one.rule
    kinds = {dim: one.strides[dim] for dim in one.sizes if one.sizes[dim] > 1}
    backwards = [dim for dim, stride in kinds.items() if stride < (1 if rule.output else 0)]
    if backwards:
        raise DeviceError(
            f"{rule.name} has {kinds[backwards[0]]} elements from one {backwards[0]} to the next",
            hint="pass an array that goes forwards"
            + (", and has an element for each that is stored" if rule.output else ""),
            field=rule.name,
        )
    if len(rule.dims) > 1 and one.pitch < one.row:
        raise DeviceError(
            f"{rule.name} has rows of {one.row}, which begin every {one.pitch}",
            hint="rows may have gaps, and may not overlap",
            field=rule.name,
        )
    if rule.output:
        _check_apart(one, kinds | ({"batch": one.batch_stride} if one.batches > 1 else {}))
    if rule.blocks and one.pitch != one.row:
        raise DeviceError(
            f"{rule.name} has rows of {one.row}, which begin every {one.pitch}",
            hint="blocks lie together: pass an array without gaps",
            field=rule.name,
        )
    within = one.pitch
    for outer, inner in zip(reversed(rule.dims[:-2]), reversed(rule.dims[1:-1]), strict=True):
        within *= one.sizes[inner]
        if one.sizes[outer] > 1 and one.strides[outer] != within:
            raise DeviceError(
                f"{rule.name} has {one.strides[outer]} elements from one {outer} to the next",
                hint=f"only rows may have gaps: pass one with {within}",
                field=rule.name,
            )


def _check_apart(one: LaidArray, strides: Mapping[str, int]) -> None:
    """Every element of an output has a place of its own: whatever is further apart, is further
    than all that is nearer goes."""
    within = 1
    for dim, stride in sorted(strides.items(), key=lambda item: item[1]):
        if stride < within:
            raise DeviceError(
                f"{one.rule.name} has {within} elements for each {dim}, which begin every {stride}",
                hint="an output may have gaps, and no element twice",
                field=one.rule.name,
            )
        within += stride * (one.sizes.get(dim, one.batches) - 1)


def _codes_per_element(rule: ArrayRule, view: TensorView) -> int:
    """How many codes an element of the array is; refuses other types."""
    if view.dtype == rule.dtype:
        return view.lanes
    if view.code == UNSIGNED and view.lanes == 1 and view.bits == max(rule.bits, 8):
        return view.bits // rule.bits
    raise DeviceError(
        f"{rule.name} is {view.words}", hint=f"the kernel takes {rule.words}", field=rule.name
    )


def _dims_of(rule: ArrayRule, count: int, batched: bool) -> list[str]:
    """Which dimension each of an array's is, if it has so many."""
    whole = [*rule.batch, *rule.dims]
    if count == len(whole):
        return whole
    if batched and count == len(whole) + 1:
        return ["batches", *whole]
    if rule.batch[-2:] == HEADS and count == len(whole) - 1:
        return [*rule.batch[:-2], MERGED, *rule.dims]
    if count == len(rule.dims):
        return [*rule.dims]
    raise DeviceError(
        f"{rule.name} has {count} dimensions",
        hint=f"pass {rule.words}" + (", with or without batches before them" if batched else ""),
        field=rule.name,
    )


def output_shapes(
    rules: Mapping[str, ArrayRule], shapes: Mapping[str, tuple[int, ...]], batched: bool
) -> dict[str, tuple[int, ...]]:
    """The shape of every output, from those of inputs; sizes may be PyTorch's symbols.

    An output has a batch, and heads, as its inputs have them.
    """
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        rule = rules[name]
        if rule.covers == 1:
            dims = _dims_of(rule, len(shape), batched)
            *most, last = shape
            sizes |= zip(dims, (*most, last * max(8 // rule.bits, 1)), strict=True)
    found = {}
    for rule in rules.values():
        if rule.output:
            merged = MERGED in sizes and rule.batch[-2:] == HEADS
            batch = [*rule.batch[:-2], MERGED] if merged else [*rule.batch]
            dims = [d for d in ("batches", *batch) if d in sizes] + [*rule.dims]
            *most, last = (sizes[dim] for dim in dims)
            found[rule.name] = (*most, last // max(8 // rule.bits, 1))
    return found


def split_heads(one: LaidArray, heads: int) -> LaidArray:
    """Query heads as key heads, and those that share one."""
    count, stride = one.sizes[MERGED], one.strides[MERGED]
    if not heads or count % heads:
        raise DeviceError(
            f"{one.rule.name} has {count} query heads, for {heads} key heads",
            hint="q_heads is a multiple of kv_heads",
            field=one.rule.name,
        )
    group = count // heads
    sizes = {dim: size for dim, size in one.sizes.items() if dim != MERGED}
    strides = {dim: step for dim, step in one.strides.items() if dim != MERGED}
    return LaidArray(
        one.rule,
        one.address,
        {**sizes, HEADS[0]: heads, HEADS[1]: group},
        {**strides, HEADS[0]: stride * group, HEADS[1]: stride},
        one.batches,
        one.batch_stride,
    )
