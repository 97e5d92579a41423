"""The contract of every `VectorIndex`.

A test module for an adapter derives a class from `IndexContract` and provides a fixture `index`.
The index may be shared by all tests of the module: each makes its own worlds, as programs do.
"""

import math
import struct
from uuid import uuid4

import pytest
from msgspec.structs import replace

from tests.promises import proves
from truespan.errors import IndexRefused, IndexSchemaMismatch
from truespan.protocols import VectorIndex
from truespan.types.chunk import ChunkKind, Point, PointPlace
from truespan.types.ids import ChunkId, WorldId, chunk_id, hash_text
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.scope import OWNER, DocumentSubset, Generation, Scope
from truespan.types.vectors import Vector

COSINE = EmbeddingProfile("local", "m", "r", 4, Distance.COSINE, "document", "query", 510)
DOT = replace(COSINE, distance=Distance.DOT)
EAST = (1.0, 0.0, 0.0, 0.0)
NORTH = (0.0, 1.0, 0.0, 0.0)


def vector(*numbers: float) -> Vector:
    return Vector(struct.pack(f"<{len(numbers)}f", *numbers))


def leaning(east: float) -> Vector:
    """Return a unit vector whose cosine with EAST is the float32 nearest to `east`."""
    return vector(east, math.sqrt(1 - east * east), 0, 0)


def float32_below(number: float) -> float:
    """Return the next smaller float32 of a positive number."""
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    return struct.unpack("<f", struct.pack("<I", bits - 1))[0]


def new_scope(profile: EmbeddingProfile = COSINE, *, generation: int = 1) -> Scope:
    return Scope(OWNER, WorldId(str(uuid4())), Generation(generation, profile))


def point(scope: Scope, number: int, values: Vector, **changes: object) -> Point:
    """Return chunk `number` of document 1 of the scope's world."""
    made = Point(
        chunk_id=chunk_id(scope.world, scope.generation.number, 1, 1, number),
        vector=values,
        text_hash=hash_text(f"text {number}"),
        document=1,
        pos_start=number,
        pos_end=number,
        pos_reach=number,
        kind=ChunkKind.TEXT,
        chapters=("Chapter One",),
        sections=("Section",),
    )
    return replace(made, **changes)


def found(
    index: VectorIndex, scope: Scope, values: Vector, **options: float | None
) -> list[ChunkId]:
    """Search and return the ids, by default without a floor."""
    floor, limit = options.get("floor"), int(options.get("limit") or 100)
    return [hit.chunk_id for hit in index.search(scope, values, limit=limit, floor=floor)]


