"""Thread traces of rocprofv3: what a compute unit did, instruction by instruction, with the cycles.

    capture = read_capture("ui_output_agent_1_dispatch_3")
    overlay = lay_over(capture, GFX950)
    overlay.measured_cycles, overlay.simulated_cycles, overlay.rows[:10]

``att_files`` reads files of others within limits; ``code_table``, ``wave_file`` and ``capture``
know what rocprofv3 writes. ``traced_groups`` makes programs of the paths that waves really took,
and ``overlay`` sets the measured run beside the simulation of the same instructions.
``viewer_files`` writes a run in rocprofv3's own format, for viewers that read it.
"""

from __future__ import annotations

from pipeloom.thread_trace.capture import Capture, read_capture
from pipeloom.thread_trace.overlay import InstructionCycles, Overlay, lay_over
from pipeloom.thread_trace.viewer_files import viewer_files

__all__ = [
    "Capture",
    "InstructionCycles",
    "Overlay",
    "lay_over",
    "read_capture",
    "viewer_files",
]
