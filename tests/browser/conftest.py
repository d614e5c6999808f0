"""One browser for all tests of pages, and the pages that several look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from pipeloom.cli.main import main
from tests.browser.driving import launched


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name in ("ping_pong", "single_buffer"):
        found[name] = folder / f"{name}.html"
        tile = ["--tile", "none"] if name == "single_buffer" else []
        assert main(["report", name, *tile, "--k-tiles", "16", "-o", str(found[name])]) == 0
    return found


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    driver = launched(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()
