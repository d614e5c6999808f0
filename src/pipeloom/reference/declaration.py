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
    """A declaration of one loop: its shape, its ops, and how they depend on each other."""

    @property
    def name(self) -> str:
        """What reports and kernel models call this schedule."""
        return type(self).__name__

    @abstractmethod
    def config(self) -> PipelineConfig:
        """The shape of the pipeline."""

    @abstractmethod
    def build_body(self) -> list[OpDesc]:
        """One iteration's ops, annotated with costs, in the order to start from."""

    def schedule_config(self) -> ScheduleConfig:
        """The scheduler's knobs."""
        return ScheduleConfig()

    def edge_rules(self) -> tuple[EdgeRule, ...]:
        """The dependence rules; extend with ``super().edge_rules() + (my_rule,)``."""
        return default_edge_rules(self.config())

    def derive_edges(self, body: Sequence[OpDesc]) -> list[DepEdge]:
        """The dependences of ``body``, by default from ``edge_rules``."""
        return derive_edges_from_ops(body, self.config(), self.edge_rules())

    def transform_kernel(
        self, entries: tuple[ScheduleEntry, ...], body: Sequence[OpDesc]
    ) -> tuple[ScheduleEntry, ...]:
        """A last word on the kernel's entries, numbered from 0; every op must stay in them."""
        return entries

    def build_explicit_blocks(
        self, body: Sequence[OpDesc], program: PipelineProgram
    ) -> list[list[OpDesc]]:
        """One op list per block to replace the template; empty means: use the template."""
        return []

    def bootstrap_frags(self) -> list[OpDesc]:
        """Fragments that the prologue loads for the first iteration."""
        return []

    def kernel(self, compiled: CompiledSchedule) -> Kernel | None:
        """What the ops touch, for proofs; ``None`` means: the shipped kernel of this name."""
        return None

    def geometry(self) -> KernelGeometry | None:
        """The tile shape, where the schedule is for one shape."""
        return None

    def arch(self) -> str | None:
        """The one chip it is for (``gfx950``), where its costs or counts hold on no other."""
        return None

    def notes(self) -> tuple[str, ...]:
        """Remarks on the declaration itself, passed on to the result."""
        return ()
