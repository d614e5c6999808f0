"""Assembly of others, before the assembler sees it: nothing in it may reach another file.

LLVM's assembler takes any file by ``.include`` and ``.incbin``, and prints lines of it in its
diagnostics; ``.deplibs`` makes the linker look for one. Macros can put such a name together from
parts, so in a text with macros no name of a statement may be made from arguments, and no argument
may hold a line of its own. Comments are not told apart: an argument can end one early.
"""

from __future__ import annotations

import re

from pipeloom.write.faults import AssemblyError

_REACHING = re.compile(r"\.(include|incbin|deplibs|altmacro)\b", re.IGNORECASE)
_MACROS = re.compile(r"\.(macro|rept?|irpc?)\b", re.IGNORECASE)
_LABEL = re.compile(r"(?:[\w.$@]|\\@|\\\(\))+\s*:|/\*.*?\*/|\s+")
"""What may stand before the name of a statement; ``\\@`` is a number, ``\\()`` is nothing."""


def refuse_reaching(text: str) -> None:
    """Raise ``AssemblyError`` for text that reaches other files, or might."""
    lines = re.split(r"[\n\r]", text)
    for number, line in enumerate(lines, 1):
        found = _REACHING.search(line)
        if found is not None:
            raise _refused(number, found[0], "pass one file that holds all, without this word")
    if _MACROS.search(text) is None:
        return
    for number, line in enumerate(lines, 1):
        at = 0
        while (before := _LABEL.match(line, at)) is not None:
            at = before.end()
        name = line[at:].split(maxsplit=1)[0] if line[at:].strip() else ""
        if "\\" in name:
            raise _refused(number, name, "write the name out: no macro may make one")
        if re.sub(r"\\.", "", line).count('"') % 2:
            raise _refused(number, 'an odd number of "', "a string ends on its line")


def _refused(number: int, what: str, hint: str) -> AssemblyError:
    return AssemblyError(
        f"line {number}: {what[:60]} is refused: assembly may not read other files",
        hint=hint,
        line=number,
    )
