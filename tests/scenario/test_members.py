"""Documents inside files: identity, repeated embedding, pruning, uploads and jobs."""

import json
from collections.abc import Iterator, Mapping
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.interfaces.http_client import until
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library
from tests.unit.test_members import zip_of
from truespan.engine.world import World
from truespan.errors import Cancelled
from truespan.types.job import JobState
from truespan.types.metadata import read_metadata
from truespan.types.source import Upload

pytestmark = pytest.mark.needs_extension

FILES = {
    "guide.md": "# Guide\n\nThe lamp burns in the hut.",
    "notes/north.txt": "The ferry leaves at four.",
    "notes/south.txt": "The key hangs on hook seven.",
    "photo.jpg": "no document",
}


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    found = make_library(tmp_path)
    yield found
    found.library.close()


def put(lib: LibraryFixture, name: str, files: Mapping[str, str | bytes]) -> str:
    path = Path(lib.write(name, ""))
    path.write_bytes(zip_of(files))
    return str(path)


def shown(world: World) -> set[str]:
    return {document.shown_path for document in world.documents.list()}


@proves("ingest.members-are-documents")
def test_members_are_documents_and_only_changed_ones_are_embedded(lib: LibraryFixture) -> None:
    world = lib.world()
    path = put(lib, "team/docs.zip", FILES)
    report = world.ingest(path)

    assert (sorted(report.ingested), report.unsupported) == (
        ["guide.md", "north.txt", "south.txt"],
        1,
    )
    north = world.documents.get("docs.zip/notes/north.txt")
    assert (north.name, north.shown_path) == ("north.txt", "team/docs.zip/notes/north.txt")
    assert north.path == f"{path}/notes/north.txt"
    assert world.documents.get("guide.md").title == "Guide"
    found = world.search("when does the ferry leave", floor=0, top_k=1).passages[0]
    assert found.path == "team/docs.zip/notes/north.txt"

    calls = len(lib.embedder.documents)
    assert world.ingest(path).unchanged == 3
    # Other bytes of the archive, the same members, in another order.
    put(lib, "team/docs.zip", dict(reversed(FILES.items())) | {"more.jpg": "x"})
    assert world.ingest(path).unchanged == 3
    assert len(lib.embedder.documents) == calls
    put(lib, "team/docs.zip", FILES | {"notes/north.txt": "The ferry leaves at five."})
    report = world.ingest(path)
    assert (report.ingested, report.unchanged, report.embedded) == (["north.txt"], 2, 1)
    changed = world.documents.get("north.txt")
    assert (changed.number, changed.doc_id) == (north.number, north.doc_id)


@proves("ingest.members-are-documents")
def test_single_member_can_be_ingested_and_read_again(lib: LibraryFixture) -> None:
    world = lib.world()
    path = put(lib, "docs.zip", FILES)

    assert world.ingest(f"{path}/notes/north.txt").ingested == ["north.txt"]
    assert shown(world) == {"files/docs.zip/notes/north.txt"}
    missing = world.ingest(f"{path}/notes/west.txt")
    assert [(f.name, f.code) for f in missing.failures] == [("west.txt", "source_missing")]
    put(lib, "docs.zip", FILES | {"notes/north.txt": "The ferry leaves at six."})
    job = world.documents.reingest("north.txt")
    until(lambda: world.jobs.get(job.id).state.is_over)
    assert world.jobs.get(job.id).state is JobState.DONE
    assert "six" in world.documents.text("north.txt")
    inside = str(Path(path).parent)
    (lib.folder / "uploads").mkdir(exist_ok=True)
    assert world.ingest(path, within=[inside]).ingested == ["guide.md", "south.txt"]
    # To look at one member says nothing about the others.
    assert world.ingest(f"{path}/notes/north.txt", prune=True).removed == []
    with raises_code("source_outside"):
        world.ingest(f"{path}/guide.md", within=[str(lib.folder / "uploads")])
    with raises_code("source_missing"):
        world.ingest(f"{inside}/none.zip/guide.md")


@proves("ingest.members-are-documents")
def test_pruning_removes_documents_of_missing_members(lib: LibraryFixture) -> None:
    world = lib.world()
    path = put(lib, "team/docs.zip", FILES)
    folder = str(Path(path).parent)
    lib.write("team/other.txt", "Another text.")
    world.ingest(folder)
    less = {name: text for name, text in FILES.items() if "south" not in name}
    put(lib, "team/docs.zip", less)
    assert world.ingest(folder).removed == []

    plan = world.documents.plan(folder, prune=True)
    assert [document.name for document in plan.removed] == ["south.txt"]
    assert {(row.name, row.outcome.value) for row in plan.rows} == {
        ("guide.md", "unchanged"),
        ("north.txt", "unchanged"),
        ("other.txt", "unchanged"),
    }
    assert world.ingest(path, prune=True).removed == ["team/docs.zip/notes/south.txt"]
    # A file that cannot be opened says nothing about its members.
    Path(path).write_bytes(zip_of(less)[:-40])
    report = world.ingest(folder, prune=True)
    assert ([f.code for f in report.failures], report.removed) == (["source_broken"], [])
    # Nor does a search that leaves the archive out.
    assert world.ingest(f"{folder}/*.txt", prune=True).removed == []
    Path(path).unlink()
    assert sorted(world.ingest(folder, prune=True).removed) == [
        "team/docs.zip/guide.md",
        "team/docs.zip/notes/north.txt",
    ]
    assert shown(world) == {"team/other.txt"}


