"""What a run would do, and what a sync would remove: decided before anything is spent or lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath

from truespan.errors import InvalidSettings, SourceRefused
from truespan.ingest.embed import room_for_texts
from truespan.ingest.manifest import PathPattern, parts_of
from truespan.protocols import EmbeddingLimits
from truespan.types.document import Document, Draft
from truespan.types.ids import TextHash
from truespan.types.profile import EmbeddingProfile
from truespan.types.source import Found, Root, Source

LOOKED_UP = "2026-11"
PRICES: dict[str, dict[str, float]] = {
    "openai": {
        "text-embedding-3-small": 0.02,
        "text-embedding-3-large": 0.13,
        "text-embedding-ada-002": 0.10,
    },
    "google": {"gemini-embedding-001": 0.15, "gemini-embedding-2": 0.20},
}
"""US dollars for a million tokens, by provider and model."""
FREE = frozenset({"local", "fastembed", "ollama"})
"""Providers that run on the operator's own machines, whatever the model."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would ask of a provider. `cost` is in US dollars; None when nobody knows."""

    requests: int
    tokens: int
    cost: float | None


def price_of(profile: EmbeddingProfile) -> float | None:
    """Return the price of a million tokens in US dollars; None when it is not known."""
    if profile.provider in FREE:
        return 0.0
    return PRICES.get(profile.provider, {}).get(profile.model)


