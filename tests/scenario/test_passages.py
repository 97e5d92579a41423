"""The returned part of a result: neighbours, sentences, the budget, and boilerplate."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.answer_worlds import Scripted
from tests.support.failures import raises_code
from tests.support.reading_worlds import frozen
from tests.support.worlds import LibraryFixture, WordEmbedder, make_library, other_profile
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, QueryTooLong
from truespan.protocols import ChatModels
from truespan.types.answer import AnswerRules
from truespan.types.decision import DecisionSettings
from truespan.types.ids import hash_text

BOOK = """\
# One: The quay

Fog lay on the river. The porter swept the long quay. A brass key hung on the seventh hook. Nobody
had touched it for years. The clock above it struck nine. Rain came in from the west.

# Two: The boat

At noon the boat was gone. Its rope was cut with a knife. The porter ran to the office. He found
the seventh hook empty. Only dust was left there. Then somebody laughed behind the door.
"""
SENTENCES = [
    "One: The quay", "Fog lay on the river.", "The porter swept the long quay.",
    "A brass key hung on the seventh hook.", "Nobody\nhad touched it for years.",
    "The clock above it struck nine.", "Rain came in from the west.", "Two: The boat",
    "At noon the boat was gone.", "Its rope was cut with a knife.",
    "The porter ran to the office.", "He found\nthe seventh hook empty.",
    "Only dust was left there.", "Then somebody laughed behind the door.",
]  # fmt: skip
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NEIGHBOURS: dict[str, Any] = {"neighbours": 10}
BEST_SENTENCES: dict[str, Any] = {"granularity": "sentence"}
EXCERPTS: dict[str, Any] = {"granularity": "excerpt"}
ANY: dict[str, Any] = {"language": None, "version": None}


def filled(lib: LibraryFixture) -> World:
    """Return a world of one book, with two sentences a chunk and no overlap."""
    world = lib.library.create_world("world")
    world.ingest([lib.write("book.md", BOOK)], kind="book", chunking="pairs")
    return world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return filled(pairs(tmp_path_factory.mktemp("passages")))


def pairs(folder: Path, *, size: int = 2, overlap: int = 0, **parts: Any) -> LibraryFixture:
    from truespan.ingest.draft import Preparation
    from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile, Strategy

    own = ChunkingProfile("pairs", Strategy.SENTENCES, size=size, overlap=overlap)
    preparation = Preparation(chunkings={**STANDARD_CHUNKING, "pairs": own})
    return make_library(folder, preparation=preparation, **parts)


def canonical(world: World) -> str:
    scope = world.access.scope()
    assert scope is not None
    return world.access.components.store.documents.canonical_text(scope, 1)


@proves("retrieval.fitted-passages")
def test_sample_book_has_the_expected_sentences(world: World) -> None:
    assert [part.text for part in world.documents.sentences(1).sentences] == SENTENCES


# Neighbours


@proves("retrieval.fitted-passages")
def test_neighbours_are_sentences_of_the_same_chapter(world: World) -> None:
    plain = world.search("brass key seventh hook", top_k=1).passages[0]
    assert (plain.first_sid, plain.last_sid) == (2, 3)
    text = canonical(world)
    wrong = []
    for count, first, last in [(0, 2, 3), (1, 1, 4), (2, 0, 5), (3, 0, 6), (10, 0, 6)]:
        found = world.search("brass key seventh hook", top_k=1, neighbours=count)
        bundle = world.retrieve("brass key seventh hook", top_k=1, neighbours=count, **ANY)
        [passage], [chunk], [note] = (
            found.passages,
            bundle.retrieved_chunks,
            bundle.metadata.sources,
        )
        if not (
            (passage.first_sid, passage.last_sid)
            == (first, last)
            == (note.first_sid, note.last_sid)
            and passage.text == chunk.content == text[passage.start : passage.end]
            and SENTENCES[first] in passage.text
            and SENTENCES[last] in passage.text
            and hash_text(passage.text) == passage.receipt.text_hash == note.text_hash
            and passage.token_count == chunk.token_count == len(passage.text.split())
            and passage.chunk_id == chunk.chunk_id == plain.chunk_id
            and bundle.context == passage.text == found.context
            and "boat" not in passage.text
        ):
            wrong.append((count, passage))
    assert not wrong


@proves("retrieval.fitted-passages")
def test_neighbours_are_limited_by_the_budget(world: World) -> None:
    query = "brass key seventh hook"
    plain = world.retrieve(query, top_k=1, **ANY)
    sizes = set()
    for budget in range(plain.total_tokens, plain.total_tokens + 30):
        bundle = world.retrieve(query, top_k=1, neighbours=10, max_tokens=budget, **ANY)
        assert plain.context in bundle.context
        assert bundle.total_tokens == len(bundle.context.split()) <= budget
        sizes.add(bundle.total_tokens)
    assert len(sizes) > 3


@proves("retrieval.fitted-passages")
def test_touching_or_overlapping_passages_repeat_no_text(world: World) -> None:
    for options in ({}, BEST_SENTENCES):
        for query in ("porter hook seventh key", "boat rope knife office"):
            bundle = world.retrieve(query, top_k=4, neighbours=3, **options, **ANY)
            said = [chunk.content for chunk in bundle.retrieved_chunks]
            counts = {one: sum(one in part for part in said) for one in SENTENCES}
            assert max(counts.values()) == 1
            assert all(bundle.context.count(one) <= 1 for one in SENTENCES)


@proves("retrieval.fitted-passages")
def test_chapter_filter_limits_neighbours_and_sentences(lib: LibraryFixture) -> None:
    world = lib.library.create_world("world")
    # One chunk for both chapters: it belongs to the first, where it begins.
    world.ingest([lib.write("book.md", BOOK)], kind="book")
    for options in (NEIGHBOURS, NEIGHBOURS | BEST_SENTENCES, EXCERPTS):
        bundle = world.retrieve("brass key seventh hook", chapter="One: The quay", **options, **ANY)
        assert bundle.retrieved_chunks
        if "granularity" in options:
            assert "boat" not in bundle.context


@proves("reading.never-past-position", "retrieval.fitted-passages")
def test_neighbours_and_sentences_of_a_reader_stop_at_the_position(tmp_path: Path) -> None:
    reader = filled(pairs(tmp_path)).reader("ann")
    leaks = []
    for sid in range(len(SENTENCES)):
        reader.set_position("book.md", sentence=sid)
        for options in (NEIGHBOURS, BEST_SENTENCES, NEIGHBOURS | BEST_SENTENCES, EXCERPTS):
            bundle = reader.retrieve("hook porter boat", **options)
            unread = [one for one in SENTENCES[sid + 1 :] if one in bundle.context]
            beyond = [note for note in bundle.metadata.sources if note.last_sid > sid]
            if unread or beyond or not bundle.retrieved_chunks:
                leaks.append((sid, options, unread, beyond))
    assert not leaks


@proves("reading.non-interference", "retrieval.fitted-passages")
def test_unread_text_does_not_affect_sentences_and_neighbours(tmp_path: Path) -> None:
    head, _, tail = BOOK.partition("He found\nthe")
    endings = (
        tail,
        "hook hook porter. " * 30,
        " seventh hook, said nobody.\n\n# Three\n\nThe end.\n",
    )
    for sid in (3, 8, 10):
        seen = set()
        for number, ending in enumerate(endings):
            lib = pairs(tmp_path / f"{sid}-{number}")
            world = lib.library.create_world("world")
            text = f"{head}He found\nthe{ending}"
            world.ingest([lib.write("book.md", text)], kind="book", chunking="pairs", title="Book")
            reader = world.reader("ann")
            reader.set_position("book.md", sentence=sid)
            for options in (NEIGHBOURS, NEIGHBOURS | BEST_SENTENCES, EXCERPTS):
                bundle = reader.retrieve("hook porter boat", max_tokens=200, **options)
                # Ids of chunks are made of the world's, which is a new one each time.
                seen.add((str(options), UUID.sub("", frozen(bundle))))
        assert len(seen) == 3


@proves("retrieval.fitted-passages")
def test_damaged_neighbours_are_left_out_with_a_warning(tmp_path: Path) -> None:
    lib = pairs(tmp_path)
    world = filled(lib)
    query = "brass key seventh hook"
    plain = world.search(query, top_k=1).passages[0]
    found = []
    for damage in (
        "UPDATE sentences SET tokens = tokens + 1 WHERE sid = 4",
        "UPDATE texts SET text = replace(text, 'touched', 'scratch')",
    ):
        lib.sql(damage)
        wide = world.search(query, top_k=1, neighbours=1)
        bundle = world.retrieve(query, top_k=1, neighbours=1, **ANY)
        found.append((wide.passages[0].text, bundle.context))
        assert "sentences_damaged" in {notice.code for notice in wide.warnings}
        assert "sentences_damaged" in {notice.code for notice in bundle.metadata.warnings}
        lib.sql("UPDATE sentences SET tokens = tokens - 1 WHERE sid = 4")

    assert found == [(plain.text, plain.text)] * 2


# Sentences


@proves("retrieval.fitted-passages")
def test_sentences_are_returned_with_their_span_and_number(world: World) -> None:
    text = canonical(world)
    for mode in ("hybrid", "vector", "keyword"):
        found = world.search("seventh hook", top_k=2, granularity="sentence", mode=mode)
        assert {part.text for part in found.passages} == {SENTENCES[3], SENTENCES[11]}
        for part in found.passages:
            assert part.first_sid == part.last_sid == SENTENCES.index(part.text)
            assert text[part.start : part.end] == part.text
            assert hash_text(part.text) == part.receipt.text_hash
            assert part.token_count == len(part.text.split())
        chapters = {part.text: part.chapter for part in found.passages}
        assert chapters == {SENTENCES[3]: "One: The quay", SENTENCES[11]: "Two: The boat"}


@proves("retrieval.fitted-passages")
def test_headings_are_sentences_only_without_other_text(tmp_path: Path) -> None:
    text = "# Lunch\n\nThe limit is 15 euro.\n\n# Keys\n\nAsk the porter.\n"
    world = make_library(tmp_path).world(handbook__md=text, title__md="# Keys\n")

    found = world.search("keys lunch", top_k=20, floor=0, granularity="sentence")
    alone = world.search("keys", top_k=20, floor=0, granularity="sentence", documents=["title.md"])

    assert {part.text for part in found.passages} == {"The limit is 15 euro.", "Ask the porter."}
    assert [part.text for part in alone.passages] == ["Keys"]


@proves("retrieval.fitted-passages")
def test_sentences_fill_the_budget_and_top_k_counts_them(world: World) -> None:
    for top_k, budget in [(1, 4000), (3, 4000), (20, 12), (20, 4000)]:
        bundle = world.retrieve(
            "seventh hook porter", top_k=top_k, max_tokens=budget, granularity="sentence", **ANY
        )
        assert 1 <= len(bundle.retrieved_chunks) <= top_k
        assert bundle.total_tokens <= budget
        assert {chunk.content for chunk in bundle.retrieved_chunks} <= set(SENTENCES)


@proves("retrieval.fitted-passages")
def test_limited_number_of_sentences_is_embedded(lib: LibraryFixture) -> None:
    world = lib.library.create_world("world")
    text = " ".join(f"The porter swept quay number {number} again." for number in range(200))
    world.ingest([lib.write("long.txt", text)])
    lib.embedder.documents.clear()

    by_words = world.search("porter quay", top_k=20, granularity="sentence", mode="keyword")
    assert lib.embedder.documents == []
    world.search("porter quay", top_k=20, granularity="sentence", mode="hybrid")

    assert len(by_words.passages) == 20
    assert 0 < len(lib.embedder.documents) <= 32


@proves("retrieval.fitted-passages", "verify.one-read")
def test_text_inserted_between_sentences_is_not_shown(tmp_path: Path) -> None:
    lib = pairs(tmp_path)
    world, query = filled(lib), "brass key seventh hook"
    lib.sql(
        "UPDATE texts SET text = replace(text, 'hung on the seventh hook. Nobody', ?)",
        "hung on the seventh hook.#Nobody",
    )
    [plain] = world.search(query, top_k=1).passages

    wide = world.search(query, top_k=1, **NEIGHBOURS)

    assert wide.passages == (plain,)
    assert [notice.code for notice in wide.warnings] == ["sentences_damaged"]


# Excerpts


def long_world(folder: Path, **parts: Any) -> World:
    """Return a world whose only passage has an answer between much other text."""
    filler = " ".join(f"Row {number} of the ledger is empty." for number in range(12))
    text = f"{filler}\n\nThe porter asked for the key. It hung in the cellar.\n\n{filler}"
    return make_library(folder, **parts).world(ledger__txt=text)


@pytest.mark.recommended
@proves("retrieval.fitted-passages")
def test_excerpt_has_whole_sentences_around_the_words(tmp_path: Path) -> None:
    world = long_world(tmp_path)
    whole = world.search("Where did the porter find the key?", top_k=1, floor=0).passages[0]

    part = world.search(
        "Where did the porter find the key?", top_k=1, floor=0, granularity="excerpt"
    ).passages[0]

    assert "The porter asked for the key. It hung in the cellar." in part.text
    assert part.text in whole.text
    assert len(part.text) <= 450 < len(whole.text)
    assert part.text.startswith("Row")
    assert part.text.endswith(".")
    assert whole.first_sid < part.first_sid < part.last_sid < whole.last_sid
    assert hash_text(part.text) == part.receipt.text_hash


@proves("retrieval.fitted-passages")
def test_excerpts_with_few_of_the_words_are_dropped(world: World) -> None:
    query = "Who found the brass key on the hook?"
    passages = world.search(query, top_k=9, floor=0)
    found = world.search(query, top_k=9, floor=0, granularity="excerpt")

    assert SENTENCES[3] in found.passages[0].text
    assert len(found.passages) < len(passages.passages)
    assert not any("Rain came" in part.text for part in found.passages)


@pytest.mark.recommended
@proves("retrieval.fitted-passages")
def test_excerpts_of_overlapping_passages_do_not_repeat(tmp_path: Path) -> None:
    lib = pairs(tmp_path, size=8, overlap=4)
    rest = "which nobody in the whole office of the harbour has ever asked for"
    lines = [f"Row {number} of the ledger, {rest}." for number in range(12)]
    lines[5] = f"The porter had a key of brass, {rest}."
    world = lib.library.create_world("world")
    world.ingest([lib.write("ledger.txt", " ".join(lines))], chunking="pairs")

    passages = world.search("brass key of the porter", floor=0).passages
    excerpts = world.search("brass key of the porter", floor=0, **EXCERPTS).passages

    assert [(part.first_sid, part.last_sid) for part in passages] == [(4, 11), (0, 7)]
    assert [(part.first_sid, part.last_sid) for part in excerpts] == [(4, 7)]


@proves("retrieval.fitted-passages")
def test_excerpt_without_words_is_around_the_nearest_sentence(tmp_path: Path) -> None:
    world = long_world(tmp_path)

    [part] = world.search("cellar", top_k=1, mode="vector", granularity="excerpt", floor=0).passages

    assert "It hung in the cellar." in part.text
    assert len(part.text) <= 450


@pytest.mark.recommended
@proves("retrieval.fitted-passages")
def test_answer_without_a_model_quotes_excerpts(tmp_path: Path) -> None:
    world = long_world(tmp_path)
    question = "Where did the porter ask for the key in the ledger?"

    answer, whole = world.answer(question), world.answer(question, granularity="passage")
    world.set_defaults("contract")
    contract = world.answer(question)

    assert answer.used_chunks == whole.used_chunks
    assert "The porter asked for the key. It hung in the cellar." in answer.quotes[0].text
    assert all(quote.verified for quote in answer.quotes)
    assert len(answer.quotes[0].text) <= 450 < len(whole.quotes[0].text)
    assert contract.quotes[0].text == whole.quotes[0].text


# Answers


@proves("retrieval.fitted-passages")
def test_answer_supports_narrower_and_wider_passages(tmp_path: Path) -> None:
    model = Scripted("Yes [1].", "Yes [1].", "Yes [1].", "Yes [1].")
    lib = pairs(tmp_path)
    world = filled(lib)
    rules = AnswerRules(DecisionSettings(max_chunks=1))
    parts = replace(lib.library._components, chat=ChatModels(model), answers=rules)
    world = Library(parts).world("world")
    query = "Where did the brass key hang on the seventh hook for years?"
    plain = world.answer(query)
    wide = world.answer(query, neighbours=1)
    short = world.answer(query, granularity="sentence")
    small = world.answer(query, max_tokens=9)

    prompts = [messages[-1].text for messages in model.asked]
    assert SENTENCES[4] in prompts[1]
    assert prompts[0].count("BEGIN SOURCE") == prompts[1].count("BEGIN SOURCE")
    assert plain.used_chunks == wide.used_chunks == short.used_chunks
    assert plain.decision_explain == wide.decision_explain == short.decision_explain
    assert (plain.citations[0].first_sid, plain.citations[0].last_sid) == (2, 3)
    assert (wide.citations[0].first_sid, wide.citations[0].last_sid) == (1, 4)
    assert short.citations[0].first_sid == short.citations[0].last_sid == 3
    # The best passage has too many tokens for this, so it does not decide either.
    considered = {note.chunk_id for note in small.retrieved_chunks_metadata}
    assert considered
    assert not considered.intersection(plain.used_chunks)


# The budget


@proves("retrieval.fitted-passages")
def test_budget_of_the_caller_is_limited_by_the_operator(world: World) -> None:
    calls = [
        lambda **options: world.search("hook", **options),
        lambda **options: world.retrieve("hook", **options),
        lambda **options: world.answer("hook", **options),
        lambda **options: world.reader("ann").retrieve("hook", **options),
        lambda **options: world.reader("ann").answer("hook", **options),
    ]
    for call in calls:
        for wrong in (
            {"max_tokens": 0},
            {"max_tokens": True},
            {"max_tokens": 1.5},
            {"max_tokens": 32_001},
            {"neighbours": -1},
            {"neighbours": 11},
            {"neighbours": True},
            {"granularity": "word"},
            {"granularity": 1},
            {"include_boilerplate": 1},
        ):
            with pytest.raises(InvalidArgument):
                call(**wrong)
        with pytest.raises(TypeError):
            call(neighbors=1)


@proves("retrieval.fitted-passages")
def test_small_budget_keeps_passages_that_fit(world: World) -> None:
    sizes = [part.token_count for part in world.search("porter hook", floor=0.0).passages]
    for budget in (1, min(sizes), sum(sizes)):
        bundle = world.retrieve("porter hook", max_tokens=budget, **ANY)
        found = world.search("porter hook", floor=0.0, max_tokens=budget)
        assert bundle.total_tokens <= budget
        assert sum(part.token_count for part in found.passages) <= budget


# Boilerplate

HEADER = """\
The Project Gutenberg eBook of The Quay, by Ann Other

