"""Which machine an architecture name means, and which is meant by none."""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import DType, dtype_for
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target

TARGETS: tuple[Target, ...] = (GFX942, GFX950)
ANY_CHIP = GFX950.arch
"""The machine of what suits several, where none is given."""


def target_for(arch: str | Target) -> Target:
    """The machine named by its LLVM architecture (``gfx950``) or its chip (``MI355X``).

    Args:
        arch: Either name, in any case; or the machine itself, which may be one of your own.
    """
    if isinstance(arch, Target):
        return arch
    for machine in TARGETS:
        if isinstance(arch, str) and arch.lower() in (machine.arch, machine.chip.lower()):
            return machine
    raise ConfigError(
        f"unknown architecture {arch!r}",
        hint="use one of " + ", ".join(f"{m.arch} ({m.chip})" for m in TARGETS),
        field="arch",
    )


def element_type(name: str, target: Target) -> DType:
    """The type that ``name`` means on a chip, whose 8-bit floats may be FNUZ.

    Args:
        name: The type's name, as ``fp8``.
        target: The chip.
    """
    fnuz = f"{name}_fnuz"
    return dtype_for(fnuz if target.multiplies(fnuz) else name)
