"""Writes that are safe to repeat: by key, caller and content, across failures, kills and days."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.interfaces.http_client import Client, Response, serve_library
from tests.interfaces.tenants import BOUNDARY, form
from tests.promises import proves
from tests.support.leftover_search import contents
from tests.support.sample_books import plain_book
from tests.support.worlds import Hooked, LibraryFixture, make_library
from truespan.engine.library import Library
from truespan.errors import StoreBusy
from truespan.extensions.server.request_rows import KEPT_SECONDS
from truespan.types.scope import UNLIMITED, Verb

DAY = 24 * 3600.0


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path / "library")
    made.world("w", book__md=plain_book(30))
    yield made
    made.library.close()


def keyed(client: Client, key: str, name: str = "new", token: str | None = None) -> Response:
    headers = [("idempotency-key", key)]
    return client.json("POST", "/v1/worlds", {"name": name}, headers=headers, token=token)


def worlds(lib: LibraryFixture) -> list[str]:
    return [world.name for world in lib.library.worlds()]


@proves("http.idempotency-key")
def test_same_key_runs_once_and_gets_equal_replies(lib: LibraryFixture, client: Client) -> None:
    first = keyed(client, "k")
    again = [keyed(client, "k") for _ in range(3)]

    assert first.status == 201
    assert all(response.shown == first.shown for response in again)
    assert worlds(lib) == ["new", "w"]
    assert client.json("POST", "/v1/worlds", {"name": "new"}).code == "world_exists"


@proves("http.idempotency-key")
def test_repeated_key_returns_the_first_reply(lib: LibraryFixture, client: Client) -> None:
    def put(sid: int, key: str) -> Response:
        return client.json(
            "PUT",
            "/v1/worlds/w/readers/ann/position",
            {"book": "book.md", "sid": sid},
            headers=[("idempotency-key", key)],
        )

    first = put(3, "three")
    put(9, "nine")

    assert put(3, "three").shown == first.shown
    assert lib.library.world("w").reader("ann").position().sid == 9


@proves("http.idempotency-key")
@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("POST", "/v1/worlds", {"name": "other"}),
        ("PUT", "/v1/worlds/w/readers/ann/position", {"book": "book.md", "sid": 1}),
        ("POST", "/v1/worlds/w/generations/previous/promote", {}),
        ("DELETE", "/v1/worlds/w?erase=false", None),
    ],
)
def test_key_with_another_request_is_refused(
    lib: LibraryFixture, client: Client, method: str, path: str, content: Any
) -> None:
    keyed(client, "k")

    response = client.json(method, path, content, headers=[("idempotency-key", "k")])

    assert (response.status, response.code, response.content["retryable"]) == (
        422,
        "idempotency_key_reused",
        False,
    )
    assert worlds(lib) == ["new", "w"]
    assert lib.library.world("w").reader("ann").books() == []


@proves("http.idempotency-key")
def test_equal_keys_of_two_callers_are_separate(lib: LibraryFixture, client: Client) -> None:
    tokens = lib.library.tokens
    keys = [tokens.create(n, worlds=UNLIMITED, verbs=list(Verb))[1].reveal() for n in ("a", "b")]

    response = [keyed(client, "k", token=key) for key in (None, *keys)]
    other = keyed(client, "k", "another", token=keys[1])

    # The second and third attempt ran again instead of getting the first reply.
    assert [one.status for one in response] == [201, 409, 409]
    assert [one.code for one in response] == [None, "world_exists", "world_exists"]
    assert other.status == 201
    assert keyed(client, "k", token=keys[0]).code == "world_exists"


@proves("http.idempotency-key")
def test_failed_request_releases_its_key(lib: LibraryFixture, client: Client) -> None:
    assert keyed(client, "k", " ").status == 400
    assert keyed(client, "k", "w").code == "world_exists"
    assert keyed(client, "k", "new").status == 201
    assert keyed(client, "k", "w").code == "idempotency_key_reused"


def library_with(lib: LibraryFixture, before: Any) -> Library:
    """Return the library with a function that is called before a world is created."""
    parts = lib.library._components
    store: Any = Hooked(parts.store, lambda name: before() if name == "worlds.create" else None)
    return Library(replace(parts, store=store))


@proves("http.idempotency-key")
def test_concurrent_request_with_the_same_key_is_told_to_retry(lib: LibraryFixture) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert go_on.wait(30)

    with serve_library(library_with(lib, wait)) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(keyed, client, "k")
        assert begun.wait(30)
        second = Client(client.port)
        busy, reused = keyed(second, "k"), keyed(second, "k", "other")
        go_on.set()
        done = first.result(30)
        later = keyed(second, "k")
        second.close()

    assert (busy.status, busy.code, busy.content["retryable"]) == (
        409,
        "idempotency_key_busy",
        True,
    )
    assert (reused.status, reused.code) == (422, "idempotency_key_reused")
    assert later.shown == done.shown
    assert worlds(lib) == ["new", "w"]


@proves("http.idempotency-key")
def test_unexpected_error_releases_the_key(lib: LibraryFixture) -> None:
    faults = iter([KeyError("canary"), StoreBusy()])

    def fail() -> None:
        for fault in faults:
            raise fault

    with serve_library(library_with(lib, fail)) as client:
        codes = [keyed(client, "k").code for _ in range(3)]

    assert codes == ["internal_error", "store_busy", None]
    assert worlds(lib) == ["new", "w"]


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.interfaces.http_client import serve_library
from tests.interfaces.test_idempotency import keyed, library_with
from tests.support.worlds import make_library
lib = make_library(Path(sys.argv[1]))
with serve_library(library_with(lib, lambda: os.kill(os.getpid(), signal.SIGKILL))) as client:
    keyed(client, "k")
"""