This eBook about a key is free, under the terms of the Project Gutenberg License.

*** START OF THE PROJECT GUTENBERG EBOOK THE QUAY ***
"""
FOOTER = """\
*** END OF THE PROJECT GUTENBERG EBOOK THE QUAY ***

1.A. Whoever reads a Project Gutenberg-tm electronic work, or a key to it, accepts all terms of this
agreement.

1.F.3. A refund for a defect in this electronic work, or a replacement copy in lieu of a refund,
takes a key.
"""


@proves("retrieval.boilerplate-last")
def test_boilerplate_comes_last_unless_requested(tmp_path: Path) -> None:
    lib = pairs(tmp_path)
    world = lib.library.create_world("world")
    story = "Rain fell. The dog slept. A key lay on the quay. Then it was night."
    text = f"{HEADER}\n\n{story}\n\n{FOOTER}"
    world.ingest([lib.write("quay.txt", text)], kind="book", chunking="pairs")
    reader = world.reader("ann")
    reader.set_position("quay.txt", sentence=len(world.documents.sentences(1).sentences) - 1)
    query = "refund defect electronic work key"

    def order(**options: Any) -> Iterator[list[bool]]:
        """Yield, for each way to ask, whether each result belongs to the story."""
        first = world.search(query, floor=0.0, **options)
        yield [part.text in story for part in first.passages]
        bundle = reader.retrieve(query, **options)
        yield [chunk.content in story for chunk in bundle.retrieved_chunks]

    for told in order(include_boilerplate=False):
        assert told == sorted(told, reverse=True)
        assert True in told
        assert False in told
    for told in order(include_boilerplate=True):
        assert told[0] is False
    bundle = world.retrieve(query, top_k=1, include_boilerplate=False, **ANY)
    assert bundle.retrieved_chunks == () or bundle.retrieved_chunks[0].content in story


# Queries


@proves("retrieval.query-lengths")
def test_query_without_a_visible_character_is_blank(world: World) -> None:
    reader = world.reader("ann")
    for blank in ("\u200b", "\ufeff", "\0", " \u200b\ufeff\0\n", "\u2060\u00ad", "\u3164\u2800"):
        for ask in (world.search, world.retrieve, world.answer, reader.retrieve, reader.answer):
            with raises_code("blank_query"):
                ask(blank)
    assert world.search("\u200bhook").passages


@proves("retrieval.query-lengths")
def test_query_length_limit_is_the_same_everywhere(world: World) -> None:
    reader = world.reader("ann")
    for ask in (world.search, world.retrieve, world.answer, reader.retrieve, reader.answer):
        with pytest.raises(QueryTooLong) as refusal:
            ask("hook " * 2000 + "x")
        assert (refusal.value.count, refusal.value.limit) == (10_001, 10_000)
        assert refusal.value.code == "query_too_long"


@proves("retrieval.query-lengths")
def test_long_query_is_embedded_in_parts_or_refused_by_setting(tmp_path: Path) -> None:
    parts = [f"The porter swept quay number {number} once more." for number in range(16)]
    long = " ".join([*parts, "A brass key hung on the seventh hook there."])
    for defaults in ("recommended", "contract"):
        embedder = WordEmbedder(profile=other_profile(input_limit=60))
        world = filled(pairs(tmp_path / defaults, embedder=embedder, defaults=defaults))
        reader = world.reader("ann")
        reader.set_position("book.md", sentence=6)
        embedder.queries.clear()
        for ask in (world.search, world.retrieve, world.answer, reader.retrieve, reader.answer):
            if defaults == "contract":
                with pytest.raises(QueryTooLong) as refusal:
                    ask(long)
                assert (refusal.value.count, refusal.value.unit) == (137, "tokens")
            else:
                ask(long)
        assert all(len(query.split()) <= 60 for query in embedder.queries)
        assert " ".join(embedder.queries) == (long if defaults == "recommended" else "")
        if defaults == "recommended":
            # The parts rank together, and the last one counts too.
            assert "brass key" in world.search(long, top_k=7, floor=0.0).context
            continue
        for ask in (world.retrieve, world.answer, reader.retrieve, reader.answer):
            with pytest.raises(QueryTooLong) as refusal:
                ask("x" * 1001)
            assert refusal.value.limit == 1000


@proves("retrieval.boilerplate-last")
def test_world_defaults_decide_about_boilerplate(tmp_path: Path) -> None:
    story = "Rain fell. The dog slept. A key lay on the quay. Then it was night."
    query = "refund defect electronic work key"
    for defaults in ("recommended", "contract"):
        lib = pairs(tmp_path / defaults, defaults=defaults)
        world = lib.library.create_world("world")
        text = f"{HEADER}\n\n{story}\n\n{FOOTER}"
        world.ingest([lib.write("quay.txt", text)], kind="book", chunking="pairs")
        reader = world.reader("ann")
        reader.set_position("quay.txt", sentence=len(world.documents.sentences(1).sentences) - 1)
        first = world.search(query, floor=0.0, top_k=1).passages[0].text in story
        read = reader.retrieve(query, top_k=1).retrieved_chunks[0].content in story
        assert first is read is (defaults == "recommended")
