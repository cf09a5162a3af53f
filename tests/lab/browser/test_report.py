"""The report in a real browser: move every slider and look at what happens.

Without chromium these tests are skipped, or fail if TORCHSETS_BROWSER is "required", as in CI.
"""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from torchsets.lab.figures import CursorLines, Frames, Line, MovingMatrix, MovingPoints, Slider
from torchsets.lab.records import Recorder, read_run
from torchsets.lab.reports import write_report

pytestmark = pytest.mark.browser
RESULTS = Path(__file__).parents[3] / "results"
RUNS = [  # that have sliders
    "count-toy/cpu",
    "dspn-polygons/auto-encode",
    "dspn-polygons/predict",
    "polygons/cpu",
    "sort-numbers/cpu",
]
LABELS = ["Inner step", "Noise q", "Rotation", "Side length l", "Step", "Step"]
MOVE = """
const [input, value] = arguments;
input.value = value;
input.dispatchEvent(new Event("input", { bubbles: true }));
"""
EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def find_program(name):
    path = shutil.which(name)
    if path is None:
        reason = f"{name} is missing: apt-get install chromium chromium-driver"
        required = os.environ.get("TORCHSETS_BROWSER") == "required"
        (pytest.fail if required else pytest.skip)(reason)
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = find_program("chromium")
    profile = tmp_path_factory.mktemp("profile")
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "localhost,127.0.0.1")  # the driver is on this machine
        driver = webdriver.Chrome(options=options, service=Service(find_program("chromedriver")))
        yield driver
        driver.quit()


@pytest.fixture(scope="module")
def address(browser, tmp_path_factory):
    """The report of all recorded runs with sliders, without what does not move."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    runs = [read_run(RESULTS / name) for name in RUNS]
    write_report([replace(run, figures=moving(run), metrics=[]) for run in runs], path)
    return path.as_uri()


def moving(run):
    return {
        name: recorded
        for name, recorded in run.figures.items()
        if isinstance(recorded.figure, Frames)
    }


@pytest.fixture
def page(browser, address):
    """The report, freshly opened; in the end nothing must have complained."""
    visit(browser, address)
    yield browser
    assert complaints(browser) == []


def visit(browser, address):
    """Open a page; an old one at the same address must not be taken for the new one."""
    browser.get("about:blank")
    browser.get_log("browser")  # the rest of it is the new page's
    browser.get(address)
    WebDriverWait(browser, 30).until(
        lambda browser: browser.execute_script(
            "return document.readyState === 'complete' && location.href !== 'about:blank'"
        )
    )


def complaints(browser):
    """What the console says since the page was opened; not about the browser's own pages."""
    messages = [entry["message"] for entry in browser.get_log("browser")]
    return [message for message in messages if not message.startswith("chrome://")]


def sliders(page):
    return page.find_elements(By.CSS_SELECTOR, ".frames input[type=range]")


def picture(page, slider):
    """The markup of all panels that belong to a slider."""
    return page.execute_script(
        "return [...arguments[0].closest('.frames').querySelectorAll('svg')]"
        ".map((svg) => svg.outerHTML).join()",
        slider,
    )


def said(page, slider):
    return page.execute_script(
        "return arguments[0].closest('.frames').querySelector('output').textContent", slider
    )


def emulate(page, *, width=1200, scheme="light"):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def lightness(page, selector, what):
    found = page.find_element(By.CSS_SELECTOR, selector).value_of_css_property(what)
    return sum(int(part) for part in re.findall(r"\d+", found)[:3]) / (3 * 255)


def test_each_moving_figure_has_a_named_slider(page):
    assert sorted(slider.accessible_name for slider in sliders(page)) == LABELS
    for slider in sliders(page):
        assert picture(page, slider).count("<svg") >= 2


