"""The calibration as text: what evidence/calibration.md shows and ``evidence.calibrate`` prints.

The page is the output of ``render``, and a test compares the two, so it cannot go stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evidence.calibration import (
    RANKED_GROUPS,
    Comparison,
    LoopCase,
    ablation_comparisons,
    claim_comparisons,
    compare,
    loop_cases,
    measured_records,
    micro_comparisons,
    ranked_as_measured,
)
from evidence.fact_checks import FACT_CHECKS, FactCheck
from evidence.leave_out import (
    UNCERTAIN,
    Evaluator,
    Fold,
    folds_by_source,
    mean_left_out,
)
from pipeloom.declare.gemm_problem import GemmProblem, some_type
from pipeloom.judge.simulate.estimate import estimate_gemm
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost
from pipeloom.machine.chips import TARGETS, target_for

HEAD = """# The simulator against what was measured

Written by `python -m evidence.calibrate --write`; a test compares. What the tables mean, and what
to keep in mind when reading them: [performance-model.md](../docs/performance-model.md#calibration).
The records are in [measured_loops.json](measured_loops.json), each with its source.

"""

SENSITIVITY_ITERATIONS = 7


def mean_error(comparisons: Iterable[Comparison]) -> float:
    """Mean of the absolute relative errors."""
    errors = [abs(row.error) for row in comparisons]
    return sum(errors) / len(errors)


def is_loop(case: LoopCase) -> bool:
    """A whole loop, as opposed to a micro-benchmark of one instruction."""
    return case.basis != "micro"


def render(
    comparisons: Iterable[Comparison] | None = None,
    uncertain: Sequence[tuple[str, float, float]] = UNCERTAIN,
    folds: tuple[Fold, ...] | None = None,
) -> str:
    """The page, ending in a newline.

    ``comparisons`` are those of every loop, if they are at hand; ``uncertain`` the constants of
    the sensitivity table; ``folds`` the refits by source, which take a minute.
    """
    if comparisons is None:
        comparisons = (compare(case) for case in loop_cases())
    rows = list(comparisons)
    if folds is None:
        folds = folds_by_source(Evaluator())
    loops = [row for row in rows if is_loop(row.case)]
    sections = (
        _loop_section(loops),
        _leave_out_section(folds, {row.case.id: row.error for row in loops}),
        _lds_section([row for row in rows if not is_loop(row.case)]),
        _micro_section(),
        _check_section(),
        _ablation_section(),
        _claims_section(),
        _sensitivity_section(uncertain),
        _estimate_section(),
        _facts_section(),
    )
    return HEAD + "\n".join(sections)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _percent(error: float) -> str:
    return f"{100 * error:+.1f} %"


def _loop_section(rows: list[Comparison]) -> str:
    table = _table(
        ("loop", "arch", "stream", "modelled", "measured", "error"),
        (
            (
                f"`{row.case.id}`",
                row.case.arch,
                row.case.basis,
                f"{row.modelled:.1f}",
                f"{row.case.measured:.1f}",
                _percent(row.error),
            )
            for row in rows
        ),
    )
    given = [row for row in rows if row.case.basis == "given"]
    by_id = {row.case.id: row for row in rows}
    ranks = "\n".join(
        f"- {title}: " + ("as measured" if ranked_as_measured(by_id, ids) else "NOT as measured")
        for title, ids in RANKED_GROUPS
    )
    worst = max(rows, key=lambda row: abs(row.error))
    return (
        "## Loops, cycles per iteration\n\n"
        + table
        + f"\nMean error {100 * mean_error(rows):.1f} % over {len(rows)} loops"
        + f" ({100 * mean_error(given):.1f} % over the {len(given)} whose stream is given);"
        + f" worst `{worst.case.id}`, {_percent(worst.error)}.\n"
        + "\nOrder of the variants that one source measured:\n\n"
        + ranks
        + "\n"
    )


def _leave_out_section(by_source: tuple[Fold, ...], used: Mapping[str, float]) -> str:
    """Each row is a refit that had not seen its loops; constants as used are not repeated."""
    table = _table(
        ("loops left out", "fitted without them", "error then", "with the constants used"),
        (
            (
                ", ".join(f"`{loop}`" for loop in fold.left_out),
                ", ".join(
                    f"`{name}` {value:g}"
                    for name, value in fold.fitted.items()
                    if any(getattr(machine, name).value != value for machine in TARGETS)
                ),
                ", ".join(_percent(error) for error in fold.errors.values()),
                ", ".join(_percent(used[loop]) for loop in fold.left_out),
            )
            for fold in by_source
        ),
    )
    summary = ""
    if by_source:
        summary = (
            "\nMean error on loops that the fit had not seen:"
            f" {100 * mean_left_out(by_source):.1f} %.\n"
        )
    return f"## Loops the fit has not seen\n\n{table}{summary}"


def _check_section() -> str:
    table = _table(
        ("fact", "chip", "loop", "predicts", "modelled"),
        (
            (check.fact, check.arch, _check_text(check), _range(check), f"{check.modelled():g}")
            for check in FACT_CHECKS
        ),
    )
    return f"## Facts, each as a loop\n\n{table}"


def _check_text(check: FactCheck) -> str:
    """The stream and what it runs on where that is not one wave on each of four SIMDs."""
    notes = [f"`{check.stream}`" + (f" less `{check.over}`" if check.over else "")]
    if check.mfma is not None:
        notes.append(check.mfma)
    if check.waves_per_simd > 1:
        notes.append(f"{check.waves_per_simd} waves" + (", staggered" if check.stagger else ""))
    if check.simds is not None:
        notes.append("one SIMD")
    if check.conflict > 1:
        notes.append(f"conflict {check.conflict:g}")
    if check.per > 1:
        notes.append(f"per {check.per}")
    return ", ".join(notes)


def _range(check: FactCheck) -> str:
    return f"{check.low:g}" if check.low == check.high else f"{check.low:g} .. {check.high:g}"


def _lds_section(rows: list[Comparison]) -> str:
    table = _table(
        ("micro-benchmark", "modelled", "measured"),
        ((f"`{r.case.id}`", f"{r.modelled:.1f}", f"{r.case.measured:.1f}") for r in rows),
    )
    return f"## LDS, cycles per ds_read_b128\n\n{table}"


def _micro_section() -> str:
    table = _table(
        ("micro-loop", "modelled", "measured", "error"),
        (
            (what, f"{modelled:.1f}", f"{measured:.1f}", _percent(modelled / measured - 1))
            for what, modelled, measured in micro_comparisons()
        ),
    )
    return f"## Micro-loops of `fb_micro`, cycles per instruction\n\n{table}"


def _ablation_section() -> str:
    rows = ablation_comparisons()
    base_cycles, base_ms = rows[0][1], rows[0][2]
    table = _table(
        ("variant", "modelled cycles", "relative", "measured ms", "relative"),
        (
            (
                name.replace("_", " "),
                f"{cycles:.1f}",
                f"{cycles / base_cycles:.2f}",
                f"{ms:.3f}",
                f"{ms / base_ms:.2f}",
            )
            for name, cycles, ms in rows
        ),
    )
    return f"## Ablation of `g942_intra_base`\n\n{table}"


def _claims_section() -> str:
    table = _table(
        ("change", "modelled cycles", "the source reports"),
        ((what, _percent(change), text) for what, change, text in claim_comparisons()),
    )
    return f"## Claims given without the loop they were measured on\n\n{table}"


def _sensitivity_section(uncertain: Sequence[tuple[str, float, float]]) -> str:
    cases = [case for case in loop_cases() if is_loop(case)]
    rows = []
    for name, low, high in uncertain:
        errors = []
        for value in (low, high):
            machines = {m.arch: m.with_value(name, value, "sensitivity study") for m in TARGETS}
            errors.append(
                mean_error(
                    compare(case, machines[case.arch], SENSITIVITY_ITERATIONS) for case in cases
                )
            )
        used = " / ".join(str(value) for value in sorted({getattr(m, name).value for m in TARGETS}))
        rows.append(
            (f"`{name}`", used, f"{low:g} .. {high:g}", *(f"{100 * e:.1f} %" for e in errors))
        )
    table = _table(("constant", "used", "range", "mean error at low", "at high"), rows)
    return f"## Mean error over the range of each uncertain constant\n\n{table}"


def _busy(cycles: float) -> BlockCost:
    """A block whose matrix unit works all the time, and whose ends take none."""
    return BlockCost(cycles, 0.0, cycles, "matrix unit")


def _estimate_section() -> str:
    """Measured cycles put through the whole-GPU model, so that its own error shows."""
    problems = {
        "g950_intra_fp16_v4_2stage": (4096, 4096, 8192),
        "g950_intra_fp16_v5_base": (4096, 4096, 8192),
        "g950_inter_fp16_sliceMN_K8192": (4096, 4096, 8192),
        "g942_inter_8region_K8256": (4096, 4864, 8256),
    }
    rows = []
    for record in measured_records():
        if record["id"] not in problems:
            continue
        m, n, k = problems[record["id"]]
        tile_m, tile_n, tile_k = record["tile"]
        block = Block(tile_m, tile_n, tile_k * record["ksteps_per_iter"])
        machine = target_for(record["arch"])
        cost = _busy(float(record["measured"]["cycles_per_iter"]))
        result = estimate_gemm(machine, GemmProblem(m, n, k), block, cost)
        measured = float(record["measured"]["tflops"])
        rows.append(
            (
                f"`{record['id']}`",
                f"{m}x{n}x{k}",
                f"{result.tflops:.0f}",
                f"{measured:.0f}",
                _percent(result.tflops / measured - 1),
                f"{result.rounds * result.tile_cycles * measured / (2.0 * m * n * k) * 1e3:.2f}",
            )
        )
    table = _table(
        ("kernel", "problem", "estimate", "measured", "error", "clock that would explain it, GHz"),
        rows,
    )
    return f"## Whole-GPU estimate from measured cycles, TFLOPS\n\n{table}\n{_published_section()}"


# Whole kernels at 8192 cubed on MI355X (HARDWARE.md): bytes per element, cycles of the loop over
# 256x256 with the matrix unit always busy (K = 64 of bf16, 128 of fp8), published TFLOPS.
PUBLISHED: tuple[tuple[str, float, int, tuple[tuple[str, int], ...]], ...] = (
    ("bf16", 2.0, 64, (("hipBLASLt", 1575), ("AITER", 1591), ("HipKittens", 1610),
                       ("Triton", 1091), ("Modular ping-pong", 1441))),
    ("fp8", 1.0, 128, (("hipBLASLt", 3233), ("HipKittens", 3327), ("Modular", 2720))),
)  # fmt: skip
BUSY_TILE_CYCLES = 2048


def _published_section() -> str:
    """No loop is published with these: what the model makes of one of full efficiency."""
    machine = target_for("gfx950")
    rows = []
    for dtype, size, k, kernels in PUBLISHED:
        problem = GemmProblem(8192, 8192, 8192, some_type(size))
        busy = estimate_gemm(machine, problem, Block(256, 256, k), _busy(BUSY_TILE_CYCLES))
        for name, tflops in kernels:
            rows.append(
                (
                    f"{name}, {dtype}",
                    str(tflops),
                    f"{busy.tflops:.0f} .. {busy.tflops_at_peak_clock:.0f}",
                    f"{100 * tflops / busy.tflops_at_peak_clock:.0f} %",
                )
            )
    table = _table(
        ("8192x8192x8192", "published", "busy loop at its clock .. at the peak", "of the latter"),
        rows,
    )
    return f"## Published kernels against an always busy matrix unit, TFLOPS\n\n{table}"


def _facts_section() -> str:
    parts = []
    for machine in TARGETS:
        table = _table(
            ("constant", "value", "unit", "kind", "source"),
            (
                (f"`{name}`", f"{fact.value:g}", fact.unit, fact.kind.value, fact.source)
                for name, fact in machine.facts()
            ),
        )
        ops = _table(
            ("MFMA", "cycles", "kind", "source"),
            (
                (f"`{op.name}`", str(op.cycles.value), op.cycles.kind.value, op.cycles.source)
                for op in machine.matrix_ops
            ),
        )
        parts.append(f"## {machine.chip} ({machine.arch})\n\n{table}\n{ops}")
    return "\n".join(parts)
