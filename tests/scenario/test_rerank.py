"""Reranking in a library: requests, the new order, and failures.

The similarity of a passage is chosen by hand, and the reranker prefers what is least similar. It
records the texts that it gets.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.answer_worlds import QUESTION, ScoreEmbedder, scored
from tests.support.reading_worlds import CHUNKINGS, frozen, stored
from tests.support.sample_books import book
from tests.support.worlds import (
    LibraryFixture,
    Lying,
    MemoryIndex,
    WordEmbedder,
    make_library,
    other_profile,
)
from truespan.core.cancel import CancelToken, check_cancelled, use_cancel_token
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import Interrupted, InvalidArgument, ProviderUnavailable
from truespan.protocols import Reranker
from truespan.retrieval.rerank import RerankOptions
from truespan.types.answer import AnswerRules
from truespan.types.bundle import BundleStatus, ContextBundle, SearchResult, WhyNot
from truespan.types.decision import DecisionSettings
from truespan.types.request import Mode
from truespan.types.scope import Scope
from truespan.types.trust import Hit
from truespan.wire.serialize import to_json

SCORES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)


@dataclass
class Backwards:
    """A reranker that prefers the last text, and records its requests."""

    name: str = "test/backwards"
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    before: Callable[[], None] | None = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, tuple(texts)))
        if self.before:
            self.before()
        return [float(place) for place in range(len(texts))]


def reranked(lib: LibraryFixture, reranker: Reranker, *, candidates: int = 4) -> World:
    options = RerankOptions(reranker, candidates)
    return Library(replace(lib.library._components, rerank=options)).world("world")


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> LibraryFixture:
    """A world of six documents, each with its similarity to every query."""
    folder = tmp_path_factory.mktemp("rerank")
    made = make_library(folder, embedder=ScoreEmbedder(), defaults="contract")
    files = {f"{number}__txt": scored(score) for number, score in enumerate(SCORES)}
    made.world(**files)
    return made


def similarities(found: SearchResult | ContextBundle) -> list[float]:
    if isinstance(found, SearchResult):
        return [passage.score for passage in found.passages]
    return [chunk.relevance_score for chunk in found.retrieved_chunks]


@proves("rerank.order")
def test_search_returns_the_best_candidates_in_the_new_order(lib: LibraryFixture) -> None:
    reranker = Backwards()

    found = reranked(lib, reranker).search(QUESTION, top_k=2, rerank=True)

    assert similarities(found) == [0.6, 0.7]
    [(query, texts)] = reranker.asked
    assert query == QUESTION
    assert [scored(score).strip() for score in SCORES[:4]] == list(texts)
    assert found.rerank is not None
    assert (found.rerank.model, found.rerank.candidates, found.rerank.moved) == (
        "test/backwards",
        4,
        4,
    )
    shown = [passage.rerank for passage in found.passages]
    assert [(one.score, one.before, one.after) for one in shown if one] == [
        (3.0, 4, 1),
        (2.0, 3, 2),
    ]
    assert (found.requested_k, found.effective_k, found.funnel.returned) == (2, 2, 2)
    assert (found.funnel.verified, found.warnings) == (4, ())
    assert found.context.startswith("A passage. (score 0.6")


@proves("rerank.order")
def test_results_after_the_candidates_keep_the_retrieval_order(lib: LibraryFixture) -> None:
    world = reranked(lib, Backwards())

    found = world.search(QUESTION, top_k=6, rerank=True)
    plain = world.search(QUESTION, top_k=6)

    assert similarities(found) == [0.6, 0.7, 0.8, 0.9, 0.5, 0.4]
    assert [passage.rerank is None for passage in found.passages] == [False] * 4 + [True] * 2
    assert similarities(plain) == list(SCORES)
    unranked = {replace(passage, rerank=None) for passage in found.passages}
    assert unranked == set(plain.passages)


@proves("rerank.order")
def test_retrieve_packs_the_new_order_and_explains_it(lib: LibraryFixture) -> None:
    world = reranked(lib, Backwards())

    bundle = world.retrieve(QUESTION, top_k=2, rerank=True, language=None)

    assert bundle.status is BundleStatus.SUCCESS
    assert similarities(bundle) == [0.6, 0.7]
    notes = [note.rerank for note in bundle.metadata.sources]
    assert [(note.before, note.after) for note in notes if note] == [(4, 1), (3, 2)]
    assert bundle.metadata.rerank is not None
    assert bundle.metadata.rerank.moved == 4
    assert "reranked" in bundle.metadata.trace
    assert bundle.metadata.funnel.verified == 4
    chunk = bundle.retrieved_chunks[0].chunk_id
    plain = world.retrieve(QUESTION, top_k=2, language=None)
    assert "reranked" not in plain.metadata.trace
    assert plain.metadata.rerank is None
    asked: dict[str, Any] = {"top_k": 2, "language": None}
    assert world.why_not(chunk, QUESTION, **asked).code is WhyNot.OUTRANKED
    assert world.why_not(chunk, QUESTION, rerank=True, **asked).code is WhyNot.RETURNED


@proves("rerank.order")
def test_answer_uses_the_new_order_and_keeps_its_decision(lib: LibraryFixture) -> None:
    rules = AnswerRules(decision=DecisionSettings(max_chunks=2))
    options = RerankOptions(Backwards(), 4)
    parts = replace(lib.library._components, rerank=options, answers=rules)
    world = Library(parts).world("world")

    plain, found = (world.answer(QUESTION, rerank=rerank) for rerank in (False, True))

    assert found.mode is plain.mode
    assert found.decision_explain["max_score"] == plain.decision_explain["max_score"]
    for answer, used in ((plain, [0.9, 0.8]), (found, [0.7, 0.6])):
        notes = answer.retrieved_chunks_metadata
        assert [note.similarity for note in notes if note.verdict is WhyNot.RETURNED] == used
        assert [note.similarity for note in notes] == list(SCORES)
    places = [note.rerank and note.rerank.after for note in found.retrieved_chunks_metadata]
    assert places == [4, 3, 2, 1, None, None]


@proves("rerank.order")
def test_sentences_and_neighbours_come_from_reranked_passages(lib: LibraryFixture) -> None:
    reranker = Backwards()
    world = reranked(lib, reranker)

    wide = world.search(QUESTION, top_k=2, rerank=True, neighbours=1)
    sentences = world.search(QUESTION, top_k=2, rerank=True, granularity="sentence")

    assert [passage.rerank and passage.rerank.before for passage in wide.passages] == [4, 3]
    places = {passage.rerank and passage.rerank.before for passage in sentences.passages}
    assert places <= {1, 2, 3, 4}
    # The reranker reads whole passages, also if only sentences are returned.
    assert {texts for _, texts in reranker.asked} == {
        tuple(scored(score).strip() for score in SCORES[:4])
    }


@proves("rerank.order")
def test_reranker_is_called_only_on_request(lib: LibraryFixture) -> None:
    reranker = Backwards()
    world = reranked(lib, reranker)

    for wanted in (None, False):
        world.search(QUESTION, rerank=wanted)
        world.retrieve(QUESTION, rerank=wanted, language=None)
        world.answer(QUESTION, rerank=wanted)
    world.search(QUESTION, top_k=0, rerank=True)
    world.retrieve(QUESTION, rerank=True, language="zz")

    assert reranker.asked == []


@proves("rerank.order")
def test_recommended_worlds_use_a_configured_reranker(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=ScoreEmbedder(), defaults="recommended")
    world = lib.world(a__txt=scored(0.9), b__txt=scored(0.8))
    assert world.search(QUESTION).rerank is None
    reranker = Backwards()
    world = reranked(lib, reranker)
    reader = world.reader("ann")
    reader.set_position("a.txt", sentence=world.documents.get("a.txt").sentences - 1)

    calls: list[Callable[..., Any]] = [world.search, world.retrieve, world.answer]
    for call in (*calls, reader.retrieve, reader.answer):
        for wanted, count in ((None, 1), (False, 0), (True, 1)):
            reranker.asked.clear()
            call(QUESTION, rerank=wanted)
            assert len(reranker.asked) == count, (call, wanted)
    reranker.asked.clear()
    assert world.retrieve(selected_text="A passage.").metadata.rerank is None
    world.set_defaults("contract")
    for call in (*calls, reader.retrieve, reader.answer):
        call(QUESTION)
    assert reranker.asked == []


@proves("rerank.order")
def test_unavailable_reranker_or_missing_query_is_a_mistake(lib: LibraryFixture) -> None:
    plain, world = lib.library.world("world"), reranked(lib, Backwards())
    reader = plain.reader("ann")
    for call, said in (
        (lambda: plain.search(QUESTION, rerank=True), r"No reranker.*\[rerank\]"),
        (lambda: plain.retrieve(QUESTION, rerank=True), "No reranker"),
        (lambda: plain.answer(QUESTION, rerank=True), "No reranker"),
        (lambda: reader.retrieve(QUESTION, rerank=True), "No reranker"),
        (lambda: reader.answer(QUESTION, rerank=True), "No reranker"),
        (lambda: world.retrieve(selected_text="A passage.", rerank=True), "give one"),
        (lambda: world.search(QUESTION, rerank=1), "true or false"),  # type: ignore[arg-type]
        (lambda: world.retrieve(QUESTION, rerank="yes"), "true or false"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidArgument, match=said):
            call()
    assert plain.search(QUESTION, rerank=False).rerank is None
    assert world.retrieve(selected_text="A passage.", rerank=False).metadata.rerank is None


@pytest.mark.needs_extension
@proves("rerank.order")
def test_evaluation_grades_reranked_order_and_its_failures(lib: LibraryFixture) -> None:
    golden = b'{"id": "q", "query": "who?", "expected": ["3.txt"]}\n'
    reranker = Backwards()
    world = reranked(lib, reranker)

    plain, found = (world.evaluation.run(golden, rerank=rerank) for rerank in (False, True))

    assert plain.results[0].documents[3].document == found.results[0].documents[0].document
    assert "reranked" in found.name

    def fail() -> None:
        raise InvalidArgument("no")

    reranker.before = fail
    assert world.evaluation.run(golden, rerank=True).results[0].error


# Failures


def broken(kind: str) -> Callable[[], None]:
    def before() -> None:
        if kind == "unavailable":
            raise ProviderUnavailable("The rerank server at secret.host:1 did not answer in time.")
        raise ZeroDivisionError("secret.host")

    return before


@proves("rerank.failure")
def test_failed_reranker_changes_no_result_and_gives_a_warning(lib: LibraryFixture):
    reranker = Backwards()
    world = reranked(lib, reranker)
    calls: list[Callable[[bool], Any]] = [
        lambda rerank: world.search(QUESTION, top_k=2, rerank=rerank).passages,
        lambda rerank: (
            world.retrieve(QUESTION, top_k=2, rerank=rerank, language=None).retrieved_chunks
        ),
        lambda rerank: world.answer(QUESTION, rerank=rerank).used_chunks,
    ]
    plain = [call(False) for call in calls]
    for kind, code in (("unavailable", "provider_unavailable"), ("bug", "internal_error")):
        reranker.before = broken(kind)

        assert [call(True) for call in calls] == plain

        found = world.search(QUESTION, rerank=True)
        bundle = world.retrieve(QUESTION, rerank=True, language=None)
        answer = world.answer(QUESTION, rerank=True)
        for report, warnings in (
            (found.rerank, found.warnings),
            (bundle.metadata.rerank, bundle.metadata.warnings),
            (None, answer.warnings),
        ):
            assert report is None or (report.failure, report.moved) == (code, 0)
            [warning] = [notice for notice in warnings if notice.code == "rerank_failed"]
            assert code in warning.message
        assert "secret" not in to_json(found) + to_json(bundle) + to_json(answer)


@proves("rerank.failure")
def test_cancelled_request_is_not_a_failure_of_the_reranker(lib: LibraryFixture) -> None:
    token = CancelToken()

    def cancel() -> None:
        token.cancel()
        check_cancelled()

    world = reranked(lib, Backwards(before=cancel))
    with use_cancel_token(token), pytest.raises(Interrupted):
        world.search(QUESTION, rerank=True)


@proves("rerank.failure", "search.one-state")
def test_world_changed_during_a_request_does_not_repeat_reranking(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=ScoreEmbedder())
    lib.world(a__txt=scored(0.9), b__txt=scored(0.8))
    reranker = Backwards()
    world = reranked(lib, reranker)
    left = [scored(0.1, f"Number {number}.") for number in range(3)]

    def change() -> None:
        if left:
            world.ingest(lib.write(f"{len(left)}.txt", left.pop()))

    lib.embedder.before = None
    reranker.before = change

    assert similarities(world.search(QUESTION, top_k=2, rerank=True, floor=0.5)) == [0.8, 0.9]
    assert len(reranker.asked) == 1


# What is sent


@proves("rerank.visible-text", "search.text-from-store")
def test_unverified_text_is_never_sent(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=ScoreEmbedder())
    lib.world(a__txt=scored(0.9), b__txt=scored(0.8, "A secret."), c__txt=scored(0.7))
    lib.sql("UPDATE chunks SET text = 'A forged secret.' WHERE text LIKE 'A secret%'")
    reranker = Backwards()

    found = reranked(lib, reranker).search(QUESTION, rerank=True)

    assert len(found.passages) == 2
    assert found.skipped
    [(_, texts)] = reranker.asked
    assert len(texts) == 2
    assert "secret" not in "".join(texts)


@proves("rerank.visible-text")
def test_filters_limit_the_sent_texts(lib: LibraryFixture) -> None:
    reranker = Backwards()
    world = reranked(lib, reranker)

    world.retrieve(QUESTION, documents=["1.txt", "4.txt"], rerank=True, language=None)

    [(_, texts)] = reranker.asked
    assert list(texts) == [scored(SCORES[1]).strip(), scored(SCORES[4]).strip()]


QUERIES = ("who lit the lamp?", "the night of the harbour", "zebra")


def sent_for_reader(lib: LibraryFixture) -> tuple[list[tuple[str, tuple[str, ...]]], list[str]]:
    """Return the requests to a reranker for a reader, and the reader's results."""
    reranker = Backwards()
    reader = reranked(lib, reranker, candidates=6).reader("ann")
    told: list[str] = []
    for query in QUERIES:
        for mode in Mode:
            asked: dict[str, Any] = {"mode": mode, "rerank": True}
            told += [frozen(reader.retrieve(query, top_k=k, **asked)) for k in (1, 5)]
            answer = json.loads(to_json(reader.answer(query, **asked)))
            told.append(json.dumps([answer["answer"], answer["used_chunks"], answer["warnings"]]))
    return reranker.asked, told


