"""The report page in a real browser: it loads from a file, offline, and answers to the mouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from pipeloom.cli.main import main
from pipeloom.judge.simulate import simulate
from pipeloom.judge.verify import verify
from pipeloom.show.page import fill_page
from pipeloom.show.page_data import page_data
from pipeloom.show.tuning_page import render_tuning
from tests.browser.driving import (
    NEEDS_BROWSER,
    NOW,
    SEGMENT,
    Mouse,
    find_segment,
    logged,
    opened,
    timeline,
    visible,
    wait_for,
)
from tests.unit.cli.test_kernel_files import written
from tests.unit.show.programs import producer_consumer, straight
from tests.unit.tuning.test_pages import TUNED

pytestmark = NEEDS_BROWSER
OUTSIDE = """
return [...document.querySelectorAll(".card table")].filter((table) => {
  const around = table.parentElement.closest("#stalls-body > div, #knobs-body > div, .card");
  const [outer, inner] = [around.getBoundingClientRect(), table.getBoundingClientRect()];
  return inner.width && (inner.right > outer.right + 1 || inner.left < outer.left - 1);
}).length
"""
"""Tables that stick out of their column or card, over what stands beside them."""
BROKEN = """
const range = document.createRange();
return [...document.querySelectorAll(".sideways td")].flatMap((cell) => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const broken = [];
  while (texts.nextNode()) {
    const text = texts.currentNode;
    for (const { 0: word, index } of text.data.matchAll(/\\w+/g)) {
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      if (range.getClientRects().length > 1) broken.push(word);
    }
  }
  return broken;
})
"""
"""Words in cells of tables that go over more than one line."""
PINS = "return pipeloom.timeline.pins().map((pin) => [pin.x, pin.y])"
WIDER = """
const window = document.documentElement.clientWidth;
return [...document.querySelectorAll("body *")].filter((node) => {
  const scrolled = node.closest("#graph svg");
  return !scrolled && node.getBoundingClientRect().right > window + 1;
}).map((node) => node.outerHTML.slice(0, 120))
"""
"""Elements that reach beyond the window; the graph alone may scroll within itself."""
CUT = """
const seen = (svg) => svg.getBoundingClientRect().width > 0;
return [...document.querySelectorAll(".roofline")].filter(seen)
  .flatMap((svg) => [...svg.querySelectorAll("text, circle, line, polyline")].filter((node) => {
    const [outer, inner] = [svg.getBoundingClientRect(), node.getBoundingClientRect()];
    const out = inner.left < outer.left - 1 || inner.right > outer.right + 1;
    return out || inner.right > document.documentElement.clientWidth;
  })).map((node) => node.outerHTML);
"""
"""Parts of a roofline in sight that are outside of its picture or of the window."""
BEGINS = """
const view = pipeloom.timeline.views;
const begins = (v) => v.run.marks[0][v.run.iterations - 1] + v.shift;
const below = (v, i) => v.area.y > view[i].area.y && v.area.x === view[0].area.x;
const stacked = view.slice(1).every(below);
return stacked && view.map((v) => begins(v) - begins(view[0]));
"""
"""Timelines stand one below the other over one axis: how far apart their last iterations begin."""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small kernels of others on one page."""
    for wheel in ("ziglang", "tinygrad"):
        pytest.importorskip(wheel)
    slow, fast, launch = written(tmp_path_factory.mktemp("kernels"))
    page = Path(slow).with_name("two.html")
    assert main(["compare", slow, fast, "--launch", launch, "-o", str(page)]) == 0
    return page


@pytest.fixture
def page(browser: webdriver.Chrome, pages: dict[str, Path]) -> webdriver.Chrome:
    """The ping-pong's page as it opens; loading it once and resetting it saves half the time."""
    if browser.current_url != pages["ping_pong"].as_uri():
        return opened(browser, pages["ping_pong"])
    browser.execute_script(
        "pipeloom.select({ entry: -1, op: -1, segment: -1 });"
        "const [, a, b] = pipeloom.timeline.ranges.find((r) => r[0] === '1 trip');"
        "pipeloom.timeline.show(a, b);"
        "document.activeElement.blur();"
        f"document.getElementById('run').scrollIntoView({NOW});"
    )
    return browser


