"""Many documents in the library view: folders, columns, tags and deletion of several at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import truespan
from tests.page.library import Served, served
from tests.page.visit import Visit, Visits

FILES = {
    "staff/leave.md": "# Leave\n\nThirty days a year.",
    "staff/rules/travel.md": "# Travel\n\nTrains are booked in second class.",
    "machines/printer.md": "# Printer\n\nIts paper is beside the lift.",
}


@pytest.fixture
def office(browser: Browser, tmp_path: Path) -> Iterator[Served]:
    """A library with documents in folders."""
    for name, text in FILES.items():
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(text, "utf-8")
    with truespan.open(tmp_path / "library", create=True) as library:
        library.create_world("office").ingest(tmp_path / "docs")
    with served(tmp_path / "library") as running:
        yield running


def enter(visits: Visits, office: Served, width: int = 1440) -> Visit:
    visit = visits(f"{office.address}#view=library", viewport={"width": width, "height": 900})
    expect(visit.find("#shelf tbody tr")).to_have_count(3)
    return visit


def test_folders_choose_documents(visits: Visits, office: Served) -> None:
    visit = enter(visits, office)
    rows = visit.find("#shelf tbody tr")
    folders = visit.find("#facets .folder")
    assert folders.all_inner_texts() == ["machines\n1", "staff\n2"]

    folders.filter(has_text="staff").click()
    expect(rows).to_have_count(2)
    visit.find(".folder").filter(has_text="rules").click()
    expect(rows).to_have_count(1)
    visit.page.reload()
    expect(visit.find("#shelf tbody th")).to_contain_text("Travel")
    visit.find("#chosen-filters button").click()
    expect(rows).to_have_count(3)


def test_columns_with_one_value_are_hidden(visits: Visits, office: Served) -> None:
    visit = enter(visits, office)
    heads = visit.find("#shelf thead th")
    assert [text for text in heads.all_inner_texts() if text] == [
        "Document", "Characters", "Passages", "Actions",
    ]  # fmt: skip
    narrow = enter(visits, office, width=880)
    expect(narrow.find("#shelf thead")).to_be_hidden()


def test_several_documents_are_tagged_and_deleted(visits: Visits, office: Served):
    visit = enter(visits, office)
    rows = visit.find("#shelf tbody tr")
    for title in ("Leave", "Travel"):
        rows.filter(has_text=title).get_by_role("checkbox").check()
    expect(visit.find("#bulk")).to_contain_text("2 documents selected")
    visit.find("#bulk-tag").click()
    visit.find("#bulk-tags").fill("people, rules")
    visit.find("#confirm-tags").click()
    expect(rows.filter(has_text="Leave").locator(".chip")).to_have_text(["people", "rules"])
    expect(rows.filter(has_text="Printer").locator(".chip")).to_have_count(0)
    expect(visit.find("#bulk")).to_be_hidden()

    visit.find("#select-all").check()
    rows.filter(has_text="Travel").get_by_role("checkbox").uncheck()
    expect(visit.find("#select-all")).to_have_js_property("indeterminate", True)
    visit.find("#bulk-delete").click()
    expect(visit.find(".bulk-names li")).to_have_count(2)
    visit.find("#confirm-bulk-delete").click()

    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Travel")
    with truespan.open(office.library) as library:
        assert [one.name for one in library.world("office").documents.list()] == ["travel.md"]
