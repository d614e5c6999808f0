"""Hand-written loops as text: one letter per instruction.

    M mfma      R ds_read_b128    T ds_read_b64_tr    W ds_write_b128
    V VALU      X v_exp           P packed f32 VALU   S SALU
    G buffer_load_dwordx4 (to LDS on gfx950, to registers on gfx942)
    g buffer_load_dword (to LDS)  m v_mfma 4x4x4, with which tf32 loops split their operands
    N s_nop 0   N(3) s_nop 3      B s_barrier         prio(1) s_setprio 1
    wv16 or wv(16) s_waitcnt vmcnt(16)    wl0 or wl(0) s_waitcnt lgkmcnt(0)    wv16+wl0 both
    branch      the branch back

A trailing number is a run length (``M12``), ``( ... )x5`` repeats, and groups nest. White space and
commas separate where needed: ``M4R2`` is ``M4 R2``. For example
``wv4 B R8 (M4 G)x4 wl0 M16 branch`` is one iteration of a loop. Counts must be ones the instruction
can encode: vmcnt to 63, lgkmcnt to 15 (the largest of each means no wait), s_nop to 15, s_setprio
to 3. A name in brackets says which value an M, V, X or P works on: ``V[max]16`` is sixteen
instructions, each of which needs the result of the one before.

Two courtesies to texts copied from measurements: everything up to a ``||`` is a legend and is
skipped, and so is a parenthesis that holds a ``=``. A bare ``w`` is a wait whose counts the source
does not give; it is taken to wait for all that its successor needs: LDS operations before a barrier
or an MFMA, the loads of its registers before a ds_write, everything otherwise. Where every load to
registers has its ds_write, the n-th write stores the n-th load: that of the iteration before if the
write stands first, since the load overwrites its registers. So in ``w W2 w W2 M8 G4`` the first
wait is vmcnt(2), the second vmcnt(0).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pipeloom.errors import SpecError
from pipeloom.judge.simulate.instruction import Kind, WaveOp
from pipeloom.machine.matrix_ops import MatrixOp
from pipeloom.machine.target import Target, Traffic


class StreamError(SpecError):
    """A stream that cannot be read; ``position`` counts characters from 0."""

    def __init__(self, message: str, text: str, position: int, *, hint: str) -> None:
        self.position = position
        start = max(0, position - 30)
        excerpt = text[start : position + 30].replace("\n", " ")
        pointer = " " * (position - start) + "^"
        super().__init__(
            f"stream, character {position}: {message}\n  {excerpt}\n  {pointer}", hint=hint
        )


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the letters leave open: which MFMA ``M`` is, and the bank conflicts of R, T and W."""

    matrix_op: MatrixOp
    lds_conflict: float = 1.0


_LEGAL = (
    "instructions are M m R T W G g V X P S N B, each with an optional run length as in M12, and"
    " N(n), wv(n), wl(n), w, prio(n) and branch; M, V, X and P take the value they work on, as in"
    " V[max]4; ( ... )xN repeats"
)
MAX_INSTRUCTIONS = 1_000_000
LONGEST_WORD = 40  # of an unknown instruction, in a message
MAX_DIGITS = 9  # more than any count may have
MAX_PRIORITY = 3  # CDNA3 ISA, s_setprio: SIMM16[1:0]
MAX_NOP = 15  # CDNA3 ISA, s_nop: SIMM16[3:0]

# A count, bare or in its own parentheses: a closing one without its opening ends the group.
_COUNT = r"(?:\(\d+\)|\d+)"
_TOKEN = re.compile(
    r"\s+|,"
    r"|(?P<comment>\([^()]*=[^()]*\))"
    r"|(?P<open>\()"
    r"|(?P<close>\)\s*(?:[x*×]\s*(?P<times>\d+))?)"
    r"|(?P<branch>branch\b)"
    r"|(?P<prio>prio(?:\((?P<priority>\d+)\)|(?P<bare_priority>\d+)))"
    rf"|(?P<wait>w[vl]{_COUNT}(?:\s*\+\s*w?[vl]{_COUNT})*)"
    r"|(?P<bare>w(?![a-z0-9(]))"
    r"|(?P<nop>N\((?P<count>\d+)\))"
    # A group may follow a letter, a count in parentheses may not: B(2) is not B2.
    r"|(?:(?P<chained>[MVXP])\[(?P<chain>\w+)\]|(?P<letter>[MmRTWGgVXPSNB](?!\[)))"
    r"(?P<run>\d*+)(?!\(\s*\d)"
)


