"""Freshness: each document says whether its source is unchanged."""

import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.providers.bench import TickingClock
from tests.support.reading_worlds import Stopped, stopped_at
from tests.support.web_server import WebServer, page
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import NotAllowed
from truespan.extensions.crawl.freshness import (
    CHANGED,
    CURRENT,
    GONE,
    Freshness,
    UnknownReason,
    list_states,
    unknown,
)
from truespan.extensions.crawl.web import WebPages
from truespan.types.scope import OWNER
from truespan.types.source import (
    Source,
    Upload,
)

KEY = "A brass key hung on the seventh hook."
OIL = "The oil for the lamp is in the cellar."
QUERY = "Where did the brass key hang?"


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


def states(world: World) -> dict[str, Freshness]:
    return {each.path: each.freshness for each in world.documents.freshness()}


@proves("freshness.states")
def test_files_are_compared_by_content_alone(lib: LibraryFixture) -> None:
    names = ("same", "touched", "edited", "gone")
    paths = [Path(lib.write(f"{name}.md", f"{KEY} It was {name}.")) for name in names]
    world = lib.library.create_world("world")
    world.ingest([str(path) for path in paths])
    world.ingest([Upload("upload.md", OIL.encode())])
    _, touched, edited, gone = paths
    before = edited.stat()
    os.utime(touched, (1, 1))
    edited.write_text(edited.read_text().replace("seventh", "SEVENTH"))
    os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns))
    gone.unlink()

    assert edited.stat().st_size == before.st_size
    assert states(world) == {
        "files/same.md": CURRENT,
        "files/touched.md": CURRENT,
        "files/edited.md": CHANGED,
        "files/gone.md": GONE,
        "upload.md": unknown(UnknownReason.NO_SOURCE),
    }


@proves("freshness.states")
def test_archive_members_are_compared_one_by_one(lib: LibraryFixture, tmp_path: Path) -> None:
    archive = tmp_path / "files" / "box.zip"

    def pack(**members: str) -> None:
        archive.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(archive, "w") as file:
            for name, text in members.items():
                file.writestr(f"{name}.txt", text)

    pack(key=KEY, oil=OIL, rope="The rope of the lamp.")
    world = lib.library.create_world("world")
    table = lib.write("lamps.jsonl", json.dumps({"body": "A lamp with oil."}) + "\n")
    world.ingest([str(archive)])
    world.ingest(table, fields={"text": "body"})
    pack(key=KEY, oil=OIL + " It was locked.")

    found = states(world)
    [record] = [name for name in found if "lamps" in name]
    assert found.pop(record) == unknown(UnknownReason.RECORD)
    shown = "files/box.zip"
    assert found == {
        f"{shown}/key.txt": CURRENT, f"{shown}/oil.txt": CHANGED, f"{shown}/rope.txt": GONE,
    }  # fmt: skip
    archive.unlink()
    assert {*states(world).values()} == {GONE, unknown(UnknownReason.RECORD)}


@proves("freshness.states")
def test_archive_is_read_once_for_all_of_its_members(lib: LibraryFixture, tmp_path: Path) -> None:
    archive = tmp_path / "box.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for number in range(5):
            file.writestr(f"{number}.txt", f"{KEY} It is number {number}.")
    world = lib.library.create_world("world")
    world.ingest(str(archive))
    read: list[str] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib.library._components.sources, name)

        def read(self, source: Source) -> bytes:
            read.append(source.path)
            return lib.library._components.sources.read(source)

    library = Library(replace(lib.library._components, sources=Counting()))
    assert [*states(library.world(world.id)).values()] == [CURRENT] * 5
    assert read == [str(archive)]


