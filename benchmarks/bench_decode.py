"""The derived decode loops: cycles per tile of keys, of their own instructions, beside the memory.

    python -m benchmarks.bench_decode [FORM ...]

Each form is derived without the store, proved, emitted and simulated in its plain loop: one
workgroup alone on a compute unit, and as many as it has room for. The bound is the bytes of keys
and values over a compute unit's share of the bandwidth.

Target: 97 % of the bound with as many workgroups as there is room for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from benchmarks.bench_attention import alone, passed
from pipeloom.declare.decoding import decode_attention, decode_latent
from pipeloom.declare.loop import Loop
from pipeloom.drive.deriving import derive
from pipeloom.drive.store import Store
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.machine_code import simulate_emitted
from pipeloom.order.peel import peel
from pipeloom.program.nodes import NodeKind
from pipeloom.program.program import Program
from pipeloom.write import EmittedKernel, emit_program

ARCH, TRIPS = "gfx950", 16


@dataclass(frozen=True, slots=True)
class Form:
    """A declaration and its waves."""

    loop: Loop
    waves: int | Mapping[str, int]


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "d64": Form(decode_attention(keys=64, depth=64), {"v": 2}),
        "d128": Form(decode_attention(keys=64, depth=128), {"v": 4}),
        "d64-pages": Form(decode_attention(keys=64, depth=64, page=16), {"v": 2}),
        "d128-pages": Form(decode_attention(keys=32, depth=128, page=16), {"v": 4}),
        "d64-fp8": Form(decode_attention(keys=64, depth=64, cache="fp8", scales="head"), 1),
        "d128-fp8": Form(decode_attention(keys=32, depth=128, cache="fp8", scales="head"), 1),
        "mla": Form(decode_latent(keys=16), {"v": 2}),
        "mla-pages": Form(decode_latent(keys=16, page=16), {"v": 2}),
        "mla-64-rows": Form(decode_latent(rows=64, keys=32), {"q": 4}),
        "mla-fp8": Form(decode_latent(keys=32, dtype="fp8"), {"v": 2}),
    }
)


def read_bytes(loop: Loop) -> int:
    """Of an iteration: every stream's tile once."""
    return sum(
        prod(n.type.shape) * n.type.dtype.bits // 8
        for n in loop.meaning.nodes
        if n.kind is NodeKind.STREAM
    )


def cycles_each(kernel: EmittedKernel, program: Program, workgroups: int) -> float:
    """Of an iteration of one of them, with so many beside each other."""
    step, least = program.step, program.iterations.at(program.min_trips)
    trace = simulate_emitted(kernel, k_tiles=least + TRIPS * step, workgroups=workgroups)
    return trace.steady_cycles_per_iteration / step / workgroups


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("form", nargs="*", choices=[[], *FORMS], help="these only")
    target = target_for(ARCH)
    print("form, bound, cycles alone, workgroups, cycles of one of them, share of the bound, VGPRs")
    for name in parser.parse_args().form or FORMS:
        form, start = FORMS[name], time.process_time()
        found = derive(form.loop, target, form.waves, store=Store(None))
        if found is None:
            raise SystemExit(f"{name}: not woven")
        program = found.program
        proved = emit_program(peel(program), judge=verify).status.name
        kernel = emit_program(alone(program)[0], judge=passed)
        held = kernel.resources
        single, shared = (cycles_each(kernel, program, n) for n in (1, held.workgroups))
        memory = read_bytes(form.loop) / target.global_bytes_per_clk.value
        took = time.process_time() - start
        print(
            f"{name:12} {memory:5.0f} {single:7.0f} {held.workgroups:3} {shared:7.0f}"
            f" {memory / shared:7.1%} {held.vgprs:4} {proved} ({took:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
