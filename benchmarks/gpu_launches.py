"""Launches of every family of kernels through HIP, each compared with NumPy.

    python -m benchmarks.gpu_launches [--count 200] [--seed 0] [--real] [--only slices]

Sizes, strides, batches, seeds and devices are drawn, and of every array whether it is one of NumPy
or, where PyTorch is installed, a tensor of its type in the same memory. HIP is the stand-in of the
tests, whose launches run in the emulator; with ``--real`` it is the one of this machine, on every
GPU that there is a kernel for. Of kernels that time themselves the records are read, too.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import pipeloom as pl
from pipeloom.declare.gemm_problem import Finish
from pipeloom.device.hip import Hip
from pipeloom.device.images import KernelImage
from pipeloom.device.sequence import operand_rules
from pipeloom.device.tensors import TORCH_TYPES
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.gemm_trial import GemmCall, ReadyGemm, run_gemm
from pipeloom.drive.on_gpu import OnGpu
from pipeloom.drive.runners import Launched, Runner
from pipeloom.drive.trial import Array, Data, Trial, run_program
from pipeloom.write import assemble, launch_record
from tests.standin.build import StandIn

TENSORS: Counter[str] = Counter()
"""Whose arrays were launched with."""
TORCH: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None

TILE: dict[str, Any] = {"BM": 32, "BN": 32, "BK": 64, "waves_m": 2, "waves_n": 2, "search": False}
PRODUCTS: dict[str, dict[str, Any]] = {
    "bf16 NT": {},
    "fp16 NN": {"dtype": "fp16", "layout": "NN"},
    "bf16 TN": {"layout": "TN"},
    "bf16 TT to f32": {"layout": "TT", "out": "f32"},
    "fp8 by bf8": {"dtype": "fp8", "dtype_b": "bf8", "BK": 128},
    "slices": {"splits": 3},
    "slices, scales, bias": {"splits": 2, "finish": Finish(scales=True, bias=True)},
    "any alignment": {"align": 2},
    "any alignment, slices": {"align": 2, "splits": 2},
    "batches": {"batched": True},
    "alpha, beta, bias": {"batched": True, "finish": Finish(alpha=True, beta=True, bias=True)},
    "mxfp4": {"dtype": "mxfp4", "BM": 64, "BN": 64, "BK": 256},
    "mxfp8": {"dtype": "mxfp8", "BM": 64, "BN": 64, "BK": 128},
}
Draw = random.Random


def mixed(device: int, image: KernelImage, draw: Draw) -> Runner:
    """What launches it, with tensors of PyTorch for some of the arrays, in the same memory."""
    runner, rules = OnGpu(device).runner(image), operand_rules(image.record)

    def run(arrays: Mapping[str, Array], scalars: Mapping[str, Any]) -> Launched:
        taken = {name: arrays[name] for name in rules if name in arrays}
        some = {n: draw.choice(_forms(one, rules[n].dtype)) for n, one in taken.items()}
        TENSORS.update("NumPy" if isinstance(one, np.ndarray) else "torch" for one in some.values())
        return runner(some, scalars)

    return run


def _forms(array: Array, kind: str) -> list[Any]:
    """An array of NumPy, and tensors that are the same: of codes, and of the type itself."""
    if TORCH is None:
        return [array]
    codes = TORCH.from_numpy(array)
    own = getattr(TORCH, TORCH_TYPES.get(kind, ""), codes.dtype)
    return [array, codes.view(own) if own.itemsize == array.itemsize else codes]


@cache
def ready_product(name: str, arch: str) -> ReadyGemm:
    """A product, emitted and assembled once."""
    return ReadyGemm.of(gemm_kernel(GemmSpec(**{**TILE, "arch": arch, **PRODUCTS[name]})))


def product(name: str, draw: Draw, device: int, arch: str) -> Trial:
    """A product of drawn sizes, rows with gaps, batches where it has them."""
    ready = ready_product(name, arch)
    made, spec = ready.made, ready.made.spec
    wide = made.kernel.launch.multiples
    m, n = (-(-draw.randint(1, 60) // wide.get(d, 1)) * wide.get(d, 1) for d in "mn")
    k = draw.randint(1, 200) if spec.align < 4 else draw.randint(1, 200) // 8 * 8
    k = -(-max(k, 1) // wide.get("k", 1)) * wide.get("k", 1) if spec.align >= 4 else k
    align = 8 * spec.align // spec.element.bits or 1
    shapes = [made.shape(one, m, n, k) for one in "AB"]
    spare = tuple(-columns % align + align * draw.randint(0, 2) for _, columns in shapes)
    batches = draw.randint(1, 3) if spec.batched else 1
    call = GemmCall(
        m=m,
        n=n,
        k=k,
        batches=batches,
        spare=(spare[0], spare[1], draw.randint(0, 3)),
        alpha=draw.choice([1.0, 0.5, -2.0]) if spec.finish.alpha else 1.0,
        beta=draw.choice([0.0, 1.0, 0.5]) if spec.finish.beta else 0.0,
        seed=draw.randrange(1 << 20),
    )
    codes = {kernel.name: assemble(kernel).data for kernel in made.kernels}
    image = KernelImage(made.contract(), codes)
    return run_gemm(ready, call, runner=mixed(device, image, draw))


@cache
def emitted(name: str, arch: str) -> tuple[pl.EmittedKernel, Any]:
    """A kernel that is no product of ``gemm``, with its ops."""
    target = pl.target_for(arch)
    if name == "row sums":
        loop = pl.Loop("row_sums", over="k")
        x = loop.stream("x", pl.F32, m=64, k=32)
        total = loop.carry("total", pl.F32, start=0, m=64)
        total += x.sum("k")
        loop.store("out", total)
        return pl.emit(pl.pipeline(loop, target, {"m": 1}), ops=loop.ops), loop.ops
    if name.startswith("attention"):
        loop = pl.kernels.attention(64, 32, 32, causal="causal" in name, lse="lse" in name)
        return pl.emit(pl.pipeline(loop, target, {"q": 2}), ops=loop.ops), loop.ops
    if name.startswith("decode"):
        kernels = pl.kernels
        page = 16 if "pages" in name else None
        loop = kernels.decode_attention(16, 32, 32, page=page)
        if "reduce" in name:
            loop = kernels.decode_reduce(16, 32)
        return pl.emit(pl.pipeline(loop, target, 1), ops=loop.ops), loop.ops
    timed = name.endswith("timed")
    return pl.emit(name.split()[0], target=arch, timed=timed), pl.VOCABULARY


def program(name: str, draw: Draw, device: int, arch: str) -> Trial:
    """A schedule, a loop of one's own or attention, of drawn sizes and strides."""
    kernel, ops = emitted(name, arch)
    launch = kernel.launch
    whole = launch.multiples
    drawn = {dim: draw.randint(1, 2 * tile) for dim, tile in launch.tiles.items()}
    sizes = {dim: -(-n // whole.get(dim, 1)) * whole.get(dim, 1) for dim, n in drawn.items()}
    sizes |= {dim: launch.tiles[dim] for dim in launch.meaning.uncut}
    batch = launch.meaning.batch
    sizes |= {**dict.fromkeys(batch, 1), **({draw.choice(batch): 2} if batch else {})}
    over = launch.meaning.over
    if not launch.meaning.ragged:
        sizes[over] = launch.least + launch.step * draw.randint(0, 2)
    places = [node.at for node in launch.meaning.inputs if node.at is not None]
    if places:
        derived = {dim for place in places for dim in place.derived()}
        sizes = {dim: size for dim, size in sizes.items() if dim not in derived}
        sizes |= {"table_length": 3, "pages": 7, "slots": 16}
        sizes |= {dim: 32 for place in places for dim in place.dims[2:]}
    image = KernelImage(launch_record(kernel), {kernel.name: assemble(kernel).data})
    spare = {node.name: 8 * draw.randint(0, 2) for node in launch.meaning.inputs}
    spare = {one: count for one, count in spare.items() if len(launch.meaning[one].type.dims) > 1}
    return run_program(
        kernel,
        assemble(kernel),
        sizes=sizes,
        seed=draw.randrange(1 << 20),
        data=draw.choice([*Data]),
        spare=spare,
        ops=ops,
        runner=mixed(device, image, draw),
    )


PROGRAMS = (
    *("single_buffer", "row sums", "attention", "attention causal", "attention lse"),
    *("decode", "decode pages", "decode reduce", "single_buffer timed"),
)


def cases(draw: Draw, hip: Hip, only: str = "") -> Iterator[tuple[str, Callable[[], Trial]]]:
    """Families in turn, without end, each on a device that it can be written for."""
    chips = {gpu.index: gpu.arch for gpu in hip.gpus() if gpu.arch in ("gfx942", "gfx950")}
    families = [name for name in (*PRODUCTS, *PROGRAMS) if only in name]
    while True:
        for name in families:
            newer = name.startswith(("mx", "single")) or "bf8" in name
            fitting = [index for index, arch in chips.items() if not newer or arch == "gfx950"]
            if not fitting:
                continue
            device = draw.choice(fitting)
            run = product if name in PRODUCTS else program
            one = Draw(draw.random())
            yield name, lambda r=run, n=name, o=one, d=device: r(n, o, d, chips[d])  # type: ignore[misc]


@contextmanager
def some_hip(real: bool) -> Iterator[Hip]:
    """That of this machine, or the stand-in."""
    if real:
        yield Hip.open()
        return
    with tempfile.TemporaryDirectory() as name, StandIn.start(Path(name)) as stand:
        os.environ.update(stand.environment())
        yield Hip.open()


def main(command: Sequence[str] | None = None) -> int:
    """Launch, compare, and count."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", action="store_true", help="the HIP of this machine")
    parser.add_argument("--only", default="", help="families whose names have this")
    given = parser.parse_args(command)
    right: Counter[str] = Counter()
    wrong: list[str] = []
    begin = time.process_time()
    with some_hip(given.real) as hip:
        families = cases(Draw(given.seed), hip, given.only)
        for number in range(given.count):
            name, run = next(families)
            try:
                trial = run()
                said, ok = trial.summary(), trial.ok
            except pl.ScheduleError as error:
                said, ok = str(error), False
            right[name] += ok
            wrong += [] if ok else [f"{number} {name}: {said}"]
            print(f"{number} {name}: {said}", flush=True)
    for name, count in right.items():
        print(f"{name:<24} {count} equal to NumPy")
    print(", ".join(f"{count} arrays of {whose}" for whose, count in sorted(TENSORS.items())))
    seconds = time.process_time() - begin
    print(
        f"{right.total()} of {given.count} launches right, {seconds:.0f} CPU s beside the emulator"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
