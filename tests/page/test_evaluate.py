"""Evaluating from the page: the same figures as the library, plots, progress, and editing."""

import json
from typing import Any

import pytest
from playwright.sync_api import FilePayload, expect

import truespan
from tests.page.library import LAST_READ, Served
from tests.page.test_compare import DESK, PHONE, compared, comparison, open_page
from tests.page.test_form import CONTRAST, SMALL
from tests.page.visit import Visit, Visits
from truespan.extensions.quality.report import EvaluationReport

GOLDEN = """\
- id: nail
  query: Where did the brass key hang?
  phrases: ["behind the barometer"]
- id: thief
  query: Who took the key of the boathouse?
  expected: [heron.md]
  phrases: ["the stationmaster Wrenfield"]
- id: gate
  query: How is the sluice gate lifted?
  expected: [mill.docx]
- id: bird
  query: Which bird stood on the slip?
  phrases: ["A heron stood on the slip"]
- id: moon
  query: What colour is the moon?
  phrases: ["the moon is silver"]
- id: chart
  query: Where is the missing chart?
  expected: [charts.md]
"""


@pytest.fixture(scope="module")
def library(harbour: Served) -> Served:
    """The library with a second generation and a reader."""
    with truespan.open(harbour.library) as opened:
        world = opened.world("harbour")
        if len(world.generations.list()) == 1:
            world.generations.reindex(chunking="sentences")
        world.reader("enid").set_position("heron.md", sentence=LAST_READ)
    return harbour


def choose_file(visit: Visit, text: str = GOLDEN, name: str = "mine.yaml") -> None:
    file: FilePayload = {"name": name, "mimeType": "text/yaml", "buffer": text.encode()}
    visit.find("#golden-file").set_input_files(file)
    expect(visit.find("#golden")).to_have_value(text)


def evaluate(visit: Visit) -> None:
    visit.find("#evaluate-run").click()
    expect(visit.find("[data-part=queries]")).to_be_visible()
    expect(visit.find("#evaluate-run")).to_be_visible()


def column(visit: Visit, part: str, place: int) -> list[str]:
    cells = visit.find(f"[data-part={part}] .means tr td:nth-of-type({place})")
    return cells.all_inner_texts()


def test_golden_queries_are_run_with_plots_and_every_outcome(visits: Visits, library: Served):
    visit = open_page(visits, library, "#view=evaluate")
    expect(visit.find("#evaluate-run")).to_be_disabled()
    choose_file(visit)
    expect(visit.find("#golden-count")).to_have_text("6 queries")
    evaluate(visit)

    with truespan.open(library.library) as opened:
        whole = opened.world("harbour").evaluation.run(GOLDEN.encode())
    metrics = whole.totals.metrics
    named = [metrics.hit, metrics.reciprocal_rank, metrics.recall, metrics.precision, metrics.ndcg]
    assert column(visit, "means", 1) == [
        f"{value:.4f}" for value in [*named, metrics.phrase_hit] if value is not None
    ]
    expect(visit.find(".evaluate-totals")).to_have_text(
        "6 queries, 6 judged, 1 expected documents absent"
    )
    # Each mean says over how many queries it is, and its k.
    labels = visit.find("[data-part=means] tbody th").all_inner_texts()
    assert labels[:3] == ["hit rate 6 queries", "MRR 6 queries", "recall@10 3 queries"]
    hits = sum(len(result.hits) for result in whole.results)
    relevant = sum(hit.relevant for result in whole.results for hit in result.hits)
    plot = visit.find("[data-plot=distribution]")
    expect(plot).to_contain_text(f"{relevant} relevant hits (filled) and {hits - relevant}")
    # Each kind is drawn as shares that add up to one; the legend has one of each.
    titles = plot.locator("rect.hit title").all_text_contents()
    shares = [float(one.partition(": ")[2].partition("%")[0]) for one in titles]
    assert sum(shares) == pytest.approx(100, abs=1)
    expect(visit.find("[data-plot=threshold] polyline")).to_have_count(2)

    rows = visit.find("#evaluate-queries tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.filter(has_text="missing chart")).to_contain_text("not in this world: charts.md")
    visit.find("[data-filter=missed]").click()
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="moon").locator(".outcome")).to_have_text("not found")

    # The entry of a result is found in the text, and a query can be added to it.
    rows.filter(has_text="moon").get_by_role("button").click()
    selected = """() => { const box = document.querySelector('#golden');
        return box.value.slice(box.selectionStart, box.selectionEnd); }"""
    assert visit.page.evaluate(selected).startswith("- id: moon")
    assert "chart" not in visit.page.evaluate(selected)
    visit.find("#evaluate-add summary").click()
    visit.find("#add-query").fill('Who said "quay: yes"?')
    visit.find("#add-golden").click()
    expect(visit.find("#add-hint")).to_contain_text("Name a document or a phrase")
    visit.find("#add-phrases").fill('in front of the "whole" quay\nHe confessed')
    visit.find("#add-golden").click()
    evaluate(visit)
    expect(visit.find(".evaluate-totals")).to_contain_text("7 queries, 7 judged")

    # The text is kept in the browser, and saved as a file.
    visit.page.reload()
    expect(visit.find("#golden-count")).to_have_text("7 queries")
    with visit.page.expect_download() as download:
        visit.find("#golden-save").click()
    assert download.value.suggested_filename == "mine.yaml"


