"""Requests to a generation by its number, and as a reader at a position that is not recorded."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interfaces.http_client import Client, serve_library
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library
from truespan.errors import InvalidArgument, NotAllowed
from truespan.types.ids import WorldId
from truespan.types.scope import Authority, Verb

TEXT = (
    "The lamp went out at midnight. Nobody saw the lamp go. "
    "Wrenfield had blown out the lamp. He confessed at noon."
)
LAST_READ = 1
QUESTION = {"query": "Who blew out the lamp?"}
CALLS = ("search", "retrieve", "answer", "why-not")
READER_CALLS = ("retrieve", "answer", "why-not")
ADA = "/v1/worlds/w/readers/ada"


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path_factory.mktemp("comparing") / "library")
    world = made.world("w", a__txt=TEXT)
    made.world("other", b__txt="Another text.")
    world.generations.reindex(chunking="sentences")
    world.reader("ada").set_position("a.txt", sentence=LAST_READ)
    yield made
    made.library.close()


@pytest.fixture(scope="module")
def client(lib: LibraryFixture) -> Iterator[Client]:
    with serve_library(lib.library) as asking:
        yield asking


def body_of(call: str, **more: Any) -> dict[str, Any]:
    chunk = {"chunk_id": "no-such-chunk"} if call == "why-not" else {}
    return QUESTION | chunk | more


def test_a_request_uses_the_generation_it_names(lib: LibraryFixture, client: Client) -> None:
    world = lib.library.world("w", generation=2)

    assert {one.receipt.generation for one in world.search("lamp", floor=0.0).passages} == {2}
    assert world.retrieve("lamp").metadata.sources[0].generation == 2
    for number in (1, 2):
        found = client.json("POST", f"/v1/worlds/w/search?generation={number}", QUESTION).content
        assert {one["receipt"]["generation"] for one in found["passages"]} == {number}
        read = client.json("POST", f"{ADA}/retrieve?generation={number}", QUESTION).content
        assert {one["generation"] for one in read["metadata"]["sources"]} == {number}
    usual = client.json("POST", "/v1/worlds/w/search", QUESTION).content
    assert {one["receipt"]["generation"] for one in usual["passages"]} == {1}


def test_wrong_generations_are_refused_with_their_codes(lib: LibraryFixture, client: Client):
    for call in CALLS:
        body = body_of(call)
        absent = client.json("POST", f"/v1/worlds/w/{call}?generation=9", body)
        assert (absent.status, absent.content["code"]) == (404, "generation_not_found"), call
        for wrong in ("-1", "two", "null", "1000000000", "1&generation=2"):
            refused = client.json("POST", f"/v1/worlds/w/{call}?generation={wrong}", body)
            assert (refused.status, refused.content["code"]) == (400, "invalid_argument"), wrong
    lib.library.world("w").generations.promote(1, domain="lamps")
    both = client.send(
        "POST",
        "/v1/worlds/w/search?generation=2",
        headers=[("x-rag-domain", "lamps"), ("content-type", "application/json")],
        body=b'{"query": "lamp"}',
    )
    assert both.status == 400
    for wrong in (True, "2", 1.0, -1):
        with pytest.raises(InvalidArgument):
            lib.library.world("w", generation=wrong)  # type: ignore[arg-type]
    with raises_code("generation_not_found"):
        lib.library.world("other", generation=2)


@proves("reading.non-interference")
def test_reader_cannot_choose_generation_or_position(lib: LibraryFixture, client: Client):
    tokens = lib.library.tokens
    bound = tokens.create("t", worlds="w", readers="ada")[1].reveal()
    follower = tokens.create("t", worlds="w", verbs=("follow", "write"))[1].reveal()
    for key in (bound, follower):
        for call in READER_CALLS:
            body = body_of(call, book="a.txt")
            usual = client.json("POST", f"{ADA}/{call}", body, token=key)
            assert usual.status == 200, usual.content
            replies = {
                client.json("POST", f"{ADA}/{call}?{choice}", body, token=key).body
                # Existing and missing ones are refused alike.
                for choice in ("generation=1", "generation=9")
            }
            replies |= {
                client.json("POST", f"{ADA}/{call}?sid={sid}", body, token=key).body
                for sid in (-1, 0, LAST_READ, 3, 999)
            }
            current = body_of(call)
            replies.add(client.json("POST", f"{ADA}/{call}?sid=3", current, token=key).body)
            assert len(replies) == 2, replies
            assert all(b'"code":"not_allowed"' in one for one in replies)
            assert not any(b"Wrenfield" in one for one in replies)
        for call in CALLS:
            refused = client.json(
                "POST", f"/v1/worlds/w/{call}?generation=2", body_of(call), token=key
            )
            assert refused.content["code"] == "not_allowed"
    world = lib.library.world("w").id
    authority = Authority(frozenset({WorldId(world)}), frozenset({Verb.FOLLOW}))
    with pytest.raises(NotAllowed):
        lib.library.under(authority).world("w", generation=1)
    with pytest.raises(NotAllowed):
        lib.library.under(authority).world("w").reader("ada").at_position("a.txt", 3)


@proves("reading.non-interference")
def test_tried_position_applies_and_is_not_recorded(lib: LibraryFixture, client: Client) -> None:
    body = QUESTION | {"book": "a.txt"}
    reader = lib.library.world("w").reader("ada")

    def texts(query: str, name: str = "ada") -> str:
        where = f"/v1/worlds/w/readers/{name}/retrieve{query}"
        found = client.json("POST", where, body).content
        assert all(note["last_sid"] <= 3 for note in found["metadata"]["sources"])
        return " ".join(one["content"] for one in found["retrieved_chunks"])

    assert "Wrenfield" not in texts("")
    assert "Wrenfield" in texts("?sid=2")
    assert "confessed" not in texts("?sid=2")
    assert "Wrenfield" in texts("?sid=3&generation=2")
    assert texts("?sid=-1") == ""
    assert "Nobody" not in texts("?sid=0")
    # A reader without any position can be tried as well.
    assert texts("?sid=1", "nobody-yet") == texts("")
    answered = client.json("POST", f"{ADA}/answer?sid=0", body).content
    assert not [word for word in ("Wrenfield", "Nobody") if word in str(answered)]
    assert reader.position().sid == LAST_READ
    assert lib.library.world("w").readers() == ["ada"]
    assert reader.at_position("a.txt", 2).position().sid == 2
    assert [one.sid for one in reader.at_position("a.txt", 2).sentences().sentences] == [0, 1, 2]
    assert texts("?sid=999") == texts("?sid=3")
    current = client.json("POST", f"{ADA}/retrieve?sid=2", QUESTION).content
    assert "Wrenfield" in str(current["retrieved_chunks"])
    none = client.json("POST", "/v1/worlds/w/readers/nobody/retrieve?sid=2", QUESTION).content
    assert none["retrieved_chunks"] == []
    for wrong in ("-2", "null", "1.5", ""):
        refused = client.json("POST", f"{ADA}/retrieve?sid={wrong}", body)
        assert refused.content["code"] == "invalid_argument"
    absent = client.json("POST", f"{ADA}/retrieve?sid=2", QUESTION | {"book": "b.txt"})
    assert absent.content["code"] == "document_not_found"
