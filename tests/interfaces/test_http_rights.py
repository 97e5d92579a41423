"""Permissions that are missing or revoked: a refused request changes nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.http_client import Client, serve_library, until
from tests.interfaces.tenants import BOUNDARY, form, timeless
from tests.support.worlds import LibraryFixture, make_library
from truespan.errors import InvalidConfiguration
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.extensions.server.http.server import check_names
from truespan.ingest.requests import IngestRequest
from truespan.settings.catalogue import HttpSettings, Settings

TEXT = "The lamp went out at midnight. Nobody saw it. The clock struck one."


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path / "library")
    made.world("w", a__txt=TEXT)
    yield made
    made.library.close()


@pytest.mark.contract
def test_only_administrators_choose_defaults(lib: LibraryFixture, client: Client) -> None:
    assert client.json("GET", "/v1/worlds/w").content["defaults"] == "contract"
    assert client.json("GET", "/v1/worlds").content["worlds"][0]["defaults"] == "contract"

    changed = client.json("PUT", "/v1/worlds/w/defaults", {"defaults": "recommended"})
    assert (changed.status, changed.content["defaults"]) == (200, "recommended")
    assert lib.library.world("w").defaults == "recommended"
    refused = client.json("PUT", "/v1/worlds/w/defaults", {"defaults": "best"})
    assert (refused.status, refused.content["code"]) == (400, "invalid_argument")
    assert "one of recommended, contract" in refused.content["detail"]
    made = client.json("POST", "/v1/worlds", {"name": "strict", "defaults": "contract"})
    assert (made.status, made.content["defaults"]) == (201, "contract")


def token(lib: LibraryFixture, *verbs: str) -> str:
    return lib.library.tokens.create("t", worlds="w", verbs=verbs)[1].reveal()


@pytest.mark.parametrize("verbs", [("write",), ("read",), ("follow",), ("read", "follow")])
def test_refused_position_is_not_recorded(
    lib: LibraryFixture, client: Client, verbs: tuple[str, ...]
) -> None:
    reader = lib.library.world("w").reader("ada")
    reader.set_position("a.txt", sentence=0)

    response = client.json(
        "PUT",
        "/v1/worlds/w/readers/ada/position",
        {"book": "a.txt", "sid": 2},
        token=token(lib, *verbs),
    )

    assert response.status in (403, 404)
    assert reader.position().sid == 0


def test_readers_are_listed_for_callers_who_may_read_all(lib: LibraryFixture, client: Client):
    world = lib.library.world("w")
    for name in ("zoe", "ada"):
        world.reader(name).set_position("a.txt", sentence=0)
    bound = lib.library.tokens.create("t", worlds="w", readers="ada")[1].reveal()

    listed = client.json("GET", "/v1/worlds/w/readers", token=token(lib, "read"))
    refused = client.json("GET", "/v1/worlds/w/readers", token=bound)

    assert (listed.status, listed.content) == (200, {"readers": ["ada", "zoe"]})
    assert refused.status in (403, 404)
    assert "zoe" not in json.dumps(refused.content)


def test_caller_who_may_only_write_can_follow_its_uploads(lib: LibraryFixture, client: Client):
    writer = token(lib, "write")
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


def test_sample_book_needs_permission_to_write(lib: LibraryFixture, client: Client) -> None:
    reads = lib.library.tokens.create("t", worlds="w", verbs=["read"])[1].reveal()
    writes = lib.library.tokens.create("t", worlds="w", verbs=["write"])[1].reveal()
    address, body = "/v1/worlds/w/sources", {"sample": True}

    refused = client.json("POST", address, body, token=reads)
    job = client.json("POST", address, body, token=writes).content["job"]
    until(
        lambda: (
            client.json("GET", f"/v1/worlds/w/jobs/{job['id']}").content["job"]["state"] == "done"
        )
    )

    assert refused.status == 404
    (book,) = [one for one in lib.library.world("w").documents.list() if one.kind == "book"]
    assert (book.title, book.name) == ("The Glass Ferry", "the-glass-ferry.md")


def test_only_administrators_reingest_server_files(lib: LibraryFixture, client: Client) -> None:
    target = "/v1/worlds/w/documents/a.txt/ingest"
    for verbs in (("read",), ("write",), ("write", "read"), ("administer", "read"), ("follow",)):
        refused = client.json("POST", target, token=token(lib, *verbs))
        assert refused.status in (403, 404), (verbs, refused.content)
    assert len(lib.library.world("w").jobs.list()) == 1

    asked = client.json("POST", target, token=token(lib, "administer", "read", "write"))

    assert asked.status == 202
    place_of_job = asked.header("location") or ""
    until(lambda: client.json("GET", place_of_job).content["job"]["state"] == "done")
    done = client.json("GET", place_of_job).content
    assert [one["state"] for one in done["documents"]] == ["unchanged"]
    assert done["job"]["resumable"] is False


def test_cancelled_job_says_whether_it_can_be_resumed(lib: LibraryFixture, client: Client):
    world, components = lib.library.world("w"), lib.library._components
    store, scope = components.store, world.access.writable_scope()
    request = IngestRequest((lib.write("b.txt", TEXT),)).to_json()
    gone = "a process that has ended"
    job = store.jobs.add(scope, "ingest", request, gone, queued=True)
    uploads = IngestRequest(uploads="a-batch-that-is-gone").to_json()
    other = store.jobs.add(scope, "ingest", uploads, gone, queued=True)
    for queued in (job, other):
        world.jobs.cancel(queued.id)
    listed = client.json("GET", "/v1/worlds/w/jobs").content["jobs"]

    assert {one["id"]: one["resumable"] for one in listed[:2]} == {job.id: True, other.id: False}


def test_revoked_token_loses_the_stream_of_a_job(lib: LibraryFixture, client: Client):
    store, scope = lib.library._components.store, lib.library.world("w").access.writable_scope()
    job = store.jobs.add(scope, "ingest", "{}", lib.library._components.processes.own())
    record, secret = lib.library.tokens.create("t", worlds="w")
    with client.connect() as link:
        link.sendall(
            f"GET /v1/worlds/w/jobs/{job.id} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            "accept: text/event-stream\r\n"
            f"authorization: Bearer {secret.reveal()}\r\n\r\n".encode()
        )
        heard = bytearray()
        until(lambda: b"event: job" in (heard.extend(link.recv(65536)) or heard))
        lib.library.tokens.revoke(record.id)
        while piece := link.recv(65536):
            heard.extend(piece)
            if piece.endswith(b"0\r\n\r\n"):
                break

    assert b"event: problem" in heard
    assert b'"code":"unauthorized"' in heard


@pytest.mark.parametrize("call", ["retrieve", "answer", "position", "sentences"])
@pytest.mark.parametrize("name", ["b.txt", "2", "b-*"])
def test_missing_position_looks_like_a_missing_book(
    lib: LibraryFixture, client: Client, call: str, name: str
) -> None:
    world = lib.library.world("w")
    world.reader("ada").set_position("a.txt", sentence=0)
    bound = lib.library.tokens.create("t", worlds="w", readers="ada")[1].reveal()

    def asked() -> tuple[int, bytes]:
        base = f"/v1/worlds/w/readers/ada/{call}"
        if call in ("retrieve", "answer"):
            body = {"query": "lamp", "book": name}
            response = client.json("POST", base, body, token=bound)
        else:
            response = client.json("GET", f"{base}?book={name}", token=bound)
        return response.status, timeless(response.body)

    absent = asked()
    world.ingest(lib.write("b.txt", "Another book altogether."))

    assert asked() == absent


def test_default_world_is_used_and_named_only_if_visible(lib: LibraryFixture) -> None:
    lib.library.create_world("drafts")
    own = lib.library.tokens.create("t", worlds="drafts")[1].reveal()
    both = lib.library.tokens.create("t", worlds=["drafts", "w"])[1].reveal()
    usual = ServerOptions(world=lib.library.world("w").id)

    with serve_library(lib.library, usual) as asking:
        of_own = asking.json("POST", "/chat", {"query": "lamp"}, token=own)
        of_usual = asking.json("POST", "/chat", {"query": "lamp"}, token=both)
    with serve_library(lib.library) as asking:
        unsaid = asking.json("POST", "/chat", {"query": "lamp"}, token=both)

    assert of_own.content["decision_explain"]["retrieval_target"] == "drafts"
    assert of_usual.content["decision_explain"]["retrieval_target"] == "w@1"
    assert (unsaid.status, unsaid.code) == (400, "world_not_named")

    usual = lib.library.world("w").id

    with serve_library(lib.library, ServerOptions(world=usual)) as asking:
        named = [
            asking.json("GET", "/v1/me", token=token).content["default_world"]
            for token in (None, both, own)
        ]
    with serve_library(lib.library) as asking:
        unnamed = asking.json("GET", "/v1/me").content["default_world"]

    assert named == [usual, usual, None]
    assert unnamed is None


def test_body_is_read_only_after_the_token_is_checked(lib: LibraryFixture) -> None:
    with serve_library(lib.library, ServerOptions(auth=AuthPolicy(needs_token=True))) as asking:
        response = [
            asking.json("POST", "/v1/worlds/w/search", {"wrong": 1}, token=token)
            for token in (None, "ts_wrong", "")
        ]

    assert [(one.status, one.code) for one in response] == [(401, "unauthorized")] * 3
    assert all("Bearer" in one.content["advice"] for one in response)


def test_unexpected_body_is_refused(lib: LibraryFixture, client: Client) -> None:
    job = lib.library.world("w").jobs.list()[0].id

    response = client.json("POST", f"/v1/worlds/w/jobs/{job}/cancel", {"x": 1})

    assert (response.status, response.code) == (400, "invalid_argument")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("http_hosts", "https://lib.example.org"),
        ("http_hosts", "lib.example.org:8443"),
        ("http_hosts", "*.example.org"),
        ("http_origins", "https://reader.example.org/"),
        ("http_origins", "reader.example.org"),
        ("http_origins", "*"),
        ("http_origins", "ftp://reader.example.org"),
    ],
)
def test_impossible_host_names_are_refused_at_start(
    lib: LibraryFixture, setting: str, value: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=setting):
        check_names(Settings().with_values({setting: value}))


def test_possible_host_names_are_accepted() -> None:
    hosts = "lib.example.org, 10.0.0.7, [::1], localhost"
    origins = "https://reader.example.org, http://localhost:5173, http://10.0.0.7:80"

    check_names(Settings(http=HttpSettings(hosts=hosts, origins=origins)))