def test_the_page_loads_offline_without_a_console_message(
    browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    page = opened(browser, pages["ping_pong"])
    assert page.title == "ping_pong, 256x256x64 bf16 - pipeloom report"
    assert page.find_element(By.ID, "title").text == "ping_pong, 256x256x64 bf16 on MI355X (gfx950)"
    assert logged(page) == []
    requested = [row["message"] for row in logged(page, "performance")]
    sent = [m for m in requested if "Network.requestWillBeSent" in m and '"url":"http' in m]
    assert sent == []
    assert len(page.find_elements(By.CSS_SELECTOR, "#timeline canvas")) == 1
    ops, edges = page.execute_script("return [pipeloom.page.ops, pipeloom.page.edges]")
    assert len(page.find_elements(By.CSS_SELECTOR, "#graph .op")) == len(ops)
    assert len(page.find_elements(By.CSS_SELECTOR, "#graph .edge")) == len(edges)


def test_every_section_is_filled_and_nothing_overflows(page: webdriver.Chrome) -> None:
    for part in ("figures", "schedule", "verdict-body", "stalls-body", "knobs-body", "details"):
        assert page.find_element(By.ID, part).text.strip(), part
    width, window = page.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert width <= window
    assert "TIMING" in page.find_element(By.ID, "verdict").text
    assert page.execute_script(OUTSIDE) == 0


def turn_wheel(browser: webdriver.Chrome, across: int, down: int) -> None:
    origin = ScrollOrigin.from_element(timeline(browser))
    ActionChains(browser, duration=50).scroll_from_origin(origin, across, down).perform()


def scrolled(browser: webdriver.Chrome) -> float:
    return float(browser.execute_script("return scrollY"))


def test_the_wheel_scrolls_the_page_until_the_timeline_is_clicked(page: webdriver.Chrome) -> None:
    before, place = visible(page), scrolled(page)
    turn_wheel(page, 0, 120)
    wait_for(lambda: scrolled(page) > place)
    assert visible(page) == before
    page.execute_script(f"document.getElementById('run').scrollIntoView({NOW})")
    Mouse(page, "timeline").move(400, 10).press().release().perform()
    place = scrolled(page)
    turn_wheel(page, 0, -240)
    closer = wait_for(lambda: visible(page) != before and visible(page))
    assert before[0] <= closer[0] < closer[1] <= before[1]
    assert scrolled(page) == place
    turn_wheel(page, 200, 0)
    moved = wait_for(lambda: visible(page) != closer and visible(page))
    assert moved[0] > closer[0]
    assert moved[1] - moved[0] == pytest.approx(closer[1] - closer[0])
    ActionChains(page).send_keys(Keys.ESCAPE).perform()
    turn_wheel(page, 0, 120)
    wait_for(lambda: scrolled(page) > place)
    assert visible(page) == moved
    page.execute_script(f"document.getElementById('run').scrollIntoView({NOW})")
    buttons = page.find_elements(By.CSS_SELECTOR, "#ranges button")
    next(b for b in buttons if b.text == "All").click()
    total = page.execute_script("return pipeloom.page.timeline.total")
    assert visible(page) == (0, total)


def test_the_wheel_with_ctrl_zooms_about_the_mouse(page: webdriver.Chrome) -> None:
    before, place = visible(page), scrolled(page)
    box = page.execute_script(
        "const b = document.querySelector('#timeline canvas').getBoundingClientRect();"
        "return [b.left, b.top]"
    )
    low, high = before
    x, y = page.execute_script(f"return pipeloom.timeline.pixel({(low + high * 3) / 4}, 0)")
    turn = {"type": "mouseWheel", "deltaX": 0, "deltaY": -240, "modifiers": 2}
    page.execute_cdp_cmd("Input.dispatchMouseEvent", {**turn, "x": box[0] + x, "y": box[1] + y})
    near = wait_for(lambda: visible(page) != before and visible(page))
    assert near[1] - near[0] == pytest.approx((high - low) / 2**0.5)
    assert (near[0] + near[1] * 3) / 4 == pytest.approx((low + high * 3) / 4, rel=0.001)
    assert scrolled(page) == place


def test_keys_move_and_zoom_the_focused_timeline(page: webdriver.Chrome) -> None:
    low, high = visible(page)
    timeline(page).send_keys(Keys.ARROW_LEFT)
    moved = visible(page)
    assert moved == pytest.approx((low - (high - low) / 10, high - (high - low) / 10))
    timeline(page).send_keys(Keys.ARROW_RIGHT)
    assert visible(page) == pytest.approx((low, high))
    timeline(page).send_keys("+")
    near = visible(page)
    assert near[1] - near[0] == pytest.approx((high - low) / 2)
    timeline(page).send_keys("-x")
    assert visible(page) == pytest.approx((low, high))


def test_the_range_stays_inside_the_run(page: webdriver.Chrome) -> None:
    total = page.execute_script("return pipeloom.page.timeline.total")
    page.execute_script("pipeloom.timeline.show(-500, 500)")
    assert visible(page) == (0, 1000)
    page.execute_script(f"pipeloom.timeline.show({total} - 10, {total} + 10)")
    assert visible(page) == (total - 60, total)
    page.execute_script("pipeloom.timeline.zoom(0.5)")
    assert visible(page) == (total - 60, total)
    page.execute_script("pipeloom.timeline.zoom(1e9)")
    assert visible(page) == (0, total)


def test_the_slider_moves_and_sizes_the_range(page: webdriver.Chrome) -> None:
    total = page.execute_script("return pipeloom.page.timeline.total")
    page.execute_script(f"pipeloom.timeline.show({total} * 0.4, {total} * 0.6)")
    width = page.find_element(By.CSS_SELECTOR, ".slider").size["width"]

    def drag(part: str, pixels: int) -> tuple[float, float]:
        page.execute_script("pipeloom.timeline.show(arguments[0] * 0.4, arguments[0] * 0.6)", total)
        handle = page.find_element(By.CSS_SELECTOR, part)
        ActionChains(page, duration=50).drag_and_drop_by_offset(handle, pixels, 0).perform()
        low, high = visible(page)
        return low / total, high / total

    by = 50 / width
    assert drag(".grip", -50) == pytest.approx((0.4 - by, 0.6), abs=0.01)
    assert drag(".grip.right", 50) == pytest.approx((0.4, 0.6 + by), abs=0.01)
    assert drag(".filler", 50) == pytest.approx((0.4 + by, 0.6 + by), abs=0.01)
    assert drag(".grip", 400) == pytest.approx((0.6, 0.6), abs=0.01)
    assert visible(page)[1] - visible(page)[0] == pytest.approx(60)
    track = Mouse(page, "timeline")
    bottom = timeline(page).size["height"] - 10
    left = page.execute_script("return pipeloom.timeline.pixel(pipeloom.timeline.visible()[0], 0)")
    track.move(left[0] + width * 0.2, bottom).press().release().perform()
    assert sum(visible(page)) / 2 / total == pytest.approx(0.2, abs=0.01)


def test_two_fingers_zoom(page: webdriver.Chrome) -> None:
    low, high = visible(page)
    box = page.execute_script(
        "const b = document.querySelector('#timeline canvas').getBoundingClientRect();"
        "return [b.left, b.top]"
    )

    def touch(kind: str, *places: float) -> None:
        points = [
            {"x": box[0] + place, "y": box[1] + 60, "id": finger}
            for finger, place in enumerate(places)
        ]
        page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 400, 500)
    try:
        for step in range(1, 6):
            touch("touchMove", 400 - 10 * step, 500 + 10 * step)
        half = pytest.approx((high - low) / 2, rel=0.02)
        near = wait_for(lambda: visible(page)[1] - visible(page)[0] == half and visible(page))
        touch("touchMove", 350)
        touch("touchMove", 390)
        assert wait_for(lambda: visible(page)[0] < near[0])
    finally:
        touch("touchEnd")
    assert page.execute_script("return pipeloom.selection().segment") == -1
    assert logged(page) == []


