"""The waist: a kernel as one immutable value, its meaning, its steps, its JSON."""

from pipeloom.program.block_values import blocks_along
from pipeloom.program.evaluate import evaluate
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.program import FORMAT, Affine, Group, Program, Section, TripCount
from pipeloom.program.provenance import Move, OrderedBy, Provenance, SyncMethod
from pipeloom.program.resources import Layout, Resource, Space
from pipeloom.program.steps import (
    Access,
    Barrier,
    Fence,
    Issue,
    Priority,
    Step,
    Unit,
    Wait,
    Work,
)
from pipeloom.program.tiles import Box, TileType
from pipeloom.program.vocabulary import VOCABULARY, InBlocks, Lowering, OpDef, Reduce, Vocabulary

__all__ = [
    "FORMAT",
    "VOCABULARY",
    "Access",
    "Affine",
    "Barrier",
    "Box",
    "Fence",
    "Group",
    "InBlocks",
    "Issue",
    "Layout",
    "Lowering",
    "Meaning",
    "Move",
    "Node",
    "NodeKind",
    "OpDef",
    "OrderedBy",
    "Priority",
    "Program",
    "Provenance",
    "Reduce",
    "Region",
    "Resource",
    "Section",
    "Space",
    "Step",
    "SyncMethod",
    "TileType",
    "TripCount",
    "Unit",
    "Vocabulary",
    "Wait",
    "Work",
    "blocks_along",
    "evaluate",
]
