"""Exact modulo scheduling: the smallest II, proved, with what it costs and why no less.

    from pipeloom.order.modulo import ModuloProblem, solve_modulo

    result = solve_modulo(ModuloProblem.from_json(text), time_limit=10)
    print(result.ii, result.proved, result.certificate.why)

The problem is data (``problem``), the solver is never trusted (``validity``), and what a schedule
becomes in code does not depend on how it was found (``expand``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