@proves("document.sidecar", "ingest.members-are-documents")
def test_declarations_of_an_archive_apply_to_its_members(lib: LibraryFixture) -> None:
    world = lib.world()
    put(lib, "docs.zip", {"a.txt": "The lamp.", "b.txt": "The ferry.", "a.txt.meta.toml": "x"})
    lib.write("docs.zip.meta.toml", 'tags = ["old"]\n[metadata]\nteam = "it"')
    line = {"path": "docs.zip", "doc_id": "docs", "metadata": {"year": 2026}}
    manifest = lib.write("list.jsonl", json.dumps(line))
    world.ingest(manifest=manifest)

    for document in world.documents.list():
        assert (document.tags, read_metadata(document.metadata)) == (
            ("old",),
            {"team": "it", "year": 2026},
        )
        assert document.origin == manifest
    (Path(manifest).parent / "moved").mkdir()
    moved = Path(manifest).parent / "moved"
    for name in ("docs.zip", "list.jsonl"):
        (Path(manifest).parent / name).rename(moved / name)
    # The id of the line, not where the file is, identifies the members.
    assert world.ingest(manifest=moved / "list.jsonl").unchanged == 2
    lib.write("moved/docs.zip.meta.toml", "titel = 1")
    failures = world.ingest(manifest=moved / "list.jsonl").failures
    assert [failure.code for failure in failures] == ["sidecar_invalid"]


@proves("ingest.members-are-documents")
def test_uploaded_archive_is_read_and_removed(lib: LibraryFixture) -> None:
    world = lib.world()
    upload = Upload("docs.zip", zip_of(FILES))
    assert len(world.ingest([upload]).ingested) == 3
    assert shown(world) == {
        "docs.zip/guide.md",
        "docs.zip/notes/north.txt",
        "docs.zip/notes/south.txt",
    }
    assert world.ingest([upload]).unchanged == 3

    # A cancelled job leaves nothing of what it had staged, nor the file.
    def cancel() -> None:
        assert any(document.staged for document in world.documents.list())
        raise Cancelled

    lib.embedder.before = cancel
    with pytest.raises(Cancelled):
        world.ingest([Upload("docs.zip", zip_of(FILES | {"guide.md": "Changed."}))])
    lib.embedder.before = None
    assert not any(document.staged for document in world.documents.list())
    assert not [path for path in (lib.folder / "uploads").rglob("*") if path.is_file()]


@proves("ingest.records-are-documents")
def test_records_are_documents_and_only_changed_ones_are_embedded(lib: LibraryFixture) -> None:
    world = lib.world()
    rows = {
        f"T-{number}": f"Lamp {number},Lamp {number} burns on the quay.,https://d.example/{number}"
        for number in range(20)
    }

    def write(more: str = "") -> None:
        lines = [f"{key},{row}" for key, row in rows.items()]
        lib.write("desk/tickets.csv", "\n".join(["ticket,subject,body,link", *lines, more]))

    write("T-bad,Bad,Text.,not a link")
    lib.write("desk/plain.csv", "a,b\n1,2\n")
    line = {
        "path": "tickets.csv",
        "tags": ["desk"],
        "fields": {
            "text": "body", "title": "subject", "source_url": "link", "id": "ticket",
            "metadata": ["subject"],
        },
    }  # fmt: skip
    manifest = lib.write("desk/list.jsonl", json.dumps(line))
    report = world.ingest(manifest=manifest)
    assert (len(report.ingested), [(f.name, f.code) for f in report.failures]) == (
        20,
        [("T-bad", "record_invalid")],
    )
    assert "In line 22 the source_url" in report.failures[0].message
    seven = world.documents.get("tickets.csv/T-7")
    assert (seven.title, seven.source_url, seven.tags) == (
        "Lamp 7",
        "https://d.example/7",
        ("desk",),
    )
    assert read_metadata(seven.metadata) == {"subject": "Lamp 7"}
    assert seven.shown_path == "desk/tickets.csv/T-7"
    assert sum(document.doc_id == seven.doc_id for document in world.documents.list()) == 1

    # One record changed, one gone, one new at the top.
    rows["T-7"] = "Lamp 7,It was sold.,https://d.example/7"
    del rows["T-8"]
    rows = {"T-new": "New,A new lamp.,"} | rows
    write()
    report = world.ingest(manifest=manifest, prune=True)
    assert (sorted(report.ingested), report.unchanged, report.embedded) == (["T-7", "T-new"], 18, 2)
    assert report.removed == ["desk/tickets.csv/T-8"]
    assert world.documents.get("T-7").number == seven.number

    # A sidecar says the same to a folder; without one, the file is a single document.
    fields = 'fields = {text = "body", title = "subject", id = "ticket"}\n'
    sidecar = Path(lib.write("desk/tickets.csv.meta.toml", fields))
    Path(manifest).unlink()
    report = world.ingest(str(Path(manifest).parent), prune=True)
    assert (report.ingested, report.unchanged, report.removed) == (["plain.csv"], 20, [])
    sidecar.unlink()
    report = world.ingest(str(Path(manifest).parent), prune=True)
    assert (report.ingested, len(report.removed)) == (["tickets.csv"], 20)
    assert shown(world) == {"desk/plain.csv", "desk/tickets.csv"}
    report = world.ingest(table := str(sidecar.parent / "tickets.csv"), fields={"text": "x"})
    assert [(f.code, "ticket, subject" in f.message) for f in report.failures] == [
        ("fields_invalid", True)
    ]
    report = world.ingest(table, fields={"text": "body", "id": "ticket"}, prune=True)
    assert report.removed == ["desk/tickets.csv"]
    # Fields that a call declares are not remembered.
    report = world.ingest(f"{table}/T-7")
    assert [(f.name, f.code) for f in report.failures] == [("T-7", "source_missing")]


