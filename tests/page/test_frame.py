"""The frame of the page: its views, and addresses that restore them."""

import json
import re
from typing import Any

from playwright.sync_api import Request, expect

import truespan
from tests.page.library import QUESTION, Served
from tests.page.visit import Visit, Visits

PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True,
}  # fmt: skip
VIEWS = ("library", "tune", "evaluate")


def test_views_are_switched_by_links_and_by_back_and_forward(visit: Visit) -> None:
    for view in VIEWS:
        visit.find(f"[data-to={view}]").click()
        expect(visit.find(f"#view-{view}")).to_be_visible()
        focused = "compare" if view == "tune" else view
        expect(visit.find(f"#view-{focused}")).to_be_focused()
        expect(visit.find("main:visible")).to_have_count(1)
        expect(visit.find(f"[data-to={view}]")).to_have_attribute("aria-current", "page")
        shown = "tune" if view == "evaluate" else view
        expect(visit.find("#views [aria-current=page]")).to_have_attribute("data-to", shown)
        named = "compare" if view == "tune" else view
        expect(visit.page).to_have_url(re.compile(f"view={named}"))

    expect(visit.find("#view-compare")).to_be_hidden()
    visit.page.go_back()
    expect(visit.find("#view-compare")).to_be_visible()
    visit.page.go_back()
    visit.page.go_back()
    expect(visit.find("#view-ask")).to_be_visible()
    expect(visit.page).to_have_title("Truespan")
    visit.page.go_forward()
    expect(visit.find("#view-library")).to_be_visible()
    visit.page.reload()
    expect(visit.find("#view-library")).to_be_visible()
    visit.page.keyboard.press("/")
    expect(visit.find("#question")).to_be_focused()


def test_back_returns_to_the_previous_document(visit: Visit) -> None:
    visit.open("The Copper Heron")
    visit.open("mill.docx")
    visit.page.go_back()
    expect(visit.find("#reading-title")).to_have_text("The Copper Heron")
    visit.page.go_forward()
    expect(visit.find("#reading-title")).to_have_text("mill.docx")


def test_phone_shows_one_pane_at_a_time(visits: Visits, harbour: Served) -> None:
    visit = visits(harbour.address, **PHONE)
    expect(visit.find("#ask")).to_be_visible()

    visit.find("[data-to-pane=documents]").click()
    expect(visit.find("#documents-pane")).to_be_visible()
    expect(visit.find("#ask")).to_be_hidden()
    visit.find("button.document").filter(has_text="The Copper Heron").click()
    expect(visit.find("#text")).to_be_visible()
    visit.page.go_back()
    expect(visit.find("#documents-pane")).to_be_visible()
    visit.find("[data-to=tune]").click()
    visit.find("[data-to=evaluate]").click()
    expect(visit.find("#view-evaluate")).to_be_visible()
    expect(visit.find("#pane-switch")).to_be_hidden()


def test_phone_leaves_two_thirds_of_its_height_to_an_answer(visits: Visits, harbour: Served):
    visit = visits(harbour.address, **PHONE)
    visit.find("#question").fill(QUESTION)
    visit.find("#go-answer").click()
    expect(visit.find(".answer[aria-busy=false] .cite").first).to_be_visible()

    box = visit.find("#talk").bounding_box()
    assert box
    assert (PHONE["viewport"]["height"] - box["height"]) < 304
    # What the bar at the top has no room for is in the settings.
    visit.find("#open-settings").click()
    visit.find("#settings [data-press=open-keys]").click()
    expect(visit.find("#keys")).to_be_visible()


def test_every_text_of_the_markup_is_filled_in(visit: Visit) -> None:
    empty = visit.page.evaluate(
        """() => [...document.querySelectorAll('[data-text]')]
            .filter((one) => !one.textContent.trim()).map((one) => one.dataset.text)"""
    )
    assert empty == []


def test_question_options_and_reader_are_in_the_address(
    visits: Visits, harbour: Served, visit: Visit
) -> None:
    fields = {"top-k": "2", "source": "*.md", "metadata": "!team", "neighbours": "1"}
    visit.find("#options summary").click()
    for name, value in fields.items():
        visit.find(f"#{name}").fill(value)
    visit.find("#kinds").select_option("book")
    visit.ask(QUESTION)
    expect(visit.find("#options-count")).to_have_text("5")
    (sent,) = [json.loads(one.post_data or "") for one in visit.requests if asks(one)]
    wanted = {"kinds": ["book"], "source": "*.md", "neighbours": 1, "top_k": 2}
    assert wanted.items() <= sent.items()
    assert sent["metadata"] == {"team": {"exists": False}}

    shared = visits(visit.page.url)
    shared.settled()
    (again,) = [json.loads(one.post_data or "") for one in shared.requests if asks(one)]
    assert again == sent
    shared.find("#metadata").evaluate("e => { e.value = 'team>'; }")
    shared.find("#question").fill("Where is the heron?")
    shared.find("#go").click()
    expect(shared.find("#question-hint")).to_contain_text("year>=2020")

    visit.as_reader("sharer")
    link = visit.page.url
    assert "reader=sharer" in link
    other = visits(link)
    expect(other.find("#reader")).to_have_value("sharer")
    other.find("label.seg").filter(has_text="Whole world").click()
    expect(other.find("#reader")).to_be_hidden()
    other.page.go_back()
    expect(other.find("#reader")).to_have_value("sharer")


def asks(request: Request) -> bool:
    """Return whether a request retrieves context."""
    return request.method == "POST" and "/retrieve" in request.url


def test_known_readers_are_offered(visits: Visits, harbour: Served) -> None:
    with truespan.open(harbour.library) as opened:
        opened.world("harbour").reader("nora").set_position("heron.md", sentence=2)
    visit = visits(harbour.address, viewport={"width": 1440, "height": 900})
    expect(visit.find("#reader-names option[value=nora]")).to_be_attached()