@dataclass(slots=True)
class _Group:
    opened_at: int
    items: list[WaveOp | None]  # None stands for a bare wait


def parse_stream(text: str, machine: Target, options: StreamOptions) -> tuple[WaveOp, ...]:
    """The instructions of a stream, in order. Raises ``StreamError`` with the position."""
    position = text.rfind("||") + 2 if "||" in text else 0
    stack = [_Group(position, [])]
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            word = text[position : position + LONGEST_WORD].split()[0]
            raise StreamError(f"unknown instruction {word!r}", text, position, hint=_LEGAL)
        items = stack[-1].items
        before = len(items)
        if match["open"]:
            stack.append(_Group(position, []))
        elif match["close"]:
            _close(stack, text, match)
        elif match["branch"]:
            items.append(WaveOp.branch())
        elif match["prio"]:
            level = match["priority"] or match["bare_priority"]
            items.append(
                WaveOp.set_prio(_operand("s_setprio", level, MAX_PRIORITY, text, position))
            )
        elif match["wait"]:
            items.append(_wait(match["wait"], text, position, machine))
        elif match["bare"]:
            items.append(None)
        elif match["nop"]:
            items.append(WaveOp.nop(_operand("s_nop", match["count"], MAX_NOP, text, position)))
        elif match["letter"] or match["chained"]:
            letter = match["letter"] or match["chained"]
            one = replace(_instruction(letter, machine, options), chain=match["chain"])
            items.extend([one] * _run(match, text))
        if len(stack[-1].items) > MAX_INSTRUCTIONS:
            raise _too_long(text, position)
        if not match["close"] and (added := items[before:]) and (one_of := added[0]) is not None:
            line = text.count("\n", 0, position) + 1
            items[before:] = [replace(one_of, line=line)] * len(added)
        position = match.end()
    if len(stack) > 1:
        raise StreamError(
            "this ( is never closed", text, stack[-1].opened_at, hint="end the group with )xN"
        )
    return _resolve_bare_waits(stack[0].items, text)


def _close(stack: list[_Group], text: str, match: re.Match[str]) -> None:
    position = match.start()
    if len(stack) == 1:
        raise StreamError("this ) closes nothing", text, position, hint="remove it or open a group")
    if match["times"] is None:
        raise StreamError(
            "a group needs a repeat count", text, position, hint="write ( ... )x4 for four times"
        )
    group = stack.pop()
    if not group.items:
        raise StreamError("an empty group", text, group.opened_at, hint="put instructions in it")
    times = _number(match["times"])
    if times == 0:
        raise _zero(text, match.start("times"))
    if len(group.items) * times > MAX_INSTRUCTIONS:
        raise _too_long(text, position)
    stack[-1].items.extend(group.items * times)


def _too_long(text: str, position: int) -> StreamError:
    return StreamError(
        f"the stream is longer than {MAX_INSTRUCTIONS} instructions",
        text,
        position,
        hint="give one iteration of the loop and let iterations= repeat it",
    )


def _zero(text: str, position: int) -> StreamError:
    return StreamError(
        "a count of 0", text, position, hint="use 1 or more, or leave the instruction out"
    )