def test_the_zoom_buttons_halve_and_double(page: webdriver.Chrome) -> None:
    low, high = visible(page)
    page.find_element(By.CSS_SELECTOR, "#ranges button[title='Zoom in']").click()
    near = visible(page)
    assert near[1] - near[0] == pytest.approx((high - low) / 2, rel=0.02)
    page.find_element(By.CSS_SELECTOR, "#ranges button[title='Zoom out']").click()
    assert visible(page) == pytest.approx((low, high), rel=0.02)


def test_dragging_with_shift_measures(page: webdriver.Chrome) -> None:
    before = visible(page)
    box = timeline(page)
    drag = ActionChains(page).key_down(Keys.SHIFT).move_to_element_with_offset(box, -100, 0)
    drag.click_and_hold().move_by_offset(150, 0).release().key_up(Keys.SHIFT).perform()
    first, last = page.execute_script("return pipeloom.timeline.measured()")
    width = page.execute_script(
        "return pipeloom.timeline.pixel(arguments[1], 0)[0] - "
        "pipeloom.timeline.pixel(arguments[0], 0)[0]",
        first,
        last,
    )
    assert abs(width - 150) < 2
    assert visible(page) == before, "it measures and does not move"
    ActionChains(page).send_keys(Keys.ESCAPE).perform()
    assert page.execute_script("return pipeloom.timeline.measured()") is None


