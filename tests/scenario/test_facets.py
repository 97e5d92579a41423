"""Facets: what is counted, what the filters find of it, and what damage does to that."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.promises import proves
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, NotAllowed
from truespan.types.document import Facet, Facets
from truespan.types.ids import WorldId
from truespan.types.scope import Authority, Verb

DOCUMENTS: dict[str, dict[str, Any]] = {
    "a.txt": {
        "tags": ["net", "it"],
        "metadata": {"team": "a", "year": 2020, "due": "2024-05-01", "language": "x"},
    },
    "b.txt": {
        "tags": ["net"],
        "version": "2",
        "metadata": {"team": "b", "year": 2023.5, "open": True, "status": ["new", "new", "hot"]},
    },
    "c.txt": {"metadata": {"team": "a", "year": "2020", "due": "2024-05-02T12:00:00Z"}},
    "d.txt": {"kind": "book", "lang": "de", "metadata": {"by": {"name": "x"}, "open": None}},
}


def shelved(lib: LibraryFixture) -> World:
    world = lib.library.create_world("world", defaults="recommended")
    for number, path in enumerate(DOCUMENTS):
        lib.write(path, f"The lamp burns in room {number}.")
    lines = [json.dumps({"path": path, "lang": "en", **more}) for path, more in DOCUMENTS.items()]
    world.ingest(manifest=lib.write("all.jsonl", "\n".join(lines)))
    return world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    lib = make_library(tmp_path_factory.mktemp("world"))
    yield shelved(lib)
    lib.library.close()


def listed(facets: Facets) -> dict[tuple[str, bool], list[tuple[Any, int]]]:
    return {
        (facet.key, facet.metadata): [(value.value, value.documents) for value in facet.values]
        for facet in facets.facets
    }


@proves("request.facets")
def test_documents_are_counted_by_label_and_metadata(world: World) -> None:
    found = world.documents.facets()

    assert (found.documents, found.chunks, found.warnings) == (4, 4, ())
    assert listed(found) == {
        ("tags", False): [("net", 2), ("it", 1)],
        ("language", False): [("en", 3), ("de", 1)],
        ("version", False): [("1.0", 3), ("2", 1)],
        ("kind", False): [("document", 3), ("book", 1)],
        ("team", True): [("a", 2), ("b", 1)],
        ("year", True): [(2020, 1), (2023.5, 1), ("2020", 1)],
        ("due", True): [("2024-05-01", 1), ("2024-05-02T12:00:00Z", 1)],
        ("by", True): [],
        ("language", True): [("x", 1)],
        ("open", True): [(True, 1)],
        ("status", True): [("hot", 1), ("new", 1)],
    }
    by_key: dict[str, Facet] = {facet.key: facet for facet in found.facets if facet.metadata}
    assert (by_key["due"].least, by_key["due"].greatest) == ("2024-05-01", "2024-05-02T12:00:00Z")
    assert by_key["year"].least is by_key["team"].least is None
    assert [value.kind for value in by_key["year"].values] == ["number", "number", "text"]
    assert by_key["by"].documents == 0
    assert all(value.chunks == value.documents for facet in found.facets for value in facet.values)


@proves("request.facets")
def test_keys_limits_and_filters_choose_what_is_counted(world: World) -> None:
    assert listed(world.documents.facets(["team", "tags", "absent"])) == {
        ("tags", False): [("net", 2), ("it", 1)],
        ("team", True): [("a", 2), ("b", 1)],
        ("absent", True): [],
    }
    assert listed(world.documents.facets(["metadata.language", "language"])) == {
        ("language", False): [("en", 3), ("de", 1)],
        ("language", True): [("x", 1)],
    }
    [years] = world.documents.facets(["year"], limit=1).facets
    assert (len(years.values), years.more_values, years.documents) == (1, 2, 3)
    scoped = world.documents.facets(["year", "open"], tags=["net"], metadata={"team": "b"})
    assert (scoped.documents, scoped.chunks) == (1, 1)
    assert listed(scoped) == {("year", True): [(2023.5, 1)], ("open", True): [(True, 1)]}
    assert world.documents.facets(documents=[]).documents == 0

    for arguments, reason in (
        ({"limit": 0}, "limit must be between"),
        ({"limit": True}, "limit must be a whole number"),
        ({"keys": "team"}, "keys must be a list"),
        ({"keys": ["x"] * 101}, "at most 100"),
        ({"chapter": "One"}, "count whole documents"),
        ({"metadata": {"team": {}}}, "no operator"),
    ):
        with pytest.raises(InvalidArgument, match=reason):
            world.documents.facets(**arguments)  # type: ignore[arg-type]


@proves("request.facets")
def test_a_filter_by_a_listed_value_finds_as_many_documents(world: World) -> None:
    wrong = []
    for facet in world.documents.facets().facets:
        for value in facet.values:
            if facet.metadata:
                filters: dict[str, Any] = {"metadata": {facet.key: value.value}}
            else:
                shown = str(value.value)
                by_label: dict[str, dict[str, Any]] = {
                    "tags": {"tags": [shown]},
                    "language": {"language": shown},
                    "version": {"version": shown},
                    "kind": {"kinds": [shown]},
                }
                filters = by_label[facet.key]
            found = world.search("the lamp", floor=0, **filters).passages
            if len({part.source for part in found}) != value.documents:
                wrong.append((facet.key, value))
    assert wrong == []


@proves("request.facets")
def test_many_keys_and_values_are_cut_with_a_count_of_the_rest(lib: LibraryFixture) -> None:
    world = lib.world()
    everything = {f"k{number:03}": number for number in range(120)} | {"many": list(range(30))}
    world.ingest(lib.write("a.txt", "The lamp."), metadata=everything)

    found = world.documents.facets()

    assert (len(found.facets), found.more_keys) == (4 + 100, 21)
    [many] = world.documents.facets(["many"]).facets
    assert (len(many.values), many.more_values) == (10, 20)
    assert (many.least, many.greatest) == (0, 29)
    assert lib.library.create_world("empty").documents.facets().facets == ()


@proves("request.facets")
def test_damaged_documents_are_named_and_not_counted(lib: LibraryFixture) -> None:
    world = shelved(lib)
    lib.sql("""UPDATE revisions SET metadata = '{"team":"z"}' WHERE name = 'b.txt'""")
    lib.sql("UPDATE revisions SET kind = 'book' WHERE name = 'c.txt'")
    lib.sql("UPDATE worlds SET changes = changes + 1")

    found = world.documents.facets(["kind", "team", "tags"])

    assert found.documents == 2
    assert listed(found) == {
        ("kind", False): [("book", 1), ("document", 1)],
        ("tags", False): [("it", 1), ("net", 1)],
        ("team", True): [("a", 1)],
    }
    [notice] = found.warnings
    assert notice.code == "metadata_damaged"
    assert "not counted: b.txt, c.txt." in notice.message
    assert world.documents.facets(["team"], metadata={"team": "b"}).warnings


@proves("request.facets")
def test_facets_are_of_one_world_and_not_for_readers(lib: LibraryFixture) -> None:
    world = shelved(lib)
    lib.library.create_world("other").ingest(
        lib.write("x.txt", "Hidden."), metadata={"secret": 1}, tags=["hidden"]
    )
    shown = repr(world.documents.facets()) + repr(
        world.documents.facets(["secret", "tags"]).facets[1:]
    )
    assert "hidden" not in shown
    assert "FacetValue(value=1," not in shown
    follow = Authority(worlds=frozenset({WorldId(world.id)}), verbs=frozenset({Verb.FOLLOW}))
    follower = lib.library.under(follow).world("world")
    with pytest.raises(NotAllowed):
        follower.documents.facets()
    assert not hasattr(world.reader("ada"), "facets")
