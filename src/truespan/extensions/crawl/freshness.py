"""Freshness of documents: whether the source of each is still what was indexed.

Readers get no freshness: whether a file has changed can depend on unread text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from hashlib import sha256
from threading import BoundedSemaphore, Event, Lock, Thread
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from truespan.errors import TruespanError
from truespan.parsing.detect import format_by_name, may_hold_members
from truespan.types.arguments import MAX_FRESHNESS_SECONDS
from truespan.types.request import check_whole
from truespan.types.source import UNDECLARED, UPLOAD, Member, Source, is_page
from truespan.types.text import Validators

if TYPE_CHECKING:
    from truespan.engine.components import Components
    from truespan.engine.documents import Documents
    from truespan.types.document import Document
    from truespan.types.scope import Scope


class SourceState(StrEnum):
    """State of a source, compared with the indexed revision."""

    CURRENT = "current"
    CHANGED = "changed"
    GONE = "gone"
    UNKNOWN = "unknown"


class UnknownReason(StrEnum):
    """Reason why the state of a source is unknown."""

    NO_SOURCE = "no_source"
    """An upload, or a text that was passed in memory, has no source to compare."""
    RECORD = "record"
    """The fields that made a record of a table or a JSON file a document are not stored."""
    NOT_ALLOWED = "not_allowed"
    """The settings, the page's host or its robots.txt do not allow a request."""
    UNREADABLE = "unreadable"
    TIMEOUT = "timeout"
    REPLACED = "replaced"
    """The document is being ingested."""
    DAMAGED = "damaged"
    """The stored labels of the document do not match their checksum."""


class Freshness(Struct, frozen=True):
    """State of the source of a document; `reason` is set if it is unknown."""

    state: SourceState
    reason: UnknownReason | None = None


CURRENT = Freshness(SourceState.CURRENT)
CHANGED = Freshness(SourceState.CHANGED)
GONE = Freshness(SourceState.GONE)


def unknown(reason: UnknownReason) -> Freshness:
    """Return the freshness of a source whose state is unknown."""
    return Freshness(SourceState.UNKNOWN, reason)


class DocumentFreshness(Struct, frozen=True):
    """A document and the state of its source."""

    document: int
    doc_id: str
    path: str
    """Path shown in results, relative to the ingested folder."""
    freshness: Freshness


def freshness_of(documents: Documents, *, seconds: int) -> list[DocumentFreshness]:
    """Compare the source of each document with the indexed revision."""
    check_whole("seconds", seconds, 1, MAX_FRESHNESS_SECONDS)
    scope = documents._access.readable_scope()
    return list_states(documents._access.components, scope, seconds) if scope else []


def list_states(components: Components, scope: Scope, seconds: float) -> list[DocumentFreshness]:
    """Return the state of the source of every complete document in scope, by number."""
    documents = [each for each in components.store.documents.all(scope) if each.active is not None]
    states = check_documents(components, scope, documents, seconds)
    return [
        DocumentFreshness(each.number, each.doc_id, each.shown_path, states[each.number])
        for each in documents
    ]


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
            known = components.store.revisions.validators(scope, number) if is_page(path) else None
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
        except TruespanError as error:
            denied = error.code in ("invalid_argument", "page_refused")
            reason = UnknownReason.NOT_ALLOWED if denied else UnknownReason.UNREADABLE
            freshness = GONE if error.code == "source_missing" else unknown(reason)
        yield indexed.number, freshness


def _check_page(components: Components, indexed: _Indexed) -> Freshness:
    if components.pages is None:
        return unknown(UnknownReason.NOT_ALLOWED)
    page = components.pages.fetch(indexed.path, indexed.validators)
    if page.content is None:
        return CURRENT
    return indexed.compare(sha256(page.content).hexdigest())


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
        if format_by_name(source.name).has_records:
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
