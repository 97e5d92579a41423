"""Form and safety of the page: size, contrast, keyboard, touch, and no foreign content."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.library import QUESTION, Served
from tests.page.visit import Visit, Visits
from truespan.extensions.server.http.pages import page_files

PHONE: dict[str, Any] = {
    "viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True,
    "device_scale_factor": 2,
}  # fmt: skip
CONTRAST = """() => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const channels = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map((c) => c / 255)
            .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const ground = (element) => {
        for (let one = element; one; one = one.parentElement) {
            const found = channels(getComputedStyle(one).backgroundColor);
            if (found[3] === 1) return found;
        }
        return [255, 255, 255, 1];
    };
    const poor = [];
    for (const element of document.querySelectorAll('body *')) {
        const said = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        const box = element.getBoundingClientRect();
        if (!said || !element.checkVisibility({opacityProperty: true}) || box.width < 2) continue;
        if (element.closest('.unread, svg, [disabled], option, noscript')) continue;
        const colours = [channels(getComputedStyle(element).color), ground(element)];
        const [fore, back] = colours.map(light);
        const ratio = (Math.max(fore, back) + 0.05) / (Math.min(fore, back) + 0.05);
        if (ratio < 4.5) poor.push(`${element.className || element.tagName} ${ratio.toFixed(2)}`);
    }
    return poor;
}"""
SMALL = """() => [...document.querySelectorAll('.views a, button, select, summary, .seg, input')]
    .filter((one) => one.checkVisibility() && !one.closest('.sr'))
    .filter((one) => !one.matches('.check input, .seg input, .cite'))
    .map((one) => [one.id || one.className || one.textContent, one.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0 && (box.height < 43.5 || box.width < 43.5))
    .map(([name, box]) => `${name} ${box.width}x${box.height}`)"""

WIDE = """() => [document.documentElement,
        ...document.querySelectorAll('header, .view, .pane, .position')]
    .filter((one) => one.scrollWidth > Math.min(360, one.clientWidth))
    .map((one) => `${one.className || one.tagName} ${one.scrollWidth}`)"""
"""Elements that are wider than the phone or than their box."""


TINY = """() => [...document.querySelectorAll('a, button, input, select, summary, textarea')]
    .filter((one) => one.checkVisibility({visibilityProperty: true}) && !one.closest('.sr, .skip'))
    .map((one) => [one.id || one.className || one.textContent, one.closest('label') || one])
    .map(([name, one]) => [name, one.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0 && (box.height < 23.5 || box.width < 23.5))
    .map(([name, box]) => `${name} ${box.width}x${box.height}`)"""
"""Controls that are smaller than 24 pixels."""


def test_page_files_stay_under_570_kilobytes() -> None:
    assert sum(map(len, page_files().values())) < 570_000


def test_page_files_use_no_markup_and_no_other_host() -> None:
    for name, content in page_files().items():
        text = content.decode()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text), (
            name
        )
        hosts = set(re.findall(r"https?://[^\s'\"`)]+", text))
        assert hosts <= {"http://www.w3.org/2000/svg"}, name
    markup = page_files()["index.html"].decode()
    assert not re.search(r"\sstyle=|<style|\son\w+=|<script(?![^>]*\ssrc=)", markup)


def test_page_respects_its_security_policy(visit: Visit) -> None:
    visit.ask(QUESTION)
    (page,) = [reply for reply in visit.responses if reply.url == visit.address]
    policy = page.header_value("content-security-policy") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    # The browser reports violations, and every visit ends with a check for reports.
    assert visit.complaints == []


def everything(visit: Visit, reader: str) -> list[str]:
    """Visit every view, and return text with low contrast."""
    poor: list[str] = visit.page.evaluate(CONTRAST)
    visit.open("The Copper Heron")
    visit.ask(QUESTION)
    visit.find("#options summary").click()
    poor += visit.page.evaluate(CONTRAST)
    visit.find("#go-answer").click()
    expect(visit.find(".answer[aria-busy=false]")).to_be_visible()
    poor += visit.page.evaluate(CONTRAST)
    visit.find("#tab-why").click()
    poor += visit.page.evaluate(CONTRAST)
    visit.find("#tab-context").click()
    visit.as_reader(reader)
    visit.read_to(11)
    expect(visit.find("#withheld .card").first).to_be_visible()
    visit.settled()
    poor += visit.page.evaluate(CONTRAST)
    visit.find("#open-keys").click()
    poor += visit.page.evaluate(CONTRAST)
    return poor


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_in_both_schemes(
    visits: Visits, harbour: Served, scheme: str
) -> None:
    visit = visits(
        harbour.address,
        viewport={"width": 1440, "height": 900},
        color_scheme=scheme,
        reduced_motion="reduce",
    )
    assert everything(visit, scheme) == []
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    darkness = sum(map(int, re.findall(r"\d+", ground)[:3])) < 200
    assert darkness is (scheme == "dark")


def test_scheme_can_be_chosen_against_the_system_setting(visit: Visit) -> None:
    visit.find("#open-settings").click()
    visit.find("#theme").select_option("dark")
    visit.find("#settings-form button").last.click()
    visit.page.reload()
    # The theme is set once the texts are loaded.
    expect(visit.find("html")).to_have_attribute("data-theme", "dark")
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", ground)[:3])) < 200


def test_phone_needs_no_sideways_scrolling(visits: Visits, harbour: Served) -> None:
    visit = visits(harbour.address, **PHONE)

    def fits() -> None:
        assert visit.page.evaluate(WIDE) == []
        assert visit.page.evaluate(SMALL) == []

    fits()
    visit.find("[data-to-pane=documents]").click()
    fits()
    visit.find("button.document").filter(has_text="The Copper Heron").click()
    expect(visit.find("#s0")).to_be_visible()
    fits()
    visit.find("[data-to-pane=ask]").click()
    visit.ask(QUESTION)
    fits()
    visit.find("#tab-why").click()
    fits()
    visit.find("label.seg").filter(has_text="As a reader").click()
    expect(visit.find("#slider")).to_be_visible()
    fits()
    visit.find("[data-to-pane=reading]").click()
    expect(visit.find("#position-number")).to_be_visible()
    fits()


def test_every_control_is_large_enough_to_touch(visit: Visit) -> None:
    found: list[str] = []
    for view in ("library", "tune", "evaluate", "ask"):
        visit.find(f"[data-to={view}]").click()
        expect(visit.find(f"#view-{view}")).to_be_visible()
        if view == "library":
            expect(visit.find("#shelf tbody tr").first).to_be_visible()
        found += visit.page.evaluate(TINY)
    visit.find("#question").fill(QUESTION)
    visit.find("#go-answer").click()
    expect(visit.find(".answer[aria-busy=false] .cite").first).to_be_visible()
    found += visit.page.evaluate(TINY)
    for tab in ("context", "why"):
        visit.find(f"#tab-{tab}").click()
        found += visit.page.evaluate(TINY)

    assert found == []


def test_page_can_be_used_by_keyboard_alone(visit: Visit) -> None:
    keys = visit.page.keyboard
    expect(visit.find("#s0")).to_be_attached()

    keys.press("/")
    keys.type(QUESTION)
    keys.press("Control+Enter")
    visit.settled()
    reached = tabbed_to(visit, "[data-show]")
    keys.press("Enter")
    expect(visit.find("#text .s.lit").first).to_be_in_viewport()
    assert reached

    assert tabbed_to(visit, "#text")
    keys.press("ArrowDown")
    keys.press("Shift+ArrowDown")
    expect(visit.find("#ask-selection")).to_be_visible()
    keys.press("a")
    expect(visit.find("#selection")).to_be_visible()
    visit.settled()

    visit.find("#tab-context").focus()
    keys.press("ArrowRight")
    expect(visit.find("#tab-answer")).to_be_focused()
    expect(visit.find("#panel-answer")).to_be_visible()
    keys.press("?")
    expect(visit.find("#keys")).to_be_visible()
    keys.press("Escape")
    expect(visit.find("#keys")).to_be_hidden()


def tabbed_to(visit: Visit, selector: str) -> bool:
    """Press Tab until an element has the focus, and return whether the focus is visible."""
    for _ in range(80):
        visit.page.keyboard.press("Tab")
        if visit.page.evaluate("s => document.activeElement.matches(s)", selector):
            style = "getComputedStyle(document.activeElement).outlineStyle"
            return visit.page.evaluate(style) != "none"
    return False


def test_every_control_has_a_name_and_the_page_has_landmarks(visit: Visit) -> None:
    visit.open("The Copper Heron")
    visit.ask(QUESTION)
    nameless = visit.page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, textarea')]
            .filter((one) => one.checkVisibility())
            .filter((one) => !(one.getAttribute('aria-label') || one.textContent.trim()
                || one.labels?.length || one.getAttribute('title')))
            .map((one) => one.outerHTML)"""
    )

    assert nameless == []
    for landmark in ("main", "banner", "navigation"):
        expect(visit.page.get_by_role(landmark).first).to_be_visible()
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("Truespan")
