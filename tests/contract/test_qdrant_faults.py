"""Requests to an index server go to the checked address only, and its faults become our errors."""

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from qdrant_client.common import client_exceptions
from qdrant_client.http import exceptions as http_exceptions

from tests.contract.index_contract import COSINE, EAST, new_scope, point, vector
from tests.promises import proves
from tests.support.certificates import make_certificate
from tests.support.providers.loopback import Answer, Asked, Loopback, Raw, Reaction, drops
from tests.support.qdrant_loopback import QdrantLoopback
from truespan.core.clock import SystemClock
from truespan.errors import (
    IndexKeyRefused,
    IndexRefused,
    IndexUnavailable,
    InvalidConfiguration,
    TruespanError,
)
from truespan.extensions.cluster.qdrant import ServerOptions
from truespan.extensions.cluster.qdrant.failures import server_errors
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex
from truespan.protocols import Clock
from truespan.types.ids import ChunkId, hash_text
from truespan.types.scope import Scope
from truespan.types.token import Secret

KEY = "a-key-that-nobody-may-see"
QUOTED = "the chapter that was asked for"


@pytest.fixture
def server() -> Iterator[QdrantLoopback]:
    with QdrantLoopback() as made:
        yield made


@pytest.fixture
def index(server: QdrantLoopback) -> Iterator[QdrantServerIndex]:
    made = index_at(server.url)
    yield made
    made.close()


def index_at(url: str, clock: Clock | None = None, **choices: Any) -> QdrantServerIndex:
    """Return an index with a long timeout, for a busy machine."""
    options = {"timeout_seconds": 60, "key": Secret(KEY), **choices}
    return QdrantServerIndex(ServerOptions(url=url, **options), clock or SystemClock())


