"""``pipeloom graph``: dependences, slack and the critical path."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pipeloom.cli.common import exit_code
from pipeloom.cli.options import flag
from pipeloom.cli.printing import print_json
from pipeloom.cli.source_options import ArchOptions, SourceOptions, TileOptions
from pipeloom.plain import to_plain
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.ops import OpRole
from pipeloom.reference.words import Labels
from pipeloom.show.console import TerminalConsole
from pipeloom.show.dependence_graph import Graph, GraphEdge, GraphNode, graph_of
from pipeloom.show.step_rows import listing
from pipeloom.show.terminal import graph_dot, render_graph

ROLES: Mapping[OpRole, str] = MappingProxyType(
    {
        OpRole.GLOBAL_LOAD: "load",
        OpRole.SHARED_STORE: "lds_write",
        OpRole.FRAGMENT_LOAD: "lds_read",
        OpRole.COMPUTE: "matrix",
        OpRole.VALU_COMPUTE: "vector",
    }
)


@dataclass(frozen=True)
class GraphCommand(SourceOptions, TileOptions, ArchOptions):
    """Show the dependence graph of one iteration. Edges of distance 0 order ops within it; '+1'
    marks a need from the iteration before, 'a' an anti-dependence.

    Examples:
        pipeloom graph ping_pong
        pipeloom graph ping_pong --dot
    """

    dot: bool = flag()
    """Graphviz source on stdout"""

    def run(self) -> int:
        """Print the graph in the form asked for."""
        found = self.opened()
        compiled = found.schedule()
        if compiled is not None:
            graph = _declared(compiled)
            edges = to_plain(compiled.loop_body.edges)
        else:
            program = found.program()
            graph, _ = graph_of(program, listing(program))
            edges = [edge._asdict() for edge in graph.edges]
        if self.json:
            rows = [
                {
                    "index": i,
                    "label": op.label,
                    "latency": op.latency,
                    "asap": graph.asap[i],
                    "alap": graph.alap[i],
                    "slack": graph.slack[i],
                }
                for i, op in enumerate(graph.ops)
            ]
            print_json(
                {
                    "ops": rows,
                    "edges": edges,
                    "critical_path": list(graph.critical),
                    "longest_path": graph.longest_path,
                }
            )
            return exit_code(found)
        if self.dot:
            sys.stdout.write(graph_dot(graph))
        else:
            console = TerminalConsole()
            console.print(found.header(), style="bold")
            console.print(render_graph(graph))
        return exit_code(found)


def _declared(compiled: CompiledSchedule) -> Graph:
    """The dependences as the schedule declares them."""
    body, labels = compiled.loop_body, Labels(compiled)
    return Graph(
        tuple(GraphNode(labels.of(op), ROLES.get(op.role, "move"), op.latency) for op in body.ops),
        tuple(GraphEdge(e.producer, e.consumer, int(e.kind), e.loop_distance) for e in body.edges),
    )
