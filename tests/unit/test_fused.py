"""Fused search: words and similarity in one order, for the scope alone."""

from array import array
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.worlds import (
    LibraryFixture,
    Lying,
    MemoryIndex,
    WordEmbedder,
    make_library,
    vector_of,
)
from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.retrieval import fused as fused_search
from truespan.retrieval.candidates import fetch_fused
from truespan.retrieval.stages import Best, Fetched, rank
from truespan.types.bundle import SearchResult, WhyNot
from truespan.types.request import Mode
from truespan.types.scope import Scope
from truespan.types.trust import Hit
from truespan.types.vectors import Vector
from truespan.wire.serialize import to_json

pytestmark = pytest.mark.needs_extension

TALES = {
    "a__txt": "The lamp of the harbour was lit by night.",
    "b__txt": "A key lay under the stone by the harbour.",
    "c__txt": "Nobody had seen the otter since the spring.",
    "d__txt": "The harbour slept, and the harbour woke, and the harbour slept again.",
}


def sources(found: SearchResult) -> list[str]:
    return [passage.source for passage in found.passages]


class Blind(WordEmbedder):
    """A provider to which all texts are equal, so that only words distinguish chunks."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [vector_of("same") for _ in texts]

    def embed_query(self, text: str) -> Vector:
        return vector_of("same")


@pytest.mark.contract
def test_words_decide_between_equally_close_chunks(tmp_path: Path) -> None:
    world = make_library(tmp_path, embedder=Blind()).world(**TALES)
    assert sources(world.search("the otter", floor=0.0)) == ["a.txt", "b.txt", "c.txt", "d.txt"]
    assert sources(world.search("the otters", floor=0.0, mode="hybrid"))[0] == "c.txt"


@pytest.mark.contract
def test_result_has_its_similarity_and_its_rank_score(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**TALES)
    dense = {one.chunk_id: one.score for one in world.search("harbour key", floor=0.0).passages}
    found = world.search("harbour key", floor=0.0, mode="hybrid").passages
    assert {one.chunk_id: one.score for one in found} == dense
    blends = [one.fused.blend for one in found if one.fused and one.fused.blend is not None]
    assert blends == sorted(blends, reverse=True)
    assert len(blends) == 4
    assert found[0].fused
    assert found[0].fused.bm25 > 0
    assert all(one.fused is None for one in world.search("harbour key", floor=0.0).passages)


def test_words_do_not_lift_a_chunk_over_the_floor(tmp_path: Path) -> None:
    far = {"e__txt": "otter " + " ".join(f"word{number}" for number in range(60))}
    world = make_library(tmp_path).world(**TALES, **far)
    asked = "otter"
    score = next(
        one.score for one in world.search(asked, floor=0.0).passages if one.source == "e.txt"
    )
    assert "e.txt" in sources(world.search(asked, floor=score, mode="hybrid"))
    assert "e.txt" not in sources(world.search(asked, floor=score + 1e-4, mode="hybrid"))


def test_first_results_do_not_depend_on_the_requested_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_search, "POOL", 4)
    names = {
        f"{number:02}__txt": f"Tale {number} of {'the lamp ' * (number % 5)}and the sea."
        for number in range(30)
    }
    world = make_library(tmp_path).world(**names)
    whole = sources(world.search("lamp of the sea", top_k=30, floor=0.0, mode="hybrid"))

    assert len(whole) == 30
    for top_k in range(1, 30):
        found = world.search("lamp of the sea", top_k=top_k, floor=0.0, mode="hybrid")
        assert sources(found) == whole[:top_k]


class Graded(WordEmbedder):
    """A provider under which a text is further from any query the higher its number."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        cosines = [1 - int(text.split()[1]) / 50 for text in texts]
        return [Vector(array("f", [c, sqrt(1 - c * c), *[0.0] * 62]).tobytes()) for c in cosines]

    def embed_query(self, text: str) -> Vector:
        return Vector(array("f", [1.0, *[0.0] * 63]).tobytes())


def graded(folder: Path) -> LibraryFixture:
    """Create a world whose closest chunks come first, and whose words are in the last chunks."""
    lib = make_library(folder, embedder=Graded())
    tales = {f"{one:02}__txt": f"Tale {one} tells of {'lamp ' * (one - 19)}." for one in range(30)}
    lib.world(**tales)
    return lib


@pytest.mark.parametrize("weight", [0.0, 0.65, 1.0])
def test_candidates_are_verified_in_order_as_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weight: float
) -> None:
    monkeypatch.setattr(fused_search, "POOL", 4)
    lib = graded(tmp_path)
    world = lib.library.world("world")
    lib.sql("UPDATE chunks SET text = 'Another tale.' WHERE text LIKE 'Tale 6 %'")

    def gathered(k: int) -> Fetched:
        deps = lib.library._components
        found, _ = fetch_fused(
            replace(deps, fused_weight=weight), lib.scope(world), world.access.record(),
            lib.embedder.embed_query("lamp"), "lamp", k=k, floor=0.0,
            select=lambda verified: Best(verified, k - len(verified), None),
        )  # fmt: skip
        return found.down_to(rank(found.verified, k)[-1].score)

    def told(found: Fetched) -> tuple[list[str], int]:
        return [one.document.name for one in found.verified], len(found.failures)

    candidates, _ = told(gathered(8))
    expected = [f"{number:02}.txt" for number in (*range(4), *range(26, 30))]
    assert sorted(candidates) == expected
    assert all(told(gathered(k)) == (candidates[:k], 0) for k in range(1, 9))
    nearer = [f"{number:02}.txt" for number in (4, 5, 7, 8)]
    assert told(gathered(12)) == ([*candidates, *nearer], 1)


