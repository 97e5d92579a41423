"""Web pages as documents: ingested by address, manifest or sitemap, and synchronized."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.providers.bench import TickingClock
from tests.support.sample_texts import story
from tests.support.web_server import WebServer, page, redirect
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.extensions.crawl.web import WebPages
from truespan.extensions.server.sources import ingest_pages
from truespan.types.job import IngestJob, JobState


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
def lib(tmp_path: Path) -> LibraryFixture:
    clock = TickingClock()
    pages = WebPages(["127.0.0.1"], clock=clock, version="1", max_bytes=1 << 20, private=True)
    return make_library(tmp_path, clock=clock, pages=pages)


@pytest.fixture
def world(lib: LibraryFixture) -> World:
    return lib.library.create_world("world")


def html(text: str, title: str = "Guide") -> str:
    return f"<html><head><title>{title}</title></head><body><nav>Menu</nav><p>{text}</p></body>"


def versioned(version: str, text: str) -> object:
    """Return a page that recognises the validators of a request."""

    def reply(headers: dict[str, str]) -> bytes:
        if headers.get("if-none-match") == f'"{version}"':
            return page("", status="304 Not Modified")
        return page(html(text), ETag=f'"{version}"')

    return reply


def urls(world: World) -> list[str]:
    return sorted(str(document.source_url) for document in world.documents.list())


@proves("pages.in-step")
def test_unchanged_page_is_not_sent_again(world: World, server: WebServer) -> None:
    server.pages |= {"/old": redirect("/guide"), "/guide": versioned("1", story(5))}  # type: ignore[dict-item]

    report = world.ingest(server.url("/old"), tags=["web"])

    [document] = world.documents.list()
    assert (report.ingested, report.failures) == (["old"], [])
    assert (document.title, document.tags) == ("Guide", ("web",))
    assert (document.source_url, document.path) == (server.url("/guide"), server.url("/old"))
    assert "Menu" not in world.documents.text(document.number)
    assert world.search("harbour", top_k=1).passages[0].source_url == server.url("/guide")

    assert world.ingest(server.url("/old")).unchanged == 1
    assert server.requests[-1][1]["if-none-match"] == '"1"'
    server.pages["/guide"] = versioned("2", story(6))  # type: ignore[assignment]
    assert world.ingest(server.url("/old")).ingested == ["old"]
    assert world.documents.get(document.number).tags == ("web",)
    # Another title is another revision, for which the text is needed.
    assert world.ingest(server.url("/old"), title="Mine").ingested == ["old"]
    assert "if-none-match" not in server.requests[-1][1]
    assert world.ingest(server.url("/old")).unchanged == 1
    plan = world.documents.plan(server.url("/old"))
    assert [row.outcome.value for row in plan.rows] == ["unchanged"]


@proves("pages.in-step")
def test_only_prune_removes_a_gone_page(world: World, server: WebServer) -> None:
    server.pages |= {"/a": page(html(story(5))), "/b": page(html(story(4)))}
    both = [server.url("/a"), server.url("/b")]
    world.ingest(both)
    server.pages |= {"/a": page("", status="503 Later"), "/b": page("", status="410 Gone")}

    report = world.ingest(both)
    assert [failure.code for failure in report.failures] == ["page_unavailable", "source_missing"]
    assert len(world.documents.list()) == 2

    gone: list[str] = []
    report = world.ingest(
        both, prune=True, on_prune=lambda removed: gone.extend(one.name for one in removed)
    )
    assert [failure.code for failure in report.failures] == ["page_unavailable"]
    assert (gone, report.removed) == (["b"], [server.url("/b").removeprefix("http://")])
    assert [document.name for document in world.documents.list()] == ["a"]


def test_any_format_is_read_by_content_type_and_content(world: World, server: WebServer) -> None:
    server.pages |= {
        "/notes": page("# Notes\n\nThe lamp is *red*.", "text/markdown"),
        "/": page("The lamp is green.", "text/plain"),
        "/latin": page("<p>Café société".encode("latin-1"), "text/html; charset=iso-8859-1"),
        "/picture": page(b"\x89PNG\r\n\x1a\n" + bytes(50), "image/png"),
    }
    report = world.ingest([server.url(path) for path in server.pages])
    texts = [world.documents.text(document.number) for document in world.documents.list()]
    assert texts == ["Notes\n\nThe lamp is red.", "The lamp is green.", "Café société"]
    assert [failure.name for failure in report.failures] == ["picture"]


@proves("pages.allowed-hosts")
def test_no_page_is_fetched_unless_hosts_are_allowed(
    tmp_path: Path, world: World, server: WebServer
) -> None:
    pages = WebPages([], clock=TickingClock(), version="1", max_bytes=1 << 20)
    closed = make_library(tmp_path / "closed", pages=pages).library.create_world("world")
    with pytest.raises(InvalidArgument, match="ingest_hosts"):
        closed.ingest(server.url("/a"))
    with pytest.raises(InvalidArgument, match="ingest_hosts"):
        closed.jobs.submit(IngestJob(sitemap=server.url("/sitemap.xml")))
    with pytest.raises(InvalidArgument, match=r"'example\.org'"):
        world.ingest(["https://example.org/a", server.url("/a")])
    with pytest.raises(InvalidArgument, match="user and password"):
        world.ingest(f"http://me:secret@127.0.0.1:{server.port}/")
    assert server.requests == []


def test_sitemap_lists_pages_and_prune_follows_it(world: World, server: WebServer) -> None:
    def sitemap(*paths: str, tag: str = "urlset") -> str:
        listed = "".join(f"<loc>{server.url(path)}</loc>" for path in paths)
        return f"<{tag}>{listed}<loc>https://elsewhere.example/x</loc></{tag}>"

    server.pages |= {
        "/index.xml": page(sitemap("/one.xml.gz", "/two.xml", tag="sitemapindex"), "text/xml"),
        "/one.xml.gz": page(gzip.compress(sitemap("/a", "/b").encode()), "application/gzip"),
        "/two.xml": page(sitemap("/c", "/a"), "text/xml"),
        **{f"/{name}": page(html(story(4, name))) for name in "abc"},
    }

    report = world.ingest(sitemap=server.url("/index.xml"), tags=["site"])
    assert (sorted(report.ingested), report.unsupported) == (["a", "b", "c"], 3)
    server.pages["/two.xml"] = page(sitemap("/a"), "text/xml")
    world.ingest(server.url("/c"))
    report = world.ingest(sitemap=server.url("/index.xml"), prune=True)
    assert (len(report.removed), report.unchanged) == (1, 2)
    assert urls(world) == [server.url("/a"), server.url("/b")]
    assert {document.tags for document in world.documents.list()} == {("site",)}

    server.pages["/index.xml"] = page("<urlset></urlset>")
    with pytest.raises(InvalidArgument, match="allow-empty"):
        world.ingest(sitemap=server.url("/index.xml"), prune=True)
    server.pages["/index.xml"] = page(sitemap("/index.xml", tag="sitemapindex"))
    with raises_code("source_unsupported"):
        world.ingest(sitemap=server.url("/index.xml"))
    server.pages["/index.xml"] = page(gzip.compress(b"<loc>" + bytes(60 << 20)))
    with raises_code("source_too_large"):
        world.ingest(sitemap=server.url("/index.xml"))
    server.pages["/index.xml"] = page(sitemap(*(f"/{n}" for n in range(60)), tag="sitemapindex"))
    with raises_code("source_too_large"):
        world.ingest(sitemap=server.url("/index.xml"))


def test_manifest_lines_may_name_pages(lib: LibraryFixture, world: World, server: WebServer):
    server.pages |= {"/a": page(html(story(5))), "/b": page(html(story(4, "garden")))}
    lib.write("file.txt", story(3, "tower"))

    def manifest(*lines: dict[str, object]) -> str:
        return lib.write("list.jsonl", "\n".join(map(json.dumps, lines)))

    first = {"url": server.url("/a"), "doc_id": "guide", "title": "Mine", "tags": ["web"]}
    second = {"url": server.url("/b"), "priority": 3}
    path = manifest(first, {"path": "file.txt"}, second)

    assert world.ingest(manifest=path).ingested == ["b", "file.txt", "a"]
    guide = world.documents.get("guide")
    assert (guide.title, guide.tags, guide.source_url) == ("Mine", ("web",), server.url("/a"))
    report = world.ingest(manifest=manifest(first), prune=True)
    assert (len(report.removed), report.unchanged) == (2, 1)
    assert [document.name for document in world.documents.list()] == ["a"]

    bad = manifest(
        {"url": "ftp://example.org/"},
        {"url": server.url("/a"), "path": "file.txt"},
        {"doc_id": "x"},
    )
    with raises_code("manifest_invalid") as refusal:
        world.ingest(manifest=bad)
    assert [number for number, _ in refusal.value.lines] == [1, 2, 3]
    bad = manifest(
        first,
        {**first, "title": "Other"},
        {"url": server.url("/b"), "doc_id": "Guide"},
        {"url": "https://elsewhere.example/"},
    )
    with raises_code("manifest_invalid") as refusal:
        world.ingest(manifest=bad)
    assert [number for number, _ in refusal.value.lines] == [2, 3, 4]


def test_page_is_ingested_in_the_background_and_again(world: World, server: WebServer) -> None:
    server.pages["/a"] = page(html(story(5)))
    job = world.jobs.submit(IngestJob([server.url("/a")]))
    world.access.components.queue.wait()  # type: ignore[attr-defined]
    assert world.jobs.get(job.id).state is JobState.DONE
    server.pages["/a"] = page(html(story(6)))
    again = world.documents.reingest("a")
    world.access.components.queue.wait()  # type: ignore[attr-defined]
    assert world.jobs.get(again.id).state is JobState.DONE
    assert "Sentence 5" in world.documents.text("a")


@proves("pages.allowed-hosts")
def test_submitted_pages_never_read_files_of_the_server(
    lib: LibraryFixture, world: World, server: WebServer
) -> None:
    secret = lib.write("secret.txt", story(3))
    server.pages["/a"] = page(html(story(5)))
    for path in (secret, f"file://{secret}", "upload:secret.txt"):
        with pytest.raises(InvalidArgument, match="http://"):
            ingest_pages(world, [server.url("/a"), path])
    assert world.jobs.list() == []
    job = ingest_pages(world, [server.url("/a")], tags=["web"])
    world.access.components.queue.wait()  # type: ignore[attr-defined]
    assert world.jobs.get(job.id).state is JobState.DONE
    assert [document.tags for document in world.documents.list()] == [("web",)]
