"""Plans of syncs and runs, made without changes."""

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from truespan.errors import InvalidArgument, SourceRefused
from truespan.ingest.plan import (
    DocumentOutcome,
    DryRun,
    count_requests,
    documents_to_remove,
    plan_run,
)
from truespan.types.chunk import NewChunk
from truespan.types.document import Document, Draft
from truespan.types.ids import TextHash, hash_text
from truespan.types.profile import WINDOW, EmbeddingLimits
from truespan.types.source import DocumentKind, FoundSources, Root, Source
from truespan.types.text import CanonicalText

MANIFEST = "/shelf/library.jsonl"


def document(path: str, doc_id: str = "", *, number: int = 0, origin: str = "") -> Document:
    """Return a recorded document, complete by default."""
    return Document(
        number=number or 1 + sum(map(ord, path)), doc_id=doc_id or f"id-of-{path}",
        name=Path(path).name, path=path, kind=DocumentKind.DOCUMENT, title="", language="en",
        version="1.0", tags=(), declared_title=None, language_declared=False, chunking="window",
        active=1, staged=None, source_hash="", recipe="", chunks=3, embedded=3, quarantined=0,
        characters=10, sentences=1, origin=origin,
    )  # fmt: skip


def source(path: str, doc_id: str = "", *, origin: str = "") -> Source:
    return Source(path, Path(path).name, doc_id or f"id-of-{path}", 1, origin=origin)


def removed(
    documents: Sequence[Document],
    sources: Sequence[Source],
    *roots: Root,
    there: Collection[str] = (),
    allow_empty: bool = False,
) -> list[str]:
    found = FoundSources(tuple(sources), roots=roots)
    gone = documents_to_remove(
        documents, found, exists=lambda path: path in there, allow_empty=allow_empty
    )
    return [document.path for document in gone]


# What a sync would remove


def test_only_missing_files_within_the_roots_are_removed() -> None:
    documents = [document(path) for path in ("/a/1.txt", "/a/2.txt", "/a/b/3.txt", "/c/4.txt")]
    assert removed(documents, [source("/a/1.txt")], Root("/a", 1)) == ["/a/2.txt", "/a/b/3.txt"]
    paths = ["/ab/1.txt", "/1.txt", "/a", "/A/1.txt", "/a/../c/1.txt", "relative.txt", ""]
    documents = [document(path) for path in paths]
    assert removed(documents, [source("/a/0.txt")], Root("/a", 1)) == []
    assert removed([document("/a/1.txt")], [source("/a/0.txt")]) == []


def test_skipped_and_unlisted_files_are_kept() -> None:
    documents = [document("/a/page"), document("/a/.hidden/x.txt"), document("/a/gone.txt")]
    assert removed(
        documents, [source("/a/1.txt")], Root("/a", 1), there=["/a/page", "/a/.hidden/x.txt"]
    ) == ["/a/gone.txt"]
    documents = [document(f"/a/{name}") for name in ("1.txt", "2.md", "b/3.txt", ".4.txt")]
    assert removed(documents, [source("/a/0.txt")], Root("/a", 1, "*.txt")) == ["/a/1.txt"]
    assert set(removed(documents, [source("/a/0.txt")], Root("/a", 1, "**/*.txt"))) == {
        "/a/1.txt", "/a/b/3.txt",
    }  # fmt: skip


def test_found_documents_with_declared_ids_are_kept() -> None:
    documents = [document("/a/1.txt", "guide", origin="/a/m.jsonl")]
    assert removed(documents, [source("/a/1.txt", "1-abc")], Root("/a", 1)) == []
    documents = [document("/shelf/old.txt", "guide", origin=MANIFEST)]
    moved = source("/shelf/new.txt", "guide", origin=MANIFEST)
    assert removed(documents, [moved], Root("/shelf", 1, origin=MANIFEST)) == []


def test_document_dropped_from_a_manifest_is_removed() -> None:
    documents = [
        document("/shelf/1.txt", origin=MANIFEST), document("/shelf/2.txt", origin=MANIFEST),
        document("/shelf/3.txt"), document("/shelf/sub/4.txt", origin="/shelf/sub/library.jsonl"),
        document("/shelf/.5.txt", origin=MANIFEST),
    ]  # fmt: skip
    there = [document.path for document in documents]
    root = Root("/shelf", 1, origin=MANIFEST)
    kept = [source("/shelf/1.txt", origin=MANIFEST)]
    assert set(removed(documents, kept, root, there=there)) == {"/shelf/2.txt", "/shelf/.5.txt"}


def test_new_manifest_id_removes_the_old_document() -> None:
    by_itself = document("/shelf/1.txt", "1-abc", number=1)
    named = document("/shelf/2.txt", "two", number=2, origin=MANIFEST)
    foreign = document("/shelf/3.txt", "three", number=3, origin="/shelf/other.jsonl")
    sources = [source(f"/shelf/{n}.txt", f"new-{n}", origin=MANIFEST) for n in (1, 2, 3)]
    there = [found.path for found in sources]
    root = Root("/shelf", 3, origin=MANIFEST)
    gone = removed([foreign, named, by_itself], sources, root, there=there)
    assert gone == ["/shelf/1.txt", "/shelf/2.txt"]


