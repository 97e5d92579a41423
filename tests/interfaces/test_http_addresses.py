"""Names in paths: every name can be percent-encoded."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.interfaces.http_client import serve_library
from tests.support.worlds import LibraryFixture

ODD = ("a/b", "..", "a b", "100%", "%2F", "q?x=1#y", "été", "📚", "a\\b", "a;b")


@pytest.mark.parametrize("name", ODD)
def test_a_name_of_any_spelling_can_be_asked_for(lib: LibraryFixture, name: str) -> None:
    lib.world(name, a__txt="The lamp went out at midnight.")

    with serve_library(lib.library) as client:
        found = client.json("GET", f"/v1/worlds/{quote(name, safe='')}")
        other = client.json("GET", f"/v1/worlds/{quote(name + 'x', safe='')}")

    assert (found.status, found.content["name"]) == (200, name)
    assert (other.status, other.code) == (404, "world_not_found")


def test_a_reader_with_a_slash_in_the_name_is_one_reader(lib: LibraryFixture) -> None:
    world = lib.world("w", a__txt="The lamp went out. Nobody saw it.")
    world.reader("a/b").set_position("a.txt", sentence=0)

    with serve_library(lib.library) as client:
        own = client.json("GET", "/v1/worlds/w/readers/a%2Fb/books")
        apart = client.json("GET", "/v1/worlds/w/readers/a/b/books")

    assert [book["sid"] for book in own.content["books"]] == [0]
    assert (apart.status, apart.code) == (404, "route_not_found")


def test_an_address_that_is_no_text_is_refused(lib: LibraryFixture) -> None:
    with serve_library(lib.library) as client:
        response = client.json("GET", "/v1/worlds/%FF")

    assert (response.status, response.code) == (400, "invalid_argument")