def test_judged_answers_become_golden_queries(visits: Visits, library: Served):
    visit = open_page(visits, library, "")
    visit.find("#question").fill("Who took the key of the boathouse?")
    visit.find("#go-answer").click()
    expect(visit.find(".answer[aria-busy=false] .cite").first).to_be_visible()
    expect(visit.find("#count-context")).not_to_be_empty()
    visit.find(".thumb").first.click()
    expect(visit.find(".thumb").first).to_be_disabled()
    visit.find(".thumb.down").click()

    # The bad answer is taken to the form, where the right document is named.
    expect(visit.find("#add-query")).to_have_value("Who took the key of the boathouse?")
    expect(visit.find("#golden-count")).to_have_text("1 query")
    golden = visit.find("#golden").input_value()
    # The documents that were cited; which phrase is right, nobody said.
    assert "heron.md" in golden
    assert "phrases" not in golden
    other = visit.page.context.new_page()
    other.goto(visit.page.url)
    expect(other.locator("#golden-count")).to_have_text("1 query")
    other.close()
    evaluate(visit)
    expect(visit.find(".outcome.found")).to_have_count(1)


def test_compared_question_can_be_kept_as_a_golden_query(visits: Visits, library: Served):
    question = "How is the sluice gate lifted?"
    visit = open_page(visits, library, comparison("as=owner", "as=owner&mode=words", question))
    compared(visit).first.locator(".compare-keep").first.click()

    expect(visit.find("#add-query")).to_have_value(question)
    expect(visit.find("#add-document")).to_have_value("mill.docx")
    visit.find("#add-golden").click()
    expected = f'- query: "{question}"\n  expected: ["mill.docx"]\n'
    expect(visit.find("#golden")).to_have_value(expected)
    evaluate(visit)
    expect(visit.find(".evaluate-totals")).to_have_text("1 query, 1 judged")
    visit.page.go_back()
    expect(visit.find("#compare-question")).to_have_value(question)