def test_roots_without_files_need_documents_or_confirmation() -> None:
    documents = [document("/a/1.txt"), document("/b/2.txt")]
    roots = Root("/a", 0), Root("/b", 1)
    with pytest.raises(InvalidArgument, match="/a"):
        removed(documents, [source("/b/3.txt")], *roots)
    assert removed(documents, [source("/b/3.txt")], *roots, allow_empty=True) == [
        "/a/1.txt", "/b/2.txt",
    ]  # fmt: skip

    documents = [document("/b/2.txt"), document("/a/kept.txt")]
    roots = Root("/a", 0), Root("/b", 1)
    gone = removed(documents, [source("/b/3.txt")], *roots, there=["/a/kept.txt"])
    assert gone == ["/b/2.txt"]


def test_names_that_are_not_utf8_are_compared_as_recorded() -> None:
    documents = [document("/a?/x?.txt", "given")]
    assert removed(documents, [source("/a\udcff/x\udcfe.txt")], Root("/a\udcff", 1)) == []
    assert removed(documents, [source("/a\udcff/y.txt")], Root("/a\udcff", 1)) == ["/a?/x?.txt"]


# What a run would do


def draft_of(source: Source, *texts: str) -> Draft:
    chunks = tuple(
        NewChunk(
            index=index, start=0, end=len(text), first_sid=0, last_sid=0, reach=0, text=text,
            text_hash=hash_text(text), overlap_text="", tokens=len(text.split()),
            sentence_ends=[len(text)], chapter=None, section=None,
        )
        for index, text in enumerate(texts)
    )  # fmt: skip
    return Draft(
        doc_id=source.doc_id, name=source.name, path=source.path, kind=DocumentKind.DOCUMENT,
        title="", language="en", language_declared=False, version="1.0", declared_title=None,
        tags=(), chunking=WINDOW, source_hash="", recipe="", canonical=CanonicalText(""),
        sentences=(), chunks=chunks,
    )  # fmt: skip


def planned(
    texts: dict[str, list[str] | None], *, known: Sequence[Document] = (), kept: Sequence[str] = ()
) -> DryRun:
    """Plan a run over sources with these texts; None is a refused source."""
    vectors = {hash_text(text) for text in kept}

    def make_draft(given: Source, before: Document | None) -> Draft | None:
        made = texts[given.path]
        if made is None:
            raise SourceRefused("source_empty", given.name)
        same = before is not None and before.source_hash == "".join(made)
        return None if same else draft_of(given, *made)

    def have_vectors(hashes: Sequence[TextHash]) -> set[TextHash]:
        return vectors & set(hashes)

    found = FoundSources(tuple(source(path) for path in texts), 5, ("line 2: gone.txt",))
    return plan_run(
        found, known, make_draft=make_draft, have_vectors=have_vectors,
        count_requests=lambda tokens, texts: 10 * tokens + texts, removed=[document("/x.txt")],
    )  # fmt: skip


def test_plan_counts_each_outcome_and_the_requests() -> None:
    known = [document("/changed"), document("/same")]

    plan = planned(
        {"/new": ["a b", "c"], "/changed": ["d e f"], "/same": [], "/refused": None}, known=known
    )

    assert [(row.name, row.outcome) for row in plan.rows] == [
        ("new", DocumentOutcome.NEW), ("changed", DocumentOutcome.CHANGED),
        ("same", DocumentOutcome.UNCHANGED), ("refused", DocumentOutcome.FAILED),
    ]  # fmt: skip
    assert (plan.documents, plan.chunks, plan.tokens) == (4, 3, 6)
    assert [plan.count(outcome) for outcome in DocumentOutcome] == [1, 1, 0, 1, 1]
    assert (plan.to_embed, plan.tokens_to_embed) == (3, 6)
    assert plan.requests == 63
    assert (plan.unsupported, plan.unmatched) == (5, ("line 2: gone.txt",))
    assert [gone.path for gone in plan.removed] == ["/x.txt"]


def test_plan_counts_refusals_known_texts_and_pending_chunks() -> None:
    [row] = planned({"/empty.txt": None}).rows
    assert (row.code, row.message) == ("source_empty", "empty.txt: contains no text.")
    plan = planned({"/1": ["a", "b", "a", "kept"], "/2": ["b", "c c"]}, kept=["kept"])
    assert [row.to_embed for row in plan.rows] == [2, 1]
    assert (plan.chunks, plan.to_embed, plan.tokens_to_embed) == (6, 3, 4)
    known = [replace(document("/half"), embedded=1)]
    plan = planned({"/half": []}, known=known)
    assert [(row.outcome, row.to_embed) for row in plan.rows] == [(DocumentOutcome.RESUMED, 2)]
    assert plan.to_embed == 2


@pytest.mark.parametrize(
    ("tokens", "texts", "requests"),
    [(0, 0, 0), (10, 1, 1), (100, 98, 1), (100, 99, 2), (10_001, 5, 2), (50_000, 99, 5)],
)
def test_requests_follow_from_texts_and_tokens(tokens: int, texts: int, requests: int) -> None:
    assert count_requests(tokens, texts, EmbeddingLimits(items=100, tokens=10_000)) == requests
