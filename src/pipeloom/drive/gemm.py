"""``gemm_kernel``: a whole matrix product, C = op(A) @ op(B), from what a caller wants of it.

    made = gemm_kernel(GemmSpec(arch="gfx950", dtype="bf16", BM=256, BN=256))
    made.kernel.text, made.program           # assembly, and the proved program it is written from
    made.contract()                          # what k.json says: sizes, alignment, grid, arguments
    made.kernel.launch.check({"m": 1000, "n": 77, "k": 200})

Matrices are row-major. ``layout`` has a letter each for A and B: A is M x K (N) or stored as K x M
(T), B is K x N (N) or stored as N x K (T). Everything is declared as a ``Loop``, ordered by
``derive`` and proved; what a launch adds (any K, batches) is the writer's (``write.placing``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pipeloom import drive
from pipeloom.checks import check_int, check_known
from pipeloom.declare.gemm_problem import PLAIN, Finish, stored_dims
from pipeloom.declare.loop import Loop
from pipeloom.declare.products import packed, product, slices_sum
from pipeloom.drive.deriving import derive
from pipeloom.drive.loops import BlockSpec, stored_type
from pipeloom.errors import ConfigError, InternalError, OrderError
from pipeloom.judge.simulate.whole_gpu import Block
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import ANY_CHIP, element_type, target_for
from pipeloom.machine.dispatch import TileOrder
from pipeloom.machine.dtypes import BF16, F32, FP8, DType, dtype_for
from pipeloom.machine.target import LOAD_BYTES, Target
from pipeloom.order.node_tasks import lower
from pipeloom.order.patterns import structures, woven
from pipeloom.order.tasks import Lowered
from pipeloom.plain import LEFT_OUT_WHILE_USUAL, to_plain
from pipeloom.program.nodes import ALIGNMENTS, NARROW
from pipeloom.program.program import Program
from pipeloom.write import EmittedKernel, Placing, emit_program, launch_record

SIZES = ("m", "n", "k", "batches")
"""Of a matrix product."""
SUM_TILE = (8, 256)
SUM_WAVES = 4
"""Of the kernel that adds up slices: 8 elements of a lane, whole rows of lanes for a bias."""
PACK_WAVES = 4
"""Of the kernels that copy to aligned rows."""
PACK_TYPES: Mapping[int, DType] = MappingProxyType({2: BF16, 1: FP8})
"""Elements are moved, not looked at: some type of so many bytes serves all."""
LINE = 64
"""Elements that rows of a packed operand are whole multiples of, where K goes across them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmSpec(BlockSpec):
    """One kernel of a family: the block of a workgroup, its waves, and what launches may ask.

    ``finish`` is what follows the sum. ``splits`` cuts K into so many slices, each with workgroups
    of its own, whose sums go to a workspace; a second kernel adds them up in order. ``BK`` is what
    two tiles leave room for in LDS, unless given. ``any_k`` takes every K (of whole 16 bytes, 4 on
    gfx942; see ``multiples``), else only whole trips. With ``search`` the order is the fastest that
    ``derive`` finds, else the first that fits, which is proved all the same; ``short_ends`` asks
    ``derive`` for an order whose loop may be a little slower, for where loads set its time.

    ``dtype_b`` is B's type where it is not that of A: fp8 with bf8.

    Of mxfp8 and mxfp4 (gfx950) 32 elements along K share a power of two: ``blocks_A`` is M x K / 32
    and ``blocks_B`` N x K / 32 bytes of E8M0, row-major whatever the layout, with leading
    dimensions of their own and any alignment. K is whole blocks; two elements of mxfp4 share a
    byte, the first in its low half, so rows go along K: layout NT.

    ``align`` is what rows and beginnings of A and B are whole multiples of, in bytes. Of 16, loads
    go straight to LDS, 16 bytes of a lane on gfx950; of 4, 4 bytes. Less is for every array there
    is: the kernel is that of 16, and others before it copy A and B, element by element, to rows
    that are aligned.
    """

    arch: str = ANY_CHIP
    dtype: str = "bf16"
    dtype_b: str | None = None
    out: str | None = None
    layout: str = "NT"
    waves_m: int = 2
    waves_n: int = 4
    finish: Finish = PLAIN
    splits: int = 1
    align: int = 16
    any_k: bool = True
    batched: bool = False
    search: bool = True
    short_ends: bool = False
    machine: Target | None = field(default=None, metadata=LEFT_OUT_WHILE_USUAL)
    """The chip itself, where it is none that ``arch`` names alone."""

    def __post_init__(self) -> None:
        for name in ("BM", "BN", "waves_m", "waves_n", "splits"):
            check_int("gemm", name, getattr(self, name), 1)
        if self.BK is not None:
            check_int("gemm", "BK", self.BK, 1)
        check_known(self.align, ALIGNMENTS, f"gemm.align is {self.align!r}", "align")
        if self.align < self.element.bits / 8:
            raise ConfigError(
                f"gemm.align is {self.align}, less than an element of {self.element}",
                hint="arrays begin at whole elements",
                field="align",
            )
        if self.element_b.bits != self.element.bits:
            raise ConfigError(
                f"gemm.dtype_b is {self.element_b}, while A is {self.element}",
                hint="operands have one type, or are fp8 and bf8",
                field="dtype_b",
            )
        if self.blocks and self.dtype_b is not None:
            raise ConfigError(
                f"gemm.dtype_b is {self.dtype_b!r} with {self.dtype}",
                hint="operands with block scales have one type",
                field="dtype_b",
            )
        if self.element.bits < 8 and self.layout != "NT":
            raise ConfigError(
                f"gemm.layout is {self.layout!r} with {self.dtype}",
                hint="NT: elements that share a byte follow each other along K",
                field="layout",
            )
        stored_dims(self.layout)

    @property
    def target(self) -> Target:
        """The chip."""
        return self.machine or target_for(self.arch)

    @property
    def packs(self) -> bool:
        """Whether A and B are copied to aligned rows first."""
        return self.align < NARROW

    @property
    def blocks(self) -> bool:
        """Whether blocks along K have scales."""
        return dtype_for(self.dtype).scale is not None

    @property
    def element(self) -> DType:
        """Of A, without block scales."""
        return element_type(self.dtype.removeprefix("mx"), self.target)

    @property
    def element_b(self) -> DType:
        """Of B: the same, or of 8 bits like it."""
        return element_type((self.dtype_b or self.dtype).removeprefix("mx"), self.target)

    @property
    def out_element(self) -> DType:
        """Of C."""
        return stored_type(self.out, self.dtype, self.target)

    @property
    def depth(self) -> int:
        """K of a tile."""
        return self.depth_for(self.element, self.target)

    @property
    def waves(self) -> dict[str, int]:
        """Along each dimension."""
        return {"m": self.waves_m, "n": self.waves_n}

    @property
    def block(self) -> Block:
        """What the model of the whole GPU knows it by."""
        return Block(self.BM, self.BN, self.depth, self.waves_m, self.waves_n, self.short_ends)

    def loop(self) -> Loop:
        """What one K tile means; of a slice, the sum alone."""
        whole = self.splits == 1
        return product(
            self.BM,
            self.BN,
            self.depth,
            self.element,
            self.out_element if whole else F32,
            layout=self.layout,
            dtype_b=self.element_b,
            blocks=self.blocks,
            align=NARROW if self.align == NARROW else LOAD_BYTES,
            finish=self.finish if whole else PLAIN,
        )

    def rest(self) -> Loop:
        """What the second kernel does with the sums of the slices."""
        return slices_sum(*SUM_TILE, self.out_element, finish=self.finish)


