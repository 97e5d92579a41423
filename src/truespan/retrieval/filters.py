"""Which documents a request for context means, and whether a default left out all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from truespan.types.bundle import Notice
from truespan.types.document import CatalogEntry, DocumentCatalog
from truespan.types.request import RetrievalRequest
from truespan.types.scope import Scope

DEFAULT_FILTER = Notice(
    "default_filter_emptied_result",
    "Every document in scope was left out by the default language 'en' or version '1.0'; "
    "ask for any language or version instead.",
)


def narrowed_scope(scope: Scope, shelf: DocumentCatalog, request: RetrievalRequest) -> Scope:
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


def defaults_left_nothing(shelf: DocumentCatalog, request: RetrievalRequest) -> bool:
    """Say whether a default language or version, and nothing else, left no document over."""
    defaults = RetrievalRequest(query="?")
    relaxed = request
    if request.language_constraint == defaults.language_constraint:
        relaxed = replace(relaxed, language_constraint=None)
    if request.version_constraint == defaults.version_constraint:
        relaxed = replace(relaxed, version_constraint=None)
    return not _any_left(shelf, request) and _any_left(shelf, relaxed)


def _any_left(shelf: DocumentCatalog, request: RetrievalRequest) -> bool:
    return any(_is_named(entry, request) and _suits(entry, request) for entry in shelf)


def _suits(entry: CatalogEntry, request: RetrievalRequest) -> bool:
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


def _is_named(entry: CatalogEntry, request: RetrievalRequest) -> bool:
    names = (str(entry.number), entry.doc_id, entry.name)
    return request.documents is None or any(name in request.documents for name in names)


_ALIKE = (
    '"“”„‟«»″',
    "'‘’‚‛′`",
    "-‐‑‒–—―−",
    "…",
)
_CLASSES = {char: f"[{re.escape(group)}]" for group in _ALIKE for char in group}
_CLASSES["…"] = r"(?:…|\.\.\.)"


def occurrences(passage: str, text: str, *, stop: int | None = None) -> Iterator[tuple[int, int]]:
    """Give where `passage` stands in `text[:stop]`, in order; places may overlap.

    Any run of white space matches any other; so do the usual spellings of quotes and dashes.
    """
    words = passage.replace("...", "…").split()
    if not words:
        return
    pattern = r"\s+".join("".join(map(_alike, word)) for word in words)
    finder = re.compile(pattern)
    start, last = 0, len(text) if stop is None else stop
    while found := finder.search(text, start, last):
        yield found.span()
        # From the next character on: what overlaps itself stands there more than once.
        start = found.start() + 1


def _alike(char: str) -> str:
    return _CLASSES.get(char) or re.escape(char)
