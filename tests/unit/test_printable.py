"""Text of others cannot steer a terminal, wherever it is printed."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from pipeloom.cli.main import main
from pipeloom.declare.kernels import gemm
from pipeloom.drive.pipeline import pipeline
from pipeloom.errors import SpecError
from pipeloom.judge.emulate import CodeObjectError, load_code_object
from pipeloom.printable import PrintableStream, is_printable, printable
from pipeloom.program import Program
from pipeloom.show.console import TerminalConsole
from pipeloom.write import assemble_text

EVIL = "x\x1b[2J\x9b31m\r\x07\u202e\udc80[/x] :smile:"


@given(st.text(st.characters(codec=None)))
def test_nothing_that_steers_is_left(text: str) -> None:
    safe = printable(text)
    safe.encode()
    left = {c for c in safe if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    assert left <= {"\n", "\t"}
    if is_printable(text):
        assert safe == text
    assert printable(safe) == safe


def test_usual_text_stays() -> None:
    for text in ("gemm_nt_256x256", "é → 日本 🎉", "a\tb\n"):
        assert printable(text) == text
    assert printable(EVIL) == "x\\x1b[2J\\x9b31m\\r\\x07\\u202e\\udc80[/x] :smile:"


def test_a_stream_escapes_what_its_encoding_lacks() -> None:
    inner = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    stream = PrintableStream.of(inner)
    assert PrintableStream.of(stream) is stream
    stream.writelines(["é\x1b", "\udc80\n"])
    stream.flush()
    assert inner.buffer.getvalue() == b"\\xe9\\x1b\\udc80\n"


@pytest.mark.parametrize("stderr", [False, True])
def test_tables_and_progress_are_text(capsys: pytest.CaptureFixture[str], stderr: bool) -> None:
    console = TerminalConsole(stderr=stderr)
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    table.add_row(Text(EVIL))
    console.print(table, soft_wrap=True)
    console.print(EVIL)
    shown = capsys.readouterr()
    text = shown.err if stderr else shown.out
    assert {c for c in text if unicodedata.category(c) in ("Cc", "Cs")} <= {"\n"}
    assert text.count("[/x]") >= 2
    assert text.count("x\\x1b[2J") == 5
    assert ":smile:" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", EVIL],
        ["check", f"{EVIL}.hsaco"],
        ["verify", f"{EVIL}.json"],
        ["show", "ping_pong", "--set", f"{EVIL}=1"],
        ["tune", EVIL],
        ["report", f"{EVIL}.toml"],
        ["list", f"--{EVIL}"],
        [EVIL],
    ],
)
def test_names_in_messages_are_escaped(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with suppress(SystemExit):
        assert main(arguments) == 1
    shown = capsys.readouterr()
    assert {c for c in shown.out + shown.err if unicodedata.category(c) in ("Cc", "Cs")} <= {"\n"}


def test_a_symbol_that_steers_is_refused() -> None:
    name = "k_name_here"
    text = (
        f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.text\n.globl {name}\n'
        f".type {name},@function\n"
        f"{name}:\ns_endpgm\n.rodata\n.amdhsa_kernel {name}\n.amdhsa_next_free_vgpr 8\n"
        ".amdhsa_next_free_sgpr 8\n.amdhsa_accum_offset 8\n.end_amdhsa_kernel\n"
    )
    good = assemble_text(text, "gfx950")
    assert load_code_object(good).kernel().name == name
    for evil in (b"k\x1b[2J_here", b"k\nPROVED_he"):
        bad = good.replace(name.encode(), evil.ljust(len(name), b"_"))
        with pytest.raises(CodeObjectError, match="control character"):
            load_code_object(bad)


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("evil", ["a\nPROVED", "a\x1b[1m", "a\udc80", "a\u202eb"])
def test_a_label_that_steers_is_refused(evil: str, tmp_path: Path) -> None:
    """In a comment of the assembly, its second line would be code."""
    program = pipeline(gemm(32, 32, 32), "gfx950", 1)
    text = program.to_json()
    assert Program.from_json(text) == program
    data = json.loads(text)
    data["groups"][0]["sections"][0]["steps"][0]["label"] = evil
    with pytest.raises(SpecError, match="control character or several lines"):
        Program.from_dict(data)
    path = tmp_path / "p.json"
    path.write_text(json.dumps(data))
    assert main(["verify", str(path)]) == 1
    assert not isinstance(sys.stdout, PrintableStream), "it is put back"
