"""Fetching pages: only from allowed hosts and addresses, obeying robots.txt, within limits."""

import gzip
import os
import socket
import ssl
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.certificates import make_certificate
from tests.support.failures import raises_code
from tests.support.providers.bench import TickingClock
from tests.support.web_server import WebServer, page, redirect
from truespan.errors import InvalidArgument, SourceRefused
from truespan.extensions.crawl.addresses import is_public
from truespan.extensions.crawl.pages import (
    check_url,
    host_matches,
    name_to_parse,
    read_sitemap,
    with_encoding,
)
from truespan.extensions.crawl.web import WebPages, parse_robots
from truespan.providers.outbound import Bounds
from truespan.types.text import Validators

LIMIT = 1 << 20


@pytest.fixture(scope="module")
def shared() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


@pytest.fixture
def server(shared: WebServer) -> WebServer:
    shared.pages.clear()
    shared.requests.clear()
    return shared


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


def fetcher(clock: TickingClock, *hosts: str, **options: Any) -> WebPages:
    options = {"private": True, "bounds": Bounds(total_seconds=60.0), **options}
    names = hosts or ("127.0.0.1",)
    return WebPages(names, clock=clock, version="1.2", max_bytes=LIMIT, **options)


@proves("pages.allowed-hosts")
def test_only_pages_of_named_hosts_are_fetched(server: WebServer, clock: TickingClock) -> None:
    server.pages["/a"] = page("<p>hello", ETag='"1"')
    pages = fetcher(clock, "127.0.0.1", "*.example.org")
    found = pages.fetch(server.url("/a#part"))
    assert (found.url, found.content, found.etag) == (server.url("/a"), b"<p>hello", '"1"')
    assert server.requests[-1][1]["user-agent"] == "truespan/1.2"
    for url in ("http://localhost/a", "https://example.org/", "https://badexample.org/"):
        with pytest.raises(InvalidArgument, match="ingest_hosts"):
            pages.fetch(url)
    assert pages.check("HTTPS://Docs.Example.org:443") == "https://docs.example.org/"