@proves("ingest.records-are-documents")
def test_records_without_an_id_have_their_line_as_place(lib: LibraryFixture) -> None:
    world = lib.world()
    rows = ["The lamp of the quay is out.", '"The ferry rings\n\nno bell."', "The buoy is adrift."]

    def write() -> str:
        return lib.write("desk/tickets.csv", "\n".join(["body", *rows]))

    def places() -> dict[str, str | None]:
        found = world.search("lamp ferry buoy bell", top_k=9).passages
        return {result.text.split()[1]: result.location for result in found}

    world.ingest(table := write(), fields={"text": "body"})
    assert places() == {"lamp": "line 2", "ferry": "line 3", "buoy": "line 6"}

    # Records that have moved are read again, and nothing is embedded.
    rows.insert(0, "The bell is cracked.")
    report = world.ingest(write(), fields={"text": "body"}, prune=True)
    assert (len(report.ingested), report.embedded, report.removed) == (4, 1, [])
    assert places() == {"bell": "line 2", "lamp": "line 3", "ferry": "line 4", "buoy": "line 7"}

    lines = ['{"body": "The lamp is lit."}', "", '{"body": "The buoy is red."}']
    world.ingest(lib.write("desk/lamps.jsonl", "\n".join(lines)), fields={"text": "body"})
    world.ingest(table, fields={"text": "body"}, prune=True)
    found = world.search("buoy red", top_k=1).passages[0]
    assert (found.text, found.location) == ("The buoy is red.", "line 3")


@proves("ingest.members-are-documents")
def test_messages_and_attachments_are_documents_with_headers(lib: LibraryFixture):
    world = lib.world()
    message = EmailMessage()
    message["From"], message["Subject"] = "Ida Quill <ida@quay.example>", "The ferry"
    message["Date"], message["Message-ID"] = "Mon, 16 Nov 2026 09:30:00 +0100", "<1@x.example>"
    message.set_content("The ferry leaves at four.")
    message.add_attachment("The key hangs on hook seven.", filename="keys.txt")
    second = b"Subject: The bell\nDate: Tue, 17 Nov 2026 09:00:00 +0100\n\nThe bell was mended.\n"
    separator = b"From ida@quay.example Mon Nov 16 09:30:00 2026\n"
    single, box = Path(lib.write("mail/a.eml", "")), Path(lib.write("mail/b.mbox", ""))
    single.write_bytes(bytes(message))
    box.write_bytes(separator + bytes(message) + b"\n" + separator + second)

    report = world.ingest(str(single.parent))

    assert (len(report.ingested), len(report.failures)) == (5, 0)
    assert "mail/a.eml/keys.txt" in shown(world)
    assert "mail/b.mbox/1@x.example/keys.txt" in shown(world)
    parent = world.documents.get("mail/a.eml")
    assert parent.title == "The ferry"
    attached = world.documents.metadata("mail/a.eml/keys.txt")
    assert (attached["parent"], attached["message"]) == (parent.doc_id, "1@x.example")
    assert world.documents.metadata("mail/a.eml")["from"] == "ida@quay.example"
    later = world.search("what was mended", floor=0, metadata={"date": {"gte": "2026-11-17"}})
    assert {found.title for found in later.passages} == {"The bell"}
    # Another message in the mailbox: those before it stay as they are.
    box.write_bytes(box.read_bytes() + b"\n" + separator + b"Subject: New\n\nNew words.\n")
    report = world.ingest(str(single.parent))
    assert (len(report.ingested), report.unchanged) == (1, 5)