def test_modes_and_generations_are_compared_with_their_p_values(visits: Visits, library: Served):
    visit = open_page(visits, library, "#view=evaluate")
    choose_file(visit)
    for mode in ("hybrid", "vector", "keyword"):
        visit.find(f"#evaluate-{mode}").check()
    evaluate(visit)

    with truespan.open(library.library) as opened:
        world = opened.world("harbour")
        modes = ["vector", "keyword", "hybrid"]
        *_, whole = world.evaluation.report_stream(GOLDEN.encode(), modes=modes)
    assert isinstance(whole, EvaluationReport)
    heads = visit.find("[data-part=means] thead th").all_inner_texts()
    assert heads == ["metric", "vector", "keyword", "hybrid"]
    first = visit.find("[data-part=means] tbody tr").nth(1).locator("td").all_inner_texts()
    means = [one.totals.metrics.reciprocal_rank for one in whole.evaluations]
    assert first == [f"{value:.4f}" for value in means if value is not None]
    expect(visit.find("[data-plot=changes]")).to_have_count(3)
    bars = visit.find("[data-plot=changes]").first.locator("svg > rect")
    expect(bars).to_have_count(len(whole.comparisons[0].changes))
    visit.find("[data-filter=changed]").click()
    figures = [
        {
            one.results[at].metrics.ndcg or one.results[at].metrics.reciprocal_rank
            for one in whole.evaluations
        }
        for at in range(6)
    ]
    changed = sum(len(values) > 1 for values in figures)
    expect(visit.find("#evaluate-queries tbody tr")).to_have_count(changed)

    for mode in ("hybrid", "keyword"):
        visit.find(f"#evaluate-{mode}").uncheck()
    visit.find("#evaluate-generation").select_option("2")
    visit.find("#evaluate-against").select_option("1")
    evaluate(visit)
    expect(visit.find("[data-part=comparison] h3")).to_have_text(
        "Change from generation 1 to generation 2"
    )
    expect(visit.find(".evaluate-gate")).to_contain_text("The gate")
    visit.find("#evaluate-against").select_option("")
    visit.find("#evaluate-reader").fill("enid")
    evaluate(visit)
    expect(visit.find("#evaluate-name")).to_contain_text("reader enid")
    # Unread text is not judged.
    expect(visit.find(".evaluate-totals")).to_contain_text("2 judged, 4 unjudged")


def test_evaluation_can_be_stopped_and_errors_name_lines(visits: Visits, library: Served) -> None:
    visit = open_page(visits, library, "#view=evaluate")
    visit.failures_expected = True
    visit.find("#golden").fill("- query: Who?\n- querry: What?\n  phrases: []\n")
    visit.find("#evaluate-run").click()
    # The text says what is wrong with it, and its first wrong line is selected.
    expect(visit.find("#golden-problem")).to_contain_text("line 2")
    expect(visit.find("#golden")).to_have_attribute("aria-invalid", "true")
    expect(visit.find("#golden")).to_be_focused()
    selected = "box => box.value.slice(box.selectionStart, box.selectionEnd)"
    assert visit.find("#golden").evaluate(selected) == "- query: Who?"

    # The stream is held back, so that it is still running when it is stopped.
    held: list[Any] = []
    visit.page.route("**/evaluate", lambda route: held.append(route))
    visit.find("#golden").fill(GOLDEN)
    visit.find("#evaluate-run").click()
    expect(visit.find("#evaluate-progress")).to_be_visible()
    expect(visit.find("#evaluate-done")).to_have_text("Starting …")
    visit.find("#evaluate-stop").click()
    expect(visit.find("#evaluate-progress")).to_be_hidden()
    expect(visit.find("#said")).to_have_text("Stopped.")
    visit.page.unroute("**/evaluate")

    # A progress event is sent for each query.
    evaluate(visit)
    [streamed] = [body for body in visit.bodies("/evaluate") if "event: finished" in body]
    steps = [
        json.loads(block.partition("data: ")[2])
        for block in streamed.split("\n\n")
        if block.startswith("event: progress")
    ]
    assert steps == [{"done": done, "searches": 6} for done in range(7)]


def test_a_token_for_a_reader_cannot_evaluate(visits: Visits, library: Served):
    token = library.token("--world", "harbour", "--reader", "enid")
    visit = visits(library.address, **DESK)
    visit.page.evaluate("(secret) => sessionStorage.setItem('truespan.token', secret)", token)
    visit.page.goto("about:blank")
    visit.page.goto(f"{library.address}#view=evaluate")
    expect(visit.find("#evaluate-body")).to_contain_text("may not evaluate")
    expect(visit.find("#golden")).to_have_count(0)


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_report_fits_every_screen(
    visits: Visits, library: Served, screen: dict[str, Any], colours: str
) -> None:
    visit = open_page(visits, library, "#view=evaluate", **screen, color_scheme=colours)
    choose_file(visit)
    visit.find("#evaluate-vector").check()
    visit.find("#evaluate-keyword").check()
    evaluate(visit)
    assert visit.page.evaluate(CONTRAST) == []
    if screen is PHONE:
        assert visit.page.evaluate(SMALL) == []
    wide = "document.querySelector('#view-evaluate').scrollWidth > window.innerWidth"
    assert not visit.page.evaluate(wide)
