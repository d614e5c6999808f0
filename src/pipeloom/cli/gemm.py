"""``pipeloom gemm``: one shape in, the best kernel out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pipeloom.cli.common import add_json, print_json
from pipeloom.cli.tune import add_tuning, exit_code, tuned
from pipeloom.cli.usage import at_least
from pipeloom.errors import SpecError
from pipeloom.files import write_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "The best kernel of a matrix product C[M, N] = op(A) @ op(B): tuned as pipeloom tune does, "
        "proved, written as a code object with K.json beside it, which says how to launch it. "
        "Throughput is the model's, not measured."
    )
    parser.epilog = "example: pipeloom gemm 4096 4096 8192 --dtype fp8 -o k.hsaco"
    for name in ("M", "N", "K"):
        parser.add_argument(name.lower(), metavar=name, type=at_least(1))
    add_tuning(parser, shapes=False)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="K.hsaco", help="default: the kernel's name"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Tune, write, print."""
    from pipeloom.tune.library import kernel_of, with_files

    output: Path | None = arguments.output
    if output is not None and output.suffix != ".hsaco":
        raise SpecError(f"{output} ends in {output.suffix!r}", hint="use .hsaco", field="output")
    (found,) = tuned(arguments, [f"{arguments.m}x{arguments.n}x{arguments.k}"])
    kernel = kernel_of(found.spec)
    output = Path(f"{kernel.name}.hsaco") if output is None else output
    predicted = found.to_dict()
    places = {
        name: output.with_name(
            f"{output.stem}{name.removeprefix(kernel.name).removeprefix('gemm')}.hsaco"
        )
        for name in kernel.codes
    }
    beside = output.with_suffix(".json")
    record = {
        **with_files(kernel.record, {name: Path(place.name) for name, place in places.items()}),
        "predicted": predicted,
    }
    text = json.dumps(record, indent=1, sort_keys=True) + "\n"
    write_files({**{places[name]: code for name, code in kernel.codes.items()}, beside: text})
    if arguments.json:
        print_json({**predicted, "kernel": kernel.name, "output": str(output)})
    else:
        guess = found.prediction
        print(f"{found.problem} {found.problem.dtype} on {found.chip}: {found.plan}, PROVED")
        print(
            f"  {guess.tflops:.0f} TFLOPS predicted: {guess.seconds * 1e6:.1f} us at "
            f"{guess.clock_ghz:.2f} GHz, matrix units {guess.efficiency:.0%} busy; "
            f"limit: {guess.limit}"
        )
        print(f"  {len(found.trials)} of {found.candidates} blocks timed")
        print(f"wrote {', '.join(map(str, places.values()))}, and {beside}: how to launch it")
    return exit_code(arguments, [found])