class IndexContract:
    """The contract; subclasses provide `index`."""

    @pytest.fixture
    def scope(self, index: VectorIndex) -> Scope:
        """A prepared scope of a new world."""
        scope = new_scope()
        index.prepare(scope)
        return scope

    def test_count_within_counts_documents_and_the_read_part(self, index: VectorIndex) -> None:
        scope, other = new_scope(), new_scope()
        for world in (scope, other):
            index.prepare(world)
            index.upsert(world, [point(world, number, leaning(0.5)) for number in range(4)])
        index.upsert(scope, [point(scope, 9, leaning(0.5), document=2)])
        narrowed = scope.narrow(documents=[1])

        assert (index.count(scope), index.count_within(scope)) == (5, 5)
        assert index.count_within(narrowed) == 4
        assert index.count_within(scope.narrow(documents=[])) == 0
        assert index.count_within(replace(narrowed, position=1)) == 2

    def test_hits_are_sorted_and_have_the_embedded_hash(self, index, scope):
        points = [point(scope, number, leaning(number / 10)) for number in range(10)]
        index.upsert(scope, points)

        hits = index.search(scope, vector(*EAST), limit=3, floor=None)

        assert [hit.chunk_id for hit in hits] == [
            p.chunk_id for p in (points[9], points[8], points[7])
        ]
        assert [hit.text_hash for hit in hits] == [
            p.text_hash for p in (points[9], points[8], points[7])
        ]
        assert [hit.score for hit in hits] == pytest.approx([0.9, 0.8, 0.7], abs=1e-6)

    @proves("search.at-most-k")
    def test_fewer_points_than_requested_are_not_an_error(self, index, scope):
        index.upsert(scope, [point(scope, 0, vector(*EAST))])

        assert len(index.search(scope, vector(*EAST), limit=50, floor=None)) == 1

    def test_a_world_without_points_has_no_hits(self, index, scope):
        assert index.search(scope, vector(*EAST), limit=5, floor=None) == []
        assert index.count(scope) == 0
        assert list(index.scan(scope)) == []

    def test_search_is_exact_unless_configured_otherwise(self, index, scope):
        assert not index.approximate(scope)
        assert not index.approximate(scope.for_reader(1, 1, 5))

    def test_limit_of_zero_finds_nothing(self, index, scope):
        index.upsert(scope, [point(scope, 0, vector(*EAST))])

        assert index.search(scope, vector(*EAST), limit=0, floor=None) == []

    def test_search_read_later_finds_the_same(self, index, scope):
        index.upsert(scope, [point(scope, n, leaning(n / 5)) for n in range(5)])
        other = new_scope()
        index.prepare(other)
        expected = index.search(scope, leaning(1), limit=3, floor=0.3)

        wait = index.start_search(scope, leaning(1), limit=3, floor=0.3)
        elsewhere = index.start_search(other, leaning(1), limit=3, floor=None)
        meanwhile = index.search(scope, leaning(1), limit=1, floor=None)

        assert elsewhere() == []
        assert wait() == expected
        assert len(expected) == 3
        assert meanwhile == expected[:1]

    def test_search_without_a_wait_does_not_affect_later_ones(self, index, scope):
        index.upsert(scope, [point(scope, n, leaning(n / 5)) for n in range(5)])
        expected = index.search(scope, leaning(1), limit=3, floor=None)

        index.start_search(scope, leaning(0), limit=1, floor=None)

        assert index.search(scope, leaning(1), limit=3, floor=None) == expected

    def test_named_points_are_scored_with_the_best(self, index, scope):
        points = [point(scope, number, leaning(number / 10)) for number in range(10)]
        index.upsert(scope, points)
        named = [points[2].chunk_id, points[9].chunk_id, points[0].chunk_id]

        hits, found = index.search_with(scope, vector(*EAST), limit=3, floor=None, ids=named)

        assert hits == index.search(scope, vector(*EAST), limit=3, floor=None)
        assert {hit.chunk_id for hit in found} == set(named)
        everything = index.search(scope, vector(*EAST), limit=10, floor=None)
        assert set(found) == {hit for hit in everything if hit.chunk_id in named}

    def test_limit_of_zero_scores_only_named_points(self, index, scope):
        points = [point(scope, number, leaning(number / 10)) for number in range(5)]
        index.upsert(scope, points)
        named = [points[2].chunk_id, points[4].chunk_id]

        hits, found = index.search_with(scope, vector(*EAST), limit=0, floor=None, ids=named)

        assert (hits, {hit.chunk_id for hit in found}) == ([], set(named))
        assert index.search_with(scope, vector(*EAST), limit=0, floor=None, ids=[]) == ([], [])

    def test_scope_and_floor_apply_to_named_points(self, index, scope):
        other = new_scope()
        index.prepare(other)
        mine = [point(scope, 1, leaning(0.5)), point(scope, 2, leaning(0.9), document=2)]
        index.upsert(scope, [*mine, point(scope, 3, leaning(0.6))])
        theirs = point(other, 1, leaning(0.9))
        index.upsert(other, [theirs])
        ids = [*(p.chunk_id for p in mine), theirs.chunk_id, chunk_id(scope.world, 1, 9, 9, 9)]
        narrow = scope.narrow(documents=[1])

        _, inside = index.search_with(scope, vector(*EAST), limit=5, floor=0.6, ids=ids)
        _, within = index.search_with(narrow, vector(*EAST), limit=5, floor=None, ids=ids)
        nothing = index.search_with(
            scope.narrow(documents=[]), vector(*EAST), limit=5, floor=None, ids=ids
        )

        assert [hit.chunk_id for hit in inside] == [mine[1].chunk_id]
        assert [hit.chunk_id for hit in within] == [mine[0].chunk_id]
        assert nothing == ([], [])

    def test_equal_scores_all_come_back_when_the_limit_allows(self, index, scope):
        points = [point(scope, number, leaning(0.6)) for number in range(7)]
        index.upsert(scope, points)

        hits = index.search(scope, vector(*EAST), limit=7, floor=None)

        assert {hit.chunk_id for hit in hits} == {p.chunk_id for p in points}
        assert len({hit.score for hit in hits}) == 1

    @proves("search.one-world", "search.non-interference")
    def test_other_worlds_and_generations_do_not_affect_a_search(self, index, scope):
        own = point(scope, 0, leaning(0.5))
        index.upsert(scope, [own])
        alone = index.search(scope, vector(*EAST), limit=10, floor=0.1)
        for other in (new_scope(), replace(scope, generation=Generation(2, COSINE))):
            index.upsert(other, [point(other, n, vector(*EAST)) for n in range(30)])

        assert index.search(scope, vector(*EAST), limit=10, floor=0.1) == alone
        assert [hit.chunk_id for hit in alone] == [own.chunk_id]
        assert index.count(scope) == 1
        assert [p.chunk_id for page in index.scan(scope) for p in page] == [own.chunk_id]

    @proves("index.points-per-world")
    def test_the_same_document_in_two_worlds_has_two_points(self, index, scope):
        other = new_scope()
        for each in (scope, other):
            index.upsert(each, [point(each, 0, vector(*EAST))])

        index.delete(other, [point(other, 0, vector(*EAST)).chunk_id])

        assert (index.count(scope), index.count(other)) == (1, 0)

    def test_documents_outside_the_scope_are_not_found(self, index, scope):
        points = [point(scope, n, vector(*EAST), document=n) for n in range(5)]
        index.upsert(scope, points)

        ids = found(index, scope.narrow(documents=[1, 3]), vector(*EAST))

        assert set(ids) == {points[1].chunk_id, points[3].chunk_id}

    def test_large_document_filter_gives_the_same_results(self, index, scope):
        everything = frozenset(range(600))
        points = [point(scope, n, vector(*EAST), document=n) for n in range(600)]
        index.upsert(scope, points)
        halves = frozenset(range(0, 600, 2)), everything - {3, 77}

        for chosen in (*halves, DocumentSubset.of(halves[1], everything)):
            hits = index.search(
                scope.narrow(documents=chosen), vector(*EAST), limit=600, floor=None
            )
            assert {hit.chunk_id for hit in hits} == {points[n].chunk_id for n in chosen}

    def test_share_of_documents_in_scope_does_not_affect_results(self, index, scope):
        everything = frozenset(range(400))
        points = [point(scope, n, leaning(1 - n / 500), document=n) for n in everything]
        index.upsert(scope, points)
        chosen = (
            frozenset(range(0, 400, 2)),
            # Most of the closest documents are left out.
            frozenset([*range(0, 100, 20), *range(100, 400)]),
            everything - {0, 1, 399},
            frozenset(range(300, 400)),
        )
        for documents in chosen:
            for limit in (1, 2, 30, 200, 400):
                part = scope.narrow(documents=DocumentSubset.of(documents, everything))
                hits = index.search(part, vector(*EAST), limit=limit, floor=None)
                expected = [points[n].chunk_id for n in sorted(documents)[:limit]]
                assert [hit.chunk_id for hit in hits] == expected, (len(documents), limit)

    @proves("authority.empty-means-nothing")
    def test_a_scope_without_documents_finds_nothing(self, index, scope):
        index.upsert(scope, [point(scope, 0, vector(*EAST))])

        assert found(index, scope.narrow(documents=[]), vector(*EAST)) == []

    @proves("search.floor-inclusive")
    @pytest.mark.parametrize("floor", [0.0, 0.15, 0.3, 0.6, 0.9, 1.0])
    def test_cosine_at_the_floor_is_kept_and_below_is_not(self, index, scope, floor):
        at = point(scope, 0, leaning(floor))
        below = point(scope, 1, leaning(float32_below(floor) if floor else -1e-6))
        index.upsert(scope, [at, below])

        assert found(index, scope, vector(*EAST), floor=floor) == [at.chunk_id]

    @proves("search.floor-inclusive", "decision.normalised-similarity")
    @pytest.mark.parametrize("floor", [0.5, 0.75, 1.0])
    def test_dot_product_is_compared_on_the_scale_of_the_floor(self, index, floor):
        scope = new_scope(DOT)
        index.prepare(scope)
        raw = 2 * floor - 1
        at = point(scope, 0, leaning(raw))
        below = point(scope, 1, leaning(float32_below(raw) if raw else -1e-6))
        index.upsert(scope, [at, below])

        hits = index.search(scope, vector(*EAST), limit=5, floor=floor)

        assert [(hit.chunk_id, hit.score) for hit in hits] == [(at.chunk_id, floor)]

    @proves("decision.normalised-similarity")
    def test_an_opposite_vector_scores_zero_as_a_dot_product(self, index):
        scope = new_scope(DOT)
        index.prepare(scope)
        index.upsert(scope, [point(scope, 0, leaning(-1.0))])

        [hit] = index.search(scope, vector(*EAST), limit=1, floor=0.0)

        assert hit.score == 0.0

    def test_writing_a_point_again_replaces_it(self, index, scope):
        index.upsert(scope, [point(scope, 0, vector(*EAST))])
        index.upsert(scope, [point(scope, 0, vector(*NORTH), text_hash=hash_text("new"))])

        [hit] = index.search(scope, vector(*NORTH), limit=5, floor=0.9)

        assert hit.text_hash == hash_text("new")
        assert index.count(scope) == 1

    def test_deleting_absent_points_is_not_an_error(self, index, scope):
        points = [point(scope, n, vector(*EAST)) for n in range(4)]
        index.upsert(scope, points)

        for _ in range(2):
            index.delete(scope, [points[0].chunk_id, points[2].chunk_id])

        assert set(found(index, scope, vector(*EAST))) == {points[1].chunk_id, points[3].chunk_id}

    def test_deleting_an_empty_list_deletes_nothing(self, index, scope):
        index.upsert(scope, [point(scope, 0, vector(*EAST))])

        index.delete(scope, [])
        index.delete_stale(scope, [])

        assert index.count(scope) == 1

    @proves("search.one-world")
    def test_points_of_another_world_cannot_be_deleted(self, index, scope):
        other = new_scope()
        theirs = point(other, 0, vector(*EAST))
        index.upsert(other, [theirs])

        index.delete(scope, [theirs.chunk_id])
        index.delete_stale(scope, [(theirs.chunk_id, theirs.text_hash)])
        index.drop(scope)

        assert index.count(other) == 1

    @proves("repair.conditional")
    def test_stale_point_is_deleted_unless_embedded_again(self, index, scope):
        stale, renewed = (point(scope, n, vector(*EAST)) for n in range(2))
        index.upsert(scope, [stale, renewed])
        index.upsert(scope, [replace(renewed, text_hash=hash_text("new"))])

        index.delete_stale(scope, [(p.chunk_id, p.text_hash) for p in (stale, renewed)])

        assert found(index, scope, vector(*EAST)) == [renewed.chunk_id]

    def test_scan_yields_each_point_once_with_its_exact_vector(self, index, scope):
        angles = [math.sin(n) for n in range(600)]
        points = [point(scope, n, leaning(angle)) for n, angle in enumerate(angles)]
        index.upsert(scope, points)

        pages = list(index.scan(scope))
        scanned = {p.chunk_id: (p.text_hash, p.vector) for page in pages for p in page}

        assert len(pages) > 1
        assert sum(map(len, pages)) == 600
        assert scanned == {p.chunk_id: (p.text_hash, p.vector) for p in points}

    def test_scan_yields_the_place_that_filters_use(self, index, scope):
        made = point(scope, 3, vector(*EAST), document=7, pos_end=5, pos_reach=9)
        index.upsert(scope, [replace(made, kind=ChunkKind.FIGURE)])

        [[found]] = index.scan(scope)

        assert found.place == PointPlace(7, 3, 5, 9, ("chapter one",), ("section",), "figure")

    def test_point_without_chapters_and_sections_stores_none(self, index, scope):
        index.upsert(scope, [point(scope, 3, vector(*EAST), chapters=(), sections=())])

        [[found]] = index.scan(scope)

        assert found.place == PointPlace(1, 3, 3, 3)

    def test_a_point_is_found_by_each_of_its_chapters_and_sections(self, index, scope):
        spelled = "Cafe\u0301", "STRASSE"
        across = point(scope, 0, vector(*EAST), chapters=("One", *spelled), sections=("A", "B"))
        index.upsert(scope, [across, point(scope, 1, vector(*EAST), chapters=("Two",))])
        rows = {
            ("ONE", None): True,
            ("caf\xe9", None): True,
            ("cafe\u0301", "b"): True,
            ("straße", "A"): True,
            ("two", None): False,
            ("On", None): False,
            ("one", "C"): False,
        }
        wrong = {}
        for (chapter, section), expected in rows.items():
            narrow = scope.narrow(chapter=chapter, section=section)
            hits = found(index, narrow, vector(*EAST))
            if (across.chunk_id in hits) is not expected or len(hits) != (
                expected or chapter == "two"
            ):
                wrong[chapter, section] = hits
        assert wrong == {}
        [place] = [held.place for held in index.read(scope, [across.chunk_id])]
        assert (place.chapter, place.section) == (("one", "caf\xe9", "strasse"), ("a", "b"))

    @proves("search.one-world")
    def test_points_are_read_by_id_only_within_the_generation(self, index, scope):
        other, later = new_scope(), replace(scope, generation=Generation(2, COSINE))
        points = [point(scope, n, leaning(n / 300)) for n in range(300)]
        index.upsert(scope, points)
        ids = [p.chunk_id for p in points]

        found = index.read(scope, [*ids, point(other, 1, vector(*EAST)).chunk_id])

        assert {p.chunk_id for p in found} == set(ids)
        assert len(found) == len(ids)
        assert index.read(other, ids) == index.read(later, ids) == index.read(scope, []) == []

    def test_holdings_list_owners_without_deleted_points(self, index, scope):
        profile = replace(COSINE, revision=str(uuid4()))
        one, two, gone = (new_scope(profile) for _ in range(3))
        index.prepare(one)
        for own, count in ((one, 3), (two, 1), (gone, 2)):
            index.upsert(own, [point(own, n, vector(*EAST)) for n in range(count)])
        index.drop(gone)

        held = index.tenants(one, limit=10)

        assert held.tenants == {one.tenant: 3, two.tenant: 1}
        assert held.points == 4
        assert len(index.tenants(one, limit=1).tenants) == 1

    def test_unclaimed_tenant_can_be_dropped_by_name(self, index):
        profile = replace(COSINE, revision=str(uuid4()))
        one, two = new_scope(profile), new_scope(profile)
        index.prepare(one)
        for own in (one, two):
            index.upsert(own, [point(own, 0, vector(*EAST))])

        index.drop_tenant(one, two.tenant)

        assert (index.count(one), index.count(two)) == (1, 0)

    def test_a_collection_is_listed_until_it_is_discarded(self, index, scope):
        profile = replace(COSINE, revision=str(uuid4()))
        own = new_scope(profile)
        index.prepare(own)
        index.upsert(own, [point(own, 0, vector(*EAST))])
        index.upsert(scope, [point(scope, 0, vector(*EAST))])
        assert {profile.id, COSINE.id} <= set(index.collections())

        for _ in range(2):
            index.discard(profile.id)

        assert profile.id not in index.collections()
        assert index.count(scope) == 1

    def test_discarded_collection_can_be_prepared_again(self, index):
        own = new_scope(replace(COSINE, revision=str(uuid4())))
        index.prepare(own)
        index.upsert(own, [point(own, 0, vector(*EAST))])

        index.discard(own.profile.id)

        assert index.prepare(own)
        assert index.count(own) == 0
        index.discard(own.profile.id)

    def test_dropping_removes_the_world_and_generation_only(self, index, scope):
        later = replace(scope, generation=Generation(2, COSINE))
        for each in (scope, later):
            index.upsert(each, [point(each, n, vector(*EAST)) for n in range(3)])

        index.drop(scope)

        assert (index.count(scope), index.count(later)) == (0, 3)

    def test_flushing_returns_and_changes_nothing(self, index, scope):
        index.upsert(scope, [point(scope, 0, vector(*EAST))])

        index.flush(scope)

        assert index.count(scope) == 1

    @proves("index.collection-per-model", "search.models-side-by-side", "search.locked-collection")
    def test_each_profile_has_separate_vectors(self, index, scope):
        wide = replace(scope, generation=Generation(1, replace(COSINE, dimensions=6)))
        index.prepare(wide)
        index.upsert(scope, [point(scope, 0, vector(*EAST))])
        index.upsert(wide, [point(wide, 1, vector(1, 0, 0, 0, 0, 0))])

        assert found(index, scope, vector(*EAST)) == [point(scope, 0, vector(*EAST)).chunk_id]
        assert found(index, wide, vector(1, 0, 0, 0, 0, 0)) == [
            point(wide, 1, vector(*EAST)).chunk_id
        ]

    @proves("search.collection-mismatch", "index.distance-agrees")
    @pytest.mark.parametrize(
        "other", [replace(COSINE, dimensions=5), DOT], ids=["size", "distance"]
    )
    def test_collection_of_another_shape_is_refused(self, index, scope, other):
        forged = replace(other)
        vars(forged)["id"] = COSINE.id
        wrong = replace(scope, generation=Generation(1, forged))

        with pytest.raises(IndexSchemaMismatch):
            index.search(wrong, vector(*[1.0] * other.dimensions), limit=1, floor=None)
        with pytest.raises(IndexSchemaMismatch):
            index.upsert(wrong, [point(wrong, 0, vector(*[1.0] * other.dimensions))])

    def test_missing_collection_is_not_an_empty_collection(self, index):
        unknown = new_scope(replace(COSINE, model=f"never made {uuid4()}"))

        with pytest.raises(IndexRefused, match="doctor"):
            index.search(unknown, vector(*EAST), limit=1, floor=None)
        with pytest.raises(IndexRefused, match="doctor"):
            index.count(unknown)

    def test_preparing_again_keeps_the_points(self, index, scope):
        index.upsert(scope, [point(scope, 0, vector(*EAST))])

        index.prepare(scope)

        assert index.count(scope) == 1

    @proves("search.query-vector-length")
    def test_a_query_of_another_length_is_refused(self, index, scope):
        with pytest.raises(IndexRefused):
            index.search(scope, vector(1.0, 0.0), limit=1, floor=None)

    def test_batch_with_one_wrong_vector_is_refused_as_a_whole(self, index, scope):
        good, bad = point(scope, 0, vector(*EAST)), point(scope, 1, vector(1.0, 0.0))

        with pytest.raises(IndexRefused):
            index.upsert(scope, [good, bad])

        assert index.count(scope) == 0

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    def test_non_finite_query_is_refused(self, index, scope, number):
        index.upsert(scope, [point(scope, 0, vector(*EAST))])

        with pytest.raises(IndexRefused):
            index.search(scope, vector(number, 0.0, 0.0, 0.0), limit=1, floor=None)
