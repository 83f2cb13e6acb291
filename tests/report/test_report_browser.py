"""The page in a real browser: nothing asked for, nothing run that a stranger wrote, read by eye, keyboard and ear.

Debian's Chromium with its driver, and axe-core; `make browser` brings them. Where they are not, these tests are
skipped, unless WALKBACK_BROWSER is "required", as it is in `make test`.
"""

import itertools
import json
import os
import shutil
from pathlib import Path

import pytest

from report_material import HOSTILE, demo_audit, write_many, write_runs
from test_report_page import hostile_audit
from walkback.audits import report_paths
from walkback.report.page import write_page

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "build/axe/package/axe.min.js"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
)  # fmt: skip
PAGES = ("audit", "strangers", "bare")
DESK, PHONE = (1280, 900), (390, 844)
# With every change: each page, and each screen with each scheme; all combinations by `make test-slow`.
OFTEN = (
    ("audit", DESK, "light"), ("audit", PHONE, "dark"), ("strangers", DESK, "dark"), ("bare", PHONE, "light"),
)  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A browser with a profile of its own."""
    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in found.items() if path is None] + ([] if AXE.exists() else [str(AXE)])
    if missing:
        why = f"{' and '.join(missing)} not found; `make browser` brings what these tests need"
        (pytest.fail if os.environ.get("WALKBACK_BROWSER") == "required" else pytest.skip)(why)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = found["chromium"]
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(found["chromedriver"]))
    browser.set_page_load_timeout(240)
    browser.set_script_timeout(240)
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """An audit with its runs and controls; strangers' words in every place; a judgement without its records."""
    folder = tmp_path_factory.mktemp("pages")
    runs = write_runs(folder / "runs", seeds=5, controls=True)
    audits = {
        "audit": report_paths(runs, source=["runs"]), "strangers": hostile_audit(folder / "strangers"),
        "bare": report_paths(demo_audit().parent),
    }  # fmt: skip
    return {name: write_page(one, folder / f"{name}.html") for name, one in audits.items()}


def show(driver, path, size=DESK, scheme="light", media="", script=True):
    """Open a page as it is seen on such a screen."""
    width, height = size
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not script})
    for log in ("performance", "browser"):
        driver.get_log(log)
    driver.get(path.as_uri())


def requests(driver) -> list[str]:
    listed = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [event["params"]["request"]["url"] for event in listed if event["method"] == "Network.requestWillBeSent"]


@pytest.mark.parametrize("name", PAGES)
def test_it_opens_without_an_error_and_asks_for_nothing(driver, pages, name):
    show(driver, pages[name])
    assert driver.get_log("browser") == []
    assert [url for url in requests(driver) if url != "data:,"] == [pages[name].as_uri()]
    assert driver.title.endswith("· walkback")


def test_strangers_words_run_nothing(driver, pages):
    from selenium.common.exceptions import NoAlertPresentException

    show(driver, pages["strangers"])
    with pytest.raises(NoAlertPresentException):
        driver.switch_to.alert.accept()
    count = "return document.querySelectorAll(arguments[0]).length"
    assert driver.execute_script(count, "img, iframe, object, embed, form, base") == 0
    assert driver.execute_script(count, "script") == 1
    assert driver.execute_script(count, "[onload], [onerror], [onmouseover], [style]") == 0
    names = driver.execute_script("return [...document.querySelectorAll('.heat bdi')].map((n) => n.textContent)")
    assert HOSTILE[0] in names
    assert HOSTILE[1] in names
    assert driver.execute_script("return getComputedStyle(document.querySelector('main')).display") == "block"


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("size", [(320, 640), (768, 1024), DESK], ids=lambda s: str(s[0]))
def test_nothing_but_wide_tables_scrolls_sideways(driver, pages, name, size):
    show(driver, pages[name], size)
    wide = driver.execute_script("return document.scrollingElement.scrollWidth")
    beyond = driver.execute_script(
        "return [...document.querySelectorAll('body *')].filter((n) => n.getBoundingClientRect().right > "
        "innerWidth + 1 && !n.closest('.scroll, svg, thead')).slice(0, 5).map((n) => n.outerHTML.slice(0, 200))"
    )
    assert wide <= size[0], beyond
    assert beyond == []
    reached = "return [...document.querySelectorAll('.scroll')].every((n) => n.tabIndex === 0 && n.ariaLabel)"
    assert driver.execute_script(reached)


def test_both_colour_schemes_are_drawn(driver, pages):
    paper = {}
    for scheme in ("light", "dark"):
        show(driver, pages["audit"], scheme=scheme)
        paper[scheme] = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        red = driver.execute_script("return getComputedStyle(document.querySelector('.c-b2182b .m')).fill")
        assert red == {"light": "rgb(178, 24, 43)", "dark": "rgb(245, 118, 127)"}[scheme]
    assert paper == {"light": "rgb(253, 253, 252)", "dark": "rgb(23, 24, 26)"}


