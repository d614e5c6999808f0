"""Loops that jobs are about: the shipped ones by name, and those of the user's own.

    gemm_tile      one K tile of a matrix product; order, depth and buffers are derived
    gemm_bias      the same with a bias and an activation before the store
    gemm_gate      two products of one A, the one's activation times the other
    gemm_scaled    small floats, scaled per tensor or per row and column
    attention      a block of queries against one tile of keys
    softmax        of rows, each in the registers of a wave
    rms_norm       the same, with a weight by column

A shipped loop has a spec like a schedule's: its keys are set with ``--set`` or in a file. A loop of
your own (``my.py:name``) says what it is in Python, and takes a chip and a number of waves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pipeloom import declare, drive, order
from pipeloom.checks import check_int, nearest
from pipeloom.declare.loop import Loop
from pipeloom.errors import ConfigError
from pipeloom.machine.chips import ANY_CHIP, element_type, target_for
from pipeloom.machine.dtypes import DType, dtype_for, stored_as
from pipeloom.machine.target import Target
from pipeloom.program import Program

if TYPE_CHECKING:
    from pipeloom.drive.certifying import Progress
    from pipeloom.order.strategy import Strategy

WAVES = 4
SHORT = "short"
"""What marks a field of a spec as an option of the commands, too: the text says for what."""
GRIDS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {"four_wave": {"m": 2, "n": 2}, "ping_pong": {"m": 2, "n": 4}}
)
"""Waves along M and N, by the specification's kernel that has them."""
ROW_BYTES = 128
ROWS = 512
"""Of A and B together: LDS should hold two tiles of so many rows of ``ROW_BYTES`` of K."""


