"""A cycle simulator of a compute unit, built from public measurements.

``simulate`` runs a program, ``simulate_stream`` a loop written as text,
``simulate_programs`` typed programs per wave; all return a ``Trace``. ``estimate_gemm`` scales one
tile to the whole chip.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
