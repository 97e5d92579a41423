"""Asking a whole world: context, answers and their explanations."""

import json
import re
from hashlib import sha256
from pathlib import Path

from playwright.sync_api import Route, expect

import truespan
from tests.page.library import QUESTION, SCRIPT, SHOWN, served
from tests.page.visit import Visit, Visits


def test_context_shows_order_scores_and_sources(visit: Visit) -> None:
    visit.ask(QUESTION)

    cards = visit.find("#panel-context .card")
    expect(cards.first.locator(".verified")).to_contain_text("verified")
    # Passages of several documents are shown by rank.
    ranks = visit.find("#panel-context .card .rank").all_inner_texts()
    assert ranks == [f"#{rank}" for rank in range(1, cards.count() + 1)]
    visit.find("#order").select_option("place")
    expect(cards.first.locator(".rank")).not_to_have_text("#1")
    (body,) = visit.bodies("/retrieve")
    bundle = json.loads(body)
    shown = [int(number) for number in cards.evaluate_all("all => all.map(c => c.dataset.first)")]
    notes = bundle["metadata"]["sources"]
    assert shown == [note["first_sid"] for note in sorted(notes, key=_place)]
    assert cards.count() == len(bundle["retrieved_chunks"])
    best = max(chunk["relevance_score"] for chunk in bundle["retrieved_chunks"])
    expect(visit.find("#panel-context")).to_contain_text(f"{best:.3f}")
    expect(cards.filter(has_text="The Copper Heron").first).to_contain_text("heron.md")
    widths = visit.find(".card .score .bar i").evaluate_all("all => all.map(b => b.style.width)")
    assert len(widths) == cards.count()
    assert all(re.fullmatch(r"\d+(\.\d)?%", width) for width in widths)


def _place(note: dict[str, int]) -> tuple[int, int]:
    return note["document"], note["first_sid"]


def test_passage_mark_names_the_hash_of_the_text(visit: Visit) -> None:
    visit.ask(QUESTION)
    card = visit.find("#panel-context .card").filter(has_text="heron.md").first
    shown = sha256(card.locator(".card-text").evaluate("e => e.textContent").encode()).hexdigest()
    expect(card.locator(".verified")).to_have_attribute("title", re.compile(shown))


def test_matching_sentence_is_marked_and_in_view(visit: Visit) -> None:
    visit.find("#options summary").click()
    visit.find("#search-mode").select_option("hybrid")
    visit.ask(QUESTION)

    card = visit.find("#panel-context .card").filter(has_text="Wrenfield").first
    best = card.locator("mark.best")
    expect(best).to_contain_text("who had taken the key of the boathouse")
    expect(best.locator("b.hit")).to_have_text(["taken", "key", "boathouse"])
    inside = best.evaluate(
        """mark => {
            const frame = mark.closest('.card-text');
            const [own, box] = [mark, frame].map(one => one.getBoundingClientRect());
            return own.top >= box.top && own.top < box.bottom;
        }"""
    )
    assert inside
    visit.find("#search-mode").select_option("vector")
    visit.ask(QUESTION)
    expect(visit.find("#panel-context mark.best").first).to_be_visible()
    expect(visit.find("#panel-context b.hit")).to_have_count(0)


def test_closest_passages_can_be_searched_for(visit: Visit) -> None:
    visit.find("#options summary").click()
    visit.find("#way").select_option("search")
    visit.find("#top-k").fill("2")
    visit.ask(QUESTION)
    expect(visit.find("#panel-context .card")).to_have_count(2)
    assert len(visit.bodies("/search")) == 1
    visit.find("#version").fill("9.9")
    visit.ask(QUESTION)
    expect(visit.find("#panel-context .card")).to_have_count(0)
    assert '"in_scope":0' in visit.bodies("/search")[1]