def test_the_tip_covers_no_wave(page: webdriver.Chrome) -> None:
    page.execute_script("document.getElementById('run').scrollIntoView({ block: 'start' })")
    _, x, y = find_segment(page, "s[0] === 1")
    Mouse(page, "timeline").move(x, y).perform()
    top, bottom, first, last = page.execute_script(
        "const tip = document.getElementById('tip').getBoundingClientRect();"
        "const at = document.querySelector('#timeline canvas').getBoundingClientRect().top;"
        "const run = pipeloom.page.timeline;"
        "const waves = run.waves.map((_, n) => at + pipeloom.timeline.pixel(0, n)[1]);"
        "return [tip.top, tip.bottom, Math.min(...waves) - 11, Math.max(...waves) + 11];"
    )
    assert bottom > top
    assert top >= last or bottom <= first


def test_two_kernels_on_one_page(browser: webdriver.Chrome, kernels: Path) -> None:
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        opened(browser, kernels)
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390
        assert browser.title == "slow.s vs fast.s - pipeloom report"
        mangled = "document.getElementById('title').textContent = 'Z'.repeat(90);"
        wide = mangled + "return document.documentElement.scrollWidth"
        assert browser.execute_script(wide) == 390
        table = browser.find_element(By.CSS_SELECTOR, "#variants table")
        rows = table.find_elements(By.CSS_SELECTOR, "tbody tr")
        cells = [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in rows]
        assert all(all(row) for row in cells), "no row is half empty"
        assert ["cycles", "40 per trip", "36 per trip"] in cells
        assert ["verdict", "PROVED", "PROVED"] in cells
        long = "for (const h of document.querySelectorAll('#variants th a'))"
        browser.execute_script(long + "h.textContent = 'ping_pong:emitted=true,tile=bf16'")
        assert browser.execute_script(BROKEN) == []
        assert table.size["width"] < 390, "both columns are on the screen"
        assert "registers live" in browser.execute_script("return pipeloom.timeline.lanes")
        assert browser.execute_script(BEGINS) == [0, 0]
        browser.execute_script("document.getElementById('align').click()")
        assert browser.execute_script("return pipeloom.timeline.views.map((v) => v.shift)") == [
            0,
            0,
        ]
        assert "slow.s" in browser.find_element(By.CSS_SELECTOR, "#variants th.shown").text
        link = browser.find_element(By.CSS_SELECTOR, "#variants th a")
        browser.execute_script("arguments[0].click()", link)
        shown = "return document.querySelector('#variants th.shown').textContent"
        wait_for(lambda: browser.execute_script(shown) == "fast.s")
        assert not [row for row in logged(browser) if row["level"] == "SEVERE"]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_dragging_moves_the_range(page: webdriver.Chrome) -> None:
    low, high = visible(page)
    size = timeline(page).size
    mouse = Mouse(page, "timeline").move(size["width"] * 0.6, 60).press()
    for step in range(1, 7):
        mouse.move(size["width"] * 0.6 + 20 * step, 60)
    mouse.release().perform()
    moved = wait_for(lambda: visible(page)[0] < low and visible(page))
    assert moved[1] - moved[0] == pytest.approx(high - low, rel=0.02)
    assert page.execute_script("return pipeloom.selection().segment") == -1, "no click"


