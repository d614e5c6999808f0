"""A declaration as a software pipeline, at random: who computes what where, in which stage.

Nothing here is clever. A node is computed by one group, whole in every wave or cut by rows; what
another group or another cut needs goes through LDS. Every step gets a stage; the loop's body runs
iteration ``t - stage`` of each step at time t, in a random order that the data allow; each place
has as many copies as the stages need, or some more; the loop is unrolled until copies come round.

The result is a ``Plan``: sections of data steps in one order for all groups, with a wait for
everything and a barrier after each step, each of which can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from random import Random
from types import MappingProxyType

from pipeloom.machine.chips import target_for
from pipeloom.program import (
    Access,
    Affine,
    Barrier,
    Box,
    Group,
    Meaning,
    Node,
    NodeKind,
    Program,
    Region,
    Resource,
    Section,
    Space,
    Step,
    TileType,
    TripCount,
    Wait,
    Work,
)

GROUPS = ((1,), (2,), (2,), (4,), (1, 1), (1, 1), (1, 2), (2, 1), (2, 2), (1, 1, 1))
FAMILIES = ((1, 2), (1, 2), (1, 3), (1, 2, 4))
"""Numbers of copies that come round together."""
COUNTERS = ("vmcnt", "lgkmcnt")
MAX_STAGES = 4


class UnluckyError(Exception):
    """The draw cannot be lowered; draw again."""


@dataclass(eq=False)
class Home:
    """Where a value is kept: LDS (``group`` is None) or registers of a group, whole or by rows."""

    name: str
    type: TileType
    group: int | None
    split: bool
    region: Region
    start: float | None = None
    in_place: bool = False
    copies: int = 1


@dataclass(frozen=True)
class Ref:
    """A read: of a home, ``distance`` iterations ago, or of a name of the meaning."""

    home: Home | None
    name: str
    type: TileType
    distance: int = 0


@dataclass(eq=False)
class Op:
    """One step of one iteration."""

    label: str
    node: str
    region: Region
    group: int
    split: bool
    reads: list[Ref]
    home: Home | None
    type: TileType
    output: str = ""
    shared: bool = False
    is_copy: bool = False
    accumulates: bool = False
    counter: str | None = None
    entries: int = 1
    when: str | None = None
    reduced: tuple[int, int] | None = None
    masks: bool = False
    """In place, so that a loop may leave it out."""
    stage: int = 0


@dataclass(frozen=True)
class Item:
    """One line of a plan: work or a wait of a group, or a barrier of all. ``number`` names it."""

    number: int
    group: int
    step: Step

    @property
    def is_sync(self) -> bool:
        return not isinstance(self.step, Work)


@dataclass(frozen=True)
class Plan:
    """A program whose synchronisation is still open."""

    meaning: Meaning
    groups: tuple[tuple[int, ...], ...]
    resources: tuple[Resource, ...]
    sections: tuple[tuple[Section, tuple[Item, ...]], ...]
    trips: tuple[TripCount, ...]
    iterations: Affine
    plain: Affine
    name: str = "random"

    def program(
        self, without: Iterable[int] = (), counts: Mapping[int, int] = MappingProxyType({})
    ) -> Program:
        """The program without these waits and barriers, and with other counts for some waits."""
        gone = set(without)
        groups = []
        for number, waves in enumerate(self.groups):
            sections = []
            for section, items in self.sections:
                steps = [
                    replace(i.step, count=counts[i.number])
                    if isinstance(i.step, Wait) and i.number in counts
                    else i.step
                    for i in items
                    if i.group in (number, -1) and i.number not in gone
                ]
                sections.append(replace(section, steps=tuple(steps)))
            groups.append(Group(waves, tuple(sections)))
        return Program(
            name=self.name,
            meaning=self.meaning,
            target=target_for("gfx950"),
            resources=self.resources,
            groups=tuple(groups),
            trips=self.trips,
            iterations=self.iterations,
            plain=self.plain,
        )

    @property
    def syncs(self) -> list[Item]:
        """All waits and barriers."""
        return [i for _, items in self.sections for i in items if i.is_sync]


def random_plan(meaning: Meaning, rng: Random) -> Plan:
    """Draws until one can be lowered."""
    while True:
        try:
            return _Lowering(meaning, rng).plan()
        except UnluckyError:
            continue


@dataclass(eq=False)
class _Lowering:
    meaning: Meaning
    rng: Random
    ops: list[Op] = field(default_factory=list)
    homes: list[Home] = field(default_factory=list)
    numbers: int = 0

    def __post_init__(self) -> None:
        rng = self.rng
        self.sizes = rng.choice(GROUPS)
        self.family = rng.choice(FAMILIES)
        self.registers: dict[tuple[str, int], list[Home]] = {}
        self.lds: dict[str, Home] = {}
        self.update_of = {n.name: n.uses[0] for n in self.meaning.nodes if n.kind is NodeKind.CARRY}
        self.start_of = {n.uses[0]: n.start for n in self.meaning.nodes if n.kind is NodeKind.CARRY}
        self.group_of = {n.name: rng.randrange(len(self.sizes)) for n in self.meaning.nodes}
        if rng.random() < 0.5:  # a producer and its consumers
            self.group_of = dict.fromkeys(self.group_of, len(self.sizes) - 1)
            for node in self.meaning.inputs:
                self.group_of[node.name] = 0
        for node in self.meaning.nodes:  # whoever takes something under a condition also makes it
            if node.when is not None and rng.random() < 0.7:
                self.group_of |= dict.fromkeys(node.uses, self.group_of[node.name])

    # --- places -----------------------------------------------------------------------------------

    def rows(self, type_: TileType, group: int) -> bool:
        """Whether a group can cut a value by rows."""
        return self.sizes[group] > 1 and "m" in type_.dims

    def new_home(
        self, name: str, type_: TileType, group: int | None, split: bool, region: Region
    ) -> Home:
        if split:
            assert group is not None
            shape = tuple(
                s // self.sizes[group] if d == "m" else s
                for d, s in zip(type_.dims, type_.shape, strict=True)
            )
            type_ = TileType(type_.dims, shape, type_.dtype)
        kind = "LDS" if group is None else f"r{group}"
        label = f"{kind} {name}"
        while any(h.name == label for h in self.homes):
            label += "'"
        home = Home(label, type_, group, split, region, self.start_of.get(name))
        self.homes.append(home)
        if group is None:
            self.lds[name] = home
        else:
            self.registers.setdefault((name, group), []).append(home)
        return home

    def entries(self) -> int:
        return self.rng.choice((1, 1, 2, 3))

    def in_lds(self, name: str) -> Home:
        """The value in LDS, and the steps that bring it there."""
        if name in self.lds:
            return self.lds[name]
        node = self.meaning[name]
        group = self.group_of[name]
        if node.kind.is_input and self.rng.random() < 0.6:
            home = self.new_home(name, node.type, None, False, node.region)
            self.ops.append(
                Op(f"load {name}", name, node.region, group, False,
                   [Ref(None, name, node.type)], home, node.type, shared=True, is_copy=True,
                   counter="vmcnt", entries=self.entries())
            )  # fmt: skip
            return home
        source = self.registers.get((name, group), [None])[0]
        if source is None:
            source = self.to_registers(name, group, False, direct=True)
        home = self.new_home(name, node.type, None, False, source.region)
        self.ops.append(
            Op(f"write {name}", name, source.region, group, source.split,
               [Ref(source, source.name, node.type)], home, node.type,
               shared=not source.split, is_copy=True, counter="lgkmcnt", entries=self.entries())
        )  # fmt: skip
        return home

    def to_registers(
        self,
        name: str,
        group: int,
        split: bool,
        *,
        direct: bool = False,
        region: Region | None = None,
    ) -> Home:
        """A copy of the value in a group's registers, straight from memory or from LDS."""
        node = self.meaning[name]
        where = region or node.region
        if node.kind.is_input and (direct or self.rng.random() < 0.5):
            home = self.new_home(name, node.type, group, split, where)
            self.ops.append(
                Op(f"load {name}", name, where, group, split, [Ref(None, name, node.type)], home,
                   node.type, is_copy=True, counter="vmcnt", entries=self.entries())
            )  # fmt: skip
            return home
        update = self.update_of.get(name, name)
        source = self.in_lds(update)
        home = self.new_home(name, node.type, group, split, where)
        distance = int(update != name and where is Region.LOOP)
        self.ops.append(
            Op(f"read {name}", name, where, group, split,
               [Ref(source, source.name, node.type, distance)], home, node.type, is_copy=True,
               counter="lgkmcnt", entries=self.entries())
        )  # fmt: skip
        return home

    def ref(self, name: str, group: int, split: bool, region: Region) -> Ref:
        """How a step of ``group``, cut or not, reads a value."""
        node = self.meaning[name]
        if node.kind.is_number:
            return Ref(None, name, node.type)
        update = self.update_of.get(name, name)
        distance = int(update != name and region is Region.LOOP)
        wanted = split and "m" in node.type.dims
        for home in self.registers.get((update, group), []):
            if not home.split or wanted:
                return Ref(home, home.name, node.type, distance)
        if update != name:
            for home in self.registers.get((name, group), []):
                if home.region is region and (not home.split or wanted):
                    return Ref(home, home.name, node.type)
            home = self.to_registers(name, group, wanted, region=region)
            return Ref(home, home.name, node.type)
        home = self.to_registers(name, group, wanted)
        return Ref(home, home.name, node.type)

    # --- steps ------------------------------------------------------------------------------------

    def settle(self, node: Node) -> None:
        """Who computes a node, and where it is kept."""
        group = self.group_of[node.name]
        if node.region is Region.AFTER:
            carried = [u for u in node.uses if u in self.update_of]
            if carried:
                group = self.group_of[node.name] = self.group_of[self.update_of[carried[0]]]
        masked = self.masked(node)
        if masked is not None:
            self.group_of[node.name] = self.group_of[masked]
            home = self.registers[masked, self.group_of[masked]][0]
            self.registers[node.name, self.group_of[masked]] = [home]
            return
        split = self.rows(node.type, group) and self.rng.random() < 0.7
        self.new_home(node.name, node.type, group, split, node.region)

    def masked(self, node: Node) -> str | None:
        """What a mask masks in place: a result that nobody else needs."""
        if node.name not in self.meaning.masks or node.name in self.start_of:
            return None
        value = node.uses[0]
        users = [n.name for n in self.meaning.nodes if value in n.operands]
        alone = self.meaning[value].kind is NodeKind.OP and users == [node.name]
        return value if alone and value not in self.start_of else None

    def compute(self, node: Node) -> None:
        rng = self.rng
        group = self.group_of[node.name]
        home = self.registers[node.name, group][0]
        split = home.split
        own = node.init is not None and self.update_of.get(node.init) == node.name
        reads = [self.ref(u, group, split, node.region) for u in node.uses]
        domain = self.meaning.domain(node)
        reduced = [d for d in domain.dims if d not in node.type.dims]
        cut = reduced == ["k"] and rng.random() < 0.4 and node.when is None
        when = None
        in_place = own
        if node.init is not None and not own:
            raise UnluckyError
        if node.when is not None and node.otherwise is not None:
            other = self.ref(node.otherwise, group, split, node.region)
            condition = self.ref(node.when, group, split, node.region)
            if rng.random() < 0.6 and other.home is home and not own:
                when, in_place = node.when, True
            reads += [other, condition]
        home.in_place = in_place
        parts: list[tuple[int, int] | None] = [None]
        if cut:
            size = domain.sizes["k"]
            parts = [(0, size // 2), (size // 2, size)]
        for number, part in enumerate(parts):
            self.ops.append(
                Op(f"{node.op} {node.name}" + f".{number}" * cut, node.name, node.region, group,
                   split, reads, home, node.type, accumulates=own or number > 0, when=when,
                   reduced=part, masks=self.masked(node) is not None)
            )  # fmt: skip

    def store(self, node: Node) -> None:
        use = node.uses[0]
        group = self.group_of[self.update_of.get(use, use)]
        kind = self.meaning[use].type
        held = self.registers.get((self.update_of.get(use, use), group), [])
        split = held[0].split if held else self.rows(kind, group) and self.rng.random() < 0.5
        if not split and self.rows(kind, group) and self.rng.random() < 0.5:
            split = True
        source = self.ref(use, group, split, node.region)
        self.ops.append(
            Op(f"store {node.name}", use, node.region, group, split, [source], None, kind,
               output=node.name, is_copy=True, counter="vmcnt", entries=self.entries())
        )  # fmt: skip

    # --- order ------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        for node in self.meaning.nodes:
            if node.kind is NodeKind.OP:
                self.settle(node)
        for region in Region:
            for node in self.meaning.nodes:
                if node.region is region and node.kind is NodeKind.OP:
                    self.compute(node)
            for node in self.meaning.outputs:
                if node.region is region:
                    self.store(node)
        loop = [op for op in self.ops if op.region is Region.LOOP]
        self.skip(loop)
        stages = self.stage(loop)
        body = self.order(loop)
        self.copy(loop, body)
        unroll = lcm(*(h.copies for h in self.homes))
        extra = self.rng.choice((0, 0, 1))
        rest = stages - 1 + extra
        before = [op for op in self.ops if op.region is Region.BEFORE]
        after = self.topological(
            [op for op in self.ops if op.region is Region.AFTER], lambda a, b: self.feeds(a, b)
        )
        masks = [op for op in loop if op.masks]
        names = ["T"] if self.rng.random() < (0.4 if masks else 0.8) else ["T", "U"]
        plain = Affine()
        if masks and len(names) > 1:  # the first loop leaves them out
            plain = Affine(stages - 1 - min(op.stage for op in masks), (("T", unroll),))
        sections = [(Section(name="before", steps=()), self.straight(before, rest))]
        fill = [
            (op, time - op.stage) for time in range(stages - 1) for op in body if time >= op.stage
        ]
        sections.append((Section(name="prologue", steps=()), self.items(fill, rest)))
        passed: list[tuple[str, int]] = []
        for name in names:
            turns = [
                (op, stages - 1 + turn - op.stage)
                for turn in range(unroll)
                for op in body
                if not (op.masks and name == "T" and plain.factors)
            ]
            first = Affine(0, tuple(passed))
            section = Section(
                name=f"loop {name}", steps=(), trips=name, first=first, advance=unroll
            )
            sections.append((section, self.items(turns, rest)))
            passed.append((name, unroll))
        drain = [
            (op, stages - 1 + turn - op.stage)
            for turn in range(rest)
            for op in body
            if stages - 1 + turn - op.stage < rest
        ]
        section = Section(name="epilogue", steps=(), first=Affine(0, tuple(passed)))
        sections.append((section, self.items(drain, rest)))
        sections.append((Section(name="after", steps=()), self.straight(after, rest)))
        waves, first_wave = [], 0
        for size in self.sizes:
            waves.append(tuple(range(first_wave, first_wave + size)))
            first_wave += size
        return Plan(
            meaning=self.meaning,
            groups=tuple(waves),
            resources=tuple(
                Resource(
                    name=h.name,
                    space=Space.LDS if h.group is None else Space.REGISTER,
                    type=h.type,
                    copies=h.copies,
                    start=h.start,
                )
                for h in self.homes
            ),
            sections=tuple(sections),
            trips=tuple(TripCount(name) for name in names),
            iterations=Affine(rest, tuple(passed)),
            plain=plain,
        )

    def skip(self, loop: list[Op]) -> None:
        """Leave out, under the same condition, what only steps under a condition need."""
        todo = [op for op in loop if op.when is not None]
        while todo:
            user = todo.pop()
            condition = user.reads[-1]
            for read in user.reads[:-1]:
                makers = [op for op in loop if op.home is not None and op.home is read.home]
                users = [op for op in self.ops for r in op.reads if r.home is read.home]
                if len(makers) != 1 or users != [user] or read.distance or self.rng.random() < 0.2:
                    continue
                (maker,) = makers
                if (
                    maker.when is None
                    and maker.group == user.group
                    and not (maker.accumulates or maker.masks or maker.shared)
                    and maker.node not in self.start_of
                    and self.meaning[maker.node].when is None
                    and set(condition.type.dims) <= set(maker.type.dims)
                    and (maker.split or condition.home is None or not condition.home.split)
                ):
                    maker.when, maker.reads = user.when, [*maker.reads, condition]
                    todo.append(maker)

    def feeds(self, a: Op, b: Op) -> bool:
        """Whether b reads in the same iteration what a writes, or adds to it."""
        if a.home is None:
            return False
        reads = any(r.home is a.home and r.distance == 0 for r in b.reads)
        return reads or (a.home is b.home and b.accumulates and self.before(a, b))

    def before(self, a: Op, b: Op) -> bool:
        return self.ops.index(a) < self.ops.index(b)

    def edges(self, loop: list[Op]) -> list[tuple[Op, Op, int]]:
        """(x, y, d): y of an iteration needs x of d iterations before."""
        found = []
        for x in loop:
            for y in loop:
                if x is not y and self.feeds(x, y):
                    found.append((x, y, 0))
                for read in y.reads:
                    same = x.home is not None and read.home is x.home
                    if x is not y and same and read.distance:
                        found.append((x, y, read.distance))
        return found

    def stage(self, loop: list[Op]) -> int:
        depth = self.rng.randrange(1, MAX_STAGES + 1)
        edges = self.edges(loop)
        # What waits for a condition is in a circle with it: the next one waits for the update.
        jumps = {id(op): int(self.rng.random() < 0.4 and op.when is None) for op in loop}
        for _ in range(4 * len(loop) + 8):
            changed = False
            for x, y, distance in edges:
                same = x.home is y.home
                least = x.stage - distance + (jumps[id(y)] if not (distance or same) else 0)
                if y.stage < least:
                    y.stage, changed = least, True
            for x in loop:  # what is written in place must not wait longer than its readers
                if x.home is not None and (x.home.in_place or x.accumulates or x.masks):
                    partners = [o for o in loop if o.home is x.home]
                    for y in loop:
                        for read in y.reads:
                            if read.home is x.home and y not in partners and x.home.in_place:
                                least = y.stage + read.distance - 1
                                if x.stage < least:
                                    x.stage, changed = least, True
                    top = max(o.stage for o in partners)
                    for other in partners:
                        if other.stage < top:
                            other.stage, changed = top, True
            if not changed:
                break
        else:
            raise UnluckyError
        stages = 1 + max((op.stage for op in loop), default=0)
        if stages > depth and self.rng.random() < 0.5:
            for op in loop:
                op.stage = 0
            for op in loop:
                jumps[id(op)] = 0
            stages = 1
        if stages > MAX_STAGES:
            raise UnluckyError
        return stages

    def order(self, loop: list[Op]) -> list[Op]:
        edges = self.edges(loop)

        def precedes(a: Op, b: Op) -> bool:
            for x, y, distance in edges:
                if x is a and y is b and x.stage == y.stage + distance:
                    return True
            if b.home is not None and b.home.in_place and a.home is not b.home:
                for read in a.reads:
                    if read.home is b.home and a.stage + read.distance - 1 == b.stage:
                        return True
            return False

        return self.topological(loop, precedes)

    def topological(self, ops: list[Op], precedes: Callable[[Op, Op], bool]) -> list[Op]:
        left, done = list(ops), []
        while left:
            ready = [b for b in left if not any(precedes(a, b) for a in left if a is not b)]
            if not ready:
                raise UnluckyError
            chosen = self.rng.choice(ready)
            left.remove(chosen)
            done.append(chosen)
        return done

    def copy(self, loop: list[Op], body: list[Op]) -> None:
        at = {id(op): number for number, op in enumerate(body)}
        for home in self.homes:
            if home.region is not Region.LOOP or home.in_place:
                continue
            writers = [op for op in loop if op.home is home]
            needed = 1
            for x in writers[:1] + writers[1:]:
                for y in loop:
                    for read in y.reads:
                        if read.home is home and y not in writers:
                            late = int(at[id(y)] > at[id(x)])
                            needed = max(needed, y.stage - x.stage + read.distance + late)
                        elif read.home is home and y is not x:
                            needed = max(needed, read.distance + 1)
            if needed > max(self.family):
                raise UnluckyError
            fitting = [c for c in self.family if c >= needed]
            home.copies = fitting[0] if self.rng.random() < 0.7 else self.rng.choice(fitting)

    # --- steps of a program -----------------------------------------------------------------------

    def straight(self, ops: list[Op], rest: int) -> tuple[Item, ...]:
        return self.items([(op, None) for op in ops], rest)

    def items(self, steps: Sequence[tuple[Op, int | None]], rest: int) -> tuple[Item, ...]:
        """Each step, then waits for everything in its group, and a barrier of all."""
        items = []
        for op, iteration in steps:
            items.append(self.item(op.group, self.work(op, iteration, rest)))
            for counter in COUNTERS:
                items.append(self.item(op.group, Wait(counter, 0)))
            items.append(self.item(-1, Barrier()))
        return tuple(items)

    def item(self, group: int, step: Step) -> Item:
        self.numbers += 1
        return Item(self.numbers, group, step)

    def work(self, op: Op, iteration: int | None, rest: int) -> Work:
        node = self.meaning[op.node]
        domain = node.type if op.is_copy else self.meaning.domain(node)
        ranges = dict(zip(domain.dims, domain.whole, strict=True))
        if op.reduced is not None:
            ranges["k"] = op.reduced
        reads = tuple(self.access(op, r, ranges, iteration, rest) for r in op.reads)
        if op.home is None:
            kind = self.meaning[op.output].type
            target = Access(op.output, self.boxes(op, kind, {}))
        else:
            ref = Ref(op.home, op.home.name, op.type)
            target = replace(self.access(op, ref, {}, iteration, rest), shared=op.shared)
        whole = not op.split and op.reduced is None
        return Work(
            node=op.node,
            label=op.label,
            iteration=iteration,
            reads=tuple(replace(r, shared=op.shared and op.reads[0].home is None) for r in reads),
            writes=() if op.accumulates else (target,),
            accumulates=(target,) if op.accumulates else (),
            parts=() if whole else self.boxes(op, domain, ranges),
            is_copy=op.is_copy,
            counter=op.counter,
            entries=op.entries if op.counter else 0,
            when=op.when,
        )

    def access(
        self,
        op: Op,
        ref: Ref,
        ranges: dict[str, tuple[int, int]],
        iteration: int | None,
        rest: int,
    ) -> Access:
        home = ref.home
        if home is None:
            return Access(ref.name, self.boxes(op, ref.type, ranges))
        copy = 0
        if home.copies > 1:
            at = rest - 1 if iteration is None else iteration - ref.distance
            copy = at % home.copies
        if home.split:
            inner = {d: ranges[d] for d in home.type.dims if d in ranges and d != "m"}
            box = tuple(
                inner.get(d, (0, s)) for d, s in zip(home.type.dims, home.type.shape, strict=True)
            )
            return Access(home.name, () if box == home.type.whole else (box,), copy)
        return Access(home.name, self.boxes(op, ref.type, ranges), copy)

    def boxes(self, op: Op, type_: TileType, ranges: dict[str, tuple[int, int]]) -> tuple[Box, ...]:
        """Per wave: its rows if the step is cut, and the part of what is reduced."""
        count = self.sizes[op.group]
        found: list[Box] = []
        for wave in range(count):
            box = []
            for dim, size in zip(type_.dims, type_.shape, strict=True):
                if dim == "m" and op.split:
                    step = size // count
                    box.append((wave * step, (wave + 1) * step))
                else:
                    box.append(ranges.get(dim, (0, size)) if dim == "k" else (0, size))
            found.append(tuple(box))
        if len(set(found)) == 1:
            return () if found[0] == type_.whole else (found[0],)
        return tuple(found)