@proves("pages.no-private-addresses")
def test_private_addresses_are_refused_unless_allowed(
    server: WebServer, clock: TickingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pages["/a"] = page("hello")
    hosts = ("127.0.0.1", "169.254.169.254", "[::1]", "10.0.0.7", "docs.example.org")
    for host in ("127.0.0.1", "169.254.169.254", "10.0.0.7"):
        with raises_code("page_refused", match="private or reserved"):
            fetcher(clock, *hosts, private=False).fetch(f"http://{host}:{server.port}/a")
    # Credentials of cloud machines are refused in any case.
    with raises_code("page_refused"):
        fetcher(clock, *hosts).fetch("http://169.254.169.254/latest/meta-data")

    # A name that leads to this machine, at first or when it is asked for again.
    answers = iter(["93.184.216.34", "127.0.0.1", "127.0.0.1"])
    seen: list[str] = []

    def rebinding(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        address = next(answers)
        seen.append(address)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    monkeypatch.setattr(socket.socket, "connect", lambda *_: (_ for _ in ()).throw(OSError))
    pages = fetcher(clock, *hosts, private=False)
    with raises_code("page_unavailable"):
        pages.fetch(f"http://docs.example.org:{server.port}/a")
    with raises_code("page_refused", match="private or reserved"):
        pages.fetch(f"http://docs.example.org:{server.port}/a")
    assert server.requests == []
    assert seen == ["93.184.216.34", "127.0.0.1"]


def test_special_purpose_addresses_are_not_public() -> None:
    """Every row of IANA's special-purpose registries, and IPv6 addresses that stand for others."""
    special = (
        *("0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1"),
        *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.0.192"),
        *("192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.1.1"),
        *("192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1"),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1"),
        *("64:ff9b::7f00:1", "64:ff9b:1::1", "64:ff9b:1::5db8:d822", "100::1", "100:0:0:1::1"),
        *("2001::1", "2001:1::1", "2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1"),
        *("2001:20::1", "2001:30::1", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1"),
        *("2620:4f:8000::1", "3fff::1", "3fff:fff:ffff::1", "5f00::1", "fc00::1", "fd00::1"),
        *("fe80::1", "fe80::1%eth0", "fec0::1", "feff::1", "ff02::1", "4000::1", "e000::1"),
        *("::10.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "2001:0:1::f5ff:fffe"),
    )
    public = (
        *("93.184.216.34", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.32.0.1", "192.0.1.1"),
        *("198.17.255.255", "198.20.0.1", "223.255.255.255", "2606:2800:220:1::1", "2001:200::1"),
        *("64:ff9b::5db8:d822", "::ffff:93.184.216.34", "2002:5db8:d822::1", "3ffe::1"),
    )

    assert [address for address in special if is_public(address)] == []
    assert [address for address in public if not is_public(address)] == []


@proves("pages.allowed-hosts")
def test_redirects_are_checked_at_each_hop(server: WebServer, clock: TickingClock) -> None:
    server.pages |= {
        "/ok": redirect("/there?x=1", 301), "/there?x=1": page("there"),
        "/other": redirect(server.url("/there", host="localhost")),
        "/file": redirect("file:///etc/passwd"),
        "/user": redirect(f"http://me:secret@127.0.0.1:{server.port}/there"),
        "/loop": redirect("/loop"), "/metadata": redirect("http://169.254.169.254/latest"),
    }  # fmt: skip
    pages = fetcher(clock, "127.0.0.1", "169.254.169.254")

    found = pages.fetch(server.url("/ok"))
    assert (found.url, found.content) == (server.url("/there?x=1"), b"there")
    for path, refusal in {
        "/other": "page_refused", "/file": "page_refused", "/user": "page_refused",
        "/loop": "page_unavailable", "/metadata": "page_refused",
    }.items():  # fmt: skip
        with raises_code(refusal):
            pages.fetch(server.url(path))
    server.asked()
    with raises_code("page_unavailable", match="more than 5 times"):
        pages.fetch(server.url("/loop"))
    assert len(server.asked()) == 6


@proves("pages.allowed-hosts")
def test_redirect_from_https_to_http_is_refused(
    server: WebServer, clock: TickingClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.setitem(os.environ, "SSL_CERT_FILE", f"{certificate}.crt")
    server.pages["/plain"] = page("plain")
    with WebServer(tls=context) as encrypted:
        encrypted.pages |= {
            "/moved": redirect("/there"),
            "/there": page("there"),
            "/down": redirect(server.url("/plain")),
        }

        assert fetcher(clock).fetch(encrypted.url("/moved")).content == b"there"
        with raises_code("page_refused", match="from https to http"):
            fetcher(clock).fetch(encrypted.url("/down"))
    assert server.asked() == []


@proves("pages.limits")
def test_compressed_page_is_unpacked_only_to_the_limit(server: WebServer, clock: TickingClock):
    server.pages["/bomb"] = page(gzip.compress(bytes(LIMIT * 64)), Content_Encoding="gzip")
    tracemalloc.start()
    try:
        with raises_code("source_too_large"):
            fetcher(clock).fetch(server.url("/bomb"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < LIMIT * 8


@proves("pages.limits")
def test_hostile_servers_are_limited_in_time_and_size(
    server: WebServer, clock: TickingClock
) -> None:
    def endless(_: object) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while True:
            yield b"x" * 65536

    def drip(_: object) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        while True:
            yield b"x"

    def drip_head(_: object) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        while True:
            yield b"X-Drip: 1\r\n"

    bomb = gzip.compress(bytes(LIMIT * 8))
    server.pages |= {
        "/endless": endless, "/drip": drip, "/head": drip_head,
        "/declared": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        "/short": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
        "/negative": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nbody",
        "/chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc",
        "/bomb": page(bomb, Content_Encoding="gzip"),
        "/cut": page(bomb[:100], Content_Encoding="gzip"),
        "/brotli": page(b"\x0b", Content_Encoding="br"), "/noise": b"\x00\x01\x02\r\n\r\n",
        "/nothing": b"", "/500": page("", status="500 Broken"),
        "/partial": page("x", status="206 Partial"), "/401": page("", status="401 Who"),
    }  # fmt: skip
    pages = fetcher(clock)
    pages.fetch(server.url("/negative"))
    outcomes = {}
    for path in server.pages:
        clock.tick = 1.0 if path in ("/drip", "/head") else 0.0
        try:
            outcomes[path] = pages.fetch(server.url(path)).content
        except SourceRefused as refusal:
            outcomes[path] = refusal.code

    too_large = {"/endless", "/declared", "/bomb"}
    assert {path for path, kind in outcomes.items() if kind == "source_too_large"} == too_large
    assert outcomes.pop("/401") == "page_refused"
    assert outcomes.pop("/negative") == b"body"
    others = {kind for path, kind in outcomes.items() if path not in too_large}
    assert others == {"page_unavailable"}


def test_unchanged_page_is_not_sent_again_and_gone_ones_are_missing(
    server: WebServer, clock: TickingClock
) -> None:
    def conditional(headers: dict[str, str]) -> bytes:
        same = headers.get("if-none-match") == '"v1"' and "if-modified-since" in headers
        return page("", status="304 Same") if same else page("text", ETag='"v1"')

    server.pages |= {"/a": conditional, "/gone": page("", status="410 Gone")}
    pages = fetcher(clock)

    assert pages.fetch(server.url("/a")).content == b"text"
    known = Validators('"v1"', "Mon, 16 Nov 2026 10:00:00 GMT")
    assert pages.fetch(server.url("/a"), known).content is None
    for path in ("/gone", "/none"):
        with raises_code("source_missing"):
            pages.fetch(server.url(path))
    server.pages["/odd"] = page("x", ETag="caf\xe9", status="200 OK")
    assert pages.fetch(server.url("/odd")).etag is None


@proves("pages.robots")
def test_robots_txt_is_read_once_and_obeyed_with_its_delay(server: WebServer, clock: TickingClock):
    server.pages |= {
        "/robots.txt": page("User-agent: truespan\nDisallow: /private\nCrawl-delay: 9999"),
        "/a": page("a"),
        "/moved": redirect("/private/x"),
    }
    pages = fetcher(clock)

    pages.fetch(server.url("/a"))
    pages.fetch(server.url("/a"))
    for path in ("/private/x", "/moved"):
        with raises_code("page_refused", match="robots"):
            pages.fetch(server.url(path))

    assert server.asked() == ["/robots.txt", "/a", "/a", "/moved"]
    assert clock.slept == [10.0, 10.0]
    clock.time += 3601
    pages.fetch(server.url("/a"))
    assert server.asked() == ["/robots.txt", "/a"]
    for status in ("503 Later", "429 Too Many Requests"):
        server.pages["/robots.txt"] = page("", status=status)
        with raises_code("page_unavailable"):
            fetcher(clock).fetch(server.url("/a"))
    server.pages["/robots.txt"] = page("", status="403 Forbidden")
    assert fetcher(clock).fetch(server.url("/a")).content == b"a"
    server.pages["/robots.txt"] = page("x" * (600 << 10))
    with raises_code("page_refused"):
        fetcher(clock).fetch(server.url("/a"))


def test_rules_of_robots_follow_the_standard() -> None:
    rules = parse_robots(
        "\ufeffUser-agent: other\nDisallow: /\n\nUser-Agent: *\nUser-agent: x # both\n"
        "Disallow: /private/\nAllow: /private/open\nDisallow: /*.pdf$\n"
        "Disallow: /a*b*c\nDisallow:\n",
        "truespan",
    )
    allowed = ["/", "/private", "/private/open/x", "/x.pdfx", "/ab", "/%70rivat", "/robots.txt"]
    refused = ["/private/", "/%70rivate/x", "/x/y.pdf", "/aXbYc?z"]

    assert [path for path in allowed if not rules.allows(path)] == []
    assert [path for path in refused if rules.allows(path)] == []
    own = parse_robots("User-agent: Truespan\nAllow: /\nUser-agent: *\nDisallow: /", "truespan")
    assert own.allows("/x")
    assert parse_robots("nonsense\nDisallow: /\nUser-agent", "truespan").allows("/x")
    assert not parse_robots("User-agent:*\nDisallow:/\nCrawl-delay: nan", "truespan").allows("/x")
    # Many wildcards cost no more than a few.
    many = parse_robots(f"User-agent: *\nDisallow: /{'*a' * 20}$\n" * 500, "truespan")
    assert many.allows("/" + "a" * 5000 + "b")


def test_addresses_are_normalized_or_refused() -> None:
    same = {
        "https://Docs.example.org": "https://docs.example.org/",
        "http://example.org:80/a?b=c#d": "http://example.org/a?b=c",
        "http://[::1]:8080/x": "http://[::1]:8080/x",
        " https://example.org/a/../b ": "https://example.org/a/../b",
    }
    assert {url: check_url(url) for url in same} == same
    for url in (
        *("ftp://example.org/a", "https:///x", "http://me@example.org/", "http://example.org:0/"),
        *("http://example.org:99999/", "http://exa mple.org/", "http://example.org/\u00e9"),
        *("https://example.org/" + "a" * 3000, "http://[::1", "javascript:alert(1)"),
    ):
        with pytest.raises(InvalidArgument):
            check_url(url)
    assert host_matches("a.example.org", "*.example.org")
    assert not host_matches("example.org", "*.example.org")
    assert not host_matches("aexample.org", "*.example.org")


def test_content_type_decides_name_and_encoding() -> None:
    assert name_to_parse("page.php", "text/html; charset=utf-8") == "page.php.html"
    assert name_to_parse("a.HTML", "text/html") == "a.HTML"
    assert name_to_parse("a.pdf", "application/octet-stream") == "a.pdf"
    assert with_encoding("é".encode("latin-1"), "text/html; charset=ISO-8859-1").endswith(
        "é".encode()
    )
    assert with_encoding(b"\xe9", "text/html; charset=nonsense") == b"\xe9"
    assert with_encoding(b"\xff\xfe", "image/png; charset=utf-16") == b"\xff\xfe"


def test_sitemaps_are_read_without_being_parsed() -> None:
    text = (
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "&b;&b;">]><urlset>'
        "<!-- <url><loc>https://example.org/hidden</loc></url> --><url>"
        "<loc> https://example.org/a?x=1&amp;y=2 </loc><image:loc>https://example.org/i</image:loc>"
        "</url><url><loc><![CDATA[https://example.org/b]]></loc></url><loc></loc></urlset>"
    )

    assert read_sitemap(text.encode()) == (
        False,
        ["https://example.org/a?x=1&y=2", "https://example.org/b"],
    )
    assert read_sitemap(b"<sitemapindex><loc>x</loc></sitemapindex>") == (True, ["x"])
    assert read_sitemap(b"<!--" * 100_000 + b"<loc>" * 100_000)[1] == []
