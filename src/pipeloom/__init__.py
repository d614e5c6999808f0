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
    value = _first_use(name)
    if not name.startswith("_"):
        from pipeloom.field_texts import explain

        explain(value)
    return value