def test_answer_cites_text_and_draws_its_decision(visit: Visit) -> None:
    visit.open("The Copper Heron")
    visit.find("#question").fill(QUESTION)

    visit.find("#go-answer").click()

    expect(visit.find(".answer[aria-busy=false] .mode")).to_have_text("From the sources")
    expect(visit.find(".answer .spoken")).to_contain_text("boathouse")
    expect(visit.find(".answer .spoken .quote-mark .tick.yes").first).to_be_visible()
    expect(visit.find(".answer blockquote .quote-mark")).to_have_count(0)
    # Its quotes name their sources, so there is no list that says all of it again.
    expect(visit.find(".answer .spoken p").filter(has_text="heron.md").first).to_be_visible()
    expect(visit.find(".answer .source")).to_have_count(0)
    expect(visit.find(".answer")).to_be_focused()
    visit.find(".answer .cite").first.click()
    expect(visit.find("#text .s.lit").first).to_be_in_viewport()

    visit.find("#tab-why").click()
    expect(visit.find("svg.scale")).to_have_attribute(
        "aria-label", re.compile(r"0\.\d+ is needed; the best passage")
    )
    expect(visit.find("#panel-why")).to_contain_text(re.compile(r"\d+% within 20 words"))
    expect(visit.find("svg.funnel")).to_have_attribute("aria-label", re.compile("returned"))
    expect(visit.find("#panel-why .verdict").first).to_have_text("given to the model")


def test_text_pane_shows_the_source_of_an_answer(visit: Visit) -> None:
    visit.open("mill.docx")
    visit.find("#question").fill(QUESTION)
    visit.find("#go-answer").click()
    expect(visit.find("#reading-title")).to_have_text("The Copper Heron")
    expect(visit.find("#text .s.lit").first).to_be_in_viewport()
    expect(visit.find(".answer")).to_be_focused()


def test_best_first_order_follows_the_shown_score(visit: Visit) -> None:
    visit.find("#options summary").click()
    shown: dict[str, list[float]] = {}
    for mode in ("hybrid", "vector"):
        visit.find("#search-mode").select_option(mode)
        visit.ask("key of the boathouse and the lever of the sluice gate of the mill")
        scores = visit.find("#panel-context .card-head .score").all_inner_texts()
        shown[mode] = [float(score) for score in scores if score != "–"]
    assert all(len(scores) > 1 for scores in shown.values())
    assert {mode: sorted(scores, reverse=True) for mode, scores in shown.items()} == shown


def test_wide_table_scrolls_in_its_own_box(visits: Visits, tmp_path: Path) -> None:
    head = ",".join(f"A long name of the column {at}" for at in range(12))
    rows = "\n".join(f"Station {row}," + ",".join(["a remark"] * 10) + "," for row in range(40))
    (tmp_path / "lights.csv").write_text(f"{head}\n{rows}\n", "utf-8")
    with truespan.open(tmp_path / "library", create=True) as library:
        library.create_world("coast").ingest(tmp_path / "lights.csv")
    with served(tmp_path / "library") as running:
        visit = visits(running.address, viewport={"width": 1280, "height": 800})
        visit.find("#question").fill("What is the remark about Station 33?")
        visit.find("#go-answer").click()
        expect(visit.find("#text .s.lit").first).to_be_in_viewport()
        visit.find("#tab-context").click()
        expect(visit.find("#panel-context .card table").first).to_be_visible()

        moved, outside = visit.page.evaluate(
            """() => [
                [...document.querySelectorAll('body, main, .pane, .talk, .text')]
                    .filter((one) => one.scrollLeft > 0).map((one) => one.id || one.tagName),
                [...document.querySelectorAll('.card .table-box, #text .table-box')]
                    .filter((box) => box.getBoundingClientRect().right
                        > box.closest('.card, .text').getBoundingClientRect().right).length]"""
        )
        assert (moved, outside) == ([], 0)
        # A row without a last cell does not end the table.
        expect(visit.find("#text table").first.locator("tr").nth(2)).to_be_attached()


