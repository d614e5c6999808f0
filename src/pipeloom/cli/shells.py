"""``pipeloom completion``: a script that completes commands and options in a shell."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import shtab

from pipeloom.cli.commands import EVERY, build_parser
from pipeloom.cli.options import Command, argument
from pipeloom.cli.printing import print_json

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True)
class CompletionCommand(Command):
    """Print a script that completes commands, options and their values. Each shell reads it from
    the place in the examples when it starts (zsh: with ~/.zfunc in fpath).

    Examples:
        pipeloom completion bash > ~/.local/share/bash-completion/completions/pipeloom
        pipeloom completion zsh > ~/.zfunc/_pipeloom
        pipeloom completion fish > ~/.config/fish/completions/pipeloom.fish
    """

    shell: str = argument(choices=SHELLS)
    """the shell that it is for"""

    def run(self) -> int:
        """Write the script of the parser with every command."""
        script: str = shtab.complete(build_parser(EVERY), shell=self.shell)
        if self.json:
            print_json({"shell": self.shell, "script": script})
        else:
            sys.stdout.write(script.rstrip("\n") + "\n")
        return 0
