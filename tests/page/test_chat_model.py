"""The owner connects a chat model in the settings; others only see which one answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

import truespan
from tests.page.library import Served, served
from tests.page.visit import Visits
from tests.support.providers.chat import KEY, OpenAiChatServer
from truespan.types.scope import Verb

QUESTION = "How often does the tide come in?"
SIZES = [
    {"width": 1440, "height": 900}, {"width": 900, "height": 700}, {"width": 390, "height": 844},
]  # fmt: skip


@pytest.fixture
def tides(browser: object, tmp_path: Path) -> Iterator[Served]:
    with truespan.open(tmp_path / "library", create=True) as library:
        library.world(create=True).add_text("The tide comes in twice a day.", id="tide")
    with served(tmp_path / "library") as running:
        yield running


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_owner_connects_a_model_that_answers_at_once(
    visits: Visits, tides: Served, size: dict[str, int]
) -> None:
    visit = visits(tides.address, viewport=size)
    visit.find("#question").fill(QUESTION)
    visit.find("#go-answer").click()
    visit.find(".answer[aria-busy=false] .hint .link").click()
    with OpenAiChatServer() as server:
        visit.find("#model-dialog summary").click()
        visit.find("#model-url").fill(f"{server.base}/")
        visit.find("#model-key").fill(KEY)
        visit.find("#model-address button").click()
        expect(visit.find("#model-name")).to_have_value(server.model)
        visit.find("#test-model").click()
        expect(visit.find("#model-note")).to_contain_text("The tide comes in")
        visit.find("#keep-model").click()
        expect(visit.find("#model-dialog")).to_be_hidden()
        visit.find("#question").fill(QUESTION)
        visit.find("#go-answer").click()
        answer = visit.find(".answer[aria-busy=false] .spoken").last
        expect(answer).to_contain_text("twice a day. Ebbe")

        visit.find("#open-settings").click()
        expect(visit.find("#chat-model")).to_have_text(f"openai/{server.model}")
        visit.find("#disconnect-model").click()
        expect(visit.find("#chat-model")).to_contain_text("None")
    assert KEY not in visit.page.content()


def test_problem_of_a_server_is_shown_in_the_dialog(visits: Visits, tides: Served):
    with OpenAiChatServer() as server:
        address = server.base
    visit = visits(tides.address, viewport=SIZES[0])
    visit.failures_expected = True
    visit.find("#open-settings").click()
    visit.find("#connect-model").click()
    visit.find("#model-dialog summary").click()
    visit.find("#model-url").fill(address)
    visit.find("#model-address button").click()
    expect(visit.find("#model-note .problem")).to_contain_text(address.split("/")[2])
    expect(visit.find("#keep-model")).to_be_disabled()


def test_token_sees_the_model_and_cannot_change_it(visits: Visits, browser: object, tmp_path: Path):
    with truespan.open(tmp_path / "library", create=True) as library:
        library.create_world("main")
        _, secret = library.tokens.create("reader", worlds="main", verbs=Verb.READ)
    with served(tmp_path / "library", "--require-token") as running:
        visit = visits(running.address, viewport=SIZES[0])
        visit.failures_expected = True
        visit.find("#signin-token").fill(secret.reveal())
        visit.find("#signin-token").press("Enter")
        visit.find("#open-settings").click()
        expect(visit.find("#chat-model")).to_contain_text("None")
        expect(visit.find("#connect-model")).to_be_hidden()
