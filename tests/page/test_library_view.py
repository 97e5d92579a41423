"""The library view: documents in a table, uploads with a state per file, jobs, and one document."""

import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from playwright.sync_api import FilePayload, expect

import truespan
from tests.page.library import BOOK, PICTURES, SCRIPT, Served, manual, served
from tests.page.visit import Visit, Visits
from truespan.errors import Interrupted
from truespan.types.source import Upload

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
EMOJI = "👩🏽‍🚀 Überblick 🚀.txt"
LONG = "A report with a title that goes on and on, " * 12
NOTES = 55
QUAY = " ".join(f"Lamp {number} of the quay burned until morning." for number in range(120))


@pytest.fixture(scope="module")
def shelf(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A library with more documents than a page shows, of every kind."""
    folder = tmp_path_factory.mktemp("shelf")
    for name, value in PICTURES.items():
        os.environ[name] = value
    (folder / "quay.txt").write_text(QUAY, "utf-8")
    with truespan.open(folder / "library", create=True) as library:
        world = library.create_world("harbour")
        world.ingest([Upload("heron.md", BOOK.encode())], kind="book", tags=["novel"])
        world.ingest([Upload("mill.docx", manual())])
        world.ingest(
            str(folder / "quay.txt"), title=LONG.strip(), metadata={"team": "a", "year": 7}
        )
        world.ingest([Upload(EMOJI, "👩🏽‍🚀 The moon. 🚀 The earth.".encode())])
        notes = [Upload(f"note {n:02}.txt", f"Note {n}.".encode()) for n in range(NOTES)]
        world.ingest(notes, tags=["note"], metadata={"team": "b"})
        library.create_world("void")
    for name in PICTURES:
        del os.environ[name]
    with served(folder / "library") as running:
        yield running


def enter(visit: Visit, world: str = "harbour") -> None:
    """Open the library view of a world."""
    visit.find("#world").select_option(label=world)
    visit.find("#views a[data-to=library]").click()
    expect(visit.find("#view-library")).to_be_visible()


def find(visit: Visit, words: str, title: str) -> None:
    """Search, and wait until one document is left."""
    visit.find("#find-documents").fill(words)
    expect(visit.find("#shelf tbody tr")).to_have_count(1)
    expect(visit.find("#shelf tbody th a")).to_contain_text(title)


def titles(visit: Visit) -> list[str]:
    return visit.find("#shelf tbody th a").all_text_contents()


def test_documents_are_searched_sorted_filtered_and_paged(visits: Visits, shelf: Served) -> None:
    visit = visits(shelf.address, viewport=DESK)
    enter(visit)
    expect(visit.find("#shelf tbody tr")).to_have_count(50)
    expect(visit.find("#shelf-range")).to_have_text(f"1–50 of {NOTES + 4} documents")
    # The newest are first.
    expect(visit.find("#shelf tbody th a").first).to_have_text("note 54.txt")

    visit.find("#page-after").click()
    expect(visit.find("#shelf tbody tr")).to_have_count(NOTES + 4 - 50)
    expect(visit.find("#shelf")).to_contain_text(EMOJI)
    visit.page.go_back()
    expect(visit.find("#shelf tbody tr")).to_have_count(50)

    visit.find("#shelf th button").filter(has_text="Characters").click()
    expect(visit.find("#shelf tbody th a").first).to_contain_text("A report with a title")
    expect(visit.find("#shelf th[aria-sort=descending]")).to_contain_text("Characters")

    visit.find("#facets .check").filter(has_text="novel").click()
    expect(visit.find("#shelf tbody tr")).to_have_count(1)
    assert titles(visit) == ["The Copper Heron"]
    visit.find("#chosen-filters button").click()
    expect(visit.find("#shelf tbody tr")).to_have_count(50)
    team = visit.find("#facets .facet").filter(has=visit.page.locator("legend", has_text="team"))
    team.locator(".check", has_text="a").first.click()
    expect(visit.find("#shelf tbody tr")).to_have_count(1)
    visit.page.reload()
    expect(visit.find("#shelf tbody tr")).to_have_count(1)
    visit.find("#chosen-filters button").click()

    visit.find("#find-documents").fill("note 1")
    expect(visit.find("#shelf tbody tr")).to_have_count(15)
    visit.find("#find-documents").fill("no such thing")
    expect(visit.find("#no-documents")).to_contain_text("No document matches")
    visit.find("#no-documents button").click()
    expect(visit.find("#shelf tbody tr")).to_have_count(50)


def test_document_shows_passages_and_revision(visits: Visits, shelf: Served) -> None:
    visit = visits(shelf.address, viewport=DESK)
    enter(visit)
    find(visit, "a report with", "A report with")
    visit.find("#shelf tbody th a").click()
    expect(visit.find("#detail-title")).to_contain_text("A report with a title")
    expect(visit.find("#revision-facts")).to_contain_text("SHA-256 of the text")

    world = visit.page.evaluate("document.getElementById('world').value")
    address = f"{shelf.address}/v1/worlds/{world}/documents/3/chunks?limit=500".replace(
        "//v1", "/v1"
    )
    with urllib.request.urlopen(address) as reply:
        chunks = json.load(reply)["chunks"]
    expect(visit.find("#chunk-flow .chunk-mark")).to_have_count(len(chunks))
    drawn = visit.page.eval_on_selector_all(
        "#chunk-flow .seg", "all => all.map(one => [one.dataset.chunks, one.textContent])"
    )
    for chunk in chunks:
        own = str(chunk["index"])
        text = "".join(words for held, words in drawn if own in held.split())
        assert text == chunk["text"], "each passage is drawn from its start to its end"
    assert any(" " in held for held, _ in drawn), "what two passages share is drawn as shared"

    visit.find("#chunk-flow .chunk-mark").nth(1).click()
    expect(visit.find("#chunk-info")).to_contain_text(chunks[1]["chunk_id"])
    expect(visit.find("#chunk-info")).to_contain_text(chunks[1]["text_hash"])
    expect(visit.find("#chunk-info")).to_contain_text("with passage 0")

    visit.page.go_back()
    find(visit, "mill", "mill.docx")
    visit.find("#shelf tbody th a").click()
    expect(visit.find("#chunk-flow .figure img")).to_be_visible()

    visit.find("#read-document").click()
    expect(visit.find("#view-ask")).to_be_visible()
    expect(visit.find("#reading-title")).to_have_text("mill.docx")


def test_quarantined_and_damaged_passages_are_explained(visits: Visits, shelf: Served) -> None:
    visit = visits(shelf.address, viewport=DESK)

    def plant(route: object) -> None:
        reply = route.fetch()  # type: ignore[attr-defined]
        page = reply.json()
        first, second = page["chunks"][:2]
        first |= {"state": "quarantined", "reason": "too_long"}
        second |= {"intact": False, "text": None}
        route.fulfill(response=reply, json=page)  # type: ignore[attr-defined]

    visit.page.route("**/chunks?*", plant)
    enter(visit)
    find(visit, "a report with", "A report with")
    visit.find("#shelf tbody th a").click()

    visit.find("#chunk-flow .chunk-mark.bad-mark").first.click()
    expect(visit.find("#chunk-info")).to_contain_text("longer than the model reads")
    visit.find("#chunk-flow .chunk-mark.bad-mark").nth(1).click()
    expect(visit.find("#chunk-info")).to_contain_text("do not match their hash")
    expect(visit.find("#chunk-flow .missing")).to_contain_text("are not shown")


def test_labels_are_edited_and_a_refusal_is_explained(visits: Visits, shelf: Served):
    visit = visits(shelf.address, viewport=DESK)
    visit.failures_expected = True
    enter(visit)
    find(visit, "note 03", "note 03.txt")
    visit.find("#shelf .acts button").first.click()
    visit.find("#edit-tags").fill("note, 🧭 compass")
    visit.find("#edit-version").fill("2.5")
    visit.find("#add-key").click()
    visit.find(".metadata-key").last.fill("depth")
    visit.find(".metadata-value").last.fill("12")
    visit.find("#edit-url").fill("not a URL")
    visit.find("#save-labels").click()
    expect(visit.find("#labels [role=alert]")).to_contain_text("URL")
    visit.find("#edit-url").fill("https://example.org/3")
    visit.find("#save-labels").click()

    expect(visit.find("#labels")).to_have_count(0)
    expect(visit.find("#shelf tbody tr")).to_contain_text("🧭 compass")
    expect(visit.find("#shelf tbody tr")).to_contain_text("depth 12")
    expect(visit.find("#shelf tbody tr")).to_contain_text("2.5")
    assert SCRIPT not in visit.page.content()


def test_each_uploaded_file_has_its_state_and_the_total_is_correct(visits: Visits, shelf: Served):
    visit = visits(shelf.address, viewport=PHONE)
    enter(visit, "void")
    expect(visit.find("#no-documents")).to_contain_text("no documents yet")
    contents = [(f"paper {n}.txt", f"Paper {n}.".encode()) for n in range(30)]
    contents += [("broken.docx", b"this is no archive"), ("paper 1.txt", b"The same name again.")]
    files: list[FilePayload] = [
        {"name": name, "mimeType": "text/plain", "buffer": content} for name, content in contents
    ]
    visit.find("#files").set_input_files(files)

    upload = visit.find("#jobs .job").first
    expect(upload.locator(".job-label")).to_have_text("Done: 32 of 32 files (30 added, 2 failed)")
    expect(upload).to_have_attribute("data-state", "partly")
    upload.locator(".upload-list summary").click()
    expect(upload.locator("li[data-state=embedded]")).to_have_count(30)
    failed = upload.locator("li[data-state=failed]")
    expect(failed.filter(has_text="broken.docx")).to_contain_text("damaged")
    expect(failed.filter(has_text="paper 1.txt")).to_contain_text("same name")
    expect(visit.find("#shelf-range")).to_have_text("1–30 of 30 documents")
    upload.get_by_role("button", name="Hide").click()
    expect(upload).to_have_count(0)


def test_deletion_is_confirmed_and_has_a_receipt(visits: Visits, shelf: Served):
    visit = visits(shelf.address, viewport=PHONE)
    enter(visit)
    find(visit, "note 54", "note 54.txt")
    visit.find("#shelf tbody th a").click()
    visit.find("#delete-document").click()
    expect(visit.find("#removal")).to_contain_text("note 54.txt")
    visit.find("#removal").get_by_role("button", name="Cancel").click()
    expect(visit.find("#removal")).to_have_count(0)
    visit.find("#delete-document").click()
    visit.find("#confirm-delete").click()

    expect(visit.find("#receipt")).to_contain_text("Nothing of it is left")
    expect(visit.find("#receipt")).to_contain_text("Digest")
    with visit.page.expect_download() as saved:
        visit.find("#receipt").get_by_role("button", name="Save the receipt").click()
    receipt = json.loads(Path(saved.value.path()).read_text("utf-8"))
    assert (receipt["name"], receipt["erased"]) == ("note 54.txt", True)
    visit.find("#receipt").get_by_role("button", name="Close").click()
    expect(visit.find("#no-documents")).to_contain_text("No document matches")


def test_job_of_another_process_can_be_stopped_and_resumed(
    visits: Visits, shelf: Served, tmp_path: Path
) -> None:
    for number in range(3):
        (tmp_path / f"log {number}.txt").write_text(f"Entry {number} of the log.", "utf-8")
    visit = visits(shelf.address, viewport=DESK)
    enter(visit)
    begun, stopped = Event(), Event()

    def wait(_progress: object) -> None:
        begun.set()
        stopped.wait(60)

    def ingest() -> None:
        with truespan.open(shelf.library) as library, suppress(Interrupted):
            library.world("harbour").ingest(str(tmp_path), on_progress=wait)

    other = Thread(target=ingest)
    other.start()
    try:
        assert begun.wait(60)
        visit.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        job = visit.find("#job-list .job").first
        expect(job).to_have_attribute("data-state", "running")
        with visit.page.expect_response("**/cancel"):
            job.get_by_role("button", name="Stop").click()
    finally:
        stopped.set()
        other.join()

    expect(job).to_have_attribute("data-state", "cancelled")
    job.get_by_role("button", name="Resume").click()
    expect(job).to_have_attribute("data-state", "done")
    job.locator(".job-detail summary").first.click()
    expect(job.locator(".upload-files li")).to_have_count(3)
    find(visit, "log 2", "log 2.txt")


def test_server_file_can_be_read_again(visits: Visits, shelf: Served) -> None:
    visit = visits(shelf.address, viewport=DESK)
    enter(visit)
    find(visit, "a report with", "A report with")
    visit.find("#shelf tbody th a").click()
    visit.find("#read-again").click()

    latest = visit.find("#job-list .job").first
    expect(visit.find("#shelf")).to_be_visible()
    visit.find("#jobs-box").evaluate("box => { box.open = true; }")
    expect(latest).to_have_attribute("data-state", "done")
    latest.locator(".job-detail summary").first.click()
    expect(latest.locator(".upload-files li")).to_contain_text("unchanged")


def test_token_of_a_reader_sees_no_library_view(visits: Visits, shelf: Served):
    secret = shelf.token("--world", "harbour", "--reader", "ada")
    visit = visits(shelf.address, viewport=PHONE)
    visit.find("#open-settings").click()
    visit.find("#token").fill(secret)
    visit.find("#settings-form button").last.click()
    expect(visit.find("#mode-owner")).to_be_disabled()
    visit.forget()

    visit.find("#views a[data-to=library]").click()

    expect(visit.find("#library-hint")).to_contain_text("as a reader only")
    expect(visit.find("#intake")).to_be_hidden()
    assert visit.bodies("/documents") == []
    assert visit.bodies("/jobs") == []