@pytest.mark.parametrize("number", range(len(LABELS)))
def test_a_slider_changes_the_picture_and_changes_it_back(page, number):
    slider = sliders(page)[number]
    last = int(slider.get_attribute("max"))
    shown = []
    for value in (0, last // 2, last, 0):
        page.execute_script(MOVE, slider, value)
        shown.append((picture(page, slider), said(page, slider)))
    first, middle, end, again = shown
    assert len({first, middle, end}) == 3
    assert len({text for _, text in shown}) == 3
    assert again == first


@pytest.mark.parametrize("number", range(len(LABELS)))
def test_an_arrow_key_moves_on_by_one_frame(page, number):
    slider = sliders(page)[number]
    page.execute_script(MOVE, slider, 0)
    before = picture(page, slider)
    slider.send_keys(Keys.ARROW_RIGHT)
    assert slider.get_property("value") == "1"
    assert picture(page, slider) != before
    slider.send_keys(Keys.ARROW_LEFT)
    assert picture(page, slider) == before


def test_the_others_stay_when_one_slider_moves(page):
    first, *others = sliders(page)
    before = [picture(page, other) for other in others]
    page.execute_script(MOVE, first, 3)
    assert [picture(page, other) for other in others] == before


def test_play_runs_until_it_is_paused(page):
    slider = sliders(page)[0]
    play = page.find_element(By.CSS_SELECTOR, ".frames button")
    page.execute_script(MOVE, slider, slider.get_attribute("max"))
    end = picture(page, slider)
    # Both clicks in one call: a slow machine could play to the end between two. It begins again.
    clicked = "const [play] = arguments; play.click(); const text = play.textContent; play.click();"
    assert page.execute_script(f"{clicked} return [text, play.textContent]", play) == [
        "Pause",
        "Play",
    ]
    assert picture(page, slider) != end
    page.execute_script(MOVE, slider, int(slider.get_attribute("max")) - 1)
    play.click()  # and at the end it stops
    assert play.text == "Play"
    assert picture(page, slider) == end


def visit_frames(browser, folder, frames, text=""):
    """Open the report of a run with these figures."""
    recorder = Recorder.start(folder / "run", experiment="x", scale="cpu", config={"seed": 0})
    for name, figure in frames.items():
        recorder.add_figure(name, figure, title=text, caption=text, alt=text)
    write_report([read_run(folder / "run")], folder / "report.html")
    visit(browser, (folder / "report.html").as_uri())


def test_a_broken_figure_keeps_its_picture_and_the_others_move(browser, tmp_path):
    points = [[[0, 0]], [[0, 0], [1, 1]]]  # the second has no path: it was not there before
    panels = {
        "1-broken": MovingPoints(points, range=(0, 1), trail=True),
        "2-whole": CursorLines([Line([0, 1], [None, None])]),
    }
    frames = {
        name: Frames(Slider(name, [0, 1]), [panel], start=1) for name, panel in panels.items()
    }
    visit_frames(browser, tmp_path, frames)
    assert [slider.accessible_name for slider in sliders(browser)] == ["2-whole"]
    assert browser.find_element(By.CSS_SELECTOR, ".frames .wide svg").is_displayed()
    (complaint,) = complaints(browser)
    assert "TypeError" in complaint


def test_a_single_frame_has_no_slider(browser, tmp_path):
    panel = MovingPoints([[[0, 0]]], range=(0, 1))
    frames = {
        "one": Frames(Slider("step", [0]), [panel]),
        "two": Frames(Slider("step", [0, 1]), []),
    }
    visit_frames(browser, tmp_path, frames)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".frames")) == 2
    assert len(sliders(browser)) == 1
    assert browser.find_element(By.CSS_SELECTOR, ".frames circle").is_displayed()


@pytest.mark.parametrize("width", [360, 700, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_any_width_and_theme(page, width, scheme):
    emulate(page, width=width, scheme=scheme)
    assert page.execute_script("return innerWidth") == width
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    assert (lightness(page, "body", "background-color") > 0.5) is (scheme == "light")
    assert (lightness(page, ".frames .title", "color") < 0.5) is (scheme == "light")
    for slider in sliders(page):
        before = picture(page, slider)
        page.execute_script(MOVE, slider, slider.get_attribute("max"))
        assert picture(page, slider) != before
        assert slider.size["width"] >= 90


def test_texts_of_a_record_are_shown_and_not_run(browser, tmp_path):
    panel = MovingMatrix(
        [[[0.5]]], range=(0, 1), title=EVIL, rows=[EVIL], columns=[EVIL], x_label=EVIL
    )
    frames = Frames(Slider(EVIL, [0, 1], unit=EVIL), [panel], texts=[EVIL, EVIL])
    visit_frames(browser, tmp_path, {"evil": frames}, text=EVIL)
    assert browser.find_element(By.CSS_SELECTOR, ".frames .title").text == EVIL
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert complaints(browser) == []


def test_no_script_but_ours_may_run(browser, address):
    visit(browser, address)
    browser.execute_script(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'x = 1'}))"
    )
    assert browser.execute_script("return typeof x") == "undefined"
    assert "Content Security Policy" in complaints(browser)[0]


def test_without_scripts_there_are_still_pictures(browser, address):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(address)
        stills = browser.find_elements(By.CSS_SELECTOR, ".frames svg")
        assert len(stills) == len(LABELS)
        assert all(still.is_displayed() for still in stills)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
