"""How much code there is: lines that hold a token, without blanks, comments and docstrings.

    python benchmarks/lines_of_code.py [--files] [FOLDER ...]

One row per package of each folder (``src/pipeloom`` if none is named); with ``--files`` one row per
module, the largest first. Texts that explain a field (a string that stands alone, as docstrings do)
count as docstrings.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of_code(text: str) -> int:
    """The lines of a module that hold a token of code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def main() -> None:
    """Print a table for each folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("src/pipeloom")])
    parser.add_argument("--files", action="store_true", help="one row per module")
    options = parser.parse_args()
    for folder in options.folders:
        counts: Counter[str] = Counter()
        modules: Counter[str] = Counter()
        for path in sorted(folder.rglob("*.py")):
            name = path.relative_to(folder)
            key = str(name) if options.files or len(name.parts) == 1 else name.parts[0]
            counts[key] += lines_of_code(path.read_text())
            modules[key] += 1
        for key, lines in counts.most_common():
            print(f"{lines:7,}  {modules[key]:4}  {key}")
        print(f"{counts.total():7,}  {modules.total():4}  {folder}")


if __name__ == "__main__":
    main()
