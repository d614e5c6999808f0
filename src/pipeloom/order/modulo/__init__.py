"""Exact modulo scheduling: the smallest II, proved, with what it costs and why no less.

    from pipeloom.order.modulo import ModuloProblem, solve_modulo

    result = solve_modulo(ModuloProblem.from_json(text), time_limit=10)
    print(result.ii, result.proved, result.certificate.why)

The problem is data (``problem``), the solver is never trusted (``validity``), and what a schedule
becomes in code does not depend on how it was found (``expand``).
"""

from pipeloom.order.modulo.expand import Expansion, Step, expand_modulo
from pipeloom.order.modulo.explain import Explanation, explain_ii
from pipeloom.order.modulo.parts import (
    Budget,
    Channel,
    Edge,
    MachineUnit,
    Op,
    Reader,
    Reservation,
    Value,
)
from pipeloom.order.modulo.problem import ModuloProblem
from pipeloom.order.modulo.result import (
    BoundCertificate,
    ModuloResult,
    ObjectiveValue,
    Refutation,
    SolveStatus,
    render_table,
)
from pipeloom.order.modulo.solve import ALL_OBJECTIVES, SolveProgress, least_ii, solve_modulo
from pipeloom.order.modulo.validity import Violation, check_modulo
from pipeloom.order.modulo.whole import Objective

__all__ = [
    "ALL_OBJECTIVES",
    "BoundCertificate",
    "Budget",
    "Channel",
    "Edge",
    "Expansion",
    "Explanation",
    "MachineUnit",
    "ModuloProblem",
    "ModuloResult",
    "Objective",
    "ObjectiveValue",
    "Op",
    "Reader",
    "Refutation",
    "Reservation",
    "SolveProgress",
    "SolveStatus",
    "Step",
    "Value",
    "Violation",
    "check_modulo",
    "expand_modulo",
    "explain_ii",
    "least_ii",
    "render_table",
    "solve_modulo",
]
