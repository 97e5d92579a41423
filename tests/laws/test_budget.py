"""The budget: packed text fits, repeats nothing, and is the best available."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from tests.laws.examples import examples
from tests.promises import proves
from tests.support.reading_worlds import CHUNKINGS, stored
from tests.support.sample_books import FORMS, book, plain_book
from tests.support.worlds import WordEmbedder, make_library, other_profile
from tests.unit.sources import LABELS
from truespan.retrieval.pack import PATIENCE, Packer
from truespan.retrieval.passages import Budget
from truespan.retrieval.repeats import render
from truespan.retrieval.stages import rank_visible
from truespan.types.bundle import ContextBundle
from truespan.types.chunk import ChunkKind
from truespan.types.ids import ChunkId, hash_text
from truespan.types.request import MAX_CONTEXT_TOKENS
from truespan.types.trust import Visible

LETTERS = "abcdefghijklmnopqrstuvwxyz" * 8


def visible(
    document: int, start: int, length: int, *, tokens: int, score: float, kind: ChunkKind
) -> Visible:
    text = LETTERS[start : start + length]
    return Visible(
        chunk_id=ChunkId(f"{document}:{start}:{length}:{tokens}"),
        document=document,
        source="",
        title="",
        revision=1,
        index=start,
        start=start,
        end=start + length,
        first_sid=0,
        last_sid=0,
        chapter="",
        section="",
        kind=kind,
        text=text,
        text_hash=hash_text(text),
        tokens=tokens,
        score=score,
        **asdict(LABELS),
    )


CANDIDATES = st.builds(
    visible,
    document=st.integers(1, 3),
    start=st.integers(0, 60),
    length=st.integers(1, 60),
    tokens=st.one_of(st.integers(1, 400), st.integers(1, 6000)),
    score=st.floats(0, 1).map(lambda score: round(score, 2)),
    kind=st.sampled_from([ChunkKind.TEXT] * 6 + [ChunkKind.FIGURE]),
)
often = examples(100)


def said(parts: list[Visible]) -> set[tuple[int, int]]:
    return {(one.document, place) for one in parts for place in range(one.start, one.end)}


@proves("bundle.token-budget", "bundle.oversized-chunk", "bundle.within-top-k")
@often
@given(st.lists(CANDIDATES, max_size=30), st.integers(1, 20), st.integers(1, 5000))
def test_packed_text_is_within_budget_and_requested_count(
    candidates: list[Visible], k: int, budget: int
) -> None:
    packed = Packer(k=k, budget=budget).pack(rank_visible(candidates))

    assert sum(part.tokens for part in packed.chosen) <= budget
    assert len(packed.chosen) <= k
    assert all(part.kind is ChunkKind.TEXT for part in packed.chosen)


@proves("bundle.token-budget")
@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ([3000, 1000], [3000, 1000]), ([3000, 1001], [3000]),
        ([3000, 1001, 1000, 1], [3000, 1000]), ([4000, 1], [4000]), ([4001, 4000], [4000]),
        ([1], [1]),
    ],
)  # fmt: skip
def test_budget_can_be_filled_and_never_exceeded(sizes: list[int], taken: list[int]) -> None:
    parts = [
        visible(place, 0, 9, tokens=size, score=1.0 - place / 10, kind=ChunkKind.TEXT)
        for place, size in enumerate(sizes)
    ]

    packed = Packer(k=20, budget=MAX_CONTEXT_TOKENS).pack(rank_visible(parts))

    assert [part.tokens for part in packed.chosen] == taken


@proves("bundle.token-budget")
def test_budget_of_passages_takes_all_or_nothing() -> None:
    budget = Budget(tokens=10, characters=20)

    assert [budget.take(11, "a"), budget.take(1, "a" * 21)] == [False, False]
    assert (budget.tokens, budget.characters) == (10, 20)
    assert budget.take(10, "a" * 20)
    assert (budget.tokens, budget.characters) == (0, 0)
    assert not budget.take(1, "")
    # A row alone needs room for the table that it begins.
    row, table = "hook | key", Budget(tokens=20, tables=True)
    assert Budget(tokens=10).take(10, row)
    assert not table.take(10, row)
    assert not Budget(characters=len(row), tables=True).take(1, row)
    assert table.take(5, row)


@proves("bundle.token-budget")
def test_white_space_after_a_chosen_chunk_is_not_new_text() -> None:
    first = visible(1, 0, 20, tokens=5, score=0.9, kind=ChunkKind.TEXT)
    spaced = replace(first, chunk_id=ChunkId("spaced"), end=23, text=f"{first.text} \n ", score=0.8)
    longer = replace(spaced, chunk_id=ChunkId("longer"), text=f"{first.text} \nx", score=0.7)

    packed = Packer(k=20, budget=100).pack([first, spaced, longer])

    assert packed.chosen == [first, longer]
    assert packed.left_out == {"duplicate_passage": [spaced]}


@proves("bundle.budget-in-assembly")
@pytest.mark.parametrize(("oversized", "taken"), [(PATIENCE - 1, 2), (PATIENCE, 1)])
def test_budget_counts_as_full_after_many_oversized_chunks(oversized: int, taken: int) -> None:
    sizes = [6, *[5] * oversized, 4]
    parts = [
        visible(place, 0, 9, tokens=size, score=1.0 - place / 100, kind=ChunkKind.TEXT)
        for place, size in enumerate(sizes)
    ]

    packed = Packer(k=20, budget=10).pack(parts)

    assert len(packed.chosen) == taken
    assert (packed.missing, packed.last is None) == ((18, True) if taken == 2 else (0, False))


@proves("bundle.relevance-order", "bundle.budget-in-assembly")
@often
@given(st.lists(CANDIDATES, max_size=30), st.integers(1, 20), st.integers(1, 5000))
def test_each_candidate_is_packed_or_has_a_reason(
    candidates: list[Visible], k: int, budget: int
) -> None:
    ranked = rank_visible(candidates)
    packed = Packer(k=k, budget=budget).pack(ranked)

    taken: list[Visible] = []
    reasons: dict[str, list[Visible]] = {}
    for part in ranked:
        if len(taken) == k:
            break
        left = budget - sum(one.tokens for one in taken)
        if part.kind is ChunkKind.FIGURE:
            reasons.setdefault("excluded_kind", []).append(part)
        elif said([part]) <= said(taken):
            reasons.setdefault("duplicate_passage", []).append(part)
        elif part.tokens > left:
            reasons.setdefault("over_budget", []).append(part)
        else:
            taken.append(part)

    assert (packed.chosen, packed.left_out) == (taken, reasons)
    assert (packed.last is not None) == (len(taken) == k)


@proves("bundle.budget-in-assembly", "reading.sentence-once")
@often
@given(st.lists(CANDIDATES, max_size=12))
def test_context_contains_each_chosen_place_once(
    candidates: list[Visible],
) -> None:
    # Each place of each document has its own letter, so that the context can be read back.
    spelled = [_spelled(part) for part in candidates]

    context = render(spelled)

    letters = [letter for letter in context if letter != "\n"]
    assert len(letters) == len(set(letters)) == len(said(candidates))
    assert set(letters) == {letter for part in spelled for letter in part.text}


def _spelled(part: Visible) -> Visible:
    places = range(part.start, part.end)
    text = "".join(chr(0x4E00 + 200 * part.document + place) for place in places)
    return replace(part, text=text)


# Whole bundles, recounted by somebody else


def recounted(bundle: ContextBundle) -> int:
    """Count the words of a bundle without the code of the tests' counter."""
    return sum(
        len([run for run in re.split(r"\s+", chunk.content) if run])
        for chunk in bundle.retrieved_chunks
    )


