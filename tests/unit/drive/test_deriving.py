"""``derive``: the fastest program that a search finds, proved, written and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import decode_attention, gemm, row_sum
from pipeloom.declare.products import product
from pipeloom.drive import deriving, loop_cycles
from pipeloom.drive.certifying import Derived, Ended, Progress
from pipeloom.drive.deriving import derive, derived_key
from pipeloom.drive.loop_cycles import beside, steady_cycles
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.store import Store
from pipeloom.drive.trial import run_program
from pipeloom.errors import ConfigError, OrderError
from pipeloom.judge.simulate import simulate
from pipeloom.judge.verify import Verdict, verify
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.machine_code import simulate_emitted
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import structures, woven
from pipeloom.order.roles import Loading
from pipeloom.plain import to_plain
from pipeloom.program import Program
from pipeloom.write import assemble, emit_program

GFX950, GFX942 = target_for("gfx950"), target_for("gfx942")
SMALL = gemm(64, 64, 32)
INNER_DEPTH = ("columns", "rows", "depth")
LAST = Loading.LAST
LOWERED = lower(SMALL.meaning, GFX950, SMALL.ops, SMALL.staged, 4)


def _waiting(found: Derived, cycles: float) -> float:
    """Cycles of a kernel of 64 iterations, each of which takes so many, whatever its loop."""
    program = found.program
    counts = [program.iterations.at({"T": trips}) for trips in range(64)]
    count = min(n for n in counts if n >= 64)
    ends = simulate(program, iterations=count).total_cycles - count * found.cycles
    return ends + count * cycles


@pytest.mark.usefixtures("short_search")
def test_a_loop_that_is_shared_out_has_company(tmp_path: Path) -> None:
    """Workgroups beside each other wait for nothing but the memory, which one alone does not."""
    loop = decode_attention(16, 32, 64)
    found = derive(loop, GFX950, 1, store=Store(tmp_path))
    assert found is not None
    assert found.unit == "memory"
    assert found.bound <= found.cycles < 1.01 * found.bound
    assert beside(found.program, loop.ops) > 1
    assert steady_cycles(found.program) > 2 * found.bound


def test_where_iterations_wait_the_ends_decide(tmp_path: Path) -> None:
    loop, store = gemm(64, 64, 64), Store(tmp_path)
    found = derive(loop, GFX950, 8, store=store)
    short = derive(loop, GFX950, 8, short_ends=True, store=store)
    assert found is not None
    assert short is not None
    assert verify(short.program).proved
    assert short.tried >= found.tried
    cycles = deriving.PATIENT * found.cycles
    assert found.cycles < short.cycles <= cycles
    assert _waiting(short, cycles) < _waiting(found, cycles)


def test_a_small_tile_is_derived_to_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Progress] = []
    store = Store(tmp_path)
    found = derive(gemm(64, 64, 64), GFX950, 4, progress=told.append, store=store)
    assert found is not None
    assert found.cycles <= 1.03 * found.bound
    assert found.unit == "memory"
    assert verify(found.program).proved
    assert steady_cycles(found.program) == found.cycles
    assert [p.cycles for p in told] == sorted((p.cycles for p in told), reverse=True)
    ordered = found.program.provenance.ordered
    assert ordered is not None
    assert ordered.bound == found.bound
    searched = next(n for n in found.program.provenance.notes if n.startswith("searched"))
    assert f" {found.tried} " in searched
    assert found.unit in searched, "what ended it"
    # The second time it is read, and equal.
    told.clear()
    assert derive(gemm(64, 64, 64), GFX950, 4, progress=told.append, store=store) == found
    assert not told
    assert len(store.keys()) == 2  # with the log of the search
    # Its loop serves any number of iterations that fills the stages.
    made = derive(gemm(64, 64, 64), GFX950, 4, k_tiles=7, progress=told.append, store=store)
    assert made is not None
    assert made.pattern == found.pattern
    assert 7 in {made.program.iterations.at({"T": trips}) for trips in range(8)}
    assert not told
    # What lies under the key of another loop is not taken for it, nor what is no result at all.
    for wrong in (to_plain(found), {"program": 0}):
        store.write(derived_key(SMALL, GFX950, 4), wrong)
        monkeypatch.setattr(deriving, "_Search", stopped)
        with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="another loop"):
            derive(SMALL, GFX950, 4, store=store)


def stopped(*_: object) -> None:
    raise KeyboardInterrupt


def test_iterations_too_few_for_every_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deriving, "VARIED", 0)
    found = derive(SMALL, GFX950, 4, store=Store(tmp_path))
    assert found is not None
    ordered = found.program.provenance.ordered
    assert ordered is not None
    assert (ordered.stages or 0) > 2
    with pytest.raises(OrderError, match="fewer than"):
        derive(SMALL, GFX950, 4, k_tiles=1, store=Store(tmp_path))


def test_registers_are_counted_before_anything_is_written() -> None:
    """gfx942 has no transposed read: elements of a tile read across rows have a register each."""
    target = GFX942
    loop = product(256, 256, 64, "fp16", "fp16", layout="TN")
    with pytest.raises(OrderError, match="192 registers per lane") as raised:
        derive(loop, target, {"m": 2, "n": 4}, store=Store(None))
    assert "at most" in str(raised.value)
    loop = product(128, 128, 32, "fp16", "fp16", layout="TN")
    lowered = lower(loop.meaning, target, loop.ops, loop.staged, 4)
    assert emit_program(woven(lowered, Pattern())).text  # it fits


def test_what_no_order_of_ours_fits_names_who_has_one(tmp_path: Path) -> None:
    """Both products of an iteration add to one carry, and it is halved between them."""
    loop = Loop("halved", over="k")
    x = loop.stream("X", "bf16", m=64, k=32).staged()
    b = loop.stream("B", "bf16", n=64, k=32).staged()
    d = loop.stream("D", "bf16", n=64, k=32).staged()
    c = loop.carry("C", start=0, m=64, n=64)
    c += x @ b
    c = c.becomes(c * 0.5)
    c += x @ d
    loop.store("out", c)
    with pytest.raises(OrderError) as raised:
        derive(loop, GFX950, 8, store=Store(tmp_path))
    assert "modulo solver" in str(raised.value.hint)
    assert verify(pipeline(loop, GFX950, 8)).proved


def test_a_stopped_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    monkeypatch.setattr(deriving, "VARIED", 0)
    simulated: list[Program] = []

    def counted(program: Program, workgroups: int) -> float:
        simulated.append(program)
        if len(simulated) == 3:
            raise KeyboardInterrupt
        return 1000.0 - len(simulated)

    monkeypatch.setattr(deriving, "steady_cycles", counted)
    stopped = derive(gemm(64, 64, 32), GFX950, 4, store=store)
    assert stopped is not None
    assert not stopped.complete
    assert stopped.cycles == 998.0
    before = len(simulated)
    whole = derive(gemm(64, 64, 32), GFX950, 4, store=store)
    assert whole is not None
    assert whole.complete
    # What was tried before the stop was not tried again.
    fits = 2
    assert len(simulated) - before <= sum(1 for _ in structures(LOWERED)) - fits
    assert whole.cycles < stopped.cycles


def test_a_limit_ends_the_search_and_not_the_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is that of the limit, whether its orders are kept or not."""
    monkeypatch.setattr(deriving, "VARIED", 0)
    store, other = Store(tmp_path / "one"), Store(tmp_path / "other")
    first = derive(SMALL, GFX950, 4, orders=2, store=store)
    assert first is not None
    assert (first.ended, first.tried) == (Ended.LIMIT, 2)
    assert verify(first.program).proved
    assert first == derive(SMALL, GFX950, 4, orders=2, store=other)
    assert first.program.provenance.ordered is not None
    assert not first.program.provenance.ordered.interrupted
    more = derive(SMALL, GFX950, 4, orders=3, store=store)
    assert more is not None
    assert (more.ended, more.tried) == (Ended.LIMIT, 3)
    assert more.cycles <= first.cycles
    assert first == derive(SMALL, GFX950, 4, orders=2, store=store)
    with pytest.raises(ConfigError, match="orders"):
        derive(SMALL, GFX950, 4, orders=0, store=store)


