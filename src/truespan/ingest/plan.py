"""Planning: the effects of a run, and the documents that pruning removes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from truespan.errors import InvalidArgument, SourceRefused
from truespan.ingest.embed import room_for_texts
from truespan.ingest.manifest import PathPattern, split_path
from truespan.ingest.report import Moved
from truespan.types.document import Document, Draft
from truespan.types.ids import TextHash
from truespan.types.profile import EmbeddingLimits
from truespan.types.source import FoundSources, Root, Source, display_path, is_page, to_utf8


def count_requests(tokens: int, texts: int, limits: EmbeddingLimits) -> int:
    """Return the number of requests that embed `texts` texts of `tokens` tokens in all."""
    # The few requests that check the provider are not counted.
    by_texts = -(-texts // max(room_for_texts(limits), 1))
    by_tokens = -(-tokens // limits.tokens)
    return max(by_texts, by_tokens) if texts else 0


def documents_to_remove(
    documents: Sequence[Document],
    found: FoundSources,
    *,
    exists: Callable[[str], bool],
    allow_empty: bool = False,
) -> list[Document]:
    """Return the documents that pruning after this search removes, by number.

    A document is removed if its path is below a root and was not found. If its file still `exists`,
    it is removed only if its manifest no longer names it, or if a manifest gives its file another
    id. Documents ingested without a manifest, or by another one, stay. A member of an opened file
    is removed if it was not found in the file.

    Raises:
        InvalidArgument: nothing was found below a root that has documents. The disk may not be
            mounted, so an empty root must be confirmed.
    """
    found_ids = {source.doc_id for source in found}
    found_paths = {source.recorded_path for source in found if not source.origin}
    manifest_paths = {source.recorded_path for source in found if source.origin}
    opened = frozenset(found.opened)
    # Comparing with the roots is slow, and most documents are found again.
    missing = [
        document
        for document in documents
        if document.doc_id not in found_ids and document.path not in found_paths
    ]
    removed = {
        document.number: document for document in missing if _is_within(document.path, opened)
    }
    for root in found.roots:
        for document in _documents_below(root, missing):
            if (
                (root.origin and document.origin == root.origin)
                or (not document.origin and document.path in manifest_paths)
                or not exists(document.path)
            ):
                removed[document.number] = document
    if not allow_empty:
        for root in found.roots:
            if root.found == 0 and any(_documents_below(root, removed.values())):
                raise InvalidArgument(
                    f"No file was found below {display_path(root.folder)}, so nothing is removed.",
                    advice="Check that the disk is mounted. To remove all documents of the folder, "
                    "add --allow-empty.",
                )
    return [removed[number] for number in sorted(removed)]


def _is_within(path: str, opened: frozenset[str]) -> bool:
    return bool(opened) and not opened.isdisjoint(
        [path, *(path[:at] for at, char in enumerate(path) if char == "/")]
    )


def _documents_below(root: Root, documents: Iterable[Document]) -> Iterator[Document]:
    folder = PurePath(to_utf8(root.folder))
    pattern = PathPattern.of(split_path(root.pattern)) if root.pattern else None
    for document in documents:
        if is_page(document.path):
            if root.origin and document.origin == root.origin:
                yield document
            continue
        path = PurePath(document.path)
        if not path.is_relative_to(folder):
            continue
        names = path.relative_to(folder).parts
        if names and ".." not in names and (pattern is None or pattern.matches(names)):
            yield document


class DocumentOutcome(StrEnum):
    """Planned outcome of a source."""

    NEW = "new"
    CHANGED = "changed"
    RESUMED = "resumed"
    """An earlier run stopped before it was complete."""
    UNCHANGED = "unchanged"
    FAILED = "failed"


class PlannedDocument(Struct, frozen=True):
    """One source in a plan; an unchanged one has no counts."""

    name: str
    doc_id: str
    outcome: DocumentOutcome
    chunks: int = 0
    tokens: int = 0
    to_embed: int = 0
    """Number of texts without a stored vector, each counted once.

    For a resumed document, the number of its pending chunks; their tokens are not counted, because
    the document is not read again.
    """
    code: str = ""
    message: str = ""


class DryRun(Struct, frozen=True):
    """Planned effects of a run."""

    rows: tuple[PlannedDocument, ...]
    to_embed: int
    tokens_to_embed: int
    requests: int
    removed: tuple[Document, ...] = ()
    moved: tuple[Moved, ...] = ()
    unsupported: int = 0
    unmatched: tuple[str, ...] = ()
    other_models: tuple[str, ...] = ()
    """The models of other generations, which embed the same documents too."""

    @property
    def documents(self) -> int:
        return len(self.rows)

    @property
    def chunks(self) -> int:
        return sum(row.chunks for row in self.rows)

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)

    def count(self, outcome: DocumentOutcome) -> int:
        return sum(row.outcome is outcome for row in self.rows)


def plan_run(
    found: FoundSources,
    documents: Sequence[Document],
    *,
    make_draft: Callable[[Source, Document | None], Draft | None],
    have_vectors: Callable[[Sequence[TextHash]], Collection[TextHash]],
    count_requests: Callable[[int, int], int],
    removed: Sequence[Document] = (),
) -> DryRun:
    """Return the effects of a run over `found`; write nothing and call no provider.

    `documents` are the documents of the world. `make_draft` returns None for an unchanged source,
    `have_vectors` the texts with a stored vector, and `count_requests` receives the numbers of
    tokens and texts to embed. A refused source is a row like any other.
    """
    by_id = {document.doc_id: document for document in documents}
    rows: list[PlannedDocument] = []
    counted: set[TextHash] = set()
    texts = tokens = 0
    for source in found:
        known = by_id.get(source.doc_id)
        row = PlannedDocument(source.name, source.doc_id, DocumentOutcome.FAILED)
        try:
            draft = make_draft(source, known)
        except SourceRefused as error:
            rows.append(replace(row, code=error.code, message=str(error)))
            continue
        if draft is None:
            pending = 0 if known is None else known.chunks - known.embedded - known.skipped
            staged = known is not None and known.staged is not None
            outcome = DocumentOutcome.RESUMED if pending or staged else DocumentOutcome.UNCHANGED
            rows.append(replace(row, outcome=outcome, to_embed=pending))
            texts += pending
            continue
        # Each text is counted once.
        new = {
            chunk.text_hash: chunk.tokens
            for chunk in draft.chunks
            if chunk.text_hash not in counted
        }
        counted.update(new)
        for text_hash in have_vectors(list(new)):
            new.pop(text_hash, None)
        texts += len(new)
        tokens += sum(new.values())
        rows.append(
            PlannedDocument(
                draft.name,
                draft.doc_id,
                DocumentOutcome.NEW if known is None else DocumentOutcome.CHANGED,
                chunks=len(draft.chunks),
                tokens=sum(chunk.tokens for chunk in draft.chunks),
                to_embed=len(new),
            )
        )
    return DryRun(
        rows=tuple(rows),
        to_embed=texts,
        tokens_to_embed=tokens,
        requests=count_requests(tokens, texts),
        removed=tuple(removed),
        unsupported=found.unsupported,
        unmatched=found.unmatched,
    )
