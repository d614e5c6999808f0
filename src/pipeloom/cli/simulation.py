"""What the simulating commands share: machine, K, jitter, and what is run.

By default a schedule's ops stand for instruction counts; with ``--emitted`` the kernel is emitted
first and its own lines are run. Either way a ``Simulation`` runs for as many K tiles as asked, so
that a report can show a shorter run than it measures.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from pipeloom.cli.common import load_compiled
from pipeloom.cli.emit import Emission, emission
from pipeloom.cli.source_file import find_source, is_compiled
from pipeloom.cli.tile import given_tile, machine_of, require_tile, tile_header
from pipeloom.drive.programs import as_program, simulate
from pipeloom.errors import ConfigError, InternalError, SpecError
from pipeloom.judge.simulate import Trace
from pipeloom.judge.simulate.estimate import Estimate, GemmProblem, TileTiming, estimate_gemm
from pipeloom.judge.simulate.lower import trips_for
from pipeloom.machine.chips import MACHINES
from pipeloom.machine.target import Target
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel, kernel_for
from pipeloom.reference.lift import steps_of
from pipeloom.reference.words import tile_text
from pipeloom.write.gemm.tile import OUTPUT_BYTES

K_TILES = 32


def add_machine(parser: argparse.ArgumentParser) -> None:
    """The machine, the problem's K, jitter."""
    names = ", ".join(machine.arch for machine in MACHINES)
    parser.add_argument(
        "--arch",
        "--target",
        metavar="ARCH",
        help=f"one of {names} (default gfx950, or what the spec is derived for)",
    )
    parser.add_argument(
        "--k-tiles",
        type=int,
        metavar="N",
        help=f"K tiles to sum (default {K_TILES}, or the next number that the kernel can sum)",
    )
    parser.add_argument(
        "--jitter", type=float, default=0.0, help="stretch each load by up to this share (0)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the jitter (0)")


def add_emitted(parser: argparse.ArgumentParser) -> None:
    """``--emitted``: the real instruction stream."""
    parser.add_argument(
        "--emitted",
        action="store_true",
        help="emit the kernel and simulate its own instructions: address arithmetic, wait states, "
        "setup and the store of C included. Waits are derived anew unless --sync is given, because "
        "only proved schedules are emitted",
    )
    parser.add_argument(
        "--allow-timing",
        action="store_true",
        help="with --emitted: also emit a schedule whose verdict is TIMING",
    )


def add_problem(parser: argparse.ArgumentParser) -> None:
    """The problem for the whole-GPU estimate."""
    for name in ("m", "n", "k"):
        parser.add_argument(
            f"--{name}",
            type=int,
            metavar=name.upper(),
            help=f"{name.upper()} of a whole problem: with --m, --n and --k a model of its TFLOPS",
        )


@dataclass(frozen=True, slots=True)
class Simulation:
    """What is to be run: a schedule, or with ``emission`` the kernel emitted from it."""

    compiled: CompiledSchedule
    machine: Target
    emission: Emission | None
    header: str
    elements: str | None
    jitter: float
    seed: int

    @property
    def tile(self) -> str:
        """The tile in words."""
        return tile_text(self.compiled, self.elements)

    @property
    def program(self) -> Program:
        """What pages and tables show."""
        return as_program(self.compiled, self.kernel, self.machine)

    @property
    def kernel(self) -> Kernel:
        """How the schedule is walked."""
        return kernel_for(self.compiled)

    def run(self, k_tiles: int | None = None) -> Trace:
        """The trace over that many K tiles; by default 32, or the next number that can be."""
        kernel = self.kernel
        if k_tiles is None:
            least = max(K_TILES, kernel.tiles(kernel.min_trips))
            k_tiles = least + (kernel.tiles(0) - least) % kernel.tiles_per_iteration
        trips_for(self.program, k_tiles)
        try:
            return self._trace(kernel, k_tiles)
        except ConfigError as error:
            if not (error.field or "").endswith("iterations"):
                raise
            hint = f"use a smaller --k-tiles; the steady state needs about {K_TILES}"
            raise ConfigError(error.message, hint=hint, field="k_tiles") from error

    def _trace(self, kernel: Kernel, k_tiles: int) -> Trace:
        if self.emission is None:
            return simulate(
                self.compiled, self.machine, kernel, k_tiles, jitter=self.jitter, seed=self.seed
            )
        from pipeloom.lift import simulate_emitted

        program = self.program
        found = [(group.waves, steps_of(program, n)) for n, group in enumerate(program.groups)]
        steps = {wave: known for waves, known in found for wave in waves}
        return simulate_emitted(
            self.emission.kernel,
            self.machine,
            k_tiles,
            steps=[steps[wave] for wave in sorted(steps)],
            jitter=self.jitter,
            seed=self.seed,
        )