@dataclass(frozen=True)
class LoopSource:
    """A loop, and all that ``pipeline`` is told of it."""

    loop: Loop
    target: Target
    waves: int | Mapping[str, int] = WAVES
    options: Mapping[str, Any] = field(default_factory=dict)

    def program(
        self,
        progress: Callable[[Progress], None] | None = None,
        *,
        keep_interrupted: bool = True,
    ) -> Program:
        """Pipelined, synchronised, proved."""
        return drive.pipeline.pipeline(
            self.loop,
            self.target,
            self.waves,
            keep_interrupted=keep_interrupted,
            progress=progress,
            **self.options,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSpec:
    """The block of one workgroup; BK is what two tiles leave room for, unless given."""

    BM: int = 256
    BN: int = 256
    BK: int | None = None

    def depth_for(self, element: DType, target: Target) -> int:
        """How far along K one tile goes."""
        return self.BK or min(ROW_BYTES, target.lds_bytes // (2 * ROWS)) * 8 // element.bits


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmTileSpec:
    """Matrix product from one declared K tile: depth, buffers and order are derived.

    ``kernel`` names a grid of waves, or ``waves`` their number; ``k_tiles`` is the K it is for.
    Left to itself it is the fastest that ``derive`` finds. ``depth`` (copies of what rotates),
    ``stages`` (K tiles that overlap), ``quadrants``, ``global_latency`` and ``work_limit`` are for
    the modulo solver, which orders it if one of them is given.
    """

    kernel: str = "four_wave"
    waves: int | None = None
    arch: str = ANY_CHIP
    dtype: str = "bf16"
    out: str | None = None
    geometry: BlockSpec = BlockSpec()
    quadrants: int | None = None
    depth: int | None = None
    stages: int | None = None
    global_latency: int | None = None
    k_tiles: int | None = None
    work_limit: float | None = None

    def build(self, target: Target | None = None) -> LoopSource:
        """The loop for its chip, or for another."""
        if self.kernel not in GRIDS:
            hint = nearest(self.kernel, GRIDS)
            if self.kernel == "single_buffer":
                hint = "the schedule single_buffer stages tiles through registers; loops go to LDS"
            raise ConfigError(
                f"kernel is {self.kernel!r}, which is not a wave grid", hint=hint, field="kernel"
            )
        target, block = target or target_for(self.arch), self.geometry
        element = element_type(self.dtype, target)
        out = stored_type(self.out, self.dtype, target)
        loop = self.declare((block.BM, block.BN, block.depth_for(element, target)), element, out)
        names = ("quadrants", "depth", "stages", "global_latency", "k_tiles")
        given = {name: getattr(self, name) for name in names}
        strategy: Strategy | None = None
        if self.work_limit is not None:
            strategy = order.strategy.Exact(self.work_limit)
        return LoopSource(
            loop,
            target,
            GRIDS[self.kernel] if self.waves is None else self.waves,
            {**given, "strategy": strategy},
        )

    def declare(self, tile: tuple[int, int, int], element: DType, out: DType) -> Loop:
        """One K tile of ``tile``, which is m, n, k."""
        return declare.kernels.gemm(*tile, element, out, name="gemm_tile")


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmBiasSpec(GemmTileSpec):
    """Matrix product with a bias per column and an activation: gelu, silu, relu or none.

    The bias is loaded when the loop has ended, so the loop is that of gemm_tile.
    """

    activation: str = "gelu"
    bias: str = "f32"

    def declare(self, tile: tuple[int, int, int], element: DType, out: DType) -> Loop:
        """One K tile, and what happens to the sums."""
        return declare.kernels.gemm_bias(
            *tile, element, out, activation=self.activation, bias=self.bias
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmGateSpec(GemmTileSpec):
    """Two products of one A, the activation of the first times the second; B stands for both."""

    geometry: BlockSpec = BlockSpec(BN=128)
    activation: str = "silu"

    def declare(self, tile: tuple[int, int, int], element: DType, out: DType) -> Loop:
        """One K tile of both products."""
        return declare.kernels.gemm_gate(*tile, element, out, activation=self.activation)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmScaledSpec(GemmTileSpec):
    """Matrix product of small floats, scaled by one number (tensor) or by rows and columns."""

    dtype: str = "fp8"
    out: str | None = "bf16"
    scales: str = "tensor"

    def declare(self, tile: tuple[int, int, int], element: DType, out: DType) -> Loop:
        """One K tile, and the scales of its sums."""
        return declare.kernels.gemm_scaled(*tile, element, out, scales=self.scales)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSpec:
    """Attention forward: any numbers of queries and keys, heads in groups, causal or not.

    ``d`` is the head dimension of Q and K, ``dv`` that of V if it differs. A wave has ``rows``
    queries, an iteration takes ``keys`` keys: 64, or 32 where V is read element by element. ``lse``
    stores the logarithm of the sums too.
    """

    d: int = field(default=128, metadata={SHORT: "the head dimension"})
    dv: int | None = None
    causal: bool = field(default=False, metadata={SHORT: ""})
    lse: bool = True
    arch: str = ANY_CHIP
    dtype: str = "bf16"
    waves: int | None = None
    rows: int = 32
    keys: int | None = None

    def build(self, target: Target | None = None) -> LoopSource:
        """The loop for its chip, or for another."""
        target = target or target_for(self.arch)
        waves = 8 if self.waves is None else self.waves
        whole = any("_tr_" in name for name in target.extra_instructions)
        keys = (64 if whole else 32) if self.keys is None else self.keys
        for name, value in (("d", self.d), ("rows", self.rows), ("keys", keys), ("waves", waves)):
            check_int("attention", name, value, 1)
        loop = declare.kernels.attention(
            waves * self.rows,
            keys,
            self.d,
            self.dv,
            dtype_for(self.dtype),
            causal=self.causal,
            lse=self.lse,
        )
        return LoopSource(loop, target, {"q": waves}, {"otherwise": order.in_order.in_order})


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxSpec:
    """Softmax of rows of at most ``columns``, ``rows`` of them at a time: a wave has whole rows."""

    arch: str = ANY_CHIP
    dtype: str = "bf16"
    out: str | None = None
    columns: int = 4096
    rows: int = WAVES
    waves: int | None = None

    def build(self, target: Target | None = None) -> LoopSource:
        """The loop for its chip, or for another."""
        target = target or target_for(self.arch)
        return LoopSource(self.declare(), target, self.waves or WAVES)

    def declare(self) -> Loop:
        """``rows`` rows."""
        return declare.kernels.softmax(self.columns, self.rows, self.dtype, self.out or self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class RmsNormSpec(SoftmaxSpec):
    """RMS norm of rows of at most ``columns``, with a weight by column (f32)."""

    epsilon: float = 1e-6

    def declare(self) -> Loop:
        """``rows`` rows."""
        out = self.out or self.dtype
        return declare.kernels.rms_norm(
            self.columns, self.rows, self.dtype, out, epsilon=self.epsilon
        )


LOOPS: Mapping[str, type[GemmTileSpec | AttentionSpec | SoftmaxSpec]] = MappingProxyType(
    {
        "gemm_tile": GemmTileSpec,
        "gemm_bias": GemmBiasSpec,
        "gemm_gate": GemmGateSpec,
        "gemm_scaled": GemmScaledSpec,
        "attention": AttentionSpec,
        "softmax": SoftmaxSpec,
        "rms_norm": RmsNormSpec,
    }
)
"""The shipped loops, by name."""

SHORT_OPTIONS: Mapping[str, tuple[str, Field[Any]]] = MappingProxyType(
    {
        one.name: (name, one)
        for name, form in LOOPS.items()
        for one in fields(form)
        if SHORT in one.metadata
    }
)
"""Options that are short for a setting: which loop they are of, and the field that they set."""


def stored_type(out: str | None, dtype: str, target: Target) -> DType:
    """The type of C: as told, else the usual one."""
    return element_type(out, target) if out else stored_as(element_type(dtype, target))
