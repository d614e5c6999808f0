"""Kernels that time themselves: the same loop, the same results, and a record that adds up."""

from __future__ import annotations

import numpy as np
import pytest

from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.sources import Source
from pipeloom.drive.trial import run_program
from pipeloom.drive.witnessing import emitted_witness
from pipeloom.errors import ConfigError
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.occupancy import Resources
from pipeloom.machine_code import simulate_emitted
from pipeloom.write import EmitError, EmittedKernel, assemble, launch_record
from pipeloom.write.isa import Instruction, Label
from pipeloom.write.lower.wave_clocks import (
    AFTER,
    BEGIN,
    END,
    HW_ID,
    LEFT,
    LOOP,
    RECORD_WORDS,
    STEP,
    XCC_ID,
    TimingRecord,
    WaveClocks,
)
from pipeloom.write.timings import read_timings

SIZES = {"m": 130, "n": 256, "k": 512}
CLOCKS = ("s_memtime", "s_memrealtime")


def emitted(name: str, *, timed: bool) -> EmittedKernel:
    return emit(EmitJob(Source(name, dtype="bf16"), timed=timed)).kernel


@pytest.fixture(scope="module", params=["single_buffer", "ping_pong"])
def pair(request: pytest.FixtureRequest) -> tuple[EmittedKernel, EmittedKernel]:
    return emitted(request.param, timed=False), emitted(request.param, timed=True)


@pytest.fixture(scope="module")
def timed() -> EmittedKernel:
    return emitted("single_buffer", timed=True)


def loops(kernel: EmittedKernel) -> list[list[str]]:
    """What stands between the label of each loop and the branch back, as it is printed."""
    places = {line.name: at for at, line in enumerate(kernel.lines) if isinstance(line, Label)}
    return [
        [str(one) for one in kernel.lines[places[line.target] : at + 1]]
        for at, line in enumerate(kernel.lines)
        if isinstance(line, Instruction) and line.target and places[line.target] < at
    ]


def test_the_loop_is_the_same(pair: tuple[EmittedKernel, EmittedKernel]) -> None:
    plain, timed = pair
    assert loops(plain)
    assert loops(timed) == loops(plain)
    assert timed.status is plain.status


def test_the_kernel_s_own_instructions_are_the_same_in_order(
    pair: tuple[EmittedKernel, EmittedKernel],
) -> None:
    """What a timed kernel has more can be struck out, and the plain one is left."""
    plain, timed = ([str(x) for x in k.lines if isinstance(x, Instruction)] for k in pair)
    rest = iter(timed)
    assert all(line in rest for line in plain)


def test_every_clock_is_waited_for_alone(pair: tuple[EmittedKernel, EmittedKernel]) -> None:
    lines = [x for x in pair[1].lines if isinstance(x, Instruction)]
    at = [n for n, line in enumerate(lines) if line.opcode.name in CLOCKS]
    groups = len({line.provenance.group for line in lines if line.provenance is not None})
    assert len(at) == 2 + 4 * groups
    for n in at:
        after = lines[n : n + 8]
        wait = next(line for line in after if line.opcode.name == "s_waitcnt")
        between = after[1 : after.index(wait)]
        assert "lgkmcnt(0)" in wait.modifiers
        assert not any(set(line.reads) & set(lines[n].writes) for line in between)


def test_results_are_right_and_the_record_adds_up(timed: EmittedKernel) -> None:
    trial = run_program(timed, assemble(timed), sizes=SIZES, seed=1)
    assert trial.ok, trial.summary()
    timings = trial.timings
    assert timings is not None
    x, y, z = timed.launch.grid(SIZES)
    assert len(timings.words) == x * y * z * timed.waves
    assert (timings.prologue + timings.loop + timings.epilogue == timings.total).all()
    assert (timings.prologue > 0).all()
    assert (timings.epilogue > 0).all()
    trips = (SIZES["k"] - timed.k_min) // timed.k_step + simulated_trips(timed, timed.k_min)
    assert set(timings.trips.tolist()) == {trips}
    assert timings.cycles_per_trip > 0


