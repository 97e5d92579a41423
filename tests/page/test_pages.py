"""Documents as displayed: pages beside or instead of the text, and those of a reader."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route, expect

import truespan
from tests.page.library import Served, served
from tests.page.visit import Visit, Visits
from tests.support.pdf_maker import Page, column, make_pdf

FIRST = ["The brass key of the boathouse hung on", "a nail. Old Marten oiled it every month.",
         "He let nobody else carry it."]  # fmt: skip
SECOND = ["It was the stationmaster Wrenfield who", "had taken the key. He confessed to all."]
HTML = "<h1>Tides</h1><p onclick=x()>The tide turns at <b>six</b>.</p><script>x()</script>"
SIZES = (1900, 1280, 390)


@pytest.fixture(scope="module")
def pier(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A library with a PDF file and a web page."""
    folder = tmp_path_factory.mktemp("pier")
    (folder / "heron.pdf").write_bytes(make_pdf([Page(column(FIRST)), Page(column(SECOND))]))
    (folder / "tides.html").write_text(HTML, "utf-8")
    with truespan.open(folder / "library", create=True) as library:
        world = library.create_world("pier")
        world.ingest(folder / "heron.pdf", kind="book", title="The Heron")
        world.ingest(folder / "tides.html", title="The Tides")
        world.reader("ada").set_position("heron.pdf", sentence=3)
    with served(folder / "library") as running:
        yield running


def enter(visits: Visits, pier: Served, title: str, width: int = 1280) -> Visit:
    visit = visits(pier.address, viewport={"width": width, "height": 900})
    visit.open(title)
    if width < 1020:
        visit.find("[data-pane-tab=reading], #to-reading").first.click()
    return visit


def test_page_of_another_document_does_not_stay_in_the_pane(visits: Visits, pier: Served) -> None:
    visit = enter(visits, pier, "The Heron")
    visit.find("#as-page").click()
    expect(visit.find(".leaf img")).to_be_visible()
    held: list[Route] = []
    visit.page.route("**/picture?*", lambda route: held.append(route))

    visit.find("button.document").filter(has_text="The Tides").click()
    expect(visit.find("#reading-title")).to_have_text("The Tides")
    expect(visit.find("#sheet-body")).to_have_text("…")
    expect(visit.find("#page-name")).to_be_empty()
    for route in held:
        route.continue_()
    expect(visit.find("#page-name")).to_have_text("Source")


@pytest.mark.parametrize("width", SIZES)
def test_page_shows_the_found_sentence(visits: Visits, pier: Served, width: int):
    visit = visits(f"{pier.address}#document=1", viewport={"width": width, "height": 900})
    visit.ask("Who had taken the key of the boathouse?")
    visit.find("#panel-context .card-foot [data-show]").first.click()
    visit.find("#as-page").click()

    expect(visit.find(".leaf img")).to_be_visible()
    expect(visit.find(".leaf .spot.best").first).to_be_in_viewport()
    expect(visit.find("#as-page")).to_have_attribute("aria-pressed", "true")
    text = visit.find("#text")
    expect(text).to_be_visible() if width > 1800 else expect(text).to_be_hidden()
    box, frame = visit.find(".leaf").bounding_box(), visit.find("#sheet").bounding_box()
    assert box
    assert frame
    assert box["x"] >= frame["x"]
    assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1
    visit.page.reload()
    expect(visit.find(".leaf img")).to_be_visible()
    visit.find("#as-page").click()
    expect(visit.find("#text")).to_be_visible()


def test_pages_can_be_turned_to_the_end(visits: Visits, pier: Served) -> None:
    visit = enter(visits, pier, "The Heron")
    visit.failures_expected = True
    visit.find("#as-page").click()
    expect(visit.find("#page-name")).to_have_text("Page 1")
    expect(visit.find("#page-back")).to_be_disabled()
    visit.find("#page-on").click()
    expect(visit.find("#page-name")).to_have_text("Page 2")
    visit.find("#page-on").click()
    expect(visit.find("#sheet-body")).to_contain_text("Page 3 cannot be shown")
    expect(visit.find("#page-on")).to_be_disabled()


def test_reader_sees_read_text_of_the_page(visits: Visits, pier: Served) -> None:
    visit = enter(visits, pier, "The Heron")
    visit.failures_expected = True
    visit.as_reader("ada")
    visit.find("#as-page").click()
    expect(visit.find("#page-name")).to_contain_text("Page 2, as far as it was read")
    visit.preview(1)
    expect(visit.find("#sheet-body")).to_contain_text("Page 2 cannot be shown")
    visit.find("#page-back").click()
    expect(visit.find("#page-name")).to_contain_text("Page 1, as far as it was read")
    sent = [json.loads(body) for body in visit.bodies("/picture") if '"image"' in body]
    assert max(mark["sid"] for reply in sent for mark in reply["sentences"]) == 3


def test_web_page_is_shown_without_scripts(visits: Visits, pier: Served) -> None:
    visit = enter(visits, pier, "The Tides")
    visit.find("#as-page").click()
    frame = visit.page.frame_locator("#sheet-body iframe")
    expect(frame.locator("b")).to_have_text("six")
    assert "onclick" not in visit.bodies("/picture")[-1]
    expect(visit.find("#page-name")).to_have_text("Source")
