"""Attempts to break ingestion: interruptions, concurrent runs, and documents with later text."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.laws.test_non_interference import answers, readers_at
from tests.promises import proves
from tests.scenario.test_figures import (
    ALL,
    GIF,
    PLAIN,
    PNG,
    REPORT,
    docx,
    drawing,
    filled,
    library,
    lines,
    paragraph,
)
from tests.support.crash_process import Mortal
from tests.support.epub_maker import Book
from tests.support.epub_maker import page as epub_page
from tests.support.pdf_maker import Bookmark, Page, column, make_pdf
from tests.support.reading_worlds import KilledProcess, Stop, Stopped, common, stored
from tests.support.worlds import Hooked, LibraryFixture, make_library
from truespan.engine.library import Library
from truespan.extensions.checks.sanitize.findings import Mode
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer
from truespan.ingest.draft import Preparation
from truespan.types.source import ParseOptions

OTHER = docx(paragraph("Another text ", drawing("rId1", "new")), media={"other.gif": GIF})
MAX_STEPS = 40


def stopped_at(lib: LibraryFixture, step: int) -> Library:
    """Return the library, whose next run ends before its n-th durable step, including images."""
    countdown, parts = Stop(step), lib.library._components
    mortal: dict[str, Any] = {
        name: Mortal(getattr(parts, name), countdown) for name in ("store", "index", "assets")
    }
    return Library(replace(parts, **mortal, processes=KilledProcess()))


def kept_files(lib: LibraryFixture) -> dict[str, bytes]:
    """Return every file in the assets folder except those that name its owner."""
    found = [path for path in (lib.folder / "assets").rglob("*") if path.is_file()]
    return {path.name: path.read_bytes() for path in found if path.name != ".world"}


# Images


@proves("figures.images-behind-flag")
@pytest.mark.parametrize(
    ("content", "images"), [(OTHER, {"img_001.gif": GIF}), (PLAIN, {})], ids=["other", "none"]
)
def test_stopped_replacement_keeps_images_of_active_revision(
    tmp_path: Path, content: bytes, images: dict[str, bytes]
) -> None:
    step = 0
    for step in range(1, MAX_STEPS):
        lib = library(tmp_path / str(step), ALL)
        world = filled(lib)
        path = lib.folder / "files" / "report.docx"
        path.write_bytes(content)
        ended = False
        with suppress(Stopped):
            stopped_at(lib, step).world("world").ingest(path)
            ended = True

        world.ingest(path)

        assert kept_files(lib) == images, step
        if ended:
            break
    assert 10 < step < MAX_STEPS - 1


@proves("ingest.delete-order")
def test_deletion_stopped_anywhere_leaves_no_image(tmp_path: Path) -> None:
    step = 0
    for step in range(1, MAX_STEPS):
        lib = library(tmp_path / str(step), ALL)
        world = filled(lib)
        ended = False
        with suppress(Stopped):
            stopped_at(lib, step).world("world").documents.delete("1")
            ended = True

        if world.documents.list():
            world.documents.delete("1")
        world.repair()

        assert kept_files(lib) == {}, step
        if ended:
            break
    assert 3 < step < MAX_STEPS - 1


@proves("figures.images-behind-flag")
def test_two_concurrent_runs_over_one_document_lose_no_image(tmp_path: Path) -> None:
    lib = library(tmp_path, ALL)
    world = lib.library.create_world("world")
    path = lib.folder / "report.docx"
    path.write_bytes(REPORT)
    parts = lib.library._components
    # The second run stages its revision right before the first one does.
    store: Any = Hooked(
        parts.store, lambda name: world.ingest(path) if name == "documents.stage" else None
    )

    # The second run takes the first one for dead, and does not wait for it.
    first = Library(replace(parts, store=store, processes=KilledProcess()))
    first.world("world").ingest(path)
    world.ingest(path)

    assert kept_files(lib) == {"img_001.png": PNG, "img_002.gif": GIF}


@proves("figures.images-behind-flag")
def test_earlier_run_keeps_the_images_of_a_later_revision(tmp_path: Path) -> None:
    lib = library(tmp_path, ALL)
    assets, world = lib.library._components.assets, lib.library.create_world("world")
    images = lib.library._components.parser.parse(
        "a.docx", REPORT, ParseOptions(images=True)
    ).images
    assets.stage_images(world.id, "a", "earlier", images[:1])  # type: ignore[arg-type]
    later = tmp_path / "assets" / "a" / ".staged-later"
    assets.stage_images(world.id, "a", "later", images[1:])  # type: ignore[arg-type]
    # Clocks of file systems are coarse; both may have been written in one of their steps.
    set_back((tmp_path / "assets" / "a" / ".staged-earlier" / ".names"), later)

    assert assets.publish(world.id, "a", "earlier")  # type: ignore[arg-type]
    assert assets.publish(world.id, "a", "later")  # type: ignore[arg-type]

    assert kept_files(lib) == {"img_001.gif": GIF}


def set_back(path: Path, other: Path) -> None:
    moment = other.stat().st_mtime_ns - 1_000_000_000
    os.utime(path, ns=(moment, moment))


# What lies ahead of a reader


def assert_told_alike(lib: LibraryFixture, name: str, versions: list[bytes], upto: int) -> None:
    """Assert that readers of a common beginning see no difference between versions of a book."""
    world = lib.library.create_world("world")
    path = lib.folder / name
    first: dict[int, list[str]] = {}
    texts: list[str] = []
    for content in versions:
        path.write_bytes(content)
        assert world.ingest(path, kind="book").failures == []
        now = stored(lib, world, 1).texts
        texts = texts or now
        assert common(texts, now) >= upto
        for sid, reader in readers_at(world, range(upto + 1), "1").items():
            told = answers(reader)
            assert told == first.setdefault(sid, told), sid


@proves("reading.non-interference")
def test_outline_of_later_pages_renames_nothing_before_them(tmp_path: Path) -> None:
    heading = column(["Chapter One"], top=720)
    begun = column(["The lamp burned in the night. Nobody knew who", "had lit it."], top=680)
    pages = [Page([*heading, *begun]), Page(column(["The key hung in the hall."]))]
    outlines = [[], [Bookmark("Ahead", 1)], [Bookmark("Ahead", 1), Bookmark("Deep", 1, level=1)]]

    versions = [make_pdf(pages, outline=outline) for outline in outlines]

    assert_told_alike(make_library(tmp_path), "book.pdf", versions, 2)


@proves("reading.non-interference")
def test_later_picture_does_not_rename_the_cover(tmp_path: Path) -> None:
    pictures = {f"OEBPS/{name}.png": PNG + name.encode() for name in ("cover", "a", "b")}
    items = {"cover.png": 'properties="cover-image"', "a.png": "", "b.png": ""}
    opening = epub_page(
        "<h1>One</h1><p>The lamp burned. <img src='a.png' alt='lamp'/> It was lit.</p>"
        "<p>Nobody knew who lit it.</p>"
    )
    endings = ("", "<img src='b.png' alt='b'/>", "<img src='cover.png' alt='again'/>")
    versions = [
        Book(
            {"1.xhtml": opening, "2.xhtml": epub_page(f"<p>The end.</p>{ending}")},
            item=items,
            members=pictures,
        ).data()
        for ending in endings
    ]

    assert_told_alike(library(tmp_path, ALL), "book.epub", versions, 3)


# Sanitising


@proves("sanitise.before-chunking")
def test_values_in_dates_codes_and_picture_addresses_are_redacted(tmp_path: Path) -> None:
    preparation = Preparation(figures=replace(ALL, debug=True), sanitizer=Sanitizer(Mode.ON))
    lib = make_library(tmp_path, preparation=preparation)
    page = (
        "<html lang='lang@example.com'><head>"
        "<meta property='article:published_time' content='created@example.com'>"
        "<meta property='article:modified_time' content='modified@example.com'></head>"
        "<body><p>Some words of a page.</p>"
        "<img src='https://pictures.example/?of=address@example.com' alt='A lamp'></body></html>"
    )

    world = filled(lib, page.encode(), "page.html")

    assert any("DOCX_IMAGE number=1" in line for line in lines(world))
    held = [
        *lines(world),
        str(world.documents.metadata(1)),
        *(row[0] for row in lib.sql("SELECT properties FROM revisions")),
    ]
    assert "@example.com" not in " ".join(held)
    assert sum(entry.count for entry in world.documents.audit(1)) == 4
