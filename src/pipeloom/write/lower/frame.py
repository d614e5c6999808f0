"""Names before registers: what the lowerings ask for, with when it is used, then placed at once.

Lowering a step is two things at two times. First it asks: for address registers that the preamble
computes, for scratch, for the tiles it touches. When every step has asked, lifetimes are known,
registers are allocated, and the step writes its instructions with the places it got:

    address = frame.prepared(key, "address", write)    # in the plan: a name
    ...
    code("ds_read_b128", ..., frame[address])          # when writing: a register
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

from pipeloom.errors import InternalError
from pipeloom.machine.target import Target
from pipeloom.program import Box
from pipeloom.write.allocate import SETUP, Allocation, LiveValue, allocate
from pipeloom.write.code import Code
from pipeloom.write.convert import CONSTANTS, needs_constants
from pipeloom.write.faults import RegisterLimitError
from pipeloom.write.isa import Bank, Register, joined
from pipeloom.write.lower.liveness import ControlFlow, in_flight, live_parts, live_points

Write = Callable[[Code], None]


@dataclass(slots=True)
class _Wanted:
    bank: Bank
    count: int
    align: int
    always: bool = False
    setup: bool = True
    """Of what is there ``always``: in the setup, too."""
    loop: bool = True
    """And in all that follows it."""
    either: bool = False
    """A sum of matrix products, for which accumulation registers do as well."""
    movable: bool = False
    """Accumulation registers do as well if vector registers do not suffice."""
    writes: set[int] = field(default_factory=set)
    reads: set[int] = field(default_factory=set)
    in_flight: dict[int, str] = field(default_factory=dict)
    """Writes that happen some time after their step, with the counter that tells."""
    touches: list[tuple[int, Box, bool, bool]] = field(default_factory=list)
    """Of a tile: the point, the box, whether it is written, and then whether for certain."""


class Frame:
    """The registers of a kernel under construction."""

    def __init__(self, flow: ControlFlow, target: Target, waves: int) -> None:
        self.flow = flow
        self.target = target
        self.waves = waves
        self.point = 0
        """The step being planned."""
        self.group = 0
        self.common: list[Write] = []
        """What all waves compute before they part."""
        self.preambles: list[list[Write]] = [[] for _ in flow.preambles]
        self.late: list[list[Write]] = [[] for _ in flow.preambles]
        """The part of a preamble that may come behind the first loads to LDS."""
        self._loads: list[list[Write]] = [[] for _ in flow.preambles]
        self._wanted: dict[str, _Wanted] = {}
        self._spare: dict[str, tuple[int, int]] = {}
        self._made: dict[Hashable, str] = {}
        self._constants: set[str] = set()
        self._allocation: Allocation | None = None

    # --- asking -----------------------------------------------------------------------------------

    def always(self, name: str, bank: Bank, count: int = 1, align: int = 1) -> str:
        """A register of its own throughout the kernel."""
        self._wanted.setdefault(name, _Wanted(bank, count, align, always=True))
        return name

    def scalar(self, name: str, count: int = 1, align: int = 1) -> str:
        """A scalar register; there are enough that few are shared."""
        return self.always(name, Bank.SCALAR, count, align)

    def first_scalar(self, name: str, count: int = 1, align: int = 1) -> str:
        """A scalar register of the setup's first part: until arrays are described."""
        self._wanted.setdefault(name, _Wanted(Bank.SCALAR, count, align, always=True, loop=False))
        return name

    def later_scalar(self, name: str, count: int = 1, align: int = 1) -> str:
        """A scalar register that nothing writes before arrays are described."""
        self._wanted.setdefault(name, _Wanted(Bank.SCALAR, count, align, always=True, setup=False))
        return name

    @property
    def asked(self) -> Collection[str]:
        """What was asked for so far, by name."""
        return self._wanted.keys()

    def spare(self, name: str, count: int = 1, align: int = 1) -> str:
        """A scalar register if there are enough for all that is spare: ``name in frame``."""
        self._spare.setdefault(name, (count, align))
        return name

    @property
    def spared(self) -> Collection[str]:
        """What was asked for if there are enough."""
        return self._spare.keys()

    def constant(self, bits: int, name: str = "") -> str:
        """A scalar register that holds a number."""
        name = name or f"constant {bits:#x}"
        if name not in self._constants:
            self._constants.add(name)
            self.later_scalar(name)
            self.common.append(lambda code: _move(code, self[name], bits))
        return name

    def by_wave(self, values: Sequence[int]) -> str | int:
        """The number of this wave: ``values`` by wave of the workgroup; itself where all agree."""
        if len(set(values)) == 1:
            return values[0]
        name = f"by wave {list(values)}"
        if name not in self._wanted:
            self.later_scalar(name)
            self.scalar("scratch")
            self.common.append(lambda code: _select(code, self, name, tuple(values)))
        return name

    def scratch(self, what: str, count: int = 1, align: int = 1) -> str:
        """Vector registers for the step being planned only."""
        name = f"{what} of step {self.point}"
        wanted = self._wanted.setdefault(name, _Wanted(Bank.VECTOR, count, align))
        wanted.count = max(wanted.count, count)
        wanted.writes.add(self.point)
        return name

    def work(self, number: int) -> str:
        """Vector scratch of the preambles."""
        name = f"setup {number}"
        wanted = self._wanted.setdefault(name, _Wanted(Bank.VECTOR, 1, 1))
        wanted.writes |= {SETUP, *self.flow.preambles}
        return name

    def read(self, name: str) -> str:
        """Note that the step being planned reads a value made earlier."""
        self._wanted[name].reads.add(self.point)
        return name

    def prepared(
        self,
        key: Hashable,
        what: str,
        make: Callable[[Code, Register], None],
        late: bool = False,
    ) -> str:
        """A vector value of the preamble that the step being planned reads; made once per key.

        ``late``: no load to LDS needs it.
        """
        full = (self.group, key)
        if full not in self._made:
            name = f"{what} {len(self._made)}"
            self._made[full] = name
            wanted = self._wanted.setdefault(name, _Wanted(Bank.VECTOR, 1, 1))
            wanted.writes.add(self.flow.preambles[self.group])
            writes = self.late if late else self.preambles
            writes[self.group].append(lambda code: make(code, self[name]))
        return self.read(self._made[full])

    def ahead(self, key: Hashable, what: str, make: Callable[[Code, Register], None]) -> str:
        """A vector value that the preamble loads first and only it reads; made once per key.

        All of them are loaded before anything waits.
        """
        full = (self.group, key)
        if full not in self._made:
            name = self._made[full] = f"{what} {len(self._made)}"
            point = self.flow.preambles[self.group]
            self._wanted[name] = _Wanted(Bank.VECTOR, 1, 1, writes={point})
            if not self._loads[self.group]:
                self.preambles[self.group].insert(0, partial(_load_all, self._loads[self.group]))
            self._loads[self.group].append(lambda code: make(code, self[name]))
        return self._made[full]

    def tile(
        self, name: str, bank: Bank, count: int, either: bool = False, movable: bool = False
    ) -> None:
        """Registers of a resource; ``touch`` says when. ``either`` bank may hold a sum; what is
        ``movable`` leaves the vector registers if they do not suffice."""
        align = 2 if count > 1 else 1
        self._wanted.setdefault(name, _Wanted(bank, count, align, either=either, movable=movable))

    def touch(
        self,
        name: str,
        box: Box = (),
        *,
        writes: bool = False,
        surely: bool = True,
        counter: str | None = None,
    ) -> None:
        """The step being planned reads part of a tile, or writes it: perhaps, or with a ``counter``
        some time after issue."""
        wanted = self._wanted[name]
        wanted.touches.append((self.point, box, writes, surely))
        if writes and counter is not None:
            wanted.in_flight[self.point] = counter

    # --- placing ----------------------------------------------------------------------------------

    def place(self, reserved_scalars: int) -> Allocation:
        """Allocate everything that was asked for; raises ``RegisterLimitError``.

        Sums go to accumulation registers, and as many as are left room for to vector registers,
        the first first: those need no move before vector instructions. Of what is movable, the
        largest tiles go there too, as many as must.
        """
        sizes = {n: w.count for n, w in self._wanted.items() if w.movable}
        order = sorted(sizes, key=lambda name: -sizes[name])
        with suppress(RegisterLimitError):
            return self._placed(reserved_scalars, frozenset())
        found, few, many = self._placed(reserved_scalars, {*order}), 0, len(order)
        while many - few > 1:
            count = (few + many) // 2
            try:
                found, many = self._placed(reserved_scalars, {*order[:count]}), count
            except RegisterLimitError:
                few = count
        self._allocation = found
        return found

    def _placed(self, reserved_scalars: int, moved: Collection[str]) -> Allocation:
        """The same with some tiles in accumulation registers."""
        everywhere = frozenset(range(len(self.flow.successors))) | {SETUP}
        values: list[LiveValue] = []
        sums: list[LiveValue] = []
        for name, wanted in self._wanted.items():
            live = self._live(wanted)
            if wanted.always:
                live = everywhere if wanted.loop else frozenset({SETUP})
                live -= frozenset() if wanted.setup else {SETUP}
            bank = Bank.ACCUMULATOR if name in moved else wanted.bank
            found = LiveValue(name, bank, wanted.count, live, wanted.align)
            (sums if wanted.either else values).append(found)
        spare = [
            LiveValue(name, Bank.SCALAR, count, everywhere, align)
            for name, (count, align) in self._spare.items()
        ]
        reserved = {Bank.SCALAR: reserved_scalars}
        direct = self.target.direct_vgprs.value

        def placed(in_vectors: int) -> Allocation:
            wanted = [*values, *_divided(sums, in_vectors)]
            with suppress(RegisterLimitError):
                return allocate([*wanted, *spare], self.target, self.waves, reserved)
            return allocate(wanted, self.target, self.waves, reserved)

        many = sum(value.count for value in sums)
        beside = sum(self._wanted[name].count for name in moved)
        self._allocation = placed(_rounded(many + beside - direct))
        fit = [n for n in accumulate(v.count for v in sums) if n <= direct - self._vectors]
        if fit and many <= direct:
            with suppress(RegisterLimitError):
                self._allocation = placed(fit[-1])
        return self._allocation

    @property
    def _vectors(self) -> int:
        assert self._allocation is not None
        return self._allocation.used[Bank.VECTOR]

    def _live(self, wanted: _Wanted) -> frozenset[int]:
        own = {point for point in wanted.writes if point != SETUP}
        live = live_points(self.flow, own, (), wanted.reads)
        live |= live_parts(self.flow, wanted.touches)
        for point, counter in wanted.in_flight.items():
            live |= in_flight(self.flow, point, self.target.counter(counter).limit.value)
        return live | (wanted.writes & {SETUP})

    def __contains__(self, name: str) -> bool:
        return self._allocation is not None and name in self._allocation.places

    def __getitem__(self, name: str) -> Register:
        if self._allocation is None:
            raise InternalError(f"{name} has no register yet")
        first = self._allocation[name]
        rest = self._allocation.places.get(f"{name} {REST}")
        return first if rest is None else joined(first, rest)


