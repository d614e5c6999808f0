"""What registers hold in every lane of a workgroup, as far as the thread number alone decides it.

LDS addresses are made from the thread's number and constants. So instead of formulas the scan keeps
numbers: a scalar register is one per wave, a vector register one per lane of every wave. The
instructions that make addresses are executed by the emulator, once per set of operands:

    v_lshlrev_b32 v1, 4, v0        v0 = 0 1 2 ... 255      v1 = 0 16 32 ... 4080

What comes from memory or from arguments is not known, and neither is what is computed from it. The
workgroup is taken to be one-dimensional and as large as the kernel's metadata allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

import numpy as np

from pipeloom.array_kinds import Flags, Words
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.register_numbers import (
    ALL_LANES,
    EXEC,
    LANES,
    SCC,
    VCC,
    VGPR,
    WORD,
    each_register,
)
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.traps import EmulateError
from pipeloom.judge.emulate.wave import Wave
from pipeloom.judge.emulate.workgroup import Workgroup
from pipeloom.judge.scan.emulated import EmulatedSteps

Number: TypeAlias = int
"""An interned value: equal values have equal numbers."""
Environment: TypeAlias = "dict[int, Number]"
"""Register -> value, of those that are known."""


EXEC_PAIR = (EXEC, EXEC + 1)
_VECTOR = ("VOP1", "VOP2", "VOP3", "VOP3SD", "VOP3P", "VOPC")


class LaneValues:
    """The values seen so far, and how instructions turn some into others."""

    def __init__(self, threads: int, steps: EmulatedSteps) -> None:
        self.waves = -(-threads // LANES)
        self._steps = steps
        self._values: list[Words] = []
        self._numbers: dict[tuple[bool, bytes], Number] = {}
        self._done: dict[tuple[int, tuple[Number, ...]], dict[int, Number] | None] = {}
        # The emulator's steps ask the workgroup for nothing but memory and reports.
        self._wave = Wave(cast(Workgroup, None), 0, 0)
        self.threads = threads

    def start(self) -> Environment:
        """Before the first instruction: thread numbers, and which lanes there are."""
        numbers = np.arange(self.waves * LANES, dtype=np.uint32).reshape(self.waves, LANES)
        left = np.clip(self.threads - LANES * np.arange(self.waves), 0, LANES)
        masks = [(1 << int(count)) - 1 for count in left]
        return {
            VGPR: self._number(numbers, True),
            EXEC: self.scalars([mask & WORD for mask in masks]),
            EXEC + 1: self.scalars([mask >> 32 for mask in masks]),
        }

    def scalars(self, values: Iterable[int]) -> Number:
        """A value of a scalar register, one for each wave."""
        return self._number(np.array(list(values), np.uint32), False)

    def _number(self, value: Words, vector: bool) -> Number:
        key = (vector, value.tobytes())
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._values)
            self._values.append(value)
        return found

    def value(self, number: Number) -> Words:
        """(waves,) of a scalar register, (waves, lanes) of a vector register."""
        return self._values[number]

    def active(self, low: Number, high: Number) -> Flags:
        """EXEC by wave and lane."""
        masks = self.value(low).astype(np.uint64) | self.value(high).astype(np.uint64) << 32
        return (masks[:, None] >> np.arange(LANES, dtype=np.uint64) & 1).astype(np.bool_)

    def step(self, one: Decoded) -> MicroOp | None:
        """The instruction as the emulator executes it; None of those that are not followed."""
        return self._steps[one]

    def takes(self, one: Decoded, known: Environment) -> int | None:
        """The waves that take a branch, as bits; None where that is not known."""
        name = one.name.removeprefix("s_cbranch_")
        registers = {"scc": (SCC,), "vcc": (VCC, VCC + 1), "exe": EXEC_PAIR}.get(name[:3])
        if registers is None or not all(register in known for register in registers):
            return None
        rows = [self.value(known[register]) for register in registers]
        if name.startswith("scc"):
            taken = rows[0] == int(name[3:])
        else:
            taken = ((rows[0] | rows[1]) != 0) == name.endswith("nz")
        return sum(1 << wave for wave, yes in enumerate(taken) if yes)

    def inputs(self, one: Decoded) -> int:
        """The registers that decide an instruction's results."""
        step = self.step(one)
        if step is None:
            return 0
        found = step.reads | step.keeps
        if one.encoding in _VECTOR:
            found |= 1 << EXEC | 1 << EXEC + 1
        return found

    def execute(self, one: Decoded, known: Environment) -> None:
        """Let an instruction change what is known."""
        step = self.step(one)
        if step is None:
            return
        full = one.name == "s_or_b64" and self._all_ones(one, known)
        needed = each_register(self.inputs(one))
        if not full and not all(register in known for register in needed):
            before = [known.get(half) for half in EXEC_PAIR]
            for register in each_register(step.writes):
                known.pop(register, None)
            if one.name.endswith("_saveexec_b64"):
                # Which lanes are left is not known, which there were is.
                for register, value in enumerate(before, start=one.fields["sdst"]):
                    if value is not None:
                        known[register] = value
            return
        if one.encoding in _VECTOR and not self._all_lanes(known):
            # Lanes that are off keep what they had.
            kept = [r for r in each_register(step.writes) if r >= VGPR]
            if not all(register in known for register in kept):
                for register in each_register(step.writes):
                    known.pop(register, None)
                return
            needed = sorted({*needed, *kept})
        if full:
            needed = [register for register in needed if register in known]
        key = (one.pc, tuple(known[register] for register in needed))
        if key not in self._done:
            self._done[key] = self._run(step, {r: known[r] for r in needed}, full)
        result = self._done[key]
        for register in each_register(step.writes):
            if result is None:
                known.pop(register, None)
            else:
                known[register] = result[register]

    def _all_lanes(self, known: Environment) -> bool:
        return all(bool((self.value(known[half]) == WORD).all()) for half in EXEC_PAIR)

    def _all_ones(self, one: Decoded, known: Environment) -> bool:
        """Whether one side of a 64-bit OR is all ones, whatever the other is."""
        for name in ("ssrc0", "ssrc1"):
            code = one.fields[name]
            pair = (code, code + 1)
            if all(r in known and (self.value(known[r]) == WORD).all() for r in pair):
                return True
        return False

    def _run(
        self, step: MicroOp, given: Mapping[int, Number], full: bool
    ) -> dict[int, Number] | None:
        wave = self._wave
        written = each_register(step.writes)
        results: dict[int, list[Words | int]] = {register: [] for register in written}
        for index in range(self.waves):
            wave.set_exec(ALL_LANES)
            for register, number in given.items():
                value = self._values[number]
                if register >= VGPR:
                    wave.v[register - VGPR] = value[index]
                elif register == SCC:
                    wave.scc = int(value[index])
                else:
                    wave.s[register] = int(value[index])
            if EXEC in given and EXEC + 1 in given:
                wave.set_exec(wave.read_mask(EXEC))
            try:
                step.run(wave)
            except (EmulateError, AttributeError):
                return None
            for register in written:
                if register >= VGPR:
                    results[register].append(wave.v[register - VGPR].copy())
                elif register == SCC:
                    results[register].append(int(wave.scc) if not full else 1)
                else:
                    results[register].append(wave.s[register] & WORD if not full else WORD)
        return {
            register: self._number(np.array(values, np.uint32), register >= VGPR)
            for register, values in results.items()
        }