def test_results_after_the_candidates_follow_by_similarity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_search, "POOL", 2)
    world = make_library(tmp_path).world(**TALES)
    found = world.search("harbour", top_k=4, floor=0.0, mode="hybrid").passages
    blended = [one.fused is not None and one.fused.blend is not None for one in found]
    rest = [one.score for one in found if one.fused and one.fused.blend is None]
    assert blended == sorted(blended, reverse=True)
    assert rest == sorted(rest, reverse=True)
    assert 2 <= sum(blended) < 4


def test_one_index_request_returns_both_kinds_of_candidates(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(**TALES)
    lib.journal.clear()
    world.search("harbour", floor=0.0, mode="hybrid")
    assert [call for call in lib.journal if call.startswith("index.")] == ["index.search_with"]


def test_unnamed_points_from_the_index_are_ignored(tmp_path: Path) -> None:
    lib = make_library(tmp_path, index=Lying(lambda hits, _: hits))
    world = lib.world(**TALES)
    other = lib.world("other", e__txt="The otter of another world.")
    stranger = next(iter(lib.points(other)))
    honest = sources(world.search("otter", floor=0.0, mode="hybrid"))
    lib.index.lie = lambda hits, _: [Hit(stranger, 1.0, hits[0].text_hash), *hits]
    assert sources(world.search("otter", floor=0.0, mode="hybrid")) == honest


class Eager(MemoryIndex):
    """An index that returns points that were not named."""

    def search_with(self, scope: Scope, *args: Any, **options: Any) -> Any:
        hits, _ = super().search_with(scope, *args, **options)
        return hits, self.search(scope, *args, limit=1 << 30, floor=options["floor"])


def test_unnamed_points_do_not_become_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_search, "POOL", 1)
    honest = make_library(tmp_path / "honest").world(**TALES)
    eager = make_library(tmp_path / "eager", index=Eager()).world(**TALES)

    def ranked(world: World) -> list[tuple[str, bool]]:
        found = world.search("otter", floor=0.0, mode="hybrid").passages
        return [(one.source, bool(one.fused and one.fused.blend is not None)) for one in found]

    assert ranked(eager) == ranked(honest)
    assert sum(blended for _, blended in ranked(honest)) < 4


class Floorless(MemoryIndex):
    """An index that ignores the floor for named points."""

    def search_with(self, scope: Scope, *args: Any, **options: Any) -> Any:
        hits, _ = super().search_with(scope, *args, **options)
        _, named = super().search_with(scope, *args, **{**options, "floor": None})
        return hits, named


def test_floor_is_checked_again_on_scores_of_the_index(tmp_path: Path) -> None:
    world = make_library(tmp_path, index=Floorless()).world(**TALES)
    found = world.search("otter harbour", floor=0.54, mode="hybrid")
    assert 0 < len(found.passages) < 4
    assert all(one.score >= 0.54 for one in found.passages)


def test_keyword_mode_returns_only_chunks_with_a_query_word(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**TALES)
    similar = {one.source: one.score for one in world.search("harbour key", floor=0.0).passages}

    found = world.search("the harbour of the keys", floor=0.0, mode="keyword")

    # One word in a short text, then twice, then three times in a long one; "the" brings nothing.
    assert sources(found) == ["b.txt", "d.txt", "a.txt"]
    shown = world.search("harbour key", floor=0.0, mode="keyword").passages
    assert {one.source: one.score for one in shown} == {
        source: score for source, score in similar.items() if source != "c.txt"
    }
    bm25 = [one.fused.bm25 for one in shown if one.fused]
    assert bm25 == sorted(bm25, reverse=True)
    assert sources(world.search("zebra", floor=0.0, mode="keyword")) == []
    assert len(world.search("the", floor=0.0, mode="keyword").passages) == 4


def test_keyword_mode_respects_floor_and_number_of_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_search, "POOL", 2)
    lib = graded(tmp_path)
    world = lib.library.world("world")
    whole = sources(world.search("lamp", top_k=30, floor=0.0, mode="keyword"))

    assert whole == [f"{number}.txt" for number in range(29, 19, -1)]
    for top_k in range(1, 10):
        assert (
            sources(world.search("lamp", top_k=top_k, floor=0.0, mode="keyword")) == whole[:top_k]
        )
    # The best by words are the farthest: the next ones are looked up until enough reach the floor.
    floor = 1 - 22.5 / 50
    assert sources(world.search("lamp", top_k=2, floor=floor, mode="keyword")) == [
        *("22.txt", "21.txt")
    ]


