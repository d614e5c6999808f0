"""The figures at the top of a page, and what a comparison calls them.

2118               1521                  what is read
cycles per K tile  TFLOPS at 1500 MHz    its name
"""

from __future__ import annotations

from typing import NamedTuple

from pipeloom.judge.simulate.trace import Trace
from pipeloom.show.headers import limit_text


class Card(NamedTuple):
    """A figure, its name and what it is exactly.

    Where names of the same figure differ from page to page, ``row`` is what a comparison calls it
    and ``cell`` what stands there.
    """

    value: str
    name: str
    why: str
    row: str = ""
    cell: str = ""

    @property
    def compared(self) -> tuple[str, str]:
        """The row of a comparison, and what stands there."""
        return self.row or self.name, self.cell or self.value


def speed_cards(trace: Trace) -> list[Card]:
    """How busy the matrix unit is, what that would be on the whole chip, what limits it."""
    machine = trace.machine
    clock, units = machine.clock_sustained_ghz.value * 1000, machine.cus.value
    title, limit = limit_text(trace.limiting_unit())
    rows = [
        Card(
            f"{max(trace.steady_matrix_efficiency(), default=0.0):.1%}",
            "matrix unit busy",
            "of the steady loop, busiest SIMD",
        ),
        Card(
            limit,
            title,
            "the busiest unit if over 90 % busy, else what the waves wait for",
            "limit",
            f"{title} {limit}" if title == "limited by" else f"{title}: {limit}",
        ),
    ]
    if trace.tflops:
        rows.append(
            Card(
                f"{trace.tflops:.0f}",
                f"TFLOPS at {clock:.0f} MHz",
                f"by the model, if all {units} CUs ran the steady loop at {clock:.0f} MHz, which "
                "the chip sustains; a workgroup each, without start and end",
                "TFLOPS of the steady loop",
                f"{trace.tflops:.0f} at {clock:.0f} MHz",
            )
        )
    return rows


def resource_cards(
    vgprs: int, agprs: int, lds_bytes: int, waves: int, *, allocated: bool = False
) -> list[Card]:
    """What a wave and a workgroup of the kernel use; or, registers, what they are ``allocated``."""
    how = "allocated" if allocated else "used"
    return [
        Card(
            f"{vgprs} + {agprs}",
            f"VGPRs + AGPRs {how}",
            "registers of a wave, per lane, of 512",
            "VGPRs + AGPRs",
            f"{vgprs} + {agprs}",
        ),
        Card(f"{lds_bytes / 1024:g} KiB", "LDS", "of a workgroup"),
        Card(
            str(waves),
            "waves per SIMD",
            "that fit by registers and LDS; one workgroup is simulated",
        ),
    ]
