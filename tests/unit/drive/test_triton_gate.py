"""The gate over Triton's compilations: what it keeps, what it judges, and the plugin of pytest."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import pipeloom as pl
from pipeloom.errors import ConfigError, SpecError
from pipeloom.reports.fail_rules import baseline_text
from pipeloom.write import assemble_text

triton = pytest.importorskip("triton", reason="needs the triton wheel")
knobs = pytest.importorskip("triton.knobs", reason="needs triton 3.4 or newer")
TEXT = (Path(__file__).parents[3] / "examples" / "exchange.s").read_text()
MENDED = TEXT.replace("  ds_write_b32", "  s_barrier\n  ds_write_b32", 1)
pytest_plugins = ["pytester"]
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="needs an assembler"
)


def _compiled(folder: Path, text: str, name: str = "k") -> None:
    """What Triton does at the end of a compilation."""
    (folder / f"{name}.hsaco").write_bytes(assemble_text(text, "gfx950"))
    (folder / f"{name}.amdgcn").write_text(text)
    group = {f"{name}.{end}": str(folder / f"{name}.{end}") for end in ("hsaco", "amdgcn")}
    knobs.compilation.listener(
        src=None, metadata={}, metadata_group=group, times=None, cache_hit=False
    )


def test_every_kernel_is_judged_once(tmp_path: Path) -> None:
    told: list[Any] = []
    knobs.compilation.listener = lambda **data: told.append(data)
    try:
        with pl.triton_gate() as gate:
            _compiled(tmp_path, TEXT)
            _compiled(tmp_path, TEXT)
            _compiled(tmp_path, MENDED, "l")
        assert len(told) == 3
    finally:
        knobs.compilation.listener = None
    assert [bool(one.findings) for one in gate.reports] == [True, False]
    assert gate.result.exit_code == 4
    assert gate.reports[0].findings[0].second.line.startswith("k.")
    assert "2 kernels, 2 judged" in repr(gate)


def test_rules_ignores_and_baselines_are_those_of_the_commands(tmp_path: Path) -> None:
    with pl.triton_gate(ignore=["*:exchange=one buffer"]) as gate:
        _compiled(tmp_path, TEXT)
    assert gate.result.exit_code == 0
    known = tmp_path / "known.json"
    known.write_text(baseline_text(gate.reports))
    with pl.triton_gate(baseline=str(known)) as again:
        _compiled(tmp_path, TEXT)
    assert again.result.exit_code == 0
    with pytest.raises(ConfigError, match="cannot read"):
        pl.triton_gate(baseline=str(tmp_path / "none"))
    with pytest.raises(SpecError, match="fail-on"):
        pl.triton_gate(fail_on="?")
    with pl.triton_gate() as twice, pytest.raises(ConfigError, match="listens already"):
        twice.start()


def test_what_cannot_be_read_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "k.hsaco").write_bytes(b"no ELF")
    with pl.triton_gate() as gate:
        knobs.compilation.listener(
            src=None, metadata={}, metadata_group={"k.hsaco": str(tmp_path / "k.hsaco")}
        )
    assert gate.reports[0].reason
    assert gate.result.exit_code == 6


def test_a_function_of_triton_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def add_one(x, n, B: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.arange(0, B)
        tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with pl.triton_gate() as gate:
        pl.check_triton(add_one, (1,), np.zeros(64, np.float32), 64, B=64)
    assert [one.kernel for one in gate.reports] == ["add_one"]
    assert gate.result.exit_code == 0


def test_the_plugin_fails_a_run_whose_tests_pass(pytester: Any) -> None:
    pytester.makepyfile(
        f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from test_triton_gate import TEXT, _compiled, knobs

        def test_it(tmp_path):
            if knobs.compilation.listener:
                _compiled(tmp_path, TEXT)
        """
    )
    # By name, whether or not the installed package has it as an entry point.
    run = ("-p", "no:pipeloom", "-p", "pipeloom.cli.pytest_gate", "-p", "no:cacheprovider", "-n0")
    assert pytester.runpytest_inprocess(*run).ret == 0
    failed = pytester.runpytest_inprocess(*run, "--pipeloom-gate", "--pipeloom-sarif", "a.sarif")
    assert failed.ret == 1
    failed.stdout.fnmatch_lines(["RACE *exchange*", "1 kernels, 1 findings fail*"])
    assert (pytester.path / "a.sarif").stat().st_size
    ignored = (*run, "--pipeloom-gate", "--pipeloom-ignore", "*:exchange=known")
    assert pytester.runpytest_inprocess(*ignored).ret == 0
