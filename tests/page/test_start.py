"""Starting: an empty library, an empty world, the world of the server, and signing in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

import truespan
from tests.page.library import Served, served
from tests.page.visit import Visits

EMBEDDING = 300_000
"""The book has a hundred passages, and the machine may be busy."""
DESK = {"width": 1440, "height": 900}


@pytest.fixture
def empty(browser: object, tmp_path: Path) -> Iterator[Served]:
    truespan.open(tmp_path / "library", create=True).close()
    with served(tmp_path / "library") as running:
        yield running


@pytest.fixture(scope="module")
def guarded(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A library with two worlds that asks for a token, and serves the second world by default."""
    folder = tmp_path_factory.mktemp("guarded") / "library"
    with truespan.open(folder, create=True) as library:
        library.create_world("attic")
        library.create_world("cellar")
    with served(folder, "--require-token", "--world", "cellar") as running:
        yield running


def test_one_click_fills_an_empty_library_with_the_sample_book(visits: Visits, empty: Served):
    visit = visits(empty.address, viewport=DESK)
    start = visit.find("#start")
    expect(start.get_by_role("heading", level=2).first).to_be_visible()
    expect(visit.find("#question")).to_be_hidden()
    visit.page.goto(f"{empty.address}#view=compare")
    expect(start).to_be_visible()

    visit.find("#add-sample").click()

    expect(visit.find("button.document")).to_contain_text("The Glass Ferry", timeout=EMBEDDING)
    expect(visit.find("#world option:checked")).to_have_text("The Glass Ferry")
    expect(start).to_be_hidden()
    expect(visit.find("#reading-title")).to_have_text("The Glass Ferry")
    visit.find(".suggestion").first.click()
    expect(visit.find(".answer[aria-busy=false] .spoken")).to_contain_text("spare")
    visit.find("#tab-context").click()
    visit.settled()
    expect(visit.find("#panel-context .card").first).to_be_visible()


def test_an_empty_world_says_what_to_do(visits: Visits, empty: Served) -> None:
    visit = visits(empty.address, viewport=DESK)
    visit.find("#start-world-name").fill("harbour")
    visit.find("#start-create").click()

    start = visit.find("#start")
    expect(start).to_contain_text("harbour has no documents yet")
    visit.find("[data-to=tune]").click()
    expect(visit.find("#view-tune .view-empty")).to_be_visible()
    visit.find("[data-to=ask]").click()
    with visit.page.expect_file_chooser():
        start.get_by_role("button", name="Choose files").click()
    expect(visit.find("#add-sample")).to_be_enabled()

    reader = empty.token("--world", "harbour", "--verb", "follow", "--reader", "ann")
    bound = visits(empty.address, viewport=DESK)
    bound.sign_in(reader)
    expect(bound.find("#start")).to_contain_text("no books")
    expect(bound.find("#start button")).to_have_count(0)


def test_required_token_is_asked_for_first(visits: Visits, guarded: Served) -> None:
    visit = visits(guarded.address, viewport=DESK)
    visit.failures_expected = True
    expect(visit.find("#view-signin")).to_be_visible()
    expect(visit.find("#signin-token")).to_be_focused()
    expect(visit.find("#alerts")).to_be_empty()
    expect(visit.find("#views")).to_be_hidden()

    visit.find("#signin-token").fill("ts_wrong")
    visit.find("#signin-token").press("Enter")
    expect(visit.find("#signin-problem")).to_contain_text("not valid")
    expect(visit.find("#signin-token")).to_be_focused()

    visit.find("#signin-token").fill(guarded.token("--all-worlds"))
    visit.find("#signin-token").press("Enter")
    expect(visit.find("#view-signin")).to_be_hidden()
    expect(visit.find("#world option:checked")).to_have_text("cellar")
    expect(visit.find("#start")).to_contain_text("cellar has no documents yet")
    assert "ts_" not in visit.page.url

    visit.find("#open-settings").click()
    visit.find("#sign-out").click()
    expect(visit.find("#view-signin")).to_be_visible()
    visit.page.reload()
    expect(visit.find("#view-signin")).to_be_visible()


def test_expired_token_leads_back_to_signing_in(visits: Visits, guarded: Served):
    visit = visits(guarded.address, viewport=DESK)
    visit.failures_expected = True
    visit.sign_in(guarded.token("--all-worlds"))
    expect(visit.find("#world option:checked")).to_have_text("cellar")

    # In one step: a request of the page's own with the ended token could otherwise close the
    # view before the world is chosen.
    visit.page.evaluate(
        """() => {
            sessionStorage.setItem('truespan.token', 'ts_ended');
            const choice = document.querySelector('#world');
            choice.selectedIndex = [...choice.options].findIndex((one) => one.text === 'attic');
            choice.dispatchEvent(new Event('change', { bubbles: true }));
        }"""
    )

    expect(visit.find("#view-signin")).to_be_visible()
    expect(visit.find("#signin-problem")).to_contain_text("not valid")
