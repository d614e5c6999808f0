"""The acceptance figures of the calibration, and that the page shows what the code computes."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from evidence.calibration import (
    ABLATIONS,
    RANKED_GROUPS,
    Comparison,
    ablation_comparisons,
    compare,
    loop_cases,
    measured_records,
    micro_comparisons,
    ranked_as_measured,
    spread,
)
from evidence.calibration_report import (
    is_loop,
    mean_error,
    render,
)
from evidence.fact_checks import FACT_CHECKS, FactCheck
from evidence.leave_out import UNCERTAIN, Evaluator, refit
from pipeloom.machine.chips import TARGETS
from pipeloom.machine.facts import FactKind
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target

ROOT = Path(__file__).resolve().parents[4]
SHARED = Path(os.environ.get("PIPELOOM_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="module")
def comparisons() -> dict[str, Comparison]:
    return {case.id: compare(case) for case in loop_cases()}


def test_every_record_with_cycles_is_compared(comparisons: dict[str, Comparison]) -> None:
    left_out = [record["id"] for record in measured_records() if record["id"] not in comparisons]
    assert left_out == ["g942_intra_ablation", "fb_micro"]
    assert len(measured_records()) == 34


def test_the_performance_page_states_the_errors_of_the_table(
    comparisons: dict[str, Comparison],
) -> None:
    loops = [row for row in comparisons.values() if is_loop(row.case)]
    prose = (ROOT / "docs" / "performance-model.md").read_text("utf-8")
    mean, worst = mean_error(loops), max(abs(row.error) for row in loops)
    said = f"Of the {len(loops)} loops the model is {100 * mean:.1f} % off on average"
    assert f"{said} and {100 * worst:.1f} % at worst" in prose


def test_no_loop_is_far_off(comparisons: dict[str, Comparison]) -> None:
    loops = [row for row in comparisons.values() if is_loop(row.case)]
    assert len(loops) == 18
    assert mean_error(loops) <= 0.05
    assert max(abs(row.error) for row in loops) <= 0.08


def test_lds_micro_benchmarks_are_exact(comparisons: dict[str, Comparison]) -> None:
    micro = [row for row in comparisons.values() if not is_loop(row.case)]
    assert len(micro) == 14
    assert all(row.modelled == pytest.approx(row.case.measured) for row in micro)


@pytest.mark.parametrize(("title", "ids"), RANKED_GROUPS)
def test_variants_rank_as_measured(
    title: str, ids: tuple[str, ...], comparisons: dict[str, Comparison]
) -> None:
    assert ranked_as_measured(comparisons, ids), title


def test_the_stated_bank_conflict_matters_where_the_page_says() -> None:
    case = next(case for case in loop_cases() if case.id == "g942_intra_base")
    assert case.lds_conflict == pytest.approx(1.667)
    assert round(compare(replace(case, lds_conflict=1.0)).error, 2) == -0.13
    assert all(c.lds_conflict == 1.0 for c in loop_cases() if is_loop(c) and c.id != case.id)


def test_ranking_notices_a_wrong_order(comparisons: dict[str, Comparison]) -> None:
    slow, fast = "g942_intra_base", "g942_intra_opt5"
    swapped = {
        slow: Comparison(comparisons[slow].case, 1.0),
        fast: Comparison(comparisons[fast].case, 2.0),
    }
    assert not ranked_as_measured(swapped, (slow, fast))


def test_the_ablation_ranks_as_measured() -> None:
    rows = {name: (cycles, ms) for name, cycles, ms in ablation_comparisons()}
    assert list(rows) == [name for name, _ in ABLATIONS]
    # The first three differ by less than 2 % as measured; from there on every step must show.
    free = [rows[name][0] for name in ("mfma_only", "plus_local_load", "plus_buffer_load")]
    assert max(free) / min(free) < 1.03
    steps = [max(free)] + [rows[name][0] for name in ("plus_local_store", "load_and_store", "all")]
    assert steps == sorted(steps)
    assert len(set(steps)) == 4


def test_micro_loops_that_gave_a_constant_reproduce_it() -> None:
    rows = {what: (modelled, measured) for what, modelled, measured in micro_comparisons()}
    for what in ("MFMA 16x16x32, dependent", "ds_read_b32, dependent", "VALU fma, dependent"):
        modelled, measured = rows[what]
        assert modelled == measured


def test_written_streams_have_the_counts_their_records_state() -> None:
    records = {record["id"]: record for record in measured_records()}
    checked = 0
    for case in loop_cases():
        if case.basis not in ("clusters", "interleave"):
            continue
        record = records[case.id]
        trace_loop = compare_counts(case.stream)
        assert trace_loop["M"] == record["mfma"]["count"], case.id
        assert trace_loop["G"] == record["g2l"]["count"], case.id
        reads = sum(read["count"] for read in record["ds_read"])
        assert trace_loop["R"] + trace_loop["T"] == reads, case.id
        if "no_ds_write" not in case.id:
            writes = sum(write["count"] for write in record.get("ds_write", []))
            assert trace_loop["W"] == writes, case.id
        vector = record.get("valu", {}).get("unconditional", 0)
        if case.id not in ("flydsl_eager", "fa_fav3_stock"):  # counted without their rescale
            assert trace_loop["V"] + trace_loop["X"] == vector, case.id
            clusters = record.get("valu", {}).get("per_dot_cluster", [])
            assert vector_per_dot_cluster(case.stream) == clusters, case.id
        checked += 1
    assert checked == 15


def vector_per_dot_cluster(stream: str) -> list[int]:
    """V and X of each cluster with MFMAs, in a stream of clusters that end in barriers."""
    found = []
    for text in expanded(stream).split(" B "):
        counts = compare_counts(text)
        if counts["M"] and counts["V"] + counts["X"]:
            found.append(counts["V"] + counts["X"])
    return found


def expanded(stream: str) -> str:
    """Without its groups, and without the operands of N and prio."""
    stream = re.sub(r"(N|prio)\(\d\)", r"\1", stream)
    while match := re.search(r"\(([^()=]*)\)x(\d+)", stream):
        body = " ".join([match[1]] * int(match[2]))
        stream = stream[: match.start()] + body + stream[match.end() :]
    return stream


def compare_counts(stream: str) -> dict[str, int]:
    """Instructions by letter, counted without the parser of the package."""
    stream = re.sub(r"\[\w+\]", "", expanded(stream))
    counts = dict.fromkeys("MRTWGVXSN", 0)
    for letter, run in re.findall(r"(?<![\w(])([MRTWGVXSN])(\d*)(?![\w(])", stream):
        counts[letter] += int(run or 1)
    return counts


def test_spread_is_even() -> None:
    assert spread(4, "R G") == "M1 M1 R M1 M1 G"
    assert spread(2, "R R R R") == "M1 R R M1 R R"
    assert spread(3, "") == "M1 M1 M1"


def generated_lines() -> list[str]:
    return (ROOT / "evidence" / "calibration.md").read_text("utf-8").strip().split("\n")


def test_the_page_shows_what_the_code_computes(comparisons: dict[str, Comparison]) -> None:
    """All but the refits, and of the slow sensitivity table two rows."""
    shown = generated_lines()
    sampled = [row for row in UNCERTAIN if row[0] in ("global_latency", "branch_cycles")]
    others = tuple(f"| `{row[0]}` |" for row in UNCERTAIN if row not in sampled)
    rows = [line for line in shown if line.startswith("| `") and " .. " in line]
    assert [line.split("`")[1] for line in rows] == [name for name, _, _ in UNCERTAIN]
    cut = shown.index("## Loops the fit has not seen")
    table_end = shown.index("## LDS, cycles per ds_read_b128")
    head = cut + 4
    kept = [
        line
        for number, line in enumerate(shown)
        if not head <= number < table_end - 1 and (line not in rows or not line.startswith(others))
    ]
    expected = render(comparisons.values(), sampled, ()).strip().split("\n")
    assert kept == expected, "run: python -m evidence.calibrate --write"


def test_refitted_constants_give_the_errors_the_page_shows() -> None:
    """The refit itself takes a minute; what it chose is on the page and is checked here."""
    shown = generated_lines()
    start = shown.index("## Loops the fit has not seen")
    rows = [line.split("|")[1:-1] for line in shown[start + 4 : start + 30] if line[:3] == "| `"]
    rows = rows[: next(i for i, row in enumerate(rows) if "lds_micro" in row[0])]
    evaluator = Evaluator()
    used = {name: float(getattr(GFX950, name).value) for name, _, _ in UNCERTAIN}
    seen: list[str] = []
    for loops, fitted, errors, _ in rows:
        changed = {name: float(value) for name, value in re.findall(r"`(\w+)` ([\d.]+)", fitted)}
        values = tuple({**used, **changed}.items())
        ids = re.findall(r"`(\w+)`", loops)
        computed = ", ".join(f"{100 * evaluator.error(loop, values):+.1f} %" for loop in ids)
        assert computed == errors.strip()
        seen += ids
    assert sorted(seen) == sorted(evaluator.cases), "every loop is left out once"
    assert "Mean error on loops that the fit had not seen" in "\n".join(shown)


def test_a_refit_stays_in_the_ranges_and_does_not_look_at_what_it_left_out() -> None:
    evaluator = Evaluator()
    kept = ("g950_intra_fp16_v9_tile_256x256",)
    hidden = frozenset(evaluator.cases) - set(kept)
    fold = refit(hidden, evaluator)
    assert set(fold.left_out) == hidden
    assert list(fold.fitted) == [name for name, _, _ in UNCERTAIN]
    assert all(low <= fold.fitted[name] <= high for name, low, high in UNCERTAIN)
    middle = tuple((name, (low + high) // 2) for name, low, high in UNCERTAIN)
    assert fold.seen_error < evaluator.mean(kept, middle)
    assert {loop for loop, values in evaluator.evaluated() if loop in hidden} == hidden
    fitted = tuple(fold.fitted.items())
    assert all(values == fitted for loop, values in evaluator.evaluated() if loop in hidden)


@pytest.mark.parametrize("machine", TARGETS, ids=lambda machine: str(machine.arch))
def test_what_was_measured_on_another_chip_is_not_called_measured(machine: Target) -> None:
    """Measured means on this chip: a range's middle is derived, another chip's number assumed."""
    for name, fact in machine.facts():
        if fact.kind is FactKind.MEASURED:
            assert not fact.source.startswith(("as ", "middle of ")), name
    assert machine.global_latency.kind is FactKind.DERIVED
    assert machine.branch_cycles.kind is FactKind.ASSUMED


@pytest.mark.parametrize("check", FACT_CHECKS, ids=lambda check: f"{check.fact}: {check.stream}")
def test_the_model_behaves_as_each_fact_says(check: FactCheck) -> None:
    assert check.holds(), f"{check.modelled()} is not in {check.low} .. {check.high}"


@pytest.mark.parametrize("machine", TARGETS, ids=lambda machine: str(machine.arch))
def test_every_mfma_runs_back_to_back_in_its_cycles(machine: Target) -> None:
    for op in machine.matrix_ops:
        check = FactCheck(
            op.name, "M32", op.cycles.value, op.cycles.value, 32, machine.arch, op.name
        )
        assert check.holds(), op.name


def test_the_records_are_those_of_the_specification() -> None:
    path = SHARED / "spec" / "measured_loops.json"
    if not path.exists():
        pytest.skip("the shared specification is not here; set PIPELOOM_SHARED")
    assert measured_records() == json.loads(path.read_text("utf-8"))["loops"]
