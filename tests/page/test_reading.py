"""Asking as a reader: the slider, the boundary, and hidden text."""

import json
import re
from pathlib import Path

from playwright.sync_api import Route, expect

import truespan
from tests.page.library import BOUNDARY, LAST_READ, QUESTION, UNREAD, Served, served
from tests.page.visit import Visit, Visits
from truespan.types.source import Upload

BOOK = "The Copper Heron"


def reading(visit: Visit, name: str, sid: int) -> None:
    """Open the book as a reader at a position, with a question."""
    visit.open(BOOK)
    visit.as_reader(name)
    visit.read_to(sid)
    visit.ask(QUESTION)


def none_of(words: tuple[str, ...], texts: list[str]) -> None:
    assert texts
    for text in texts:
        assert [word for word in words if word in text] == []


def test_slider_back_removes_unread_text(visit: Visit) -> None:
    reading(visit, "back", 16)
    expect(visit.find("#given")).to_contain_text(UNREAD[0])
    visit.forget()
    visit.read_to(LAST_READ)
    expect(visit.find("#given")).not_to_contain_text(UNREAD[0])
    expect(visit.find("#withheld .card.ahead").first).to_be_visible()
    visit.settled()
    none_of(UNREAD, visit.bodies("/readers/"))


def recorded(visit: Visit, harbour: Served, name: str) -> int | None:
    world = visit.page.evaluate("new URLSearchParams(location.hash.slice(1)).get('world')")
    address = f"{harbour.address}v1/worlds/{world}/readers/{name}/position?book=heron.md"
    return visit.page.request.get(address).json().get("sid")


def test_slider_previews_saves_and_undoes(visit: Visit, harbour: Served) -> None:
    visit.open(BOOK)
    visit.as_reader("trying")
    expect(visit.find("#position-number")).to_have_value("")
    visit.preview(LAST_READ)
    visit.ask(QUESTION)
    expect(visit.find("#given .card").first).to_be_visible()
    expect(visit.find("#preview-badge")).to_be_visible()
    assert recorded(visit, harbour, "trying") is None
    none_of(UNREAD, visit.bodies("/readers/"))

    visit.read_to(4)
    expect(visit.find("#preview-badge")).to_be_hidden()
    visit.preview(16)
    expect(visit.find("#given")).to_contain_text(UNREAD[0])
    expect(visit.find("#s16 + #here")).to_have_text("You would be here")
    assert recorded(visit, harbour, "trying") == 4
    visit.find("#back-position").click()
    expect(visit.find("#given")).not_to_contain_text(UNREAD[0])
    expect(visit.find("#s4 + #here")).to_have_text("You are here")

    visit.read_to(LAST_READ)
    assert recorded(visit, harbour, "trying") == LAST_READ
    with visit.page.expect_response(lambda reply: reply.request.method == "PUT"):
        visit.find("#undo-position").click()
    expect(visit.find("#position-label")).to_contain_text("Sentence 4 of")
    expect(visit.find("#undo-position")).to_be_hidden()
    assert recorded(visit, harbour, "trying") == 4
    assert len([one for one in visit.requests if one.method == "PUT"]) == 3


def test_unread_text_is_removed_before_the_reply(visit: Visit) -> None:
    reading(visit, "at once", 16)
    expect(visit.find("#given")).to_contain_text(UNREAD[0])
    held: list[Route] = []
    visit.page.route("**/retrieve?sid=*", lambda route: held.append(route), times=1)

    with visit.page.expect_request("**/retrieve?sid=*"):
        visit.find("#slider").fill(str(LAST_READ))

    expect(visit.find("#given")).not_to_contain_text(UNREAD[0])
    expect(visit.find("#boundary")).to_contain_text(f"sentence {LAST_READ}")
    expect(visit.find(f"#s{LAST_READ} + #here")).to_be_visible()
    with visit.page.expect_response("**/retrieve?sid=*"):
        held[0].continue_()


def test_reader_replies_have_no_word_beyond_the_slider(visit: Visit) -> None:
    reading(visit, "near", 3)
    for sid in (LAST_READ, 7, -1, 10):
        visit.read_to(sid)
        expect(visit.find("#boundary")).to_contain_text(
            f"sentence {sid}" if sid >= 0 else "Nothing read yet"
        )
    visit.settled()
    visit.find("#go-answer").click()
    expect(visit.find(".answer[aria-busy=false]")).to_be_visible()

    none_of(UNREAD, visit.bodies("/readers/"))
    expect(visit.find("#panel-answer")).not_to_contain_text(UNREAD[0])


