"""Where a library without a folder is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipeloom.tuning
from pipeloom.tuning.binding import Library, LibraryError


def test_in_the_package_where_one_is_installed_else_around_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The code that stands in a library has it around it; nothing is installed here."""
    around = Path(pipeloom.tuning.__file__).parents[2]
    with pytest.raises(LibraryError, match="is no library") as caught:
        Library()
    assert f"{around} is no library" in str(caught.value)
    home = tmp_path / "package" / "library"
    home.mkdir(parents=True)
    (home / "dispatch.json").write_text('{"format": "another"}')
    monkeypatch.setattr(
        "pipeloom.tuning.binding.__file__", str(tmp_path / "package" / "tuning" / "binding.py")
    )
    with pytest.raises(LibraryError, match="has format 'another'"):
        Library()