class TickingClock(SystemClock):
    """A clock that advances by a second at every call."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return float(self.looks)


@pytest.fixture
def scope(index: QdrantServerIndex) -> Scope:
    made = new_scope()
    index.prepare(made)
    return made


def search(index: QdrantServerIndex, scope: Scope) -> Any:
    return index.search(scope, vector(*EAST), limit=1, floor=None)


def upsert(index: QdrantServerIndex, scope: Scope) -> Any:
    return index.upsert(scope, [point(scope, 1, vector(*EAST))])


def named(scope: Scope) -> ChunkId:
    return point(scope, 1, vector(*EAST)).chunk_id


CALLS: list[Callable[[QdrantServerIndex, Scope], Any]] = [
    search,
    upsert,
    lambda index, scope: index.delete(scope, [named(scope)]),
    lambda index, scope: index.delete_stale(scope, [(named(scope), hash_text("text"))]),
    lambda index, scope: list(index.scan(scope)),
    lambda index, scope: index.count(scope),
    lambda index, scope: index.tenants(scope, limit=5),
    lambda index, scope: index.collections(),
    lambda index, scope: index.flush(scope),
    lambda index, scope: index.discard(COSINE.id),
    lambda index, scope: index.erase(COSINE),
    lambda index, scope: index.prepare(new_scope(replace(COSINE, model="other"))),
]
NAMES = (
    "search upsert delete delete_stale scan count tenants collections flush discard erase prepare"
)


def error_of(status: int, **headers: str) -> Answer:
    return Answer(status, {"status": {"error": f"{QUOTED} {KEY}"}, "time": 0}, headers)


def for_ever(_: Asked) -> Reaction:
    return Answer(pieces=drops(b'{"result": '))


FAULTS: list[tuple[str, Callable[[Asked], Reaction], type[TruespanError], float | None]] = [
    ("429", lambda _: error_of(429, **{"Retry-After": "7"}), IndexUnavailable, 7.0),
    ("429 bare", lambda _: error_of(429), IndexUnavailable, None),
    (
        "429 date",
        lambda _: error_of(429, **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
        IndexUnavailable,
        None,
    ),
    ("500", lambda _: error_of(500), IndexUnavailable, None),
    ("503", lambda _: error_of(503), IndexUnavailable, None),
    ("408", lambda _: error_of(408), IndexUnavailable, None),
    ("400", lambda _: error_of(400), IndexRefused, None),
    ("404", lambda _: error_of(404), IndexRefused, None),
    ("401", lambda _: error_of(401), IndexKeyRefused, None),
    ("403", lambda _: error_of(403), IndexKeyRefused, None),
    ("garbage", lambda _: Answer(body=b"<html>" + QUOTED.encode()), IndexUnavailable, None),
    ("not text", lambda _: Answer(body=b"\xff\xfe"), IndexUnavailable, None),
    ("other JSON", lambda _: Answer(content={"result": {"a": QUOTED}}), IndexUnavailable, None),
    ("nothing", lambda _: Answer(content={"result": None}), IndexUnavailable, None),
    ("closed", lambda _: Raw(), IndexUnavailable, None),
    ("no HTTP", lambda _: Raw([b"hello\r\n\r\n"]), IndexUnavailable, None),
    ("cut", lambda _: Answer(content={"result": True}, cut=5), IndexUnavailable, None),
]


@proves("errors.provider-or-index", "errors.no-secrets")
@pytest.mark.parametrize("call", CALLS, ids=NAMES.split())
def test_each_fault_has_its_error_for_every_request(index, server, scope, call, caplog):
    caplog.set_level(logging.DEBUG)
    wrong: list[str] = []
    for name, fault, kind, pause in FAULTS:
        server.fault = fault
        caplog.clear()
        try:
            call(index, scope)
            told: Exception | None = None
        except Exception as error:
            told = error
        shown = f"{told} {told!r} {caplog.text}"
        if not isinstance(told, kind) or getattr(told, "retry_after", None) != pause:
            wrong.append(f"{name}: {told!r}")
        if KEY in shown or QUOTED in shown:
            wrong.append(f"{name}: repeats the key or the text")

    assert wrong == []


@pytest.mark.parametrize("call", [search, upsert], ids=["search", "upsert"])
def test_silent_server_ends_at_the_time_limit(index, server, scope, call):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        other = index_at(f"http://127.0.0.1:{port}", timeout_seconds=1)

        with pytest.raises(IndexUnavailable, match="in time"):
            call(other, scope)
        other.close()


def test_endless_reply_fails_after_the_timeout(server, scope):
    server.fault = lambda asked: for_ever(asked) if "query" in asked.path else None
    hasty = index_at(server.url, TickingClock())

    with pytest.raises(IndexUnavailable, match="in time"):
        search(hasty, scope)
    hasty.close()


def test_stopped_server_is_unreachable(index, server, scope):
    server.stop()

    with pytest.raises(IndexUnavailable, match="cannot be reached"):
        search(index, scope)


def test_idle_connection_that_was_closed_is_reopened(index, server, scope):
    server.hang_up()

    assert search(index, scope) == []


def test_read_on_a_closing_connection_is_sent_again(index, server, scope):
    closed: list[str] = []

    def close_once(asked: Asked) -> Reaction | None:
        if closed:
            return None
        closed.append(asked.path)
        return Raw()

    server.fault = close_once
    assert search(index, scope) == []
    closed.clear()
    # A write may have been executed, so the caller decides.
    with pytest.raises(IndexUnavailable, match="closed the connection"):
        upsert(index, scope)


def test_read_only_key_is_reported_as_read_only(index, server, scope):
    server.fault = lambda _: error_of(403)

    with pytest.raises(IndexKeyRefused, match="read-only: it may not write points"):
        upsert(index, scope)
    with pytest.raises(IndexKeyRefused, match="refused the API key"):
        search(index, scope)


def test_missing_collection_is_never_an_empty_one(index, server, scope):
    server.lose_everything()

    with pytest.raises(IndexRefused, match="doctor"):
        search(index, scope)
    with pytest.raises(IndexRefused, match="doctor"):
        index.count(scope)


# The client library itself


def test_every_error_of_the_client_library_is_handled():
    classes = {
        name
        for module in (client_exceptions, http_exceptions)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }

    assert classes == {
        "QdrantException", "ResourceExhaustedResponse", "ApiException", "UnexpectedResponse",
        "ResponseHandlingException",
    }  # fmt: skip


def test_unexpected_error_is_a_refusal_that_quotes_nothing():
    with (
        pytest.raises(IndexRefused, match="TypeError") as caught,
        server_errors("search", None),
    ):
        raise TypeError(QUOTED)

    assert QUOTED not in str(caught.value)


class Elsewhere(Loopback):
    """A server that must get no request."""

    def answer(self, asked: Asked) -> Reaction:
        return Answer(content={})


@proves("http.outbound-urls")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_is_not_followed_with_the_key(index, server, scope, status):
    with Elsewhere() as other:
        server.fault = lambda _: Answer(status, {}, {"Location": f"{other.url}/collections"})

        with pytest.raises(IndexRefused, match="redirects"):
            search(index, scope)

        assert other.asked == []


@proves("http.outbound-urls")
def test_proxies_of_the_environment_are_not_used(index, server, scope, monkeypatch):
    with Elsewhere() as other:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, other.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        fresh = index_at(server.url)

        assert search(fresh, scope) == []
        fresh.close()
        assert other.asked == []


@proves("http.outbound-urls")
@pytest.mark.parametrize(
    "address", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "[fe80::1]", "[::]"]
)
def test_refused_address_is_not_connected_to(server, address):
    index = index_at(f"http://{address}:{server.port}")

    with pytest.raises(InvalidConfiguration, match="addresses that are refused"):
        index.collections()
    index.close()

    assert server.connections == 0


@proves("http.outbound-urls")
def test_name_is_resolved_and_checked_at_every_connect(server, monkeypatch):
    true = socket.getaddrinfo
    leads_to = ["127.0.0.1", "169.254.169.254", "127.0.0.1"]
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, port, *a, **k: true(leads_to[0], port, *a, **k)
    )
    index = index_at(f"http://index.test:{server.port}")
    assert index.collections() == []

    server.hang_up()
    leads_to.pop(0)
    seen = len(server.asked)
    with pytest.raises(InvalidConfiguration, match="addresses that are refused"):
        index.collections()
    assert len(server.asked) == seen

    leads_to.pop(0)
    assert index.collections() == []
    index.close()


@proves("http.outbound-urls", "errors.no-secrets")
@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1",
        "file:///etc/passwd",
        "127.0.0.1:6333",
        "http://",
        f"http://user:{KEY}@127.0.0.1",
        f"https://127.0.0.1/?key={KEY}",
        f"https://127.0.0.1/#{KEY}",
        "http://127.0.0.1:0",
        "http://127.0.0.1/\r\nHost: elsewhere",
    ],
)
def test_only_http_addresses_are_accepted_and_never_quoted(url):
    with pytest.raises(InvalidConfiguration) as caught:
        index_at(url).collections()

    assert KEY not in str(caught.value)


# TLS


def test_unreadable_certificates_are_a_configuration_error(tmp_path):
    (tmp_path / "none.pem").write_text("no certificate")

    for path in (tmp_path / "absent.pem", tmp_path / "none.pem"):
        with pytest.raises(InvalidConfiguration, match="qdrant_ca_file"):
            index_at("https://127.0.0.1:6333", ca_file=str(path)).collections()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def encrypted(certificate: Path) -> Iterator[QdrantLoopback]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with QdrantLoopback(tls=context) as started:
        yield started


def test_configured_certificate_is_trusted(encrypted, certificate):
    index = index_at(encrypted.url, ca_file=f"{certificate}.crt")

    assert index.collections() == []
    index.close()

    assert encrypted.asked[0].headers["api-key"] == KEY


def test_unknown_certificate_is_refused_before_sending(encrypted):
    index = index_at(encrypted.url)

    with pytest.raises(InvalidConfiguration, match=r"certificate .* not trusted"):
        index.collections()
    index.close()

    assert encrypted.asked == []


def test_server_without_tls_gets_nothing_over_https(server):
    index = index_at(server.url.replace("http:", "https:"))

    with pytest.raises(InvalidConfiguration, match="no TLS, and index_url says https"):
        index.collections()
    index.close()

    assert server.asked == []


def test_certificate_of_another_host_is_a_configuration_error(encrypted, certificate):
    url = encrypted.url.replace("127.0.0.1", "localhost")
    index = index_at(url, ca_file=f"{certificate}.crt")

    with pytest.raises(InvalidConfiguration, match=r"localhost:[0-9]+ is for another host"):
        index.collections()
    index.close()

    assert encrypted.asked == []
