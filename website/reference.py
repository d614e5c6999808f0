"""The reference: one page for each topic, and on it a place for every public name.

A name belongs to the topic that names its home, the module that the stub imports it from, or the
nearest package above it. A new home needs no line here unless no topic has it; then building fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from website.names import PublicName, public_names, records


@dataclass(frozen=True, slots=True)
class Topic:
    """One page of the reference."""

    slug: str
    title: str
    text: str
    homes: tuple[str, ...]
    """Modules and packages without ``pipeloom.``; the longest that fits decides."""

    @property
    def page(self) -> str:
        """Its page in the site's sources."""
        return f"reference/{self.slug}.md"


TOPICS = (
    Topic(
        "schedules",
        "Schedules",
        "The documented schedules, and how one becomes a compiled schedule.",
        (
            "reference",
            "reference.declaration",
            "reference.schedules",
            "reference.compiler",
            "reference.compiled",
            "reference.spec",
            "reference.kernels",
        ),
    ),
    Topic(
        "configuration",
        "Configuration",
        "What a schedule can be told: its pipeline, its strategies, its target and its tile.",
        (
            "reference.config",
            "reference.schedule_config",
            "reference.geometry",
            "reference.hints",
            "reference.mi355x",
            "reference.tag_costs",
        ),
    ),
    Topic(
        "ops",
        "Ops and dependences",
        "The ops of a body, and what must come before what.",
        ("reference.ops", "reference.graph", "reference.edges"),
    ),
    Topic(
        "blocks",
        "Blocks, phases and waits",
        "From an ordered body to blocks with waits and barriers, a prologue and an epilogue.",
        (
            "reference.block_program",
            "reference.blocks",
            "reference.phases",
            "reference.waits",
            "reference.structure",
        ),
    ),
    Topic(
        "strategies",
        "Strategies of order",
        "Who orders the ops of a body, and what an order costs.",
        ("reference.strategies", "reference.reorder"),
    ),
    Topic(
        "loops",
        "Loops of your own",
        "Declare what one iteration computes, over named dimensions.",
        ("declare",),
    ),
    Topic(
        "jobs",
        "Jobs",
        "From a loop, schedule or program to a verdict, a simulation, a page and a kernel.",
        ("drive", "tuning", "sync"),
    ),
    Topic(
        "checking",
        "Kernels that others wrote",
        "Judge a code object, assembly or a Triton kernel at a launch.",
        (
            "drive.checking",
            "drive.correcting",
            "drive.scanning",
            "drive.triton_kernels",
            "drive.triton_gate",
            "judge.check",
            "judge.emulate",
            "judge.scan",
        ),
    ),
    Topic(
        "gpu",
        "On a GPU",
        "Launch kernels through HIP, with arrays of the host or of the device.",
        ("device", "drive.launching"),
    ),
    Topic(
        "results",
        "Verdicts and traces",
        "What proving, executing and simulating give.",
        ("judge", "machine_code", "show"),
    ),
    Topic(
        "programs",
        "Programs",
        "One kernel as one immutable value: what it computes, and each step of each wave.",
        ("program", "cms"),
    ),
    Topic(
        "machines",
        "Machines and element types",
        "Chips as numbers with sources, and the types that kernels compute in.",
        ("machine",),
    ),
    Topic(
        "modulo",
        "Modulo scheduling",
        "The order of a loop's tasks as a problem of its own.",
        ("order",),
    ),
    Topic(
        "kernels",
        "Emitted kernels",
        "Machine code, and what a launcher needs to know of it.",
        ("write", "drive.trial"),
    ),
    Topic("errors", "Errors", "What is raised, by whose fault it is.", ("errors", "write.faults")),
)


def topic_of(home: str) -> Topic:
    """The topic of a module, by the longest home that it is in."""
    parts = home.split(".")
    for end in range(len(parts), 0, -1):
        prefix = ".".join(parts[:end])
        for topic in TOPICS:
            if prefix in topic.homes:
                return topic
    raise LookupError(f"no topic of the reference has the module {home!r}: add it in {__file__}")


def reference_pages() -> dict[str, str]:
    """The pages by their place in the site's sources."""
    names: dict[Topic, list[PublicName]] = {topic: [] for topic in TOPICS}
    beside: dict[Topic, list[str]] = {topic: [] for topic in TOPICS}
    for name in public_names():
        names[topic_of(name.home)].append(name)
    for kind in records():
        home = kind.__module__.removeprefix("pipeloom.")
        beside[topic_of(home)].append(f"{kind.__module__}.{kind.__qualname__}")
    pages = {topic.page: _page(topic, names[topic], beside[topic]) for topic in TOPICS}
    return {"reference/index.md": _index(names), **pages}


def _page(topic: Topic, names: list[PublicName], beside: list[str]) -> str:
    lines = [f"# {topic.title}", "", topic.text, ""]
    for name in names:
        lines += [f"[](){{#pipeloom.{name.name}}}", "", f"::: {name.path}", ""]
    if beside:
        lines += ["## Records", "", "What these consist of: results have them as attributes.", ""]
        lines += [line for path in beside for line in (f"::: {path}", "")]
    return "\n".join(lines)


def _index(names: dict[Topic, list[PublicName]]) -> str:
    lines = ["# Reference", "", "Every public name: `import pipeloom as pl`, then `pl.name`.", ""]
    for topic, found in names.items():
        links = [f"[`{name.name}`][{name.path}]" for name in found]
        lines += [f"## [{topic.title}]({topic.slug}.md)", "", topic.text, "", ", ".join(links), ""]
    return "\n".join(lines)
