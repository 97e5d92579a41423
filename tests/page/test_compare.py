"""Comparing two sides of a question: unread text stays hidden, and the address can be shared."""

import json
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Locator, expect

import truespan
from tests.page.library import LAST_READ, QUESTION, UNREAD, Served
from tests.page.test_form import CONTRAST, SMALL
from tests.page.visit import Visit, Visits

DESK: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.fixture(scope="module")
def library(harbour: Served) -> Served:
    """The library with a second generation, whose chunks are smaller, and a reader."""
    with truespan.open(harbour.library) as opened:
        world = opened.world("harbour")
        if len(world.generations.list()) == 1:
            world.generations.reindex(chunking="sentences")
        world.reader("cora").set_position("heron.md", sentence=LAST_READ)
    return harbour


def comparison(left: str, right: str, question: str = QUESTION) -> str:
    return f"#view=compare&q={quote(question)}&left={quote(left)}&right={quote(right)}"


def compared(visit: Visit) -> Locator:
    """Wait until a comparison is shown, and return its rows."""
    expect(visit.find(".compare-row").first).to_be_visible()
    expect(visit.find("#compare-result[aria-busy]")).to_have_count(0)
    return visit.find(".compare-row")


def counted(visit: Visit, kind: str) -> int:
    return int(visit.find(f"[data-count={kind}] b").inner_text())


def open_page(visits: Visits, served: Served, fragment: str, **screen: Any) -> Visit:
    return visits(served.address + fragment, **(screen or DESK))


def test_comparison_with_a_reader_hides_unread_text(visits: Visits, library: Served):
    visit = open_page(visits, library, "#view=compare")
    expect(visit.find("#compare-result")).to_contain_text("Type a question")
    # Without a reader, all documents are compared.
    expect(visit.find("#left-as")).to_have_value("owner")
    expect(visit.find("#right-as")).to_have_value("owner")
    expect(visit.find("#compare-within option:checked")).to_have_text("All documents")
    visit.find("[data-preset=readers]").click()
    visit.find("#right-reader").fill("cora")
    visit.find("#compare-question").fill(QUESTION)
    visit.find("#compare-question").press("Enter")
    rows = compared(visit)

    # Only the owner has the passage of the last chapter; the others moved up for the reader.
    ahead = visit.find(".compare-row[data-kind=left]")
    expect(ahead).to_have_count(1)
    expect(ahead.locator(".none")).to_contain_text(f"past sentence {LAST_READ}")
    assert (counted(visit, "left"), counted(visit, "right")) == (1, 0)
    assert counted(visit, "both") == rows.count() - 1 == counted(visit, "moved")
    assert counted(visit, "withheld") == 1
    expect(rows.nth(1).locator(".compare-change")).to_contain_text("▲ 1")
    expect(visit.find(".compare-slopes svg line.moved")).to_have_count(rows.count() - 1)
    # Unread text is not on the page until it is requested.
    text = visit.find("#compare-rows").inner_text()
    assert not [word for word in UNREAD if word in text]
    visit.find("#compare-veil").uncheck()
    expect(ahead).to_contain_text("Wrenfield")

    # Another position is tried without being recorded.
    visit.find("#right-chapter").select_option(label="Three: The Signal Box")
    expect(visit.find("[data-count=withheld] b")).to_have_text("0")
    visit.find("#right-sid").fill("0")
    visit.find("#right-sid").press("Enter")
    expect(visit.find("[data-count=withheld] b")).not_to_have_text("0")
    with truespan.open(library.library) as opened:
        assert opened.world("harbour").reader("cora").position().sid == LAST_READ
    assert not [request for request in visit.requests if request.method == "PUT"]

    # The address has the comparison; back leads to the previous one.
    address = visit.page.url
    visit.page.go_back()
    expect(visit.find("[data-count=withheld] b")).to_have_text("0")
    visit.page.goto("about:blank")
    visit.page.goto(address)
    compared(visit)
    expect(visit.find("#right-sid")).to_have_value("0")
    expect(visit.find("#right-reader")).to_have_value("cora")
    expect(visit.find("#compare-question")).to_have_value(QUESTION)
    sides = parse_qs(urlsplit(visit.page.url).fragment)
    assert parse_qs(sides["right"][0]) == {"as": ["reader"], "reader": ["cora"], "sid": ["0"]}


def test_generations_and_modes_are_compared_and_answered(visits: Visits, library: Served) -> None:
    visit = open_page(visits, library, comparison("as=owner&generation=1", "as=owner"))
    rows = compared(visit)
    assert counted(visit, "both") == rows.count()
    assert counted(visit, "moved") == 0
    expect(rows.first.locator(".compare-change")).to_have_text("=")

    visit.find("[data-preset=generations]").click()
    expect(visit.find("#right-generation")).to_have_value("2")
    expect(visit.find(".compare-head.right")).to_contain_text("generation 2")
    rows = compared(visit)
    assert [request.url for request in visit.requests if "generation=2" in request.url]
    # Smaller chunks are aligned by the sentences that they share.
    assert counted(visit, "both") + visit.find(".compare-row[data-kind=part]").count() > 0

    visit.find("[data-preset=modes]").click()
    expect(visit.find("#left-mode")).to_have_value("vector")
    compared(visit)
    visit.find("#compare-answer").click()
    answers = visit.find(".compare-answer")
    expect(answers.nth(0).locator(".hint")).to_contain_text("source")
    expect(answers.nth(1).locator(".hint")).to_contain_text("source")
    expect(answers.nth(0)).to_contain_text("Wrenfield")
    bodies = [
        json.loads(one.post_data or "{}") for one in visit.requests if one.url.endswith("/answer")
    ]
    assert [body["mode"] for body in bodies] == ["vector", "keyword"]


def test_bound_reader_compares_only_read_text(visits: Visits, library: Served):
    token = library.token("--world", "harbour", "--reader", "cora")
    visit = visits(library.address, **DESK)
    visit.page.evaluate("(secret) => sessionStorage.setItem('truespan.token', secret)", token)
    visit.forget()
    # Whatever the address asks for.
    fragment = comparison("as=owner&generation=2", "as=reader&reader=cora&sid=16&mode=words")
    visit.page.goto("about:blank")
    visit.page.goto(library.address + fragment)
    expect(visit.find("body[data-ready]")).to_be_attached()
    compared(visit)

    assert visit.find("#left-as option").all_inner_texts() == ["Reader"]
    expect(visit.find("#right-sid")).to_have_count(0)
    expect(visit.find("#left-generation")).to_have_count(0)
    expect(visit.find("[data-count=withheld]")).to_have_count(0)
    for body in visit.bodies("/v1/"):
        assert not [word for word in UNREAD if word in body]


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_comparison_fits_every_screen(
    visits: Visits, library: Served, screen: dict[str, Any], colours: str
) -> None:
    fragment = comparison("as=owner", "as=reader&reader=cora")
    visit = open_page(visits, library, fragment, **screen, color_scheme=colours)
    compared(visit)
    assert visit.page.evaluate(CONTRAST) == []
    if screen is PHONE:
        assert visit.page.evaluate(SMALL) == []
    wide = "document.querySelector('#view-compare').scrollWidth > window.innerWidth"
    assert not visit.page.evaluate(wide)
