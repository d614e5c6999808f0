"""Instructions as people read them, from their words."""

from __future__ import annotations

import struct

import pytest

from pipeloom.judge.emulate.decode import decode_kernel
from pipeloom.judge.emulate.disassembly import instruction_text


def text_of(*words: int) -> str:
    return instruction_text(decode_kernel(struct.pack(f"<{len(words)}I", *words))[0])


@pytest.mark.parametrize(
    ("source", "words", "text"),
    [
        (128, (), "0"),
        (129, (), "1"),
        (192, (), "64"),
        (193, (), "-1"),
        (208, (), "-16"),
        (240, (), "0.5"),
        (248, (), "0.15915494"),
        (255, (0x42280000,), "0x42280000"),
        (4, (), "s4"),
        (256, (), "v0"),
    ],
)
def test_sources_of_a_vector_instruction(source: int, words: tuple[int, ...], text: str) -> None:
    """v_add_f32 v1, <source>, v2."""
    assert text_of(1 << 25 | 1 << 17 | 2 << 9 | source, *words) == f"v_add_f32 v1, {text}, v2"


@pytest.mark.parametrize(("source", "name"), [(251, "vccz"), (252, "execz"), (253, "scc")])
def test_flags_are_no_constants(source: int, name: str) -> None:
    """s_add_u32 s5, <flag>, 1."""
    assert text_of(0b10 << 30 | 5 << 16 | 129 << 8 | source) == f"s_add_u32 s5, {name}, 1"


@pytest.mark.parametrize(("bit", "end"), [(0, ""), (1, " lds")])
@pytest.mark.parametrize(("offset", "shown"), [(0, ""), (64, " offset:64")])
def test_a_load_says_whether_it_goes_to_lds(bit: int, end: str, offset: int, shown: str) -> None:
    """buffer_load_dword v1, v2, s[8:11], 0 offen."""
    word = 0b111000 << 26 | 20 << 18 | bit << 16 | 1 << 12 | offset
    text = text_of(word, 128 << 24 | 2 << 16 | 1 << 8 | 2)
    assert text.endswith(f"s[8:11], 0{shown}{end}")
