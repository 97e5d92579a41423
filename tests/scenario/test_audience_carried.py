"""Audiences of documents in backups, copies of a store, generations, and parts of files."""

import json
import re
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

import truespan
from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.audience_replies import replies
from tests.support.audience_twins import CALLERS, LAMP, NIGHT, PAY, ROPE
from tests.support.backups import home, opened, retire
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library, other_profile
from tests.unit.test_members import zip_of
from truespan.engine.world import World
from truespan.extensions.cluster.copy import copy_rows, rows_of
from truespan.testing import WordEmbedder

LABELS = {
    "lamp.txt": ("everyone",),
    "night.md": ("group:a", "group:b"),
    "rope.txt": ("group:legal",),
    "pay.txt": (),
}


ASKING = in_test_or_prove(("no label", "two labels"), tuple(CALLERS))
"""Callers who are asked everything: one who sees a document, and one who sees another too."""


def fill(world: World) -> None:
    for name, text in zip(LABELS, (LAMP, NIGHT, ROPE, PAY), strict=True):
        world.add_text(text, id=name, audience=LABELS[name])
    world.reader("ann").set_position("rope.txt", sentence=0)


def labels_in(world: World) -> dict[str, tuple[str, ...]]:
    return {document.name: document.audience for document in world.documents.list()}


def views(world: World) -> list[list[str]]:
    """Return all replies to callers with labels, without times and counts of vectors."""
    passing = r'"(processing_time_ms|vectors|word_states)": \d+'
    return [
        [re.sub(passing, "", reply) for reply in replies(world.for_audience(CALLERS[name]))]
        for name in ASKING
    ]


@proves("audience.carried")
@pytest.mark.parametrize("vectors", [True, False])
def test_restored_library_has_the_same_audiences(tmp_path: Path, vectors: bool) -> None:
    source = home(tmp_path / "library")
    with opened(source, create=True) as library:
        world = library.create_world("world")
        fill(world)
        before = views(world)
        library.backup(tmp_path / "backup", vectors=vectors)
    again = home(tmp_path / "again")
    truespan.restore(tmp_path / "backup", again)

    with opened(again) as library:
        world = library.world("world")
        if not vectors:
            world.repair()
        assert labels_in(world) == LABELS
        assert views(world) == before
    for folder in (source, again):
        retire(folder)


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    others = {"wide": WordEmbedder(other_profile(model="wide"))}
    made = make_library(tmp_path, others=others)
    yield made
    made.library.close()


@proves("audience.carried")
def test_copy_in_postgresql_and_back_has_the_same_audiences(tmp_path: Path) -> None:
    lib = make_library(tmp_path / "one", store="sqlite")
    world = lib.library.create_world("world")
    fill(world)
    before = views(world)
    server, back = (
        make_library(tmp_path / kind, store=kind, index=lib.index)
        for kind in ("postgres", "sqlite")
    )
    copy_rows(rows_of(lib.store), rows_of(server.store))
    copy_rows(rows_of(server.store), rows_of(back.store))

    for copy in (server, back):
        world = copy.library.world("world")
        world.repair()
        assert labels_in(world) == LABELS
        assert views(world) == before


@proves("audience.carried")
def test_new_generation_has_the_same_audiences(world: World) -> None:
    fill(world)
    before = [sorted(document.name for document in world.for_audience(labels).documents.list())
              for labels in CALLERS.values()]  # fmt: skip
    world.generations.promote(world.generations.reindex(model="wide").generation)

    assert labels_in(world) == LABELS
    for labels, names in zip(CALLERS.values(), before, strict=True):
        caller = world.for_audience(labels)
        assert sorted(document.name for document in caller.documents.list()) == names
        found = {passage.source for passage in caller.search("the lamp", floor=0.0).passages}
        assert found == set(names)


@proves("audience.carried", "audience.declared")
def test_parts_of_a_file_have_its_audience(lib: LibraryFixture, world: World) -> None:
    archive = Path(lib.write("docs.zip", ""))
    archive.write_bytes(zip_of({"a/one.txt": LAMP, "two.md": NIGHT}))
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "Ropes", "a@example.org", "b@example.org"
    mail.set_content(ROPE)
    mail.add_attachment(PAY.encode(), maintype="text", subtype="plain", filename="pay.txt")
    message = Path(lib.write("ropes.eml", ""))
    message.write_bytes(mail.as_bytes())
    rows = [
        {"id": "1", "text": "The first lamp."},
        {"id": "2", "text": "A lamp.", "who": "group:x"},
    ]
    table = lib.write("rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    fields = {"text": "text", "id": "id", "audience": "who"}

    world.ingest([str(archive), str(message)], audience=["group:hr"])
    world.ingest(table, fields=fields, audience=["group:hr"])

    found = labels_in(world)
    assert found.pop("2") == ("group:x",)
    assert set(found.values()) == {("group:hr",)}
    assert {"one.txt", "two.md", "pay.txt", "1"} < set(found)
    assert world.for_audience(["group:legal"]).documents.list() == []


@proves("audience.carried", "audience.enforced")
def test_document_with_damaged_audience_is_for_the_owner_alone(lib: LibraryFixture, world: World):
    fill(world)
    for name, text in (("night.md", "everyone"), ("rope.txt", "group:none"), ("lamp.txt", "")):
        lib.sql("UPDATE revisions SET audience = ? WHERE name = ?", text, name)
    world.add_text("Nothing.", id="new.txt", audience=[])

    for labels in (*CALLERS.values(), ("group:a", "group:legal", "group:none", "everyone")):
        caller = world.for_audience(labels)
        assert caller.documents.list() == []
        assert caller.search("the lamp", floor=0.0).passages == ()
        for name in LABELS:
            with raises_code("document_not_found"):
                caller.documents.text(name)
    assert {document.name for document in world.documents.list()} == {*LABELS, "new.txt"}
