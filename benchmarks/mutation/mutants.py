"""Small changes of the source, each of which a test should notice.

A mutant replaces one expression or statement: a comparison that is off by one or turned round, an
operator for its neighbour, a constant that is one more, a condition that is negated, a call left
out. Annotations, decorators, messages of errors and formatted text are left alone: a change there
is one of presentation. So are the numbers of enums, which are names.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGES = (
    "program",
    "judge/verify",
    "judge/execute",
    "judge/check",
    "judge/simulate",
    "judge/wait_states",
    "sync",
    "order",
    "reference",
    "tuning",
    "drive/store.py",
    "write/hazards.py",
)
"""What is mutated, below ``src/pipeloom``: all that decides an order, a verdict or a number."""

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_OF_TEXT = frozenset({"__repr__", "__str__", "_repr_html_", "summary", "describe"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place of one file."""

    path: str
    """The file, relative to ``src/pipeloom``."""
    line: int
    """Its first line, counted from 1."""
    end_line: int
    """Its last line."""
    start: int
    """Its first byte in the file."""
    end: int
    """The byte behind its last."""
    function: str
    """The function it stands in, or ``<module>``."""
    before: str
    after: str
    number: int
    """Which of the same changes in one function it is: 0, 1, ..."""

    @property
    def key(self) -> str:
        """A name that survives edits of other lines."""
        number = f" #{self.number}" if self.number else ""
        return f"{self.path} {self.function}: {self.before} -> {self.after}{number}"

    def applied(self, source: bytes) -> bytes:
        """The file's bytes with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def _changes(node: ast.AST) -> Iterator[str]:
    """What may stand in the place of ``node``."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield ast.unparse(ast.Compare(left, [_COMPARED[type(op)]()], [right]))
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield ast.unparse(ast.BoolOp(other, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            if not any(isinstance(side, ast.JoinedStr | ast.List) for side in (left, right)):
                yield ast.unparse(ast.BinOp(left, _OPERATORS[type(op)](), right))
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield repr(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
            text = ast.unparse(node)
            yield _CALLED[name] + text[len(name) :]
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.UnaryOp | ast.Constant):
                yield f"not ({ast.unparse(test)})"
        case ast.Expr(value=ast.Call()):
            yield "pass"
        case ast.Continue():
            yield "break"
        case ast.Break():
            yield "continue"


class _Places(ast.NodeVisitor):
    """Every node that may be changed, with the function it stands in."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, str]] = []
        self._inside: list[str] = []

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
                return
            case ast.FunctionDef(name=name) if name in _OF_TEXT:
                return
            case ast.ClassDef(bases=bases) if any("Enum" in ast.unparse(b) for b in bases):
                return
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                self._inside.append(name)
                parts: list[ast.AST] = list(node.body)
                if isinstance(node, ast.FunctionDef):
                    parts += [d for d in (*node.args.defaults, *node.args.kw_defaults) if d]
                for part in parts:
                    self.visit(part)
                self._inside.pop()
                return
            case ast.AnnAssign(value=value):
                if value is not None:
                    self.visit(value)
                return
        self.found.append((node, ".".join(self._inside) or "<module>"))
        self.generic_visit(node)


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Every mutant of one file, in the order of its text."""
    places = _Places()
    places.visit(ast.parse(source))
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for node, function in places.found:
        for after in _changes(node):
            place = node.test if isinstance(node, ast.If | ast.While | ast.IfExp) else node
            assert isinstance(place, ast.expr | ast.stmt)
            end_line, end_column = place.end_lineno, place.end_col_offset
            assert end_line is not None
            assert end_column is not None
            start = starts[place.lineno - 1] + place.col_offset
            end = starts[end_line - 1] + end_column
            before = " ".join(source[start:end].decode().split())
            text = after if isinstance(place, ast.stmt) else f"({after})"
            same = (function, before, text)
            found.append(
                Mutant(path, place.lineno, end_line, start, end, function, before, text, seen[same])
            )
            seen[same] += 1
    return sorted(found, key=lambda m: (m.start, m.end, m.after))


def all_mutants(package: Path) -> list[Mutant]:
    """Every mutant of ``PACKAGES`` below ``package``, the folder ``src/pipeloom``."""
    files: list[Path] = []
    for part in PACKAGES:
        place = package / part
        files += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return [
        mutant
        for file in files
        for mutant in mutants_of(file.relative_to(package).as_posix(), file.read_bytes())
    ]


def draw(package: Path, count: int, seed: int) -> list[Mutant]:
    """``count`` of them, by a hash of what each changes.

    A change of the source elsewhere leaves the others in the draw, so that a score says what has
    become of the same mutants since the last one.
    """

    def place(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).digest()

    return sorted(all_mutants(package), key=place)[:count]
