"""Libraries that are backed up and restored, in either column: in a folder, or in PostgreSQL."""

from pathlib import Path

from msgspec.structs import replace

from tests.scenario.test_figures import REPORT
from tests.support.reading_worlds import frozen
from tests.support.state_embedder import StateEmbedder
from tests.support.worlds import STORES, WordCounter
from truespan.engine.library import Library
from truespan.types.source import DocumentArguments
from truespan.wire.serialize import to_json
from truespan.wiring import open_library

STORY = " ".join(f"Sentence {count} tells of the lamp by night." for count in range(60))
FIGURES = "docx_extract_images = true\ndocx_figure_chunks = true\n"
READERS = (0, 7, 30)


def opened(folder: Path, *, create: bool = False) -> Library:
    return open_library(folder, create=create, embedder=StateEmbedder(), counter=WordCounter())


def on_server() -> bool:
    """Return whether the test runs on PostgreSQL."""
    return STORES[-1] == "postgres"


def home(folder: Path, settings: str = "") -> Path:
    """Return a path where a library can be made or restored, with these settings.

    In a file nothing is made of it; on a server it is a folder that names an empty database.
    """
    if on_server():
        from tests.support.postgres import database_of

        folder.mkdir(parents=True)
        (folder / "url").write_text(database_of(folder).url.reveal(), encoding="utf-8")
        settings += 'store_url_file = "url"\n'
    if settings:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "truespan.toml").write_text(settings, encoding="utf-8")
    return folder


LABELS: DocumentArguments = {
    "tags": ["sea"],
    "metadata": {"team": "a", "year": 2020, "due": "2026-05-01"},
    "source_url": "https://wiki.example/story",
}


def filled(folder: Path) -> Path:
    """Make a library with a book and its readers, a second world, and a document with images."""
    files = folder.with_name("files")
    files.mkdir()
    (files / "story.txt").write_text(STORY)
    (files / "report.docx").write_bytes(REPORT)
    with opened(home(folder, FIGURES), create=True) as library:
        world = library.create_world("world")
        world.ingest([files / "story.txt", files / "report.docx"], kind="book")
        for sid in READERS:
            world.reader(f"at {sid}").set_position("story.txt", sentence=sid)
        library.create_world("other").ingest(files / "story.txt", **LABELS)
        world.search("lamp", mode="hybrid")
        told(library)
    return folder


def retire(folder: Path) -> None:
    with opened(folder) as library:
        library._components.index.retire()  # type: ignore[attr-defined]


def told(library: Library) -> list[str]:
    """Return everything that a library reports, as serialized bytes without times."""
    answers = []
    for name in ("world", "other"):
        world = library.world(name)
        found = world.search("lamp by night", top_k=30, floor=0.0)
        answers += [to_json(found.passages), found.context]
        answers += [frozen(world.retrieve("lamp", language=None))]
        answers += [to_json(world.documents.facets())]
        answers += [
            to_json(world.documents.list()),
            to_json(replace(world.status(), vectors=0, word_states=0)),
        ]
        answers += [world.documents.text(document.doc_id) for document in world.documents.list()]
    world = library.world("world")
    for sid in READERS:
        reader = world.reader(f"at {sid}")
        answers += [frozen(reader.retrieve("lamp", top_k=20)), to_json(reader.position())]
    return answers


def images(folder: Path) -> dict[str, bytes]:
    """Return the image files of a library by name."""
    place = folder / "data" / "rag-assets"
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }
