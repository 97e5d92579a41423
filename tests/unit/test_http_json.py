"""The HTTP client: waiting and replies are limited, and every failure has an error."""

import gc
import math
import os
import socket
import ssl
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.promises import proves
from tests.support.certificates import make_certificate
from tests.support.failures import raises_code
from tests.support.providers import Answer, Asked, Loopback, PassingClock, Raw, Reaction, drops
from tests.support.rows import each_row
from tests.support.worlds import ManualClock
from truespan.errors import (
    InvalidConfiguration,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    ServiceError,
)
from truespan.ingest.embed import TimedOut
from truespan.providers.http import JsonClient, Reply, read_pause
from truespan.providers.limits import RateLimiter
from truespan.providers.outbound import Bounds, is_allowed, read_target

SECRET = "the-butler-did-it"
NOW = 1_000_000.0


class Echo(Loopback):
    """A server that returns the request."""

    def answer(self, asked: Asked) -> Reaction:
        return Answer(content={"said": asked.body.decode()})


class Said(msgspec.Struct):
    said: str


class Numbers(msgspec.Struct):
    numbers: list[float]


class TickingClock(ManualClock):
    """A clock that advances by a second at every call."""

    def monotonic(self) -> float:
        self.time += 1.0
        return self.time


@pytest.fixture
def server() -> Iterator[Echo]:
    with Echo() as started:
        yield started


@pytest.fixture
def client(server: Echo) -> JsonClient:
    return client_of(server)


def client_of(server: Loopback, **changes: Any) -> JsonClient:
    given: dict[str, Any] = {"label": "Echo", "clock": ManualClock(NOW)}
    return JsonClient(server.url, **given | changes)


def ask(client: JsonClient) -> Said:
    """Send a request with a secret in the body and in a header."""
    reply = client.post("/path", {"text": SECRET}, headers={"Authorization": f"Bearer {SECRET}"})
    return reply.read(Said)


def refused(client: JsonClient, kind: str | type[ServiceError]) -> ServiceError:
    """Return the error of a request, after checking that it names the host and quotes nothing."""
    with raises_code(kind) as caught:
        ask(client)
    error = caught.value
    assert client.target.address in error.message
    assert SECRET not in "".join(traceback.format_exception(error))
    return error


# Asking


def test_client_sends_json_and_parses_the_reply(server: Echo, client: JsonClient) -> None:
    said = ask(client).said
    [asked] = server.asked
    assert (asked.method, asked.path, said) == ("POST", "/path", asked.body.decode())
    assert asked.content == {"text": SECRET}
    assert asked.headers["content-type"] == asked.headers["accept"] == "application/json"
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert asked.headers["host"] == client.target.address


def test_path_of_the_base_url_precedes_every_path(server: Echo) -> None:
    client = JsonClient(f"{server.url}/behind/a/proxy/", label="Echo", clock=ManualClock())
    client.get("/api/tags").read(Said)
    assert [(asked.method, asked.path) for asked in server.asked] == [
        ("GET", "/behind/a/proxy/api/tags")
    ]


def test_invalid_header_is_refused_without_being_quoted(client: JsonClient) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        client.get("/", headers={"Authorization": f"{SECRET}\nHost: elsewhere"})
    assert SECRET not in "".join(traceback.format_exception(refusal.value))


# Where a provider may be


@proves("http.outbound-urls")
@each_row("url", [
    "", "127.0.0.1:11434", "localhost:11434", "file:///etc/passwd", "ftp://host/", "//host/",
    "http://", "http://:80/", f"http://user:{SECRET}@host/", f"http://host/?key={SECRET}",
    "http://host/#part", "http://ho st/", "http://host/\r\nX:y", "http://ho\tst/", "http://host:0/",
    "http://host:99999/", "http://host:port/", "http://[::1/", f"http://{'a' * 64}.example/",
])  # fmt: skip
def test_only_plain_http_urls_are_accepted(url: str) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        read_target(url)
    assert SECRET not in str(refusal.value)


