"""Which documents a request for context means, and whether a default left out all of them."""

from __future__ import annotations

from dataclasses import replace

from truespan.model.bundle import Notice
from truespan.model.document import ShelfEntry
from truespan.model.request import RetrievalRequest
from truespan.model.scope import Scope
from truespan.model.shelf import Shelf

DEFAULT_FILTER = Notice(
    "default_filter_emptied_result",
    "Every document in scope was left out by the default language 'en' or version '1.0'; "
    "ask for any language or version instead.",
)


def narrowed_scope(scope: Scope, shelf: Shelf, request: RetrievalRequest) -> Scope:
    """Return the scope restricted to what the request names. All conditions hold together.

    Language, version and tags belong to documents and are looked up in the store, so that a label
    that was changed counts at once. They reach the index as document numbers.
    """
    wanted = shelf.labelled(lambda entry: _suits(entry, request))
    if request.documents is not None:
        named = shelf.named(request.documents)
        wanted = named if wanted is None else named & wanted
    return scope.narrow(
        documents=wanted,
        chapter=request.chapter_filter,
        section=request.section_filter,
    )


def defaults_left_nothing(shelf: Shelf, request: RetrievalRequest) -> bool:
    """Say whether a default language or version, and nothing else, left no document over."""
    defaults = RetrievalRequest(query="?")
    relaxed = request
    if request.language_constraint == defaults.language_constraint:
        relaxed = replace(relaxed, language_constraint=None)
    if request.version_constraint == defaults.version_constraint:
        relaxed = replace(relaxed, version_constraint=None)
    return not _any_left(shelf, request) and _any_left(shelf, relaxed)


def _any_left(shelf: Shelf, request: RetrievalRequest) -> bool:
    return any(_is_named(entry, request) and _suits(entry, request) for entry in shelf)


def _suits(entry: ShelfEntry, request: RetrievalRequest) -> bool:
    """Say whether a document's labels are those that a request asks for."""
    language, version = request.language_constraint, request.version_constraint
    return (
        set(request.tags) <= set(entry.tags)
        and (language is None or _speaks(entry.language, language))
        and (version is None or entry.version == version)
    )


def _speaks(language: str, wanted: str) -> bool:
    """Say whether a document is in a language; 'en' asks for 'en-GB' as well, not the other way."""
    found, asked = language.casefold().replace("_", "-"), wanted.casefold().replace("_", "-")
    return found == asked or found.startswith(f"{asked}-")


def _is_named(entry: ShelfEntry, request: RetrievalRequest) -> bool:
    names = (str(entry.number), entry.doc_id, entry.name)
    return request.documents is None or any(name in request.documents for name in names)