@proves(
    "bundle.token-budget",
    "bundle.total-is-sum",
    "bundle.token-count",
    "bundle.returned-count",
    "bundle.within-top-k",
    "bundle.relevance-range",
    "bundle.chunk-fields-filled",
)
@examples(20)
@given(st.integers(0, 10_000), st.sampled_from(FORMS), st.sampled_from(CHUNKINGS), st.data())
def test_every_bundle_matches_a_recount(
    seed: int, form: str, chunking: str, data: st.DataObject
) -> None:
    profile = other_profile(dimensions=5, input_limit=data.draw(st.sampled_from([50, 400])))
    with TemporaryDirectory() as folder:
        defaults = data.draw(st.sampled_from(["recommended", "contract"]))
        embedder = WordEmbedder(profile=profile)
        lib = make_library(Path(folder), embedder=embedder, defaults=defaults)
        world = lib.library.create_world("world")
        world.ingest(lib.write(f"book.{form}", book(seed, form, 60)), chunking=chunking)
        last = world.documents.get("1").sentences - 1
        reader = world.reader("ann")
        reader.set_position("1", sentence=data.draw(st.integers(-1, last)))
        for top_k in (1, 5, 20):
            query = data.draw(st.sampled_from(["the lamp", "zq00009x", "港湾 of the night"]))
            asked = (world.retrieve(query, top_k=top_k), reader.retrieve(query, top_k=top_k))
            for bundle in asked:
                _assert_counted(bundle, top_k)
                if defaults == "contract":
                    _assert_as_contract(bundle)
        lib.library.close()