def simulated_trips(kernel: EmittedKernel, k: int) -> int:
    """Trips of the loop by the simulator's own walk through the lines."""
    return simulate_emitted(kernel, k_tiles=k // kernel.launch.tiles["k"]).iterations


def test_machine_code_is_proved_like_any_other(timed: EmittedKernel) -> None:
    assert emitted_witness(timed)["verdict"] == "proved"


def test_the_clocks_cost_the_loop_nothing_in_the_model(
    pair: tuple[EmittedKernel, EmittedKernel],
) -> None:
    plain, timed = (simulate_emitted(kernel) for kernel in pair)
    assert timed.steady_cycles_per_iteration == plain.steady_cycles_per_iteration


def test_the_launch_record_names_what_must_be_passed(timed: EmittedKernel) -> None:
    record = launch_record(timed)
    arguments = {one["name"]: one for one in record["arguments"]}
    told = record["timing"]
    assert arguments[told["pointer"]]["kind"] == "pointer"
    assert {arguments[told[name]]["kind"] for name in ("grid_x", "grid_y")} == {"value"}
    assert told["words"] == RECORD_WORDS
    assert timed.timing is not None
    assert timed.timing.bytes((2, 3, 1)) == 4 * RECORD_WORDS * timed.waves * 6
    assert "timing" not in launch_record(emitted("single_buffer", timed=False))


def record(**words: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    found = np.zeros(RECORD_WORDS, np.uint32)
    for name, at in (("begin", BEGIN), ("loop", LOOP), ("after", AFTER), ("end", END)):
        found[at], found[at + 1] = words[name] & 0xFFFFFFFF, words[name] >> 32
    found[8], found[10] = words["ticks_begin"], words["ticks_end"]
    found[HW_ID], found[XCC_ID] = words["hw"], words["xcc"]
    found[LEFT], found[STEP] = words["left"], words["step"]
    return found


def test_a_record_is_read_as_the_hardware_writes_it() -> None:
    base = 5 << 32
    one = record(
        begin=base - 100, loop=base + 900, after=base + 4900, end=base + 6900,
        ticks_begin=10, ticks_end=360, hw=(7 << 8) | (2 << 13) | (1 << 4), xcc=3,
        left=640, step=128,
    )  # fmt: skip
    none = record(
        begin=base, loop=0, after=base + 10, end=base + 20,
        ticks_begin=12, ticks_end=13, hw=0, xcc=1, left=0, step=0,
    )  # fmt: skip
    timings = read_timings(np.concatenate([one, none]), TimingRecord(waves=1))
    assert timings.trips.tolist() == [5, 0]
    assert timings.cycles_per_trip == 800.0
    assert timings.prologue.tolist() == [1000, 10]
    assert timings.epilogue.tolist() == [2000, 10]
    assert dict(timings.placement) == {(1, 0, 0): 1, (3, 2, 7): 1}
    assert timings.microseconds == pytest.approx(3.5)
    # 7000 cycles in 350 ticks of 10 ns, and 20 cycles in one.
    assert timings.clock_mhz == pytest.approx(2000.0)


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(ConfigError, match="no records"):
        read_timings(np.zeros(5, np.uint32), TimingRecord(waves=4))
    with pytest.raises(ConfigError, match="stored no record"):
        read_timings(np.zeros(RECORD_WORDS * 4, np.uint32), TimingRecord(waves=4))


@pytest.mark.parametrize(("vgprs", "agprs", "sgprs"), [(256, 0, 40), (100, 0, 102), (132, 124, 40)])
def test_a_kernel_without_room_is_refused(vgprs: int, agprs: int, sgprs: int) -> None:
    full = Resources(vgprs, agprs, sgprs, 0, 8, GFX950)
    with pytest.raises(EmitError, match="would need") as caught:
        WaveClocks(full, (), 2).resources()
    assert caught.value.field == "timed"
