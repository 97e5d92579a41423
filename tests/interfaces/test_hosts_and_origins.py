"""Accepted hosts and origins of the server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.http_client import Client, Response, serve_library
from tests.promises import proves
from tests.support.worlds import make_library
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import LOOPBACK, AuthPolicy

OURS = "https://ours.example"
ADDRESSES = ("/", "/page/app.js", "/v1/worlds", "/v1/me", "/health", "/metrics", "/openapi.json",
             "/mcp", "/mcp/w", "/nowhere", "/chat", "/v1/worlds/w/search")  # fmt: skip
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE")
GOOD = ("127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}", "127.0.0.1", "localhost", "[::1]",
        "LOCALHOST:{port}", "LocalHost", "127.0.0.1:1")  # fmt: skip
EVIL = (
    "evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example",
    "evil.example#127.0.0.1", "evil.example?localhost", "evil.example/localhost",
    "127.0.0.1@evil.example", "localhost:{port}@evil.example", "evil.example\\localhost",
    "user@localhost", "localhost:80:80", "localhost:evil", "localhost:-1", "localhost.",
    "127.0.0.2", "127.1", "2130706433", "0x7f000001", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]",
    "::1", "[::1", "::1]", "[::1]evil.example", "[::1]8700", "[::1]:evil", "localhost localhost",
    "localhost,evil.example", "LOCALHOST.evil.example", "ｌocalhost", "http://localhost", "*", ".",
)  # fmt: skip


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Client]]:
    lib = make_library(tmp_path_factory.mktemp("gate"))
    lib.world("w", a__txt="The lamp went out at midnight.")
    shared = ServerOptions(auth=AuthPolicy(origins=frozenset({OURS})))
    wide = ServerOptions(auth=AuthPolicy(hosts=LOOPBACK | {"lamp.example"}, any_address=True))
    with (
        serve_library(lib.library) as plain,
        serve_library(lib.library, shared) as sharing,
        serve_library(lib.library, wide) as named,
    ):
        yield {"plain": plain, "sharing": sharing, "named": named}
    lib.library.close()


@pytest.fixture
def plain(servers: dict[str, Client]) -> Client:
    return servers["plain"]


@pytest.fixture
def sharing(servers: dict[str, Client]) -> Client:
    return servers["sharing"]


def asked(
    client: Client,
    host: str | None = None,
    origin: str | None = None,
    *,
    method: str = "GET",
    address: str = "/v1/worlds",
    **headers: str,
) -> Response:
    own = f"127.0.0.1:{client.port}"
    given = [("origin", origin.format(port=client.port))] if origin is not None else []
    given += [(name.replace("_", "-"), value) for name, value in headers.items()]
    hosts = [own if host is None else host.format(port=client.port)]
    return client.send(method, address, hosts=hosts, headers=given)


def gave_nothing(response: Response) -> bool:
    """Return whether a reply is a refusal by the gateway, without CORS headers."""
    shared = [name for name, _ in response.headers if name.startswith("access-control-")]
    return not shared and b'"worlds"' not in response.body and b"<html" not in response.body


@proves("http.local-and-checked")
@pytest.mark.parametrize("host", GOOD)
def test_own_host_names_are_accepted(plain: Client, host: str) -> None:
    assert asked(plain, host).status == 200


@proves("http.local-and-checked")
@pytest.mark.parametrize("host", EVIL)
def test_unknown_host_is_refused_at_every_address(plain: Client, host: str) -> None:
    for address in ADDRESSES:
        for method in ("GET", "POST"):
            response = asked(plain, host, method=method, address=address)
            assert (response.status, response.code) == (421, "host_refused"), (
                address,
                response.body,
            )
            assert gave_nothing(response)
    for method in METHODS:
        assert asked(plain, host, method=method).status == 421


@proves("http.local-and-checked")
@pytest.mark.parametrize("hosts", [[], [""], ["localhost", "localhost"], ["localhost", "evil"]])
def test_missing_empty_and_repeated_hosts_are_refused(plain: Client, hosts: list[str]) -> None:
    for address in ADDRESSES:
        response = plain.send("GET", address, hosts=hosts)
        assert response.status in (400, 421)
        assert gave_nothing(response)


def test_request_without_a_host_is_refused(plain: Client) -> None:
    with plain.connect() as connection:
        connection.sendall(b"GET /v1/worlds HTTP/1.0\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize("target", ["http://evil.example/v1/worlds", "//evil.example/v1/worlds"])
def test_absolute_address_does_not_replace_the_host_header(plain: Client, target: str) -> None:
    response = plain.send("GET", target, hosts=["evil.example"])
    assert response.status in (400, 404, 421)
    assert gave_nothing(response)


@proves("http.local-and-checked")
@pytest.mark.parametrize(
    "host", ["lamp.example", "LAMP.example:80", "10.0.0.7:{port}", "[fe80::1]"]
)
def test_added_hosts_are_accepted_and_no_others(servers: dict[str, Client], host: str) -> None:
    assert asked(servers["named"], host).status == 200
    assert asked(servers["plain"], host).status == 421
    assert asked(servers["named"], "evil.example").status == 421
    assert asked(servers["named"], "1.2.3.4.evil.example").status == 421


# Pages

FOREIGN_ORIGINS = (
    "http://evil.example", "https://evil.example", "null", "", "http://127.0.0.1",
    "http://127.0.0.1:1", "http://localhost:{port}", "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}@evil.example", "http://evil.example#http://127.0.0.1:{port}",
    "http://127.0.0.1:{port}/", "http://127.0.0.1:{port} ,http://evil.example", "file://",
    "ftp://127.0.0.1:{port}", "chrome-extension://abc", "http://[::1", "javascript:alert(1)", "*",
    "http://user@127.0.0.1:{port}", "127.0.0.1:{port}", "HTTPS://OURS.example.evil.example",
)  # fmt: skip


@proves("http.local-and-checked")
@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_request_from_another_site_is_always_refused(plain: Client, origin: str) -> None:
    for address in ADDRESSES:
        for method in METHODS if address == "/v1/worlds" else ("GET", "POST"):
            response = asked(plain, origin=origin, method=method, address=address)
            assert (response.status, response.code) == (403, "origin_refused") or (
                response.status == 403 and method == "HEAD"
            ), (address, method, response.status)
            assert gave_nothing(response)


@proves("http.local-and-checked")
@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none"])
def test_cross_site_request_is_refused(plain: Client, site: str) -> None:
    for address in ADDRESSES:
        for method in ("GET", "POST"):
            response = asked(
                plain, method=method, address=address, sec_fetch_site=site, sec_fetch_mode="no-cors"
            )
            assert (response.code == "origin_refused") is (site == "cross-site"), (address, method)


def test_link_from_another_site_opens_the_page(plain: Client) -> None:
    followed = asked(plain, address="/", sec_fetch_site="cross-site", sec_fetch_mode="navigate")

    assert followed.status == 200
    assert followed.header("access-control-allow-origin") is None


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}"])
def test_own_origin_is_answered_without_cors_headers(plain: Client, scheme: str, host: str) -> None:
    response = asked(plain, host, f"{scheme}://{host}")

    assert response.status == 200
    assert response.header("access-control-allow-origin") is None


@proves("http.local-and-checked")
def test_repeated_origin_is_refused(plain: Client, sharing: Client) -> None:
    for client in (plain, sharing):
        own = f"http://127.0.0.1:{client.port}"
        for pair in ((own, own), (own, "http://evil.example"), (OURS, OURS)):
            response = client.send("GET", "/v1/worlds", headers=[("origin", one) for one in pair])
            assert response.code == "origin_refused"


# CORS, where the operator allows it


def test_allowed_origin_gets_cors_headers(sharing: Client) -> None:
    for spelled in (OURS, OURS.upper()):
        response = asked(sharing, origin=spelled)
        assert response.status == 200
        assert response.header("access-control-allow-origin") == OURS
        assert response.header("vary") == "Origin"
        exposed = {
            one.strip() for one in str(response.header("access-control-expose-headers")).split(",")
        }
        assert {"X-Answer-Mode", "X-RAG-Domain", "Location", "Retry-After"} <= exposed
        assert response.header("access-control-allow-credentials") is None
    failed = asked(sharing, origin=OURS, address="/nowhere")
    assert (failed.status, failed.header("access-control-allow-origin")) == (404, OURS)


def test_allowed_origin_gets_a_preflight_reply(sharing: Client) -> None:
    for address in ("/v1/worlds", "/v1/worlds/w/search", "/mcp", "/nowhere"):
        response = asked(
            sharing,
            origin=OURS,
            method="OPTIONS",
            address=address,
            access_control_request_method="PUT",
            access_control_request_headers="authorization, idempotency-key",
        )
        assert (response.status, response.body) == (204, b"")
        assert response.header("access-control-allow-origin") == OURS
        allowed = str(response.header("access-control-allow-headers")).lower()
        assert {"authorization", "idempotency-key", "x-rag-domain"} <= set(allowed.split(", "))
        assert "PUT" in str(response.header("access-control-allow-methods"))


@proves("http.local-and-checked")
@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_allowed_origin_does_not_allow_another(sharing: Client, origin: str) -> None:
    for method in ("GET", "OPTIONS"):
        response = asked(
            sharing, origin=origin, method=method, access_control_request_method="POST"
        )
        assert response.code == "origin_refused"
        assert gave_nothing(response)


def test_every_reply_has_the_security_headers(plain: Client) -> None:
    for address in (*ADDRESSES, "/v1/worlds/w/documents"):
        for host in (None, "evil.example"):
            response = asked(plain, host, address=address)
            assert response.header("x-content-type-options") == "nosniff"
            assert response.header("referrer-policy") == "no-referrer"
            assert response.header("cross-origin-resource-policy") == "same-origin"
            assert response.header("cache-control") in ("no-store", "no-cache"), address
            assert response.header("server") is None
    assert "frame-ancestors 'none'" in str(
        asked(plain, address="/").header("content-security-policy")
    )


def test_default_is_this_machine_without_cors(tmp_path: Path) -> None:
    from truespan.extensions.server.http.server import Service

    assert Service(tmp_path).host == "127.0.0.1"
    policy = ServerOptions().auth
    assert (policy.hosts, policy.any_address, policy.origins) == (LOOPBACK, False, frozenset())
