"""Exact modulo scheduling: the smallest II, proved, with what it costs and why no less.

    from pipeloom.modulo import ModuloProblem, solve_modulo

    result = solve_modulo(ModuloProblem.from_json(text), time_limit=10)
    print(result.ii, result.proved, result.certificate.why)

The problem is data (``problem``), the solver is never trusted (``check``), and what a schedule
becomes in code does not depend on how it was found (``expand``).
"""

from pipeloom.modulo.check import Violation, check_modulo
from pipeloom.modulo.expand import Expansion, Step, expand_modulo
from pipeloom.modulo.explain import Explanation, explain_ii
from pipeloom.modulo.problem import (
    Budget,
    Channel,
    Edge,
    ModuloProblem,
    Op,
    Reader,
    Reservation,
    Unit,
    Value,
)
from pipeloom.modulo.result import (
    Certificate,
    ModuloResult,
    ObjectiveValue,
    Refutation,
    render_table,
)
from pipeloom.modulo.solve import ALL_OBJECTIVES, Progress, solve_modulo
from pipeloom.modulo.whole import Objective

__all__ = [
    "ALL_OBJECTIVES",
    "Budget",
    "Certificate",
    "Channel",
    "Edge",
    "Expansion",
    "Explanation",
    "ModuloProblem",
    "ModuloResult",
    "Objective",
    "ObjectiveValue",
    "Op",
    "Progress",
    "Reader",
    "Refutation",
    "Reservation",
    "Step",
    "Unit",
    "Value",
    "Violation",
    "check_modulo",
    "expand_modulo",
    "explain_ii",
    "render_table",
    "solve_modulo",
]