def prepare(arguments: argparse.Namespace, *, needs_tile: bool = True) -> Simulation:
    """What the arguments ask to simulate; a schedule that could have a tile must have one.

    Without ``needs_tile`` one may come back that has none, and cannot run.
    """
    data = find_source(arguments.source)
    machine = machine_of(arguments, data)
    found = None
    if arguments.emitted:
        found = emission(_emit_arguments(arguments, machine, as_compiled=is_compiled(data)))
        compiled = found.compiled
        header = f"emitted {found.summary()}"
    else:
        if getattr(arguments, "allow_timing", False):
            raise SpecError(
                "--allow-timing is for emitting, and any schedule can be simulated",
                hint="drop it, or add --emitted",
            )
        compiled = load_compiled(arguments)
        if needs_tile:
            require_tile(arguments, compiled)
        header = tile_header(arguments, compiled)
    elements = given_tile(arguments) if found is None else found.kernel.dtype
    return Simulation(compiled, machine, found, header, elements, arguments.jitter, arguments.seed)


def _emit_arguments(
    arguments: argparse.Namespace, machine: Target, *, as_compiled: bool
) -> argparse.Namespace:
    """The arguments of ``pipeloom emit`` that mean the same kernel."""
    tile = given_tile(arguments)
    if tile is not None and as_compiled:
        raise SpecError(
            f"{arguments.source} is a compiled schedule, which --tile cannot change",
            hint="apply --tile to its spec: pipeloom compile SPEC --tile ... -o FILE",
        )
    return argparse.Namespace(
        **{
            **vars(arguments),
            "target": machine.arch,
            "tile": None,
            "dtype": None if tile == "none" else tile,
            "out_dtype": None,
        }
    )


def estimate_of(
    arguments: argparse.Namespace, simulation: Simulation, trace: Trace
) -> Estimate | None:
    """The whole-GPU model for ``--m --n --k``; ``None`` where none of the three is given."""
    given = [getattr(arguments, name) for name in ("m", "n", "k")]
    if all(size is None for size in given):
        return None
    if any(size is None for size in given):
        raise SpecError("the whole-GPU estimate needs all of --m, --n and --k", hint="give three")
    shape = simulation.compiled.geometry
    if shape is None:
        raise InternalError("a simulated schedule has a tile shape")
    kernel = simulation.kernel
    if not trace.iterations:
        raise SpecError(
            "the whole-GPU estimate needs the loop to run, and with --k-tiles "
            f"{arguments.k_tiles} it does not",
            hint="drop --k-tiles",
            field="k_tiles",
        )
    least, step = kernel.tiles(kernel.min_trips) * shape.BK, kernel.tiles_per_iteration * shape.BK
    if min(given) > 0 and given[2] < least:
        raise SpecError(
            f"K = {given[2]} is less than the {least} that the {kernel.name} kernel sums at least",
            hint=f"use --k {least}, {least + step}, {least + 2 * step}, ...",
            field="k",
        )
    timing = TileTiming.from_trace(
        trace,
        tile_m=shape.BM,
        tile_n=shape.BN,
        k_per_iteration=kernel.tiles_per_iteration * shape.BK,
        k_outside_loop=kernel.tiles(0) * shape.BK,
    )
    emitted = simulation.emission
    problem = GemmProblem(
        given[0],
        given[1],
        given[2],
        input_bytes=shape.elem_bytes,
        output_bytes=2.0 if emitted is None else OUTPUT_BYTES[emitted.kernel.out_dtype],
    )
    return estimate_gemm(trace.machine, problem, timing)
