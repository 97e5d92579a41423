"""A selected text: it ranks alone, limits a query, and is located."""

import logging
import math
import operator
from array import array
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.worlds import (
    LibraryFixture,
    WordEmbedder,
    make_library,
    other_profile,
    similarity,
    vector_of,
)
from truespan.engine.world import World
from truespan.types.bundle import BundleStatus, Located
from truespan.wire.serialize import to_json

HARBOUR = "The harbour light burned all night. The harbour master slept."
GARDEN = "The garden was full of roses. A gardener cut the roses."
STATION = "A station clock had stopped. No train came that evening."
SELECTED = "gardener cut roses garden"


def three(folder: Path) -> World:
    return make_library(folder).world(a__txt=HARBOUR, b__txt=GARDEN, c__txt=STATION)


@proves("bundle.query-type", "bundle.selection-related")
def test_selection_alone_ranks_related_text(tmp_path: Path) -> None:
    bundle = three(tmp_path).retrieve(selected_text=SELECTED)

    assert bundle.metadata.query_type == "selected_text"
    assert bundle.metadata.sources[0].source == "b.txt"
    best = bundle.retrieved_chunks[0].relevance_score
    assert best == pytest.approx(similarity(vector_of(SELECTED), vector_of(GARDEN)), abs=1e-6)
    assert all(chunk.relevance_score >= 0.3 for chunk in bundle.retrieved_chunks)


@proves("bundle.query-type", "bundle.no-matches")
def test_selection_without_related_text_matches_nothing(tmp_path: Path) -> None:
    bundle = three(tmp_path).retrieve(selected_text="quantum chromodynamics")

    assert (bundle.status, bundle.retrieved_chunks) == (BundleStatus.NO_MATCHES, ())
    assert bundle.error is None


@proves("bundle.query-type")
def test_without_a_selection_the_query_type_is_standard(tmp_path: Path) -> None:
    assert three(tmp_path).retrieve("harbour").metadata.query_type == "standard"


