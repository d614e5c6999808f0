"""A real browser for pages: it loads files, offline, and has a mouse."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--window-size=1366,768",
)
NEEDS_BROWSER = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs chromium and chromedriver (Debian: apt install chromium chromium-driver)",
)
NOW = "{ behavior: 'instant', block: 'start' }"
SEGMENT = "const run = pipeloom.page.timeline; const [a, b] = pipeloom.timeline.visible();"


def launched(profile: Path) -> webdriver.Chrome:
    """A browser with an empty profile, whose log of requests can be read."""
    options = Options()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.set_page_load_timeout(60)
    return driver


def opened(browser: webdriver.Chrome, path: Path) -> webdriver.Chrome:
    """Load a page afresh and wait until its charts are drawn."""
    logged(browser)
    logged(browser, "performance")
    browser.get(path.as_uri())
    wait_for(lambda: browser.execute_script("return Boolean(window.pipeloom)"))
    browser.execute_script(f"document.getElementById('run').scrollIntoView({NOW})")
    return browser


def logged(browser: Any, kind: str = "browser") -> list[dict[str, Any]]:
    """What the browser has logged since the last call; selenium leaves this untyped."""
    return list(browser.get_log(kind))


def wait_for(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What ``condition`` returns once it is true; what it looks at may be drawn anew meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(StaleElementReferenceException):
            if result := condition():
                return result
        time.sleep(0.05)
    raise AssertionError("the page did not get there in time")


def visible(browser: webdriver.Chrome) -> tuple[float, float]:
    low, high = browser.execute_script("return pipeloom.timeline.visible()")
    return float(low), float(high)


def timeline(browser: webdriver.Chrome) -> WebElement:
    return browser.find_element(By.ID, "timeline")


def find_segment(browser: webdriver.Chrome, condition: str) -> tuple[int, float, float]:
    """The first visible segment that meets a condition on ``s``: its number and its pixel."""
    script = (
        SEGMENT
        + "const i = run.segments.findIndex((s) => s[6] > a && s[7] < b && "
        + f"({condition}));"
        + "if (i < 0) return null; const s = run.segments[i];"
        + "return [i, ...pipeloom.timeline.pixel((s[6] + s[7]) / 2, s[0])];"
    )
    found = browser.execute_script(script)
    assert found is not None, condition
    return int(found[0]), float(found[1]), float(found[2])


class Mouse:
    """The mouse at pixels of an element, wherever on the screen that is."""

    def __init__(self, browser: webdriver.Chrome, element: str) -> None:
        box = browser.execute_script(
            f"const b = document.getElementById('{element}').getBoundingClientRect();"
            "return [b.left, b.top]"
        )
        self._left, self._top = float(box[0]), float(box[1])
        self._builder = ActionBuilder(browser, duration=50)
        self._pointer: Any = self._builder.pointer_action

    def move(self, x: float, y: float) -> Mouse:
        self._pointer.move_to_location(round(self._left + x), round(self._top + y))
        return self

    def press(self) -> Mouse:
        self._pointer.pointer_down()
        return self

    def release(self) -> Mouse:
        self._pointer.pointer_up()
        return self

    def perform(self) -> None:
        self._builder.perform()