@each_row(("url", "spelled"), [
    ("http://127.0.0.1:11434", "http://127.0.0.1:11434"),
    ("HTTP://LocalHost/", "http://localhost:80"),
    ("https://example.org/ollama/", "https://example.org:443/ollama"),
    ("http://[::1]:11434", "http://[::1]:11434"),
])  # fmt: skip
def test_base_url_is_normalised(url: str, spelled: str) -> None:
    assert read_target(url).url == spelled


@proves("http.outbound-urls")
@each_row("address", [
    "169.254.169.254", "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1", "::169.254.169.254", "0.0.0.0", "::", "224.0.0.1", "ff02::1",
    "255.255.255.255", "240.0.0.1",
])  # fmt: skip
def test_special_addresses_are_refused(address: str) -> None:
    assert not is_allowed(address)


@each_row(
    "address", ["127.0.0.1", "::1", "10.0.0.7", "192.168.1.2", "fd00::7", "1.1.1.1", "64:ff9b::1"]
)
def test_loopback_private_and_public_addresses_are_allowed(address: str) -> None:
    assert is_allowed(address)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> None:
    """Let every name resolve to these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **named: found)


def test_unresolvable_host_is_retryable(client: JsonClient, monkeypatch: pytest.MonkeyPatch):
    def fail(*given: Any, **named: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    assert refused(client, ProviderUnavailable).retryable


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_next_address_of_a_host_is_tried_after_a_failure(
    server: Echo, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = closed.getsockname()
    resolve_to(monkeypatch, ("0.0.0.0", server.port), dead, ("127.0.0.1", server.port))
    client = JsonClient(f"http://{host}:{server.port}", label="Echo", clock=ManualClock())
    assert ask(client).said


# Statuses


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_temporary_failure_is_retryable(server: Echo, client: JsonClient, status: int) -> None:
    server.fault = lambda asked: Answer(status, {"error": SECRET}, {"Retry-After": "7"})
    error = refused(client, ProviderUnavailable)
    assert isinstance(error, ProviderUnavailable)
    assert error.retryable
    assert error.retry_after == 7.0
    assert str(status) in error.message


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 422, 451, 501, 505])
def test_refusal_is_not_retryable(server: Echo, client: JsonClient, status: int) -> None:
    server.fault = lambda asked: Answer(status, {"error": SECRET}, {"Retry-After": "7"})
    error = refused(client, ProviderRefused)
    assert not error.retryable
    assert str(status) in error.message


def test_too_large_request_has_its_own_error(server: Echo, client: JsonClient) -> None:
    server.fault = lambda asked: Answer(413, body=SECRET.encode(), content_type="text/plain")
    assert not refused(client, "provider_batch_too_large").retryable


@each_row(("value", "seconds"), [
    ("0", 0.0), ("7", 7.0), (" 12 ", 12.0), ("300", 300.0), ("301", 300.0), ("9" * 5000, 300.0),
    (formatdate(NOW + 42, usegmt=True), 42.0),
    (formatdate(NOW + 42).replace("-0000", "+0000"), 42.0), (formatdate(NOW + 42), 42.0),
    (formatdate(NOW - 42, usegmt=True), 0.0), (formatdate(NOW + 9999, usegmt=True), 300.0),
    ("", None), ("-5", None), ("1.5", None), ("soon", None), ("²", None),
    ("Wed, 99 Foo 2026", None), ("Fri, 31 Dec 9999 23:59:59 GMT", 300.0),
    ("Fri, 31 Dec 99999 23:59:59 GMT", None),
])  # fmt: skip
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float | None) -> None:
    assert read_pause(value, NOW) == seconds


# Replies that cannot be used


@pytest.mark.parametrize(
    "reaction",
    [
        Answer(body=b""), Answer(body=b'{"said": "the-butler-did-it'),
        Answer(body=b'{"said": NaN}'), Answer(body=b'{"said": null}'), Answer(body=b"[]"),
        Answer(body=b'{"said": "\xff"}'),
        Answer(body=f"<html>{SECRET}</html>".encode(), content_type="text/html"),
        Answer(body=b'{"said": "x"}', content_type="text/html"), Raw([b"SSH-2.0-OpenSSH_9.6\r\n"]),
        Raw([f"HTTP/1.1 {SECRET}\r\n\r\n".encode()]),
        Raw([b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"]),
        Raw([b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000]),
    ],
    ids=[
        "empty", "broken", "NaN", "null", "list", "not UTF-8", "HTML", "said to be HTML",
        "another protocol", "no status", "too many headers", "too long a header",
    ],
)  # fmt: skip
def test_unreadable_reply_is_a_bad_reply(server: Echo, client: JsonClient, reaction: Reaction):
    server.fault = lambda asked: reaction
    refused(client, ProviderBadReply)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_nan_in_a_reply_affects_only_its_vector(server: Echo, client: JsonClient, number: str):
    server.fault = lambda asked: Answer(body=f'{{"numbers": [1.5, {number}]}}'.encode())
    first, second = client.get("/").read(Numbers).numbers
    assert first == 1.5
    assert not math.isfinite(second)


def test_json_reply_needs_no_content_type(server: Echo, client: JsonClient) -> None:
    server.fault = lambda asked: Answer(body=b'{"said": "x", "more": 1}', content_type="")
    assert ask(client) == Said("x")


@pytest.mark.parametrize("reaction", [
    Answer(content={"said": SECRET}, cut=9),
    Raw([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12"]), Raw(),
], ids=["shorter than declared", "in the middle of a piece", "before the first byte"])  # fmt: skip
def test_truncated_reply_is_retryable(server: Echo, client: JsonClient, reaction: Reaction) -> None:
    server.fault = lambda asked: reaction
    assert refused(client, ProviderUnavailable).retryable


def declared(size: int) -> Raw:
    return Raw([f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()])


@pytest.mark.parametrize("reaction", [
    lambda: Answer(pieces=(b" " * (1 << 20) for _ in range(40))),
    lambda: Answer(body=b" " * (33 << 20)), lambda: declared(1 << 50),
], ids=["without a length", "with its length", "by its word alone"])  # fmt: skip
def test_reply_over_32_mebibytes_is_refused(
    server: Echo, client: JsonClient, reaction: Callable[[], Reaction]
) -> None:
    server.fault = lambda asked: reaction()
    assert "32 MiB" in refused(client, ProviderBadReply).message


def test_reply_of_exactly_the_limit_is_accepted(server: Echo) -> None:
    client = client_of(server, bounds=Bounds(body_bytes=1000))
    server.fault = lambda asked: Answer(body=b'{"said": "x"}'.ljust(1000))
    assert ask(client) == Said("x")


def test_permanent_failure_quotes_the_server(server: Echo) -> None:
    def says(text: str) -> None:
        server.fault = lambda asked: Answer(500, {"error": {"message": text}})

    says("llama runner: unable to load model: /models/blobs/sha256-12 (bad magic)")
    shown = refused(client_of(server), ProviderRefused)
    assert "unable to load model: ... (bad magic)" in shown.message
    assert not shown.retryable
    # No reply of the server makes an error repeat what was sent.
    says(f"unable to load model for {SECRET}")
    assert "unable to load" not in refused(client_of(server), ProviderRefused).message
    says("out of luck")
    assert refused(client_of(server), ProviderUnavailable).retryable


# Time


@pytest.mark.parametrize(
    "head",
    [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"],
    ids=["in the status", "in a header", "in the body"],
)
def test_slow_reply_ends_at_the_deadline(server: Echo, head: bytes) -> None:
    server.fault = lambda asked: Raw(drops(head))
    assert "in time" in refused(client_of(server, clock=TickingClock()), TimedOut).message


def test_silent_server_times_out(server: Echo) -> None:
    gate = threading.Event()
    server.fault = lambda asked: (gate.wait(30) or True) and Answer()
    error = refused(client_of(server, bounds=Bounds(read_seconds=0.05)), TimedOut)
    gate.set()
    assert "in time" in error.message
    assert error.retryable


def test_expired_request_is_not_sent(server: Echo) -> None:
    refused(client_of(server, bounds=Bounds(total_seconds=0.0)), TimedOut)
    assert server.asked == []


@proves("embedding.rate-limit")
def test_requests_keep_the_rate_limit(server: Echo) -> None:
    clock = PassingClock()
    client = client_of(server, clock=clock, pace=RateLimiter(2, clock))
    for _ in range(5):
        ask(client)
    assert clock.slept == [60.0, 60.0]
    assert len(server.asked) == 5


# Connections


def test_connections_are_reused_by_any_thread(server: Echo, client: JsonClient) -> None:
    for _ in range(3):
        ask(client)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(ask, client).result()
    assert len(server.asked) == 6
    assert server.connections == 1


def test_concurrent_threads_get_their_own_replies(server: Echo, client: JsonClient) -> None:
    def echoed(number: int) -> str:
        return client.post("/", number).read(Said).said

    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(echoed, range(200)))

    assert replies == [str(number) for number in range(200)]


def test_closed_kept_connection_is_replaced_silently(server: Echo, client: JsonClient) -> None:
    ask(client)
    server.hang_up()
    assert ask(client).said
    assert server.connections == 2


def test_only_one_new_connection_is_tried(server: Echo, client: JsonClient) -> None:
    ask(client)
    server.fault = lambda asked: Raw()
    refused(client, ProviderUnavailable)
    assert len(server.asked) == 3


def test_broken_reply_on_a_kept_connection_is_not_repeated(server: Echo, client: JsonClient):
    ask(client)
    server.fault = lambda asked: Answer(content={"said": "x"}, cut=3)
    refused(client, ProviderUnavailable)
    assert len(server.asked) == 2


def test_failed_connection_is_not_reused(server: Echo, client: JsonClient) -> None:
    server.fault = lambda asked: declared(1 << 50)
    refused(client, ProviderBadReply)
    server.fault = None
    assert ask(client).said
    assert server.connections == 2


def test_connection_closed_after_a_reply_is_not_a_failure(server: Echo, client: JsonClient) -> None:
    server.fault = lambda asked: Answer(pieces=[b'{"said": ', b'"x"}'])
    assert [ask(client).said for _ in range(3)] == ["x"] * 3
    assert server.connections == 3


def test_discarded_client_leaves_no_open_connection(server: Echo) -> None:
    client = client_of(server)
    ask(client)
    # An open socket that is only collected is a warning, and a warning is a failure here.
    del client
    gc.collect()


def test_refused_connection_error_says_what_to_do(server: Echo, client: JsonClient) -> None:
    client = client_of(server, start_advice="Start it.")
    ask(client)
    server.stop()
    error = refused(client, ProviderUnavailable)
    assert error.retryable
    assert "cannot be reached" in error.message
    assert error.advice == "Start it."


# Encryption


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def encrypted(certificate: Path) -> Iterator[Echo]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Echo(tls=context) as started:
        yield started


def test_connection_with_trusted_certificate_is_kept(
    encrypted: Echo, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "SSL_CERT_FILE", f"{certificate}.crt")
    client = client_of(encrypted)
    assert ask(client).said
    assert ask(client).said
    assert encrypted.connections == 1
    encrypted.hang_up()
    assert ask(client).said


def test_untrusted_certificate_is_refused(encrypted: Echo) -> None:
    assert "certificate" in refused(client_of(encrypted), ProviderRefused).message
    assert encrypted.asked == []


def test_server_without_tls_gets_nothing_over_https(server: Echo) -> None:
    client = JsonClient(server.url.replace("http:", "https:"), label="Echo", clock=ManualClock())
    refused(client, ProviderUnavailable)
    assert server.asked == []


def test_repr_of_a_reply_hides_its_body() -> None:
    assert SECRET not in repr(Reply("Echo", 200, SECRET.encode(), "", None))
