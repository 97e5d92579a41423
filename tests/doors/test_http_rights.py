"""Rights that end or lack something: what is refused has done nothing, and ends at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.http_door import Client, answering, until
from tests.doors.tenants import BOUNDARY, form, timeless
from tests.worlds import Place, place

TEXT = "The lamp went out at midnight. Nobody saw it. The clock struck one."


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    made = place(tmp_path / "library")
    made.world("w", a__txt=TEXT)
    yield made
    made.library.close()


@pytest.fixture
def client(here: Place) -> Iterator[Client]:
    with answering(here.library) as asking:
        yield asking


def token(here: Place, *verbs: str) -> str:
    return here.library.tokens.create("t", worlds="w", verbs=verbs)[1].reveal()


def test_whoever_may_write_and_read_sets_positions_without_being_the_reader(
    here: Place, client: Client
) -> None:
    told = client.json(
        "PUT",
        "/v1/worlds/w/readers/ada/position",
        {"book": "a.txt", "sid": 1},
        token=token(here, "write", "read"),
    )

    assert (told.status, told.content["sid"]) == (200, 1)
    assert here.library.world("w").reader("ada").where().sid == 1


@pytest.mark.parametrize("verbs", [("write",), ("read",), ("follow",), ("read", "follow")])
def test_a_position_that_is_refused_has_not_moved(
    here: Place, client: Client, verbs: tuple[str, ...]
) -> None:
    reader = here.library.world("w").reader("ada")
    reader.set("a.txt", sid=0)

    told = client.json(
        "PUT",
        "/v1/worlds/w/readers/ada/position",
        {"book": "a.txt", "sid": 2},
        token=token(here, *verbs),
    )

    assert told.status in (403, 404)
    assert reader.where().sid == 0


def test_whoever_may_only_write_can_follow_what_they_brought(here: Place, client: Client) -> None:
    writer = token(here, "write")
    sent = client.send(
        "POST",
        "/v1/worlds/w/documents",
        token=writer,
        headers=[("content-type", f"multipart/form-data; boundary={BOUNDARY}")],
        body=form({}),
    )
    place_of_job = sent.header("location") or ""
    assert sent.status == 202
    until(lambda: client.json("GET", place_of_job, token=writer).content["job"]["state"] == "done")
    assert client.json("GET", "/v1/worlds/w/documents", token=writer).status == 403


def test_a_token_that_is_revoked_loses_the_stream_of_a_job(here: Place, client: Client) -> None:
    store, scope = here.library._parts.store, here.library.world("w")._writing_scope()
    job = store.begin_job(scope, "ingest", "{}", here.library._parts.processes.own())
    record, secret = here.library.tokens.create("t", worlds="w")
    with client.connect() as link:
        link.sendall(
            f"GET /v1/worlds/w/jobs/{job.id}/events HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            f"authorization: Bearer {secret.reveal()}\r\n\r\n".encode()
        )
        heard = bytearray()
        until(lambda: b"event: job" in (heard.extend(link.recv(65536)) or heard))
        here.library.tokens.revoke(record.id)
        while piece := link.recv(65536):
            heard.extend(piece)
            if piece.endswith(b"0\r\n\r\n"):
                break

    assert b"event: problem" in heard
    assert b'"code":"unauthorized"' in heard


@pytest.mark.parametrize("call", ["retrieve", "answer", "position", "sentences"])
@pytest.mark.parametrize("name", ["b.txt", "2", "b-*"])
def test_a_reader_cannot_tell_a_book_without_position_from_none(
    here: Place, client: Client, call: str, name: str
) -> None:
    world = here.library.world("w")
    world.reader("ada").set("a.txt", sid=0)
    bound = here.library.tokens.create("t", worlds="w", readers="ada")[1].reveal()

    def asked() -> tuple[int, bytes]:
        base = f"/v1/worlds/w/readers/ada/{call}"
        if call in ("retrieve", "answer"):
            body = {"query": "lamp", "book": name}
            told = client.json("POST", base, body, token=bound)
        else:
            told = client.json("GET", f"{base}?book={name}", token=bound)
        return told.status, timeless(told.body)

    absent = asked()
    world.ingest(here.write("b.txt", "Another book altogether."))

    assert asked() == absent
