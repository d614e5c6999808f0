"""Assembly, search, groups of the graph and keys on the report page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.judge.simulate import simulate
from pipeloom.order.in_order import in_order
from pipeloom.show.page import fill_page
from pipeloom.show.page_data import page_data
from tests.browser.driving import (
    NEEDS_BROWSER,
    NOW,
    Mouse,
    find_segment,
    logged,
    opened,
    timeline,
    wait_for,
)

pytestmark = NEEDS_BROWSER
IN_SIGHT = """
const box = document.getElementById("assembly").getBoundingClientRect();
const marked = document.querySelectorAll("#assembly .line.same, #assembly .line.chosen");
return [...marked].filter((row) => {
  const at = row.getBoundingClientRect();
  return at.top >= box.top && at.bottom <= box.bottom + 1;
}).map((row) => row.querySelector("span:nth-of-type(2)").textContent);
"""
"""Texts of marked lines of the assembly that can be seen."""
SELECTED = "return pipeloom.selection()"
LINES = "return pipeloom.page.assembly.lines"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a program with two loops of more steps than are drawn one by one.

    Its vector steps are told to be of one iteration, so that groups hold several steps.
    """
    loop, target = pl.kernels.attention(64, 64, 64), pl.target_for("gfx950")
    program = pl.pipeline(loop, target, 4, strategy=in_order)
    data = page_data(program, None, simulate(program, iterations=9))
    for op in data["ops"]:
        op[1] = "" if op[2] == "vector" else op[1]
    path = tmp_path_factory.mktemp("many") / "page.html"
    path.write_text(fill_page(data), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("emitted") / "page.html"
    command = ["report", "single_buffer", "--emitted", "--k-tiles", "8"]
    assert main([*command, "-o", str(path)]) == 0
    return path


@pytest.fixture
def page(browser: webdriver.Chrome, pages: dict[str, Path]) -> Iterator[webdriver.Chrome]:
    yield opened(browser, pages["ping_pong"])
    assert logged(browser) == []


def chosen_line(page: webdriver.Chrome) -> str:
    (line,) = page.find_elements(By.CSS_SELECTOR, "#assembly .line.chosen")
    return line.text


def click_line(page: webdriver.Chrome, line: int) -> None:
    page.execute_script("document.getElementById('assembly').scrollTop = arguments[0]", line * 18)
    wait_for(lambda: page.find_elements(By.ID, f"line-{line}"))
    Mouse(page, f"line-{line}").move(90, 9).press().release().perform()


def test_a_line_leads_to_its_step_its_declaration_and_its_time(page: webdriver.Chrome) -> None:
    page.find_element(By.ID, "tab-assembly").click()
    assert not page.find_element(By.ID, "schedule").is_displayed()
    lines = page.execute_script(LINES)
    entries = page.execute_script("return pipeloom.page.entries")
    at = next(
        n
        for n, (_, text, entry) in enumerate(lines)
        if text.startswith("v_mfma") and page_section(page, entries[entry][0]) == "loop"
    )
    click_line(page, at)
    number, text, entry = lines[at]
    selection = page.execute_script(SELECTED)
    assert (selection["line"], selection["entry"]) == (at, entry)
    segment = page.execute_script(
        "return pipeloom.page.timeline.segments[arguments[0]]", selection["segment"]
    )
    assert segment[1] == entry
    details = page.find_element(By.ID, "details").text
    assert text in details
    assert f"{number} of ping_pong_bf16_bf16" in details
    assert "C.next = matmul(A, B) + C" in details
    assert "issued" in details
    assert len(page.find_elements(By.CSS_SELECTOR, "#graph .op.chosen")) == 1
    assert text in chosen_line(page)


def page_section(page: webdriver.Chrome, number: int) -> str:
    return str(page.execute_script("return pipeloom.page.sections[arguments[0]][0]", number))


@pytest.mark.parametrize(
    ("wave", "kind", "name"), [(0, 0, "v_mfma"), (4, 0, "v_mfma"), (4, 1, "ds_read")]
)
def test_a_bar_leads_to_its_lines(page: webdriver.Chrome, wave: int, kind: int, name: str) -> None:
    page.find_element(By.ID, "tab-assembly").click()
    number, x, y = find_segment(page, f"s[0] === {wave} && s[3] === {kind} && s[7] - s[6] > 60")
    Mouse(page, "timeline").move(x, y).press().release().perform()
    wait_for(lambda: page.execute_script(SELECTED)["segment"] == number)
    seen = wait_for(lambda: page.execute_script(IN_SIGHT))
    assert any(text.startswith(name) for text in seen)
    first = page.execute_script("return document.querySelector('#assembly .line.same').id")
    group_1 = page.execute_script("return pipeloom.page.assembly.groups[1]")
    assert (int(first.removeprefix("line-")) >= group_1) == (wave >= 4), "the code of its group"


def test_lines_of_an_emitted_kernel_have_their_own_times(
    browser: webdriver.Chrome, emitted: Path
) -> None:
    page = opened(browser, emitted)
    page.find_element(By.ID, "tab-assembly").click()
    number, x, y = find_segment(page, "s[3] === 0 && s[13].length > 8 && s[7] - s[6] > 100")
    Mouse(page, "timeline").move(x, y).press().release().perform()
    selection = wait_for(lambda: page.execute_script(SELECTED))
    assert selection["segment"] == number
    begin, end = page.execute_script(
        "return pipeloom.timeline.timesOf(arguments[0], arguments[1])", number, selection["line"]
    )
    ready, free = page.execute_script(
        "const s = pipeloom.page.timeline.segments[arguments[0]]; return [s[5], s[7]]", number
    )
    assert ready <= begin < end <= free
    assert f"issued {begin:,} to {end:,}" in page.find_element(By.ID, "details").text
    page.find_element(By.ID, "assembly").send_keys(Keys.ARROW_DOWN)
    after = page.execute_script(SELECTED)
    assert after["line"] > selection["line"]
    assert after["segment"] >= 0
    page.find_element(By.ID, "assembly").send_keys(Keys.HOME)
    assert page.execute_script(SELECTED)["line"] <= 2
    assert "s_load" in page.find_element(By.ID, "details").text
    page.find_element(By.ID, "assembly").send_keys(Keys.END)
    assert "s_endpgm" in page.find_element(By.ID, "details").text
    assert logged(page) == []


def test_why_there_is_no_assembly(browser: webdriver.Chrome, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    assert main(["report", "single_buffer", "--k-tiles", "4", "-o", str(target)]) == 0
    page = opened(browser, target)
    page.find_element(By.ID, "tab-assembly").click()
    assert page.find_element(By.ID, "assembly").text.startswith("RACE")
    assert logged(page) == []


def found(page: webdriver.Chrome, words: str) -> list[str]:
    box = page.find_element(By.ID, "search")
    box.clear()
    box.send_keys(words)
    (hits,) = wait_for(
        lambda: ([hit.text for hit in page.find_elements(By.CSS_SELECTOR, "#found .hit")],)
    )
    return list(hits)


def test_search_finds_values_steps_instructions_and_labels(page: webdriver.Chrome) -> None:
    ActionChains(page).send_keys("/").perform()
    assert page.execute_script("return document.activeElement.id") == "search"
    kinds = {hit.split("\n")[0] for hit in found(page, "b")}
    assert kinds == {"value", "step", "instruction", "label"}
    assert found(page, "no such thing anywhere") == []
    hits = found(page, "frag a")
    assert [hit.split("\n")[1].startswith("frag A") for hit in hits[:4]] == [True] * 4
    hits = found(page, "frag A[1,0] loop")
    assert len(hits) == 1
    page.find_element(By.ID, "search").send_keys(Keys.ENTER)
    assert not page.find_element(By.ID, "found").is_displayed()
    row = page.find_element(By.CSS_SELECTOR, "#schedule tr.chosen")
    assert "frag A[1,0]" in (row.get_attribute("textContent") or "")
    hits = found(page, "s_barrier instruction")
    assert len(hits) > 5
    page.find_element(By.ID, "search").send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    assert "s_barrier" in chosen_line(page)
    assert page.find_element(By.ID, "assembly").is_displayed()
    first = page.execute_script(SELECTED)["line"]
    page.find_element(By.ID, "search").send_keys(Keys.ENTER)
    assert page.execute_script(SELECTED)["line"] > first, "Enter goes on to the next"
    assert found(page, "label group_1")
    page.find_element(By.CSS_SELECTOR, "#found .hit").click()
    assert "group_1" in chosen_line(page)
    found(page, "mma")
    page.find_element(By.ID, "search").send_keys(Keys.ESCAPE)
    assert page.find_element(By.ID, "search").get_attribute("value") == ""


def test_a_graph_of_many_steps_is_opened_on_demand(browser: webdriver.Chrome, many: Path) -> None:
    page = opened(browser, many)
    page.execute_script(f"document.getElementById('dependences').scrollIntoView({NOW})")

    def boxes(kind: str) -> int:
        return len(page.find_elements(By.CSS_SELECTOR, f"#graph .{kind}"))

    def press(name: str) -> None:
        buttons = page.find_elements(By.CSS_SELECTOR, "#graph-tools button")
        next(button for button in buttons if button.text == name).click()

    steps = page.execute_script("return pipeloom.page.ops.length")
    shown = page.execute_script("return document.querySelector('#graph svg').getBBox().width")
    assert boxes("op") + boxes("bunch") < 32 < steps
    assert shown < 1400
    press("Every step")
    every = boxes("op")
    assert boxes("bunch.open") > 3
    press("By value")
    assert boxes("bunch.open") == 0
    kept = page.execute_async_script(
        "const done = arguments[0];"
        "[...document.querySelectorAll('#graph-tools button')].at(-1).click();"
        "const box = document.querySelector('#graph .op');"
        "requestAnimationFrame(() => requestAnimationFrame(() => done(box.isConnected)))"
    )
    assert kept, "another height is not drawn a second time, under somebody's pointer"
    press("masked")
    press("Every step")
    assert every + boxes("op") == steps, "of both loops"
    press("By value")
    group = page.find_elements(By.CSS_SELECTOR, "#graph .bunch")[0]
    label = group.get_attribute("aria-label") or ""
    group.click()
    assert boxes("bunch.open") + boxes("op") > 0
    press("By value")
    again = page.find_element(By.CSS_SELECTOR, f"#graph [aria-label='{label}']")
    page.execute_script("arguments[0].focus()", again)
    ActionChains(page).send_keys(Keys.ENTER).perform()
    assert boxes("bunch.open") + boxes("op") > 0, "by keys too"
    op = page.execute_script(
        "const op = pipeloom.page.ops.findIndex((o) => o[2] === 'matrix');"
        "const entry = pipeloom.page.entries.findIndex((e) => e[4] === op);"
        "pipeloom.select({ entry, op, segment: -1 });"
        "return op"
    )
    chosen = page.find_elements(By.CSS_SELECTOR, "#graph .op.chosen")
    assert [shape.get_attribute("data-op") for shape in chosen] == [str(op)]
    pressed = page.find_elements(By.CSS_SELECTOR, "#graph-tools [aria-pressed='true']")
    assert pressed[0].text == "loop", "the loop of what is chosen"
    assert boxes("edge.needs") >= 1
    assert logged(page) == []


def test_keys_reach_everything(page: webdriver.Chrome) -> None:
    schedule = page.find_element(By.ID, "schedule")
    schedule.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert page.execute_script(SELECTED)["entry"] == 1
    schedule.send_keys(Keys.ARROW_UP)
    assert page.execute_script(SELECTED)["entry"] == 0
    page.find_element(By.ID, "tab-schedule").send_keys(Keys.ARROW_RIGHT)
    assert page.execute_script("return document.activeElement.id") == "tab-assembly"
    assert page.find_element(By.ID, "assembly").is_displayed()
    _, x, y = find_segment(page, "s[3] === 0 && s[0] === 0")
    Mouse(page, "timeline").move(x, y).press().release().perform()
    wave = "const s = pipeloom.page.timeline.segments; return s[pipeloom.selection().segment][0]"
    assert page.execute_script(wave) == 0
    first = page.execute_script(SELECTED)["segment"]
    timeline(page).send_keys(Keys.SHIFT, Keys.ARROW_RIGHT)
    assert page.execute_script(SELECTED)["segment"] == first + 1
    ActionChains(page).key_up(Keys.SHIFT).send_keys(Keys.ARROW_DOWN).perform()
    assert page.execute_script(wave) == 4, "the lane below"
    row = page.find_elements(By.CSS_SELECTOR, ".findings tr.entry")[2]
    row.send_keys(Keys.ENTER)
    assert "chosen" in (row.get_attribute("class") or "")
    op = page.find_element(By.CSS_SELECTOR, "#graph [data-op='5']")
    page.execute_script("arguments[0].focus()", op)
    ActionChains(page).send_keys(Keys.ENTER).perform()
    assert page.execute_script(SELECTED)["op"] == 5
    assert page.execute_script("return document.activeElement.dataset.op") == "5", "focus stays"
