"""Requests to an index server go only to the configured and checked address."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.index_contract import EAST, new_scope, vector
from tests.promises import proves
from tests.support.certificates import make_certificate
from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction
from tests.support.qdrant_loopback import QdrantLoopback
from truespan.core.clock import SystemClock
from truespan.errors import IndexRefused, InvalidConfiguration
from truespan.extensions.cluster.qdrant import ServerOptions
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex
from truespan.types.scope import Scope
from truespan.types.token import Secret

KEY = "a-key-that-nobody-may-see"


@pytest.fixture
def server() -> Iterator[QdrantLoopback]:
    with QdrantLoopback() as made:
        yield made


@pytest.fixture
def index(server: QdrantLoopback) -> Iterator[QdrantServerIndex]:
    made = index_at(server.url)
    yield made
    made.close()


def index_at(url: str, **choices: Any) -> QdrantServerIndex:
    options = {"timeout_seconds": 60, "key": Secret(KEY), **choices}
    return QdrantServerIndex(ServerOptions(url=url, **options), SystemClock())


@pytest.fixture
def scope(index: QdrantServerIndex) -> Scope:
    made = new_scope()
    index.prepare(made)
    return made


def search(index: QdrantServerIndex, scope: Scope) -> Any:
    return index.search(scope, vector(*EAST), limit=1, floor=None)


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
def test_only_a_plain_web_address_is_taken_and_it_is_not_repeated(url):
    with pytest.raises(InvalidConfiguration) as caught:
        index_at(url).collections()

    assert KEY not in str(caught.value)


# TLS


def test_certificates_that_cannot_be_read_are_a_wrong_setting(tmp_path):
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


def test_a_certificate_that_the_settings_name_is_trusted(encrypted, certificate):
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


def test_certificate_of_another_host_is_a_wrong_setting(encrypted, certificate):
    url = encrypted.url.replace("127.0.0.1", "localhost")
    index = index_at(url, ca_file=f"{certificate}.crt")

    with pytest.raises(InvalidConfiguration, match=r"localhost:[0-9]+ is for another host"):
        index.collections()
    index.close()

    assert encrypted.asked == []
