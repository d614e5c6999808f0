"""Loops that determine most constants: each is little but the one thing that it is about.

A probe is a stream, which the model simulates and ``machine_code/stream_kernel.py`` writes as a
kernel: ``S branch`` is how its loop counts and goes back.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.calibrate.measurements import USUAL_ERROR, MeasuredStream
from pipeloom.machine.target import Target


@dataclass(frozen=True, slots=True)
class ProbeLoop:
    """One loop, and the constants that it is there for."""

    id: str
    stream: str
    tells: tuple[str, ...]
    waves_per_simd: int = 1
    simds: int | None = None

    def measured(
        self, arch: str, cycles: float, source: str, error: float = USUAL_ERROR
    ) -> MeasuredStream:
        """The probe with what it took, as a measurement."""
        return MeasuredStream(
            id=self.id,
            source=source,
            stream=self.stream,
            arch=arch,
            measured=cycles,
            waves_per_simd=self.waves_per_simd,
            simds=self.simds,
            error=error,
        )

    def modelled(self, machine: Target) -> float:
        """Cycles of a trip by the model."""
        return self.measured(machine.arch, 1.0, "").modelled(machine)


PROBES: tuple[ProbeLoop, ...] = (
    ProbeLoop("branch", "V4 S branch", ("branch_cycles",)),
    ProbeLoop("branch_long", "V64 S branch", ("branch_cycles", "issue_cycles")),
    ProbeLoop("wait", "(wv1+wl1)x16 S branch", ("wait_cycles", "branch_cycles")),
    ProbeLoop("nop", "(N(4))x16 S branch", ("nop_cycles_per_count",)),
    ProbeLoop("exp", "X32 S branch", ("trans_cycles",)),
    ProbeLoop("valu_chain", "V[a]32 S branch", ("valu_dependent_cycles",)),
    ProbeLoop("mfma_chain", "M[a]32 S branch", ("mfma_dependent_extra",)),
    ProbeLoop("mfma_valu", "(M V4)x16 S branch", ("mfma_operand_cycles",)),
    ProbeLoop("mfma_packed", "(M P)x16 S branch", ("packed_after_mfma_cycles",)),
    ProbeLoop("barrier_alone", "B16 S branch", ("barrier_alone_cycles",)),
    ProbeLoop("barrier_shared", "B16 S branch", ("barrier_shared_cycles",), 2),
    ProbeLoop("lds_read", "(R wl0)x8 S branch", ("lds_latency", "wait_cycles"), 1, 1),
    ProbeLoop("lds_reads", "R32 wl0 S branch", ("lds_queue_depth", "lds_queue_delay"), 1, 1),
    ProbeLoop("lds_reads_all", "R32 wl0 S branch", ("lds_queue_depth", "lds_queue_delay")),
    ProbeLoop("lds_write", "W16 wl0 S branch", ("lds_write_cycles_per_dword",), 1, 1),
    ProbeLoop("lds_mixed", "(R2 M2)x8 wl0 S branch", ("lds_queue_delay",)),
    ProbeLoop("load", "(G wv0)x2 S branch", ("global_latency",), 1, 1),
    ProbeLoop("loads_few", "G4 wv0 S branch", ("global_latency", "vmem_queue_depth"), 1, 1),
    ProbeLoop("loads_narrow", "g16 wv0 S branch", ("vmem_min_cycles", "global_latency")),
    ProbeLoop("loads_many", "G16 wv0 S branch", ("global_bytes_per_clk", "global_latency")),
    ProbeLoop(
        "loads_flow", "(wv12 G4 M8)x8 S branch", ("global_bytes_in_flight", "global_bytes_per_clk")
    ),
    ProbeLoop(
        "loads_queued",
        "(G8 M16)x4 wv0 S branch",
        ("vmem_queue_depth", "global_bytes_per_clk"),
        1,
        1,
    ),
)
"""In the order in which they are run."""
