"""The site that `make docs` builds: no warning, and in a real browser, opened from a disk."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.browser.driving import NEEDS_BROWSER, logged, wait_for

ROOT = Path(__file__).parents[2]
WIDTHS = (1400, 390)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, whichever worker comes first."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            built = subprocess.run(
                [sys.executable, "-m", "website", str(folder)],
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            assert (built.returncode, built.stderr) == (0, "")
    return folder


@pytest.fixture
def window(browser: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """The browser, which has its own size again afterwards."""
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def opened(browser: webdriver.Chrome, page: Path, width: int) -> webdriver.Chrome:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    wait_for(lambda: browser.execute_script("return document.readyState === 'complete'"))
    return browser


def shown(browser: webdriver.Chrome, css: str) -> list[WebElement]:
    return [one for one in browser.find_elements(By.CSS_SELECTOR, css) if one.is_displayed()]


def test_the_site_is_built_without_a_warning(site: Path) -> None:
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    assert {"index.html", "report.html", "ping_pong.html", "reference/machines.html"} <= pages
    assert "evidence/claims.html" in pages


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>")
    for page in site.rglob("*.html"):
        found = [tag for tag in loads.findall(page.read_text("utf-8")) if "canonical" not in tag]
        assert not found, page
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert not re.findall(r"url\(\"?(?:https?:)?//", styles)


@NEEDS_BROWSER
@pytest.mark.parametrize("width", WIDTHS)
def test_search_finds_a_field(window: webdriver.Chrome, site: Path, width: int) -> None:
    page = opened(window, site / "index.html", width)
    if width < 600:
        next(iter(shown(page, "label.md-header__button[for=__search]"))).click()
    box = wait_for(lambda: shown(page, ".md-search__input"))[0]
    box.click()
    box.send_keys("global_bytes_in_flight")
    link = wait_for(lambda: shown(page, "a.md-search-result__link"), 30)[0]
    link.click()
    wait_for(lambda: "reference/machines.html" in page.current_url)
    field = "pipeloom.machine.target.Target.global_bytes_in_flight"
    text = wait_for(lambda: page.find_element(By.ID, field).find_element(By.XPATH, ".."))
    assert "Bytes that a compute unit can have on the way from memory" in text.text


@NEEDS_BROWSER
@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_the_window(window: webdriver.Chrome, site: Path, width: int) -> None:
    sizes = "const e = document.documentElement; return [e.scrollWidth, e.clientWidth]"
    names = ("index", "report", "verdicts", "reference/jobs", "evidence/claims", "contributing")
    for name in names:
        scrolled, seen = opened(window, site / f"{name}.html", width).execute_script(sizes)
        assert scrolled <= seen, name


@NEEDS_BROWSER
@pytest.mark.parametrize("width", WIDTHS)
def test_the_embedded_report_answers(window: webdriver.Chrome, site: Path, width: int) -> None:
    logged(window)
    logged(window, "performance")
    page = opened(window, site / "report.html", width)
    frame = page.find_element(By.CSS_SELECTOR, "iframe.report")
    page.execute_script("arguments[0].scrollIntoView()", frame)
    page.switch_to.frame(frame)
    try:
        wait_for(lambda: page.execute_script("return Boolean(window.pipeloom)"))
        assert page.find_element(By.ID, "title").text.startswith("ping_pong")
        before = page.execute_script("return pipeloom.timeline.visible()")
        buttons = page.find_elements(By.CSS_SELECTOR, "#ranges button")
        page.execute_script(
            "arguments[0].click()", next(b for b in buttons if b.text == "Prologue")
        )
        wait_for(lambda: page.execute_script("return pipeloom.timeline.visible()") != before)
    finally:
        page.switch_to.default_content()
    assert logged(page) == []
    requested = [row["message"] for row in logged(page, "performance")]
    assert not [m for m in requested if "Network.requestWillBeSent" in m and '"url":"http' in m]


@NEEDS_BROWSER
def test_a_reference_page_shows_what_fields_and_parameters_mean(
    window: webdriver.Chrome, site: Path
) -> None:
    page = opened(window, site / "reference" / "jobs.html", 1400)
    body = page.find_element(By.CSS_SELECTOR, "article").text
    assert "Cycles per iteration that no order of the loop's instructions beats." in body
    assert "The most copies of anything that rotates: 2 is double buffering." in body
    links = page.find_elements(By.CSS_SELECTOR, ".doc-signature a")
    assert any("programs.html" in str(link.get_attribute("href")) for link in links)


@NEEDS_BROWSER
def test_dark_mode_is_a_click_away(window: webdriver.Chrome, site: Path) -> None:
    page = opened(window, site / "index.html", 1400)
    light = "const s = getComputedStyle(document.body).backgroundColor; return s"
    scheme = "return document.body.getAttribute('data-md-color-scheme')"
    seen = {}
    for _ in range(3):
        seen[page.execute_script(scheme)] = page.execute_script(light)
        shown(page, "form[data-md-component=palette] label")[0].click()
        wait_for(lambda: shown(page, "form[data-md-component=palette] label"))
    assert set(seen) == {"default", "slate"}
    assert seen["default"] != seen["slate"]
