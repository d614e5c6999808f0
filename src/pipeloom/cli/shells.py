"""``pipeloom completion``: a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse
import sys

import shtab

from pipeloom.cli.commands import EVERY, build_parser
from pipeloom.cli.options import JSON, CommandUsage, option
from pipeloom.cli.printing import print_json

SHELLS = ("bash", "zsh", "fish")


USAGE = CommandUsage(
    "Print a script that completes commands, options and their values. Each shell reads it "
    "from the place in the examples when it starts (zsh: with ~/.zfunc in fpath).",
    (
        option("shell", "the shell that it is for", choices=SHELLS),
        JSON,
    ),
    examples=(
        "pipeloom completion bash > ~/.local/share/bash-completion/completions/pipeloom",
        "pipeloom completion zsh > ~/.zfunc/_pipeloom",
        "pipeloom completion fish > ~/.config/fish/completions/pipeloom.fish",
    ),
)


def run(arguments: argparse.Namespace) -> int:
    """Write the script of the parser with every command."""
    script: str = shtab.complete(build_parser(EVERY), shell=arguments.shell)
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
    else:
        sys.stdout.write(script.rstrip("\n") + "\n")
    return 0
