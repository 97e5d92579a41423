"""Conversations on the page: streaming, citations, stopping, copying, and readers."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.page.library import LAST_READ, QUESTION, UNREAD, Served, fill, served
from tests.page.visit import Visit, Visits
from tests.support.providers.chat import OpenAiChatServer
from tests.support.providers.loopback import Answer, Asked

BOOK = "The Copper Heron"
TRUE = "It was **Wrenfield**, the stationmaster, who had taken the key of the boathouse [1]. "
FALSE = "He sold it to Admiral Quist in 1921 [1]. "
QUOTES = "It was “hidden it under the lever” [1], but not “thrown into the sea”."
DESK = {"width": 1440, "height": 900}


@dataclass
class Model:
    """A chat model that sends `pieces`; an event among them delays the rest.

    Asked to rewrite a question, it replies with `standalone`.
    """

    server: OpenAiChatServer
    pieces: list[str | Event | Exception] = field(default_factory=list)
    standalone: str = ""

    def say(self, *pieces: str | Event | Exception) -> None:
        self.pieces = list(pieces)

    def answer(self, asked: Asked) -> Answer:
        if asked.content["messages"][0]["content"].startswith("You rewrite"):
            return self.server.saying([self.server.piece(self.standalone), self.server.end()])
        return self.server.saying(self._speak())

    def _speak(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Event):
                piece.wait(30)
            elif isinstance(piece, Exception):
                yield self.server.trouble(str(piece))
                return
            else:
                yield self.server.piece(piece)
        yield self.server.end()


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with OpenAiChatServer() as server:
        made = Model(server)
        server.fault = made.answer
        yield made


@pytest.fixture(scope="module")
def answering(harbour: Served, model: Model) -> Iterator[Served]:
    """The library of the other tests, served with a chat model."""
    settings = {
        "chat_provider": "openai", "chat_model": model.server.model,
        "chat_openai_base_url": model.server.base, "chat_openai_keyless": "1",
    }  # fmt: skip
    with served(harbour.library, **settings) as running:
        yield running


@pytest.fixture
def desk(visits: Visits, answering: Served) -> Visit:
    """A visit to the server with a chat model."""
    return visits(
        answering.address, viewport=DESK, permissions=["clipboard-read", "clipboard-write"]
    )


def ask(visit: Visit, question: str) -> Any:
    """Ask for an answer, and return the turn when it is complete."""
    turns = visit.find("#thread > .turn").count()
    visit.find("#question").fill(question)
    visit.find("#question").press("Enter")
    turn = visit.find("#thread > .turn").nth(turns)
    expect(turn.locator(".answer[aria-busy=false]")).to_be_attached()
    return turn


def test_answer_is_streamed_linked_checked_and_copied(desk: Visit, model: Model) -> None:
    rest = Event()
    model.say(TRUE, rest, FALSE, QUOTES)
    desk.find("#question").fill(QUESTION)
    desk.find("#question").press("Enter")
    turn = desk.find(".turn")
    expect(turn.locator(".answer[aria-busy=true] strong")).to_have_text("Wrenfield")
    expect(desk.find("#stop")).to_be_visible()
    expect(desk.find("#question")).to_have_value("")
    expect(desk.find("#question")).to_be_focused()

    rest.set()
    expect(turn.locator(".answer[aria-busy=false] .mode")).to_have_text("From the sources")
    expect(desk.find("#stop")).to_be_hidden()
    assert "q=Who" in desk.page.url

    expect(turn.locator(".support")).to_contain_text(re.compile(r"\d of \d sentences supported"))
    marked = turn.locator(".unsupported").filter(has_text="Admiral Quist")
    tip = turn.locator(".doubt .tip").first
    expect(tip).to_be_hidden()
    marked.first.hover()
    expect(tip).to_be_visible()
    expect(tip).to_contain_text("In no passage: “1921”, “Admiral”, “Quist”")
    desk.find("#question").hover()
    expect(tip).to_be_hidden()
    turn.locator(".doubt-mark").first.focus()
    expect(tip).to_be_visible()
    expect(turn.locator(".unsupported").filter(has_text="Wrenfield")).to_have_count(0)
    expect(turn.locator("button button")).to_have_count(0)
    expect(turn.locator(".spoken")).to_contain_text("Quist in 1921 [1].?")

    wrong = turn.locator(".spoken .doubt:has(.quote-bad)")
    expect(wrong).to_have_count(1)
    wrong.locator(".quote-bad").focus()
    expect(wrong.locator(".tip")).to_contain_text("not found verbatim in the sources")
    turn.locator(".copy").click()
    expect(turn.locator(".copy")).to_have_text("Copied")
    copied = desk.page.evaluate("navigator.clipboard.readText()")
    assert "who had taken the key of the boathouse [1]" in copied
    assert re.search(
        r"Sources\n\[1\] The Copper Heron › .*\(sentences \d+–\d+, .*heron\.md\)", copied
    )
    assert "Not found verbatim in the sources: “thrown into the sea”" in copied
    assert "Not supported by the sources: He sold it to Admiral Quist" in copied

    turn.locator(".cite").first.click()
    expect(desk.find("#text .s.lit").first).to_be_in_viewport()


def test_each_turn_keeps_its_own_context_and_explanation(desk: Visit, model: Model) -> None:
    model.say(TRUE)
    first = ask(desk, QUESTION)
    model.say("The sluice gate of the mill is lifted by a crank [1].")
    second = ask(desk, "How is the sluice gate of the mill lifted?")
    expect(second).to_have_attribute("aria-current", "true")
    expect(first.locator(".spoken")).to_contain_text("Wrenfield")

    second.get_by_role("tab", name="Context").click()
    expect(second.locator("#panel-context .card").filter(has_text="crank")).not_to_have_count(0)
    expect(second.locator("#panel-context .more-text:visible")).not_to_have_count(0)
    first.locator("[data-peek=context]").click()
    expect(first).to_have_attribute("aria-current", "true")
    expect(desk.find("#tab-context")).to_be_focused()
    expect(first.locator("#panel-context .card").filter(has_text="Wrenfield")).to_have_count(1)
    expect(second.locator(".spoken")).to_contain_text("crank")
    second.locator("[data-peek=why]").click()
    expect(second.locator("#panel-why")).to_contain_text("written by a chat model")

    desk.page.go_back()
    expect(first).to_have_attribute("aria-current", "true")
    desk.find("#talk-head [data-new-conversation]").click()
    expect(desk.find(".turn")).to_have_count(0)
    expect(desk.find("#panel-context .welcome")).to_be_visible()
    expect(desk.find("#question")).to_be_focused()


def test_stopped_answer_keeps_its_text_and_new_question_stops_it(desk: Visit, model: Model) -> None:
    silent = Event()
    model.say(TRUE, silent)
    for stop in (lambda: desk.find("#stop").click(), lambda: desk.page.keyboard.press("Escape")):
        desk.find("#question").fill(QUESTION)
        desk.find("#question").press("Enter")
        last = desk.find(".turn").last
        expect(last.locator(".answer[aria-busy=true] strong")).to_be_visible()
        stop()
        expect(last.locator(".broken.stopped")).to_contain_text("was not checked")
        expect(last.locator(".spoken")).to_contain_text("Wrenfield")
        expect(desk.find("#stop")).to_be_hidden()

    desk.find("#question").fill("Who had taken the key of the boathouse?")
    desk.find("#question").press("Enter")
    expect(desk.find(".turn").nth(2).locator(".answer[aria-busy=true] strong")).to_be_visible()
    model.say(TRUE)
    third = ask(desk, QUESTION)
    silent.set()
    expect(third.locator(".answer .mode")).to_have_text("From the sources")
    expect(desk.find(".turn").nth(2).locator(".broken.stopped")).to_be_visible()
    desk.find(".turn").nth(0).get_by_role("button", name="Ask again").click()
    expect(desk.find(".turn").nth(0).locator(".answer .mode")).to_have_text("From the sources")
    expect(desk.find("#alerts")).to_be_empty()


def test_interrupted_answer_can_be_asked_again(desk: Visit, model: Model) -> None:
    model.say(TRUE, RuntimeError("out of memory"))
    turn = ask(desk, QUESTION)
    expect(turn.locator(".broken.failed code")).not_to_be_empty()
    expect(turn.locator(".spoken")).to_contain_text("Wrenfield")
    expect(turn.locator(".cite")).to_have_count(0)

    desk.failures_expected = True
    desk.page.route(re.compile("/v1/"), lambda route: route.abort())
    turn.get_by_role("button", name="Ask again").click()
    expect(turn.locator(".broken.failed")).to_contain_text("The server does not respond")
    expect(desk.find("#alerts")).to_be_empty()
    desk.page.unroute_all()
    model.say(TRUE)
    turn.get_by_role("button", name="Ask again").click()
    expect(turn.locator(".answer .mode")).to_have_text("From the sources")


def test_repeated_question_is_listed_once_and_keeps_the_view(
    visits: Visits, tmp_path: Path
) -> None:
    with served(fill(tmp_path)) as running:
        visit = visits(running.address, viewport={"width": 1280, "height": 720})
        questions = [
            QUESTION, *(f"How often does Marten oil key {at}?" for at in range(7)), QUESTION,
        ]  # fmt: skip
        for question in questions:
            visit.find("#question").fill(question)
            visit.find("#question").press("Enter")
            expect(visit.find(".answer[aria-busy=false]").first).to_be_attached()
            visit.find("#history [data-new-conversation]").click()
            expect(visit.find(".turn")).to_have_count(0)

        first = visit.find(".conversation").first
        expect(first).to_contain_text("asked 2 times")
        expect(visit.find(".conversation").filter(has_text=QUESTION)).to_have_count(1)
        expect(visit.find("button.document").first).to_be_in_viewport()

        visit.find(".drop-conversation").first.click()
        expect(visit.find("#conversation-dialog")).to_contain_text("all 2 conversations")
        visit.find("#confirm-delete").click()
        expect(visit.find(".receipt")).to_contain_text("2")
        visit.find("#close-receipt").click()
        expect(visit.find(".conversation").filter(has_text=QUESTION)).to_have_count(0)


def test_conversation_survives_a_reload(desk: Visit, model: Model) -> None:
    model.say(TRUE + FALSE)
    ask(desk, QUESTION)
    model.standalone = "Where did Wrenfield hide the key of the boathouse?"
    model.say("Under the lever of the disused signal box [1].")
    second = ask(desk, "And where did he hide it?")
    expect(second.locator(".searched")).to_contain_text(model.standalone)
    second.get_by_role("tab", name="Why").click()
    expect(second.locator("#panel-why")).to_contain_text("written by a chat model")
    entry = desk.find(".conversation[aria-current]")
    expect(entry).to_contain_text(QUESTION)
    expect(entry).to_contain_text("2 questions")
    expect(desk.find(".conversation-day h3").first).to_have_text("Today")

    desk.page.reload()
    expect(desk.find(".turn")).to_have_count(2)
    # The list of conversations can be closed, and stays so.
    desk.find("#history-box > summary").click()
    expect(entry).to_be_hidden()
    desk.page.reload()
    expect(desk.find(".turn")).to_have_count(2)
    expect(entry).to_be_hidden()
    desk.find("#history-box > summary").click()
    expect(entry).to_be_visible()
    expect(desk.find(".turn").nth(0).locator(".unsupported")).to_contain_text("Admiral Quist")
    expect(desk.find(".turn").nth(1)).to_have_attribute("aria-current", "true")
    expect(desk.find(".turn").nth(1).locator(".searched")).to_contain_text(model.standalone)
    desk.find(".turn").nth(0).locator("[data-peek=context]").click()
    expect(desk.find("#panel-context .card").filter(has_text="Wrenfield")).not_to_have_count(0)
    desk.find("#tab-why").click()
    expect(desk.find("#panel-why")).to_contain_text("not stored with the conversation")

    desk.find("#export-conversation summary").click()
    with desk.page.expect_download() as download:
        desk.find("[data-format=markdown]").click()
    text = download.value.path().read_text("utf-8")
    assert f"# {QUESTION}" in text
    assert "Searched for: Where did Wrenfield" in text

    desk.find("#history [data-new-conversation]").click()
    model.say("A crank lifts the sluice gate of the mill [1].")
    ask(desk, "How is the sluice gate of the mill lifted?")
    expect(desk.find(".conversation[aria-current]")).to_contain_text("1 question")
    address = desk.page.url
    desk.find(".conversation").filter(has_text="2 questions").first.click()
    expect(desk.find(".turn")).to_have_count(2)
    desk.page.go_back()
    expect(desk.find(".turn")).to_have_count(1)
    # Of two that are opened at once, the last chosen one is shown.
    held: list[Route] = []
    entry = desk.find(".conversation").filter(has_text="2 questions").first
    desk.page.route(
        f"**/conversations/{entry.get_attribute('data-id')}", lambda route: held.append(route)
    )
    entry.click()
    desk.find(".conversation").filter(has_text="sluice gate").click()
    expect(desk.find(".turn")).to_have_count(1)
    with desk.page.expect_response(lambda reply: reply.request == held[0].request):
        held[0].continue_()
    desk.page.unroute_all()
    expect(desk.find(".conversation[aria-current]")).to_contain_text("sluice gate")
    expect(desk.find(".turn")).to_have_count(1)

    desk.find("#delete-conversation").click()
    desk.find("#conversation-dialog").get_by_role("button", name="Cancel").click()
    desk.find("#delete-conversation").click()
    desk.find("#confirm-delete").click()
    expect(desk.find(".receipt")).to_contain_text("Questions and answers1")
    expect(desk.find("#close-receipt")).to_be_focused()
    desk.page.keyboard.press("Escape")
    expect(desk.find(".conversation[aria-current]")).to_have_count(0)
    expect(desk.find(".turn")).to_have_count(0)
    desk.failures_expected = True
    desk.page.goto("about:blank")
    desk.page.goto(address)
    expect(desk.find("#question-hint")).to_contain_text("This conversation does not exist")
    assert "conversation=" not in desk.page.url
    expect(desk.find("#panel-context .card").filter(has_text="crank")).not_to_have_count(0)


def test_turns_of_later_positions_leave_the_page_at_once(desk: Visit, model: Model) -> None:
    desk.open(BOOK)
    desk.as_reader("chatting")
    desk.find("#question").fill(QUESTION)
    desk.find("#question").press("Enter")
    expect(desk.find("#question-hint")).to_contain_text("Nothing has been read yet")
    expect(desk.find(".turn")).to_have_count(0)
    desk.read_to(LAST_READ)
    model.say("Marten searched the net loft [1].")
    early = ask(desk, "Where did Marten search?")
    expect(early).to_contain_text(f"asked at sentence {LAST_READ}")
    desk.read_to(16)
    model.say(TRUE)
    ask(desk, QUESTION)
    expect(desk.find("#ask")).to_contain_text(UNREAD[0])

    title = desk.find(".conversation").filter(has_text="2 questions")
    expect(title).to_have_count(1)
    desk.preview(LAST_READ)
    expect(desk.find(".turn")).to_have_count(1)
    expect(desk.find(".turn")).to_contain_text("net loft")
    expect(title).to_have_count(0)
    for word in UNREAD:
        expect(desk.find("#ask")).not_to_contain_text(word)
    expect(desk.find("#ask")).not_to_contain_text(QUESTION)
    model.say("Marten searched the tar shed [1].")
    tried = ask(desk, "Did Marten search the tar shed?")
    expect(tried).to_contain_text("not stored")
    desk.preview(16)
    expect(desk.find(".turn")).to_have_count(3)
    desk.read_to(LAST_READ)
    expect(desk.find(".conversation")).to_contain_text("1 question")
    # Without a visible turn there is no such conversation.
    desk.failures_expected = True
    desk.read_to(3)
    expect(desk.find(".turn")).to_have_count(0)
    expect(desk.find("#panel-context .welcome")).to_be_visible()
    expect(desk.find(".conversation")).to_have_count(0)
    assert "q=" not in desk.page.url
    desk.page.reload()
    expect(desk.find("body[data-ready]")).to_be_attached()
    expect(desk.find(".turn")).to_have_count(0)
    desk.read_to(16)
    title.click()
    expect(desk.find(".turn")).to_have_count(2)
    desk.open("mill.docx")
    expect(desk.find(".turn")).to_have_count(0)
    assert "conversation=" not in desk.page.url
    title.click()
    expect(desk.find("#reading-title")).to_have_text(BOOK)
    expect(desk.find(".turn")).to_have_count(2)


def test_welcome_stays_while_context_is_loading(desk: Visit, model: Model) -> None:
    desk.open(BOOK)
    desk.as_reader("returning")
    held: list[Route] = []
    desk.page.route(re.compile("/retrieve"), lambda route: held.append(route))
    for place, said, question in (
        (LAST_READ, "Marten searched the net loft [1].", "Where did Marten search?"),
        (16, TRUE, QUESTION),
    ):
        desk.read_to(place)
        model.say(said)
        ask(desk, question)

    desk.preview(LAST_READ)
    expect(desk.find(".turn")).to_have_count(1)
    expect(desk.find("#panel-context[aria-busy]")).to_have_count(1)
    desk.preview(3)
    expect(desk.find(".turn")).to_have_count(0)
    expect(desk.find("#panel-context .welcome")).to_be_visible()
    assert held


def test_without_a_chat_model_the_passages_are_the_answer(visit: Visit) -> None:
    turn = ask(visit, QUESTION)
    expect(turn.locator(".spoken blockquote").first).to_contain_text("boathouse")
    expect(turn).to_contain_text("no chat model was used: these are the passages themselves")
    expect(turn.locator(".support")).to_have_count(0)


def test_server_without_conversations_reports_it_and_answers(visits: Visits, harbour: Served):
    with served(harbour.library, conversation_days="0") as running:
        visit = visits(running.address, viewport=DESK)
        visit.failures_expected = True
        expect(visit.find("#history-note")).to_contain_text("does not store conversations")
        ask(visit, QUESTION)
        turn = ask(visit, "Where did Marten search?")
        expect(turn.locator(".spoken")).to_contain_text("net loft")
        assert "conversation=" not in visit.page.url
        expect(visit.find("#delete-conversation")).to_be_hidden()
