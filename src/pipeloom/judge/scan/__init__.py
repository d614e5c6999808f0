"""The static judge of machine code: every path of a kernel, without a launch.

``scanned_code`` says what each instruction does to registers, counters and LDS, ``control_flow``
where control may go, ``in_flight`` what a counter still holds, ``fixed_point`` follows that along
all paths. ``register_hazards`` looks at registers. For LDS, ``lane_values`` executes what makes
addresses, ``address_paths`` tells paths with different addresses apart, ``wave_branches`` finds
where waves part, ``lds_bytes`` and ``lds_hazards`` compare. ``kernel_scan`` asks them all.
"""

from pipeloom.judge.scan.kernel_scan import scan_kernel
from pipeloom.judge.scan.scan_findings import KernelScan, ScanFinding, ScanKind, ScanPlace

__all__ = ["KernelScan", "ScanFinding", "ScanKind", "ScanPlace", "scan_kernel"]
