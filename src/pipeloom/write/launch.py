"""How to launch a kernel of a program: its grid, its arguments, and which sizes it can compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from pipeloom.checks import check_known
from pipeloom.device.contracts import MOST_ALONG, block_span, whole_trips
from pipeloom.device.formulas import value_of
from pipeloom.machine.dispatch import DIVISIBLE
from pipeloom.program import Affine, Meaning
from pipeloom.program.blocked_matrices import blocked_matrix
from pipeloom.program.index_arrays import check_blocks
from pipeloom.program.nodes import NodeKind
from pipeloom.program.problem_spans import BATCHES, turns_of
from pipeloom.write.addresses import SPAN_LIMIT
from pipeloom.write.faults import EmitError
from pipeloom.write.lower.global_arrays import Array, arrays_of, dimensions, stride_name
from pipeloom.write.placing import ONE_PROBLEM, Placing

SIZE_LIMIT = 1 << 31
"""Sizes and leading dimensions are below."""
_EXACT = 1 << 24
"""Up to which f32 has every whole number: what is left along a dimension is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a launcher must know of a program's kernel."""

    meaning: Meaning
    """What it computes."""
    tiles: Mapping[str, int]
    """What a workgroup takes along each dimension."""
    iterations: Affine
    """Iterations as a function of the trip counts."""
    least: int
    """The smallest size along the loop's dimension that has whole trips."""
    step: int
    """How much of that dimension one more trip takes; 0 where there is no loop."""
    multiples: Mapping[str, int]
    """What sizes must be multiples of, in elements, because accesses are wide."""
    pitches: Mapping[str, int]
    """What leading dimensions must be multiples of, in bytes, by array."""
    placing: Placing = ONE_PROBLEM
    """How workgroups find their tiles: slices, batches, ragged sizes."""

    @property
    def grid_formula(self) -> list[str]:
        """Workgroups along x, y and z in terms of the sizes, and of the number of batches."""
        dims = [f"ceil({dim} / {self.tiles[dim]})" for dim in reversed(self.meaning.grid)]
        if self.meaning.batch:
            dims.insert(problem_axis(self.meaning), " * ".join(self.meaning.batch))
        dims += ["1"] * (3 - len(dims))
        if self.placing.uses_z:
            slices = f"{self.placing.slices} * " if self.placing.slices > 1 else ""
            dims[2] = f"{slices}{BATCHES}"
        return dims

    def grid(self, sizes: Mapping[str, int], batches: int = 1) -> tuple[int, int, int]:
        """Workgroups along x, y and z: the last dimension of the grid is x, but for the batch.

        Args:
            sizes: The size of every dimension.
            batches: How many problems of these sizes there are.
        """
        known = {**sizes, BATCHES: batches}
        x, y, z = (value_of(formula, known) for formula in self.grid_formula)
        return x, y, z

    def pitch(self, name: str, sizes: Mapping[str, int]) -> int:
        """The leading dimension of an array without gaps.

        Args:
            name: The array's name.
            sizes: The size of every dimension.
        """
        node = arrays_of(self.meaning)[name].node
        row = sizes[node.array_dims[-1]] if node.array_dims else 1
        return -(-row // node.type.dtype.covers)

    def reach(self, size: int) -> int:
        """How far the loop goes along its dimension for a size: whole trips.

        Args:
            size: The size along the loop's dimension.
        """
        return whole_trips(size, self.least, self.step)

    def check(
        self,
        sizes: Mapping[str, int],
        pitches: Mapping[str, int] | None = None,
        strides: Mapping[str, int] | None = None,
    ) -> None:
        """Raise ``EmitError`` or ``ConfigError`` for sizes that this kernel cannot compute.

        ``pitches`` are leading dimensions by array, ``strides`` those of batches by argument.

        Args:
            sizes: The size of every dimension.
            pitches: Leading dimensions by array, in elements; those without gaps unless given.
            strides: Strides of batches by argument.
        """
        check_sizes(self.meaning, sizes)
        for dim in dimensions(self.meaning):
            size = sizes[dim]
            if size % self.multiples.get(dim, 1):
                raise EmitError(
                    f"the size along {dim!r} is {size}, but loads take {self.multiples[dim]} "
                    "elements at a time",
                    hint=f"pad it with zeros to a multiple of {self.multiples[dim]}{self._or(dim)}",
                    field=dim,
                )
        self._check_over(sizes)
        self._check_grid(sizes)
        check_blocks(self.meaning.nodes, self.tiles, sizes)
        for name, array in arrays_of(self.meaning).items():
            pitch = (pitches or {}).get(name, self.pitch(name, sizes))
            if array.has_pitch:
                self._check_pitch(name, pitch, sizes)
            elif array.blocks is not None and pitch != self.pitch(name, sizes):
                raise EmitError(
                    f"rows of {name} are {pitch} elements apart, and its blocks lie together",
                    hint="pass an array without gaps",
                    field=name,
                )
            self._check_span(array, pitch, sizes, strides or {})
            for argument in (stride_name(name, dim) for dim in array.node.outer):
                self._check_aligned(name, argument, (strides or {}).get(argument, 0))

    def _or(self, dim: str) -> str:
        """The other way round rows that loads do not take whole: of an element's alignment."""
        nodes = [n for n in self.meaning.inputs if n.array_dims[-1:] == (dim,)]
        small = [n for n in nodes if n.type.dtype.bits >= 8 and 8 * n.align > n.type.dtype.bits]
        found = ", ".join(
            f"loop.align({n.name!r}, to={n.type.dtype.bits // 8})" for n in small if n.at is None
        )
        return f", or declare {found}, slower, which takes any" if found else ""

    def _check_grid(self, sizes: Mapping[str, int]) -> None:
        meaning = self.meaning
        problems = prod(sizes[dim] for dim in meaning.batch)
        for axis, count in zip("yz", self.grid(sizes)[1:], strict=True):
            if count > MOST_ALONG:
                raise EmitError(
                    f"the launch has {count} workgroups along {axis}"
                    + (f", for a batch of {problems}" if meaning.batch else ""),
                    hint=f"a grid has at most {MOST_ALONG} there; launch several times",
                    field="grid",
                )
        if len(meaning.batch) > 1 and problems >= DIVISIBLE:
            raise EmitError(
                f"the batch has {problems} problems",
                hint=f"kernels tell fewer than {DIVISIBLE} apart; launch several times",
                field=meaning.batch[0],
            )

    def _check_over(self, sizes: Mapping[str, int]) -> None:
        over = self.meaning.over
        if over not in sizes or self.meaning.ragged or self.placing.ragged:
            return
        size = sizes[over]
        beyond = size - self.least
        if beyond < 0 or (beyond % self.step if self.step else beyond):
            raise EmitError(
                f"the size along {over!r} is {size}, but this kernel computes {self.iterations} "
                f"iterations of {self.tiles[over]}",
                hint=f"choose {self.least}"
                + (f" + n * {self.step}" if self.step else "")
                + ", or emit it for this size; `pipeloom gemm` writes products for every size",
                field=over,
            )

    def _check_pitch(self, name: str, pitch: int, sizes: Mapping[str, int]) -> None:
        row = self.pitch(name, sizes)
        if pitch < row:
            raise EmitError(
                f"ld_{name} is {pitch}, shorter than a row of {row}",
                hint="leading dimensions are in elements",
                field=f"ld_{name}",
            )
        self._check_aligned(name, f"ld_{name}", pitch)

    def _check_aligned(self, name: str, argument: str, elements: int) -> None:
        bits = arrays_of(self.meaning)[name].node.type.dtype.bits
        if elements * bits % (8 * self.pitches.get(name, 1)):
            raise EmitError(
                f"{argument} is {elements} elements of {bits} bits: rows are not "
                f"{self.pitches[name]}-byte aligned",
                hint="pad rows, or declare what they are aligned to: "
                f"loop.align({name!r}, to={max(bits // 8, 1)})",
                field=argument,
            )

    def _check_span(
        self, array: Array, pitch: int, sizes: Mapping[str, int], strides: Mapping[str, int]
    ) -> None:
        dtype, over = array.node.type.dtype, self.meaning.over
        element = dtype.bits, dtype.covers
        loop = over, self.reach(sizes.get(over, 0))
        if array.is_mapped or array.is_scattered or array.blocks is not None:
            assert array.node.at is not None
            formula = array.node.at.span(over, self.tiles)
            span = value_of(formula, {**sizes, "pitch": pitch}) * dtype.bits // 8
        else:
            span = block_span(element, array.dims, pitch, sizes, self.tiles, loop)
        turns = turns_of(self.meaning.span)
        if turns in array.node.batch:
            apart = strides.get(stride_name(array.name, turns), 0)
            span += max(sizes[turns] - 1, 0) * apart * dtype.bits // 8
        if span >= SPAN_LIMIT:
            raise EmitError(
                f"what a block touches of {array.name}, and its tile has past the end, spans "
                f"{span} bytes: 2 GiB or more",
                hint="split the problem, or bring rows nearer to each other",
                field=f"ld_{array.name}" if array.has_pitch else array.name,
            )


def problem_axis(meaning: Meaning) -> int:
    """Where in the grid the problems of a batch are counted: x is 0, z behind the dimensions.

    Where blocks of one problem have unequal work, problems come first: workgroups start in the
    order of x and are dealt to XCDs in turn, so the longest blocks of all problems start first, and
    every XCD has as many of each length. So do problems that differ in length, or share a loop:
    there are many of them, and along x there may be.
    """
    uneven = meaning.until is not None or meaning.since is not None
    return 0 if uneven or meaning.span is not None else len(meaning.grid)


def check_dimensions(meaning: Meaning, sizes: Mapping[str, int]) -> None:
    """Raise ``EmitError`` for a size along what no array has."""
    known = dimensions(meaning)
    for dim in sizes:
        check_known(dim, known, f"{meaning.name} has no dimension {dim!r}", dim, EmitError)


def check_sizes(meaning: Meaning, sizes: Mapping[str, int]) -> None:
    """Raise ``EmitError`` or ``ConfigError`` for sizes that no kernel of it computes.

    Dimensions of outputs may have size 0, of which there is then nothing, and so may the loop's,
    where a kernel of any size can be written.
    """
    check_dimensions(meaning, sizes)
    counted, some = _counted(meaning), never_empty(meaning)
    for dim in dimensions(meaning):
        size = sizes.get(dim)
        least = 1 if dim in some else 0
        most = SIZE_LIMIT if dim not in counted else _EXACT
        if type(size) is not int or not least <= size < most:
            raise EmitError(
                f"the size along {dim!r} is {size!r}",
                hint=f"pass a number from {least} to {most - 1}",
                field=dim,
            )
    meaning.check_sizes(sizes)


def never_empty(meaning: Meaning) -> frozenset[str]:
    """Dimensions of which kernels need an element: not those of all outputs, of which there is then
    nothing; but those that one of them lacks, which nobody would store. Adding nothing is right."""
    empty = {*meaning.grid, *meaning.batch, turns_of(meaning.span)}
    for node in (n for n in meaning.outputs if not n.adds):
        empty -= set(meaning.grid) - set(node.type.dims)
    empty |= {meaning.over} if meaning.ragged or meaning.adds_up else set()
    for node in meaning.inputs:
        matrix = blocked_matrix(node)
        if matrix is not None:
            counted_by = zip(matrix.blocks, node.type.dims, strict=True)
            empty |= {block for block, dim in counted_by if dim in empty}
    return frozenset(dimensions(meaning)) - empty


def largest_sizes(meaning: Meaning) -> dict[str, int]:
    """The largest size along each dimension that has less than every other."""
    counted = dict.fromkeys(sorted(_counted(meaning)), _EXACT - 1)
    return {**counted, **meaning.uncut}


def _counted(meaning: Meaning) -> set[str]:
    """Dimensions whose rest a kernel computes in f32."""
    places = [n for n in meaning.nodes if n.kind.is_place]
    return {d for n in places for d in (*n.type.dims, *([n.along] if n.along else []))}


def scalars_of(meaning: Meaning) -> tuple[str, ...]:
    """The kernel's scalar arguments."""
    return tuple(n.name for n in meaning.nodes if n.kind is NodeKind.SCALAR)
