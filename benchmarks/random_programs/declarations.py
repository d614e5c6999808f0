"""Random loops: streams, residents and scalars; vector ops, masks and selections by what is left of
the loop, row reductions, products; carries that are summed, maximised or replaced, always or under
a condition; stores in and after the loop, there with vector steps of their own."""

from __future__ import annotations

from random import Random

from pipeloom.declare import Loop, Tensor, exp2, keep, maximum, minimum, where, within
from pipeloom.errors import GraphError
from pipeloom.program import Meaning

ROWS = 4
VECTORS = ("add", "sub", "max", "min", "mul", "neg", "where", "bf16", "within", "left")


def random_meaning(rng: Random) -> Meaning:
    """A small declaration; every value of it is used.

    None with carries that are held past the end of the loop: no draw of ``lowering`` has them.
    """
    while True:
        try:
            meaning = _Draw(rng).meaning()
        except GraphError:  # a value that happened to stay unused
            continue
        if not any(n.name.endswith(".held") for n in meaning.nodes):
            return meaning


class _Draw:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.loop = Loop("random", over="k")
        self.k = rng.choice((2, 4))
        self.n = rng.choice((2, 4))
        self.used: set[str] = set()
        self.pool: list[Tensor] = []
        self.products = 0
        self.inexact = rng.random() < 0.25
        self.alike: dict[frozenset[str], str] = {}
        """What to do with a value and its opposite, which would add up to nothing, or its rounding:
        the same number where numbers are exact, so that the larger is either."""

    def meaning(self) -> Meaning:
        rng, loop = self.rng, self.loop
        a = loop.stream("A", rng.choice(("bf16", "f32")), m=ROWS, k=self.k)
        self.pool.append(a)
        wide = [loop.stream("B", "bf16", n=self.n, k=self.k)] if rng.random() < 0.6 else []
        if rng.random() < 0.35:
            self.pool.append(loop.stream("D", "f32", m=ROWS, k=self.k))
        if rng.random() < 0.25:
            self.pool.append(loop.resident("R", "f32", m=ROWS))
        if rng.random() < 0.2:
            self.pool.append(loop.scalar("alpha"))
        for _ in range(rng.randrange(3)):
            self.vector()
        carries = rng.choice((1, 1, 2, 3))
        for number in range(carries):
            if wide and (number == 0 or rng.random() < 0.3):
                self.product(f"C{number}", wide[0])
            else:
                self.row_carry(f"c{number}")
        for name in ("A", "D"):
            spare = [t for t in self.pool if t.name == name and name not in self.used]
            if spare or (name == "A" and rng.random() < 0.25):
                self.store_tiles(self.pool[0] if not spare else spare[0])
        if wide and wide[0].name not in self.used:
            self.product("C", wide[0])
        for value in list(self.pool):
            if value.name not in self.used:
                self.absorb(value)
        return loop.meaning

    # --- values -----------------------------------------------------------------------------------

    def take(self, *dims: str) -> Tensor:
        """A value with these dimensions, if there is one; unused ones first."""
        fitting = [t for t in self.pool if set(t.type.dims) == set(dims)]
        fresh = [t for t in fitting if t.name not in self.used]
        return self.use(self.rng.choice(fresh or fitting))

    def use(self, value: Tensor) -> Tensor:
        self.used.add(value.name)
        return value

    def vector(self) -> Tensor:
        """One more value of dimensions m and k."""
        rng = self.rng
        x = self.take("m", "k")
        others = [t for t in self.pool if t.name != x.name and set(t.type.dims) <= {"m", "k"}]
        with_other = others and rng.random() < 0.7
        kind = rng.choice(
            ("add", "sub", "max", "min", "mul", "neg", "where", "bf16", "within", "left")
        )
        bound = 1.25 if self.inexact else 8.0  # flattens something, and never everything
        number = {"max": -bound, "min": bound}.get(kind, 2.0)
        y: Tensor | float = self.use(rng.choice(others)) if with_other else number
        if kind == "mul" and self.products:
            kind = "add"
        if isinstance(y, Tensor) and frozenset((x.name, y.name)) in self.alike:
            kind = self.alike[frozenset((x.name, y.name))]
        self.products += kind == "mul"
        left = self.loop.left("k", self.k) if kind in ("within", "left") else None
        if self.inexact and rng.random() < 0.5:
            made = exp2(x)
        elif kind == "add":
            made = x + y
        elif kind == "sub":
            made = x - y
        elif kind == "max":
            made = maximum(x, y)
        elif kind == "min":
            made = minimum(x, y)
        elif kind == "mul":
            made = x * y
        elif kind == "neg":
            made = -x
        elif kind == "where":
            made = where(x > (0.5 if self.inexact else 9.0), x, -x)  # now this, now that
        elif left is not None:
            made = within(x, left) if kind == "within" else where(left > self.k, x, -x)
        else:
            made = x.to("bf16")
        if kind in ("neg", "bf16"):
            self.alike[frozenset((x.name, made.name))] = "max" if kind == "neg" else "add"
        self.pool.append(made)
        return made

    def rows(self) -> Tensor:
        """A value per row of the newest tiles."""
        x = self.take("m", "k")
        if self.inexact and self.rng.random() < 0.6:  # minus infinity past the end
            masked = keep(x + 0.5, self.loop.left("k", self.k), 1)
            return maximum(masked.max("k"), -20.0)
        return x.max("k") if self.rng.random() < 0.5 else x.sum("k")

    # --- carries ----------------------------------------------------------------------------------

    def product(self, name: str, wide: Tensor) -> None:
        c = self.loop.carry(name, "f32", start=self.rng.choice((0, 0, 5)), m=ROWS, n=self.n)
        c += self.take("m", "k") @ self.use(wide)
        self.store_last(c, name)

    def row_carry(self, name: str) -> None:
        rng, loop = self.rng, self.loop
        kind = rng.choice(("max", "sum", "replace", "when", "when", "rescale"))
        if kind == "sum":
            c = loop.carry(name, "f32", start=rng.choice((0, 3)), m=ROWS)
            c += self.take("m", "k").sum("k")
        elif kind == "max":
            c = loop.carry(name, "f32", start=-1000, m=ROWS)
            c = c.becomes(maximum(c, self.rows()))
        elif kind == "replace":
            c = loop.carry(name, "f32", start=2, m=ROWS)
            c = c.becomes(self.rows() - c)
        elif kind == "when":
            c = loop.carry(name, "f32", start=1, m=ROWS)
            fresh = self.rows()
            condition = fresh > c
            if rng.random() < 0.5:
                condition = condition.any("m")
            grown = fresh
            if rng.random() < 0.8:  # what only the update needs, so that it may be left where it is
                grown = loop.stream(f"E_{name}", "f32", m=ROWS, k=self.k).sum("k")
            with loop.when(condition):
                c = c.becomes(c + grown)
        else:
            top = loop.carry(name + "top", "f32", start=-1000, m=ROWS)
            fresh = maximum(top, self.rows())
            c = loop.carry(name, "f32", start=0, m=ROWS)
            grown = fresh > top
            with loop.when(grown.any("m")):
                c = c.becomes(fresh - c)
            # One more than it: a copy under another name is the same number, so reading the one for
            # the other is not what the program says, and shows in no run.
            top = top.becomes(fresh + 1.0)
            self.store_last(top, name + "top")
        self.store_last(c, name)

    def absorb(self, value: Tensor) -> None:
        """Use a value that nothing else does."""
        self.use(value)
        dims = set(value.type.dims)
        if dims == {"m", "k"}:
            self.store_tiles(value)
        else:
            base = self.take("m", "k")
            self.store_tiles(base + value)

    def store_tiles(self, value: Tensor) -> None:
        self.use(value)
        self.loop.store(f"out_{value.name}", value)

    def finished(self, value: Tensor, name: str) -> Tensor:
        """Vector steps after the loop, with a tile that only they need."""
        dim, size = list(value.type.sizes.items())[-1]
        bias = self.loop.resident(f"bias_{name}", "f32", **{dim: size})
        made = value + (bias if self.rng.random() < 0.6 else -bias)
        return maximum(made, -20.0) if self.rng.random() < 0.5 else made

    def store_last(self, value: Tensor, name: str) -> None:
        rng = self.rng
        if rng.random() < 0.25:
            value = self.finished(value, name)
        if rng.random() < 0.4:
            value = value * 2.0 if rng.random() < 0.5 else value.to("bf16")
        self.loop.store(f"out_{name}", value)
