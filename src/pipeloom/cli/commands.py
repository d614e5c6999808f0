"""The commands: parse, dispatch, and turn user errors into one readable message.

A command only turns arguments into a job of ``pipeloom.drive``, and its result into text or JSON.

Exit codes: 0 done, 1 an error in the input, 2 wrong usage, 130 interrupted, 141 nobody reads the
output (what was done by then keeps its own code); ``verify`` and ``check`` add 3 (TIMING) and 4
(RACE), ``run`` and ``check`` 5 (a wrong result), ``check`` 6 (NOT JUDGED). To add a command: a file
here with its class (what it takes, and ``run``); and a line in ``COMMANDS``. Only the file
of the chosen command is imported, so that help comes at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from types import MappingProxyType
from typing import NamedTuple

from pipeloom import __version__
from pipeloom.cli.options import Command, CommandParser
from pipeloom.cli.progress import Heartbeat, seconds_between
from pipeloom.cli.usage import (
    HelpFormatter,
    UsageError,
    check_folder,
    option_names,
    unknown_command,
    unknown_text,
    worded,
)
from pipeloom.collecting import collect_rarely
from pipeloom.errors import ScheduleError
from pipeloom.printable import PrintableStream


class Listed(NamedTuple):
    """A command before its file is imported."""

    name: str
    help: str
    module: str

    def kind(self) -> type[Command]:
        """Its class, which is named after it."""
        module = importlib.import_module(f"pipeloom.cli.{self.module}")
        words = self.name.split("-")
        kind: type[Command] = getattr(module, "".join(map(str.title, words)) + "Command")
        return kind


COMMANDS = (
    Listed("list", "schedules, targets and strategies, one line each", "list_command"),
    Listed("show", "the three phases as a table, with waits and barriers", "show"),
    Listed("compile", "derive the pipeline and write it as JSON", "compile_command"),
    Listed("graph", "edges, ASAP/ALAP/slack and the critical path of the body", "graph"),
    Listed("verify", "prove that a schedule cannot race, or show how it does", "verify"),
    Listed("check", "judge a kernel that others wrote: a code object or assembly", "check"),
    Listed("launch-file", "how a kernel is launched, from its metadata and sizes", "launch_file"),
    Listed("record", "the launches of a program that runs, as launch files", "record"),
    Listed("scan", "look for hazards in whole libraries of kernels, without a launch", "scan"),
    Listed("fix", "synchronise a schedule so that it is proved, and show what changed", "fix"),
    Listed("simulate", "cycles per K tile, efficiency, stalls and a timeline", "simulate"),
    Listed("compare", "several schedules side by side: cycles, stalls, waits, verdict", "compare"),
    Listed(
        "report",
        "a self-contained HTML page: timeline, dependences, LDS, verdict, stalls",
        "report",
    ),
    Listed("trace", "the simulated run as a file for Perfetto", "trace"),
    Listed(
        "solve",
        "the smallest initiation interval of a loop, proved, and why no smaller one",
        "solve",
    ),
    Listed("derive", "the fastest proved program of a loop of your own", "derive"),
    Listed("export", "a loop as the MFMA-indexed table that hipBLASLt takes", "export"),
    Listed("tune", "the best kernel of each shape of matrix products, without a GPU", "tune"),
    Listed("gemm", "one shape in, its best kernel out, with its predicted throughput", "gemm"),
    Listed("library", "the best kernels of many shapes, to be called from C and Python", "library"),
    Listed("emit", "write the kernel: AMD assembly (.s) or a code object (.hsaco)", "emit"),
    Listed("run", "run the emitted kernel in the emulator and compare with NumPy", "run"),
    Listed("bench", "time kernels on a GPU, with what the model says beside it", "bench"),
    Listed(
        "calibrate", "the model's constants from measurements, as a chip file", "calibrate_command"
    ),
    Listed("doctor", "what this machine has, what is missing, and how to get it", "doctor"),
    Listed("cache", "what is kept from earlier runs: list, size, prune", "cache"),
    Listed("completion", "a script that completes commands and options in your shell", "shells"),
    Listed("version", "the version of pipeloom and of what it runs on", "version_command"),
)

EVERY = "*"
FAULT_CODE = 1
UNREAD_CODE = 141
"""128 and SIGPIPE, as shells have it."""

CODES: Mapping[int, str] = MappingProxyType(
    {0: "done", FAULT_CODE: "an error in the input", 2: "wrong usage", 130: "interrupted"}
)
"""What every command ends with; some add their own."""
_EPILOG = """\
Start with
  pipeloom list                          what is shipped
  pipeloom show ping_pong                a schedule, block by block
  pipeloom compile ping_pong --set scheduling=greedy -o out.json
  pipeloom compare ping_pong ping_pong:sync=proven
  pipeloom report ping_pong -o report.html
  pipeloom verify my.py:Name             a schedule of your own
  pipeloom gemm 4096 4096 8192 -o k.hsaco
  pipeloom COMMAND --help                examples and exit codes of a command
A SPEC is a .json or .toml file; --set changes single keys of it. Set NO_COLOR for plain output.
Exit codes: 0 done, 1 an error in the input, 2 wrong usage, 130 interrupted; verify: 3 TIMING,
4 RACE; check: these and 6 NOT JUDGED; run and check: 5 a wrong result.
"""


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser with the name of every command and the arguments of the chosen one.

    ``EVERY`` chooses all, and imports their files.
    """
    parser = argparse.ArgumentParser(
        prog="pipeloom",
        description="Derive, inspect and check software pipelines for GPU matrix kernels.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pipeloom {__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    for command in COMMANDS:
        inner = commands.add_parser(command.name, help=command.help, formatter_class=HelpFormatter)
        if chosen in (command.name, EVERY):
            inner.take(command.kind(), CODES)
            inner.set_defaults(parser=inner)
            if chosen == EVERY:
                inner.explain()
    return parser


def run(argv: Sequence[str] | None) -> int:
    """Run one command and return its exit code; without ``argv``, that of this process."""
    out, errors = PrintableStream.of(sys.stdout), PrintableStream.of(sys.stderr)
    with redirect_stdout(out), redirect_stderr(errors):
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    if argv is None:  # a process of our own
        collect_rarely()
        warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    words = sys.argv[1:] if argv is None else list(argv)
    chosen = next((word for word in words if not word.startswith("-")), None)
    parser = build_parser(chosen)
    if not words:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    if chosen is not None and chosen not in (names := [command.name for command in COMMANDS]):
        parser.error(unknown_command(chosen, names))
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        arguments.parser.error(unknown_text(unknown, option_names(arguments.parser)))
    command = arguments.parser.kind.of(arguments)
    code: int = UNREAD_CODE
    try:
        if getattr(command, "output", None):
            check_folder(command.output)
        between = None if argv is not None or command.quiet else seconds_between()
        if between is None or sys.stderr.isatty():
            code = command.run()
        else:
            with Heartbeat(arguments.command, between):
                code = command.run()
        sys.stdout.flush()
        return code
    except UsageError as error:
        arguments.parser.error(str(error))
        raise
    except ScheduleError as error:
        print(f"error: {worded(error, command.hints, command.named)}", file=sys.stderr)
        return FAULT_CODE
    except BrokenPipeError:
        _silence_stdout()
        return code
    except OSError as error:
        _silence_stdout()
        print(f"error: cannot write the output: {error.strerror}", file=sys.stderr)
        return FAULT_CODE


def _silence_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter's last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
