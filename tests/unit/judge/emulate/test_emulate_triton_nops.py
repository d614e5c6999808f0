"""Our table of wait states against LLVM's, through kernels that Triton compiled.

Two directions. No finding on a compiler's kernel: our table asks for nothing that LLVM does not
(every run in ``test_emulate_triton`` checks that, too). And each of its ``s_nop``, one wait state
shorter, is a finding: our table asks for everything that LLVM does. Exceptions, by name:

- After packed instructions (v_pk_*) LLVM takes op_sel_hi of the first source, which is set by
  default, for a select of the destination, and waits once. The same bit pattern without op_sel_hi
  gets no s_nop; the ISA asks for none.
- Between memory instructions where a load overwrites an address of the same run: only if XNACK may
  replay them. We take XNACK to be off.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeloom.judge.emulate import check_hazards, decode_kernel
from pipeloom.judge.emulate.wait_states import read_instructions
from pipeloom.judge.wait_states import Issued, judge, read_assembly
from pipeloom.machine.chips import target_for

pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
pytest.importorskip("triton", reason="the triton wheel is not installed")

MEMORY = ("global_", "scratch_", "buffer_")


@pytest.fixture(scope="module")
def tritons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The kernels of ``test_emulate_triton``."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
    patch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    path = Path(__file__).parent / "test_emulate_triton.py"
    spec = importlib.util.spec_from_file_location("triton_kernels", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["triton_kernels"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["triton_kernels"]
    patch.undo()


def softmax(t: Any, arch: str) -> Any:
    types = {"x": "*bf16", "out": "*bf16", "stride": "i32", "n": "i32"}
    return t.build(t.softmax, arch, types, {"B": 1024}, num_warps=4)


def attention(t: Any, arch: str) -> Any:
    types = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp16", "scale": "fp32"}
    return t.build(t.attention, arch, types, {"S": 64, "D": 64, "BM": 64, "BN": 32}, num_warps=4)


def histogram(t: Any, arch: str) -> Any:
    types = {"x": "*fp32", "out": "*fp32", "n": "i32"}
    return t.build(t.histogram_add, arch, types, {"B": 256})


def gemm16(t: Any, arch: str) -> Any:
    return t.build_gemm(arch, "bf16", False, (64, 64, 32), 4, 2, 16, "bf16")


def gemm32(t: Any, arch: str) -> Any:
    return t.build_gemm(arch, "fp16", True, (128, 64, 64), 4, 2, 32, "bf16")


def gemm_f32(t: Any, arch: str) -> Any:
    return t.build_gemm(arch, "fp32", True, (64, 64, 32), 4, 2, 16, "bf16")


def gemm_f8(t: Any, arch: str) -> Any:
    kind, depth = ("fp8e4b8", 64) if arch == "gfx942" else ("fp8e4nv", 128)
    return t.build_gemm(arch, kind, True, (64, 64, depth), 4, 2, 32, "fp16")


KERNELS = [
    # kernel, at least how many s_nop on gfx942, on gfx950
    (softmax, 10, 10),
    (attention, 4, 10),
    (histogram, 0, 0),
    (gemm16, 10, 3),
    (gemm32, 10, 3),
    (gemm_f32, 10, 10),
    (gemm_f8, 1, 1),
]


def excused(program: list[Issued], at: int) -> bool:
    before, after = program[at - 1].name, program[at + 1].name
    return before.startswith("v_pk_") or after.startswith(MEMORY)


@pytest.mark.parametrize(("make", "cdna3", "cdna4"), KERNELS)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_our_table_is_llvms(
    tritons: Any, make: Callable[[Any, str], Any], cdna3: int, cdna4: int, arch: str
) -> None:
    built = make(tritons, arch)
    kernel = tritons.kernel_of(built)
    assert check_hazards(kernel) == ()
    text, entries = read_assembly(built.text)
    assert judge(text, target_for(arch), entries) == ()
    decoded = read_instructions(decode_kernel(kernel.code))
    nops = [at for at, one in enumerate(decoded) if one.name == "s_nop" and one.place >= 256]
    assert len(nops) >= (cdna4 if arch == "gfx950" else cdna3)
    for at in nops:
        shorter = list(decoded)
        shorter[at] = replace(shorter[at], wait_states=shorter[at].wait_states - 1)
        found = judge(shorter, target_for(arch))
        assert found or excused(decoded, at), hex(decoded[at].place)
        assert all(shortfall.missing == 1 for shortfall in found)