@dataclass(frozen=True, slots=True)
class Packing:
    """A kernel that copies an operand, X, to aligned rows, P, with zeros before its K.

    Both operands have the zeros, so a product over them and K is that over K: the kernel that takes
    K in whole loads takes ``k`` of it, and the operand from where so many are left.
    """

    kernel: EmittedKernel
    along: bool
    """Whether rows are K, so that the zeros are in them; else zeros are rows."""
    bits: int
    """Of an element of the operand; where two share a byte, the kernel's element is that byte."""

    @property
    def unit(self) -> int:
        """Bytes of what it copies."""
        return max(self.bits // 8, 1)

    def record(self, rows: str, columns: str, k: str) -> dict[str, Any]:
        """How to launch it for a matrix of such sizes, with ``k`` zeros and elements along K.

        Sizes, leading dimensions and strides are in elements of the kernel (``unit`` bytes), so is
        ``begin``: where in P the product's operand begins.
        """
        launch = self.kernel.launch
        shared = f" / {8 // self.bits}" if self.bits < 8 else ""
        least, step = launch.least, launch.step
        size = f"k{shared}" if self.along else "k"
        reach = f"({least} + {step} * ceil(max({size} - {least}, 0) / {step}))"
        pitch = reach if self.along else f"ceil({columns} / {LINE}) * {LINE}"
        high = rows if self.along else reach
        before = f"({reach} - {k}{shared if self.along else ''})"
        return {
            **launch_record(self.kernel),
            "along": self.along,
            "line": LINE,
            "call": {
                "r": rows,
                "c": f"{columns}{shared}",
                "ld_P": pitch,
                "bs_P": f"{high} * {pitch}",
                "begin": before if self.along else f"{before} * {pitch}",
                "bytes": f"{self.unit} * batches * {high} * {pitch}",
            },
        }


@dataclass(frozen=True, slots=True)
class Gemm:
    """A kernel and the proved program that it is written from, and what runs before and after.

    ``before`` packs an operand, by its name; ``then`` adds up slices of K.
    """

    spec: GemmSpec
    program: Program
    kernel: EmittedKernel
    before: Mapping[str, Packing] = field(default_factory=dict)
    then: EmittedKernel | None = None

    @property
    def kernels(self) -> tuple[EmittedKernel, ...]:
        """All, each once: the product's, what packs operands, what adds up slices."""
        packing = (one.kernel for one in self.before.values())
        found = (self.kernel, *packing, *(() if self.then is None else (self.then,)))
        return tuple({kernel.name: kernel for kernel in found}.values())

    def shape(self, operand: str, m: int, n: int, k: int) -> tuple[int, int]:
        """Rows and columns of A or B as it lies in memory."""
        sizes, (rows, columns) = {"m": m, "n": n, "k": k}, stored_dims(self.spec.layout)[operand]
        return sizes[rows], sizes[columns]

    def contract(self) -> dict[str, Any]:
        """All that a caller must know, as plain data."""
        plain = replace(self.spec.finish, alpha=False) == PLAIN and not self.spec.blocks
        record = {**launch_record(self.kernel), "layout": self.spec.layout, "product": plain}
        if self.then is not None:
            splits = self.spec.splits
            record["workspace"] = f"4 * {splits} * batches * m * n"
            record["call"] = {"out": "workspace", "ld_out": "n", "bs_out": "m * n"}
            sums = {"P": "workspace", "ld_P": "n", "bs_P": f"{splits} * m * n", "s": str(splits)}
            record["then"] = {**launch_record(self.then), "call": sums}
        if self.before:
            multiple = self.kernel.launch.multiples.get("k", 1)
            told = f"ceil(k / {multiple}) * {multiple}"
            record["call"] = {**record.get("call", {}), "k": told}
            dims = stored_dims(self.spec.layout)
            record["before"] = {
                name: one.record(*dims[name], told) for name, one in self.before.items()
            }
        return record


def gemm_kernel(spec: GemmSpec, *, timed: bool = False) -> Gemm:
    """The kernel of a spec; raises ``ConfigError``, ``OrderError`` or ``EmitError`` by name.

    A ``timed`` one stores when its waves began, looped and ended; what runs before and after does
    not.
    """
    program = gemm_program(spec)
    name, whole = kernel_name(spec), spec.splits == 1
    kernel = emit_program(program, name=name, placing=placing_of(spec), timed=timed)
    before = packings(spec) if spec.packs else {}
    then = None
    if not whole:
        rest = drive.pipeline.pipeline(
            spec.rest(), spec.target, {"m": SUM_WAVES}, k_tiles=spec.splits
        )
        placing = Placing(batched=True, unless=_unless_zero(spec))
        then = emit_program(rest, name=f"{name}_sum", placing=placing)
    return Gemm(spec, program, kernel, before, then)


def placing_of(spec: GemmSpec) -> Placing:
    """What launches of its kernel may ask."""
    whole = spec.splits == 1
    read = ["A", "B", *(["blocks_A", "blocks_B"] if spec.blocks else [])]
    operands = [(operand, "alpha") for operand in read] if spec.finish.alpha and whole else []
    return Placing(
        ragged=spec.any_k or not whole or spec.packs,
        batched=spec.batched,
        slices=spec.splits,
        unless=(*operands, *(_unless_zero(spec) if whole else ())),
        order=TileOrder.of(spec.target, spec.BM, spec.BN),
    )


def _unless_zero(spec: GemmSpec) -> tuple[tuple[str, str], ...]:
    """C is read unless beta is 0."""
    return (("C", "beta"),) if spec.finish.beta else ()


def least_align(spec: GemmSpec) -> int:
    """The alignment of every array of its elements there is."""
    return max(spec.element.bits // 8, 1)


def packings(spec: GemmSpec) -> dict[str, Packing]:
    """What copies A, and B, to aligned rows; the same for all kernels of a type and a layout."""
    bits = spec.element.bits
    unit = max(bits // 8, 1)
    made: dict[bool, Packing] = {}
    goes_along = {name: columns == "k" for name, (_, columns) in stored_dims(spec.layout).items()}
    for along in dict.fromkeys(goes_along.values()):
        # Rows of zeros come in as many as the elements that a load takes along K.
        tile = (32, 64) if along else (LOAD_BYTES // unit, 2048 * unit // LOAD_BYTES)
        loop = packed(PACK_TYPES[unit], *tile, along=along)
        program = drive.pipeline.pipeline(loop, spec.target, {"r" if along else "c": PACK_WAVES})
        name = f"gemm_pack_{'columns' if along else 'rows'}_{8 * unit}"
        kernel = emit_program(program, name=name, placing=Placing(ragged=True, batched=True))
        made[along] = Packing(kernel, along, bits)
    return {operand: made[along] for operand, along in goes_along.items()}


def gemm_program(spec: GemmSpec) -> Program:
    """Ordered and proved."""
    loop = spec.loop()
    if spec.search:
        # What follows the sum changes no iteration: one search serves all of them.
        plain = replace(spec, splits=1, finish=PLAIN)
        like = plain.loop() if plain != spec else None
        derived = derive(
            loop,
            spec.target,
            spec.waves,
            like=like,
            short_ends=spec.short_ends,
            keep_interrupted=False,
        )
        if derived is not None:
            return derived.program
    return first_program(loop, spec.target, spec.waves)


def first_program(loop: Loop, target: Target, waves: dict[str, int]) -> Program:
    """The first order that fits, proved; seconds, where a search for the fastest takes minutes."""
    program = first_order(lower(loop.meaning, target, loop.ops, loop.staged, waves))
    verdict = verify(program, ops=loop.ops)
    if not verdict.proved:
        raise InternalError(f"the first order is a wrong program: {verdict.summary()}")
    return program


def first_order(lowered: Lowered) -> Program:
    """The first order that fits, not proved; some hundredths of a second."""
    fault: OrderError | None = None
    for pattern in structures(lowered):
        try:
            return woven(lowered, pattern)
        except OrderError as error:
            fault = fault or error
    raise fault or OrderError(f"{lowered.meaning.name} has no order", hint="use other waves")


def kernel_name(spec: GemmSpec) -> str:
    """The kernel's symbol: what tells two kernels of one library apart."""
    spec = replace(spec, search=True)
    parts = [
        "gemm",
        spec.layout.lower(),
        spec.dtype if spec.blocks else spec.element.name,
        *([spec.element_b.name] if spec.element_b != spec.element else []),
        spec.out_element.name,
        f"{spec.BM}x{spec.BN}x{spec.depth}",
        f"w{spec.waves_m}x{spec.waves_n}",
    ]
    parts += ["short"] if spec.short_ends else []
    finish = spec.finish
    parts += [n for n in ("alpha", "beta", "scales", "bias") if getattr(finish, n)]
    parts += [] if finish.activation == "none" else [finish.activation]
    parts += [f"k{spec.splits}"] if spec.splits > 1 else []
    parts += [f"align{spec.align}"] if spec.align == NARROW else []
    parts += ["anyk"] if spec.any_k or spec.packs else []
    parts += ["batched"] if spec.batched else []
    return "_".join(parts)


def gemm_made_from(spec: GemmSpec, sizes: Mapping[str, int]) -> dict[str, Any]:
    """What a record beside a code object says of it."""
    return {"gemm": to_plain(spec), "sizes": {dim: sizes[dim] for dim in SIZES}}