def test_hovering_says_op_tile_cycles_and_cause(page: webdriver.Chrome) -> None:
    number, x, y = find_segment(page, "s[3] === 1 && s[9] > 40 && s[7] - s[6] > 60")
    Mouse(page, "timeline").move(x, y).perform()
    shown = page.find_element(By.ID, "tip")
    text = wait_for(lambda: shown.text)
    label, tile = page.execute_script(
        f"const s = pipeloom.page.timeline.segments[{number}]; return [s[2], s[12]]"
    )
    assert f"{label}, K tile {tile}" in text
    assert "issued" in text
    assert "LDS queue is full" in text
    inside = page.execute_script(
        "const b = document.getElementById('tip').getBoundingClientRect();"
        "return b.left >= 0 && b.top >= 0 && b.right <= innerWidth && b.bottom <= innerHeight"
    )
    assert inside
    Mouse(page, "timeline").move(-20, y).perform()
    wait_for(lambda: not shown.is_displayed())


@pytest.mark.parametrize(
    ("lane", "words"),
    [
        ("SIMD 0 MFMA", "cycles without a gap"),
        ("barriers", "last wave"),
        ("LDS in flight", "operations"),
        ("loads in flight", "KiB"),
        ("A copy 0 m 0:64", "K tile"),
    ],
)
def test_every_kind_of_lane_says_what_it_shows(
    lane: str, words: str, page: webdriver.Chrome
) -> None:
    shown = page.find_element(By.ID, "tip")
    low, _ = visible(page)
    names = page.execute_script("return pipeloom.timeline.lanes")
    x, y = page.execute_script(f"return pipeloom.timeline.pixel({low}, 0)")
    y += 22 * (names.index(lane) - names.index("wave 0")) - 6
    for step in range(4, 80):
        Mouse(page, "timeline").move(x + 10 * step, y).perform()
        if shown.is_displayed():
            break
    assert words in shown.text


def chosen_rows(page: webdriver.Chrome) -> list[tuple[str | None, str]]:
    """The entry and the text of each, read at once: a row may be drawn anew."""
    rows = page.find_elements(By.CSS_SELECTOR, "#schedule tr.chosen")
    return [(row.get_attribute("data-entry"), row.text) for row in rows]


def test_clicking_an_instruction_leads_to_its_entry_and_dependences(
    page: webdriver.Chrome,
) -> None:
    number, x, y = find_segment(page, "s[3] === 0 && s[0] === 0")
    Mouse(page, "timeline").move(x, y).press().release().perform()
    chosen = wait_for(lambda: chosen_rows(page))
    assert len(chosen) == 1
    entry, label = page.execute_script(
        f"const s = pipeloom.page.timeline.segments[{number}]; return [s[1], s[2]]"
    )
    assert chosen[0][0] == str(entry)
    assert label in chosen[0][1]
    in_sight = page.execute_script(
        "const box = document.getElementById('schedule').getBoundingClientRect();"
        "const row = document.querySelector('#schedule tr.chosen').getBoundingClientRect();"
        "return row.top >= box.top && row.bottom <= box.bottom"
    )
    assert in_sight
    details = page.find_element(By.ID, "details")
    assert "Depends on" in details.text
    assert "frag A" in details.text
    assert page.find_elements(By.CSS_SELECTOR, "#schedule tr.needs")
    links = details.find_elements(By.CSS_SELECTOR, "button.link")
    target = links[0].text.split(" (")[0].split(",")[0]
    links[0].click()
    now = wait_for(lambda: chosen_rows(page))
    assert target.split()[0] in now[0][1]


def test_clicking_a_wait_names_the_loads_it_is_for(page: webdriver.Chrome) -> None:
    page.execute_script(
        SEGMENT
        + "const i = run.segments.findIndex((s) => s[2].startsWith('lgkmcnt') && s[14].length);"
        "const e = run.segments[i][1];"
        "pipeloom.select({ entry: e, op: pipeloom.page.entries[e][4], segment: i });"
    )
    text = page.find_element(By.ID, "details").text
    assert "Waited for, in this run" in text
    assert "frag" in text


