"""The vocabulary: what an op computes, and which instructions do it.

Every op is one shape of thing: an elementwise function of operands aligned by the names of their
dimensions, then a reduction over the dimensions that the result lacks.

    name     function        reduce    operands                       result
    matmul   a * b           ADD       A(m, k), B(n, k)               C(m, n)
    sum      a               ADD       P(q, keys)                     l(q)
    sub      a - b           -         S(q, keys), m(q)               (q, keys)
    exp2     2 ** a          -         S(q, keys)                     (q, keys)

Because of that, which part of an operand some part of the work needs follows from names alone, an
op evaluates itself in NumPy, and a part of a reduction can be computed by itself and combined.

An op of your own is one ``OpDef``, with the vector instructions that compute it on one register
(``{d}`` the result, ``{0}``, ``{1}`` the operands, ``{t}`` a scratch register):

    relu = OpDef("acme.relu", 1, lambda a: np.maximum(a, 0), lowering=("v_max_f32 {d}, 0, {0}",))
    words = VOCABULARY.extended(relu)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.checks import nearest
from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import CDNA
from pipeloom.machine.mnemonics import is_transcendental
from pipeloom.program.combining import InBlocks as InBlocks
from pipeloom.program.combining import Reduce as Reduce


@dataclass(frozen=True, slots=True)
class Lowering:
    """The instructions that compute an op on one register, of one instruction set."""

    instructions: tuple[str, ...]
    """As templates; see ``OpDef.lowering``."""
    isa: str = CDNA
    """The instruction set, as ``Target.isa`` names it."""
    slow: int = 0
    """How many of them are of the unit for transcendental functions; the others are plain."""


@dataclass(frozen=True, slots=True)
class OpDef:
    """One op: a NumPy function of aligned arrays, an optional reduction, and the instructions that
    compute it.
    """

    name: str
    """What declarations call it. Give an op of your own a name of its own, such as
    ``acme.relu``."""
    arity: int
    """How many operands it takes."""
    function: Callable[..., Array]
    """The NumPy function of operands aligned by dimension: what judges compare with."""
    reduce: Reduce | None = None
    """How it combines the dimensions that the result lacks; None for an op that works element by
    element."""
    lowering: tuple[str, ...] | tuple[Lowering, ...] = ()
    """The instructions for one 32-bit register of each lane, as templates: ``{d}`` the result,
    ``{0}``, ``{1}`` the operands, ``{t}`` a scratch register. Of an op with a reduction, those for
    a term, if it is not summed as it is. Without any, the writer must know the op (matmul) or
    refuses it. Instructions alone are CDNA's; a ``Lowering`` for each says whose they are."""
    bool_result: bool = False
    """Whether the result is a truth value: 1.0 or 0."""
    exact: bool = False
    """Whether results of small whole numbers are exact, in any order. Trials then compare bit for
    bit."""
    propagates: bool = False
    """Whether the result is NaN wherever an operand is."""
    takes_truth: bool = False
    """Whether the first operand must be a truth value."""
    keeps_truth: bool = False
    """Whether it gives truth values of truth values."""
    commutes: bool = False
    """Whether two operands may change places."""
    masks: bool = False
    """Whether it is the first operand where the second (what is left) is at least the third, or 1,
    and a constant elsewhere."""
    integers: bool = False
    """Whether operands and result are i32, of which it sees all 32 bits."""
    turns: bool = False
    """Whether its most or least may lie between the ends of what an operand may be, and not at
    zero, as that of a cosine. Comparisons then allow for all that it gives of such operands."""

    in_blocks: InBlocks | None = None
    """What it does with the elements of a block along a dimension; None for all other ops."""

    @property
    def rounded(self) -> bool:
        """Whether results may be off by an error of its own; what a mask keeps is as it was."""
        return not (self.exact or self.masks)

    def lowered(self, isa: str = CDNA) -> Lowering | None:
        """The instructions of an instruction set, None where it has none.

        Args:
            isa: The instruction set, as ``Target.isa`` names it.
        """
        for one in self.lowering:
            if isinstance(one, Lowering) and one.isa == isa:
                return one
        lines = tuple(one for one in self.lowering if isinstance(one, str))
        if isa != CDNA or not lines:
            return None
        return Lowering(lines, slow=sum(is_transcendental(line.split()[0]) for line in lines))

    def apply(
        self,
        *operands: Array,
        over: tuple[int, ...] = (),
        within: tuple[int, int] | None = None,
    ) -> Array:
        """The function of aligned arrays, reduced over the axes ``over``.

        Args:
            *operands: Arrays, aligned and broadcast like NumPy's.
            over: The axes to reduce.
            within: The axis along which blocks lie, and their size, of an op within blocks.
        """
        if self.name == "matmul":
            return _contract(operands[0], operands[1], over)
        if self.name == "scaled_matmul":
            a, b, scale_a, scale_b = operands
            return _contract(a * scale_a, b * scale_b, over)
        result = self.function(*operands)
        if self.in_blocks is not None and within is not None:
            result = self.in_blocks.apply(result, *within)
        for axis in sorted(over, reverse=True):
            assert self.reduce is not None
            result = self.reduce.ufunc.reduce(result, axis=axis)
        return result


