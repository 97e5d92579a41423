"""Texts over HTTP become documents by a job, and names in paths may have any spelling."""

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.interfaces.http_client import serve_library, until
from tests.support.worlds import LibraryFixture, make_library
from truespan.types.job import JobState


def test_texts_become_documents_with_their_metadata(tmp_path: Path) -> None:
    library = make_library(tmp_path).library
    world = library.create_world("w")
    body = {
        "texts": ["The key hangs on hook seven.", "The lamp is red."],
        "ids": ["key", "lamp"],
        "metadata": [{"team": "a"}, {"team": "b"}],
        "tags": ["x"],
    }

    with serve_library(library) as client:
        accepted = client.json("POST", "/v1/worlds/w/sources", body)
        assert accepted.status == 202
        job = accepted.content["job"]["id"]
        until(lambda: world.jobs.get(job).state is JobState.DONE)
        found = client.json(
            "POST", "/v1/worlds/w/search", {"query": "lamp", "metadata": {"team": "b"}, "floor": 0}
        )
        refused = client.json("POST", "/v1/worlds/w/sources", {**body, "ids": ["key"]})

        mixed = [
            client.json("POST", "/v1/worlds/w/sources", given)
            for given in (
                {},
                {"texts": ["a"], "urls": ["https://a.example/"]},
                {"texts": ["a"], "sample": True},
                {"ids": ["a"]},
                {"sample": True, "audience": []},
            )
        ]

    assert {(one.status, one.code) for one in mixed} == {(400, "invalid_argument")}
    assert [one["source"] for one in found.content["passages"]] == ["lamp.txt"]
    assert {document.tags for document in world.documents.list()} == {("x",)}
    assert (refused.status, refused.code) == (400, "invalid_argument")
    library.close()


ODD = ("a/b", "..", "a b", "100%", "%2F", "q?x=1#y", "été", "📚", "a\\b", "a;b")


@pytest.mark.parametrize("name", ODD)
def test_document_name_in_any_spelling_is_found(lib: LibraryFixture, name: str) -> None:
    lib.world(name, a__txt="The lamp went out at midnight.")

    with serve_library(lib.library) as client:
        found = client.json("GET", f"/v1/worlds/{quote(name, safe='')}")
        other = client.json("GET", f"/v1/worlds/{quote(name + 'x', safe='')}")

    assert (found.status, found.content["name"]) == (200, name)
    assert (other.status, other.code) == (404, "world_not_found")


def test_slash_in_a_reader_name_is_part_of_the_name(lib: LibraryFixture) -> None:
    world = lib.world("w", a__txt="The lamp went out. Nobody saw it.")
    world.reader("a/b").set_position("a.txt", sentence=0)

    with serve_library(lib.library) as client:
        own = client.json("GET", "/v1/worlds/w/readers/a%2Fb/books")
        apart = client.json("GET", "/v1/worlds/w/readers/a/b/books")

    assert [book["sid"] for book in own.content["books"]] == [0]
    assert (apart.status, apart.code) == (404, "route_not_found")


def test_path_with_invalid_utf_8_is_refused(lib: LibraryFixture) -> None:
    with serve_library(lib.library) as client:
        response = client.json("GET", "/v1/worlds/%FF")

    assert (response.status, response.code) == (400, "invalid_argument")
