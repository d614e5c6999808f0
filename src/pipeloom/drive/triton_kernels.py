"""Triton and Gluon kernels: the jitted function, its grid and its arguments in one call.

    checked = check_triton(add, (4,), x, y, out, 1000, BLOCK=256)
    print(checked.verdict.summary())

The function is compiled ahead of time for the chip; no GPU and no driver is needed. Triton itself
is imported only here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeloom.checks import check_known
from pipeloom.drive.checking import MOST_INSTRUCTIONS, SEEDS, Checked, check
from pipeloom.drive.kernel_files import KernelFile
from pipeloom.errors import ConfigError
from pipeloom.judge.emulate import load_code_object
from pipeloom.machine.chips import ANY_CHIP, TARGETS

CHIPS = tuple(target.arch for target in TARGETS)
"""What the emulator runs."""
_ALIGNED = 16
"""Pointers are aligned to 16 bytes, and multiples of it are marked, as Triton's launcher does."""
_KINDS = {"f": "fp", "i": "i", "u": "u"}


def check_triton(
    function: Any,
    grid: Sequence[int],
    *args: Any,
    arch: str = ANY_CHIP,
    num_warps: int = 4,
    types: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    seeds: int = SEEDS,
    max_instructions: int = MOST_INSTRUCTIONS,
    **constants: Any,
) -> Checked:
    """Compile a jitted function of Triton or Gluon and judge it at this launch.

    Args:
        function: What ``@triton.jit`` or ``@gluon.jit`` decorates.
        grid: Workgroups along x, y and z.
        *args: NumPy arrays and numbers in the order of the function's parameters, those marked
            ``constexpr`` left out.
        arch: The chip to compile for.
        num_warps: Waves of a workgroup.
        types: Types that NumPy lacks, by parameter: ``{"x": "*bf16"}`` for an array of 16-bit
            patterns.
        options: The compiler's: ``num_stages``, ``matrix_instr_nonkdim``, ``waves_per_eu``, ...
        seeds: As for ``check``.
        max_instructions: As for ``check``.
        **constants: The ``constexpr`` parameters by name.
    """
    file, shared = compile_triton(function, args, constants, arch, num_warps, types, options)
    # Triton's ABI adds two pointers to scratch areas, which a kernel without them never reads.
    spare = len(file.kernel.explicit_arguments) - len(args)
    return check(
        file,
        grid,
        (64 * num_warps,),
        [*args, *[None] * spare],
        dynamic_lds=shared,
        seeds=seeds,
        max_instructions=max_instructions,
    )


def compile_triton(
    function: Any,
    args: Sequence[Any],
    constants: Mapping[str, Any],
    arch: str,
    num_warps: int = 4,
    types: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[KernelFile, int]:
    """The compiled kernel with its assembly, and the LDS that a launch has to add."""
    try:
        import triton
        from triton.backends.compiler import GPUTarget
    except ImportError as error:
        raise ConfigError(
            "the triton wheel is not installed", hint="pip install triton", field="function"
        ) from error
    if not hasattr(function, "params"):
        raise ConfigError(
            f"{function!r} is no jitted function",
            hint="decorate it with @triton.jit or @gluon.jit",
            field="function",
        )
    check_known(arch, CHIPS, f"arch is {arch!r}, whose kernels are not judged", "arch")
    names = [one.name for one in function.params]
    runtime = [one.name for one in function.params if not one.is_constexpr]
    _check_arguments(function, names, runtime, args, constants)
    given = dict(zip(runtime, args, strict=True))
    chosen = types or {}
    signature = {
        name: (chosen.get(name) or _type_of(name, given[name])) if name in given else "constexpr"
        for name in names
    }
    source = _source_of(function)(
        fn=function,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={
            (names.index(name),): [["tt.divisibility", _ALIGNED]]
            for name, value in given.items()
            if isinstance(value, np.ndarray) or (isinstance(value, int) and value % _ALIGNED == 0)
        },
    )
    made = triton.compile(
        source,
        target=GPUTarget("hip", arch, 64),
        options={"num_warps": num_warps, **(options or {})},
    )
    kernel = load_code_object(made.asm["hsaco"]).kernel()
    file = KernelFile(kernel, made.asm["hsaco"], f"{kernel.name}.s", made.asm["amdgcn"])
    return file, int(made.metadata.shared)


def _source_of(function: Any) -> Any:
    """The compiler's front end: Gluon functions have one of their own."""
    if getattr(function, "is_gluon", lambda: False)():
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource
    from triton.compiler import ASTSource

    return ASTSource


def _check_arguments(
    function: Any,
    names: Sequence[str],
    runtime: Sequence[str],
    args: Sequence[Any],
    constants: Mapping[str, Any],
) -> None:
    if len(args) != len(runtime):
        raise ConfigError(
            f"{function.__name__} takes {len(runtime)} arguments, got {len(args)}",
            hint="in order: " + ", ".join(runtime),
            field="args",
        )
    wanted = [name for name in names if name not in runtime]
    missing = [name for name in wanted if name not in constants]
    unknown = [name for name in constants if name not in wanted]
    if missing or unknown:
        problem = f"lacks {missing[0]}" if missing else f"has no constexpr {unknown[0]}"
        raise ConfigError(
            f"{function.__name__} {problem}",
            hint="pass by name: " + (", ".join(wanted) or "nothing"),
            field="constants",
        )


def _type_of(name: str, value: Any) -> str:
    """Triton's name of an argument's type."""
    if isinstance(value, np.ndarray) and value.dtype.kind in _KINDS:
        return f"*{_KINDS[value.dtype.kind]}{8 * value.dtype.itemsize}"
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(1 << 31) <= value < 1 << 31 else "i64"
    if isinstance(value, float):
        return "fp32"
    raise ConfigError(
        f"the type of {name} is not known from a {type(value).__name__}",
        hint='say it: types={"' + name + '": "*bf16"}',
        field="types",
    )
