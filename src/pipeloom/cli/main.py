"""The ``pipeloom`` command: parse, dispatch, and turn user errors into one readable message.

Exit codes: 0 done, 1 an error in the input, 2 wrong usage, 130 interrupted; ``verify`` adds 3
(TIMING) and 4 (RACE). To add a command: a file with ``add_parser`` here, and a line in
``_COMMANDS``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pipeloom import __version__
from pipeloom.cli import (
    compare,
    compile_command,
    emit,
    fix,
    graph,
    list_command,
    report,
    run,
    show,
    simulate,
    solve,
    trace,
    verify,
)
from pipeloom.errors import ScheduleError

_COMMANDS = (
    list_command,
    show,
    compile_command,
    graph,
    verify,
    fix,
    simulate,
    compare,
    report,
    trace,
    solve,
    emit,
    run,
)

_EPILOG = """\
Start with
  pipeloom list                          what is shipped
  pipeloom show ping_pong                a schedule, block by block
  pipeloom compile ping_pong --set scheduling=greedy -o out.json
  pipeloom compare ping_pong ping_pong:sync=proven
  pipeloom report ping_pong -o report.html
A SPEC is a .json or .toml file; --set changes single keys of it. Set NO_COLOR for plain output.
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command."""
    parser = argparse.ArgumentParser(
        prog="pipeloom",
        description="Derive, inspect and check software pipelines for GPU matrix kernels.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pipeloom {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except ScheduleError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except OSError as error:
        _silence_stdout()
        print(f"error: cannot write the output: {error.strerror}", file=sys.stderr)
        return 1


def _silence_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter's last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
