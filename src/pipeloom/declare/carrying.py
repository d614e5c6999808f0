"""Carried values: what they become, and under which condition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pipeloom.declare.tensor import Tensor
from pipeloom.declare.values import DeclaredValues
from pipeloom.errors import ConfigError, GraphError
from pipeloom.machine.dtypes import BOOL, F32
from pipeloom.program.nodes import Node, NodeKind


class CarriedValues(DeclaredValues, ABC):
    """What a ``Loop`` knows of values that go from iteration to iteration.

    Args:
        name: What pages, files and the kernel's symbol call the loop.
    """

    @abstractmethod
    def apply(self, op: Any, *operands: Any, over: Any = (), dtype: Any = None) -> Tensor:
        """An op on values, as the loop has it.

        Args:
            op: The op, or its name.
            *operands: Its operands.
            over: The dimensions that a reduction removes.
            dtype: The result's element type.
        """

    def accumulate(self, target: Tensor, value: Tensor | float) -> Tensor:
        """``target += value``; a matrix product, or another sum, is added in place.

        Args:
            target: A carried value.
            value: What is added to it.
        """
        node = self._nodes[self._operand(value)]
        op = self.ops[node.op] if node.op else None
        in_place = op is not None and op.reduce is not None and op.reduce.value == "add"
        in_place = in_place and node.type.dtype == F32
        if in_place and set(node.type.dims) == set(target.type.dims) and not self._users(node.name):
            del self._nodes[node.name]
            init = self._operand(target)
            self._nodes[node.name] = replace(node, init=init, type=target.type)
            return self._becomes(target, node)
        return self.update(target, target + value)

    def update(self, target: Tensor, value: Tensor | float) -> Tensor:
        """State what a carried value becomes.

        Args:
            target: A carried value.
            value: What it is in the next iteration.
        """
        node = self._nodes[self._operand(value)]
        rounded = node.type.dtype not in (F32, BOOL, target.type.dtype)
        if node.kind is not NodeKind.OP or rounded or self._users(node.name):
            new = self.apply("convert", value, dtype=target.type.dtype)
            node = self._nodes[new.name]
        return self._becomes(target, node)

    def _becomes(self, target: Tensor, before: Node) -> Tensor:
        """``before`` is the next value as it was declared, which it then may be no more."""
        name, last = before.name, self._operand(target)
        if target.carry is None:
            raise GraphError(
                f"{target.name!r} is not carried, so it has no next value",
                hint="declare it with loop.carry(...)",
                field=target.name,
            )
        if last != self._updates.get(target.carry, target.carry):
            raise GraphError(
                f"carry {target.carry!r} gets a second next value, and the first would be lost",
                hint="go on from what becomes() returned: c = c.becomes(...)",
                field=target.carry,
            )
        node = self._nodes[name]
        carry = self._nodes[target.carry]
        if set(node.type.dims) != set(carry.type.dims):
            raise ConfigError(
                f"{target.carry} has dimensions {carry.type.dims}, its next value {node.type.dims}",
                hint="reduce the value, x.sum('k') or x.max('k'), or give the carry the same "
                "dimensions, of size 1 if need be",
                field=target.carry,
            )
        changed = replace(node, type=carry.type)
        if self._when is not None:
            changed = replace(changed, when=self._when, otherwise=last)
        self._nodes[name] = changed
        self._updates[target.carry] = name
        if changed != before:
            self._taken[name] = target.carry
        if name.split(".")[0] in self.ops:
            name = self.rename(name, self._fresh(f"{target.carry}.next"))
        return self._tensor(name, target.carry, target.type.dims)

    @contextmanager
    def when(self, condition: Tensor) -> Iterator[None]:
        """What carried values become inside, they become only where the condition holds.

        Args:
            condition: A truth value: what a comparison gives.
        """
        if self._when is not None:
            raise GraphError(
                "loop.when inside loop.when", hint="combine the conditions first", field="when"
            )
        name = self._operand(condition)
        if not self.type_of(name).dtype.is_bool:
            raise GraphError(
                f"loop.when takes {name!r} for a truth value, which is {self.type_of(name)}",
                hint="compare it first: x > 0",
                field=name,
            )
        self._when = name
        try:
            yield
        finally:
            self._when = None