PLANNED = 4096
"""Elements of two operands from which on NumPy is asked for the best way to multiply them."""


def _contract(a: Array, b: Array, over: tuple[int, ...]) -> Array:
    """A product summed over axes, without the full outer product in memory."""
    axes = list(range(a.ndim))
    left = [i for i in axes if a.shape[i] > 1 or b.shape[i] == 1]
    right = [i for i in axes if b.shape[i] > 1 or a.shape[i] == 1]
    keep = [i for i in axes if i not in over]
    drop_a = tuple(i for i in axes if i not in left)
    drop_b = tuple(i for i in axes if i not in right)
    planned = a.size + b.size > PLANNED  # below, looking for the best way takes longer than the sum
    result: Array = np.einsum(
        a.squeeze(drop_a), left, b.squeeze(drop_b), right, keep, optimize=planned
    )
    return result


@dataclass(frozen=True)
class Vocabulary:
    """The ops that a judge or writer knows, by name.

    It is immutable: ``extended`` gives another one.
    """

    ops: Mapping[str, OpDef]
    """The ops by name."""

    def __getitem__(self, name: str) -> OpDef:
        found = self.ops.get(name)
        if found is None:
            raise ConfigError(
                f"op {name!r} is not in the vocabulary",
                hint=f"pass ops=VOCABULARY.extended(...) with its OpDef; {nearest(name, self.ops)}",
                field="op",
            )
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.ops

    def get(self, name: str) -> OpDef | None:
        """The op of a name, None where there is none.

        Args:
            name: The op's name.
        """
        return self.ops.get(name)

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self.ops)} ops>"

    def __iter__(self) -> Iterator[OpDef]:
        return iter(self.ops.values())

    def extended(self, *ops: OpDef) -> Vocabulary:
        """With more ops; a name that exists must mean the same op.

        Args:
            *ops: The ops to add.
        """
        table = dict(self.ops)
        for op in ops:
            if table.get(op.name, op) != op:
                raise ConfigError(
                    f"op {op.name!r} is defined twice, differently",
                    hint="give an op of your own a name of its own, such as acme.relu",
                    field="op",
                )
            table[op.name] = op
        return Vocabulary(MappingProxyType(table))


SMALLEST = 2.0**-126
"""The smallest normal f32."""


def _normal(value: Array) -> Array:
    return np.where(np.abs(value) < SMALLEST, np.copysign(0, value), value)


