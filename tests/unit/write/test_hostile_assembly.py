"""Assembly of others reads no file, and does not run for ever."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from pipeloom.drive.kernel_files import open_kernel
from pipeloom.errors import SpecError
from pipeloom.write.assemble import assemble_text, link_object, refuse_reaching
from pipeloom.write.faults import AssemblyError

pytest.importorskip("ziglang")

TOOLS = "pipeloom.write.assemble"

HEAD = '.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.text\n'
SECRET = "the_secret_of_this_test"

READING = {
    "include": '.include "{path}"',
    "include in capitals": '.INCLUDE "{path}"',
    "include after a label": 'here: 1: .include "{path}"',
    "quoted name": '".include" "{path}"',
    "after a carriage return": 's_nop 0\r.include "{path}"',
    "incbin": '.data\n.incbin "{path}"',
    "deplibs": '.deplibs "{path}"',
    "name in a macro's body": '.macro m a\n.inc\\a "{path}"\n.endm\nm lude',
    "name of arguments": '.macro m a b\n\\a\\b "{path}"\n.endm\nm .inc lude',
    "name after a label": '.macro m a\nhere\\@: .inc\\a "{path}"\n.endm\nm lude',
    "name as a label": '.macro m a b\n\\a\\b "{path}" //:\n.endm\nm .inc lude',
    "name after a comment": '.macro m a\n/* */ .inc\\a "{path}"\n.endm\nm lude',
    "repeated": '.irp x,lude\n.inc\\x "{path}"\n.endr',
    "repeated letters": '.irpc x,l\n.inc\\()\\x\\()ude "{path}"\n.endr',
    "a line in an argument": ('.macro m a b\ns_nop 0 \\a\\b "{path}"\n.endm\nm "\n.inc" "lude"'),
    "a comment that ends early": (
        '.macro m a b\ns_nop 0 /* \\a\n.inc\\b "{path}" // */\n.endm\nm */ lude'
    ),
    "arguments without a backslash": ('.altmacro\n.macro m a b\na&b "{path}"\n.endm\nm .inc lude'),
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.mark.parametrize("text", READING.values(), ids=READING.keys())
def test_no_file_is_read(text: str, secret: Path) -> None:
    with pytest.raises(AssemblyError, match=r"line \d+: .* is refused") as refused:
        assemble_text(HEAD + text.replace("{path}", str(secret)) + "\n", "gfx950")
    assert SECRET not in str(refused.value)


def test_libraries_that_a_section_names_are_not_looked_for(secret: Path) -> None:
    """What .deplibs writes, without its name; an object file can hold it too."""
    section = f'.section .libs,"MS",@llvm_dependent_libraries,1\n.asciz "{secret}"\n'
    assert assemble_text(f"{HEAD}s_endpgm\n{section}", "gfx950")[:4] == b"\x7fELF"


FINE = {
    "strings and comments": '.ascii "include"\n// a "quoted word\ns_nop 0 ; 5" wide',
    "macro": ".macro m dst, n=1\ns_mov_b32 \\dst, \\n\nend\\@:\n.endm\nm s0\nm s1, 2",
    "repeat": ".rept 3\ns_nop 0\n.endr",
    "for each": ".irp r,0,1,2\ns_mov_b32 s\\r, 0\n.endr",
}


@pytest.mark.parametrize("text", FINE.values(), ids=FINE.keys())
def test_what_reads_nothing_is_taken(text: str) -> None:
    refuse_reaching(text)
    assert assemble_text(f"{HEAD}{text}\n", "gfx950")[:4] == b"\x7fELF"


ENDLESS = {
    "a macro that calls itself twice": ".macro m\nm\nm\n.endm\nm",
    "repeated for ever": ".rept 2000000000\ns_nop 0\n.endr",
    "repeats in repeats": ".rept 100000\n.rept 100000\ns_nop 0\n.endr\n.endr",
    "filled": ".fill 0x7fffffff, 8, 1",
    "space": ".space 0x3fffffffff",
    "far away": ".org 0x3fffffffff",
    "many messages": '.rept 100000000\n.print "again and again"\n.endr',
}


@pytest.mark.skipif(os.name != "posix", reason="needs limits of processes")
@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS.keys())
def test_the_assembler_ends(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller limits than usual, the same way out."""
    monkeypatch.setattr(sys.modules[TOOLS], "MOST_SECONDS", 1)
    monkeypatch.setattr(sys.modules[TOOLS], "MOST_MEMORY", 600 << 20)
    monkeypatch.setattr(sys.modules[TOOLS], "MOST_BYTES", 1 << 20)
    with pytest.raises(AssemblyError):
        assemble_text(f"{HEAD}{text}\n", "gfx950")


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assemble_text(f"{HEAD}s_endpgm\n", "gfx950")
    with pytest.raises(AssemblyError):
        assemble_text(f"{HEAD}no_such_instruction\n", "gfx950")
    assert os.listdir(tmp_path) == []


def test_an_object_that_is_nonsense_is_one_error() -> None:
    with pytest.raises(AssemblyError, match=r"ld\.lld failed"):
        link_object(b"\x7fELF\x02\x01\x01" + bytes(200))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["k.s", "k.hsaco"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(SpecError, match="not a regular file"):
        open_kernel(tmp_path / name)
