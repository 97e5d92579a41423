"""Notes of a reader in the page: written about selected text, and seen up to the position."""

import pytest
from playwright.sync_api import expect

from tests.page.library import Served
from tests.page.visit import Visits

BOOK = "The Copper Heron"


@pytest.mark.parametrize("width", [1440, 1100, 390])
def test_note_about_selected_text_is_seen_up_to_the_position(
    visits: Visits, harbour: Served, width: int
) -> None:
    visit = visits(harbour.address, viewport={"width": 1440, "height": 900})
    visit.open(BOOK)
    expect(visit.find("#open-notes")).to_be_hidden()
    visit.as_reader(f"notes-{width}")
    visit.read_to(8)
    visit.page.set_viewport_size({"width": width, "height": 900})
    if width < 1020:
        visit.page.evaluate("document.body.dataset.pane = 'reading'")
    visit.find("#s4").evaluate("node => getSelection().selectAllChildren(node)")
    visit.find("#note-selection").click()
    visit.find("#note-text").fill("Why him <b>alone</b>?")
    visit.find("#add-note").click()

    expect(visit.find("#note-list li")).to_have_count(1)
    expect(visit.find("#note-list")).to_contain_text("Why him <b>alone</b>?")
    with visit.page.expect_download() as download:
        visit.find("#export-notes").click()
    assert "Why him" in download.value.path().read_text("utf-8")
    visit.find("#notes [data-close]").click()
    visit.page.set_viewport_size({"width": 1440, "height": 900})
    visit.preview(6)
    expect(visit.find("#open-notes")).to_be_hidden()
    visit.read_to(6)
    visit.find("#open-notes").click()
    expect(visit.find("#note-list")).to_contain_text("No notes up to here")
    visit.find("#notes [data-close]").click()
    visit.read_to(9)
    visit.find("#open-notes").click()
    visit.find("#note-list button").first.click()
    expect(visit.find("#s4.lit")).to_be_attached()