@proves("http.idempotency-key")
def test_key_of_a_killed_process_can_be_retried(lib: LibraryFixture, client: Client) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(lib.folder)], timeout=60)
    assert ended.returncode == -9
    assert lib.sql("SELECT count(*) FROM replays WHERE reply IS NULL") == [(1,)]

    assert keyed(client, "k", "other").code == "idempotency_key_reused"
    response = keyed(client, "k")

    assert response.status == 201
    assert keyed(client, "k").shown == response.shown
    assert worlds(lib) == ["new", "w"]


@proves("http.idempotency-key")
def test_a_key_is_remembered_for_a_day(lib: LibraryFixture, client: Client) -> None:
    assert KEPT_SECONDS == DAY
    first = keyed(client, "k")
    lib.clock.time += DAY
    assert keyed(client, "k").shown == first.shown

    lib.clock.time += 1
    assert keyed(client, "k").code == "world_exists"
    assert keyed(client, "k", "other").status == 201


@proves("http.idempotency-key")
def test_stored_replies_are_not_readable_in_files(lib: LibraryFixture, client: Client) -> None:
    name, key = "zqreplycanary", "zqkeycanary"
    response = keyed(client, key, name)
    assert name.encode() in response.body
    client.json("DELETE", f"/v1/worlds/{name}")

    assert lib.sql("SELECT count(*) FROM replays WHERE reply IS NOT NULL") == [(1,)]
    assert keyed(client, key, name).shown == response.shown
    for path, content in contents(lib.folder).items():
        for word in (name, key, response.content["id"]):
            assert word.encode() not in content, path


@proves("http.idempotency-key")
def test_upload_fingerprint_ignores_the_encoding(lib: LibraryFixture, client: Client) -> None:
    def sent(body: bytes, boundary: str = BOUNDARY) -> Response:
        return client.send(
            "POST",
            "/v1/worlds/w/documents",
            headers=[
                ("content-type", f"multipart/form-data; boundary={boundary}"),
                ("idempotency-key", "k"),
            ],
            body=body.replace(BOUNDARY.encode(), boundary.encode()),
        )

    first = sent(form({"tags": "a"}))
    again = sent(form({"tags": "a"}), "another-edge")

    assert first.status == 202
    assert again.shown == first.shown
    for other in (form({"tags": "b"}), form({"tags": "a"}, text=b"Else."), form({}),
                  form({"tags": "a"}, name="b.txt")):  # fmt: skip
        assert sent(other).code == "idempotency_key_reused"
    assert len(lib.library.world("w").jobs.list()) == 2


@pytest.mark.parametrize("key", ["", "a" * 256, "schlüssel", "a\tb", "\x7f"])
def test_invalid_key_is_refused_first(lib: LibraryFixture, client: Client, key: str) -> None:
    assert keyed(client, key).status == 400
    assert worlds(lib) == ["w"]


def test_invalid_or_repeated_keys_are_refused(lib: LibraryFixture, client: Client) -> None:
    twice = [("idempotency-key", "k")] * 2

    response = client.json("POST", "/v1/worlds", {"name": "new"}, headers=twice)

    assert (response.status, worlds(lib)) == (400, ["w"])

    for name in ("a", "b"):
        headers = [("idempotency-key", "k")]
        response = client.json("POST", "/v1/worlds/w/search", {"query": name}, headers=headers)
        assert response.status == 200
    assert lib.sql("SELECT count(*) FROM replays") == [(0,)]
