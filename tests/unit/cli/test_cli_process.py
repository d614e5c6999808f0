"""The process: from its first import to its exit code, with real signals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What an interrupt becomes inside the import of a compiled module.
STOPPED = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt as stop:
    raise ImportError("a compiled module failed to import") from stop
"""


@pytest.mark.parametrize("module", ["argparse", "numpy"])
def test_an_interrupt_during_start_up(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text(STOPPED)
    path = os.pathsep.join((str(tmp_path), *filter(None, sys.path)))
    done = subprocess.run(
        [sys.executable, "-m", "pipeloom", "verify", "ping_pong"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert len(done.stderr.splitlines()) == 1