@proves("search.words")
@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
def test_quoted_phrase_occurs_in_every_result(lib: LibraryFixture, mode: Mode) -> None:
    world = lib.world(
        **TALES, e__txt="By the harbour a stone lay.", f__txt="The harbours by the stone."
    )

    def search(query: str) -> set[str]:
        return set(sources(world.search(query, floor=0.0, mode=mode)))

    assert search('"the harbour"') == {"a.txt", "b.txt", "d.txt", "e.txt", "f.txt"}
    assert search('"by the harbour"') == {"b.txt", "e.txt"}
    assert search("“By the Harbours” lamp") == {"b.txt", "e.txt"}
    assert search('"by the harbour" "a stone"') == {"e.txt"}
    assert search('"harbour the by"') == search('"zebra stone" harbour') == set()
    assert search('harbour "') == search("harbour")
    # A chunk that was damaged since words were counted is not shown, and is named.
    lib.sql("UPDATE chunks SET text = 'By the harbour.' WHERE text LIKE 'The harbours by%'")
    found = world.search('"by the harbour"', floor=0.0, mode=mode)
    assert set(sources(found)) == {"b.txt", "e.txt"}
    assert [(entry.code, entry.count) for entry in found.skipped] == [("damaged_text", 1)]


def test_phrases_do_not_restrict_vector_search(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**TALES)
    assert len(sources(world.search('"by the harbour"', floor=0.0, mode="vector"))) == 4


@pytest.mark.contract
def test_retrieval_supports_fused_mode_with_the_usual_fields(tmp_path: Path) -> None:
    world = make_library(tmp_path, embedder=Blind()).world(**TALES)
    plain = world.retrieve("the otter", top_k=2, language=None)
    found = world.retrieve("the otter", top_k=2, language=None, mode="hybrid")
    assert plain.metadata.sources[0].source == "a.txt"
    assert plain.metadata.sources[0].fused is None
    assert found.metadata.sources[0].source == "c.txt"
    assert found.metadata.sources[0].fused is not None
    assert "fused" not in to_json(found.retrieved_chunks)


@pytest.mark.contract
def test_why_not_explains_the_fused_order(tmp_path: Path) -> None:
    world = make_library(tmp_path, embedder=Blind()).world(**TALES)
    settings: dict[str, Any] = {"top_k": 1, "language": None}
    ids = {one.source: one.chunk_id for one in world.search("x", floor=0.0).passages}
    assert world.why_not(ids["a.txt"], "the otter", **settings).code is WhyNot.RETURNED
    assert world.why_not(ids["c.txt"], "the otter", **settings).code is WhyNot.OUTRANKED
    settings["mode"] = "hybrid"
    assert world.why_not(ids["c.txt"], "the otter", **settings).code is WhyNot.RETURNED
    assert world.why_not(ids["a.txt"], "the otter", **settings).code is WhyNot.OUTRANKED


def test_stale_and_damaged_chunks_are_replaced_by_the_next(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=Blind())
    world = lib.world(**TALES)
    before = sources(world.search("harbour", top_k=4, floor=0.0, mode="hybrid"))
    lib.sql(
        """UPDATE chunks SET text = 'Something else.' WHERE revision = (SELECT r.key
           FROM revisions r WHERE r.name = ?)""",
        before[0],
    )

    found = world.search("harbour", top_k=3, floor=0.0, mode="hybrid")

    assert sources(found) == before[1:4]
    assert [(entry.code, entry.count) for entry in found.skipped] == [("damaged_text", 1)]


def test_selection_alone_has_no_query_words(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**TALES)
    plain = world.retrieve(selected_text="the harbour", mode="vector")
    assert world.retrieve(selected_text="the harbour", mode="auto").context == plain.context
    for mode in ("hybrid", "keyword"):
        with pytest.raises(InvalidArgument, match=f"'{mode}' needs a query"):
            world.retrieve(selected_text="the harbour", mode=mode)


def test_unknown_mode_is_refused_with_the_known_names(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**TALES)
    reader = world.reader("ann")
    for mode in ("fuzzy", "Auto", "", 1, True):
        for call in (world.search, world.retrieve, world.answer, reader.retrieve, reader.answer):
            with pytest.raises(InvalidArgument, match="one of auto, hybrid, vector, keyword"):
                call("harbour", mode=mode)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="one of auto, hybrid, vector, keyword"):
            world.evaluation.run([], mode=mode)  # type: ignore[arg-type]


def test_scope_of_a_reader_is_refused(tmp_path: Path) -> None:
    lib: LibraryFixture = make_library(tmp_path)
    world: World = lib.world(**TALES)
    scope = lib.scope(world).for_reader(1, 1, 0)
    with pytest.raises(ValueError, match="FusedBookSearch"):
        fetch_fused(
            lib.library._components, scope, world.access.record(),
            vector_of("harbour"), "harbour", k=1, floor=None,
            select=lambda verified: Best(verified, 1 - len(verified), None),
        )  # fmt: skip
