"""What a place should hold: a value of the meaning, what is left of a sum, or a number.

    number   the start of a carry, a constant
    input    tile ``iteration`` of an input
    op       the value of an OP node at ``iteration``; ``rest`` are the parts of its reduced
             dimensions that the place should have summed
    sum      of a node that adds to its own carry: all iterations before ``iteration``, each whole
             but for those in ``rest``, which have the parts listed there

Followed backwards through the steps that add to a place, ``rest`` shrinks until the place should
hold what the sum began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeloom.program import VOCABULARY, Meaning, Node, NodeKind, Region
from pipeloom.program.tiles import Box, subtract, volume

Rest = tuple[tuple[int, tuple[Box, ...]], ...]
Identity = tuple[str, float]
"""Of whose value something is: a node's name and iteration, ``#`` and a number, or nothing."""

NOTHING: Identity = ("", 0)
_UNKNOWN = float("nan")
"""What an op from outside may add to without an init: no number is known not to change it."""


class Want(NamedTuple):
    """See the module; ``number`` only where ``kind`` is number."""

    kind: str
    name: str = ""
    iteration: int = 0
    rest: Rest = ()
    number: float = 0.0

    @property
    def is_fixed(self) -> bool:
        """Whether it is the same thing whatever the trip counts."""
        return self.kind == "number" or self.kind == "fixed"

    def admits(self, identity: Identity) -> bool:
        """Whether a value of that name and iteration can be it, or the last part of it."""
        name, iteration = identity
        if self.kind == "number":
            return name == "#" and iteration == self.number
        if name != self.name:
            return False
        if self.kind != "sum":
            return iteration == self.iteration
        return 0 <= iteration < self.iteration and dict(self.rest).get(int(iteration)) != ()

    @property
    def missing(self) -> str:
        """What of a sum is wanted, for a place that has none of it."""
        parts = [i for i in range(self.iteration) if dict(self.rest).get(i) != ()]
        if self.kind != "sum" or not parts:
            return f"part of {self}"
        return f"{self.name} of iteration {', '.join(map(str, parts))}"

    def __str__(self) -> str:
        if self.kind == "number":
            return f"the number {self.number:g}"
        if self.kind == "fixed":
            return self.name
        if self.kind != "sum":
            return f"{self.name} of iteration {self.iteration}"
        gaps = [str(i) for i, boxes in self.rest if not boxes]
        return f"{self.name} summed over iterations 0 to {self.iteration - 1}" + (
            f" without {', '.join(gaps)}" if gaps else ""
        )


def describe_identity(identity: Identity) -> str:
    """For messages."""
    name, iteration = identity
    if not name:
        return "nothing yet"
    return f"the number {iteration:g}" if name == "#" else f"{name} of iteration {int(iteration)}"


class Wants:
    """What the meaning asks for, with ``iterations`` of them, ``plain`` of which mask nothing."""

    def __init__(self, meaning: Meaning, iterations: int, plain: int = 0) -> None:
        self._meaning = meaning
        self._plain = plain
        self.iterations = iterations
        self._values: dict[tuple[str, int], Want] = {}
        self._own: dict[str, bool] = {}
        self._whole: dict[str, Box] = {}
        self._before: dict[tuple[Want, str, int, Box], Want | None] = {}

    def adds_to_itself(self, node: Node) -> bool:
        """Whether the node adds to its own carry, so that iterations may come in any order."""
        found = self._own.get(node.name)
        if found is None:
            init = None if node.init is None else self._meaning[node.init]
            found = (
                init is not None
                and init.kind is NodeKind.CARRY
                and init.uses == (node.name,)
                and node.when is None
            )
            self._own[node.name] = found
        return found

    def reduced(self, node: Node) -> Box:
        """All of the dimensions that a node reduces."""
        found = self._whole.get(node.name)
        if found is None:
            found = self._meaning.domain(node).whole[len(node.type.dims) :]
            self._whole[node.name] = found
        return found

    def operand(self, user: Node, name: str, iteration: int) -> Want:
        """What ``user`` at ``iteration`` takes as its operand ``name``."""
        return self.value(name, self.iterations if user.region is Region.AFTER else iteration)

    def value(self, name: str, iteration: int) -> Want:
        """The value of a node at an iteration; of a carry, that of its update one before."""
        found = self._values.get((name, iteration))
        if found is None:
            found = self._values[name, iteration] = self._value(self._meaning[name], iteration)
        return found

    def changes_nothing(self, node: Node, iteration: int) -> bool:
        """Whether a mask has its operand's value."""
        return iteration < self._plain and node.name in self._meaning.masks

    def _value(self, node: Node, iteration: int) -> Want:
        while self.changes_nothing(node, iteration):
            node = self._meaning[node.uses[0]]
        while node.kind is NodeKind.CARRY:
            if iteration <= 0:
                assert node.start is not None
                return Want("number", number=node.start)
            iteration -= 1
            node = self._meaning[node.uses[0]]
        node = self._meaning.loaded(node.name)
        if node.kind is NodeKind.CONSTANT:
            assert node.start is not None
            return Want("number", number=node.start)
        if node.kind in (NodeKind.RESIDENT, NodeKind.SCALAR, NodeKind.SIZE) or (
            node.kind is NodeKind.LEFT and node.region is not Region.LOOP
        ):
            return Want("fixed", node.name)
        at = iteration if node.region is Region.LOOP else 0
        if node.kind in (NodeKind.STREAM, NodeKind.LEFT):
            return Want("input", node.name, at)
        if self.adds_to_itself(node):
            return Want("sum", node.name, at + 1)
        rest = ((at, (self.reduced(node),)),)
        return Want("op" if node.region is Region.LOOP else "fixed", node.name, at, rest)

    def before(self, want: Want, node: Node, iteration: int, part: Box) -> Want | None:
        """What a place held before ``part`` of ``node`` at ``iteration`` made it ``want``.

        None if ``want`` has no such part (left). Every place of a sum asks for the same ones.
        """
        at = want, node.name, iteration, part
        if at not in self._before:
            self._before[at] = self._left(want, node, iteration, part)
        return self._before[at]

    def _left(self, want: Want, node: Node, iteration: int, part: Box) -> Want | None:
        if not want.admits((node.name, iteration)):
            return None
        rest = dict(want.rest)
        boxes = rest.get(iteration, (self.reduced(node),))
        left: tuple[Box, ...] = ()
        if boxes != (part,):
            left = tuple(piece for box in boxes for piece in subtract(box, part))
            if _total(boxes) - _total(left) != volume(part):
                return None
        if want.kind != "sum":
            if left:
                return want._replace(rest=((iteration, left),))
            return self._base(node, iteration)
        rest[iteration] = left
        high = want.iteration
        while high and rest.get(high - 1) == ():
            high -= 1
            del rest[high]
        if not high:
            return self._base(node, 0)
        return want._replace(iteration=high, rest=tuple(sorted(rest.items())))

    def _base(self, node: Node, iteration: int) -> Want:
        """What a sum begins with: its init, or (without one) what adding does not change."""
        if node.init is not None:
            return self.operand(node, node.init, iteration)
        op = VOCABULARY[node.op].reduce if node.op in VOCABULARY else None
        return Want("number", number=_UNKNOWN if op is None else op.neutral)


def _total(boxes: Sequence[Box]) -> int:
    return sum(volume(box) for box in boxes)
