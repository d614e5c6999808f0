"""pipeloom: declare one loop iteration and a machine, get its software pipeline.

import pipeloom as pl
program = pl.pipeline(pl.kernels.gemm(64, 64, 64), pl.target_for("gfx950"), waves=4)
pl.verify(program).proved, pl.simulate(program), pl.emit(program).text

``__init__.pyi`` is the list of public names. They are imported when first used, so that ``import
pipeloom`` and ``pipeloom --help`` are quick.
"""

import lazy_loader

__version__ = "0.1.0"
_first_use, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """The public name, whose classes explain their fields in ``help()``."""
    if name not in __all__ and not name.startswith("_"):
        from difflib import get_close_matches

        close = get_close_matches(name, __all__, n=1, cutoff=0.7)
        hint = f"did you mean pl.{close[0]}?" if close else "dir(pl) lists its names"
        raise AttributeError(f"pipeloom has no {name}; {hint}", name=name, obj=None)
    value = _first_use(name)
    if not name.startswith("_"):
        from pipeloom.field_texts import explain

        explain(value)
    return value