def test_stopped_in_the_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, it comes to its end; twice, the orders are kept, and only the best is made again."""
    loop, store, stops = gemm(64, 64, 32), Store(tmp_path), 2
    simulated: list[Program] = []

    def counted(program: Program, workgroups: int = 1) -> float:
        simulated.append(program)
        return steady_cycles(program, workgroups=workgroups)

    def proof(program: Program, **options: Any) -> Verdict:
        nonlocal stops
        if stops:
            stops -= 1
            raise KeyboardInterrupt
        return verify(program, **options)

    monkeypatch.setattr(deriving, "VARIED", 0)
    for module in (deriving, loop_cycles):
        monkeypatch.setattr(module, "steady_cycles", counted)
    monkeypatch.setattr(deriving, "verify", proof)
    with pytest.raises(KeyboardInterrupt, match=deriving.KEPT):
        derive(loop, GFX950, 4, store=store)
    stops, before = 1, len(simulated)
    found = derive(loop, GFX950, 4, store=store)
    assert found is not None
    assert found.complete
    assert before > 1
    assert {again.groups for again in simulated[before:]} == {found.program.groups}


def test_stopped_before_anything_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(program: Program, **_: Any) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(deriving, "steady_cycles", stop)
    with pytest.raises(KeyboardInterrupt):
        derive(gemm(64, 64, 32), GFX950, 4, store=Store(tmp_path))


def test_what_has_no_product_is_left_to_others() -> None:
    assert derive(row_sum(), GFX950, 4) is None


@pytest.mark.parametrize(
    ("target", "shape", "waves", "pattern"),
    [
        (GFX950, (64, 64, 64), 4, Pattern(barriers=2)),
        (GFX950, (64, 64, 64), 4, Pattern(exact=True)),
        (GFX950, (128, 128, 64), 8, Pattern(groups=2, cluster=8, margin=0)),
        (GFX950, (128, 64, 64), 8, Pattern(groups=2, cluster=4, priority=True, loading=LAST)),
        (GFX942, (128, 128, 32), 4, Pattern(order=INNER_DEPTH, barriers=2, span=80)),
    ],
)
def test_written_and_run(
    target: Target, shape: tuple[int, int, int], waves: int, pattern: Pattern
) -> None:
    """What the simulator says of a program is what it says of its instructions, which may be faster
    by what the writer hides of the loop's own."""
    loop = gemm(*shape, dtype="fp16")
    program = woven(lower(loop.meaning, target, loop.ops, loop.staged, waves), pattern)
    emitted = emit_program(program)
    least = program.iterations.at(program.min_trips)
    step = sum(factor for _, factor in program.iterations.factors)
    m, n, k = shape
    trial = run_program(
        emitted, assemble(emitted), sizes={"m": m, "n": n, "k": k * (least + step)}, seed=5
    )
    assert trial.ok, trial.summary()
    trace = simulate_emitted(emitted, target, least + 6 * step)
    cycles = trace.steady_cycles_per_iteration / step
    assert 0.975 <= cycles / steady_cycles(program) <= 1.01


def test_where_a_tile_lies_is_computed_once_per_iteration() -> None:
    """Also where two streams are not loaded for the same iteration, and take turns."""
    program = woven(LOWERED, Pattern(deep=1))
    text = emit_program(program).text
    label = next(line[:-1] for line in text.splitlines() if "_loop_" in line and line[-1] == ":")
    body = text[text.index(f"{label}:") : text.index(f"s_cbranch_scc1 {label}")]
    assert body.count("s_add_i32") <= 2 * program.step
