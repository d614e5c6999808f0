"""What a proof costs in simulated cycles: reference, proven and repaired, as a Markdown table.

Cycles are simulated, so the figures do not depend on the machine that prints them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeloom import Phase, build_schedule
from pipeloom.drive.programs import simulate, verify
from pipeloom.reference.compiler import Sync

CASES: dict[str, dict[str, Any]] = {
    "ping-pong, bf16 256x256x64": {
        "schedule": "ping_pong",
        "geometry": {"BK": 64, "MMA_K": 32, "elem_bytes": 2},
    },
    "ping-pong, fp8 256x256x128": {
        "schedule": "ping_pong",
        "geometry": {"BK": 128, "MMA_K": 128, "elem_bytes": 1},
    },
    "four-wave, bf16 256x256x64": {
        "schedule": "four_wave",
        "geometry": {"BK": 64, "MMA_K": 32, "elem_bytes": 2},
    },
    "four-wave, fp8 256x256x128": {
        "schedule": "four_wave",
        "geometry": {"BK": 128, "MMA_K": 128, "elem_bytes": 1},
    },
}
WAYS: tuple[Sync, ...] = ("reference", "proven", "repaired")


def rows() -> Iterator[str]:
    """The table, line by line."""
    yield "| schedule | sync | verdict | loop barriers | cycles per trip | matrix unit |"
    yield "|---|---|---|---|---|---|"
    for name, spec in CASES.items():
        for sync in WAYS:
            compiled = build_schedule(spec, sync=sync, reorder=sync != "reference")
            trace = simulate(compiled)
            busy = trace.steady_matrix_efficiency()
            cells = (
                name,
                sync,
                verify(compiled).status.name,
                str(compiled.counts(Phase.KERNEL).barriers),
                f"{trace.steady_cycles_per_iteration:.0f}",
                f"{100 * sum(busy) / len(busy):.1f} %",
            )
            yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