def test_clicking_a_schedule_row_selects_its_op(page: webdriver.Chrome) -> None:
    rows = page.find_elements(By.CSS_SELECTOR, "#schedule tr.entry")
    row = next(r for r in rows if "mma (0,1)" in (r.get_attribute("textContent") or ""))
    page.execute_script("arguments[0].click()", row)
    selection = page.execute_script("return pipeloom.selection()")
    assert selection["op"] >= 0
    assert str(selection["entry"]) == row.get_attribute("data-entry")
    ActionChains(page).send_keys("\ue00c").perform()
    assert page.execute_script("return pipeloom.selection().entry") == -1


def test_clicking_an_op_of_the_graph_selects_its_entry(page: webdriver.Chrome) -> None:
    page.execute_script(f"document.getElementById('graph').scrollIntoView({NOW})")
    op = page.find_element(By.CSS_SELECTOR, "#graph [data-op='3']")
    x, y = page.execute_script(
        "const [b, a] = [arguments[0], document.getElementById('graph')]"
        ".map((node) => node.getBoundingClientRect());"
        "return [b.left - a.left + b.width / 2, b.top - a.top + b.height / 2]",
        op,
    )
    Mouse(page, "graph").move(x, y).perform()
    tip = page.find_element(By.ID, "tip")
    assert "earliest start" in wait_for(lambda: tip.text)
    Mouse(page, "graph").move(x, y).press().release().perform()
    selection = page.execute_script("return pipeloom.selection()")
    assert selection["op"] == 3
    assert page.execute_script(f"return pipeloom.page.entries[{selection['entry']}][4]") == 3
    assert len(page.find_elements(By.CSS_SELECTOR, "#graph .op.chosen")) == 1
    assert page.find_elements(By.CSS_SELECTOR, "#graph .edge.needs")
    place = page.execute_script(
        "const path = document.querySelector('#graph .edge.needs path');"
        "const p = path.getPointAtLength(path.getTotalLength() / 2);"
        "return [p.x, p.y]"
    )
    Mouse(page, "graph").move(*place).perform()
    assert "must follow" in wait_for(lambda: tip.text)


def test_a_counterexample_is_told_and_marked_on_the_timeline(page: webdriver.Chrome) -> None:
    rows = page.find_elements(By.CSS_SELECTOR, ".findings tr.entry")
    assert len(rows) == 4
    page.execute_script("arguments[0].click()", rows[0])
    story = page.find_element(By.ID, "story").text
    waves = page.execute_script("return pipeloom.page.verdict.examples[0].waves")
    assert len(waves) == 2
    assert all(f"wave {wave}" in story for wave in waves)
    before = visible(page)
    page.execute_script("document.getElementById('show-example').click()")
    wait_for(lambda: visible(page) != before)
    low, high = visible(page)
    places = page.execute_script(
        "return pipeloom.page.verdict.examples[0].steps"
        ".map((s) => pipeloom.timeline.placeSegment(s[2])).filter((i) => i >= 0)"
        ".map((i) => pipeloom.page.timeline.segments[i].slice(5, 8))"
    )
    assert len(places) >= 2
    assert all(low <= ready and free <= high for ready, _, free in places)
    pins = wait_for(lambda: page.execute_script(PINS))
    assert len(pins) == len(places)
    for at, (x, y) in enumerate(pins):
        assert all(abs(x - left) >= 16 or abs(y - top) >= 16 for left, top in pins[:at])
    assert "Counterexample" in page.find_element(By.ID, "details").text
    assert logged(page) == []