@pytest.mark.parametrize(
    ("name", "size", "scheme"),
    [
        pytest.param(*case, marks=() if case in OFTEN else pytest.mark.slow)
        for case in itertools.product(PAGES, (DESK, PHONE), ("light", "dark"))
    ],
)
def test_axe_finds_nothing(driver, pages, name, size, scheme):
    """By every rule of WCAG A and AA that axe knows, and its best practices; with everything opened."""
    show(driver, pages[name], size, scheme)
    driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    driver.execute_script(AXE.read_text())
    found = driver.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then((r) => done(r.violations.map("
        "(v) => [v.impact, v.id, v.help, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200))])))"
    )
    assert found == []


def test_no_words_of_a_figure_overlap_or_are_cut_off(driver, pages):
    show(driver, pages["audit"])
    found = driver.execute_script("""
        for (const d of document.querySelectorAll("details")) d.open = true;
        const wrong = [];
        for (const svg of document.querySelectorAll("figure svg")) {
            const all = [...svg.querySelectorAll("text")].map((n) => [n.textContent, n.getBBox()]);
            for (const [words, a] of all) {
                if (a.x < 0 || a.x + a.width > svg.viewBox.baseVal.width) wrong.push([words, "is cut off"]);
                for (const [others, b] of all) {
                    const wide = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
                    const high = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
                    if (a !== b && wide > 0.5 && high > 3.5) wrong.push([words, others]);
                }
            }
        }
        return wrong;""")
    assert found == []


def test_it_can_be_read_without_a_script(driver, pages):
    show(driver, pages["audit"], script=False)
    from selenium.webdriver.common.by import By

    assert len(driver.find_elements(By.TAG_NAME, "h1")) == 1
    # One of each of seven checks and four curves, for three subjects; and on the first screen.
    assert len(driver.find_elements(By.CSS_SELECTOR, "figure svg")) == 3 * (7 + 4) + 2
    assert "walked back" in driver.find_element(By.CSS_SELECTOR, "table.claims").text
    assert driver.find_elements(By.CLASS_NAME, "tip") == []
    assert len(driver.find_elements(By.CSS_SELECTOR, "figure path > title")) > 50
    show(driver, pages["audit"])


def test_pointing_at_a_mark_shows_its_value_and_escape_hides_it(driver, pages):
    from selenium.webdriver import ActionChains, Keys
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    show(driver, pages["audit"])
    mark = driver.find_element(By.CSS_SELECTOR, "div.check figure .m")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    tip = driver.find_element(By.CLASS_NAME, "tip")

    def pointed(_):
        """The scroll may not be over when the pointer arrives: it comes again."""
        ActionChains(driver).move_to_element_with_offset(mark, 12, 12).move_to_element(mark).perform()
        return tip.is_displayed()

    WebDriverWait(driver, 20).until(pointed)
    assert tip.text.startswith(("seed ", "largest growth: "))
    ActionChains(driver).send_keys(Keys.ESCAPE).perform()
    assert not tip.is_displayed()


def test_the_keyboard_finds_the_way(driver, pages):
    from selenium.webdriver import ActionChains, Keys

    show(driver, pages["audit"])
    ActionChains(driver).send_keys(Keys.TAB).perform()
    focused = driver.switch_to.active_element
    assert focused.get_attribute("class") == "skip"
    assert focused.location["x"] >= 0
    ActionChains(driver).send_keys(Keys.ENTER).perform()
    assert driver.current_url.endswith("#main")


def test_on_paper_it_is_black_on_white_and_whole(driver, pages):
    show(driver, pages["audit"], scheme="dark", media="print")
    seen = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    assert driver.execute_script(seen, "nav", "display") == "none"
    assert driver.execute_script(seen, "body", "backgroundColor") == "rgb(255, 255, 255)"
    assert driver.execute_script(seen, ".body", "gridTemplateColumns").count("px") == 2
    hidden = "return [...document.querySelectorAll('details table')].filter((n) => !n.checkVisibility()).length"
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert driver.execute_script(hidden) == 0
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert len(driver.execute_script("return [...document.querySelectorAll('details[open]')]")) == 0
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    assert len(printed["data"]) > 50_000


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """More subjects than are read one by one."""
    folder = tmp_path_factory.mktemp("crowded")
    return write_page(report_paths(write_many(folder / "runs", subjects=16, seeds=2, epochs=4)), folder / "many.html")


def test_few_and_many_subjects_are_short_pages(driver, pages, crowded):
    height = "return document.documentElement.scrollHeight"
    show(driver, pages["audit"])
    assert driver.execute_script(height) <= 5600  # three subjects, seven checks each
    show(driver, crowded)
    assert driver.execute_script(height) <= 15_000


def test_many_subjects_are_found_by_name_and_verdict_and_sorted_by_a_column(driver, crowded):
    from selenium.webdriver.common.by import By

    show(driver, crowded)
    rows = (
        "return [...document.querySelectorAll('.heat tbody tr')].filter((n) => !n.hidden)"
        ".map((n) => n.cells[0].textContent.trim())"
    )
    names = driver.execute_script(rows)
    assert len(names) == len(set(names)) == 16
    driver.find_element(By.CSS_SELECTOR, ".finder input[type=search]").send_keys("dfa 0.001")
    found = driver.execute_script(rows)
    assert found == [name for name in names if "dfa" in name and "0.001" in name]
    assert 0 < len(found) < 16
    parts = "return [...document.querySelectorAll('details.subject')].filter((n) => !n.hidden).length"
    assert driver.execute_script(parts) == len(found)
    driver.find_element(By.CSS_SELECTOR, ".finder input[type=search]").clear()
    driver.execute_script("document.querySelector('.finder input').dispatchEvent(new Event('input'))")
    driver.find_element(By.CSS_SELECTOR, ".heat th:nth-child(10) .sort").click()
    growth = driver.execute_script(
        "return [...document.querySelectorAll('.heat tbody tr')].map((n) => Number(n.cells[9].dataset.value))"
    )
    assert growth == sorted(growth)
    assert len(set(growth)) > 5


def test_a_link_to_a_folded_subject_opens_it(driver, crowded):
    from selenium.webdriver.common.by import By

    show(driver, crowded)
    driver.find_element(By.CSS_SELECTOR, ".heat tbody a").click()
    place = driver.current_url.partition("#")[2]
    assert driver.execute_script(f"return document.getElementById('{place}').closest('details').open")
