"""Jumps in a long book: the target sentence is highlighted and in view."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import truespan
from tests.page.library import Served, served
from tests.page.visit import Visits

CHAPTERS, SENTENCES = 24, 60
VERSE = (
    "The tide goes out at break of day,\nThe nets are drawn, the boats away,\n"
    "And all the bells of harbour say\nThe fishers sleep no more."
)
TABLE = "| part | length | number |\n|---|---|---|\n| mast | 12 m | 1 |\n| oar | 3 m | 4 |"
HARBOUR = "harbour keeper who walks along the water every morning with a lantern in his hand"


def wrapped(text: str, width: int = 60) -> str:
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) + 1 > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def chapter(number: int) -> str:
    said = [
        f"In chapter {number} the watch number {number}x{place} saw the {HARBOUR}."
        for place in range(SENTENCES)
    ]
    paragraphs = [wrapped(" ".join(said[at : at + 5])) for at in range(0, SENTENCES, 5)]
    return "\n\n".join([f"## Chapter {number}: Watch {number}", *paragraphs])


@pytest.fixture(scope="module")
def coast(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("jumps")
    text = "\n\n".join(["# The Coast", *(chapter(number) for number in range(1, CHAPTERS + 1))])
    (folder / "coast.md").write_text(f"{text}\n\n## Verse\n\n{VERSE}\n\n## Parts\n\n{TABLE}\n")
    with truespan.open(folder / "library", create=True) as library:
        library.create_world("coast").ingest(folder / "coast.md", kind="book")
    with served(folder / "library") as running:
        yield running


AT_REST = """async (sid) => {
    const text = document.getElementById('text');
    const frame = () => new Promise(requestAnimationFrame);
    const lit = () => document.getElementById('s' + sid)?.classList.contains('lit');
    for (let tries = 0; tries < 900 && !lit(); tries += 1) await frame();
    let still = 0, at = -1, size = -1;
    while (still < 12) {
        await frame();
        still = text.scrollTop === at && text.scrollHeight === size ? still + 1 : 0;
        at = text.scrollTop;
        size = text.scrollHeight;
    }
    const span = document.getElementById('s' + sid);
    if (!span) return 'not loaded';
    if (!span.classList.contains('lit')) return 'not lit';
    const [own, box] = [span.getBoundingClientRect(), text.getBoundingClientRect()];
    const inside = own.top >= box.top && own.top + 10 <= box.bottom;
    return inside ? 'in view' : `at ${own.top - box.top} of ${box.height}`;
}"""


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_every_jump_highlights_the_sentence_in_view(
    visits: Visits, coast: Served, size: tuple[int, int]
) -> None:
    width, height = size
    visit = visits(
        coast.address, viewport={"width": width, "height": height}, reduced_motion="no-preference"
    )
    narrow = width < 1000
    if narrow:
        visit.find("[data-to-pane=reading]").click()
    expect(visit.find("#s0")).to_be_visible()
    starts = [int(value) for value in visit.find("#outline option").evaluate_all(
        "all => all.map(one => one.value)")]  # fmt: skip
    assert len(starts) > CHAPTERS
    landed: dict[str, Any] = {}
    for number in (20, 2, 24, 12, 13, 1, 18, 19, 5, 4):
        visit.find("#outline").select_option(str(starts[number]))
        landed[f"chapter {number}"] = visit.page.evaluate(AT_REST, starts[number])
    if narrow:
        visit.find("[data-to-pane=ask]").click()
    visit.find("#options summary").click()
    visit.find("#top-k").fill("10")
    visit.ask("Which watch saw the harbour keeper: 3x7, 9x20, 15x31, 22x50?")
    links = visit.find("#panel-context .card-foot [data-show]")
    count = links.count()
    assert count == 10
    for at in range(count):
        if narrow:
            visit.find("[data-to-pane=ask]").click()
        best = int((links.nth(at).get_attribute("data-best") or "").split("-")[0])
        links.nth(at).click()
        landed[f"sentence {best}"] = visit.page.evaluate(AT_REST, best)
        # The rest of the passage is highlighted faintly.
        expect(visit.find("#text .s.lit")).to_have_count(1)
        assert visit.find("#text .s.near").count() > 0
    assert {where: found for where, found in landed.items() if found != "in view"} == {}


def test_text_keeps_letters_and_meaningful_line_breaks(visits: Visits, coast: Served):
    visit = visits(coast.address, viewport={"width": 1440, "height": 900})
    starts = visit.find("#outline option").evaluate_all("all => all.map(one => one.value)")
    visit.find("#outline").select_option(starts[-2])

    verse = visit.find("#text p").filter(has_text="The nets are drawn")
    expect(verse).to_have_class("block lines")
    assert verse.evaluate("p => p.innerText").splitlines() == VERSE.splitlines()
    rows = visit.find("#text .table-box tr")
    expect(rows).to_have_count(3)
    assert rows.nth(1).locator("td").all_inner_texts() == ["mast", "12 m", "1"]
    expect(rows.nth(0).locator("th")).to_have_count(3)
    visit.find("#outline").select_option(starts[4])
    prose = visit.find("#text p.block").filter(has_text="the watch number 4x0 ")
    assert "\n" in prose.evaluate("p => p.textContent")
    assert "\n" not in prose.evaluate("p => p.innerText")
    assert prose.locator(".s").count() == 5
