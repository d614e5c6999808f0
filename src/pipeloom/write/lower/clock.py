"""Where the kernel stands along the loop's dimension, on the scalar unit.

Nothing is divided: with N = c + f * T iterations of ``tile`` elements, the size along ``over`` less
``c * tile`` is ``f * tile`` elements per trip, and a loop counts those down. Streams keep the byte
offset of the section's iteration; a step adds its own, which is known beforehand.

    left   = size - c * tile         once
    loop:  ...  left -= f * tile;  at A += advance * tile * bytes;  again while 0 < left
"""

from __future__ import annotations

from pipeloom.program import Affine, Program, Section
from pipeloom.write.addresses import quotient
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Register
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.global_arrays import Along, Array
from pipeloom.write.lower.memory import Memory

OFFSETS = ("tile offset", "other tile offset")
"""Of loads ahead: two streams that are not loaded for the same iteration take turns. A loop with
masks keeps one: spread by ``balance``, attention's masked loop takes 1 % longer with two."""


class Clock:
    """The scalars of iterations: ``extent`` (elements of all trips), ``left``, ``at`` by stride."""

    def __init__(self, program: Program, memory: Memory, frame: Frame) -> None:
        self._frame = frame
        self._memory = memory
        self.over = program.meaning.over
        sizes = {
            a.node.type.sizes[self.over] for a in memory.arrays.values() if self.over in a.dims
        }
        self.tile = sizes.pop() if sizes else 1
        factors = {n: f for n, f in program.iterations.factors if f}
        plain = [name for name, _ in program.plain.factors]
        counted = {count.name for count in program.trips}
        if (
            counted != factors.keys()
            or len(plain) > 1
            or len(counted - {*plain}) > 1
            or (plain and counted == {*plain})
        ):
            raise EmitError(
                f"program {program.name!r} has trip counts "
                f"{', '.join(t.name for t in program.trips)} for {program.iterations} iterations",
                hint="a kernel supports one main loop, optionally preceded by one unmasked loop",
                field="trips",
            )
        if len({*factors.values(), *(f for _, f in program.plain.factors)}) > 1 or any(
            f < 0 for f in factors.values()
        ):
            raise EmitError(
                f"program {program.name!r} computes {program.iterations} iterations, "
                f"{program.plain} of them plain",
                hint="trips of all its loops must take the same number, and the plain ones count "
                "as many",
                field="trips",
            )
        if plain and any(count.least for count in program.trips):
            raise EmitError(
                f"program {program.name!r} has plain trips, and a loop that runs at least once",
                hint="of a small size no trip is plain: let every loop run from 0 trips on",
                field="trips",
            )
        self.factor = next(iter(factors.values()), 0)
        self.plain = plain[0] if plain else None
        self._ahead_of_plain = program.plain.constant
        self.constant = program.iterations.constant
        self.least = program.iterations.at(program.min_trips)
        self._positions: dict[str, Along] = {}
        self._ahead: dict[tuple[Along, int, int, str], str] = {}
        """Offsets that are computed, the last one used at the end, and where they are; of those
        that end with their array, its name."""
        self._base = Affine()
        self.epoch = 0
        """Changes where what was computed for an iteration may no longer stand."""
        frame.scalar("extent")
        if self.plain is not None:
            frame.scalar("plain")
        frame.scalar("left")
        self._past_ends = memory.placing.past_ends(program.meaning)
        self._offsets = OFFSETS[:1] if self._past_ends else OFFSETS
        for name in self._offsets:
            frame.scalar(name)
        if memory.placing.ragged:
            frame.scalar("missing")

    @property
    def step(self) -> int:
        """Elements along ``over`` of one trip."""
        return self.factor * self.tile

    # --- asking -----------------------------------------------------------------------------------

    def follow(self, array: Array) -> None:
        """Keep the byte offset of a stream; raises where its codes cannot be met."""
        self._shares_codes(array)
        self._follow(array.over_stride)

    def follow_elements(self) -> None:
        """Keep the number of elements before the section's iteration."""
        self._follow(1)

    def _follow(self, stride: Along) -> None:
        key = f"at {stride}"
        self._positions[key] = stride
        self._frame.scalar(key)

    # --- writing ----------------------------------------------------------------------------------

    def start(self, code: Code) -> None:
        """Before the groups part: how far all trips reach."""
        frame = self._frame
        if self.factor and self.over in self._memory.tiles:
            size = frame[self._memory.reach]
            code("s_sub_u32", frame["extent"], size, self.constant * self.tile)
            if self._past_ends and self.least > self.constant:
                least = (self.least - self.constant) * self.tile
                code("s_max_i32", frame["extent"], frame["extent"], least)
        if self.plain is not None:
            self._find_plain(code)

    def _find_plain(self, code: Code) -> None:
        """How far whole trips go in which no mask changes anything; the rest is for the others."""
        frame, memory = self._frame, self._memory
        plain, scratch, extent = frame["plain"], frame["scratch"], frame["extent"]
        code.comment("trips in which nothing is masked")
        if memory.meaning.until is not None:
            code("s_max_i32", scratch, frame[f"left {memory.meaning.until}"], 1)
            code("s_sub_i32", plain, frame[f"size {self.over}"], scratch)
        else:
            code("s_sub_i32", plain, frame[f"size {self.over}"], 1)
        code("s_sub_i32", plain, plain, self._ahead_of_plain * self.tile - 1)
        code("s_min_i32", plain, plain, extent)
        code("s_max_i32", plain, plain, 0)
        quotient(code, plain, plain, self.step)
        code("s_mul_i32", plain, plain, self.step)
        code("s_sub_i32", extent, extent, plain)

    def extent(self, section: Section) -> Register:
        """Elements of all trips of a loop."""
        return self._frame["plain" if section.trips == self.plain else "extent"]

    def fit(self, code: Code) -> None:
        """Round what the loop goes along up to whole trips; ``pad`` is what it is more."""
        memory, frame = self._memory, self._frame
        placing = memory.placing
        if not placing.ragged:
            return
        least = self.least * self.tile
        size = frame["reach" if placing.slices > 1 else f"size {self.over}"]
        pad, reach = frame["pad"], frame["reach"]
        code.comment("whole trips, the first of them with zeros before the arrays begin")
        code("s_mov_b32", frame["scratch"], size)
        code("s_max_u32", reach, size, least)
        if self.factor:
            code("s_add_u32", reach, reach, self.step - 1 - least)
            quotient(code, reach, reach, self.step)
            code("s_mul_i32", reach, reach, self.step)
            code("s_add_u32", reach, reach, least)
        code("s_sub_u32", pad, reach, frame["scratch"])

    def missing(self, code: Code, iteration: int) -> Register:
        """How many elements of the section's ``iteration`` lie before the array begins."""
        frame, result = self._frame, self._frame["missing"]
        base = self._base
        ahead = (base.constant + iteration) * self.tile
        factor = sum(f for _, f in base.factors)
        if factor:
            if factor != self.factor:
                raise EmitError(
                    f"a load stands at {base}, while trips take {self.factor} iterations",
                    hint="ragged sizes need sections that follow each other's iterations",
                    field="ragged",
                )
            scratch = frame["scratch"]
            code("s_add_u32", scratch, frame["extent"], ahead)
            code("s_max_u32", result, frame["pad"], scratch)
            code("s_sub_u32", result, result, scratch)
            return result
        code("s_max_u32", result, frame["pad"], ahead)
        code("s_sub_u32", result, result, ahead)
        return result

    def reset(self, code: Code) -> None:
        """A group begins at iteration 0."""
        self._base = Affine()
        for key in self._positions:
            code("s_mov_b32", self._frame[key], 0)

    def forget(self) -> None:
        """At a label, nobody knows what was computed before."""
        self._ahead = {}
        self.epoch += 1

    def enter(self, code: Code, section: Section) -> None:
        """Bring every stream to the section's first iteration."""
        if section.first == self._base:
            return
        now, wanted = dict(self._base.factors), dict(section.first.factors)
        if all(now.get(n, 0) == wanted.get(n, 0) for n in now.keys() | wanted.keys()):
            moved = section.first.constant - self._base.constant
            for key, stride in self._positions.items():
                at = self._frame[key]
                self._add(code, at, moved * self.tile, stride)
        else:
            factor = sum(wanted.values())
            if factor % self.factor:
                raise EmitError(
                    f"section {section.name!r} starts at {section.first}, which would take a "
                    f"division by {self.factor}",
                    hint="let sections follow each other's iterations",
                    field=section.name,
                )
            for key, stride in self._positions.items():
                at = self._frame[key]
                code("s_mul_i32", at, self._frame["extent"], factor // self.factor)
                code("s_add_i32", at, at, section.first.constant * self.tile)
                code("s_mul_i32", at, *self._memory.counted(code, at, stride))
        self._base = section.first

    def advance(self, code: Code, section: Section) -> None:
        """The end of a trip."""
        for key, stride in self._positions.items():
            self._add(code, self._frame[key], section.advance * self.tile, stride)
        left = self._frame["left"]
        code("s_sub_u32", left, left, self.step)

    def leave(self, section: Section) -> None:
        """Behind a loop, streams stand where its trips brought them."""
        assert section.trips is not None
        factors = dict(section.first.factors)
        factors[section.trips] = factors.get(section.trips, 0) + section.advance
        kept = tuple(sorted((n, f) for n, f in factors.items() if f))
        self._base = Affine(section.first.constant, kept)

    def offset(self, code: Code, array: Array, iteration: int) -> Register:
        """The scalar offset of a stream's tile at ``iteration`` of the section."""
        stride = array.over_stride
        at = self._frame[f"at {stride}"]
        clamped = self._past_ends
        shared = self._shares_codes(array)
        if iteration == 0 and not clamped and not shared:
            return at
        key = (stride, iteration, array.element if shared else 0, array.name if clamped else "")
        known = self._ahead.pop(key, None)
        name = self._ahead[key] = known or self._vacant()
        result = self._frame[name]
        if known is not None:
            return result
        self._ahead_of(code, result, at, iteration, stride)
        if shared:
            code("s_and_b32", result, result, -array.element)
        if clamped:
            # Past the end, all of a tile is: num_records - soffset must not be negative, because
            # the chip compares with that difference (CDNA3 ISA, "Buffer addressing").
            code("s_min_u32", result, result, self._frame[f"buffer {array.name}"].part(2))
        return result

    def _shares_codes(self, array: Array) -> bool:
        """Whether a code of a stream stands for elements of several iterations, so that iterations
        are parts of a code apart."""
        covers = array.node.type.dtype.covers
        if covers <= self.tile or array.dims[-1] != self.over:
            return False
        if covers % self.tile or self.tile * array.node.type.dtype.bits % (8 * covers):
            raise EmitError(
                f"a code of {array.name} covers {covers} elements, which is no whole number of "
                f"iterations of {self.tile}, or too many",
                hint="let a group have as many elements as an iteration, or 2, 4, 8, ... times",
                field=array.name,
            )
        if self.least * self.tile % covers or self.step % covers:
            # The zeros before an array would end amid a code.
            raise EmitError(
                f"{array.name} has a code for {covers} elements along {self.over}, of which this "
                f"kernel takes {self.least * self.tile} and then {self.step} at a time",
                hint=f"declare a tile of {covers} elements along {self.over}",
                field=array.name,
            )
        return True

    def _vacant(self) -> str:
        """A scalar for one more offset, if need be of the one that was not used for longest."""
        unused = [name for name in self._offsets if name not in self._ahead.values()]
        return unused[0] if unused else self._ahead.pop(next(iter(self._ahead)))

    def elements_left(self, code: Code, iteration: int, *, again: bool = False) -> Register:
        """How many elements there are from the first one of ``iteration`` on; may be negative.

        ``again``: who asks is never jumped over, and asks several times of an iteration.
        """
        key = ("left", iteration, 0, "")
        known = self._ahead.pop(key, None) if again else None
        name = known or self._vacant()
        if again:
            self._ahead[key] = name
        result = self._frame[name]
        if known is not None:
            return result
        code("s_sub_i32", result, self._frame[f"size {self.over}"], self._frame["at 1"])
        if iteration:
            code("s_sub_i32", result, result, iteration * self.tile)
        if self._memory.begins_later and self._memory.meaning.since is None:
            # Behind a share's last tile the arrays go on, but nothing is left for it.
            scratch = self._frame["scratch"]
            code("s_sub_i32", scratch, self._frame["reach"], self._frame["at 1"])
            code("s_sub_i32", scratch, scratch, iteration * self.tile)
            code("s_cmp_lt_i32", 0, scratch)
            code("s_cselect_b32", result, result, scratch)
        return result

    def _ahead_of(
        self, code: Code, result: Register, at: Register, iteration: int, stride: Along
    ) -> None:
        elements = iteration * self.tile
        if not elements:
            code("s_mov_b32", result, at)
            return
        if not isinstance(stride, str):
            code("s_add_i32", result, at, int(elements * stride))
        else:
            code("s_mul_i32", result, self._frame[stride], elements)
            code("s_add_i32", result, result, at)

    def _add(self, code: Code, at: Register, elements: int, stride: Along) -> None:
        if not elements:
            return
        if not isinstance(stride, str):
            code("s_add_i32", at, at, int(elements * stride))
        else:
            scratch = self._frame["scratch"]
            code("s_mul_i32", scratch, self._frame[stride], elements)
            code("s_add_i32", at, at, scratch)