@proves("rerank.visible-text", "reading.non-interference", "reading.never-past-position")
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_reranking_for_a_reader_ignores_unread_text(tmp_path: Path, chunking: str) -> None:
    lib = make_library(tmp_path, embedder=WordEmbedder(profile=other_profile(input_limit=60)))
    world = lib.library.create_world("world")
    whole = book(31, "txt", 12)
    path = lib.write("book.txt", whole)
    world.ingest(path, kind="book", chunking=chunking)
    texts = stored(lib, world, 1).texts
    position = len(texts) // 2
    world.reader("ann").set_position("book.txt", sentence=position)

    before = sent_for_reader(lib)

    end = whole.index(texts[position]) + len(texts[position])
    lib.write("book.txt", f"{whole[:end]} But the zebra lit every lamp of the harbour that night.")
    world.ingest(path, kind="book", chunking=chunking)
    world.reader("ann").set_position("book.txt", sentence=position)
    after = sent_for_reader(lib)

    assert before[0]
    assert before == after
    read = " ".join(texts[: position + 1])
    for _, sent in before[0]:
        for text in sent:
            assert " ".join(text.split()) in " ".join(read.split())
    assert "rerank_failed" not in "".join(before[1])


class Spoiling(Lying):
    """An index that returns every text to a reader, read or not."""

    def __init__(self) -> None:
        super().__init__(lambda found, _: found)

    def search(self, scope: Scope, *args: Any, **settings: Any) -> list[Hit]:
        return MemoryIndex.search(self, replace(scope, position=None), *args, **settings)


@proves("rerank.visible-text", "reading.never-past-position")
def test_lying_index_sends_no_unread_text_to_the_reranker(tmp_path: Path) -> None:
    lib = make_library(tmp_path, index=Spoiling())
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.txt", book(31, "txt", 12)), kind="book")
    texts = stored(lib, world, 1).texts
    position = len(texts) // 3
    world.reader("ann").set_position("book.txt", sentence=position)

    requests, _ = sent_for_reader(lib)

    unread = set(texts[position + 1 :]) - set(texts[: position + 1])
    assert requests
    for _, texts_sent in requests:
        sent = " ".join(texts_sent)
        assert [text for text in unread if text in sent] == []
