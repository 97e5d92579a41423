"""Documents outside the audience of a caller change no byte of what that caller gets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.audience_replies import MADE_UP, replies, replies_about
from tests.support.failures import raises_code
from tests.support.reading_worlds import Stopped, stopped_at
from tests.support.sample_texts import story
from tests.support.worlds import LibraryFixture, MemoryIndex, make_library
from truespan.engine.world import World
from truespan.ingest.draft import Preparation
from truespan.retrieval import fused
from truespan.types.audience import AudienceRule
from truespan.types.document import RevisionRef
from truespan.types.ids import FIRST_UNCOUNTED
from truespan.types.job import DoctorJob, IngestJob, ReindexJob, RepairJob
from truespan.types.profile import Calibration
from truespan.types.scope import OWNER, Scope
from truespan.types.source import Upload
from truespan.types.trust import Hit
from truespan.types.vectors import Vector

LAMP = "The lamp burned in the harbour. Ann lit the lamp. It was the night of the ships."
NIGHT = "# Night\n\nThe harbour was dark at night.\n\n## Ships\n\nNo ship had a lamp."
ROPE = "Ropes of the lawyers lay near the lamp. The lawyers sailed at night."
PAY = "The payroll of the zebra. The lamp of the payroll burned in the harbor. Lampp and lamb."
OUTSIDERS = ((), ("group:none",))
"""Labels of callers who see the documents for everyone."""
LAWYERS = (("group:legal",), ("group:legal", "user:ann@example.org"))
"""Labels of callers who see one document more."""
CALLERS = (*OUTSIDERS, *LAWYERS)

Change: TypeAlias = Callable[[LibraryFixture, World], object]


@pytest.fixture(autouse=True, scope="module")
def small_pool() -> Iterator[None]:
    """Reduce the candidates of a fused search, so that their limit matters in small worlds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "POOL", 6)
        yield


class LeakyIndex(MemoryIndex):
    """An index that, once it `leaks`, returns hits of all documents of the world."""

    leaks = False

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        wanted = scope.for_everyone() if self.leaks else scope
        return super().search(wanted, vector, limit=limit, floor=floor)


def fill(folder: Path, index: MemoryIndex | None = None) -> tuple[LibraryFixture, World]:
    lib = make_library(folder, index=index)
    lib.library.keys.create()
    world = lib.library.create_world("world")
    world.ingest([lib.write("lamp.txt", LAMP), lib.write("night.md", NIGHT)])
    world.add_text(PAY, id="pay.txt", audience=["group:hr"], metadata={"salary": 3}, kind="book")
    world.add_text(ROPE, id="rope.txt", audience=["group:legal", "group:hr"], tags=["rope"])
    world.reader("ann").set_position("lamp.txt", sentence=1)
    world.reader("ben").set_position("pay.txt", sentence=1)
    return lib, world


