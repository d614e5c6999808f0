"""Convolutions as products: X is read where its windows lie, and no matrix of them is made.

    rows      m counts the output's pixels (images, then height, then width), known at launch
    columns   k counts taps and channels, fixed, channels fastest: the weights as F[n, taps, c]

X is [images, h, w, c] (with depth before h in 3-D), F is [n, k], the output [m, n]: the pixels and
filters of NHWC. Windows past the image's edge read zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.checks import check_int, plain_int
from pipeloom.declare.activations import activation_for
from pipeloom.declare.loop import Loop
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BF16, F32, DType, dtype_for
from pipeloom.program.address_maps import AddressMap, address_map
from pipeloom.program.index_forms import digit

Each = int | Sequence[int]
"""One number for every dimension of the image, or one for each."""
AXES = ("d", "h", "w")
"""The image's dimensions, the last ones in 2-D."""


def window(
    channels: int, taps: Sequence[int], stride: Each, dilation: Each, pad: Each
) -> AddressMap:
    """Where a convolution finds row m and column k of its product."""
    axes = AXES[-len(taps) :]
    strides, dilations, pads = (
        _each(name, value, len(taps), least)
        for name, value, least in (
            ("stride", stride, 1),
            ("dilation", dilation, 1),
            ("pad", pad, 0),
        )
    )
    image = digit("image", "images")
    rows, columns, index = [image], [], {"images": image.form}
    for axis, count, step, apart, edge in zip(axes, taps, strides, dilations, pads, strict=True):
        pixel = digit(f"out {axis}", axis, more=2 * edge - apart * (count - 1), step=step)
        tap = digit(f"tap {axis}", count)
        rows.append(pixel)
        columns.append(tap)
        index[axis] = step * pixel + apart * tap - edge
    channel = digit("channel", channels)
    counted = {"m": tuple(rows), "k": (*columns, channel)}
    return address_map({**counted, **index, "c": channel.form})


def conv2d(
    channels: int = 64,
    m: int = 256,
    n: int = 256,
    k: int | None = None,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    taps: Each = 3,
    stride: Each = 1,
    dilation: Each = 1,
    pad: Each = 0,
    bias: bool = False,
    activation: str = "none",
    residual: bool = False,
    name: str = "conv2d",
) -> Loop:
    """out[m, n] = sum over taps and channels of X at pixel m's window, times F[n].

    m counts (image, row, column) of the output, n filters. X is [images, h, w, c], F is [n, k] with
    k = (tap row, tap column, channel); where those are no whole tiles, pad F with zero columns.

    Args:
        channels: Channels of X.
        m: Pixels of a workgroup's tile.
        n: Filters of a workgroup's tile.
        k: How many taps and channels one iteration takes; 128 bytes of them unless given, or 64
            where channels of 16 bits are no multiple of that.
        dtype: The element type of X and F.
        out: The element type of the output.
        taps: The window's rows and columns.
        stride: How far windows are apart.
        dilation: How far a window's taps are apart.
        pad: Zeros around the image, on each side.
        bias: Whether ``bias[n]`` is added.
        activation: What the sum goes through: ``none``, ``relu``, ``silu`` or ``gelu``.
        residual: Whether ``beta * residual[m, n]`` is added behind that.
        name: What pages and the kernel's symbol call it.
    """
    at = window(channels, _each("taps", taps, 2, 1), stride, dilation, pad)
    return _convolution(
        name, at, (m, n, k or _depth(channels, dtype)), dtype, out, bias, activation, residual
    )


def conv3d(
    channels: int = 64,
    m: int = 256,
    n: int = 256,
    k: int | None = None,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    taps: Each = 3,
    stride: Each = 1,
    dilation: Each = 1,
    pad: Each = 0,
    bias: bool = False,
    activation: str = "none",
    residual: bool = False,
    name: str = "conv3d",
) -> Loop:
    """The same over [images, d, h, w, c]: m counts (image, slice, row, column) of the output.

    Args:
        channels: Channels of X.
        m: Pixels of a workgroup's tile.
        n: Filters of a workgroup's tile.
        k: How many taps and channels one iteration takes; 128 bytes of them unless given, or 64
            where channels of 16 bits are no multiple of that.
        dtype: The element type of X and F.
        out: The element type of the output.
        taps: The window's slices, rows and columns.
        stride: How far windows are apart.
        dilation: How far a window's taps are apart.
        pad: Zeros around the image, on each side.
        bias: Whether ``bias[n]`` is added.
        activation: What the sum goes through: ``none``, ``relu``, ``silu`` or ``gelu``.
        residual: Whether ``beta * residual[m, n]`` is added behind that.
        name: What pages and the kernel's symbol call it.
    """
    at = window(channels, _each("taps", taps, 3, 1), stride, dilation, pad)
    return _convolution(
        name, at, (m, n, k or _depth(channels, dtype)), dtype, out, bias, activation, residual
    )


def _convolution(
    name: str,
    at: AddressMap,
    tile: tuple[int, int, int],
    dtype: DType | str,
    out: DType | str,
    bias: bool,
    activation: str,
    residual: bool,
) -> Loop:
    m, n, k = tile
    loop = Loop(name, over="k")
    x = loop.stream("X", dtype, m=m, k=k)
    loop.place("X", at)
    filters = loop.stream("F", dtype, n=n, k=k)
    total = loop.carry("sum", F32, start=0, m=m, n=n)
    total += x.staged() @ filters.staged()
    value = total + loop.resident("bias", F32, n=n) if bias else total
    value = activation_for(activation)(value)
    if residual:
        before = loop.resident("residual", out, m=m, n=n)
        before = before if dtype_for(out) == F32 else before.to(F32)
        value = value + before * loop.scalar("beta", usual=1.0)
    loop.store("out", value.to(out))
    return loop


def _depth(channels: int, dtype: DType | str) -> int:
    """The depth of a tile: 128 bytes, or 64 of 16-bit channels that are no multiple of that."""
    bits = dtype_for(dtype).bits
    wide = 8 * 128 // bits
    return wide if bits == 8 or channels % wide == 0 else wide // 2


def _each(name: str, value: Each, count: int, least: int) -> tuple[int, ...]:
    """A number for each dimension of the image."""
    given = tuple(value) if isinstance(value, Sequence) else (value,) * count
    if len(given) != count:
        raise ConfigError(
            f"{name} is {value!r}", hint=f"give one number, or {count} of them", field=name
        )
    numbers = tuple(plain_int(number) for number in given)
    for number in numbers:
        check_int("convolution", name, number, least)
    return numbers