def test_boundary_sentence_is_named_and_marked_in_the_text(visit: Visit) -> None:
    reading(visit, "marked", LAST_READ)
    expect(visit.find("#boundary q")).to_contain_text(BOUNDARY)
    expect(visit.find(f"#s{LAST_READ} + #here")).to_have_text("You are here")
    expect(visit.find(f"#s{LAST_READ}")).not_to_have_class(re.compile("unread"))
    unread = visit.find(f"#s{LAST_READ + 1}")
    expect(unread).to_have_class(re.compile("unread"))
    expect(unread).to_have_attribute("aria-hidden", "true")
    assert "blur" in unread.evaluate("span => getComputedStyle(span).filter")
    visit.find("#veil").uncheck()
    assert unread.evaluate("span => getComputedStyle(span).filter") == "none"


def test_withheld_text_is_not_on_the_page_until_revealed(visit: Visit) -> None:
    reading(visit, "veiled", LAST_READ)
    ahead = visit.find("#withheld .card.ahead").first
    expect(ahead).to_contain_text("ahead")
    expect(visit.find("#panel-context")).not_to_contain_text(UNREAD[0])
    ahead.get_by_role("button").click()
    expect(ahead).to_contain_text(UNREAD[0])


def test_arrow_keys_move_slider_and_record_nothing(visit: Visit, harbour: Served) -> None:
    reading(visit, "steps", 2)
    visit.find("#slider").focus()
    for _ in range(5):
        visit.page.keyboard.press("ArrowRight")
    expect(visit.find("#slider")).to_have_attribute("aria-valuetext", re.compile("^Sentence 7 of"))
    expect(visit.find("#boundary")).to_contain_text("sentence 7")
    visit.page.wait_for_load_state("networkidle")
    assert recorded(visit, harbour, "steps") == 2


def test_unread_chapters_are_not_named(visit: Visit) -> None:
    visit.open(BOOK)
    every = visit.find("#outline option").all_text_contents()
    reading(visit, "named", LAST_READ)
    lists = ("#chapter option", "#outline option", "#position .chapter-tick title")

    for found in lists:
        named = [name for name in visit.find(found).all_text_contents() if name != "Any"]
        assert named == every[: len(named)]
        assert 1 < len(named) < len(every), found

    visit.read_to(16)
    for found in lists:
        assert set(every) <= set(visit.find(found).all_text_contents()), found


def test_slider_has_chapter_marks_and_buttons(visit: Visit) -> None:
    reading(visit, "chapters", 0)
    expect(visit.find("#position .chapter-tick")).to_have_count(4)
    visit.find("#position").get_by_role("button", name="Chapter ›").click()
    expect(visit.find("#position-label")).to_contain_text("Sentence 6 of")
    visit.find("#position").get_by_role("button", name="Chapter ›").click()
    expect(visit.find("#position-label")).to_contain_text(f"Sentence {LAST_READ} of")


def test_chapter_buttons_move_by_the_chapters_of_a_part(visits: Visits, tmp_path: Path) -> None:
    headings = (
        "# A\n\n# Part One\n\n## Chapter 1\n\nOne.\n\n## Chapter 2\n\nTwo.\n\n# Part Two\n\nEnd."
    )
    with truespan.open(tmp_path / "library", create=True) as library:
        upload = Upload("book.md", headings.encode())
        library.create_world("w").ingest([upload], kind="book")
    with served(tmp_path / "library") as running:
        visit = visits(running.address)
        visit.open("book.md")
        visit.as_reader("eve")
        onwards = visit.find("#position").get_by_role("button", name="Chapter ›")
        label = visit.find("#position-label")
        for sid, place in enumerate(["A", "Part One", "", "Part One › Chapter 1"]):
            if place:
                onwards.click()
                expect(label).to_contain_text(f"Sentence {sid} of")
                expect(label).to_contain_text(place)


def test_unrecorded_position_stays_a_preview_with_a_report(visit: Visit) -> None:
    reading(visit, "failing", 5)
    visit.failures_expected = True
    body = {"code": "store_busy", "detail": "The store is busy.", "advice": "Try again."}
    visit.page.route(
        "**/position",
        lambda route: route.fulfill(
            status=503, content_type="application/problem+json", body=json.dumps(body)
        ),
    )

    visit.preview(9)
    visit.find("#save-position").click()

    expect(visit.find("#alerts")).to_contain_text("The store is busy. Try again.")
    expect(visit.find("#preview-badge")).to_be_visible()
    expect(visit.find("#save-position")).to_be_enabled()
    visit.find("#back-position").click()
    expect(visit.find("#position-label")).to_contain_text("Sentence 5 of")


