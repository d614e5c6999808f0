"""Who may import whom. Nothing that reads a ``Program``, the waist, may import what makes one.

A judge imports no other judge, but for the emulator, which asks the judge of wait states, and the
judge of recorded runs and the static scan, which ask both; ``happens_before``, which judges
nothing, times the pairs that two judges find. And a name of a module or a class means one thing.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "pipeloom"
MODULES = sorted(SOURCE.rglob("*.py"))

VALUES = (
    "errors",
    "checks",
    "files",
    "notebook",
    "reference.ops",
    "plain",
    "reference.tag_costs",
    "reference.config",
    "reference.schedule_config",
    "reference.graph",
    "reference.blocks",
    "reference.geometry",
)
WAIST = (*VALUES, "reference.compiled")
BUILD = (
    "reference.edges",
    "reference.strategies",
    "reference.declaration",
    "reference.reorder",
    "reference.hints",
    "reference.mi355x",
    "machine",
)
CONSUME = (*WAIST, "machine", "reference.kernels")

ALLOWED: dict[str, tuple[str, ...]] = {
    "array_kinds": (),
    "errors": (),
    "collecting": (),
    "dependence_times": (),
    "checks": ("errors",),
    "files": ("errors",),
    "printable": (),
    "notebook": (),
    "field_texts": (),
    "reference.ops": ("errors", "checks"),
    "plain": ("errors", "checks", "printable"),
    "reference.tag_costs": ("errors", "checks", "reference.ops"),
    "reference.config": ("errors", "checks", "reference.ops", "reference.tag_costs"),
    "reference.schedule_config": ("errors", "checks"),
    "reference.graph": ("errors", "checks", "dependence_times", "reference.ops"),
    "reference.geometry": ("errors", "checks", "machine"),
    "order.modulo": ("errors", "checks", "plain"),
    "order": (
        *("errors", "checks", "plain", "machine", "program", "declare"),
        *("order.modulo", "sync"),
    ),
    "reference.body_problem": (*VALUES, "order.modulo"),
    "reference.blocks": ("errors", "checks", "reference.ops"),
    "reference.compiled": (*VALUES, "program"),
    "reference.edges": (
        "errors",
        "checks",
        "reference.ops",
        "reference.tag_costs",
        "reference.config",
        "reference.graph",
    ),
    "machine": ("errors", "checks", "plain"),
    "program": ("errors", "checks", "plain", "notebook", "machine", "device.block_ends"),
    "declare": ("errors", "checks", "plain", "notebook", "machine", "program"),
    "reference.mi355x": VALUES,
    "reference.strategies": WAIST,
    "reference.hints": WAIST,
    "reference.declaration": (
        *WAIST,
        "reference.edges",
        "reference.kernels",
    ),
    "reference.reorder": (*WAIST, "reference.edges", "reference.strategies"),
    "reference.schedules": (*WAIST, *BUILD),
    "reference.notes": (*VALUES, "reference.mi355x"),
    "reference.waits": VALUES,
    "reference.structure": VALUES,
    "reference.block_program": (*VALUES, "reference.waits", "reference.structure"),
    "reference.phases": WAIST,
    "reference.compiler": (
        *WAIST,
        "reference.kernels",
        "reference.declaration",
        "reference.edges",
        "reference.strategies",
        "reference.block_program",
        "reference.phases",
        "reference.notes",
        "reference.resync",
    ),
    "reference.spec": (
        *WAIST,
        "reference.declaration",
        "reference.compiler",
        "reference.schedules",
    ),
    "reference.kernels": (*WAIST, "machine"),
    "reference.instruction_counts": (*WAIST, "machine", "program", "reference.kernels"),
    "reference.walked": (
        *WAIST,
        "program",
        "reference.kernels",
        "reference.instruction_counts",
        "reference.geometry",
    ),
    "reference.held_tiles": (
        "machine",
        "program",
        "reference.kernels",
        "reference.staged",
        "reference.walked",
    ),
    "reference.lift": (
        "reference.held_tiles",
        *WAIST,
        "machine",
        "program",
        "reference.kernels",
        "reference.instruction_counts",
        "reference.walked",
        "reference.geometry",
        "reference.staged",
    ),
    "reference.staged": ("errors", "machine", "program", "reference.geometry"),
    "cms": ("errors", "plain", "machine", "program"),
    "judge.happens_before": (),
    "judge.verify": (
        *("errors", "checks", "collecting", "plain", "notebook", "program", "machine"),
        "judge.happens_before",
    ),
    "reference.resync": (*CONSUME, "program", "sync", "reference.lift"),
    "sync": ("errors", "checks", "plain", "program", "machine", "judge.verify"),
    "judge.simulate": ("errors", "checks", "notebook", "machine", "program"),
    "judge.execute": ("errors", "checks", "notebook", "machine", "program"),
    "machine.elf": (),
    "judge.wait_states": ("machine",),
    "judge.emulate": (
        "errors",
        "files",
        "printable",
        "machine",
        "machine.elf",
        "judge.wait_states",
    ),
    "judge.scan": ("plain", "machine", "judge.emulate", "judge.wait_states"),
    "reports": ("errors", "plain", "judge.check", "judge.scan", "judge.verify"),
    "judge.check": (
        "errors",
        "plain",
        "notebook",
        "machine",
        "machine.elf",
        "judge.emulate",
        "judge.happens_before",
        "judge.wait_states",
    ),
    "write": (
        "errors",
        "collecting",
        "device",
        "checks",
        "notebook",
        "files",
        "machine",
        "program",
        "judge.verify",
        "machine.elf",
        "judge.wait_states",
    ),
    "drive.store": ("errors",),
    "drive.certifying": ("notebook", "program", "order"),
    "drive.loop_room": ("errors", "machine", "program", "declare", "order"),
    # Which loop of a kernel is the one without masks: order.peel.
    "drive.loop_cycles": (
        *("program", "order", "write", "machine_code", "judge.verify", "judge.simulate"),
    ),
    "drive.deriving": (
        "drive.loop_cycles",
        "errors",
        "checks",
        "collecting",
        "notebook",
        "plain",
        "machine",
        "drive.store",
        "drive.certifying",
        "drive.loop_room",
        "program",
        "declare",
        "order",
        "judge.verify",
        "judge.simulate",
    ),
    "drive.writable": ("errors", "machine", "program", "declare", "write"),
    "drive.pipeline": (
        "errors",
        "checks",
        "drive.certifying",
        "drive.deriving",
        "drive.loop_room",
        "drive.writable",
        "machine",
        "program",
        "declare",
        "order",
        "sync",
        "judge.verify",
    ),
    "drive.array_places": ("machine", "program", "judge.emulate"),
    "drive.index_trials": ("program", "write", "judge.emulate", "drive.array_places"),
    "drive.runners": ("machine", "judge.emulate", "device"),
    "drive.trial": (
        *("errors", "checks", "machine", "program", "write", "judge.emulate", "judge.execute"),
        *("drive.array_places", "drive.index_trials", "drive.runners"),
    ),
    "drive.gemm_trial": (
        *("machine", "program", "write", "judge.emulate", "judge.execute", "drive"),
        *("drive.trial", "drive.array_places", "drive.runners"),
    ),
    "drive.running_gemms": (
        *("errors", "checks", "files", "plain", "write", "device"),
        *("drive", "drive.trial", "drive.gemm_trial"),
    ),
    "drive.bench_subjects": (
        *("errors", "machine", "machine_code", "write", "device"),
        *("drive", "drive.trial", "drive.gemm_trial", "drive.running_gemms"),
    ),
    "drive.benching": (
        "errors",
        "checks",
        "machine",
        "write",
        "device",
        "drive",
        "drive.bench_subjects",
    ),
    "drive.kernel_files": (
        *("errors", "files", "judge.check", "judge.emulate", "machine_code", "write"),
        "drive.code_objects",
    ),
    "drive.limiting": ("errors", "checks", "files"),
    "drive.in_processes": (),
    "drive.margins": (
        *("errors", "machine", "program"),
        *("judge.simulate", "judge.verify", "judge.happens_before"),
    ),
    "drive.recorded_margins": (
        *("errors", "machine", "machine_code", "drive.margins"),
        *("judge.check", "judge.emulate", "judge.happens_before"),
    ),
    "drive.checking": (
        *("errors", "checks", "judge.check", "judge.emulate"),
        *("drive.kernel_files", "drive.limiting", "drive.recorded_margins"),
    ),
    "drive.code_objects": ("errors", "files", "machine.elf"),
    "drive.scanning": (
        *("errors", "checks", "judge.check", "judge.emulate", "judge.scan", "machine_code"),
        *("write", "drive.code_objects", "drive.in_processes", "drive.kernel_files"),
        *("drive.limiting", "drive.checking", "drive.checking_many"),
    ),
    "drive.checking_many": (
        *("errors", "checks", "files", "machine_code", "reports"),
        *("drive.checking", "drive.in_processes", "drive.kernel_files", "drive.store"),
    ),
    "drive.witnessing": (
        *("errors", "judge.check", "judge.emulate", "write"),
        *("drive.kernel_files", "drive.checking"),
    ),
    "drive.triton_gate": (
        *("errors", "files", "judge.emulate", "judge.scan", "reports"),
        *("drive.kernel_files", "drive.limiting"),
    ),
    "drive.triton_kernels": (
        *("errors", "checks", "machine", "judge.emulate"),
        *("drive.kernel_files", "drive.checking"),
    ),
    "drive.timing_files": (
        "errors",
        "judge.check",
        "judge.emulate",
        "machine_code",
        "drive.kernel_files",
        "drive.checking",
    ),
    "drive.correcting": (
        "errors",
        "notebook",
        "judge.check",
        "judge.emulate",
        "machine",
        "machine_code",
        "write",
        "drive.code_objects",
        "drive.kernel_files",
        "drive.checking",
    ),
    "drive.triton_override": (
        *("errors", "files", "judge.check", "drive.checking", "drive.correcting"),
    ),
    "drive": (
        *CONSUME,
        "cms",
        "declare",
        "program",
        "reference.declaration",
        "reference.compiler",
        "reference.body_problem",
        "reference.instruction_counts",
        "reference.lift",
        "reference.resync",
        "reference.schedules",
        "reference.spec",
        "reference.words",
        "order",
        "order.modulo",
        "judge.verify",
        "judge.simulate",
        "sync",
        "write",
        "machine_code",
        "judge.check",
        "device",
        "drive.margins",
        "drive.checking",
        "drive.code_objects",
        "drive.kernel_files",
        "drive.limiting",
        "launch_families",
        "drive.timing_files",
        "drive.runners",
        "drive.trial",
        "drive.pipeline",
        "drive.certifying",
        "drive.deriving",
        "drive.loop_cycles",
        "drive.store",
        "judge.emulate",
        "show",
        "thread_trace",
        "calibrate",
        "machine.chip_file",
    ),
    "drive.painting": (
        "errors",
        "program",
        "judge.simulate",
        "reference.compiled",
        "reference.declaration",
        "machine_code",
        "write",
        "drive.programs",
        "show",
    ),
    "drive.launching": (
        *("errors", "checks", "files", "device", "write", "machine_code", "judge.emulate"),
        *("drive", "drive.kernel_files", "drive.programs"),
    ),
    "drive.programs": (
        "drive.margins",
        "errors",
        "checks",
        "declare",
        "machine",
        "program",
        "reference.compiled",
        "reference.declaration",
        "reference.instruction_counts",
        "reference.kernels",
        "reference.lift",
        "reference.resync",
        "sync",
        "judge.execute",
        "judge.simulate",
        "judge.verify",
        "write",
        "order.modulo",
        "drive",
        "drive.pipeline",
        "drive.trial",
    ),
    "device": ("errors", "device.block_ends"),
    "device.block_ends": (),
    "tuning.binding": ("device",),
    "tuning": (
        "tuning.binding",
        "device",
        "errors",
        "files",
        "checks",
        "plain",
        "machine",
        "program",
        "declare",
        "order",
        "judge.simulate",
        "drive",
        "drive.trial",
        "drive.gemm_trial",
        "drive.running_gemms",
        "drive.store",
        "drive.certifying",
        "drive.deriving",
        "drive.programs",
        "drive.witnessing",
        "write",
        "show",
    ),
    "machine_code": (
        "errors",
        "device",
        "checks",
        "files",
        "plain",
        "machine",
        "write",
        "judge.simulate",
        "judge.emulate",
        "judge.check",
        "judge.wait_states",
    ),
    "launch_families": ("errors", "checks", "files", "judge.emulate", "machine_code"),
    "machine.chip_file": ("errors", "files", "plain", "machine"),
    "calibrate": ("errors", "files", "plain", "machine", "judge.simulate"),
    "thread_trace": (
        "errors",
        "files",
        "machine",
        "judge.check",
        "judge.simulate",
        "machine_code",
        "write",
    ),
    "reference.words": WAIST,
    "show": (
        "errors",
        "checks",
        "dependence_times",
        "plain",
        "printable",
        "notebook",
        "machine",
        "program",
        "judge.check",
        "reports",
        "judge.scan",
        "judge.verify",
        "judge.simulate",
        "machine_code",
        "order.modulo",
        "thread_trace",
    ),
    "cli": ("*",),
    "__init__": ("*",),
    "__main__": ("cli",),
}
"""Package -> what it may import of ours. A new package needs a line here, on purpose."""

EMPTY = {"reference", "judge"}
"""Packages of packages: their ``__init__`` imports nothing."""


TOP = {"cli", "__init__", "__main__"}
"""What nothing below imports; ``*`` is all but these."""


SHIPPED = (SOURCE / "tuning" / "binding.py", SOURCE / "device")
"""What is written out under another name: it names modules relative to itself."""


FOR_ALL = {"array_kinds"}
"""Names of types and nothing else."""


def _allowed(unit: str) -> set[str]:
    allowed = set(ALLOWED[unit])
    return set(ALLOWED) - TOP if "*" in allowed else allowed


def _unit_of(module: str) -> str:
    """The longest line of the table that ``module`` (without ``pipeloom.``) falls under."""
    parts = module.split(".")
    names = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((name for name in names if name in ALLOWED), module)


def _unit(path: Path) -> str:
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    return _unit_of(module.removesuffix(".__init__"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _imported(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    nodes = ast.walk(_tree(path))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def _imports(path: Path) -> set[str]:
    found = set()
    for node in _imported(path):
        if isinstance(node, ast.ImportFrom):
            names = [str(node.module)]
            if node.level:
                assert {path, path.parent} & {*SHIPPED}, (
                    f"{path}:{node.lineno}: name the module in full"
                )
                inside = path.relative_to(SOURCE.parent).parts[: -node.level]
                names = [".".join((*inside, *names))]
            if node.module == "pipeloom":
                given = [alias.name for alias in node.names]
                names = [f"pipeloom.{name}" for name in given if name != "__version__"]
        else:
            names = [alias.name for alias in node.names]
        found |= {_unit_of(n.removeprefix("pipeloom.")) for n in names if n.startswith("pipeloom.")}
    return found


def test_imports_respect_the_layers() -> None:
    """One test for all modules: six hundred of them would take longer to report than to run."""
    illegal = {}
    for path in MODULES:
        unit = _unit(path)
        known = unit in EMPTY or unit in ALLOWED
        assert known, f"add {unit} to ALLOWED and say in docs/design.md where it belongs"
        found = _imports(path) - (set() if unit in EMPTY else {*_allowed(unit), unit}) - FOR_ALL
        if found:
            illegal[str(path.relative_to(SOURCE))] = sorted(found)
    assert illegal == {}, "a module may not import these"


OUTSIDE = ("evidence", "benchmarks", "tests", "examples")
"""Folders of the repository that no wheel has."""


def test_the_package_stands_alone() -> None:
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in MODULES
        for node in _imported(path)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
        if name.split(".")[0] in OUTSIDE
    }
    assert found == set()


def test_the_package_ships_no_evidence() -> None:
    shipped = {path.name for path in SOURCE.rglob("*") if path.is_file()}
    kept = {path.name for path in (SOURCE.parents[1] / "evidence").iterdir()} - {"__init__.py"}
    assert "measured_loops.json" in kept
    assert not {name for name in shipped & kept if not name.startswith("__")}


LATE = {
    "cli/main.py": "Ctrl-C is heard before the commands are imported",
    "drive/environment.py": "what says which package is missing runs without it",
}
"""Modules of ``drive`` and ``cli`` that import ours in a function, and why."""


def test_drive_and_commands_import_at_the_top() -> None:
    late = set()
    for path in (*SOURCE.glob("drive/*.py"), *SOURCE.glob("cli/*.py")):
        functions = ast.walk(_tree(path))
        inside = (n for f in functions if isinstance(f, ast.FunctionDef) for n in ast.walk(f))
        names = [str(n.module) for n in inside if isinstance(n, ast.ImportFrom)]
        if any(name.startswith("pipeloom") for name in names):
            late.add(str(path.relative_to(SOURCE)))
    assert late == set(LATE)


def test_every_layer_exists() -> None:
    units = {_unit(path) for path in SOURCE.rglob("*.py")}
    assert units == set(ALLOWED) | EMPTY


def test_judges_do_not_know_each_other() -> None:
    judges = {unit for unit in ALLOWED if unit.startswith("judge.")}
    known = {(judge, other) for judge in judges for other in judges & set(ALLOWED[judge])}
    assert known == {
        ("judge.verify", "judge.happens_before"),
        ("judge.check", "judge.happens_before"),
        ("judge.emulate", "judge.wait_states"),
        ("judge.check", "judge.emulate"),
        ("judge.check", "judge.wait_states"),
        ("judge.scan", "judge.emulate"),
        ("judge.scan", "judge.wait_states"),
    }


def test_who_reads_programs_imports_nobody_who_makes_them() -> None:
    readers = [u for u in ALLOWED if u.split(".")[0] in ("judge", "write", "show")]
    makers = {"declare", "order", "sync", "cms", "reference", "drive", "tuning"}
    seen, left = set(readers), list(readers)
    while left:
        new = _allowed(left.pop()) - seen
        seen |= new
        left += new
    assert {u for u in seen if u.split(".")[0] in makers} == {"order.modulo"}
    assert _allowed("order.modulo") == {"errors", "checks", "plain"}


def test_the_layers_have_no_cycle() -> None:
    graph = {unit: _allowed(unit) for unit in ALLOWED}
    done: set[str] = set()
    while ready := [u for u, needs in graph.items() if u not in done and needs <= done]:
        done |= set(ready)
    assert done == set(graph)


def test_the_design_page_places_every_layer() -> None:
    page = (Path(__file__).parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    picture = page.split("```")[1]
    words = set(picture.replace(":", " ").split())
    packages = {unit.split(".")[0] for unit in ALLOWED if not unit.startswith("_")}
    judges = {unit.removeprefix("judge.") for unit in ALLOWED if unit.startswith("judge.")}
    assert not (packages | judges) - words


ONE_MEANING = {
    "gemm": "one product: the command, and what it calls",
    "lift": "something as a Program",
    "partial": "sums in parts: chosen by an order, written by the writer",
    "single_buffer": "the specification's kernel and its schedule",
}
"""Names that several modules have, because they decide the same."""


def test_no_two_modules_of_one_name() -> None:
    places: dict[str, list[Path]] = {}
    for path in SOURCE.rglob("*.py"):
        if path.parent.name != "cli" and not path.stem.startswith("__"):
            places.setdefault(path.stem, []).append(path.relative_to(SOURCE))
    twice = {name: sorted(map(str, paths)) for name, paths in places.items() if len(paths) > 1}
    assert {name: paths for name, paths in twice.items() if name not in ONE_MEANING} == {}


def test_no_two_classes_of_one_name() -> None:
    """A reader who meets a name knows what it is; two that are the same thing are one class."""
    places: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in _tree(path).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: sorted(paths) for name, paths in places.items() if len(paths) > 1} == {}


def test_no_module_is_longer_than_one_idea() -> None:
    lengths = {
        str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in SOURCE.rglob("*.py")
    }
    assert {name: lines for name, lines in lengths.items() if lines > 450} == {}
