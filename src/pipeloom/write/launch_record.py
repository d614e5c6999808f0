"""How to launch a kernel, as plain data: what ``pipeloom emit`` writes beside a code object.

    record = launch_record(emitted)
    record["kernel"], record["threads"]      # ping_pong_bf16_bf16, 512
    record["grid"]                           # ["ceil(n / 256)", "ceil(m / 256)", "1"]
    record["over"], record["k_min"], record["k_step"]    # k, 256, 128: which sizes it computes
    record["reach"]                          # how far the loop goes: least + i * step elements
    record["arguments"][0]                   # A, at offset 0: a pointer to bf16, by m and k
    record["arguments"][3]                   # {"name": "m", "offset": 24, "size": 4, "kind": ...}

Everything a launcher would otherwise type by hand; ``pl.launch`` reads nothing else.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pipeloom.device.contracts import FORMAT
from pipeloom.machine.dispatch import DIVISIBLE
from pipeloom.program import Node, NodeKind
from pipeloom.program.blocked_matrices import blocked_matrix
from pipeloom.program.index_arrays import block_counts
from pipeloom.program.nodes import POSITIVE
from pipeloom.program.placed_streams import reads_zeros_past
from pipeloom.program.problem_spans import turns_of
from pipeloom.write.addresses import SPAN_LIMIT
from pipeloom.write.kernel import EmittedKernel
from pipeloom.write.launch import SIZE_LIMIT, Launch, largest_sizes, never_empty
from pipeloom.write.lower.global_arrays import arrays_of

LAUNCH_FORMAT = FORMAT


def launch_record(emitted: EmittedKernel) -> dict[str, Any]:
    """Name, tile, grid, arguments, types, sizes, resources and verdict."""
    launch, resources = emitted.launch, emitted.resources
    ragged = launch.placing.ragged or launch.meaning.ragged
    turns = turns_of(launch.meaning.span)
    return {
        "format": LAUNCH_FORMAT,
        "kernel": emitted.name,
        "target": emitted.target,
        "dtype": emitted.dtype,
        "out_dtype": emitted.out_dtype,
        "verdict": emitted.status.name,
        "threads": emitted.block[0],
        "tile": dict(launch.tiles),
        "grid": launch.grid_formula,
        "over": launch.meaning.over,
        "k_min": 0 if ragged else launch.least,
        "k_step": launch.multiples.get(launch.meaning.over, 1) if ragged else launch.step,
        "reach": {"least": launch.least, "step": launch.step},
        "batched": launch.placing.uses_z,
        "slices": launch.placing.slices,
        "multiples": dict(launch.multiples),
        "pitch_bytes": dict(launch.pitches),
        "batch": list(launch.meaning.batch),
        **({"turns": turns} if turns else {}),
        "most_problems": DIVISIBLE if len(launch.meaning.batch) > 1 else SIZE_LIMIT,
        "most": largest_sizes(launch.meaning),
        "never_empty": sorted(never_empty(launch.meaning)),
        "size_limit": SIZE_LIMIT,
        "span_limit": SPAN_LIMIT,
        "scalars": {
            node.name: node.start
            for node in launch.meaning.nodes
            if node.kind is NodeKind.SCALAR and node.start is not None
        },
        "positive": [node.name for node in launch.meaning.nodes if node.positive],
        "positive_range": list(POSITIVE),
        "arguments": [
            {
                "name": argument.name,
                "offset": argument.offset,
                "size": argument.size,
                "kind": "pointer" if argument.is_pointer else "value",
                **(_array(emitted, argument.name) if argument.is_pointer else {}),
            }
            for argument in emitted.arguments
        ],
        **({} if emitted.timing is None else {"timing": asdict(emitted.timing)}),
        "resources": {
            "vgprs": resources.vgprs,
            "agprs": resources.agprs,
            "sgprs": resources.sgprs,
            "lds_bytes": resources.lds_bytes,
            "waves": resources.waves,
            "waves_per_simd": resources.waves_per_simd,
        },
    }


def _array(emitted: EmittedKernel, name: str) -> dict[str, Any]:
    """What a pointer points to: elements, by dimension, the last of which is contiguous.

    Of a type that ``covers`` several elements along it, one stands for so many. The records of a
    timed kernel have no dimensions: ``timing`` says how many there are.
    """
    if emitted.timing is not None and name == emitted.timing.pointer:
        return {"dtype": "u32", "bits": 32, "dims": [], "batch": [], "output": True}
    node = arrays_of(emitted.launch.meaning)[name].node
    kind = node.type
    covers = {"covers": kind.dtype.covers} if kind.dtype.covers > 1 else {}
    return {
        "dtype": kind.dtype.code,
        "bits": kind.dtype.bits,
        "dims": list(node.array_dims),
        "batch": list(node.outer),
        "output": node.kind is NodeKind.OUTPUT,
        **covers,
        **({"adds": True} if node.adds else {}),
        **_elsewhere(emitted.launch, node),
    }


def _elsewhere(launch: Launch, node: Node) -> dict[str, Any]:
    """Of an array that has dimensions of its own: the sizes that follow from its own, and how many
    elements a block may address. Of an index array by blocks, how many entries it has."""
    meaning, over = launch.meaning, launch.meaning.over
    blocks = block_counts(meaning.nodes, meaning.tile)
    for dim in blocks.keys() & {*node.type.dims[:1]}:
        return {"derived": {dim: blocks[dim]}, "zeros_past": [dim]}
    if node.at is None:
        return {}
    found: dict[str, Any] = {"derived": node.at.derived(), "least": node.at.fixed()}
    if node.kind is NodeKind.OUTPUT:
        return found | {"span": node.at.span(over, launch.tiles)}
    past = blocked_matrix(node) is None and reads_zeros_past(over, node)
    found["zeros_past"] = [over] if past else []
    matrix = blocked_matrix(node)
    if matrix is not None:
        units = (matrix.rows, matrix.columns)
        found["blocks"] = dict(zip(node.type.dims, units, strict=True))
    if not node.at.is_matrix(over, node.type.sizes[over]):
        found["span"] = node.at.span(over, launch.tiles)
    return found
