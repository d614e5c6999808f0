"""Take the pictures of docs/looking.md: ``python -m evidence.make_screenshots`` (needs chromium).

With PIPELOOM_PERFETTO_UI, the folder that tests/browser/test_perfetto_ui.py speaks of, also the
trace in Perfetto.
"""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from pipeloom.cli.main import main

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZE = (1366, 860)
TO_RUN = "document.getElementById('run').scrollIntoView({ behavior: 'instant' });"
CHOOSE_MMA = """
const run = pipeloom.page.timeline;
const i = run.segments.findIndex((s) => s[0] === 0 && s[4] === 3 && s[2] === "mma (1,0)");
const entry = run.segments[i][1];
pipeloom.timeline.show(run.segments[i][5] - 900, run.segments[i][5] + 600);
pipeloom.select({ entry, op: pipeloom.page.entries[entry][4], segment: i });
"""
OPEN_ASSEMBLY = "pipeloom.openTab('assembly');"
CHOOSE_LINE = """
pipeloom.openTab("assembly");
const { page, timeline } = pipeloom;
const i = page.timeline.segments.findIndex((s) => s[0] === 0 && s[4] === 3 && s[2] === "mma (0,1)");
const s = page.timeline.segments[i];
timeline.show(s[5] - 330, s[5] + 420);
const line = timeline.linesAt(i)[6];
pipeloom.select({ entry: s[1], op: page.entries[s[1]][4], segment: i, line });
"""
"""A line of the assembly of an emitted kernel, which knows its cycles."""
CHOOSE_STALLED = """
const run = pipeloom.page.timeline;
const [a] = pipeloom.timeline.visible();
const i = run.segments.findIndex((s) => s[0] === 4 && s[6] > a + 900 && s[3] === 1 && s[9] > 40);
const entry = run.segments[i][1];
pipeloom.select({ entry, op: pipeloom.page.entries[entry][4], segment: i });
"""
"""A read of LDS that had to wait."""
TO_GRAPH = TO_RUN.replace("run", "dependences")
UNFOLD_WAVE_0 = """
const space = app.trace.currentWorkspace ?? app.trace.workspace;
space.flatTracks.find((t) => t.name.startsWith("wave 0")).expand();
"""
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


def take(browser: webdriver.Chrome, page: Path, name: str, *scripts: str) -> None:
    """One picture after running scripts."""
    browser.get(page.as_uri())
    time.sleep(1)
    for script in scripts:
        browser.execute_script(script)
        time.sleep(0.7)
    browser.save_screenshot(str(IMAGES / name))


def take_perfetto(user_interface: str, folder: Path) -> None:
    """The trace of a short ping-pong in the Perfetto UI, served from this machine."""
    trace = folder / "trace.json"
    main(["trace", "ping_pong", "--k-tiles", "8", "-o", str(trace)])

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            return str(trace) if path == "/trace.json" else super().translate_path(path)

    serve = functools.partial(Handler, directory=user_interface)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        browser = open_browser(False, str(folder / "perfetto"))
        browser.get(f"{address}/#!/?url={address}/trace.json")
        while not browser.execute_script("return Boolean(window.app && app.trace)"):
            time.sleep(0.2)
        time.sleep(2)
        browser.execute_script(UNFOLD_WAVE_0)
        time.sleep(15)
        browser.save_screenshot(str(IMAGES / "perfetto.png"))
        browser.quit()
        server.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        main(["report", "ping_pong", "-o", str(report)])
        light = open_browser(False, f"{folder}/light")
        emitted = Path(folder) / "emitted.html"
        main(["report", "ping_pong", "--emitted", "-o", str(emitted)])
        take(light, report, "report-light.png", OPEN_ASSEMBLY, CHOOSE_STALLED)
        take(light, report, "report-dependences.png", CHOOSE_MMA, TO_GRAPH)
        light.quit()
        dark = open_browser(True, f"{folder}/dark")
        take(dark, emitted, "report-zoomed-dark.png", CHOOSE_LINE, TO_RUN)
        take(dark, report, "report-counterexample-dark.png", EXAMPLE, TO_RUN)
        dark.quit()
        if perfetto := os.environ.get("PIPELOOM_PERFETTO_UI"):
            take_perfetto(perfetto, Path(folder))
