"""Filters have typed values, are always bound to one world, and mean the same everywhere."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import qdrant_edge

from tests.promises import proves
from truespan.errors import IndexRefused
from truespan.index.filters import (
    MAX_LISTED,
    AnyOf,
    AtMost,
    Condition,
    Equals,
    Field,
    HasId,
    Numbers,
    build,
    conditions,
    pack,
    tenant,
)
from truespan.types.ids import WorldId
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.scope import OWNER, DocumentSubset, Generation, Scope

PROFILE = EmbeddingProfile("local", "m", "r", 4, Distance.COSINE, "document", "query", 510)
WORLD = WorldId(str(uuid4()))
SCOPE = Scope(OWNER, WORLD, Generation(2, PROFILE))
TENANT = Equals(Field.TENANT, f"{WORLD}.2")


@proves("search.world-in-request")
def test_every_scope_requires_its_world_generation_and_documents():
    assert conditions(SCOPE) == (TENANT,)
    assert tenant(SCOPE) == TENANT
    narrowed = SCOPE.narrow(documents=[9, 2, 5])
    assert conditions(narrowed) == (TENANT, AnyOf(Field.DOCUMENT, (2, 5, 9)))


def test_scope_over_most_documents_excludes_the_others():
    assert type(DocumentSubset.of(frozenset({2, 5}), frozenset(range(10)))) is frozenset
    some = DocumentSubset.of(frozenset(range(300)), frozenset(range(1000)))
    assert conditions(SCOPE.narrow(documents=some))[1:] == (Numbers(pack(some), share=0.3),)
    most = DocumentSubset.of(frozenset({2, 5, 9}), frozenset({9, 2, 5, 4}))
    narrowed = SCOPE.narrow(documents=most)

    assert narrowed.documents == {2, 5, 9}
    assert conditions(narrowed) == (
        TENANT,
        Numbers(pack(frozenset({4})), excluded=True, share=0.75),
    )
    # What is narrowed further is another set, with other others.
    assert conditions(narrowed.narrow(documents=[5, 9])) == (TENANT, AnyOf(Field.DOCUMENT, (5, 9)))
    assert narrowed.for_reader(5, 1, 3).documents == {5}


@proves("reading.never-past-position", "authority.empty-means-nothing", "index.typed-filters")
def test_scope_never_widens_and_has_no_empty_filter():
    scope = SCOPE.for_reader(5, 1, 3)
    assert [scope.for_reader(5, 1, sid).position for sid in (9, 3, 2, -1)] == [3, 3, 2, -1]
    assert scope.for_reader(6, 1, 3).documents == frozenset()
    assert scope.narrow(chapter="One").position == 3
    with pytest.raises(TypeError):
        conditions(SCOPE.narrow(documents=[]))


@proves("index.typed-filters")
@pytest.mark.parametrize("value", [True, None, 1.5, b"x", ["x"], {"x": 1}, object()])
def test_conditions_compare_only_strings_and_whole_numbers(value: Any):
    with pytest.raises(TypeError):
        Equals(Field.TENANT, value)
    with pytest.raises(TypeError):
        AnyOf(Field.DOCUMENT, (value,))
    with pytest.raises(TypeError):
        Numbers(value)


@proves("index.typed-filters")
@pytest.mark.parametrize("values", [(), (1, "1"), (1, True)])
def test_choices_are_not_empty_and_of_one_type(values: Any):
    with pytest.raises(TypeError):
        AnyOf(Field.DOCUMENT, values)


@proves("index.typed-filters")
@pytest.mark.parametrize("value", [True, 1.0, "1", 2**53 + 1, -(2**53) - 1])
def test_bound_is_an_integer_that_the_index_distinguishes(value: Any):
    with pytest.raises(TypeError):
        AtMost(Field.POS_START, value)


@proves("index.typed-filters")
@pytest.mark.parametrize("ids", [(), (1,), ("a", 1)])
def test_points_are_named_by_strings(ids: Any):
    with pytest.raises(TypeError):
        HasId(ids)


@proves("index.typed-filters")
@pytest.mark.parametrize("message", [
    ["equals", "tenant", True], ["equals", "no such field", "x"], ["any_of", "document", []],
    ["none_of", "document", []], ["at_most", "pos_start", 1.5], ["matches", "tenant", "x"],
])  # fmt: skip
def test_received_condition_is_validated_like_a_new_one(message: list[Any]):
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Condition)


@proves("search.world-required")
@pytest.mark.parametrize("where", [
    (), (AnyOf(Field.DOCUMENT, (1,)),), (Equals(Field.TENANT, ""),), (Equals(Field.TENANT, 7),),
    (Equals(Field.CHAPTER, f"{WORLD}.2"),), (AnyOf(Field.TENANT, (f"{WORLD}.2",)),),
])  # fmt: skip
def test_every_filter_is_bound_to_one_world(where: tuple[Condition, ...]):
    with pytest.raises(IndexRefused, match="world and generation"):
        build(where, qdrant_edge)


ALL_KINDS = (
    TENANT, AnyOf(Field.DOCUMENT, (1, 2)), AtMost(Field.POS_START, 41),
    HasId(("6f1d3c1e-5b0e-5d0a-9d7c-7a1c54b6e0a1",)),
)  # fmt: skip


def test_embedded_engine_gets_conditions_in_its_own_classes():
    world, documents, position, points = build(ALL_KINDS, qdrant_edge).must
    assert (world.key, world.match.value) == ("tenant", f"{WORLD}.2")
    assert (documents.key, documents.match.value) == ("document", [1, 2])
    assert (position.key, position.range.lte, position.range.lt) == ("pos_start", 41, None)
    assert {str(id) for id in points.point_ids} == set(ALL_KINDS[3].ids)


def test_server_client_gets_conditions_in_its_own_classes():
    names = ["Filter", "FieldCondition", "MatchValue", "MatchAny", "Range", "HasIdCondition"]
    models = SimpleNamespace(**{name: recorded(name) for name in names})

    assert build(ALL_KINDS, models) == (
        "Filter",
        {
            "must": [
                (
                    "FieldCondition",
                    {"key": "tenant", "match": ("MatchValue", {"value": f"{WORLD}.2"})},
                ),
                ("FieldCondition", {"key": "document", "match": ("MatchAny", {"any": [1, 2]})}),
                ("FieldCondition", {"key": "pos_start", "range": ("Range", {"lte": 41})}),
                ("HasIdCondition", {"has_id": [*ALL_KINDS[3].ids]}),
            ]
        },
    )


def test_many_values_are_compared_instead_of_looked_up():
    many = frozenset(range(MAX_LISTED + 1))
    (_, listed) = conditions(SCOPE.narrow(documents=many))
    chosen = build((TENANT, listed, Numbers(pack(frozenset({7})), excluded=True)), qdrant_edge)
    world, others = chosen.must
    (none,) = chosen.must_not
    assert (world.key, others.key, others.match.value) == ("tenant", "document", [7])
    assert (none.key, none.match.value) == ("document", sorted(many))


def recorded(name: str):
    """Replace a class of the client library by a record of its name and arguments."""
    return lambda **given: (name, given)