def _flushed(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """As v_rcp_f32, v_rsq_f32, v_exp_f32 and v_log_f32 have it: a denormal is zero.

    LLVM says so of operands (AMDGPUInstCombineIntrinsic.cpp), and scales those and results where
    they matter (AMDGPUCodeGenPrepare.cpp, emitRcpIEEE1ULP; AMDGPUISelLowering.cpp, lowerFEXP2).
    """
    return lambda a: _normal(function(_normal(a)))


def _vector(
    name: str, function: Callable[..., Array], *lowering: str, arity: int = 2, **known: Any
) -> OpDef:
    return OpDef(name, arity, function, lowering=lowering, **known)


def _number(
    name: str, function: Callable[..., Array], *lowering: str, arity: int = 2, **known: Any
) -> OpDef:
    """Arithmetic: exact, and NaN of NaN."""
    return _vector(name, function, *lowering, arity=arity, exact=True, propagates=True, **known)


def _sum(name: str, function: Callable[..., Array], *lowering: str, arity: int = 1) -> OpDef:
    return _number(name, function, *lowering, arity=arity, reduce=Reduce.ADD)


def _near(
    name: str, function: Callable[..., Array], *lowering: str, arity: int = 1, **known: Any
) -> OpDef:
    """A function whose results are rounded."""
    return _vector(name, function, *lowering, arity=arity, propagates=True, **known)


TRUTH = "v_cndmask_b32 {d}, 0, 1.0, vcc"
"""The truth value of what a comparison found."""


def _compare(
    name: str, function: Callable[..., Array], mnemonic: str, *, commutes: bool = False
) -> OpDef:
    lowering = (f"{mnemonic} vcc, {{0}}, {{1}}", TRUTH)
    return OpDef(
        name,
        2,
        function,
        lowering=lowering,
        bool_result=True,
        exact=True,
        commutes=commutes,
        turns=commutes,  # equal between the ends, greater only at them
    )


def _turned(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """As hardware has it: of turns in f32, less the nearest whole ones, which do not matter."""

    def of(a: Array) -> Array:
        turns = a.astype(np.float32) * np.float32(0.15915494)
        return function(2 * np.pi * (turns - np.rint(turns)).astype(np.float64)).astype(a.dtype)

    return of


def _wave(name: str, function: Callable[[Array], Array]) -> OpDef:
    """v_sin_f32 takes turns, and wants no more than 256 (CDNA3 ISA, "V_SIN_F32"). The nearest whole
    ones are taken off exactly; v_fract_f32 has almost a turn for a little less than none."""
    turns = ("v_mul_f32 {t}, 0.15915494, {0}", "v_rndne_f32 {d}, {t}", "v_sub_f32 {t}, {t}, {d}")
    return _near(name, _turned(function), *turns, f"v_{name}_f32 {{d}}, {{t}}", turns=True)


def _as_i32(value: Array) -> Array:
    """As v_cvt_i32_f32 has it: what is past the largest saturates, a NaN is 0 (CDNA3 ISA)."""
    wide = np.trunc(np.nan_to_num(np.asarray(value, np.float64)))
    return np.clip(wide, -(2.0**31), 2.0**31 - 1).astype(np.int32)


def _bits(name: str, function: Callable[..., Array], lowering: str, **known: Any) -> OpDef:
    """Of the 32 bits of whole numbers, as registers hold them."""

    def apply(*operands: Array) -> Array:
        return np.asarray(function(*map(_as_i32, operands)), np.float64)

    return OpDef(
        name, 2, apply, lowering=(lowering,), exact=True, integers=True, turns=True, **known
    )


def _power_below(a: Array) -> Array:
    """What the exponent bits of an f32 are by themselves: of a NaN those of infinity."""
    size = np.abs(a)
    power = np.ldexp(np.ones_like(size), np.frexp(size)[1] - 1)
    return np.where(np.isfinite(size), np.where(size < SMALLEST, 0, power), np.inf)


def _select(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition != 0, a, b)


VOCABULARY = Vocabulary(MappingProxyType({})).extended(
    _sum("matmul", np.multiply, arity=2),
    _sum("scaled_matmul", lambda a, b, s, t: a * s * b * t, arity=4),
    _sum("sum", lambda a: a),
    _sum("sum_squares", np.square, "v_mul_f32 {d}, {0}, {0}"),
    OpDef("amax", 1, lambda a: a, Reduce.MAX, exact=True, keeps_truth=True),
    OpDef("amin", 1, lambda a: a, Reduce.MIN, exact=True, keeps_truth=True),
    OpDef("any", 1, lambda a: a != 0, Reduce.ANY, bool_result=True, exact=True, takes_truth=True),
    _number("convert", lambda a: a, "v_mov_b32 {d}, {0}", arity=1, keeps_truth=True),
    _number("add", np.add, "v_add_f32 {d}, {0}, {1}", commutes=True),
    _number("sub", np.subtract, "v_sub_f32 {d}, {0}, {1}"),
    _number("mul", np.multiply, "v_mul_f32 {d}, {0}, {1}", keeps_truth=True, commutes=True),
    # As the instructions have it, of a number and a NaN both are the number.
    _vector("max", np.fmax, "v_max_f32 {d}, {0}, {1}", exact=True, keeps_truth=True, commutes=True),
    _vector("min", np.fmin, "v_min_f32 {d}, {0}, {1}", exact=True, keeps_truth=True, commutes=True),
    _number("fma", lambda a, b, c: a * b + c, "v_fma_f32 {d}, {0}, {1}, {2}", arity=3),
    # The divisor's part in [0.5, 1) has a normal reciprocal whatever it is. Its power of two goes
    # to the dividend, which is then below the result: it overflows only with it, and where it
    # loses a bit as a denormal, the result is one, or all but.
    _near(
        "div",
        np.divide,
        "v_frexp_exp_i32_f32 {t}, {1}",
        "v_frexp_mant_f32 {d}, {1}",
        "v_sub_u32 {t}, 0, {t}",
        "v_rcp_f32 {d}, {d}",
        "v_ldexp_f32 {t}, {0}, {t}",
        "v_mul_f32 {d}, {t}, {d}",
        arity=2,
    ),
    _number("neg", np.negative, "v_xor_b32 {d}, 0x80000000, {0}", arity=1),
    _number("swapped", lambda a: a, "v_mov_b32 {d}, {0}", arity=1, in_blocks=InBlocks.SWAP),
    _vector(
        "block_max",
        lambda a: a,
        "v_max_f32 {d}, {0}, {0}",
        arity=1,
        exact=True,
        in_blocks=InBlocks.MAX,
    ),
    _vector(
        "block_amax",
        np.abs,
        "v_and_b32 {d}, 0x7fffffff, {0}",
        arity=1,
        exact=True,
        in_blocks=InBlocks.MAX,
    ),
    _vector("power_below", _power_below, "v_and_b32 {d}, 0x7f800000, {0}", arity=1, exact=True),
    _number("floor", np.floor, "v_floor_f32 {d}, {0}", arity=1),
    _number("ceil", np.ceil, "v_ceil_f32 {d}, {0}", arity=1),
    _number("trunc", np.trunc, "v_trunc_f32 {d}, {0}", arity=1),
    _number("round", np.rint, "v_rndne_f32 {d}, {0}", arity=1),
    _wave("sin", np.sin),
    _wave("cos", np.cos),
    _bits("bit_and", np.bitwise_and, "v_and_b32 {d}, {0}, {1}", commutes=True),
    _bits("bit_or", np.bitwise_or, "v_or_b32 {d}, {0}, {1}", commutes=True),
    _bits("bit_xor", np.bitwise_xor, "v_xor_b32 {d}, {0}, {1}", commutes=True),
    # The instructions take the lowest five bits of how far.
    _bits("shift_left", lambda a, by: a << (by & 31), "v_lshlrev_b32 {d}, {1}, {0}"),
    _bits("shift_right", lambda a, by: a >> (by & 31), "v_ashrrev_i32 {d}, {1}, {0}"),
    _near("exp2", _flushed(np.exp2), "v_exp_f32 {d}, {0}"),
    _near("log2", _flushed(np.log2), "v_log_f32 {d}, {0}"),
    _near("rcp", _flushed(np.reciprocal), "v_rcp_f32 {d}, {0}"),
    _near("sqrt", _flushed(np.sqrt), "v_sqrt_f32 {d}, {0}"),
    _near("rsqrt", _flushed(lambda a: 1 / np.sqrt(a)), "v_rsq_f32 {d}, {0}"),
    _compare("gt", np.greater, "v_cmp_gt_f32"),
    _compare("ge", np.greater_equal, "v_cmp_ge_f32"),
    _compare("lt", np.less, "v_cmp_lt_f32"),
    _compare("le", np.less_equal, "v_cmp_le_f32"),
    _compare("eq", np.equal, "v_cmp_eq_f32", commutes=True),
    _vector(
        "select",
        _select,
        "v_cmp_ne_u32 vcc, 0, {0}",
        "v_cndmask_b32 {d}, {2}, {1}, vcc",
        arity=3,
        exact=True,
        takes_truth=True,
        keeps_truth=True,
    ),
    _vector(
        "within",
        lambda a, left: np.where(left >= 1, a, 0),
        "v_cmp_le_f32 vcc, 1.0, {1}",
        "v_cndmask_b32 {d}, 0, {0}, vcc",
        exact=True,
        masks=True,
    ),
    _vector(
        "clear",
        lambda a, left, least: np.where(left >= least, a, 0),
        "v_cmp_ge_f32 vcc, {1}, {2}",
        "v_cndmask_b32 {d}, 0, {0}, vcc",
        arity=3,
        exact=True,
        masks=True,
    ),
    _vector(
        "keep",
        lambda a, left, least: np.where(left >= least, a, -np.inf),
        "v_cmp_ge_f32 vcc, {1}, {2}",
        "v_mov_b32 {t}, 0xff800000",
        "v_cndmask_b32 {d}, {t}, {0}, vcc",
        arity=3,
        masks=True,
    ),
)
"""The ops shipped with pipeloom."""

PRODUCTS = frozenset({"matmul", "scaled_matmul"})
"""Ops of the matrix unit: of two matrices, the second with a scale for every element of each."""