def test_near_misses_skipped_hits_and_gates_are_explained(visit: Visit) -> None:
    def change(route: Route) -> None:
        reply = route.fetch()
        bundle = reply.json()
        bundle["metadata"]["skipped"] = [{"code": "damaged_text", "count": 2}]
        bundle["metadata"]["near_misses"] = [
            {
                "chunk_id": "x", "score": 0.291, "source": "far.txt", "path": "notes/far.txt",
                "chapter": "Elsewhere",
            }
        ]  # fmt: skip
        route.fulfill(response=reply, json=bundle)

    def decide(route: Route) -> None:
        reply = route.fetch()
        events = reply.text().split("\n\n")
        answer = json.loads(events[-2].partition("data: ")[2])
        answer["decision_explain"] |= {
            "missing_words": ["insulin", "dose"],
            "mode": "hybrid",
            "reason": "gate_failed",
            "gates": [
                {"name": "min_chunks_for_hybrid", "needed": 3, "found": 1, "held": False},
                {"name": "min_total_context_chars", "needed": 100, "found": 240, "held": True},
            ],
        }
        events[-2] = f"event: finished\ndata: {json.dumps(answer)}"
        route.fulfill(response=reply, body="\n\n".join(events))

    visit.page.route("**/retrieve?*", change)
    visit.page.route("**/conversations", decide)
    visit.ask(QUESTION)
    visit.find("#go-answer").click()
    expect(visit.find(".answer[aria-busy=false]")).to_be_visible()
    visit.find("#tab-why").click()

    why = visit.find("#panel-why")
    expect(why).to_contain_text("2 left out: its text is damaged")
    expect(why.locator(".rows li").filter(has_text="notes/far.txt")).to_contain_text("0.291")
    expect(why.locator(".gates .failed")).to_contain_text("passages: 1 needs 3: failed")
    expect(why.locator(".gates .held")).to_contain_text("characters of context: 240")
    expect(why).to_contain_text("No passage contains “insulin”, “dose”.")


def test_figure_is_shown_beside_its_passage(visit: Visit) -> None:
    visit.ask("How is the sluice gate of the mill lifted?")

    figure = visit.find("#panel-context .card .figure").first
    expect(figure).to_contain_text(SHOWN)
    expect(figure.locator("img")).to_be_visible()
    assert figure.locator("img").evaluate("image => image.naturalWidth") == 40
    expect(visit.find("#panel-context")).not_to_contain_text("[FIGURE:")

    figure.get_by_role("button").click()
    expect(visit.find("#picture img")).to_be_visible()
    visit.page.keyboard.press("Escape")

    visit.open("mill.docx")
    expect(visit.find("#text .figure img")).to_be_visible()


def test_selected_text_can_be_asked_about_and_located(visit: Visit) -> None:
    visit.open("The Copper Heron")
    visit.find("#s3").select_text()
    visit.find("#ask-selection").click()
    visit.settled()
    sent = visit.page.evaluate("document.querySelector('#selection').innerText")
    assert "oiled it on the first day" in sent
    expect(visit.find(".located")).to_contain_text("sentence 3")
    expect(visit.find("#toolbar")).to_be_hidden()
    visit.find("#selection button").click()
    expect(visit.find("#selection")).to_be_hidden()


def test_markup_in_a_document_is_shown_as_text(visit: Visit) -> None:
    visit.open("markup.txt")
    expect(visit.find("#text")).to_contain_text(SCRIPT)
    visit.ask("What does the example about markup read?")
    card = visit.find("#panel-context .card").filter(has_text="markup.txt")
    expect(card.locator(".card-text")).to_contain_text(SCRIPT)
    assert visit.page.title() == "Truespan"
    assert visit.find("#text img, #panel-context .card-text img").count() == 0


def test_second_question_replaces_the_running_one(visit: Visit) -> None:
    held: list[Route] = []
    visit.page.route("**/retrieve?*", lambda route: held.append(route), times=1)
    visit.find("#question").fill("first")
    visit.find("#go").click()
    expect(visit.find("#panel-context[aria-busy]")).to_have_count(1)

    visit.ask(QUESTION)
    held[0].abort()

    (body,) = visit.bodies("/retrieve")
    found = [chunk["chunk_id"] for chunk in json.loads(body)["retrieved_chunks"]]
    shown = visit.find("#panel-context .card").evaluate_all("all => all.map(c => c.dataset.chunk)")
    assert sorted(shown) == sorted(found)
    expect(visit.find("#alerts")).to_be_empty()


def test_citation_opens_another_document(visit: Visit) -> None:
    visit.open("The Copper Heron")
    visit.ask("How is the sluice gate of the mill lifted?")
    visit.find("#panel-context .card").filter(has_text="mill.docx").locator("[data-show]").click()
    expect(visit.find("#reading-title")).to_have_text("mill.docx")
    expect(visit.find("#text .s.lit").first).to_be_in_viewport()