def _number(digits: str) -> int:
    """The value; of a number too long for any use, one that exceeds every limit."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= MAX_DIGITS else 10**MAX_DIGITS


def _run(match: re.Match[str], text: str) -> int:
    if not match["run"]:
        return 1
    count = _number(match["run"])
    if count == 0:
        raise _zero(text, match.start("run"))
    if count > MAX_INSTRUCTIONS:
        raise _too_long(text, match.start())
    return count


def _operand(name: str, digits: str, largest: int, text: str, position: int) -> int:
    value = _number(digits)
    if value > largest:
        shown = digits if len(digits) <= LONGEST_WORD else f"{digits[:LONGEST_WORD]}..."
        raise StreamError(
            f"{name} cannot encode {shown}", text, position, hint=f"use 0 to {largest}"
        )
    return value


def _wait(token: str, text: str, position: int, machine: Target) -> WaveOp:
    limits = {
        "v": ("vmcnt", machine.counting(Traffic.GLOBAL).limit.value),
        "l": ("lgkmcnt", machine.counting(Traffic.LDS).limit.value),
    }
    counts: dict[str, int] = {}
    for name, digits in re.findall(r"([vl])\(?(\d+)\)?", token):
        if name in counts:
            raise StreamError(
                f"the wait {token!r} names w{name} twice",
                text,
                position,
                hint="write one count for each of wv and wl",
            )
        counts[name] = _operand(limits[name][0], digits, limits[name][1], text, position)
    return WaveOp.wait(vm=counts.get("v"), lgkm=counts.get("l"))


def _instruction(letter: str, machine: Target, options: StreamOptions) -> WaveOp:
    match letter:
        case "M":
            return WaveOp.mfma(options.matrix_op)
        case "m":
            return WaveOp.mfma(MatrixOp(4, 4, 4, "f16", machine.mfma_4x4_cycles))
        case "R":
            return WaveOp.lds_read(16, conflict=options.lds_conflict, label="ds_read_b128")
        case "T":
            return WaveOp.lds_read(8, conflict=options.lds_conflict, label="ds_read_b64_tr")
        case "W":
            return WaveOp.lds_write(16, conflict=options.lds_conflict, label="ds_write_b128")
        case "G":
            to_lds = machine.dma_max_bytes_per_lane.value >= 16
            return WaveOp.global_load(16, to_lds=to_lds, label="buffer_load_dwordx4")
        case "g":
            return WaveOp.global_load(4, to_lds=True, label="buffer_load_dword")
        case "V":
            return WaveOp.valu()
        case "X":
            return WaveOp.valu(Kind.TRANS, label="v_exp")
        case "P":
            return WaveOp.valu(Kind.PACKED, label="packed")
        case "B":
            return WaveOp.barrier()
        case "S":
            return WaveOp.salu()
        case _:
            return WaveOp.nop()


def _resolve_bare_waits(items: list[WaveOp | None], text: str) -> tuple[WaveOp, ...]:
    """Give each bare ``w`` the counts its successor needs; the loop closes on itself."""
    if not any(item is not None for item in items):
        raise StreamError(
            "the stream has no instruction", text, len(text), hint="for example: R4 wl0 M8 branch"
        )
    may_be_outstanding = _loads_behind_writes(items)
    after = next(item for item in items if item is not None)
    resolved: list[WaveOp] = []
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if item is not None:
            after = item
            resolved.append(item)
        elif after.kind in (Kind.BARRIER, Kind.MFMA):
            resolved.append(WaveOp.wait(lgkm=0))
        elif after.kind is Kind.LDS_WRITE:
            resolved.append(WaveOp.wait(vm=may_be_outstanding.get(index, 0)))
        else:
            resolved.append(WaveOp.wait(vm=0, lgkm=0))
    return tuple(reversed(resolved))


def _loads_behind_writes(items: list[WaveOp | None]) -> dict[int, int]:
    """How many loads may be outstanding where ds_writes start, by the bare wait before them."""
    kinds = [None if item is None else item.kind for item in items]
    loads = kinds.count(Kind.GLOBAL_TO_VGPR)
    if loads != kinds.count(Kind.LDS_WRITE):
        return {}
    allowed: dict[int, int] = {}
    wait = -1  # the bare wait whose writes are being counted
    issued = issued_before = written = 0
    for index, kind in enumerate(kinds):
        if kind is None:
            wait, issued_before = index, issued
        elif kind is Kind.LDS_WRITE:
            if wait >= 0:  # the last write of the run decides
                behind = issued_before - 1 - written
                allowed[wait] = behind if written < issued_before else behind + loads
            written += 1
        else:
            wait = -1
            issued += kind is Kind.GLOBAL_TO_VGPR
    return allowed
