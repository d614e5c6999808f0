"""Thread traces of rocprofv3: what a compute unit did, instruction by instruction, with the cycles.

    capture = read_capture("ui_output_agent_1_dispatch_3")
    overlay = lay_over(capture, GFX950)
    overlay.measured_cycles, overlay.simulated_cycles, overlay.rows[:10]

``att_files`` reads files of others within limits; ``code_table``, ``wave_file`` and ``capture``
know what rocprofv3 writes. ``traced_groups`` makes programs of the paths that waves really took,
and ``overlay`` sets the measured run beside the simulation of the same instructions.
``viewer_files`` writes a run in rocprofv3's own format, for viewers that read it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
