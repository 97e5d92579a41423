"""Two libraries that differ only in documents outside the audience of every tested caller."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.scenario.test_figures import ALL, PNG, docx, drawing, paragraph
from tests.support.reading_worlds import Stopped, stopped_at
from tests.support.sample_texts import story
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.ingest.draft import Preparation
from truespan.retrieval import fused
from truespan.store.tables import worlds
from truespan.types.profile import Calibration

LAMP = "The lamp burned in the harbour. Ann lit the lamp. It was the night of the ships."
NIGHT = "# Night\n\nThe harbour was dark at night.\n\n## Ships\n\nNo ship had a lamp."
ROPE = "Ropes of the lawyers lay near the lamp. The lawyers sailed at night."
PAY = "The payroll of the zebra. The lamp of the payroll burned in the harbor. Lampp and lamb."
LOG = "# Payroll log\n\nThe zebra ate the lamp. Ann lit the payroll in the harbour. It was paid."
CALLERS: dict[str, tuple[str, ...]] = {
    "no label": (),
    "one group": ("group:legal",),
    "two labels": ("group:legal", "user:ann@example.org"),
    "a label of no document": ("group:none",),
}
"""Labels of callers. None of them is a label of a document that only one twin has."""
SECRETS = ("payroll", "zebra", "salary", "group:hr", "user:eve", "group:board", "zqpicture")
"""Words that only documents outside every audience have."""


@dataclass
class Twin:
    """A library for callers with labels, and the tokens of its readers by name."""

    lib: LibraryFixture
    world: World
    tokens: dict[str, str] = field(default_factory=dict)


Change = Callable[[LibraryFixture, World], object]


def add_hidden(lib: LibraryFixture, world: World) -> None:
    """Add documents before any other, so that numbers and ids could count them."""
    world.add_text(PAY, id="pay.txt", audience=["group:hr"], metadata={"salary": 3}, kind="book")
    world.add_text(LOG, id="log.md", audience=["group:hr"], kind="book", tags=["payroll"])


def add_more(lib: LibraryFixture, world: World) -> None:
    """Add copies of visible text, documents for the owner alone, and a picture."""
    world.add_text(story(30), id="story.txt", audience=["group:hr"], metadata={"salary": 1})
    world.add_text(LAMP, id="same.txt", audience=["user:eve"], kind="book", tags=["payroll"])
    world.add_text(ROPE, id="rope copy.txt", audience=["group:hr"], language="de")
    world.add_text("A record of the zebra.", id="owner.txt", audience=[])
    picture = Path(lib.write("payroll.docx", ""))
    shown = paragraph("Here ", drawing("rId1", "a zqpicture of the lamp"), " it is.")
    picture.write_bytes(
        docx(paragraph("The payroll and the lamp."), shown, media={"image1.png": PNG})
    )
    world.ingest(str(picture), audience=["group:hr"])


def replace_hidden(lib: LibraryFixture, world: World) -> None:
    world.add_text(f"{PAY} {story(12, 'lamp')}", id="pay.txt")


def move_hidden(lib: LibraryFixture, world: World) -> None:
    world.documents.update("story.txt", audience=["user:eve", "group:board"], tags=["lamp"])


def delete_hidden(lib: LibraryFixture, world: World) -> None:
    world.documents.delete("same.txt")


def read_hidden(lib: LibraryFixture, world: World) -> None:
    """Let readers of visible books read a hidden one last, write notes in it and talk about it."""
    for name in ("ann", "ben"):
        reader = world.reader(name)
        reader.set_position("log.md", sentence=1)
        reader.notes.add("A note about the payroll.", book="log.md", first=1)
        reader.conversation(book="log.md").ask("who ate the lamp?")
    hr = world.for_audience(["group:hr"])
    hr.conversation().ask("who ate the lamp of the zebra?")
    hr.reader("ann").answer("who ate the lamp?", "log.md")
    world.answer("what is the payroll?")


def calibrate(lib: LibraryFixture, world: World) -> None:
    """Store thresholds that were measured on all documents."""
    measured = Calibration(0.1, 0.2, 0.3, 0.2, 0.3, 0.4, 0.1, "all documents")
    lib.store.records.keep_calibration(lib.scope(world), measured)


def stop_ingesting(lib: LibraryFixture, world: World) -> None:
    for step in (2, 4, 5, 6):
        stopped = stopped_at(lib, step).world(world.name)
        with suppress(Stopped):
            stopped.add_text(story(20, "lamp"), id=f"new {step}.txt", audience=["group:hr"])


def damage_hidden(lib: LibraryFixture, world: World) -> None:
    lib.sql("UPDATE revisions SET audience = 'everyone' WHERE name = 'owner.txt'")
    lib.sql("UPDATE revisions SET title = 'The lamp' WHERE name = 'rope copy.txt'")
    lib.sql("""UPDATE states SET text_hash = 'x' WHERE revision IN
                 (SELECT key FROM revisions WHERE name = 'pay.txt')""")
    lib.sql("UPDATE positions SET sid = 0 WHERE reader IN"
            " (SELECT key FROM readers WHERE name = 'ben')")  # fmt: skip
    lib.sql("UPDATE notes SET sid = 0 WHERE reader = 'ann' AND document > 100")
    # What is kept for a state of the world is read again.
    world.add_text("Nothing about the zebra.", id="other.txt", audience=["group:hr"])


LATER: tuple[Change, ...] = (
    add_more, replace_hidden, move_hidden, read_hidden, delete_hidden, calibrate, stop_ingesting,
    damage_hidden,
)  # fmt: skip
"""Changes of one twin, after the documents that both have."""


@contextmanager
def equal_ids() -> Iterator[None]:
    """Give each library and its worlds the same ids."""
    numbers = iter(range(1, 100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "uuid4", lambda: UUID(int=next(numbers), version=4))
        # The number of candidates of a fused search matters in small worlds.
        patch.setattr(fused, "POOL", 6)
        yield


def fill(folder: Path, before: Change | None = None) -> Twin:
    """Create a library with the documents of both twins; `before` runs first."""
    with equal_ids():
        lib = make_library(folder, preparation=Preparation(figures=ALL))
        world = lib.library.create_world("world")
        lib.store.worlds.library_id()
    _share_key(lib)
    if before is not None:
        before(lib, world)
    # Files of both twins have the same paths.
    files = folder.parent / "files"
    files.mkdir(exist_ok=True)
    for name, text in {"lamp.txt": LAMP, "night.md": NIGHT}.items():
        (files / name).write_text(text, "utf-8")
    world.ingest([str(files / "lamp.txt")], kind="book", metadata={"year": 1901})
    world.ingest([str(files / "night.md")], tags=["dark"])
    world.add_text(ROPE, id="rope.txt", audience=["group:legal", "group:hr"], tags=["rope"])
    for name in ("ann", "cleo"):
        world.reader(name).set_position("lamp.txt", sentence=1)
    world.reader("ann").notes.add("A note about the lamp.", first=1)
    return Twin(lib, world, _create_tokens(lib))


def _share_key(lib: LibraryFixture) -> None:
    """Let both twins sign with the same key."""
    key = lib.folder.parent / "signing.key"
    if key.exists():
        shutil.copy2(key, lib.folder / key.name)
    else:
        lib.library.keys.create()
        shutil.copy2(lib.folder / key.name, key)


def _create_tokens(lib: LibraryFixture) -> dict[str, str]:
    rights: dict[str, dict[str, Any]] = {
        **{name: {"audience": labels} for name, labels in CALLERS.items()},
        "an application": {"impersonate": True},
    }
    found = {
        name: lib.library.tokens.create(name, worlds=["world"], verbs=["read", "follow"], **chosen)
        for name, chosen in rights.items()
    }
    found["the owner"] = lib.library.tokens.create("the owner", worlds=["world"])
    found["a reader"] = lib.library.tokens.create(
        "a reader", worlds=["world"], readers=["ann"], audience=["group:legal"]
    )
    return {name: secret.reveal() for name, (_, secret) in found.items()}


@contextmanager
def twins(folder: Path) -> Iterator[tuple[Twin, Twin]]:
    """Yield a library, and one in which hidden documents were added before all others."""
    plain, full = fill(folder / "plain"), fill(folder / "full", add_hidden)
    assert plain.world.id == full.world.id
    yield plain, full
    for twin in (plain, full):
        twin.lib.library.close()
