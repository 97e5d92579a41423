"""Freshness of results: whether the source of each passage is still what was indexed.

Readers get none: whether a file has changed can depend on text that lies ahead of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from truespan.engine.source_checks import States, check_documents
from truespan.types.answer import Answer, Citation, RetrievedNote
from truespan.types.bundle import (
    ContextBundle,
    FigureNote,
    Notice,
    Passage,
    SearchResult,
    SourceNote,
)
from truespan.types.freshness import (
    DocumentFreshness,
    Freshness,
    SourceState,
    UnknownReason,
    unknown,
)

if TYPE_CHECKING:
    from truespan.engine.components import Components
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

    `revisions` are those of the documents whose passages were retrieved.
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
            more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
            text = f"{sentence}: {', '.join(named[:MAX_NAMED])}{more}."
            yield Notice(f"source_{state}", text)


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
