"""The assembly of the report page: every line of the kernel, and the row of the step it serves.

Texts are there once, rows of steps in runs, because there are thousands of lines;
``assets/types.js`` unpacks them and must change together with this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from pipeloom.machine_code.written_lines import WrittenLine
from pipeloom.show.step_rows import Listing


def assembly_data(name: str, lines: Sequence[WrittenLine], rows: Listing) -> dict[str, Any]:
    """A kernel's lines: ``text`` has their numbers in ``texts``.

    ``entry`` are runs of (row of the listing or -1, lines), ``number`` runs of (line of the text,
    lines that follow it one by one), ``groups`` the lines at which the code of each group begins.
    """
    numbers: dict[str, int] = {}
    served = [-1 if line.step is None else rows.at.get(line.step, -1) for line in lines]
    starts = groupby(enumerate(lines), lambda pair: pair[1].number - pair[0])
    runs = [[pair[1].number for pair in run] for _, run in starts]
    begins: dict[int, int] = {}
    for at, line in enumerate(lines):
        if line.step is not None:
            begins.setdefault(line.step[0], at)
    return {
        "name": name,
        "text": [numbers.setdefault(line.text, len(numbers)) for line in lines],
        "texts": list(numbers),
        "entry": [[entry, len(list(run))] for entry, run in groupby(served)],
        "number": [[run[0], len(run)] for run in runs],
        "groups": [begins[group] for group in sorted(begins)],
    }