def estimate(
    profile: EmbeddingProfile,
    tokens: int,
    items: int,
    limits: EmbeddingLimits,
    *,
    price: float | None = None,
) -> Estimate:
    """Return what embedding so many texts of so many tokens together would ask of a provider.

    `limits` are the embedder's own, tightened by the operator's. `price` is the operator's word for
    a million tokens. The requests that prove order and learn the model are too few to count.
    """
    by_items = -(-items // max(room_for_texts(limits), 1))
    by_tokens = -(-tokens // limits.tokens)
    known = price_of(profile) if price is None else price
    cost = None if known is None else tokens / _MILLION * known
    return Estimate(max(by_items, by_tokens) if items else 0, tokens, cost)


def elsewhere(tokens: int, items: int) -> dict[str, Estimate]:
    """Return what the same work would ask of every model in the table, at the usual limits."""
    limits = EmbeddingLimits()
    by_requests = -(-items // max(room_for_texts(limits), 1)) if items else 0
    requests = max(by_requests, -(-tokens // limits.tokens))
    return {
        f"{provider}/{model}": Estimate(requests, tokens, tokens / _MILLION * price)
        for provider, models in PRICES.items()
        for model, price in models.items()
    }


# What a sync would remove


def to_remove(
    documents: Sequence[Document],
    found: Found,
    *,
    is_there: Callable[[str], bool],
    allow_empty: bool = False,
) -> list[Document]:
    """Return the documents that a sync of what was searched would remove, by number.

    A document is removed when it lies below a root and is not among what was found. If its file
    `is_there` still, it is removed only where the manifest that named it names it no more, or where
    a manifest gives the file another id: what was ingested by itself, or by another manifest, is
    not this one's to forget.

    Raises:
        InvalidSettings: nothing at all was found below a root that has documents. A disk that is
            not mounted looks like that, so it must be said that an empty root is meant.
    """
    kept = _Kept.of(found)
    areas = [_Area.of(root) for root in found.roots]
    gone = {
        document.number: document
        for area in areas
        for document in documents
        if area.covers(document)
        and not kept.has(document)
        and (area.speaks_for(document) or kept.renames(document) or not is_there(document.path))
    }
    if not allow_empty:
        _refuse_empty(areas, gone.values())
    return [gone[number] for number in sorted(gone)]


def recorded(path: str) -> str:
    """Return a path as the store records it."""
    return path.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was found, as documents are compared with it."""

    ids: frozenset[str]
    met: frozenset[str]
    """Paths that were merely found: under whatever id, the document is still there."""
    named: frozenset[str]
    """Paths that a manifest named: it says exactly under which id."""

    @classmethod
    def of(cls, found: Found) -> _Kept:
        return cls(
            frozenset(source.doc_id for source in found),
            frozenset(recorded(source.path) for source in found if not source.origin),
            frozenset(recorded(source.path) for source in found if source.origin),
        )

    def has(self, document: Document) -> bool:
        return document.doc_id in self.ids or document.path in self.met

    def renames(self, document: Document) -> bool:
        """Say whether a document that no manifest named has got another id from one."""
        return not document.origin and document.path in self.named


@dataclass(frozen=True, slots=True)
class _Area:
    """A root, and which documents lie in it."""

    root: Root
    folder: PurePath
    pattern: PathPattern | None

    @classmethod
    def of(cls, root: Root) -> _Area:
        pattern = PathPattern.of(parts_of(root.pattern)) if root.pattern else None
        return cls(root, PurePath(recorded(root.folder)), pattern)

    def covers(self, document: Document) -> bool:
        """Say whether a document's file lies where this root was searched."""
        path = PurePath(document.path)
        if not path.is_relative_to(self.folder):
            return False
        names = path.relative_to(self.folder).parts
        if not names or ".." in names:
            return False
        return self.pattern is None or self.pattern.matches(names)

    def speaks_for(self, document: Document) -> bool:
        """Say whether it is this manifest that named a document before."""
        return bool(self.root.origin) and document.origin == self.root.origin


def _refuse_empty(areas: Iterable[_Area], gone: Collection[Document]) -> None:
    for area in areas:
        if area.root.found == 0 and any(area.covers(document) for document in gone):
            raise InvalidSettings(
                f"Nothing at all was found below {recorded(area.root.folder)}, so nothing is "
                "removed.",
                advice="Check that the disk is there; to remove everything, say --allow-empty.",
            )


# What a run would do


class DocumentOutcome(StrEnum):
    """What would become of a source."""

    NEW = "new"
    CHANGED = "changed"
    RESUMED = "resumed"
    """An earlier run was stopped while it was at it."""
    UNCHANGED = "unchanged"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """One source in a plan. Of what is unchanged nothing is counted."""

    name: str
    doc_id: str
    fate: DocumentOutcome
    chunks: int = 0
    tokens: int = 0
    to_embed: int = 0
    """Texts for which no vector is kept, each counted where it comes first. Of what is resumed all
    that is pending counts here, and its tokens nowhere: they are not read again."""
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a run would do, without having done any of it."""

    rows: tuple[PlannedDocument, ...]
    to_embed: int
    tokens_to_embed: int
    estimate: Estimate
    removed: tuple[Document, ...] = ()
    passed_over: int = 0
    unmatched: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    """The models of other generations, which embed the same documents for themselves."""

    @property
    def documents(self) -> int:
        """Return how many sources were looked at."""
        return len(self.rows)

    @property
    def chunks(self) -> int:
        """Return how many chunks would be cut."""
        return sum(row.chunks for row in self.rows)

    @property
    def tokens(self) -> int:
        """Return how many tokens these chunks have."""
        return sum(row.tokens for row in self.rows)

    def count(self, fate: DocumentOutcome) -> int:
        """Return how many sources would have this fate."""
        return sum(row.fate is fate for row in self.rows)


Prepare = Callable[[Source, Document | None], tuple[Source, Draft | None]]
"""Makes the revision that a source would become; none when nothing would change."""
HaveVectors = Callable[[Sequence[TextHash]], Collection[TextHash]]
"""Says of which texts vectors are kept."""


def plan_run(
    found: Found,
    documents: Sequence[Document],
    *,
    prepare: Prepare,
    have_vectors: HaveVectors,
    estimate: Callable[[int, int], Estimate],
    removed: Sequence[Document] = (),
) -> DryRun:
    """Return what a run over `found` would do. Nothing is written, and no provider is asked.

    `documents` are those of the world. `estimate` is asked with the number of texts to be embedded
    and of their tokens. A source that is refused is a row like any other.
    """
    ledger = _Ledger(have_vectors)
    known = {document.doc_id: document for document in documents}
    rows = tuple(ledger.row(source, known.get(source.doc_id), prepare) for source in found)
    return DryRun(
        rows=rows,
        to_embed=ledger.texts,
        tokens_to_embed=ledger.tokens,
        estimate=estimate(ledger.texts, ledger.tokens),
        removed=tuple(removed),
        passed_over=found.passed_over,
        unmatched=found.unmatched,
    )


@dataclass(slots=True)
class _Ledger:
    """Counts what would be embedded; one text never twice."""

    have_vectors: HaveVectors
    counted: set[TextHash] = field(default_factory=set)
    texts: int = 0
    tokens: int = 0

    def row(self, source: Source, known: Document | None, prepare: Prepare) -> PlannedDocument:
        """Return what would become of one source."""
        try:
            _, made = prepare(source, known)
        except SourceRefused as error:
            return PlannedDocument(
                source.name,
                source.doc_id,
                DocumentOutcome.FAILED,
                code=error.code,
                message=str(error),
            )
        if made is not None:
            return self._drafted(
                made, DocumentOutcome.NEW if known is None else DocumentOutcome.CHANGED
            )
        left = 0 if known is None else known.chunks - known.embedded - known.skipped
        staged = known is not None and known.staged is not None
        fate = DocumentOutcome.RESUMED if left or staged else DocumentOutcome.UNCHANGED
        self.texts += left
        return PlannedDocument(source.name, source.doc_id, fate, to_embed=left)

    def _drafted(self, made: Draft, fate: DocumentOutcome) -> PlannedDocument:
        return PlannedDocument(
            name=made.name,
            doc_id=made.doc_id,
            fate=fate,
            chunks=len(made.chunks),
            tokens=sum(chunk.tokens for chunk in made.chunks),
            to_embed=self._count(made),
        )

    def _count(self, made: Draft) -> int:
        fresh = {
            chunk.text_hash: chunk.tokens
            for chunk in made.chunks
            if chunk.text_hash not in self.counted
        }
        self.counted.update(fresh)
        for text_hash in self.have_vectors(list(fresh)):
            fresh.pop(text_hash, None)
        self.texts += len(fresh)
        self.tokens += sum(fresh.values())
        return len(fresh)
