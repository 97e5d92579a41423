"""Freshness of results: whether the source of each passage is still what was indexed.

Readers get no freshness: whether a file has changed can depend on unread text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from threading import BoundedSemaphore, Event, Lock, Thread
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from truespan.errors import InvalidArgument, PageRefused, SourceMissing, TruespanError
from truespan.ingest.pages import with_encoding
from truespan.parsing.detect import holds_records, may_hold_members
from truespan.types.answer import Answer, Citation, RetrievedNote
from truespan.types.bundle import (
    ContextBundle,
    FigureNote,
    Notice,
    Passage,
    SearchResult,
    SourceNote,
)
from truespan.types.source import (
    CHANGED,
    CURRENT,
    GONE,
    UNDECLARED,
    UPLOAD,
    DocumentFreshness,
    Freshness,
    Member,
    Source,
    SourceState,
    UnknownReason,
    is_page,
    unknown,
)
from truespan.types.text import Validators, list_some

if TYPE_CHECKING:
    from truespan.engine.components import Components
    from truespan.types.document import Document
    from truespan.types.scope import Scope

MAX_NAMED = 5
"""Maximum number of paths that a warning names."""
_SENTENCES = {
    SourceState.CHANGED: "The source has changed since it was ingested",
    SourceState.GONE: "The source is gone since it was ingested",
    SourceState.UNKNOWN: "Whether the source has changed is unknown",
}
Note = TypeVar("Note", Passage, SourceNote, FigureNote, RetrievedNote, Citation)


def add_to_search(
    components: Components, scope: Scope | None, result: SearchResult
) -> SearchResult:
    """Return a result with the freshness of each passage, and warnings about the sources."""
    revisions = {passage.document: passage.receipt.revision for passage in result.passages}
    states = check_sources(components, scope, revisions)
    passages = _label(result.passages, states)
    warnings = (*result.warnings, *describe_states(passages))
    return replace(result, passages=passages, warnings=warnings)


def add_to_bundle(
    components: Components, scope: Scope | None, bundle: ContextBundle
) -> ContextBundle:
    """Return a bundle with the freshness of each passage, and warnings about the sources."""
    metadata = bundle.metadata
    notes = (*metadata.sources, *metadata.referred)
    revisions = {note.document: note.revision for note in notes if note.revision is not None}
    states = check_sources(components, scope, revisions)
    sources = _label(metadata.sources, states)
    referred = _label(metadata.referred, states)
    warnings = (*metadata.warnings, *describe_states((*sources, *referred)))
    return replace(
        bundle,
        metadata=replace(
            metadata,
            sources=sources,
            referred=referred,
            figures=_label(metadata.figures, states),
            warnings=warnings,
        ),
    )


def add_to_answer(
    components: Components, scope: Scope | None, answer: Answer, revisions: Mapping[int, int]
) -> Answer:
    """Return an answer with the freshness of each retrieved passage and citation.

    `revisions` has the revisions of the documents whose passages were retrieved.
    """
    states = check_sources(components, scope, revisions)
    notes = _label(answer.retrieved_chunks_metadata, states)
    used = [note for note in notes if note.chunk_id in answer.used_chunks]
    return replace(
        answer,
        retrieved_chunks_metadata=notes,
        near_misses=_label(answer.near_misses, states),
        citations=_label(answer.citations, states),
        warnings=(*answer.warnings, *describe_states(used)),
    )


def _label(notes: Sequence[Note], states: States) -> tuple[Note, ...]:
    """Return notes with the states of their documents, as far as these were checked."""
    return tuple(
        replace(note, freshness=states.get(note.document or 0, note.freshness)) for note in notes
    )


def describe_states(notes: Iterable[Passage | SourceNote | RetrievedNote]) -> Iterator[Notice]:
    """Yield a warning for each state of sources other than `current`, with their paths."""
    paths: dict[SourceState, list[str]] = {}
    for note in notes:
        if isinstance(note.freshness, Freshness):
            named = paths.setdefault(note.freshness.state, [])
            if note.path not in named:
                named.append(note.path)
    for state, sentence in _SENTENCES.items():
        if named := paths.get(state):
            yield Notice(f"source_{state}", f"{sentence}: {list_some(named, MAX_NAMED)}.")


def list_states(components: Components, scope: Scope, seconds: float) -> list[DocumentFreshness]:
    """Return the state of the source of every complete document in scope, by number."""
    documents = [each for each in components.store.documents(scope) if each.active is not None]
    states = check_documents(components, scope, documents, seconds)
    return [
        DocumentFreshness(each.number, each.doc_id, each.shown_path, states[each.number])
        for each in documents
    ]


def check_sources(
    components: Components, scope: Scope | None, revisions: Mapping[int, int]
) -> States:
    """Return the state of the source of each document, each checked once.

    Args:
        components: The components of the library.
        scope: Scope that contains the documents; None if the world is empty by now.
        revisions: Revision that the passages of each document were read from.
    """
    states: States = dict.fromkeys(revisions, unknown(UnknownReason.REPLACED))
    if scope is None or not revisions:
        return states
    documents = [
        document
        for document in components.store.documents(scope.narrow(documents=[*revisions]))
        if document.active == revisions[document.number]
    ]
    return states | check_documents(components, scope, documents, components.freshness_seconds)


MAX_THREADS = 4
"""Maximum number of threads of one request."""
# Shared by threads: a semaphore. A thread that waits for a file or a server counts until it ends.
_THREADS = BoundedSemaphore(32)

States: TypeAlias = dict[int, Freshness]
"""State of the source of each document, by number."""
Check: TypeAlias = Callable[[], Iterator[tuple[int, Freshness]]]
"""Yields the states of documents that are checked one after the other."""


class _Indexed(Struct, frozen=True):
    """A document, the path of its source, and the hash of the bytes that were indexed."""

    number: int
    path: str
    source_hash: str
    validators: Validators | None = None
    """HTTP validators of a web page."""

    def compare(self, digest: str) -> Freshness:
        return CURRENT if digest == self.source_hash else CHANGED


def check_documents(
    components: Components, scope: Scope, documents: Sequence[Document], seconds: float
) -> States:
    """Return the state of the source of each document; unknown if not checked within `seconds`."""
    states: States = {}
    groups: dict[str, list[_Indexed]] = {}
    for document in documents:
        number, path = document.number, document.path
        if document.damaged:
            states[number] = unknown(UnknownReason.DAMAGED)
        elif document.staged is not None:
            # `source_hash` belongs to the staged revision.
            states[number] = unknown(UnknownReason.REPLACED)
        elif path.startswith(UPLOAD):
            states[number] = unknown(UnknownReason.NO_SOURCE)
        else:
            states[number] = unknown(UnknownReason.TIMEOUT)
            known = components.store.validators(scope, number) if is_page(path) else None
            indexed = _Indexed(number, path, document.source_hash, known)
            groups.setdefault(_container(path), []).append(indexed)
    checks = [partial(_check_group, components, group) for group in groups.values()]
    return states | run_checks(checks, seconds)


def _container(path: str) -> str:
    """Return the part of a path that names a file with members; otherwise the path."""
    parts = path.split("/")
    ends = (end for end, part in enumerate(parts[:-1], 1) if may_hold_members(part))
    return "/".join(parts[: next(ends, None)])


def run_checks(checks: Sequence[Check], seconds: float) -> States:
    """Run checks in threads; return the states that were found within `seconds`.

    Nothing can interrupt a file system that does not answer, so threads are not waited for longer.
    """
    waiting, found, lock = deque(checks), States(), Lock()
    stop, done = Event(), Event()
    wanted = range(min(MAX_THREADS, len(checks)))
    threads = running = sum(_THREADS.acquire(blocking=False) for _ in wanted)

    def work() -> None:
        nonlocal running
        try:
            while waiting and not stop.is_set():
                with lock:
                    check = waiting.popleft() if waiting else tuple
                for number, freshness in check():
                    found[number] = freshness
                    if stop.is_set():
                        return
        finally:
            _THREADS.release()
            with lock:
                running -= 1
                if not running:
                    done.set()

    for _ in range(threads):
        Thread(target=work, name="truespan-freshness", daemon=True).start()
    if threads:
        done.wait(seconds)
    stop.set()
    return found.copy()


def _check_group(
    components: Components, group: Sequence[_Indexed]
) -> Iterator[tuple[int, Freshness]]:
    """Yield the states of documents from one file; such a file is read once."""
    opened = _OpenedFile(components)
    for indexed in group:
        try:
            if is_page(indexed.path):
                freshness = _check_page(components, indexed)
            else:
                freshness = opened.check(indexed)
        except SourceMissing:
            freshness = GONE
        except (InvalidArgument, PageRefused):
            freshness = unknown(UnknownReason.NOT_ALLOWED)
        except TruespanError:
            freshness = unknown(UnknownReason.UNREADABLE)
        yield indexed.number, freshness


def _check_page(components: Components, indexed: _Indexed) -> Freshness:
    if components.pages is None:
        return unknown(UnknownReason.NOT_ALLOWED)
    page = components.pages.fetch(indexed.path, indexed.validators)
    if page.content is None:
        return CURRENT
    content = with_encoding(page.content, page.content_type)
    return indexed.compare(sha256(content).hexdigest())


class _OpenedFile:
    """Checks files, and keeps the content of the last one with members."""

    def __init__(self, components: Components) -> None:
        self._sources = components.sources
        self._parser = components.parser
        self._path = ""
        self._content = b""
        self._members: dict[str, Member] = {}

    def check(self, indexed: _Indexed) -> Freshness:
        """Return the state of a file or a member; raises SourceRefused."""
        source = self._sources.locate(indexed.path)
        if not source.member:
            return indexed.compare(self._sources.digest(source))
        if holds_records(source.name):
            return unknown(UnknownReason.RECORD)
        member = self._read_member(source)
        if member is None:
            return GONE
        if member.refusal is not None:
            return unknown(UnknownReason.UNREADABLE)
        return indexed.compare(sha256(member.data).hexdigest())

    def _read_member(self, source: Source) -> Member | None:
        if source.path != self._path:
            self._path, self._content = source.path, self._sources.read(source)
            self._members = {}
        if source.member not in self._members:
            found = self._parser.members(source.name, self._content, UNDECLARED, source.member)
            self._members = {each.name: each for each in found.members}
        return self._members.get(source.member)