@proves("freshness.network")
def test_pages_are_compared_by_validators_or_content(server: WebServer, tmp_path: Path) -> None:
    clock = TickingClock()
    pages = WebPages(["127.0.0.1"], clock=clock, version="1", max_bytes=1 << 20, private=True)
    lib = make_library(tmp_path, clock=clock, pages=pages)
    world = lib.library.create_world("world")

    def tagged(headers: dict[str, str]) -> bytes:
        if headers.get("if-none-match") == '"1"':
            return page("", status="304 Not Modified")
        return page(f"<p>{KEY}</p>", ETag='"1"')

    server.pages |= {"/tagged": tagged, "/plain": page(f"<p>{OIL}</p>")}
    server.pages |= {"/gone": page("<p>The lamp.</p>"), "/broken": page("<p>The hook.</p>")}
    latin = "<p>The café has a lamp.</p>".encode("latin-1")
    server.pages["/latin"] = page(latin, "text/html; charset=iso-8859-1")
    names = ("tagged", "plain", "gone", "broken", "latin")
    urls = {name: server.url(f"/{name}") for name in names}
    world.ingest([*urls.values()])
    server.requests.clear()
    shown = {name: url.removeprefix("http://") for name, url in urls.items()}

    assert states(world) == dict.fromkeys(shown.values(), CURRENT)
    asked = [headers for path, headers in server.requests if path == "/tagged"]
    assert all(headers["if-none-match"] == '"1"' for headers in asked)
    del server.pages["/gone"]
    server.pages["/plain"] = page(f"<p>{KEY}</p>")
    server.pages["/broken"] = page("", status="500 Broken")
    assert states(world) == {
        shown["tagged"]: CURRENT,
        shown["plain"]: CHANGED,
        shown["gone"]: GONE,
        shown["broken"]: unknown(UnknownReason.UNREADABLE),
        shown["latin"]: CURRENT,
    }


@proves("freshness.network")
def test_page_of_a_host_that_is_not_allowed_is_not_requested(
    server: WebServer, tmp_path: Path
) -> None:
    clock = TickingClock()
    pages = WebPages(["127.0.0.1"], clock=clock, version="1", max_bytes=1 << 20, private=True)
    lib = make_library(tmp_path, clock=clock, pages=pages)
    world = lib.library.create_world("world")
    server.pages["/guide"] = page(f"<p>{KEY}</p>")
    world.ingest([server.url("/guide")])
    server.requests.clear()

    others = WebPages(["example.org"], clock=clock, version="1", max_bytes=1 << 20, private=True)
    for fetcher in (None, others):
        library = Library(replace(lib.library._components, pages=fetcher))
        [state] = states(library.world(world.id)).values()
        assert state == unknown(UnknownReason.NOT_ALLOWED)
    assert server.requests == []


@proves("freshness.bounded")
def test_silent_source_does_not_delay_others(lib: LibraryFixture, world: World) -> None:
    world.ingest([lib.write("slow.md", KEY), lib.write("quick.md", OIL)])
    answered, sources = Event(), lib.library._components.sources

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(sources, name)

        def digest(self, source: Source) -> str:
            if source.name == "slow.md":
                answered.wait(60)
            return sources.digest(source)

    parts = replace(lib.library._components, sources=Slow())
    found = list_states(parts, lib.scope(world), 0.2)
    assert not answered.is_set()
    answered.set()

    by_path = {each.path: each.freshness for each in found}
    assert by_path == {"files/slow.md": unknown(UnknownReason.TIMEOUT), "files/quick.md": CURRENT}


@proves("freshness.states")
def test_source_of_an_unfinished_revision_is_not_called_current(lib: LibraryFixture, world: World):
    world.ingest([path := lib.write("guide.md", KEY)])
    Path(path).write_text(OIL)
    for step in range(1, 12):
        with suppress(Stopped):
            stopped_at(lib, step).world("world").ingest([path])
        if world.documents.get("guide.md").staged is not None:
            break

    assert states(world) == {"files/guide.md": unknown(UnknownReason.REPLACED)}


@proves("freshness.readers")
def test_readers_get_no_freshness(lib: LibraryFixture, world: World) -> None:
    world.ingest(lib.write("book.md", f"{KEY}\n\n# Later\n\n{OIL}"), kind="book")
    reader = Library(lib.library._components, OWNER.as_reader(lib.scope(world).world, "ann")).world(
        "world"
    )

    assert not hasattr(world.reader("ann"), "freshness")
    with pytest.raises(NotAllowed):
        reader.documents.freshness()