@proves("bundle.selection-related", "bundle.query-type")
def test_query_ranks_and_the_selection_limits(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(
        a__txt="The lamp burned in the garden of roses.",
        b__txt="The lamp burned.",
        c__txt="The garden of roses had a lamp and it burned with roses and roses.",
    )
    query, selection = "the lamp burned", "garden of roses"

    free = world.retrieve(query)
    scoped = world.retrieve(query, selected_text=selection)

    assert [note.source for note in free.metadata.sources] == ["b.txt", "a.txt", "c.txt"]
    assert [note.source for note in scoped.metadata.sources] == ["a.txt", "c.txt"]
    assert scoped.metadata.query_type == "selected_text"
    for chunk in scoped.retrieved_chunks:
        assert similarity(vector_of(selection), vector_of(chunk.content)) >= 0.3
        exact = similarity(vector_of(query), vector_of(chunk.content))
        assert chunk.relevance_score == pytest.approx(exact, abs=1e-6)


@proves("bundle.selection-related", "bundle.error-without-chunks")
def test_results_unrelated_to_the_selection_are_a_violation(tmp_path: Path) -> None:
    bundle = three(tmp_path).retrieve("harbour light", selected_text="quantum chromodynamics")

    assert bundle.status is BundleStatus.ERROR
    assert bundle.error is not None
    assert (bundle.error.code, bundle.error.retryable) == ("scope_violation", False)
    assert (bundle.retrieved_chunks, bundle.context, bundle.total_tokens) == ((), "", 0)


@proves("bundle.selection-related", "bundle.no-matches")
def test_empty_result_is_not_a_selection_violation(tmp_path: Path) -> None:
    bundle = three(tmp_path).retrieve("zebra", selected_text=SELECTED)

    assert (bundle.status, bundle.error) == (BundleStatus.NO_MATCHES, None)


@proves("bundle.selection-related")
def test_results_excluded_by_the_selection_are_replaced(tmp_path: Path) -> None:
    names = {f"a{n:02}__txt": f"The lamp burned {n}" for n in range(20)}
    related = {f"z{n}__txt": f"The lamp in the garden of roses {n} was lit" for n in range(3)}
    world = make_library(tmp_path).world(**names, **related)

    bundle = world.retrieve("the lamp burned", selected_text="garden of roses", top_k=3)

    assert {note.source for note in bundle.metadata.sources} == {"z0.txt", "z1.txt", "z2.txt"}
    assert bundle.status is BundleStatus.SUCCESS


# Where it stands

TEXT = (
    "# Lamps\n\n## One\n\nIt was late. “Who’s there?” she said — and the lamp\nwent out...\n\n"
    "### Below\n\nNobody answered. It was late."
)


def located(folder: Path, selection: str) -> tuple[Located, ...]:
    lib = make_library(folder)
    world = lib.world(lamps__md=TEXT, other__txt="Who lit the lamp that went out late?")
    return world.retrieve(selected_text=selection, top_k=20).metadata.located


@proves("bundle.selection-related")
@pytest.mark.parametrize(
    "selection",
    [
        "“Who’s there?” she said — and the lamp\nwent out...",
        '"Who\'s there?" she said - and the lamp went out...',
        "  “Who’s  there?”\n\n\tshe said – and the lamp went out…  ",
    ],
)
def test_selection_is_found_despite_spaces_quotes_and_dashes(tmp_path: Path, selection: str):
    found = located(tmp_path, selection)

    assert len(found) == 1
    text = make_library(tmp_path).library.world("world").documents.text("lamps.md")
    words = " ".join(text[found[0].start : found[0].end].split())
    assert words == "“Who’s there?” she said — and the lamp went out..."
    assert (found[0].document, found[0].source) == (1, "lamps.md")
    assert (found[0].chapter, found[0].section) == ("One", "One")


@proves("bundle.selection-related")
def test_place_of_a_selection_names_its_section_and_sentences(tmp_path: Path) -> None:
    (found,) = located(tmp_path, "Nobody answered. It was")

    assert (found.chapter, found.section) == ("One", "Below")
    text = make_library(tmp_path).library.world("world").documents.text("lamps.md")
    assert text[found.start : found.end] == "Nobody answered. It was"
    sentences = make_library(tmp_path).sql(
        "SELECT sid, start, finish FROM sentences WHERE revision = 1 ORDER BY sid"
    )
    spelled = [text[start:end] for _, start, end in sentences]
    assert spelled[found.first_sid : found.last_sid + 1] == ["Nobody answered.", "It was late."]


@proves("bundle.selection-related")
@pytest.mark.parametrize("selection", ["she said and the lamp", "the lamp went up", "LATE"])
def test_selection_that_occurs_nowhere_has_no_place(tmp_path: Path, selection: str):
    assert located(tmp_path, selection) == ()


@proves("bundle.selection-related", "request.constraints-combine")
def test_selection_is_searched_for_only_within_the_filters(tmp_path: Path) -> None:
    world = three(tmp_path)

    within = world.retrieve(selected_text=GARDEN, documents=["b.txt"]).metadata.located
    outside = world.retrieve(selected_text=GARDEN, documents=["a.txt"]).metadata.located

    assert [place.source for place in within] == ["b.txt"]
    assert outside == ()


# Long ones, and silence


@proves("request.selection-length", "bundle.selection-related")
def test_long_selection_is_embedded_in_parts_of_sentences(tmp_path: Path) -> None:
    narrow = WordEmbedder(profile=other_profile(input_limit=72))
    lib = make_library(tmp_path, embedder=narrow)
    world = lib.world(a__txt=HARBOUR, b__txt=GARDEN, c__txt=STATION)
    selection = " ".join(f"The gardener cut rose number {count}." for count in range(20))

    alone = world.retrieve(selected_text=selection)
    scoped = world.retrieve("roses", selected_text=selection)

    assert len(narrow.queries) > 2
    parts = [query for query in narrow.queries if query != "roses"]
    assert " ".join(parts) == selection
    assert all(part.endswith(".") and len(part.split()) <= 72 for part in parts)
    assert [note.source for note in scoped.metadata.sources] == ["b.txt"]
    best = alone.retrieved_chunks[0]
    assert best.content == GARDEN
    assert best.relevance_score == pytest.approx(_to_the_mean(parts, GARDEN), abs=1e-6)


def _to_the_mean(parts: list[str], text: str) -> float:
    """Return the cosine between a text and the mean direction of other texts."""
    numbers = [array("f", vector_of(part)) for part in parts]
    mean = [sum(column) for column in zip(*numbers, strict=True)]
    dot = sum(map(operator.mul, mean, array("f", vector_of(text))))
    return dot / math.sqrt(sum(number * number for number in mean))


@proves("request.selection-length")
def test_longest_allowed_selection_is_answered(tmp_path: Path) -> None:
    world = three(tmp_path)

    for selection in ("x" * 5000, "garden " * 714, "g " * 2500, "。" * 5000):
        assert world.retrieve(selected_text=selection[:5000]).status is not BundleStatus.ERROR


@proves("bundle.content-unaltered")
def test_selection_is_not_logged_stored_or_returned(
    tmp_path: Path, lib: LibraryFixture, caplog: pytest.LogCaptureFixture
) -> None:
    world = lib.world(a__txt=HARBOUR, b__txt=GARDEN)
    secret = "zq00001x the garden of roses"

    with caplog.at_level(logging.DEBUG):
        bundles = [
            world.retrieve(selected_text=secret),
            world.retrieve("roses", selected_text=secret),
            world.retrieve("harbour", selected_text="zq00001x quantum"),
        ]
    lib.library.close()

    assert [bundle.status.value for bundle in bundles] == ["success", "partial", "error"]
    assert all("zq00001x" not in to_json(bundle) for bundle in bundles)
    assert "zq00001x" not in caplog.text
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("store.db*"))
    assert b"zq00001x" not in kept
