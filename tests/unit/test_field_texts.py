"""Fields explain themselves in ``help()``, from the one text under them."""

from __future__ import annotations

import enum
import pydoc
import subprocess
import sys
from dataclasses import dataclass

import pytest

import pipeloom
from pipeloom.field_texts import ExplainedDoc, attribute_texts, explain


class Colour(enum.Enum):
    """What it looks like."""

    RED = "red"
    """Like a rose."""
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Base:
    """Something."""

    size: int
    """How large it is,
    in bytes."""
    silent: int = 0


@dataclass(frozen=True, slots=True)
class Wider(Base):
    colour: Colour = Colour.RED
    """What it looks like."""


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Colour, Base, Wider):
        monkeypatch.setattr(kind, "__doc__", kind.__doc__)
    explain(Base)
    explain(Base)  # twice is once


def test_help_has_the_text_under_each_field(explained: None) -> None:
    assert Base.__doc__ == "Something.\n\nAttributes:\n    size: How large it is, in bytes."
    assert Base(3).__doc__ == Base.__doc__
    assert "size: How large it is, in bytes." in pydoc.render_doc(Base)


def test_inherited_fields_and_members_are_explained(explained: None) -> None:
    assert attribute_texts(Wider) == {
        "size": "How large it is,\nin bytes.",
        "colour": "What it looks like.",
    }
    assert str(Colour.__doc__).endswith("Members:\n    RED: Like a rose.")
    assert "RED: Like a rose." in pydoc.render_doc(Colour)


def test_a_class_without_source_keeps_its_docstring() -> None:
    names: dict[str, type] = {}
    exec('class Made:\n    """Own."""\n    size: int = 0\n    """Lost."""', names)
    assert attribute_texts(names["Made"]) == {}
    assert ExplainedDoc("Own.").__get__(None, names["Made"]) == "Own."


def test_public_classes_explain_themselves_when_they_are_touched() -> None:
    assert "unit: What it counts" in pydoc.render_doc(pipeloom.Fact)
    assert "VENDOR: A vendor document" in pydoc.render_doc(pipeloom.FactKind)
    beside = vars(sys.modules[pipeloom.Target.__module__])["LdsPhases"]
    assert "lanes: The lanes that" in pydoc.render_doc(beside)


def test_without_docstrings_nothing_breaks() -> None:
    code = "import pipeloom; pipeloom.Fact, pipeloom.Unit; help(pipeloom.Fact)"
    found = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "unit: What it counts" not in found.stdout
