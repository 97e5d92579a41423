"""Results of a search, their order, and the context for the model."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields, replace

from tests.promises import proves
from tests.support.worlds import (
    LibraryFixture,
    Lying,
    MemoryIndex,
    make_library,
    similarity,
    vector_of,
)
from truespan.engine.world import World
from truespan.types.bundle import Passage, SearchResult
from truespan.types.ids import hash_text
from truespan.types.scope import Scope
from truespan.types.trust import Hit
from truespan.wire.serialize import to_json

BOTH_DEFAULTS = True
HARBOUR = "The harbour light burned all night. The harbour master slept."
GARDEN = "The garden was full of roses. A gardener cut the roses."
STATION = "The station clock had stopped. The train was late."


def three(lib: LibraryFixture, name: str = "world") -> World:
    return lib.world(name, a__txt=HARBOUR, b__txt=GARDEN, c__txt=STATION)


def frozen(result: SearchResult) -> str:
    """Return a response as serialized bytes, without its time."""
    return to_json(replace(result, processing_time_ms=0))


@proves("search.one-world", "index.points-per-world", "search.non-interference")
def test_each_search_covers_one_world(lib: LibraryFixture) -> None:
    one, two = three(lib, "one"), three(lib, "two")

    found = [world.search("harbour roses clock", floor=0.0).passages for world in (one, two)]

    assert {passage.chunk_id for passage in found[0]} == set(lib.points(one))
    assert {passage.chunk_id for passage in found[1]} == set(lib.points(two))
    assert not set(lib.points(one)) & set(lib.points(two))

    world = three(lib)
    queries = ["harbour light", "roses", "clock train", "nothing of the sort"]
    before = [frozen(world.search(query, floor=0.0)) for query in queries]

    other = lib.world("other", a__txt=HARBOUR * 3, b__txt="The harbour light. " * 40)
    during = [frozen(world.search(query, floor=0.0)) for query in queries]
    other.documents.delete("1")

    assert before == during == [frozen(world.search(query, floor=0.0)) for query in queries]


@proves("search.one-world", "verify.every-point")
def test_hits_of_another_world_are_hidden_and_kept_there(tmp_path: Path) -> None:
    other: list[Hit] = []
    lib = make_library(tmp_path, index=Lying(lambda hits, scope: [*hits, *other]))
    one, two = three(lib, "one"), lib.world("two", z__txt="Secret harbour of another world.")
    theirs = next(iter(lib.points(two).values()))
    other.append(Hit(theirs.chunk_id, 0.99, theirs.text_hash))  # type: ignore[arg-type]

    result = one.search("harbour", floor=0.0)
    lib.library.close()

    assert "Secret" not in frozen(result)
    assert theirs.chunk_id not in {passage.chunk_id for passage in result.passages}
    assert [(entry.code, entry.count) for entry in result.skipped] == [("orphan_point", 1)]
    assert theirs.chunk_id in lib.points(two)


@proves("search.context-is-text-only", "search.context-from-verified")
def test_context_is_the_text_of_the_results_in_order(tmp_path: Path) -> None:
    result = three(make_library(tmp_path)).search("roses harbour", floor=0.0)

    assert result.context == "\n\n".join(passage.text for passage in result.passages)


@proves("search.context-is-text-only")
def test_overlapping_passage_is_not_repeated(lib: LibraryFixture) -> None:
    sentences = [f"Sentence number {count} speaks of whales and ships." for count in range(80)]
    world = lib.world(long__txt=" ".join(sentences))

    result = world.search("whales and ships", top_k=50, floor=0.0)

    assert len(result.passages) > 3
    for sentence in sentences:
        assert result.context.count(sentence) <= 1
    words = set(" ".join(sentences).split())
    assert set(result.context.split()) <= words | {
        piece for passage in result.passages for piece in passage.text.split()
    }


@proves("search.context-is-text-only")
def test_overlap_beside_a_chunk_is_never_in_the_context(lib: LibraryFixture) -> None:
    world = three(lib)
    lib.sql("UPDATE chunks SET overlap_text = 'BESIDE'")
    lib.reseal(world)

    rich = world.search("harbour", floor=0.0)

    assert "BESIDE" not in rich.context
    assert {passage.overlap_text for passage in rich.passages} == {"BESIDE"}


@proves("search.rich-fields", "search.mergeable-results")
def test_rich_results_have_members_for_citing_and_merging(lib: LibraryFixture) -> None:
    world = three(lib)

    passage = world.search("harbour light", floor=0.0).passages[0]

    assert {entry.name for entry in fields(Passage)} == {
        "chunk_id", "score", "document", "doc_id", "source", "title", "chapter", "section",
        "index", "start", "end", "first_sid", "last_sid", "chunk_type", "text", "overlap_text",
        "token_count", "receipt", "page", "location", "figure_id", "image_ref",
        "parent_chunk_id", "parent_chunk_local_index", "fused", "rerank", "source_url",
        "address", "path",
        "language", "version", "tags", "metadata", "match", "best_sentence",
        "text_language", "other_places",
        # Present only on request, and only in contract worlds.
        "content", "start_char", "end_char", "space_id",
    }  # fmt: skip
    assert passage.source == "a.txt"
    assert passage.source_url == passage.path == "world/a.txt"
    assert passage.address == f"truespan://{world.id}/1"
    assert passage.text == HARBOUR
    assert (
        lib.store.documents.canonical_text(lib.scope(world), 1)[passage.start : passage.end]
        == HARBOUR
    )
    assert passage.receipt.text_hash == lib.points(world)[passage.chunk_id].text_hash
    assert passage.receipt.revision == 1
    assert world.search("harbour light", floor=0.0).passages[0] == passage
    assert str(lib.folder) not in to_json(passage)


@proves("search.text-from-store")
def test_index_content_cannot_change_the_shown_text(lib: LibraryFixture) -> None:
    world = three(lib)
    before = frozen(world.search("harbour", floor=0.0))
    scope = lib.scope(world)
    for point in lib.index._of(scope).values():
        point.chapters = point.sections = ("Invented text",)

    assert frozen(world.search("harbour", floor=0.0)) == before


@proves("search.reads-only-hits", "verify.one-read")
def test_only_rows_of_returned_points_are_read_once_each(lib: LibraryFixture) -> None:
    world = lib.world(**{f"d{number}__txt": f"{HARBOUR} {number}" for number in range(40)})
    read: list[str] = []
    returned: list[str] = []
    store, index = lib.library._components.store, lib.index
    original_read, original_search = store.chunks.read, index.search

    def reading(scope: Scope, ids: Any, **parts: Any) -> Any:
        read.extend(ids)
        return original_read(scope, ids, **parts)

    def searching(*args: Any, **kwargs: Any) -> Any:
        hits = original_search(*args, **kwargs)
        returned.extend(hit.chunk_id for hit in hits)
        return hits

    store.chunks.read, index.search = reading, searching  # type: ignore[method-assign]

    assert len(world.search("harbour 7", top_k=3, floor=0.0).passages) == 3
    assert len(read) == len(set(read))
    assert set(read) <= set(returned)
    assert len(read) < 40


@proves("search.embedded-count", "search.k-clamped", "search.at-most-k")
def test_k_is_limited_to_the_embedded_chunks(lib: LibraryFixture) -> None:
    world = three(lib)
    assert world.search("harbour", top_k=2, floor=0.0).effective_k == 2

    assert world.search("harbour", top_k=99, floor=0.0).effective_k == 3
    lib.store.chunks.mark_pending(lib.scope(world), [next(iter(lib.points(world)))])
    clamped = world.search("harbour", top_k=99, floor=0.0)

    assert clamped.effective_k == 2
    assert clamped.funnel.in_scope == 2
    assert len(clamped.passages) <= 2
    counted = lib.sql(
        """SELECT count(*) FROM states s JOIN revisions r ON r.key = s.revision
           WHERE r.state = 'active' AND s.state = 'embedded'"""
    )
    assert counted == [(2,)]


@proves("search.embedded-count")
def test_staged_and_replaced_revisions_do_not_count(lib: LibraryFixture) -> None:
    world = three(lib)
    lib.embedder.before = _interrupt
    with pytest.raises(KeyError):
        world.ingest(lib.write("world/a.txt", "A staged text that never gets embedded. " * 90))
    lib.embedder.before = None

    assert world.search("harbour", top_k=99, floor=0.0).funnel.in_scope == 3


def _interrupt() -> None:
    raise KeyError("planted")


@pytest.mark.contract
@proves("search.floor-in-request", "search.floor-inclusive")
def test_index_request_has_the_floor_and_keeps_equal_scores(lib: LibraryFixture) -> None:
    world = three(lib)
    asked: list[Any] = []
    original = lib.index.search

    def searching(scope: Scope, vector: Any, *, limit: int, floor: Any) -> Any:
        asked.append(floor)
        return original(scope, vector, limit=limit, floor=floor)

    lib.index.search = searching
    exact = similarity(vector_of("harbour light"), vector_of(HARBOUR))

    kept = world.search("harbour light", floor=exact)
    above = world.search("harbour light", floor=min(1.0, exact + 1e-5))

    assert asked == [exact, min(1.0, exact + 1e-5)]
    assert [passage.source for passage in kept.passages] == ["a.txt"]
    assert above.passages == ()


@proves("search.floor-inclusive", "search.at-most-k")
def test_index_that_ignores_floor_and_limit_is_corrected(tmp_path: Path) -> None:
    def shameless(hits: list[Hit], scope: Scope) -> list[Hit]:
        low = [Hit(hit.chunk_id, 0.1, hit.text_hash) for hit in hits]
        odd = [Hit(hit.chunk_id, float("nan"), hit.text_hash) for hit in hits]
        return [*odd, *hits, *hits, *low]

    world = three(make_library(tmp_path, index=Lying(shameless)))

    result = world.search("harbour light roses", top_k=2, floor=0.2)

    assert len(result.passages) <= 2
    assert len({passage.chunk_id for passage in result.passages}) == len(result.passages)
    assert all(passage.score >= 0.2 for passage in result.passages)


@proves("search.non-interference", "verify.every-point")
def test_uncounted_chunk_out_of_scope_displaces_no_result(tmp_path: Path) -> None:
    lies: list[Hit] = []
    lib = make_library(tmp_path, index=Lying(lambda hits, _: [*lies, *hits]))
    world = lib.world(a__txt=HARBOUR, b__txt=GARDEN)
    [(garden, text_hash)] = lib.sql(
        "SELECT chunk_id, text_hash FROM states WHERE text_hash = ?", hash_text(GARDEN)
    )
    # The words of a chunk that must be embedded again do not count, but its text is intact.
    lib.store.chunks.mark_pending(lib.scope(world), [garden])
    lies.append(Hit(garden, 0.99, text_hash))

    found = world.search("roses", documents=["a.txt"], top_k=1, floor=0.0, mode="hybrid")

    assert [passage.source for passage in found.passages] == ["a.txt"]
    assert found.skipped == ()


@proves("search.sorted")
def test_results_are_ordered_by_score_document_and_chunk(lib: LibraryFixture) -> None:
    same = "A repeated sentence about the sea"
    # The same words with other marks: the vectors are equal, and the texts are not.
    world = lib.world(
        **{f"d{number}__txt": same + "!" * number for number in range(6)},
        z__txt="sea sea repeated about",
    )

    result = world.search("repeated sentence about the sea", top_k=20, floor=0.0)

    keys = [(-passage.score, passage.document, passage.index) for passage in result.passages]
    assert keys == sorted(keys)
    assert [passage.document for passage in result.passages if passage.text.startswith(same)] == [
        1, 2, 3, 4, 5, 6,
    ]  # fmt: skip


@proves("search.sorted", "search.non-interference")
def test_ties_at_the_limit_do_not_depend_on_the_index_order(tmp_path: Path) -> None:
    def backwards(hits: list[Hit], scope: Scope) -> list[Hit]:
        return hits

    lib = make_library(tmp_path, index=Lying(backwards))
    world = lib.world(
        **{f"d{number:02}__txt": f"The same words{'!' * number}" for number in range(30)}
    )
    scope = lib.scope(world)
    points = list(lib.index._of(scope).items())
    found = {}
    for top_k, order in product([1, 3, 7, 20], [1, -1]):
        lib.index.points[(scope.profile.id, scope.tenant)] = dict(points[::order])
        result = world.search("the same words", top_k=top_k, floor=0.0)
        found[top_k, order] = [passage.document for passage in result.passages]

    assert found == {(top_k, order): list(range(1, top_k + 1)) for top_k, order in found}


@proves("search.never-ingests")
def test_search_writes_no_points_and_no_chunks(tmp_path: Path, lib: LibraryFixture) -> None:
    world = three(lib)
    before = lib.sql("SELECT * FROM chunks"), lib.sql("SELECT * FROM states")
    lib.index.calls.clear()

    world.search("harbour", floor=0.0)
    lib.library.close()

    assert set(lib.index.calls) <= {"search", "close"}
    again = make_library(tmp_path, index=lib.index)
    assert (again.sql("SELECT * FROM chunks"), again.sql("SELECT * FROM states")) == before


@proves(
    "search.locked-collection",
    "search.models-side-by-side",
    "index.collection-per-model",
    "ingest.records-model",
)
def test_worlds_use_their_recorded_model(tmp_path: Path, lib: LibraryFixture) -> None:
    from tests.support.worlds import WordEmbedder, other_profile

    index = MemoryIndex()
    small = make_library(tmp_path, index=index)
    first = three(small, "first")
    wide = WordEmbedder(profile=other_profile(model="wide", dimensions=128))
    big = make_library(tmp_path, index=index, embedder=wide)
    second = three(big, "second")

    assert first.search("harbour", floor=0.0).passages
    assert second.search("harbour", floor=0.0).passages
    assert {key[0] for key in index.points} == {
        small.scope(first).profile.id, big.scope(second).profile.id,
    }  # fmt: skip

    three(lib)

    stored = json.loads(lib.sql("SELECT profile FROM generations")[0][0])

    assert (stored["provider"], stored["model"], stored["dimensions"]) == ("test", "words", 64)


@proves("search.floor-inclusive")
def test_keyword_search_has_a_floor_only_if_it_is_set(lib: LibraryFixture) -> None:
    found = dict[str, list[float]]()
    for defaults in ("recommended", "contract"):
        world = lib.library.create_world(defaults, defaults=defaults)
        world.ingest(lib.write(f"{defaults}.txt", HARBOUR))
        floors = [world.search("harbour", mode=mode).floor for mode in ("keyword", "hybrid")]
        chosen = world.search("harbour", mode="keyword", floor=0.15)
        found[defaults] = [*floors, chosen.floor]
        assert all(one.score >= 0.15 for one in chosen.passages)

    assert found == {"recommended": [0.0, 0.15, 0.15], "contract": [0.15, 0.15, 0.15]}


@proves("search.floor-inclusive")
def test_keyword_bundle_has_no_floor_except_in_contract(lib: LibraryFixture) -> None:
    # One word of many, so that the similarity to the whole text is low.
    text = " ".join(f"word{number}" for number in range(60)) + " lighthouse."
    found = dict[str, tuple[float | None, int]]()
    for defaults in ("recommended", "contract"):
        world = lib.library.create_world(defaults, defaults=defaults)
        world.ingest(lib.write(f"{defaults}.txt", text))
        assert not world.retrieve("lighthouse", mode="vector").passages
        bundle = world.retrieve("lighthouse", mode="keyword")
        found[defaults] = bundle.metadata.floor, len(bundle.passages)
        assert not world.retrieve("absent", mode="keyword", near_misses=True).passages

    assert found == {"recommended": (None, 1), "contract": (0.3, 0)}
