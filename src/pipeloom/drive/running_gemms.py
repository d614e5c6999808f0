"""Run a whole matrix product of ``gemm``, with what copies its operands and adds up its slices.

    run_recorded(recorded_gemm("k.hsaco"), {}, seeds=[0, 1, 2], limits=RunLimits(timings=3))

A record beside a code object says which spec it was made from (``gemm_made_from``). The kernels are
made anew from that and must be those in the files, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeloom.checks import check_int, check_known
from pipeloom.device.images import KernelImage, read_record, record_path
from pipeloom.drive.gemm import SIZES, Gemm, GemmSpec, gemm_kernel
from pipeloom.drive.gemm_trial import GemmCall, ReadyGemm, run_gemm
from pipeloom.drive.on_gpu import OnGpu
from pipeloom.drive.run_limits import RunLimits
from pipeloom.drive.running import Ran, check_memory, check_work, needed_bytes
from pipeloom.drive.trial import Trial
from pipeloom.errors import ConfigError, SpecError
from pipeloom.files import read_file, reading
from pipeloom.plain import from_plain
from pipeloom.write import assemble


@dataclass(frozen=True, slots=True)
class RecordedGemm:
    """What the record beside a code object says: the spec, and the sizes that it is meant for."""

    code: Path
    spec: GemmSpec
    sizes: Mapping[str, int]
    files: Mapping[str, str]
    """The file of every kernel, by symbol."""


def recorded_gemm(code: str | Path) -> RecordedGemm | None:
    """What a code object of ``gemm`` was made from; None where no record says that it is one."""
    record = read_record(record_path(code))
    made = (record or {}).get("made_from")
    if record is None or not isinstance(made, Mapping) or "gemm" not in made:
        return None
    spec = from_plain(GemmSpec, made["gemm"], "made_from.gemm")
    sizes = made.get("sizes")
    if not isinstance(sizes, Mapping) or sorted(sizes) != sorted(SIZES):
        raise SpecError(
            f"the record of {code} has sizes {sizes!r}",
            hint=f"it must say {', '.join(SIZES)}; write the kernel anew with pipeloom gemm",
            field="made_from.sizes",
        )
    parts = [record, record.get("then"), *dict(record.get("before") or {}).values()]
    files = {one["kernel"]: one["file"] for one in parts if isinstance(one, Mapping)}
    return RecordedGemm(Path(code), spec, dict(sizes), files)


def run_recorded(
    found: RecordedGemm,
    sizes: Mapping[str, int],
    seeds: Iterable[int],
    limits: RunLimits,
    *,
    check_races: bool = True,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
    on: OnGpu | None = None,
) -> Ran:
    """Run the kernels in the files, at the record's sizes unless others are given."""
    made = gemm_kernel(found.spec)
    ready = ReadyGemm.of(made)
    for kernel in made.kernels:
        file = found.code.with_name(Path(str(found.files.get(kernel.name, ""))).name)
        if kernel is made.kernel:
            file = found.code
        with reading(file, f"{found.code} needs it; write both anew with pipeloom gemm", "source"):
            data = read_file(file)
        if data != assemble(kernel).data:
            raise SpecError(
                f"{file} is not what its record gives today",
                hint="write it anew with pipeloom gemm, or judge it as it is: "
                f"pipeloom check {file} --launch",
                field="source",
            )
    whole = {dim: {**found.sizes, **sizes}[dim] for dim in (*SIZES, *sizes)}
    trials = gemm_trials(ready, whole, track(seeds), limits, check_races=check_races, on=on)
    return Ran(made.kernel, whole, trials, check_races, gpu=None if on is None else on.gpu)


def gemm_trials(
    ready: ReadyGemm,
    sizes: Mapping[str, int],
    seeds: Iterable[int],
    limits: RunLimits,
    *,
    check_races: bool = True,
    on: OnGpu | None = None,
) -> tuple[Trial, ...]:
    """A trial for each seed, every array as short as it may be."""
    made = ready.made
    for dim in sizes:
        check_known(dim, SIZES, f"a matrix product has no size {dim!r}", "sizes")
        check_int("sizes", dim, sizes[dim], 1)
    call = {"batches": 1, **sizes}
    if call["batches"] > 1 and not made.spec.batched:
        raise ConfigError(
            f"batches is {call['batches']}, and the kernel computes one product",
            hint=f"make it with batches={call['batches']}",
            field="sizes",
        )
    plain = {dim: call[dim] for dim in ("m", "n", "k")}
    needed = call["batches"] * needed_bytes(made.program.meaning, plain)
    check_memory(limits, needed, plain)
    runner = None
    if on is None:
        check_work(limits, made.kernel, plain, call["batches"])
    else:
        codes = {kernel.name: assemble(kernel).data for kernel in made.kernels}
        runner = on.runner(KernelImage(made.contract(), codes))
    spare = tuple(_spare(made, name, plain) for name in "AB")
    calls = (
        GemmCall(
            m=call["m"],
            n=call["n"],
            k=call["k"],
            batches=call["batches"],
            spare=(spare[0], spare[1], 0),
            seed=seed,
        )
        for seed in seeds
    )
    return tuple(run_gemm(ready, one, check_races=check_races, runner=runner) for one in calls)


def _spare(made: Gemm, name: str, sizes: Mapping[str, int]) -> int:
    """Elements that make rows of A or B as long as the kernel wants them."""
    _, columns = made.shape(name, sizes["m"], sizes["n"], sizes["k"])
    return -columns % max(8 * made.spec.align // made.spec.element.bits, 1)
