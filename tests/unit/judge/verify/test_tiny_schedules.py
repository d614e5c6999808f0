"""Schedules of a few words with verdicts known by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeloom import ConfigError, ScheduleError
from pipeloom.cli.main import main
from pipeloom.drive.programs import verify
from pipeloom.judge.verify import FindingKind, Status
from pipeloom.reference.kernels import EntryRun, LdsRegion, OpEffect, WaitCounter, kernel_for
from pipeloom.reference.lift import lift
from pipeloom.reference.resync import synchronize

GOOD: dict[str, str] = {
    "prologue": "load vm0 bar frag lg0 bar",
    "kernel": "load mma vm0 bar frag lg0 bar",
    "epilogue": "mma",
}
"""One buffer: load the next tile while the MMA runs on registers."""


def test_the_good_schedule_is_proved_for_every_trip_count(toy: Any) -> None:
    verdict = verify(toy.compiled(**GOOD), toy.Kernel())
    assert verdict.status is Status.PROVED
    assert verdict.findings == ()
    assert verdict.dead_work == ()
    assert verdict.coverage.repeats_from is not None
    assert verdict.coverage.period == 1
    assert verdict.summary().endswith("checked one by one, more by induction")


@pytest.mark.parametrize(
    ("phase", "line", "kind", "same_wave"),
    [
        # the vm wait is missing: nobody knows that the load has landed
        ("kernel", "load mma bar frag lg0 bar", FindingKind.RAW, None),
        # waited for, but not published: the other wave's slice may be missing
        ("kernel", "load mma vm0 frag lg0 bar", FindingKind.RAW, False),
        # published before it has landed
        ("kernel", "load mma bar vm0 frag lg0 bar", FindingKind.RAW, False),
        # the next load may land before the other wave has read
        ("kernel", "load mma vm0 bar frag lg0", FindingKind.WAR, False),
        # the read is still in flight at the barrier that lets the other wave load again
        ("kernel", "load mma vm0 bar frag bar lg0", FindingKind.WAR, False),
        # the MMA reads registers in flight
        ("kernel", "load mma vm0 bar frag bar", FindingKind.REGISTER, True),
        ("prologue", "load vm0 bar frag bar", FindingKind.REGISTER, True),
        ("prologue", "load bar frag lg0 bar", FindingKind.RAW, None),
    ],
)
def test_one_thing_wrong(
    toy: Any, phase: str, line: str, kind: FindingKind, same_wave: bool | None
) -> None:
    verdict = verify(toy.compiled(**{**GOOD, phase: line}), toy.Kernel())
    assert verdict.status is not Status.PROVED
    found = verdict.of_kind(kind)
    assert found
    if same_wave is not None:
        assert any(f.first and (f.first.wave == f.second.wave) is same_wave for f in found)


def test_order_of_two_reads_by_two_barriers_needs_no_wait_in_between(toy: Any) -> None:
    """A wait may stand far before the barrier that publishes it."""
    late = {**GOOD, "kernel": "load vm0 mma bar frag lg0 bar"}
    assert verify(toy.compiled(**late), toy.Kernel()).proved


def test_a_single_wave_needs_no_barriers(toy: Any) -> None:
    alone = {
        "prologue": "load vm0 frag lg0",
        "kernel": "load mma vm0 frag lg0",
        "epilogue": "mma",
    }
    verdict = verify(toy.compiled(**alone), toy.Kernel(waves=1))
    assert verdict.proved
    assert not verify(toy.compiled(**alone), toy.Kernel(waves=2)).proved


def test_the_lagging_wave_needs_two_barriers(toy: Any) -> None:
    """With a stagger, one barrier does not order the late wave before the early one."""
    assert not verify(toy.compiled(**GOOD), toy.Kernel(lag=True)).proved
    double = {
        "prologue": "load vm0 bar bar frag lg0 bar bar",
        "kernel": "load mma vm0 bar bar frag lg0 bar bar",
        "epilogue": "mma",
    }
    assert verify(toy.compiled(**double), toy.Kernel(lag=True)).proved


def test_timing_names_the_margin(toy: Any) -> None:
    """The read is over 20 cycles after issue, the next load lands 200 after its own."""
    verdict = verify(toy.compiled(**{**GOOD, "kernel": "load mma vm0 bar frag lg0"}), toy.Kernel())
    (finding,) = verdict.findings
    assert (finding.kind, finding.status) == (FindingKind.WAR, Status.TIMING)
    # frag at t, lg0 done at t + 20, load at once after: lands 200 later, minus the end of the read
    assert finding.margin is not None
    assert 195 <= finding.margin <= 205
    assert verdict.summary().endswith("by induction; margins from trip counts 0 to 7")
    assert verdict.status.exit_code == 3


def test_a_raw_that_latency_does_not_hide_is_a_race(toy: Any) -> None:
    verdict = verify(toy.compiled(**{**GOOD, "prologue": "load bar frag lg0 bar"}), toy.Kernel())
    assert verdict.status is Status.RACE
    assert verdict.status.exit_code == 4
    shortest = verdict.shortest()
    assert shortest is not None
    assert shortest.trips == 0
    assert shortest.counterexample is not None
    assert 3 <= len(shortest.counterexample.steps) <= 6
    assert "takes nothing yet instead of A of iteration 0" in shortest.counterexample.steps[-1].text


LOAD_USE = {
    "prologue": "",
    "kernel": "load@-1 vm0 bar frag lg0 mma bar",
    "epilogue": "load@-1 vm0 bar frag lg0 mma bar",
}
"""No pipelining: each trip loads, reads and sums one tile."""


@pytest.mark.parametrize(
    "line",
    [
        # in flight for good: it may land between lg0 and the MMA
        "load@-1 vm0 bar direct frag lg0 mma bar",
        # retired before the MMA, but maybe after the fragment that should have replaced it
        "load@-1 vm0 bar direct frag lg0 vm0 mma bar",
    ],
)
def test_an_older_load_of_a_register_on_another_counter_is_found(toy: Any, line: str) -> None:
    assert verify(toy.compiled(**LOAD_USE), toy.Kernel()).proved
    verdict = verify(toy.compiled(**{**LOAD_USE, "kernel": line}), toy.Kernel())
    assert verdict.status is Status.RACE
    assert {f.kind for f in verdict.findings} == {FindingKind.REGISTER}
    finding = verdict.findings[0]
    assert finding.first is not None
    assert (finding.first.entry, finding.second.entry) == ("loop[3]", "loop[4]")
    assert "does not wait for it before" in finding.why
    assert finding.counterexample is not None
    assert "lands over it" in finding.counterexample.steps[2].text
    assert "instead of" in finding.counterexample.steps[3].text


def test_an_older_load_of_a_register_that_has_retired_is_harmless(toy: Any) -> None:
    line = "load@-1 direct@-1 vm0 bar frag lg0 mma bar"
    verdict = verify(toy.compiled(**{**LOAD_USE, "kernel": line}), toy.Kernel())
    assert verdict.proved
    assert [(d.slot, d.always) for d in verdict.dead_work] == [(1, True)]


def test_an_older_load_of_the_same_value_must_have_landed_too(toy: Any) -> None:
    """Registers are undefined while a load is in flight, whatever it brings."""
    line = "load@-1 vm0 bar direct@-1 frag lg0 mma bar"
    verdict = verify(toy.compiled(**{**LOAD_USE, "kernel": line}), toy.Kernel())
    assert {f.kind for f in verdict.findings} == {FindingKind.REGISTER}


def test_a_counter_retires_in_order_but_does_not_land_in_order(toy: Any) -> None:
    """Both are in flight together: the older fragment may be the last to write the register."""
    line = "load@-1 vm0 bar frag1 frag lg0 mma bar"
    verdict = verify(toy.compiled(**{**LOAD_USE, "kernel": line}), toy.Kernel())
    assert {f.kind for f in verdict.findings} == {FindingKind.REGISTER}
    line = "load@-1 vm0 bar frag1 lg0 frag lg0 mma bar"
    assert verify(toy.compiled(**{**LOAD_USE, "kernel": line}), toy.Kernel()).proved


def test_reading_twice_is_an_accounting_error(toy: Any) -> None:
    """The kernel never loads: every iteration sums tile 0 again."""
    verdict = verify(
        toy.compiled("load vm0 bar frag lg0 bar", "mma bar frag lg0 bar", "mma"), toy.Kernel()
    )
    kinds = {f.kind for f in verdict.findings}
    assert kinds == {FindingKind.ACCOUNTING}
    assert verdict.status is Status.RACE
    assert "always A of iteration 0" in verdict.findings[0].why


def test_a_missing_mma_is_an_accounting_error(toy: Any) -> None:
    verdict = verify(toy.compiled(**{**GOOD, "epilogue": "bar"}), toy.Kernel())
    assert {f.kind for f in verdict.findings} == {FindingKind.ACCOUNTING}


def test_an_mma_on_registers_that_nothing_loads(toy: Any) -> None:
    verdict = verify(toy.compiled("mma load vm0 bar", "load mma", "frag lg0"), toy.Kernel())
    register = verdict.of_kind(FindingKind.REGISTER)
    assert any(f.first is None and "nothing has loaded" in f.why for f in register)


def test_dead_fragments_and_loads_are_dead_work_not_hazards(toy: Any) -> None:
    """The last fragment reads a stage that is being loaded; no MMA takes it."""
    wasteful = {**GOOD, "epilogue": "load1 mma frag1 frag"}
    verdict = verify(toy.compiled(**wasteful), toy.Kernel())
    assert verdict.proved
    assert [(d.section, d.slot, d.always) for d in verdict.dead_work] == [
        ("epilogue", 0, True),
        ("epilogue", 2, True),
        ("epilogue", 3, True),
    ]
    assert "no output depends on it" in str(verdict.dead_work[1])


def test_two_loads_of_the_same_tile_are_harmless(toy: Any) -> None:
    """Both write the same data, so it does not matter which lands last."""
    twice = {**GOOD, "prologue": "load load vm0 bar frag lg0 bar"}
    assert verify(toy.compiled(**twice), toy.Kernel()).proved


def test_an_older_load_landing_late_is_a_hazard(toy: Any) -> None:
    """load@1 brings tile 1 and is dead; it may land after the load of tile 0 that follows it.

    The second load is waited for alone only if the first has retired; here both are in flight
    together, so even though both are waited for, either may be last.
    """
    verdict = verify(
        toy.compiled("load@1 load vm0 bar frag lg0 bar", GOOD["kernel"], "mma"), toy.Kernel()
    )
    assert [f.kind for f in verdict.findings] == [FindingKind.WAR]
    (finding,) = verdict.findings
    assert finding.first is not None
    assert (finding.first.entry, finding.second.entry) == ("prologue[0]", "prologue[1]")


def test_a_full_counter_orders_nothing_unless_it_is_assumed_to_stall(toy: Any) -> None:
    """63 entries in flight: with a stall the 64th load issues only when the first has landed."""

    def proved(loads: int, wait: str = "", counter_stall: bool | None = None) -> bool:
        fill = " ".join(["load1"] * loads)
        compiled = toy.compiled(**{**GOOD, "prologue": f"load {fill} {wait} bar frag lg0 bar"})
        return verify(compiled, toy.Kernel(), counter_stall=counter_stall).proved

    assert not proved(63)
    assert not proved(200)
    assert not proved(200, "vm63")
    assert proved(200, "vm62")
    assert proved(63, counter_stall=True)
    assert not proved(62, counter_stall=True)


def test_the_command_assumes_a_stall_when_asked(
    toy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = f"load {' '.join(['load1'] * 63)} bar frag lg0 bar"
    file = tmp_path / "full.json"
    program = lift(toy.compiled(**{**GOOD, "prologue": full}), toy.Kernel())
    file.write_text(program.to_json(), encoding="utf-8")
    assert main(["verify", str(file)]) in (3, 4)
    assert main(["verify", str(file), "--counter-stall"]) == 0
    assert "PROVED" in capsys.readouterr().out


def test_stores_that_nobody_reads_or_waits_for_pile_up_and_are_decided(toy: Any) -> None:
    """Their number grows for ever, but the future does not depend on it beyond the limit."""

    class Storing(toy.Kernel):  # type: ignore[misc]
        """``frag`` stores A0 to LDS instead."""

        def effect(self, step: EntryRun, wave: int) -> OpEffect:
            effect: OpEffect = super().effect(step, wave)
            if not effect.lds_reads:
                return effect
            read = effect.register_writes
            return OpEffect(
                WaitCounter.LGKM, 1, register_reads=read, lds_writes=(LdsRegion("A", 0, 0),)
            )

    compiled = toy.compiled(
        prologue="direct vm0 frag", kernel="mma direct vm0 frag bar", epilogue="mma"
    )
    verdict = verify(compiled, Storing())
    assert verdict.proved
    assert verdict.coverage.period == 1


def test_a_wait_that_cannot_be_encoded_is_no_wait(toy: Any) -> None:
    verdict = verify(
        toy.compiled(**{**GOOD, "kernel": "load mma vm0 lg16 bar frag lg0 bar"}), toy.Kernel()
    )
    assert verdict.proved
    (note,) = verdict.findings
    assert (note.kind, note.status) == (FindingKind.ENCODING, Status.PROVED)
    assert "holds at most 15: a wait for 16 is no wait" in note.why
    assert verdict.summary().startswith("PROVED (1 wait that no counter can hold): toy; ")
    harmful = verify(
        toy.compiled(**{**GOOD, "kernel": "load mma vm64 bar frag lg0 bar"}), toy.Kernel()
    )
    assert {f.kind for f in harmful.findings} >= {FindingKind.ENCODING, FindingKind.RAW}
    assert harmful.status is not Status.PROVED
    largest = {**GOOD, "kernel": "load mma vm63 bar frag lg0 bar"}  # all ones: do not wait
    assert {f.kind for f in verify(toy.compiled(**largest), toy.Kernel()).findings} == {
        f.kind for f in harmful.findings if f.kind is not FindingKind.ENCODING
    }
    twice = {**GOOD, "kernel": "load mma vm64 bar frag lg16 bar"}
    summary = verify(toy.compiled(**twice), toy.Kernel()).summary()
    assert "RACE, " in summary
    assert ", 2 waits that no counter can hold): toy; " in summary


def test_uneven_barriers_hang(toy: Any) -> None:
    kernel = toy.Kernel(lag=True)
    kernel.uneven = True
    verdict = verify(toy.compiled(**GOOD), kernel)
    assert verdict.status is Status.RACE
    assert [f.kind for f in verdict.findings] == [FindingKind.BARRIER]
    assert "it waits forever" in verdict.findings[0].why


def test_verdict_survives_json(toy: Any) -> None:
    verdict = verify(toy.compiled(**{**GOOD, "kernel": "load mma bar frag lg0 bar"}), toy.Kernel())
    plain = json.loads(json.dumps(verdict.to_dict()))
    assert plain["status"] in ("race", "timing")
    assert plain["findings"][0]["counterexample"]["replay"]["trips"] >= 0


def test_rejections(toy: Any) -> None:
    with pytest.raises(ScheduleError, match="multiplies 0 operands"):
        verify(toy.compiled("bar"), toy.Kernel())
    with pytest.raises(ConfigError, match="entries is 0, but must be at least 1"):
        verify(toy.compiled(**GOOD), toy.Kernel(vm=0))


def test_arguments_of_the_wrong_type(toy: Any) -> None:
    call: Any = synchronize
    for wrong in (3, None, "ping_pong"):
        message = f"synchronize.compiled is {wrong!r}, but must be of type CompiledSchedule"
        with pytest.raises(ConfigError, match=message):
            call(wrong)
    with pytest.raises(ConfigError, match=r"synchronize\.kernel is 3, but must be of type Kernel"):
        call(toy.compiled(**GOOD), kernel=3)
    with pytest.raises(ConfigError, match=r"as_program\.kernel is 3, but must be of type Kernel"):
        verify(toy.compiled(**GOOD), 3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"kernel_for\.compiled is 3, but must be of type"):
        kernel_for(3)  # type: ignore[arg-type]
