"""The page of an evaluation: self-contained, escaped, accessible, and without document text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import combinations
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from truespan.evaluation.calibrate import calibrate
from truespan.evaluation.compare import compare, gate
from truespan.evaluation.evaluate import Evaluation, Found, ScoredHit, evaluate, scored_hits
from truespan.evaluation.golden import Expected, GoldenQuery
from truespan.evaluation.report import (
    MAX_BARS,
    MAX_POINTS,
    MAX_ROWS,
    EvaluationReport,
    element,
    report_page,
    report_sections,
    text,
)
from truespan.types.request import Mode

BODY = "what stands in the document"
HOSTILE = "\"'><script>alert(1)</script><img src=//evil.example/x onerror=y>&lt;\x00\x1b\ud800"


def evaluation(name: str = "new", count: int = 30, shift: int = 0) -> Evaluation:
    """Return an evaluation whose queries find their document at one of three places."""
    golden = [
        GoldenQuery(f"q{number}", f"question {number}?", (Expected("right"),), ())
        for number in range(count)
    ]

    def search(query: GoldenQuery) -> list[Found]:
        place = (int(query.id[1:]) + shift) % 3
        names = ["x", "y"]
        names.insert(place, "right")
        number = int(query.id[1:])
        return [
            Found(one, f"{one}.md", 0.7 - rank / 10 + number / 1000, BODY)
            for rank, one in enumerate(names)
        ]

    return evaluate(name, golden, search)


def against_old(old: Evaluation, new: Evaluation) -> EvaluationReport:
    comparison = compare(old, new)
    return EvaluationReport(
        title=new.name,
        evaluations=(old, new),
        names=(old.name, new.name),
        comparisons=(comparison,),
        verdict=gate(comparison),
        curve=calibrate(scored_hits(new)),
    )


def alone(subject: Evaluation) -> EvaluationReport:
    return EvaluationReport(
        title=subject.name, evaluations=(subject,), curve=calibrate(scored_hits(subject))
    )


def of_modes(title: str, evaluations: dict[Mode, Evaluation]) -> EvaluationReport:
    found = tuple(evaluations.values())
    comparisons = tuple(compare(old, new) for old, new in combinations(found, 2))
    return EvaluationReport(title, found, tuple(evaluations), comparisons)


def page_of() -> str:
    return report_page(against_old(evaluation("old"), evaluation("new", shift=1)))


class Reader(HTMLParser):
    """Checks that every element is closed, and keeps what the page holds."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_a_page_asks_for_nothing_and_runs_nothing() -> None:
    page = page_of()
    reader = Reader(page)

    tags = {tag for tag, _ in reader.tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "a", "base", "form"}
    keys = {key for _, attributes in reader.tags for key in attributes}
    assert not [key for key in keys if key.startswith("on") or key in ("href", "src", "style")]
    assert {*re.findall(r"url\(([^)]*)\)", page)} == {"#distribution-hatching", "#changes-hatching"}
    assert "//" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "@import" not in page
    [policy] = [one["content"] for one in reader.named("meta") if "http-equiv" in one]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_each_plot_has_a_title_and_description() -> None:
    reader = Reader(page_of())

    plots = reader.named("svg")
    ids = {attributes.get("id") for _, attributes in reader.tags}
    assert len(plots) == 3
    for plot in plots:
        assert plot["role"] == "img"
        assert set((plot["aria-labelledby"] or "").split()) <= ids


def test_every_plot_is_well_formed_and_its_numbers_are_finite() -> None:
    for svg in re.findall(r"<svg.*?</svg>", page_of(), re.DOTALL):
        root = ElementTree.fromstring(svg)
        assert not [
            value
            for node in root.iter()
            for value in node.attrib.values()
            if re.search(r"\b(?:nan|inf)\b", str(value))
        ]


def test_bars_say_in_words_what_they_show() -> None:
    page = page_of()

    assert re.search(r"<rect class=\"worse\"[^>]*><title>q0: 1\.000 to 0\.631 \(-0\.369\)", page)
    assert re.search(r"<rect class=\"hit\"[^>]*><title>hit: \d+\.\d% between", page)