def choose_callers(number: int) -> list[tuple[str, ...]]:
    """Return an outsider and a lawyer, others for the next number; all callers in `make prove`."""
    chosen = [OUTSIDERS[number % 2], LAWYERS[number // 2 % 2]]
    return in_test_or_prove(chosen, [*chosen, *(one for one in CALLERS if one not in chosen)])


def _add(lib: LibraryFixture, world: World) -> None:
    world.add_text(story(30), id="story.txt", audience=["group:hr"], metadata={"zoo": 1})
    world.add_text(LAMP, id="same.txt", audience=["user:eve"], kind="book")
    world.add_text("A record.", id="owner.txt", audience=[])
    world.reader("eve").set_position("same.txt", sentence=1)


def _replace(lib: LibraryFixture, world: World) -> None:
    world.add_text(f"{PAY} {story(12, 'lamp')}", id="pay.txt")


def _move(lib: LibraryFixture, world: World) -> None:
    world.documents.update("pay.txt", audience=["user:eve", "group:board"], tags=["lamp"])


def _change_world(world: World) -> None:
    """Invalidate everything cached for a state of the world."""
    world.add_text("Nothing about light.", id="other.txt", audience=["group:hr"])


def _damage_labels(lib: LibraryFixture, world: World) -> None:
    # As if somebody without the keys tried to show the document to everyone.
    lib.sql("UPDATE revisions SET audience = 'everyone' WHERE name = 'pay.txt'")
    _change_world(world)


def _damage_title(lib: LibraryFixture, world: World) -> None:
    lib.sql("UPDATE revisions SET title = 'The lamp' WHERE name = 'pay.txt'")
    _change_world(world)


def _damage_text(lib: LibraryFixture, world: World) -> None:
    lib.sql(
        """UPDATE states SET text_hash = 'x' WHERE revision IN
             (SELECT key FROM revisions WHERE name = 'pay.txt')"""
    )


def _damage_position(lib: LibraryFixture, world: World) -> None:
    lib.sql("UPDATE positions SET sid = 0 WHERE document IN (SELECT key FROM documents d"
            " WHERE d.doc_id LIKE '%pay.txt')")  # fmt: skip


def _delete(lib: LibraryFixture, world: World) -> None:
    world.documents.delete("pay.txt")


def _stop_ingesting(lib: LibraryFixture, world: World) -> None:
    for step in (2, 3, 4, 5, 6):
        stopped = stopped_at(lib, step).world("world")
        with suppress(Stopped):
            stopped.add_text(story(20, "lamp"), id=f"new {step}.txt", audience=["group:hr"])


def _calibrate(lib: LibraryFixture, world: World) -> None:
    # By the owner, over all documents.
    measured = Calibration(0.1, 0.2, 0.3, 0.2, 0.3, 0.4, 0.1, "all documents")
    lib.store.records.keep_calibration(lib.scope(world), measured)


CHANGES: dict[str, Change] = {
    "calibrate": _calibrate,
    "add": _add,
    "replace": _replace,
    "move": _move,
    "labels": _damage_labels,
    "title": _damage_title,
    "text": _damage_text,
    "position": _damage_position,
    "delete": _delete,
    "stop": _stop_ingesting,
}


@proves("audience.non-interference", "audience.enforced", "proof.non-interference")
@pytest.mark.parametrize("change", CHANGES)
def test_hidden_documents_change_no_reply(tmp_path: Path, change: str) -> None:
    lib, world = fill(tmp_path)
    hidden = tuple(str(chunk.chunk_id) for chunk in world.documents.chunks("pay.txt").chunks)
    chosen = choose_callers([*CHANGES].index(change))
    callers = [world.for_audience(labels) for labels in chosen]
    before = [replies(caller, hidden) for caller in callers]

    CHANGES[change](lib, world)
    after = [replies(caller, hidden) for caller in callers]

    for labels, first, second in zip(chosen, before, after, strict=True):
        differing = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
        assert differing == [], labels
    shown = "\n".join(before[0])
    assert "lamp.txt" in shown
    for secret in ("payroll of", "Ropes", 'salary"', "group:"):
        assert secret not in shown.replace("salary'", "")
    assert "Ropes" in "\n".join(before[1])
    assert "group:hr" not in "\n".join(before[1])


@proves("audience.non-interference", "audience.enforced")
def test_index_that_returns_hidden_chunks_changes_no_reply(tmp_path: Path) -> None:
    index = LeakyIndex()
    lib, world = fill(tmp_path, index)
    _add(lib, world)
    callers = [world.for_audience(labels) for labels in choose_callers(0)]
    before = [replies(caller) for caller in callers]
    index.leaks = True
    _damage_text(lib, world)

    assert [replies(caller) for caller in callers] == before


@proves("audience.enforced")
def test_store_statements_check_the_audience_again(tmp_path: Path) -> None:
    lib, world = fill(tmp_path)
    store, whole = lib.store, lib.scope(world)
    number = world.documents.get("pay.txt").number
    chunk = world.documents.chunks("pay.txt").chunks[0].chunk_id
    ref = RevisionRef(number, 1)
    # A scope that names a document of another audience, as no caller gets it.
    legal = OWNER.for_audience(["group:legal"])
    scope = Scope(legal, whole.world, whole.generation, documents=frozenset([number]))

    def read(scope: Scope) -> list[bool]:
        return [
            bool(store.documents.all(scope)),
            bool(store.chunks.read(scope, [chunk])),
            bool(store.documents.sentences_across(scope, number, 0, 9) != (-1, -1)),
            bool(store.readers.in_force(scope, number)),
            bool(store.readers.positions(scope, "ben")),
            bool(store.readers.position_at(scope, "ben", number, 0)),
            bool(store.readers.sentences(scope, ref, 0, 1)),
            bool(store.readers.text_between(scope, ref, 0, 9)),
            bool(store.readers.all(scope)),
        ]

    assert read(scope) == [False] * 9
    assert read(whole) == [True] * 9
    with raises_code("document_not_found"):
        store.documents.canonical_text(scope, number)
    with pytest.raises(ValueError, match="must list"):
        Scope(legal, whole.world, whole.generation)


@proves("audience.enforced")
def test_hidden_document_looks_like_a_missing_one(tmp_path: Path) -> None:
    _, world = fill(tmp_path)
    number = world.documents.get("pay.txt").number
    chunk = str(world.documents.chunks("pay.txt").chunks[0].chunk_id)
    pairs = [("pay.txt", "nothing.txt"), (chunk, MADE_UP), (str(number), "997")]
    for labels in CALLERS:
        caller = world.for_audience(labels)
        for hidden, absent in pairs:
            given = replies_about(caller, hidden)
            expected = [reply.replace(absent, hidden) for reply in replies_about(caller, absent)]
            assert given == expected, (labels, hidden)
    assert replies_about(world, "pay.txt") != replies_about(world, "nothing.txt")


@proves("audience.enforced")
def test_requests_of_a_limited_caller_change_nothing(tmp_path: Path) -> None:
    lib, world = fill(tmp_path)
    caller, done = world.for_audience(["group:hr"]), world.jobs.list()[0].id
    for write in (
        lambda: caller.add_text("A new text.", id="pay.txt"),
        lambda: caller.documents.update("pay.txt", tags=["x"]),
        lambda: caller.documents.delete("pay.txt"),
        lambda: caller.repair(),
        lambda: caller.jobs.list(),
        lambda: caller.jobs.get(done),
        lambda: caller.jobs.lines(done),
        lambda: caller.jobs.documents(done),
        lambda: caller.jobs.cancel(done),
        lambda: caller.jobs.resume(done),
        lambda: caller.jobs.submit(world.jobs.get(done)),
        lambda: caller.jobs.submit(IngestJob([Upload("pay.txt", b"A new text.")])),
        lambda: caller.jobs.submit(ReindexJob()),
        lambda: caller.jobs.submit(RepairJob()),
        lambda: caller.jobs.submit(DoctorJob(apply=True)),
        lambda: caller.usage(),
        lambda: caller.generations.list(),
        lambda: lib.library.under(caller.access.authority).doctor(),
        lambda: lib.library.under(caller.access.authority).server.metrics(),
        lambda: lib.library.under(caller.access.authority).backup(tmp_path / "backup"),
        lambda: lib.library.under(caller.access.authority).create_world("other"),
        lambda: caller.set_defaults("contract"),
        lambda: caller.generations.reindex(),
        lambda: caller.evaluation.forget_calibration(),
    ):
        with raises_code("world_not_found", "not_allowed"):
            write()
    assert caller.documents.text("pay.txt") == world.documents.text("pay.txt")


@proves("audience.conversations")
def test_turns_that_used_a_hidden_document_are_hidden(tmp_path: Path) -> None:
    _, world = fill(tmp_path)
    legal, other = world.for_audience(["group:legal"]), world.for_audience(["group:hr"])
    talk = legal.conversation()
    talk.ask("who lit the lamp?", documents=["lamp.txt"])
    for question in ("where lay the ropes of the lawyers?", "and at night?"):
        talk.ask(question)
    assert len(legal.conversation(talk.id).turns()) == 3
    assert [info.id for info in legal.conversations()] == [talk.id]
    assert other.conversations() == []
    with raises_code("conversation_not_found"):
        other.conversation(talk.id)

    world.documents.update("rope.txt", audience=["group:hr"])

    shown = legal.conversation(talk.id).turns()
    assert len(shown) == 1
    assert "Ropes" not in "".join(turn.answer for turn in shown)
    assert [info.turns for info in legal.conversations()] == [len(shown)]
    assert len(world.conversation(talk.id).turns()) == 3
    world.documents.update("lamp.txt", audience=[])
    assert legal.conversations() == []
    with raises_code("conversation_not_found"):
        legal.conversation(talk.id)


@proves("audience.declared")
def test_audience_is_declared_inherited_and_kept(tmp_path: Path) -> None:
    rules = (
        AudienceRule(("group:hr",), "hr/**"),
        AudienceRule(("group:ops",), "*.log", world="other"),
        AudienceRule((), "secret?.txt"),
    )
    lib = make_library(tmp_path, preparation=Preparation(audiences=rules))
    world = lib.library.create_world("world")
    lines = [{"path": "listed.txt", "audience": ["group:legal"]}, {"path": "plain.txt"}]
    for name in ("listed", "plain"):
        lib.write(f"m/{name}.txt", f"The {name} lamp.")
    manifest = lib.write("m/list.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    world.ingest(manifest=manifest)
    lib.write("f/hr/deep/pay.txt", "The payroll.")
    lib.write("f/secret1.txt", "Nobody reads the lamp.")
    lib.write("f/a.log.txt", "A log of the lamp.")
    lib.write("f/side.txt", "The side lamp.")
    lib.write("f/side.txt.meta.toml", 'audience = ["user:ana@example.org"]')
    world.ingest(str(tmp_path / "files" / "f"))
    rows = [
        {"id": "1", "text": "The first lamp.", "who": "group:a, group:b"},
        {"id": "2", "text": "The second lamp.", "who": ""},
    ]
    records = lib.write("rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    fields = {"text": "text", "id": "id", "audience": "who"}
    world.ingest(records, fields=fields, audience=["group:rows"])

    expected = {
        "listed.txt": ("group:legal",),
        "plain.txt": ("everyone",),
        "pay.txt": ("group:hr",),
        "secret1.txt": (),
        "a.log.txt": ("everyone",),
        "side.txt": ("user:ana@example.org",),
        "1": ("group:a", "group:b"),
        "2": ("group:rows",),
    }
    assert {found.name: found.audience for found in world.documents.list()} == expected
    world.documents.update("plain.txt", audience=["group:new"])
    world.ingest(manifest=manifest)
    lib.write("m/plain.txt", "The plain lamp has another text.")
    world.ingest(manifest=manifest)
    assert world.documents.get("plain.txt").audience == ("group:new",)
    seen = world.documents.audit_access(["group:a"])
    assert {entry.name: entry.by for entry in seen} == {
        "1": ("group:a",),
        "a.log.txt": ("everyone",),
    }
    demanding = make_library(
        tmp_path / "other", preparation=Preparation(audiences=rules, require_audience=True)
    )
    strict = demanding.library.create_world("world")
    report = strict.ingest(
        [demanding.write("x.txt", "A lamp."), demanding.write("secret2.txt", "B")]
    )
    assert [failure.code for failure in report.failures] == ["audience_missing"]
    assert strict.add_text("A lamp.", id="y.txt", audience=["group:a"]).failures == []


@proves("audience.enforced")
def test_owner_learns_that_a_chunk_is_outside_an_audience(tmp_path: Path) -> None:
    _, world = fill(tmp_path)
    chunk = str(world.documents.chunks("pay.txt").chunks[0].chunk_id)
    codes = {
        labels: world.why_not(chunk, "zebra payroll", audience=labels).code
        for labels in (("group:legal",), ("group:hr",))
    }
    assert codes == {("group:legal",): "outside_audience", ("group:hr",): "returned"}
    limited = world.for_audience(["group:legal"])
    assert limited.why_not(chunk, "zebra payroll", audience=["group:hr"]).code == "absent"


@proves("audience.non-interference")
def test_document_numbers_do_not_count_hidden_documents(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    for step in range(3):
        world.add_text(f"{PAY} {step}", id=f"pay {step}.txt", audience=["group:hr"])
        world.add_text(f"{LAMP} {step}", id=f"lamp {step}.txt")
    world.documents.delete("pay 0.txt")
    world.add_text(PAY, id="pay 0.txt", audience=["group:hr"])

    for labels in CALLERS:
        listed = world.for_audience(labels).documents.list()
        assert [document.number for document in listed] == [1, 2, 3]
    numbers = {document.number for document in world.documents.list()}
    assert len(numbers) == 6
    assert min(numbers - {1, 2, 3}) >= FIRST_UNCOUNTED
