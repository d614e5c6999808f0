"""``pipeloom graph``: dependences, slack and the critical path."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from types import MappingProxyType

from pipeloom.cli.common import (
    add_json,
    add_source,
    load_compiled,
    print_json,
)
from pipeloom.cli.tile import add_arch, add_tile, tile_header
from pipeloom.plain import to_plain
from pipeloom.reference.ops import OpRole
from pipeloom.reference.words import Labels

ROLES: Mapping[OpRole, str] = MappingProxyType(
    {
        OpRole.GLOBAL_LOAD: "load",
        OpRole.SHARED_STORE: "lds_write",
        OpRole.FRAGMENT_LOAD: "lds_read",
        OpRole.COMPUTE: "matrix",
        OpRole.VALU_COMPUTE: "vector",
    }
)
"""What ``show`` calls the roles of a schedule's ops."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Show the dependence graph of one iteration. Edges of distance 0 order ops "
        "within it; '+1' marks a need from the iteration before, 'a' an anti-dependence."
    )
    add_source(parser)
    add_tile(parser)
    add_arch(parser)
    add_json(parser)
    parser.add_argument("--dot", action="store_true", help="Graphviz source on stdout")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the graph in the form asked for."""
    compiled = load_compiled(arguments)
    body, labels = compiled.loop_body, Labels(compiled)
    if arguments.json:
        rows = [
            {
                "index": i,
                "label": labels.of(op),
                "latency": op.latency,
                "asap": body.asap[i],
                "alap": body.alap[i],
                "slack": body.slack[i],
            }
            for i, op in enumerate(body.ops)
        ]
        print_json(
            {
                "ops": rows,
                "edges": to_plain(body.edges),
                "critical_path": body.critical_path,
                "longest_path": body.longest_path,
            }
        )
        return 0
    from pipeloom.show.console import TerminalConsole
    from pipeloom.show.dependences import Edge, Graph, Op
    from pipeloom.show.terminal import graph_dot, render_graph

    graph = Graph(
        tuple(Op(labels.of(op), ROLES.get(op.role, "move"), op.latency) for op in body.ops),
        tuple(Edge(e.producer, e.consumer, int(e.kind), e.loop_distance) for e in body.edges),
    )
    if arguments.dot:
        sys.stdout.write(graph_dot(graph))
    else:
        console = TerminalConsole()
        console.print(tile_header(arguments, compiled), style="bold")
        console.print(render_graph(graph))
    return 0
