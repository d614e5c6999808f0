"""Instructions as text for people: mnemonic and operands as LLVM prints them.

    instruction_text(instruction)  ->  "v_mfma_f32_16x16x32_bf16 a[0:3], v[8:11], v[12:15], a[0:3]"

Modifiers other than offsets are left out; text that has to be assembled again keeps the words of
the machine code instead (``pipeloom.write.rewrite``).
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.pending import WaitCounts
from pipeloom.judge.emulate.wait_states import read_instructions
from pipeloom.judge.wait_states import register_name

_FLOATS = ("0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494")
_SOURCES = ("src0", "src1", "src2", "ssrc0", "ssrc1", "soffset")


def instruction_text(one: Decoded) -> str:
    """One instruction."""
    name, fields = one.name, one.fields
    if name == "s_waitcnt":
        return WaitCounts.of(fields["simm16"]).text()
    if one.target is not None:
        return f"{name} {one.target:#x}"
    if one.encoding == "SOPP":
        return f"{name} {fields['simm16']}" if fields.get("simm16") else name
    (issued,) = read_instructions((one,))
    constants = _constants(one)
    operands = [_registers(o) if o else next(constants, "") for o in issued.operands]
    text = f"{name} {', '.join(operand for operand in operands if operand)}"
    return (text + _offset(one)).strip()


def _registers(numbers: tuple[int, ...]) -> str:
    first, last = register_name(numbers[0]), register_name(numbers[-1])
    if len(numbers) == 1 or not first[1:].isdigit():
        return first
    return f"{first[0]}[{first[1:]}:{last[1:]}]"


def _constants(one: Decoded) -> Iterator[str]:
    """Constant sources, in order."""
    for field in _SOURCES:
        code = one.fields.get(field)
        if code is None or not 128 <= code < 256 or code in (251, 252):
            continue
        if code <= 192:
            yield str(code - 128)
        elif code <= 208:
            yield str(192 - code)
        elif 240 <= code <= 248:
            yield _FLOATS[code - 240]
        elif code == 253:
            yield "scc"  # no register that needs a wait
        elif code == 255:
            yield f"{one.literal or 0:#x}"
        else:
            yield f"<{code}>"
    if "simm16" in one.fields:
        yield f"{one.fields['simm16']:#x}"


def _offset(one: Decoded) -> str:
    fields = one.fields
    if one.encoding == "DS":
        if "2" in one.name.split("_")[1]:
            return f" offset0:{fields['offset0']} offset1:{fields['offset1']}"
        offset = fields["offset0"] | fields["offset1"] << 8
    elif one.encoding in ("MUBUF", "MTBUF", "GLOBAL", "FLAT", "SCRATCH"):
        offset = fields["offset"]
    elif one.encoding == "SMEM":
        return f", {fields['offset']:#x}" if fields.get("imm") else ""
    else:
        return ""
    lds = " lds" if fields.get("lds") else ""
    return (f" offset:{offset}" if offset else "") + lds
