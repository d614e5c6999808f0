# The public names: `__init__.py` reads this file.
from .expand import (
    Expansion as Expansion,
    Step as Step,
    expand_modulo as expand_modulo,
)
from .explain import (
    Explanation as Explanation,
    explain_ii as explain_ii,
)
from .parts import (
    Budget as Budget,
    Channel as Channel,
    Edge as Edge,
    MachineUnit as MachineUnit,
    Op as Op,
    Reader as Reader,
    Reservation as Reservation,
    Value as Value,
)
from .problem import ModuloProblem as ModuloProblem
from .result import (
    BoundCertificate as BoundCertificate,
    ModuloResult as ModuloResult,
    ObjectiveValue as ObjectiveValue,
    Refutation as Refutation,
    SolveStatus as SolveStatus,
    render_table as render_table,
)
from .solve import (
    ALL_OBJECTIVES as ALL_OBJECTIVES,
    SolveProgress as SolveProgress,
    least_ii as least_ii,
    solve_modulo as solve_modulo,
)
from .validity import (
    Violation as Violation,
    check_modulo as check_modulo,
)
from .whole import Objective as Objective