def _assert_counted(bundle: ContextBundle, top_k: int) -> None:
    chunks = bundle.retrieved_chunks
    # In a recommended world the context has the column names of each row, which are counted too.
    assert recounted(bundle) == sum(chunk.token_count for chunk in chunks)
    assert recounted(bundle) <= bundle.total_tokens <= MAX_CONTEXT_TOKENS
    assert len(chunks) == bundle.metadata.returned_count <= top_k
    assert bundle.metadata.original_top_k == top_k
    for chunk in chunks:
        assert 0.0 <= chunk.relevance_score <= 1.0
        assert chunk.token_count > 0
        assert all((chunk.content, chunk.source_url, chunk.chapter, chunk.section, chunk.chunk_id))


def _assert_as_contract(bundle: ContextBundle) -> None:
    """Assert further rules of the contract: the order by score, and no word outside the text."""
    chunks = bundle.retrieved_chunks
    scores = [chunk.relevance_score for chunk in chunks]
    assert scores == sorted(scores, reverse=True)
    assert bundle.total_tokens == recounted(bundle)
    pieces = [piece for piece in bundle.context.split("\n\n") if piece]
    assert all(any(piece in chunk.content for chunk in chunks) for piece in pieces)


@proves("bundle.budget-in-assembly", "bundle.content-unaltered")
def test_context_of_sentences_has_whole_sentences_only(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", plain_book(200)), chunking="sentences")
    reader = world.reader("ann")
    reader.set_position("1", sentence=150)
    held = stored(lib, world, 1)
    starts = {one.start for one in held.sentences}
    ends = {one.end for one in held.sentences}

    for top_k in (2, 7, 20):
        for bundle in (world.retrieve("the lamp", top_k=top_k), reader.retrieve("the lamp")):
            assert bundle.retrieved_chunks
            pieces = bundle.context.split("\n\n")
            for piece in pieces:
                at = held.canonical.text.find(piece)
                assert at in starts
                assert at + len(piece) in ends


@proves("bundle.token-budget", "bundle.partial-or-success")
def test_full_bundle_stops_early_with_its_reason(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    sentences = (f"The lamp {'lamp and key and wood ' * 9} {count}." for count in range(2400))
    world = lib.library.create_world("world")
    world.ingest(lib.write("long.txt", " ".join(sentences)), chunking="sentences")
    read: list[str] = []
    store = lib.library._components.store
    original = store.chunks.read

    def reading(scope, ids, **parts):  # type: ignore[no-untyped-def]
        read.extend(ids)
        return original(scope, ids, **parts)

    store.chunks.read = reading  # type: ignore[method-assign]
    bundle = world.retrieve("the lamp and the key", top_k=20)

    assert bundle.status.value == "partial"
    assert bundle.total_tokens <= MAX_CONTEXT_TOKENS
    assert [entry.code for entry in bundle.metadata.skipped] == ["over_budget"]
    assert world.status().chunks > 390
    assert len(read) < 200
