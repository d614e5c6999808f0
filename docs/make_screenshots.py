"""Take the pictures of docs/looking.md: ``python docs/make_screenshots.py`` (needs chromium)."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.actions.action_builder import ActionBuilder

from pipeloom.cli.main import main

IMAGES = Path(__file__).parent / "images"
SIZE = (1366, 860)
TO_RUN = "document.getElementById('run').scrollIntoView({ behavior: 'instant' });"
CHOOSE_MMA = """
const run = pipeloom.page.timeline;
const i = run.segments.findIndex((s) => s[0] === 0 && s[4] === 3 && s[2] === "mma (1,0)");
const entry = run.segments[i][1];
pipeloom.timeline.show(run.segments[i][5] - 900, run.segments[i][5] + 600);
pipeloom.select({ entry, op: pipeloom.page.entries[entry][4], segment: i });
"""
STALLED_READ = """
const run = pipeloom.page.timeline;
const [a, b] = pipeloom.timeline.visible();
const s = run.segments.find((s) => s[0] === 4 && s[6] > a + 1500 && s[3] === 1 && s[9] > 40);
const p = pipeloom.timeline.chart.convertToPixel({ gridIndex: 0 },
  [(s[6] + s[7]) / 2, pipeloom.timeline.laneOf(4)]);
const box = document.getElementById("timeline").getBoundingClientRect();
return [box.left + p[0], box.top + p[1]];
"""
TO_GRAPH = TO_RUN.replace("run", "dependences")
EXAMPLE = """
document.querySelector(".findings tr.entry").click();
document.getElementById("show-example").click();
"""


def open_browser(dark: bool, profile: str) -> webdriver.Chrome:
    """A headless browser of the size of a laptop's screen."""
    options = Options()
    options.binary_location = shutil.which("chromium") or "chromium"
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    for flag in (*flags, "--no-first-run", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False},
    )
    if dark:
        media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    return browser


def take(browser: webdriver.Chrome, page: Path, name: str, *scripts: str, hover: str = "") -> None:
    """One picture after running scripts, with the mouse where ``hover`` says."""
    browser.get(page.as_uri())
    time.sleep(1)
    for script in scripts:
        browser.execute_script(script)
        time.sleep(0.7)
    if hover:
        x, y = browser.execute_script(hover)
        actions = ActionBuilder(browser)
        actions.pointer_action.move_to_location(round(x), round(y))
        actions.perform()
        time.sleep(0.7)
    browser.save_screenshot(str(IMAGES / name))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        main(["report", "ping_pong", "-o", str(report)])
        light = open_browser(False, f"{folder}/light")
        take(light, report, "report-light.png", hover=STALLED_READ)
        take(light, report, "report-dependences.png", CHOOSE_MMA, TO_GRAPH)
        light.quit()
        dark = open_browser(True, f"{folder}/dark")
        take(dark, report, "report-zoomed-dark.png", CHOOSE_MMA, TO_RUN)
        take(dark, report, "report-counterexample-dark.png", EXAMPLE, TO_RUN)
        dark.quit()
