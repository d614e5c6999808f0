"""What a user implements to get a pipeline: two methods, and hooks with defaults.

    class MySchedule(PipelineSchedule):
        def config(self): return my_pipeline_config
        def build_body(self): return annotate_ops(my_ops, my_costs)

``compile_schedule(MySchedule())`` does the rest. Override a hook only to depart from the
default: other dependence rules, other scheduler knobs, hand-written blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pipeloom.errors import ScheduleError
from pipeloom.notebook import fragment
from pipeloom.reference.blocks import PipelineProgram
from pipeloom.reference.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.edges import EdgeRule, default_edge_rules, derive_edges_from_ops
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import DepEdge
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.ops import OpDesc
from pipeloom.reference.schedule_config import ScheduleConfig


class PipelineSchedule(ABC):
    """A declaration of one loop: its shape, its ops, and how they depend on each other.

    Write ``config`` and ``build_body``; everything else has a default. A schedule can be passed to
    ``compile_schedule``, ``verify``, ``simulate`` and ``report`` as it is.
    """

    @property
    def name(self) -> str:
        """What reports and kernel models call this schedule."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: schedule {self.name}>"

    def _repr_html_(self) -> str:
        """For notebooks: the ops of one iteration, and a trip of the compiled schedule in time."""
        try:
            body, shape = self.build_body(), self.geometry()
        except ScheduleError as error:
            return fragment(self.name, f"cannot be shown: {error.message}")
        tile = "no tile shape" if shape is None else f"tile {shape.BM}x{shape.BN}x{shape.BK}"
        text = f"declared, {tile}; {len(body)} ops in an iteration"
        rows = [(op.role.name.lower(), op.resource.name.lower(), op.latency) for op in body]
        kinds = [(*row, rows.count(row)) for row in dict.fromkeys(rows)]
        columns = ("role", "resource", "latency", "ops")
        return fragment(self.name, text, columns, kinds, drawn=self)

    @abstractmethod
    def config(self) -> PipelineConfig:
        """The shape of the pipeline."""

    @abstractmethod
    def build_body(self) -> list[OpDesc]:
        """One iteration's ops, annotated with costs, in the order to start from."""

    def schedule_config(self) -> ScheduleConfig:
        """The scheduler's knobs; by default ``ScheduleConfig()``."""
        return ScheduleConfig()

    def edge_rules(self) -> tuple[EdgeRule, ...]:
        """The dependence rules; extend with ``super().edge_rules() + (my_rule,)``."""
        return default_edge_rules(self.config())

    def derive_edges(self, body: list[OpDesc]) -> list[DepEdge]:
        """The dependences of ``body``, by default from ``edge_rules``.

        Args:
            body: what ``build_body`` returned.
        """
        return derive_edges_from_ops(body, self.config(), self.edge_rules())

    def transform_kernel(
        self, ker: list[ScheduleEntry], body: list[OpDesc]
    ) -> Sequence[ScheduleEntry]:
        """The loop's entries as they are issued; by default they stay as they are.

        Take waits and barriers away, add some, or move entries. Every op must stay in them exactly
        once. Time slots are counted anew, in the order of the list.

        Args:
            ker: the entries of one iteration, in issue order; a list of your own to change.
            body: what ``build_body`` returned.
        """
        return ker

    def build_explicit_blocks(
        self, body: list[OpDesc], program: PipelineProgram
    ) -> list[list[OpDesc]]:
        """One op list per block to replace the template; by default every block keeps it.

        Return one list per block of ``program``, in order; an empty one keeps the template for that
        block. Called at depth 2, when the blocks have their waits and flags.

        Args:
            body: what ``build_body`` returned.
            program: the blocks, as the framework would expand them.
        """
        return []

    def bootstrap_frags(self) -> list[OpDesc]:
        """Fragments that the prologue loads for the first iteration; by default none.

        Each waits for its own load of the prologue, and leaves the later ones in flight: the i-th
        fragment belongs to the i-th load. Needs ``ScheduleConfig.partial_prologue_drain``; without
        it, compiling refuses them.
        """
        return []

    def kernel(self, compiled: CompiledSchedule) -> Kernel | None:
        """What the ops touch, for proofs; ``None`` means: as roles, channels and stages say.

        Args:
            compiled: this schedule, compiled.
        """
        return None

    def geometry(self) -> KernelGeometry | None:
        """The tile shape, where the schedule is for one shape; emitting needs it.

        Without one, figures of a simulation are not those of a kernel: each op issues what its
        counters say.
        """
        return None

    def arch(self) -> str | None:
        """The one chip it is for (``gfx950``), where its costs or counts hold on no other."""
        return None

    def notes(self) -> tuple[str, ...]:
        """Remarks on the declaration itself, passed on to the result."""
        return ()
