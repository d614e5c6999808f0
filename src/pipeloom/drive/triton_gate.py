"""Judge every kernel that Triton compiles while some code runs.

    with pl.triton_gate() as gate:
        run_tests()
    gate.result.exit_code, gate.reports

Triton tells a listener of every kernel, compiled or found in its cache. Kernels for chips of AMD
are kept, each once, and judged without a launch (``scan``) when the block ends: no test gets slower
or fails by it. Triton itself is imported only here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from pipeloom.drive.kernel_files import KernelFile
from pipeloom.drive.limiting import OverrunError, limited
from pipeloom.errors import ConfigError, ScheduleError
from pipeloom.files import read_file, read_text, reading
from pipeloom.judge.emulate import load_code_object
from pipeloom.judge.scan import KernelScan, scan_kernel
from pipeloom.reports.fail_rules import FailRules, FindingGate, GateResult, Ignored, read_baseline
from pipeloom.reports.from_judges import of_scan
from pipeloom.reports.kernel_report import KernelReport

SECONDS = 60
"""Of processor time, for one kernel."""


class TritonGate:
    """Listens to Triton from ``start`` to ``stop``; a context manager does both.

    Args:
        gate: Which findings fail.
    """

    reports: tuple[KernelReport, ...]
    """What was found in each kernel, in the order in which they were compiled."""

    def __init__(self, gate: FindingGate) -> None:
        self.gate = gate
        self._kernels: dict[str, tuple[str, bytes, str]] = {}
        self._before: Callable[..., None] | None = None
        self._listening = False
        self.reports = ()

    def __repr__(self) -> str:
        return f"<TritonGate: {len(self._kernels)} kernels, {len(self.reports)} judged>"

    @property
    def result(self) -> GateResult:
        """Which findings fail; ``result.exit_code`` is 0 where none does."""
        return self.gate.judge(self.reports)

    def start(self) -> None:
        """Listen from now on."""
        if self._listening:
            raise ConfigError("this gate listens already", hint="stop it first", field="gate")
        knobs = _compilation_knobs()
        self._before, self._listening = knobs.listener, True
        knobs.listener = self._listen

    def stop(self) -> None:
        """Listen no more, and judge what was compiled."""
        if self._listening:
            _compilation_knobs().listener = self._before
            self._listening = False
        self.reports = tuple(of_scan(_scanned(*one)) for one in self._kernels.values())

    def __enter__(self) -> TritonGate:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _listen(self, *, metadata: Any, metadata_group: Any, **told: Any) -> None:
        """Keep a kernel; the listener that was there before is told, too."""
        for name, path in dict(metadata_group).items():
            if name.endswith(".hsaco"):
                data = read_file(path)
                text = dict(metadata_group).get(name.removesuffix(".hsaco") + ".amdgcn")
                kernel = name, data, "" if text is None else read_text(text)
                self._kernels.setdefault(hashlib.sha256(data).hexdigest(), kernel)
        if self._before is not None:
            self._before(metadata=metadata, metadata_group=metadata_group, **told)


def triton_gate(
    *, fail_on: str = "race,not-judged", ignore: Sequence[str] = (), baseline: str | None = None
) -> TritonGate:
    """A gate over all kernels that Triton compiles, to be used in a ``with`` statement.

    Args:
        fail_on: What fails, as ``pipeloom scan --fail-on``; a definite finding is a ``race``.
        ignore: ``CLASS:PATTERN=REASON``, as ``--ignore``.
        baseline: The path of a baseline file; what it knows fails nothing.
    """
    known = frozenset[str]()
    if baseline is not None:
        hint = "pipeloom scan --write-baseline writes one"
        with reading(baseline, hint, "baseline", ConfigError):
            known = read_baseline(read_text(baseline), baseline)
    rules = FailRules.read(fail_on)
    return TritonGate(FindingGate(rules, tuple(map(Ignored.read, ignore)), known))


def _compilation_knobs() -> Any:
    try:
        from triton import knobs
    except ImportError as error:
        raise ConfigError(
            "a triton wheel with triton.knobs is not installed",
            hint="pip install triton, 3.4 or newer",
            field="triton",
        ) from error
    return knobs.compilation


def _scanned(name: str, data: bytes, text: str) -> KernelScan:
    try:
        kernel = load_code_object(data).kernel()
        with limited(SECONDS):
            lines = KernelFile(kernel, data, name, text).lines()
            return scan_kernel(kernel, name, lines)
    except (ScheduleError, OverrunError) as error:
        reason = error.message if isinstance(error, ScheduleError) else f"it takes {error}"
        return KernelScan(name, name.removesuffix(".hsaco"), "", reason=reason)
