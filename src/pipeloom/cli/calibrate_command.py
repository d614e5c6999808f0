"""``pipeloom calibrate``: the model's constants from what was measured, as a chip file."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.calibrate.probes import PROBES
from pipeloom.cli.bars import bar
from pipeloom.cli.options import Command, argument, flag, option
from pipeloom.cli.printing import check_ending, print_json
from pipeloom.cli.usage import UsageError, at_least, check_folder
from pipeloom.drive.calibrating import Calibrated, CalibrateJob, calibrate_job, read_measured
from pipeloom.drive.probing import CollectJob, collect
from pipeloom.files import write_file
from pipeloom.machine.chips import ANY_CHIP, target_for
from pipeloom.plain import to_plain


@dataclass(frozen=True)
class CalibrateCommand(Command):
    """Refit the constants of the performance model to measurements, say which of them the data
    determine and within which interval, and write a chip file that other commands take as
    --target-file. Nothing here was run on a GPU by us.

    Examples:
        pipeloom calibrate --probes
        pipeloom calibrate --collect results.json && pipeloom calibrate results.json -o mine.toml
    """

    measurements: tuple[str, ...] = argument("FILE|FOLDER|TIMED=RECORDS", (), nargs="*")
    """files of measured loops (JSON), folders of thread traces, or TIMED.hsaco=RECORDS.bin: a
    kernel of emit --timed and the buffer that it filled"""
    arch: str | None = option("--arch --target ARCH")
    """the chip that was measured (default {ANY_CHIP})"""
    output: str | None = option("-o --output FILE.toml")
    """the chip file"""
    name: str = option("--name NAME", "")
    """what the chip of the file is called"""
    probes: bool = flag()
    """list the loops that determine most constants, and which of them the files have already;
    nothing is run"""
    collect: str | None = option("--collect RESULTS.json")
    """run these loops on a GPU, through HIP, and write what they took; a file that has some of
    them already is completed"""
    device: int | None = option("--device N", type=at_least(0))
    """with --collect: the GPU's number (default 0)"""

    def run(self) -> int:
        """Refit and write, or list what to measure."""
        if self.device is not None and self.collect is None:
            raise UsageError("--device needs --collect")
        if self.collect is not None:
            return self._collect(self.collect)
        if self.probes:
            return self._list()
        if not self.measurements:
            raise UsageError("give measurements, --collect to make them, or --probes to see which")
        arch = self.arch or ANY_CHIP
        found = calibrate_job(CalibrateJob(tuple(self.measurements), arch, self.name))
        if self.output is not None:
            check_ending(self.output, ".toml", "a chip file")
            write_file(self.output, found.text())
        if self.json:
            print_json({**found.fit.to_dict(), "output": self.output})
            return 0
        _print(found)
        if self.output is not None:
            print(f"wrote {self.output}")
        return 0

    def _collect(self, path: str) -> int:
        """Run what the file lacks."""
        if self.measurements or self.probes or self.output is not None:
            raise UsageError("--collect only measures: calibrate its file afterwards")
        check_folder(path)
        job = CollectJob(path, self.device or 0)
        with bar(self, "measuring", len(job.probes)) as tell:
            found = collect(job, lambda name, number: tell(name, number, len(job.probes)))
        if self.json:
            data = {"arch": found.arch, "measured": list(found.measured), "output": path}
            print_json({**data, "loops": [to_plain(one) for one in found.loops]})
            return 0
        for loop in found.loops:
            if loop.id in found.measured:
                print(f"{loop.id:15} {loop.measured:>8g} cycles of a trip, within {loop.error:.0%}")
        print(f"{path} has {len(found.loops)} loops, {len(found.measured)} of them new")
        return 0

    def _list(self) -> int:
        arch = target_for(self.arch or ANY_CHIP)
        have = {loop.id: loop for name in self.measurements for loop in read_measured(name, arch)}
        rows = [
            {
                "id": probe.id,
                "stream": probe.stream,
                "waves_per_simd": probe.waves_per_simd,
                "simds": probe.simds,
                "tells": list(probe.tells),
                "modelled": round(probe.modelled(arch), 1),
                "measured": have[probe.id].measured if probe.id in have else None,
            }
            for probe in PROBES
        ]
        if self.json:
            print_json({"arch": arch.arch, "seconds": CollectJob("").seconds(arch), "probes": rows})
            return 0
        seconds = CollectJob("").seconds(arch)
        print(f"--collect runs these in {seconds:.2g} s of the GPU, by the model:")
        for row in rows:
            measured = (
                "to be measured" if row["measured"] is None else f"{row['measured']:g} measured"
            )
            print(f"{row['id']:15} {row['stream']:24} {row['modelled']:>8g} modelled, {measured}")
        return 0


def _print(found: Calibrated) -> None:
    told = found.fit.to_dict()
    print(
        f"{found.base.arch}, {told['loops']} loops: mean error {told['mean_error_before']:.1%} "
        f"before, {told['mean_error_after']:.1%} after"
    )
    if found.fit.noise > 1.05:
        print(f"the model is off by {found.fit.noise:.1f} times the stated errors")
    for name, one in found.fit.constants.items():
        if one.determined:
            was = f", was {one.old:g}: ruled out" if one.changed else ""
            print(f"  {name:28} {one.value:g} ({one.low:.4g} to {one.high:.4g}){was}")
    open_ = [name for name, one in found.fit.constants.items() if not one.determined]
    if open_:
        print(f"not determined: {', '.join(open_)}")
