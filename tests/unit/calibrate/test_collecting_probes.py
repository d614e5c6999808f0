"""Probes as kernels: the instructions of their streams, ordered, launched on the stand-in, kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipeloom.calibrate import read_measurements
from pipeloom.calibrate.probes import PROBES, ProbeLoop
from pipeloom.cli.main import main
from pipeloom.device.hip import Hip
from pipeloom.drive import probing
from pipeloom.drive.checking import check
from pipeloom.drive.kernel_files import Start, open_kernel
from pipeloom.drive.probing import CollectJob, collect, probe_kernel
from pipeloom.drive.timing_files import time_start
from pipeloom.errors import ScheduleError
from pipeloom.judge.check.verdict import CheckStatus
from pipeloom.judge.simulate.run_stream import waves_of_stream
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target
from pipeloom.machine_code.stream_kernel import StreamKernel, stream_kernel
from pipeloom.write.assemble import assemble_text

FEW = tuple(probe for probe in PROBES if probe.id in ("branch", "lds_read", "load"))
TRIPS = 12


def start_of(probe: ProbeLoop, machine: Target) -> tuple[bytes, Start]:
    made = probe_kernel(probe, machine)
    data = np.zeros(made.bytes(TRIPS) // 4, np.uint32)
    records = np.zeros(made.timing.bytes((1, 1, 1)) // 4, np.uint32)
    start = Start((1, 1, 1), (64 * made.waves, 1, 1), [data, made.step * TRIPS, records, 1, 1])
    return assemble_text(made.text, made.target), start


@pytest.mark.parametrize("machine", [GFX950, GFX942], ids=str)
def test_a_loop_has_the_instructions_of_its_stream(machine: Target) -> None:
    for probe in PROBES:
        (wave, *_) = waves_of_stream(probe.stream, machine)
        assert len(probe_kernel(probe, machine).loop) == len(wave.loop), probe.id


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.id)
def test_a_probe_is_proved_and_takes_what_its_stream_takes(probe: ProbeLoop) -> None:
    """By the simulation of its disassembly, which knows nothing of streams.

    Where waves compete for LDS or memory, both settle a little differently.
    """
    code, start = start_of(probe, GFX950)
    file = open_kernel(code)
    cycles = time_start(file, start).main.cycles
    alone = probe.simds == 1 or not set(probe.stream) & set("RGg")
    assert cycles == pytest.approx(probe.modelled(GFX950), rel=1e-9 if alone else 0.12)
    verdict = check(file, start.grid, start.block, start.args, seeds=0).verdict
    assert verdict.status is CheckStatus.PROVED


def test_a_campaign_is_taken_up_again(
    hip: Hip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulator's clock counts instructions: a wave alone takes one for each."""
    path = tmp_path / "results.json"
    job = CollectJob(str(path), probes=FEW, trips=16, runs=2, warm_up=1)
    measured = probing._measured
    seen: list[str] = []

    def stopped(hip: Hip, job: CollectJob, kernel: StreamKernel) -> tuple[float, float]:
        if seen:
            raise KeyboardInterrupt
        seen.append(kernel.name)
        return measured(hip, job, kernel)

    monkeypatch.setattr(probing, "_measured", stopped)
    with pytest.raises(KeyboardInterrupt):
        collect(job)
    assert [loop.id for loop in read_measurements(path)] == ["branch"]
    monkeypatch.setattr(probing, "_measured", measured)
    found = collect(job)
    assert found.measured == ("lds_read", "load")
    assert read_measurements(path) == found.loops
    for loop in found.loops[1:]:
        (wave, *_) = waves_of_stream(loop.stream, GFX950)
        assert loop.measured == pytest.approx(len(wave.loop), abs=2 / 16 * 10)
        assert (loop.arch, loop.error) == ("gfx950", 0.01)
    assert collect(job).measured == ()


def test_the_other_chip_goes_into_the_same_file(hip: Hip, tmp_path: Path) -> None:
    path = str(tmp_path / "results.json")
    for device in (0, 1):
        collect(CollectJob(path, device, FEW[:1], trips=4, runs=1, warm_up=0))
    assert [loop.arch for loop in read_measurements(path)] == ["gfx950", "gfx942"]


def test_the_command_measures_and_calibrates(
    hip: Hip,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(CollectJob.__init__, "__defaults__", (0, FEW, 8, 1, 0))
    assert main(["calibrate", "--collect", "results.json", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["measured"] == [probe.id for probe in FEW]
    assert main(["calibrate", "results.json", "-o", "mine.toml"]) == 0
    assert 'base = "gfx950"' in Path("mine.toml").read_text()
    assert main(["calibrate", "--collect", "results.json"]) == 0
    assert "0 of them new" in capsys.readouterr().out


def test_a_campaign_takes_less_than_ten_minutes() -> None:
    for machine in (GFX950, GFX942):
        assert CollectJob("").seconds(machine) < 600


@pytest.mark.parametrize(
    ("stream", "said"), [("V4 branch", "does not end in S branch"), ("T S branch", "not written")]
)
def test_streams_that_are_not_written(stream: str, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        stream_kernel("probe", stream, GFX950)


@pytest.mark.parametrize(
    "command", [["--device", "1"], ["--collect", "x.json", "y.json"], ["--collect", "x.json", "-o"]]
)
def test_options_that_do_not_go_together(command: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["calibrate", *command])
    assert error.value.code == 2
