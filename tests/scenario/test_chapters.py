"""Chunks across chapters and sections: found by each of them, shown as far as they are inside."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.promises import proves
from tests.support.worlds import LibraryFixture, MemoryIndex, WordCounter, make_library
from truespan.engine.world import World
from truespan.maintenance.doctor.examine import compare_chunk, point_digest
from truespan.maintenance.doctor.plan import Finding
from truespan.types.bundle import BundleStatus, RetrievedChunk
from truespan.types.ids import hash_text
from truespan.types.vectors import NO_VECTOR, numbers_of

CHAPTERS = {
    "Holidays": "The lamp rule gives thirty days. Ask the office first.",
    "Expenses": "The lamp rule pays for trains. Keep every ticket.",
    "Straße": "The lamp rule forbids parking here.",
    "Cafe\u0301": "The lamp rule closes the bar at nine. Wash the cups.",
    "Keys": "The lamp rule wants a signature. Return the keys.",
    "Leaving": "The lamp rule takes three months.",
}
HANDBOOK = "# Handbook\n\n" + "\n\n".join(f"## {name}\n\n{text}" for name, text in CHAPTERS.items())
ANY: dict[str, Any] = {"language": None, "version": None}


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.split()))


def shown(bundle: Any) -> list[str]:
    return [composed(chunk.content) for chunk in bundle.retrieved_chunks]


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path_factory.mktemp("handbook"))
    made.library.create_world("world").ingest(made.write("handbook.md", HANDBOOK))
    yield made
    made.library.close()


@pytest.fixture(scope="module")
def world(lib: LibraryFixture) -> World:
    return lib.library.world("world")


@proves("request.inside-the-chapter", "request.chapter-filter", "request.section-filter")
def test_every_chapter_of_one_chunk_shows_its_own_text(lib: LibraryFixture, world: World) -> None:
    assert len(lib.points(world)) == 1
    options: list[dict[str, Any]] = [
        {}, {"neighbours": 10}, {"granularity": "sentence", "top_k": 20}, {"mode": "hybrid"},
        {"mode": "keyword"},
    ]  # fmt: skip
    wrong = []
    for name, text in CHAPTERS.items():
        whole = composed(f"{name} {text}")
        for spelled in (name, name.upper(), unicodedata.normalize("NFC", name)):
            both: list[dict[str, Any]] = [{"chapter": spelled}, {"section": spelled}]
            for filters in both:
                for settings in options:
                    bundle = world.retrieve("the lamp rule", **ANY, **filters, **settings)
                    if "granularity" in settings:
                        right = all(part in whole for part in shown(bundle))
                        right = right and bool(shown(bundle))
                    else:
                        right = shown(bundle) == [whole]
                    named = {chunk.chapter for chunk in bundle.retrieved_chunks} == {name}
                    if not (right and named and bundle.metadata.funnel.in_scope == 1):
                        wrong.append((filters, settings, shown(bundle)))
                    if not settings and bundle.status is not BundleStatus.SUCCESS:
                        wrong.append((filters, bundle.status))
                found = world.search("the lamp rule", **filters).passages
                if [composed(part.text) for part in found] != [whole]:
                    wrong.append((filters, found))
                answer = world.answer("the lamp rule", **filters)
                if any(other in composed(answer.answer) for other in CHAPTERS if other != name):
                    wrong.append((filters, answer.answer))
    assert wrong == []


@proves("request.inside-the-chapter")
def test_displayed_part_has_its_own_hash_tokens_sentences_and_place(world: World) -> None:
    [chunk] = world.retrieve("the lamp rule", **ANY).retrieved_chunks
    part = world.retrieve("the lamp rule", **ANY, chapter="keys")
    [own], [note] = part.retrieved_chunks, part.metadata.sources

    assert (chunk.chapter, own.chapter, own.section) == ("Handbook", "Keys", "Keys")
    assert own.content == "Keys\n\n" + CHAPTERS["Keys"]
    assert own.chunk_id == chunk.chunk_id
    assert own.token_count == part.total_tokens == WordCounter().count(own.content)
    assert note.text_hash == hash_text(own.content)
    assert part.context == own.content
    [passage] = world.search("the lamp rule", chapter="keys").passages
    text = world.documents.text("handbook.md")
    assert text[passage.start : passage.end] == passage.text == own.content
    assert (passage.chapter, passage.receipt.text_hash) == ("Keys", note.text_hash)
    sentences = world.documents.sentences("handbook.md").sentences
    assert [item.sid for item in sentences if item.chapter == "Keys"] == list(
        range(note.first_sid, note.last_sid + 1)
    )


@proves("request.inside-the-chapter")
def test_separated_parts_of_one_section_are_shown_apart(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    text = "".join(
        f"## {name}\n\n### Rules\n\nThe lamp of {name}.\n\n### Notes\n\nNotes on the {name}.\n\n"
        for name in ("north", "south")
    )
    world.ingest(lib.write("lamps.md", text))

    rules = world.retrieve("the lamp", **ANY, section="rules")
    both = world.retrieve("the lamp", **ANY, section="rules", chapter="south")
    answer = world.answer("the lamp of south", section="rules")
    neither = world.retrieve("the lamp", **ANY, section="rules", chapter="rules")

    assert len(lib.points(world)) == 1
    assert shown(rules) == ["Rules The lamp of north.", "Rules The lamp of south."]
    assert shown(both) == ["Rules The lamp of south."]
    assert "lamp of south" in answer.answer
    assert "Notes" not in answer.answer
    assert neither.status is BundleStatus.NO_MATCHES


@proves("request.inside-the-chapter")
def test_chunks_that_begin_or_end_within_a_sentence_are_cut_at_the_chapter(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    long = "The lamp was lit and then " + "it burned and " * 62 + "it went out."
    names = [f"Part {number}" for number in range(9)]
    text = "".join(f"## {name}\n\n{long} This ends {name}.\n\n" for name in names)
    world.ingest(lib.write("lamps.md", text))
    sentences = world.documents.sentences("lamps.md").sentences

    parts: list[RetrievedChunk] = []
    for name in names:
        own = [item for item in sentences if item.chapter == name]
        bundle = world.retrieve("it burned and", **ANY, chapter=name, top_k=20)
        inside = " ".join(composed(item.text) for item in own)
        assert bundle.status is BundleStatus.SUCCESS
        parts += bundle.retrieved_chunks
        for chunk, note in zip(bundle.retrieved_chunks, bundle.metadata.sources, strict=True):
            assert composed(chunk.content) in inside
            assert chunk.chapter == name
            assert own[0].sid <= note.first_sid <= note.last_sid <= own[-1].sid
            assert note.text_hash == hash_text(chunk.content)
            assert chunk.token_count == WordCounter().count(chunk.content)
    # Some begin or end within a sentence, and some chapters are shown in several parts.
    assert len(parts) > len(names)
    assert any(not part.content.startswith("Part") for part in parts)
    assert any(not part.content.endswith(".") for part in parts)


@proves("request.chapter-filter")
def test_unknown_chapter_is_named_with_the_closest_ones(world: World) -> None:
    rows = {
        ("holiday", None): ("chapter_not_found", "'Holidays'"),
        ("Expences", None): ("chapter_not_found", "'Expenses'"),
        (None, "Leave"): ("section_not_found", "'Leaving'"),
        ("keys", "leaving"): ("section_not_found", "at once"),
        ("zzz", None): ("chapter_not_found", "'zzz'."),
    }
    wrong = {}
    for (chapter, section), (code, words) in rows.items():
        bundle = world.retrieve("lamp", **ANY, chapter=chapter, section=section)
        notices = {notice.code: notice.message for notice in bundle.metadata.warnings}
        if bundle.status is not BundleStatus.NO_MATCHES or words not in notices.get(code, ""):
            wrong[chapter, section] = notices
    assert wrong == {}


@proves("request.inside-the-chapter")
def test_damaged_sentences_do_not_cut_a_chunk(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    world.ingest(lib.write("handbook.md", HANDBOOK))
    lib.sql("UPDATE sentences SET finish = finish - 1 WHERE sid = 3")

    bundle = world.retrieve("the lamp rule", **ANY, chapter="keys")

    assert bundle.retrieved_chunks == ()
    assert [(entry.code, entry.count) for entry in bundle.metadata.skipped] == [("damaged_text", 1)]


@proves("request.inside-the-chapter")
def test_point_with_missing_chapters_is_reported_and_rewritten(tmp_path: Path) -> None:
    class ForgetfulIndex(MemoryIndex):
        """An index whose points name only the chapter and section that they begin in."""

        forgets = True

        def upsert(self, scope: Any, points: Any) -> None:
            if self.forgets:
                for point in points:
                    point.chapters, point.sections = point.chapters[:1], point.sections[:1]
            super().upsert(scope, points)

    index = ForgetfulIndex()
    lib = make_library(tmp_path, index=index)
    world = lib.library.create_world("world")
    world.ingest(lib.write("handbook.md", HANDBOOK))
    index.forgets = False
    begins = world.retrieve("the lamp rule", **ANY, chapter="handbook")
    later = world.retrieve("the lamp rule", **ANY, chapter="keys")
    embedded = len(lib.embedder.documents)

    lib.library.doctor(apply=True)
    again = world.retrieve("the lamp rule", **ANY, chapter="keys")

    assert (shown(begins), shown(later)) == (["Handbook"], [])
    assert shown(again) == [composed(f"Keys {CHAPTERS['Keys']}")]
    assert len(lib.embedder.documents) == embedded


@proves("request.inside-the-chapter")
def test_single_name_equals_a_list_of_one(tmp_path: Path) -> None:
    from truespan.index.filters import indexed_point

    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    world.ingest(lib.write("keys.md", "## Keys\n\nThe lamp rule."))
    scope = world.access.scope()
    assert scope is not None
    [[chunk]] = lib.library._components.store.chunks.expected(scope)
    payload = {
        "document": 1,
        "text_hash": chunk.text_hash,
        "pos_start": chunk.first_sid,
        "pos_end": chunk.last_sid,
        "pos_reach": chunk.reach,
        "chapter": "keys",
    }

    def compare(section: Any, **others: str) -> Finding | None:
        record = SimpleNamespace(
            id=chunk.chunk_id, payload={**payload, "section": section, **others}
        )
        held = indexed_point(record, [*numbers_of(chunk.vector or NO_VECTOR)])
        item = compare_chunk(chunk, point_digest(held, scope.profile.dimensions))
        return item.finding if item else None

    assert [compare("keys"), compare(["keys"])] == [None, None]
    assert compare(["keys", "more"]) is Finding.MISPLACED_POINT
    assert compare("keys", kind="text") is None
    assert compare("keys", kind="figure") is Finding.MISPLACED_POINT
