"""What ops cost on a target: the only place where a tag meets a latency.

Keeping costs apart from the declaration lets one body be compiled for several machines:
``annotate_ops`` stamps resource, latency, role and register effects on the kernel author's ops
and leaves the framework's own ops alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from pipeloom.checks import check_fields, check_instance, check_int, check_known
from pipeloom.errors import ConfigError
from pipeloom.reference.ops import MAX_KERNEL_TAG, OpDesc, OpRole, ResourceKind


@dataclass(frozen=True, slots=True)
class OpCost:
    """The cost of one kind of op on one target."""

    resource: ResourceKind
    """The unit that executes it."""
    latency: int
    """Cycles until its result is there."""
    role: OpRole
    """What it means to the pipeline."""
    vgpr_def: int = 0
    """Registers per lane that it takes."""
    vgpr_kill: int = 0
    """Registers per lane that it is the last to need."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class TargetCostModel:
    """What each kind of op costs on one target.

    An unregistered tag is an error: a silent default would schedule the op as free.

    Args:
        costs: The cost of each kernel tag.
        names: A name for each tag, by which latencies are overridden; enum members have their own.
    """

    entries: tuple[tuple[int, str, OpCost], ...]
    """Each tag with its name and its cost, in the order of tags."""
    _by_tag: dict[int, OpCost] = field(init=False, repr=False, compare=False)

    def __init__(self, costs: Mapping[int, OpCost], names: Mapping[int, str] | None = None) -> None:
        known = {} if names is None else names
        check_instance("TargetCostModel", "costs", costs, Mapping)
        check_instance("TargetCostModel", "names", known, Mapping)
        for tag, cost in costs.items():
            check_int("TargetCostModel", "tag", tag, 0, MAX_KERNEL_TAG, "kernel tags are 0 to 127")
            check_instance("TargetCostModel", f"costs[{tag}]", cost, OpCost)
        owner: dict[str, int] = {}
        for tag, name in known.items():
            check_instance("TargetCostModel", f"names[{tag}]", name, str)
            if owner.setdefault(name, tag) != tag:
                raise ConfigError(
                    f"TargetCostModel.names calls both tag {owner[name]} and tag {tag} {name!r}",
                    hint="give every tag a name of its own: latency overrides go by name",
                    field="TargetCostModel.names",
                )
            if tag not in costs:
                raise ConfigError(
                    f"TargetCostModel.names has tag {tag}, which has no cost",
                    hint=f"register an OpCost for tag {tag}, or drop its name",
                    field="TargetCostModel.names",
                )
        ordered = tuple((t, known.get(t, _own_name(t)), costs[t]) for t in sorted(costs))
        object.__setattr__(self, "entries", ordered)
        object.__setattr__(self, "_by_tag", dict(costs))

    def cost(self, tag: int) -> OpCost:
        """The cost registered for ``tag``.

        Args:
            tag: A kernel tag.
        """
        found = self._by_tag.get(tag)
        if found is None:
            known = ", ".join(f"{int(t)} {name}" for t, name, _ in self.entries) or "none"
            called = f" ({_own_name(tag)})" if isinstance(tag, Enum) else ""
            raise ConfigError(
                f"the cost model has no entry for op tag {int(tag)}{called}",
                hint=f"register an OpCost for it; known tags: {known}",
                field="TargetCostModel.costs",
            )
        return found

    def name(self, tag: int) -> str:
        """The name of a kernel tag, for tables and messages.

        Args:
            tag: A kernel tag.
        """
        return next((name for t, name, _ in self.entries if t == tag), f"tag {tag}")

    def with_latency(self, latency: Mapping[str, int]) -> TargetCostModel:
        """A copy with the latencies of the named ops replaced.

        Args:
            latency: Cycles by the op's name.
        """
        tags = {name: tag for tag, name, _ in self.entries}
        costs = dict(self._by_tag)
        for name, cycles in latency.items():
            check_known(name, tags, f"latency override for unknown op {name!r}", f"latency.{name}")
            check_int("latency", name, cycles, 0)
            costs[tags[name]] = replace(costs[tags[name]], latency=cycles)
        return TargetCostModel(costs, {tag: name for name, tag in tags.items()})


def _own_name(tag: int) -> str:
    """The name that an ``IntEnum`` member brings along."""
    return tag.name if isinstance(tag, Enum) else f"tag {tag}"


def annotate_ops(ops: Iterable[OpDesc], cost_model: TargetCostModel) -> list[OpDesc]:
    """Stamp the target's costs on kernel ops; framework ops pass through unchanged.

    Args:
        ops: Logical ops, and the framework's.
        cost_model: What ops cost.
    """
    annotated = []
    for op in ops:
        if op.is_framework:
            annotated.append(op)
            continue
        cost = cost_model.cost(op.tag)
        annotated.append(
            OpDesc(
                op.tag,
                op.stage,
                op.subtile,
                op.k_offset,
                op.vm_cost,
                op.lgkm_cost,
                op.wait_value,
                cost.resource,
                cost.latency,
                cost.role,
                op.channel,
                cost.vgpr_def,
                cost.vgpr_kill,
            )
        )
    return annotated
