"""Allowed addresses of requests to providers, for every provider with HTTP."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.providers.bench import KEY, SPEAKERS, Bench, Speaker
from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction
from truespan.errors import InvalidConfiguration, ProviderRefused, TruespanError


class Elsewhere(Loopback):
    """A server that must get no request."""

    def answer(self, asked: Asked) -> Reaction:
        return Answer(content={})


@pytest.fixture(params=SPEAKERS, ids=str)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    return request.param


@pytest.fixture
def bench(speaker: Speaker, tmp_path: Path) -> Iterator[Bench]:
    with Bench(speaker, tmp_path) as made:
        yield made


def pointed_at(bench: Bench, url: str) -> Any:
    """Return an embedder for another address than the server's."""

    class There:
        base = url
        model = getattr(bench.server, "model", "")

    There.url = url  # type: ignore[attr-defined]
    return bench.speaker.embedder(There, bench.clock)


@proves("http.outbound-urls", "errors.no-secrets")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://127.0.0.1/v1",
        "file:///etc/passwd",
        "gopher://127.0.0.1",
        "127.0.0.1:11434",
        "http://",
        f"http://user:{KEY}@127.0.0.1",
        f"https://127.0.0.1/v1?key={KEY}",
        f"https://127.0.0.1/v1#{KEY}",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://127.0.0.1/ v1",
        "http://127.0.0.1/v1\r\nHost: elsewhere",
    ],
)
def test_only_http_addresses_are_accepted_and_never_quoted(bench: Bench, url: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        pointed_at(bench, url)

    assert KEY not in str(caught.value)
    assert bench.server.asked == []


@proves("http.outbound-urls")
@pytest.mark.parametrize(
    "address", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "fe80::1", "::"]
)
def test_forbidden_address_is_not_contacted(bench: Bench, address: str):
    host = f"[{address}]" if ":" in address else address

    with pytest.raises(ProviderRefused, match="addresses that are refused"):
        assert pointed_at(bench, f"http://{host}:{bench.server.port}/v1").profile

    assert bench.server.asked == []


@proves("http.outbound-urls")
def test_name_is_resolved_and_checked_at_every_connect(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = socket.getaddrinfo
    leads_to = ["127.0.0.1", "169.254.169.254", "127.0.0.1"]
    looked_up: list[str] = []

    def changing(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        looked_up.append(host)
        return true(leads_to[0], port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", changing)
    path = "/v1" if bench.speaker.name == "openai" else ""
    embedder = pointed_at(bench, f"http://provider.test:{bench.server.port}{path}")
    assert embedder.profile

    bench.server.hang_up()
    leads_to.pop(0)
    seen = len(bench.server.asked)
    with pytest.raises(ProviderRefused, match="addresses that are refused"):
        embedder.embed_query("q")
    assert len(bench.server.asked) == seen

    leads_to.pop(0)
    assert embedder.embed_query("q")
    assert set(looked_up) == {"provider.test"}
    assert len(looked_up) >= 3


@proves("http.outbound-urls")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed_and_get_no_key(bench: Bench, status: int) -> None:
    with Elsewhere() as elsewhere:
        bench.server.fault = lambda asked: Answer(status, {}, {"Location": elsewhere.url})
        embedder = bench.speaker.embedder(bench.server, bench.clock)

        calls: list[Callable[[], Any]] = [
            lambda: embedder.profile,
            lambda: embedder.embed_documents(["d"]),
            lambda: embedder.embed_query("q"),
        ]
        for call in calls:
            with pytest.raises(TruespanError):
                call()

        assert elsewhere.connections == 0


@proves("http.outbound-urls")
def test_no_proxy_of_the_environment_is_used(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with Elsewhere() as elsewhere:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, elsewhere.url)

        assert bench.speaker.embedder(bench.server, bench.clock).embed_query("q")

        assert elsewhere.connections == 0


@proves("errors.provider-or-index")
@pytest.mark.parametrize("status", [200, 400, 429, 500])
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"error":' * 50_000,
        b'{"x": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"error": "' + b"model " * 100_000 + b'"}',
        b"\xff\xfe",
        b"",
    ],
    ids=["deep", "deep and named", "not so deep", "long", "no text", "empty"],
)
def test_malicious_reply_is_a_known_error_at_once(bench: Bench, status: int, body: bytes) -> None:
    embedder = bench.speaker.embedder(bench.server, bench.clock)
    assert embedder.profile
    bench.server.fault = lambda asked: Answer(status, body=body)

    with pytest.raises(TruespanError):
        embedder.embed_query("q")
