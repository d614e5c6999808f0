"""What the emulator punishes: missing waits and barriers, poison, races, mismatched barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.judge.emulate import DefectKind, Directed, RunResult, Timing

Words = npt.NDArray[np.uint32]

POINTERS = """
      s_load_dwordx4 s[4:7], s[0:1], 0x0
      s_waitcnt lgkmcnt(0)
      v_lshlrev_b32 v1, 2, v0
"""


def kinds(run: RunResult) -> list[DefectKind]:
    return [f.kind for f in run.findings]


@pytest.mark.parametrize("timing", list(Timing))
@pytest.mark.parametrize("seed", range(3))
class TestMissingWaits:
    """Whatever the timing and the seed, a missing wait is found in one run."""

    def test_vmcnt(self, bench: Any, timing: Timing, seed: int) -> None:
        body = f"""{POINTERS}
          global_load_dword v4, v1, s[4:5]
          global_load_dword v5, v1, s[4:5]
          s_waitcnt vmcnt(1)
          v_add_u32 v6, v4, v4
          v_add_u32 v6, v5, v5
          s_endpgm"""
        data = np.zeros(64, np.uint32)
        run = bench.launch(body, [data, data.copy()], timing=timing, seed=seed)
        (finding,) = run.findings
        assert finding.kind is DefectKind.IN_FLIGHT_READ
        assert finding.instruction == "v_add_u32"
        assert "reads v5, but global_load_dword at pc" in finding.message
        assert finding.message.endswith("is still outstanding (vmcnt)")

    def test_lgkmcnt(self, bench: Any, timing: Timing, seed: int) -> None:
        body = """
          v_lshlrev_b32 v20, 2, v0
          ds_write_b32 v20, v0
          ds_read_b32 v21, v20
          ds_read_b32 v22, v20
          s_waitcnt lgkmcnt(1)
          v_add_u32 v23, v21, v22"""
        _, run = bench.registers(body, [], [], lds=256, timing=timing, seed=seed)
        (finding,) = run.findings
        assert finding.kind is DefectKind.IN_FLIGHT_READ
        assert "reads v22, but ds_read_b32" in finding.message

    def test_scalar_loads_return_out_of_order(self, bench: Any, timing: Timing, seed: int) -> None:
        """lgkmcnt(1) after two s_loads promises nothing about the first."""
        body = """
          s_load_dwordx2 s[4:5], s[0:1], 0x0
          s_load_dwordx2 s[6:7], s[0:1], 0x8
          s_waitcnt lgkmcnt(1)
          s_add_u32 s8, s4, s4
          s_endpgm"""
        data = np.zeros(4, np.uint32)
        run = bench.launch(body, [data, data.copy()], timing=timing, seed=seed)
        (finding,) = run.findings
        assert "reads s4, but s_load_dwordx2" in finding.message

    def test_store_of_a_register_in_flight(self, bench: Any, timing: Timing, seed: int) -> None:
        body = f"""{POINTERS}
          global_load_dword v4, v1, s[4:5]
          global_store_dword v1, v4, s[6:7]
          s_endpgm"""
        data = np.zeros(64, np.uint32)
        run = bench.launch(body, [data, data.copy()], timing=timing, seed=seed)
        assert kinds(run) == [DefectKind.IN_FLIGHT_READ]

    def test_overwriting_a_destination_in_flight(
        self, bench: Any, timing: Timing, seed: int
    ) -> None:
        body = f"""{POINTERS}
          global_load_dword v4, v1, s[4:5]
          v_mov_b32 v4, 0
          s_endpgm"""
        data = np.zeros(64, np.uint32)
        run = bench.launch(body, [data, data.copy()], timing=timing, seed=seed)
        (finding,) = run.findings
        assert finding.kind is DefectKind.IN_FLIGHT_WRITE
        assert "writes v4, but global_load_dword" in finding.message

    def test_mfma_operand_in_flight(self, bench: Any, timing: Timing, seed: int) -> None:
        body = """
          v_lshlrev_b32 v20, 4, v0
          v_mov_b32 v24, 0
          v_mov_b32 v25, 0
          v_mov_b32 v26, 0
          v_mov_b32 v27, 0
          ds_write_b128 v20, v[24:27]
          ds_read_b128 v[28:31], v20
          v_mfma_f32_16x16x32_bf16 v[96:99], v[28:31], v[24:27], 0"""
        _, run = bench.registers(body, [], [], lds=1024, timing=timing, seed=seed)
        assert kinds(run) == [DefectKind.IN_FLIGHT_READ]
        assert run.findings[0].instruction == "v_mfma_f32_16x16x32_bf16"

    def test_lds_dma_needs_its_own_wait(self, bench: Any, timing: Timing, seed: int) -> None:
        """A ds_read of the same wave is not ordered after a load into LDS without vmcnt."""
        body = f"""{POINTERS}
          s_mov_b32 m0, 0
          s_nop 0
          global_load_lds_dword v1, s[4:5]
          ds_read_b32 v4, v1
          s_waitcnt lgkmcnt(0)
          global_store_dword v1, v4, s[6:7]
          s_endpgm"""
        data = np.ones(64, np.uint32)
        run = bench.launch(body, [data, data.copy()], lds=256, timing=timing, seed=seed)
        assert kinds(run) == [DefectKind.POISON_READ]
        assert "in a race with global_load_lds_dword of wave 0" in run.findings[0].message

    def test_dma_over_an_unfinished_read(self, bench: Any, timing: Timing, seed: int) -> None:
        body = f"""{POINTERS}
          s_mov_b32 m0, 0
          ds_write_b32 v1, v0
          s_waitcnt lgkmcnt(0)
          ds_read_b32 v4, v1
          global_load_lds_dword v1, s[4:5]
          s_waitcnt vmcnt(0) lgkmcnt(0)
          s_endpgm"""
        data = np.ones(64, np.uint32)
        run = bench.launch(body, [data, data.copy()], lds=256, timing=timing, seed=seed)
        assert kinds(run) == [DefectKind.LDS_RACE]
        assert "writes LDS that ds_read_b32 of wave 0" in run.findings[0].message


EXCHANGE = """
      s_load_dwordx4 s[4:7], s[0:1], 0x0
      s_waitcnt lgkmcnt(0)
      v_lshlrev_b32 v1, 2, v0
      v_xor_b32 v2, 64, v0
      v_lshlrev_b32 v2, 2, v2
      ds_write_b32 v1, v0
      {publish}
      ds_read_b32 v4, v2
      {drain}
      ds_write_b32 v1, v2
      s_waitcnt lgkmcnt(0)
      v_add_u32 v5, 0, v4
      global_store_dword v1, v5, s[6:7]
      s_endpgm"""
RACES = {DefectKind.POISON_READ, DefectKind.LDS_RACE}
PUBLISH = "s_waitcnt lgkmcnt(0)\ns_barrier"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("publish", "drain", "wanted"),
    [
        (PUBLISH, PUBLISH, set()),
        ("s_barrier", PUBLISH, RACES),
        ("s_waitcnt lgkmcnt(0)", PUBLISH, RACES),
        (
            "s_barrier\ns_waitcnt lgkmcnt(0)",
            PUBLISH,
            RACES,
        ),
        (PUBLISH, "s_waitcnt lgkmcnt(0)", RACES),
        (
            PUBLISH,
            "s_barrier\ns_waitcnt lgkmcnt(0)",
            RACES,
        ),
    ],
    ids=["ok", "no wait", "no barrier", "late wait", "no second barrier", "late drain"],
)
def test_exchange_between_waves(
    bench: Any, seed: int, publish: str, drain: str, wanted: set[DefectKind]
) -> None:
    """Two waves swap values through LDS, then overwrite them: both orders need wait + barrier."""
    out = np.zeros(128, np.uint32)
    body = EXCHANGE.format(publish=publish, drain=drain)
    run = bench.launch(body, [np.zeros(1, np.uint32), out], waves=2, lds=512, seed=seed)
    if not wanted:
        assert run.ok, [str(f) for f in run.findings]
        np.testing.assert_array_equal(out, np.arange(128) ^ 64)
    else:
        assert run.findings
        assert set(kinds(run)) <= wanted


def test_replicated_stores_do_not_race(bench: Any) -> None:
    """Both waves write the same value to the same bytes: no defect. Different values are one."""
    body = """
      v_and_b32 v20, 63, v0
      v_lshlrev_b32 v21, 2, v20
      ds_write_b32 v21, {data}
      s_waitcnt lgkmcnt(0)
      s_barrier
      s_endpgm"""
    args = [np.zeros(1, np.uint32)]
    same = bench.launch(body.format(data="v20"), args, waves=2, lds=256)
    assert same.ok
    other = bench.launch(body.format(data="v0"), args, waves=2, lds=256)
    assert kinds(other) == [DefectKind.LDS_RACE]


def test_race_checks_can_be_turned_off(bench: Any) -> None:
    body = EXCHANGE.format(publish=PUBLISH, drain="s_waitcnt lgkmcnt(0)")
    out = np.zeros(128, np.uint32)
    run = bench.launch(
        body, [np.zeros(1, np.uint32), out], waves=2, lds=512, check_races=False, timing="early"
    )
    assert DefectKind.LDS_RACE not in kinds(run)


def test_what_a_race_does_depends_on_the_seed(bench: Any) -> None:
    """With the check off, the data show the race under some seeds and hide it under others."""
    body = EXCHANGE.format(publish=PUBLISH, drain="s_waitcnt lgkmcnt(0)")
    good = 0
    for seed in range(24):
        out = np.zeros(128, np.uint32)
        args = [np.zeros(1, np.uint32), out]
        bench.launch(body, args, waves=2, lds=512, check_races=False, seed=seed)
        good += int(np.array_equal(out, np.arange(128) ^ 64))
    assert 0 < good < 24


class TestPoison:
    def test_uninitialised_vector_register(self, bench: Any) -> None:
        _, run = bench.registers("v_add_u32 v20, v77, v0", [], [])
        (finding,) = run.findings
        assert finding.kind is DefectKind.POISON_READ
        assert finding.message == "uses v77 in 64 lanes: never written"

    def test_uninitialised_scalar_and_mask(self, bench: Any) -> None:
        _, run = bench.registers("s_add_u32 s40, s60, 1\nv_cndmask_b32 v20, 0, 1, vcc", [], [])
        assert [f.message for f in run.findings] == [
            "uses s60: never written",
            "uses vcc_lo: never written",
        ]

    def test_uninitialised_accumulator(self, bench: Any) -> None:
        _, run = bench.registers("v_accvgpr_read_b32 v20, a3\nv_not_b32 v20, v20", [], [])
        assert [(f.instruction, f.kind) for f in run.findings] == [
            ("v_not_b32", DefectKind.POISON_READ)
        ]

    def test_lanes_that_exec_disables_do_not_count(self, bench: Any) -> None:
        body = """
          s_mov_b64 exec, 0xff
          v_mov_b32 v20, 1
          v_add_u32 v21, v20, v20
          s_mov_b64 exec, -1
          v_add_u32 v22, v20, v20"""
        _, run = bench.registers(body, [], [])
        (finding,) = run.findings
        assert finding.message == "uses v20 in 56 lanes: never written"

    def test_a_select_reads_only_the_side_it_picks(self, bench: Any) -> None:
        body = """
          s_mov_b64 vcc, 0xff
          v_mov_b32 v20, 7
          v_cndmask_b32 v21, v99, v20, vcc
          s_mov_b64 exec, 0xff
          v_add_u32 v22, v21, v21
          s_mov_b64 exec, -1"""
        _, run = bench.registers(body, [], [])
        assert run.ok
        _, used = bench.registers(body + "\nv_add_u32 v22, v21, v21", [], [])
        assert [f.message for f in used.findings] == ["uses v21 in 56 lanes: never written"]

    def test_copies_carry_poison_to_its_use(self, bench: Any) -> None:
        body = """
          v_mov_b32 v20, v77
          v_accvgpr_write_b32 a0, v20
          v_accvgpr_read_b32 v21, a0
          scratch_store_dword off, v21, off
          scratch_load_dword v22, off, off
          s_waitcnt vmcnt(0)
          v_mov_b32_dpp v23, v22 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf
          v_readfirstlane_b32 s40, v23
          s_mov_b32 s41, s40
          s_add_u32 s42, s41, 1"""
        _, run = bench.registers(body, [], [], scratch=16)
        assert [(f.instruction, f.message) for f in run.findings] == [
            ("s_add_u32", "uses s41: never written")
        ]

    def test_one_defect_gives_one_finding(self, bench: Any) -> None:
        body = "\n".join(["v_add_u32 v20, v77, v0"] * 5 + ["v_add_u32 v21, v20, v20"])
        _, run = bench.registers(body, [], [])
        assert len(run.findings) == 1


class TestHostileKernels:
    """Whatever a kernel does, the run ends in findings or one of our errors."""

    def test_garbage_pointers(self, bench: Any) -> None:
        body = """
          s_load_dwordx2 s[4:5], s[60:61], 0x10
          s_waitcnt lgkmcnt(0)
          global_load_dword v4, v[70:71], off offset:-8
          global_load_dword v5, v0, s[62:63]
          global_store_dword v[72:73], v0, off
          ds_read_b32 v7, v75
          ds_write_b32 v76, v0
          s_mov_b32 m0, s71
          global_load_lds_dword v77, s[62:63]
          s_waitcnt vmcnt(0) lgkmcnt(0)
          buffer_load_dword v6, v74, s[64:67], s70 offen
          s_endpgm"""
        run = bench.launch(body, [np.zeros(1, np.uint32)], lds=256, max_findings=100)
        assert "swizzled buffer descriptor" in run.stopped
        assert {DefectKind.POISON_READ, DefectKind.OUT_OF_BOUNDS} <= set(kinds(run))

    def test_no_active_lanes(self, bench: Any) -> None:
        body = f"""{POINTERS}
          s_mov_b32 m0, 0
          s_mov_b64 exec, 0
          global_load_dwordx4 v[8:11], v1, s[4:5]
          global_store_dwordx2 v1, v[8:9], s[6:7]
          global_atomic_add v1, v0, s[6:7]
          global_load_lds_dwordx4 v1, s[4:5]
          ds_read_b128 v[12:15], v1
          ds_write_b64 v1, v[12:13]
          ds_bpermute_b32 v16, v1, v0
          v_add_u32 v17, v99, v99
          v_cmp_eq_u32 vcc, v99, v98
          s_waitcnt vmcnt(0) lgkmcnt(0)
          s_cbranch_vccnz broken
          s_endpgm
        broken:
          s_trap 2"""
        data, out = np.zeros(64, np.uint32), np.full(64, 3, np.uint32)
        run = bench.launch(body, [data, out], lds=256)
        assert run.ok, [str(f) for f in run.findings]
        assert (out == 3).all()


class TestBarriers:
    def test_staggered_waves_meet_at_the_nth_barrier(self, bench: Any) -> None:
        """Wave 1 takes one more barrier early, wave 0 one more late: counts agree."""
        body = """
          v_readfirstlane_b32 s40, v0
          s_cmp_lt_u32 s40, 64
          s_cbranch_scc1 zero
          s_barrier
        zero:
          s_barrier
          s_barrier
          s_cmp_ge_u32 s40, 64
          s_cbranch_scc1 done
          s_barrier
        done:
          s_endpgm"""
        assert bench.launch(body, [np.zeros(1, np.uint32)], waves=2).ok

    def test_mismatch(self, bench: Any) -> None:
        body = """
          v_readfirstlane_b32 s40, v0
          s_barrier
          s_cmp_lt_u32 s40, 64
          s_cbranch_scc1 done
          s_barrier
        done:
          s_endpgm"""
        run = bench.launch(body, [np.zeros(1, np.uint32)], waves=3)
        (finding,) = run.findings
        assert finding.kind is DefectKind.BARRIER_MISMATCH
        wanted = "2 of 3 waves wait at their barrier 2, but wave 0 ended after 1"
        assert finding.message == wanted


class TestRuns:
    BODY = EXCHANGE.format(publish="s_barrier", drain=PUBLISH)

    def test_same_seed_same_run(self, bench: Any) -> None:
        def once() -> tuple[Any, ...]:
            out = np.zeros(128, np.uint32)
            args = [np.zeros(1, np.uint32), out]
            run = bench.launch(self.BODY, args, waves=2, lds=512, seed=11)
            return run.findings, dict(run.instructions), out.tolist()

        assert once() == once()

    def test_max_findings_ends_the_run(self, bench: Any) -> None:
        body = "v_add_u32 v20, v70, v0\nv_add_u32 v20, v71, v0\nv_add_u32 v20, v72, v0"
        _, run = bench.registers(body, [], [], max_findings=2)
        assert len(run.findings) == 2
        assert run.stopped == "max_findings=2 reached"
        assert not run.complete
        assert not run.ok

    def test_counts_executed_instructions(self, bench: Any) -> None:
        body = "s_nop 0\ns_nop 0\ns_barrier\ns_endpgm"
        run = bench.launch(body, [np.zeros(1, np.uint32)], waves=2, grid=(3,))
        assert dict(run.instructions) == {"s_barrier": 6, "s_endpgm": 6, "s_nop": 12}
        assert run.executed == 24

    def test_trap_is_a_finding(self, bench: Any) -> None:
        run = bench.launch("s_trap 2\ns_endpgm", [np.zeros(1, np.uint32)])
        assert kinds(run) == [DefectKind.TRAP]

    def test_a_full_counter_retires_nothing(self, bench: Any) -> None:
        """70 loads and no wait: none of them is known to be complete. All ones is no wait."""
        loads = "\n".join(f"global_load_dword v{20 + i}, v1, s[4:5]" for i in range(70))
        data = np.zeros(64, np.uint32)
        for wait, unknown in (("", 4), ("s_waitcnt vmcnt(63)", 4), ("s_waitcnt vmcnt(62)", 2)):
            uses = "\n".join(f"v_add_u32 v10, v{v}, v{v}" for v in (20, 27, 28, 89))
            body = f"{POINTERS}{loads}\n{wait}\n{uses}\ns_endpgm"
            run = bench.launch(body, [data, data.copy()], timing="early")
            assert kinds(run) == [DefectKind.IN_FLIGHT_READ] * unknown

    def test_a_full_counter_stalls_where_that_is_assumed(self, bench: Any) -> None:
        """70 loads: the first seven are complete by the time the last has issued."""
        loads = "\n".join(f"global_load_dword v{20 + i}, v1, s[4:5]" for i in range(70))
        body = f"{POINTERS}{loads}\nv_add_u32 v10, v20, v26\nv_add_u32 v10, v27, v27\ns_endpgm"
        data = np.zeros(64, np.uint32)
        run = bench.launch(body, [data, data.copy()], timing="late", counter_stall=True)
        (finding,) = run.findings
        assert "reads v27" in finding.message


@pytest.mark.parametrize("slow", [0, 1])
def test_a_directed_timing_decides_a_race(bench: Any, slow: int) -> None:
    """Both waves write the same bytes; the one that is held back wins, whatever the seed."""
    body = f"""{POINTERS}
      v_and_b32 v2, 63, v0
      v_lshlrev_b32 v2, 2, v2
      ds_write_b32 v2, v0
      s_waitcnt lgkmcnt(0)
      s_barrier
      ds_read_b32 v3, v2
      s_waitcnt lgkmcnt(0)
      global_store_dword v1, v3, s[6:7]
      s_endpgm"""
    for seed in range(3):
        out = np.zeros(128, np.uint32)
        timing = Directed(frozenset(), eager=(1 - slow,), slow=(slow,))
        bench.launch(
            body,
            [out.copy(), out],
            lds=256,
            waves=2,
            timing=timing,
            seed=seed,
            check_races=False,
        )
        np.testing.assert_array_equal(out % 128 // 64, slow)


def test_a_directed_timing_lands_a_load_where_it_hurts(bench: Any) -> None:
    """The load is overwritten while in flight; it lands behind that, and before the use."""
    body = f"""{POINTERS}
      global_load_dword v4, v1, s[4:5]
      v_mov_b32 v4, 7
      v_mov_b32 v5, v4
      s_waitcnt vmcnt(0)
      global_store_dword v1, v5, s[6:7]
      s_endpgm"""
    given, pcs = np.full(64, 3, np.uint32), [0x10, 0x18]
    for release, wanted in ((None, 7), (pcs[1], 3)):
        out = np.zeros(64, np.uint32)
        timing = Directed(frozenset({pcs[0]}), release=release)
        bench.launch(body, [given, out], timing=timing)
        np.testing.assert_array_equal(out, wanted)