def test_dark_is_dark_and_light_is_light(page: webdriver.Chrome) -> None:
    def brightness() -> float:
        text = page.execute_script("return getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in text.strip("rgb()").split(",")) / 3

    def pixel() -> Any:
        """The second lane's background: the canvas has its own copy of the colours."""
        return page.execute_script(
            "const [x, y] = pipeloom.timeline.pixel(pipeloom.timeline.visible()[0], 0);"
            "const canvas = document.querySelector('#timeline canvas').cloneNode();"
            "canvas.getContext('2d').drawImage(document.querySelector('#timeline canvas'), 0, 0);"
            "return [...canvas.getContext('2d').getImageData(x + 3, y + 12, 1, 1).data].slice(0, 3)"
        )

    assert brightness() > 200
    assert pixel() == [0xF2, 0xF4, 0xF7]
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        assert brightness() < 60
        wait_for(lambda: pixel() == [0x21, 0x29, 0x33])
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert logged(page) == []


@pytest.mark.parametrize("name", ["ping_pong", "single_buffer"])
def test_a_telephone_shows_everything(
    name: str, browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        page = opened(browser, pages[name])
        assert page.execute_script("return document.documentElement.clientWidth") == 390
        assert page.execute_script("return document.documentElement.scrollWidth") == 390
        assert page.execute_script(WIDER) == []
        assert page.execute_script(OUTSIDE) == 0
        assert logged(page) == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_tuned_shapes_on_a_telephone(browser: webdriver.Chrome, tmp_path: Path) -> None:
    target = tmp_path / "index.html"
    page = render_tuning("tuned", [TUNED], peak_tflops=2500.0, hbm_gb_per_s=8000.0)
    target.write_text(page, encoding="utf-8")
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        browser.get(target.as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390
        assert browser.execute_script(BROKEN) == []
        assert browser.execute_script(CUT) == [], "the roofline is whole"
        texts = browser.find_elements(By.CSS_SELECTOR, ".roofline.narrow text.title")
        assert {text.text for text in texts} == {"TFLOPS", "operations per byte of A, B and C"}
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_schedule_that_cannot_be_simulated_still_has_its_page(
    browser: webdriver.Chrome, pages: dict[str, Path]
) -> None:
    page = opened(browser, pages["single_buffer"])
    assert logged(page) == []
    assert "no tile shape" in page.find_element(By.ID, "run-note").text
    assert not timeline(page).is_displayed()
    assert "RACE" in page.find_element(By.ID, "verdict").text
    rows = page.find_elements(By.CSS_SELECTOR, "#schedule tr.entry")
    rows[0].click()
    assert "chosen" in (rows[0].get_attribute("class") or "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["ping_pong", "--k-tiles", "2"],
        ["four_wave", "--k-tiles", "6", "--timeline-iterations", "1", "--jitter", "0.5"],
        ["four_wave", "--k-tiles", "8", "--sync", "proven", "--reorder"],
    ],
    ids=["no iteration", "one iteration, jitter", "proved"],
)
def test_unusual_runs_have_a_page_too(
    arguments: list[str], browser: webdriver.Chrome, tmp_path: Path
) -> None:
    target = tmp_path / "page.html"
    assert main(["report", *arguments, "-o", str(target)]) == 0
    page = opened(browser, target)
    low, high = visible(page)
    assert 0 <= low < high
    buttons = page.find_elements(By.CSS_SELECTOR, "#ranges button")
    for button in buttons:
        button.click()
    assert logged(page) == []
    proved = page.find_element(By.ID, "verdict-body").text.startswith("PROVED")
    assert proved == ("proven" in arguments)
    assert (page.find_element(By.ID, "story").text == "") == proved


@pytest.mark.parametrize(
    ("arguments", "verdict", "subtitle"),
    [
        (["single_buffer"], "RACE", "trips of 1 K tile: "),
        (["gemm_tile"], "PROVED", " K tiles: "),
        (["ping_pong", "--set", "minimal_barriers=true"], "RACE", "trips of 2 K tiles: "),
        (["ping_pong", "--emitted"], "PROVED", "emitted kernel ping_pong_bf16_bf16"),
        (["four_wave", "--emitted"], "PROVED", "emitted kernel four_wave_fp8_f32"),
    ],
    ids=["single_buffer", "gemm_tile", "racing", "emitted ping_pong", "emitted four_wave"],
)
def test_the_first_screen_tells_the_story(
    arguments: list[str], verdict: str, subtitle: str, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    target = tmp_path / "page.html"
    assert main(["report", *arguments, "-o", str(target)]) == 0
    page = opened(browser, target)
    page.execute_script("scrollTo({ top: 0, behavior: 'instant' })")
    figures = page.find_elements(By.CSS_SELECTOR, "#figures .figure")
    names = [figure.find_element(By.TAG_NAME, "span").text for figure in figures]
    assert names[:2] == ["cycles per K tile", "matrix unit busy"]
    assert names[2] in ("limited by", "held up by")
    assert figures[names.index("verdict")].find_element(By.TAG_NAME, "b").text == verdict
    assert subtitle in page.find_element(By.ID, "subtitle").text
    top = page.execute_script(
        "return document.getElementById('timeline').getBoundingClientRect().top / innerHeight"
    )
    assert top < 0.5, "the timeline is in sight"
    assert page.execute_script(OUTSIDE) == 0
    assert logged(page) == []


def test_an_emitted_kernel_s_instructions_lead_to_the_schedule(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    target = tmp_path / "page.html"
    assert main(["report", "single_buffer", "--emitted", "-o", str(target)]) == 0
    page = opened(browser, target)
    _, x, y = find_segment(page, "s[2] === 'store A[0,0]'")
    Mouse(page, "timeline").move(x, y).press().release().perform()
    chosen = wait_for(lambda: page.find_elements(By.CSS_SELECTOR, "#schedule tr.chosen"))
    assert "store A" in chosen[0].text
    labels = page.execute_script("return pipeloom.page.timeline.segments.map((s) => s[2])")
    assert {"setup: addresses, accumulators", "loop counter and branch"} <= {*labels}
    assert any(label.startswith("store C") for label in labels)
    assert page.execute_script("return pipeloom.page.timeline.buffers.length") > 8
    assert logged(page) == []


def test_groups_with_different_work_are_told_apart(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    program, target = producer_consumer(), tmp_path / "page.html"
    trace = simulate(program, iterations=17)
    data = page_data(program, verify(program), trace)
    target.write_text(fill_page(data), encoding="utf-8")
    page = opened(browser, target)
    read = page.execute_script("return pipeloom.page.timeline.segments")
    assert read == data["timeline"]["segments"], "the page takes less space than its data"
    assert page.find_element(By.ID, "title").text == "two jobs, 64x64x32 bf16 on MI355X (gfx950)"
    heads = page.find_elements(By.CSS_SELECTOR, "#schedule tr.phase")
    titles = [head.get_attribute("textContent") for head in heads]
    assert titles[:2] == ["wave 0: fill, 4 steps", "wave 0: steady, 10 steps"]
    assert titles[4] == "waves 1-4: steady, 12 steps"
    _, x, y = find_segment(page, "s[2] === 'take A' && s[0] === 2")
    Mouse(page, "timeline").move(x, y).press().release().perform()
    details = page.find_element(By.ID, "details")
    wait_for(lambda: "of waves 1-4" in details.text)
    assert "fetch A" in details.text.split("Depends on")[1].split("Needed by")[0]
    needed = page.find_element(By.CSS_SELECTOR, "#schedule tr.needs")
    assert "fetch A" in (needed.get_attribute("textContent") or "")
    linked = page.execute_script(
        "const { segment } = pipeloom.selection(); const run = pipeloom.page.timeline;"
        "return pipeloom.timeline.dependences(segment).filter((d) => d[1] === 'needs')"
        ".map(([i]) => run.segments[i][0])"
    )
    assert 0 in linked, "the loads of another group"
    assert page.find_element(By.ID, "knobs-title").text == "Notes"
    assert "vector" in page.find_element(By.ID, "legend").text
    for button in page.find_elements(By.CSS_SELECTOR, "#ranges button"):
        button.click()
    assert page.execute_script(OUTSIDE) == 0
    assert logged(page) == []


def test_a_page_shows_only_what_is_known(browser: webdriver.Chrome, tmp_path: Path) -> None:
    program, target = straight(), tmp_path / "page.html"
    text = fill_page(page_data(program, None, simulate(program, iterations=1)))
    target.write_text(text, encoding="utf-8")
    page = opened(browser, target)
    for part in ("verdict", "knobs"):
        assert not page.find_element(By.ID, part).is_displayed()
        assert not page.find_element(By.CSS_SELECTOR, f"nav [href='#{part}']").is_displayed()
    assert page.find_elements(By.CSS_SELECTOR, "#graph .op")
    assert logged(page) == []