def test_the_page_is_for_light_and_dark() -> None:
    assert "color-scheme: light dark" in page_of()
    assert "@media (prefers-color-scheme: dark)" in page_of()


def test_no_word_of_a_document_is_on_the_page() -> None:
    assert BODY not in page_of()


def test_foreign_text_is_escaped() -> None:
    golden = [GoldenQuery("q", HOSTILE, (Expected(HOSTILE),))]
    hostile = evaluate(HOSTILE, golden, lambda _: [Found(HOSTILE, HOSTILE, 0.5, HOSTILE)])
    page = report_page(alone(hostile)) + report_page(against_old(hostile, hostile))

    reader = Reader(page)

    assert not {tag for tag, _ in reader.tags} & {"script", "img"}
    assert "".join(reader.words).count("<script>alert(1)</script>") >= 4
    assert not set("\x00\x1b") & set(page)
    page.encode()


def test_text_and_attributes_are_escaped() -> None:
    written = element("p", {"title": "\"'<&"}, text("\"'<&"))

    assert written == '<p title="&quot;&#x27;&lt;&amp;">&quot;&#x27;&lt;&amp;</p>'


def test_the_same_values_give_the_same_page() -> None:
    assert page_of() == page_of()


def test_the_page_shows_figures_verdict_proposal_and_queries() -> None:
    words = "\n".join(Reader(page_of()).words)

    assert "30 queries, 30 judged" in words
    assert "10 better, 20 worse, 0 same" in words
    assert "nDCG@10" in words
    assert "question 29?" in words
    assert "AUC" in words


def test_report_page_of_one_evaluation_lists_what_was_found() -> None:
    reader = Reader(report_page(alone(evaluation())))

    assert len(reader.named("svg")) == 2
    assert "right.md" in "\n".join(reader.words)


def test_report_sections_are_those_of_the_page_without_queries() -> None:
    report = against_old(evaluation("old"), evaluation("new", shift=1))

    sections = report_sections(report, level=2)

    assert sections in report_page(report)
    assert "question 29?" not in sections


@pytest.mark.parametrize("found", [[], [Found("right", "r", 0.5, "")]])
def test_one_query_with_one_hit_or_none_has_a_page(found: list[Found]) -> None:
    one = evaluate("one", [GoldenQuery("q", "x", (Expected("right"),))], lambda _: found)

    for page in (report_page(against_old(one, one)), report_page(alone(one))):
        assert "nan" not in " ".join(Reader(page).words).lower().split()


def test_a_large_evaluation_keeps_the_page_within_bounds() -> None:
    large = evaluation(count=MAX_ROWS + 5)
    hits = [ScoredHit(place / 5000, place % 2 == 0) for place in range(5000)]

    report = against_old(evaluation("old", MAX_ROWS + 5, 1), large)
    page = report_page(replace(report, curve=calibrate(hits)))

    assert "5 more queries are in the JSON form." in page
    assert len(re.findall(r'<rect class="(?:better|worse|same)"', page)) == MAX_BARS
    [points, _] = re.findall(r'points="([^"]*)"', page)
    assert len(points.split()) <= MAX_POINTS + 1


MODES = (Mode.VECTOR, Mode.KEYWORD, Mode.HYBRID)


def test_modes_have_a_page_with_means_changes_and_every_query() -> None:
    evaluations = {mode: evaluation(mode, shift=place) for place, mode in enumerate(MODES)}
    page = report_page(of_modes("w", evaluations))
    reader = Reader(page)
    words = "\n".join(reader.words)

    assert len(reader.named("svg")) == 4
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert "changes-hatching" in ids
    assert "Change from vector to hybrid" in words
    assert "question 29?" in words
    assert BODY not in page
    hostile = of_modes(HOSTILE, dict.fromkeys(MODES, evaluation(HOSTILE, 1)))
    assert not {tag for tag, _ in Reader(report_page(hostile)).tags} & {"script", "img"}