REST = "(rest)"
BLOCK = 16
"""Registers of the largest matrix result, which no bank boundary cuts."""


def _rounded(count: int) -> int:
    return max(0, -(-count // BLOCK) * BLOCK)


def _divided(sums: Sequence[LiveValue], in_vectors: int) -> list[LiveValue]:
    """The first ``in_vectors`` registers of sums in vector registers, the others not."""
    found = []
    for value in sums:
        here = min(in_vectors, value.count)
        in_vectors -= here
        banks = {Bank.VECTOR: here, Bank.ACCUMULATOR: value.count - here}
        names = iter((value.name, f"{value.name} {REST}"))
        found += [
            replace(value, name=next(names), bank=bank, count=count)
            for bank, count in banks.items()
            if count
        ]
    return found


def _load_all(loads: Sequence[Write], code: Code) -> None:
    for load in loads:
        load(code)
    code.wait(vm=0)


def rounding_constants(frame: Frame, dtype: str) -> list[str]:
    """The scalars of conversions to ``dtype``, which hold something where the rounding is spelt
    out."""
    spelt = needs_constants(frame.target, dtype)
    return [
        frame.constant(bits, name) if spelt else frame.scalar(name)
        for name, bits in CONSTANTS.items()
    ]


def _move(code: Code, register: Register, bits: int) -> None:
    code("s_mov_b32", register, bits)


def _select(code: Code, frame: Frame, name: str, values: tuple[int, ...]) -> None:
    """``values[wave]``: a sum over the bits of the wave where it is one, else by comparing."""
    result, wave, scratch = frame[name], frame["wave"], frame["scratch"]
    bits = (len(values) - 1).bit_length()
    weights = [values[1 << i] - values[0] for i in range(bits)]
    total = [
        values[0] + sum(w for i, w in enumerate(weights) if n >> i & 1) for n in range(len(values))
    ]
    code("s_mov_b32", result, values[0])
    if total == list(values):
        for bit, weight in enumerate(weights):
            if weight:
                code("s_bfe_u32", scratch, wave, bit | 1 << 16)
                code("s_mul_i32", scratch, scratch, weight)
                code("s_add_u32", result, result, scratch)
        return
    for number, value in enumerate(values):
        if value != values[0]:
            code("s_cmp_eq_u32", wave, number)
            code("s_cselect_b32", result, value, result)