def test_selected_text_can_be_read_to_and_asked_about(visit: Visit) -> None:
    reading(visit, "selecting", 4)
    visit.find("#veil").uncheck()

    visit.find("#s10").select_text()
    with visit.page.expect_response(lambda reply: reply.request.method == "PUT"):
        visit.find("#read-here").click()
    expect(visit.find("#position-label")).to_contain_text("Sentence 10 of")

    visit.find("#s3").select_text()
    visit.find("#ask-selection").click()
    expect(visit.find("#question")).to_have_value(re.compile("^Old Marten oiled it"))
    visit.settled()
    none_of(UNREAD, visit.bodies("/readers/"))

    visit.page.evaluate("document.querySelector('#s3').textContent = 'long '.repeat(300)")
    visit.find("#s3").select_text()
    visit.find("#ask-selection").click()
    expect(visit.find("#question-hint")).to_contain_text("may have 1,000 characters")


def test_reader_token_shows_read_part_and_cannot_move(
    visits: Visits, harbour: Served, visit: Visit
) -> None:
    visit.open(BOOK)
    visit.as_reader("bound")
    visit.read_to(LAST_READ)
    secret = harbour.token("--world", "harbour", "--reader", "bound")
    held = visits(harbour.address, viewport={"width": 1440, "height": 900})

    held.find("#open-settings").click()
    held.find("#token").fill(secret)
    held.forget()
    held.find("#settings button[type=submit], #settings form button:not([type])").click()
    expect(held.find("#caller")).to_have_text("Token for bound")
    # The text opens where the reader is.
    expect(held.find(f"#s{LAST_READ}")).to_be_in_viewport()
    held.ask(QUESTION)

    expect(held.find("#position-fixed")).to_contain_text("only the owner of the library")
    expect(held.find("#slider")).to_have_count(0)
    expect(held.find(f"#s{LAST_READ + 1}")).to_have_count(0)
    expect(held.find("#mode-owner")).to_be_disabled()
    expect(held.find("#intake")).to_be_hidden()
    none_of(UNREAD, held.bodies("/"))
    kept = held.page.evaluate("[JSON.stringify(localStorage), document.cookie, location.href]")
    assert all(secret not in place for place in kept)


def test_unread_figure_is_hidden_with_its_words(visit: Visit) -> None:
    visit.open("mill.docx")
    visit.as_reader("figures")
    visit.read_to(1)
    figure = visit.find("#text .figure")
    expect(figure).to_have_js_property("inert", True)
    assert "blur" in figure.evaluate("figure => getComputedStyle(figure).filter")
    visit.read_to(4)
    expect(figure).to_have_js_property("inert", False)


def test_position_waits_for_the_reader_chosen_last(visit: Visit) -> None:
    """Otherwise the reply for the reader chosen last would undo what is entered meanwhile."""
    held: list[Route] = []
    visit.open(BOOK)
    visit.page.route("**/readers/*/books", lambda route: held.append(route))
    with visit.page.expect_request("**/readers/*/books"):
        visit.find("label.seg").filter(has_text="As a reader").click()
    with visit.page.expect_request("**/readers/late/books"):
        visit.find("#reader").fill("late")
        visit.find("#reader").press("Enter")

    with visit.page.expect_response("**/readers/*/books"):
        held[0].continue_()
    expect(visit.find("#position-number")).to_have_count(0)

    held[1].continue_()
    visit.read_to(LAST_READ)
    expect(visit.find("#position .position-head")).to_contain_text("of late")


def test_position_waits_for_the_documents_of_a_reader(visit: Visit) -> None:
    """Otherwise a number entered for one reader would be sent for another, or not sent."""
    reading(visit, "earlier", LAST_READ)
    held: list[Route] = []
    visit.page.route("**/documents*", lambda route: held.append(route))
    with visit.page.expect_request("**/documents*"):
        visit.find("#reader").fill("later")
        visit.find("#reader").press("Enter")
    expect(visit.find("#position-number")).to_have_count(0)

    for route in held:
        route.continue_()
    expect(visit.find("#position .position-head")).to_contain_text("of later")
    expect(visit.find("#position-label")).to_have_text("Nothing read yet")
    visit.read_to(3)
    expect(visit.find("#position-label")).to_contain_text("Sentence 3 of")
