"""From a source to the draft of a revision: read, compare with what is stored, parse, draft."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from truespan.errors import SourceCopied
from truespan.ingest.draft import make_draft
from truespan.ingest.members import MemberReader, declared_with_sidecar
from truespan.ingest.pages import name_to_parse, require_pages, with_encoding
from truespan.ingest.report import IngestDeps
from truespan.parsing import Traits, traits_of
from truespan.text.novel import Likeness, classify
from truespan.types.document import Document, Draft
from truespan.types.request import Defaults
from truespan.types.scope import Scope
from truespan.types.source import (
    UNDECLARED,
    Copies,
    DocumentKind,
    DocumentOptions,
    Page,
    ParseOptions,
    Source,
    is_page,
    short_path,
)
from truespan.types.telemetry import Stage
from truespan.types.text import Loaded, PageStart, Validators

if TYPE_CHECKING:
    from truespan.store import Store

LIKENESS_REMARKS = {
    Likeness.NOVEL: "Ingested as a book, because its numbered chapters tell a story. "
    "If it is not a book, ingest it with the kind 'document'.",
    Likeness.CHAPTERS: "It has numbered chapters. If it is read from front to back, ingest it with "
    "the kind 'book'.",
}


class SourceDraft(NamedTuple):
    """A source with all its declared labels, and its draft unless the text is unchanged.

    `source` is None if the labels are unchanged too.
    """

    source: Source | None = None
    draft: Draft | None = None
    original: str | None = None
    """Path of another document with the same content; only for a new source."""


class _Content(NamedTuple):
    """Bytes of a source, and the name to parse them by."""

    name: str
    data: bytes
    digest: str
    traits: Traits
    line: int
    """Line of the file in which a record without an id begins, counted from 1; else 0."""
    page: Page | None


class _CopyFinder:
    """Finds a stored or new document with the content of a new source."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store = store
        self._scope = scope
        self._paths: dict[str, str] = {}
        """Paths of documents, by the hash of their content."""

    def add(self, source_hash: str, path: str) -> None:
        """Remember that a source of this run becomes a document."""
        self._paths.setdefault(source_hash, path)

    def find(self, source_hash: str) -> str | None:
        """Return the path of a document with this content; None if there is none."""
        if source_hash in self._paths:
            return self._paths[source_hash]
        if not (doc_ids := self._store.content_owners(self._scope, source_hash)):
            return None
        # Only a document that matches its checksum may decide that a file is not ingested.
        for document in self._store.documents(self._scope, named=doc_ids):
            if document.source_hash == source_hash and not document.damaged:
                return self._paths.setdefault(source_hash, document.shown_path)
        return None


class DraftMaker:
    """Makes drafts of sources. It writes nothing, so that a dry run can use it."""

    def __init__(self, deps: IngestDeps, scope: Scope) -> None:
        self._deps = deps
        self._scope = scope
        world = deps.store.find_world(scope.authority, scope.world)
        defaults = world.defaults if world else Defaults.CONTRACT
        self._preparation = deps.preparation.for_world(defaults)
        self._reader = MemberReader(deps)
        self._read_sidecar = deps.sources.read_sidecar
        self._copies = _CopyFinder(deps.store, scope)
        self._recipes: dict[tuple[DocumentOptions, Traits, int], tuple[ParseOptions, str]] = {}
        self._recorded_recipes: dict[tuple[object, ...], str] = {}

    def make(self, source: Source, known: Document | None) -> SourceDraft:
        """Return the draft of a source, of which `known` is the stored document.

        Raises SourceRefused.
        """
        if source.is_page and known is not None and not source.origin and is_page(known.origin):
            # A page that is now named by itself still belongs to its sitemap.
            source = replace(source, origin=known.origin)
        with self._deps.trace.stage(Stage.SOURCE):
            content = self._read(source, known)
        if content is None:
            return SourceDraft(self._unchanged_page(source, known))
        stated = source.declared
        if content.page is None:
            stated = declared_with_sidecar(self._read_sidecar, source)
            if (
                known is not None
                and stated == UNDECLARED
                and self._is_recorded(source, known, content)
            ):
                return SourceDraft()
        declared = _complete(stated, source, known, content)
        source = replace(source, declared=declared, shown_path=_shown_path(source, known))
        original = self._find_original(source, content) if known is None else None
        if original is not None and self._copies_of(source) is Copies.LINK:
            return SourceDraft(source, original=original)
        options, recipe = self._prepare(declared, content)
        if known is not None and _is_current(known, content.digest, recipe):
            return SourceDraft(source)
        loaded = self._parse(content, options)
        likeness = Likeness.OTHER
        may_be_novel = known is None and stated.kind is None and content.traits.plain
        if may_be_novel and self._preparation.recognises_novels:
            likeness = classify(loaded.blocks)
        if likeness is Likeness.NOVEL:
            source = replace(source, declared=replace(declared, kind=DocumentKind.BOOK))
            recipe = self._prepare(source.declared, content)[1]
        draft = make_draft(
            source,
            loaded,
            preparation=self._preparation,
            source_hash=content.digest,
            recipe=recipe,
            parser=self._deps.parser,
            counter=self._deps.counter,
            input_limit=self._scope.profile.input_limit,
            chunking=self._scope.generation.chunking,
            trace=self._deps.trace,
        )
        self._copies.add(content.digest, source.shown_path)
        return SourceDraft(source, _with_remarks(draft, content.page, likeness), original)

    def _read(self, source: Source, known: Document | None) -> _Content | None:
        """Return the content of a source; None for a page that its server says is unchanged."""
        page, line = None, 0
        if source.is_page:
            page = require_pages(self._deps.pages).fetch(
                source.path, self._validators(source, known)
            )
            if page.content is None:
                return None
            name = name_to_parse(source.name, page.content_type)
            data = with_encoding(page.content, page.content_type)
        else:
            name, data, line = self._reader.read(source)
        return _Content(
            name=name,
            data=data,
            digest=sha256(data).hexdigest(),
            traits=traits_of(name, data),
            line=line,
            page=page,
        )

    def _parse(self, content: _Content, options: ParseOptions) -> Loaded:
        with self._deps.trace.stage(Stage.BLOCKS):
            loaded = self._deps.parser.parse(content.name, content.data, options)
        if not content.line:
            return loaded
        first, *others = loaded.blocks
        first = replace(first, pages=(PageStart(0, content.line, "line"),))
        return replace(loaded, blocks=(first, *others))

    def _copies_of(self, source: Source) -> Copies:
        return source.declared.copies or self._preparation.copies

    def _find_original(self, source: Source, content: _Content) -> str | None:
        """Return the path of a document with the same content, or None.

        Raises SourceCopied if copies are refused.
        """
        original = self._copies.find(content.digest)
        if original is not None and self._copies_of(source) is Copies.REFUSE:
            raise SourceCopied(source.name, original)
        return original

    def _prepare(self, declared: DocumentOptions, content: _Content) -> tuple[ParseOptions, str]:
        """Return the parse options and the recipe of a source."""
        key = declared, content.traits, content.line
        prepared = self._recipes.get(key)
        if prepared is None:
            options = self._preparation.parse_options(declared, content.traits)
            recipe = self._preparation.recipe(
                declared,
                self._deps.counter,
                pictures=content.traits.pictures,
                parse_options=options,
                line=content.line,
            )
            prepared = self._recipes[key] = options, recipe
        return prepared

    def _is_recorded(self, source: Source, known: Document, content: _Content) -> bool:
        """Return whether a file without declared labels is stored as it is now.

        This is a shortcut: the rest of `make` has the same result, with more work for each file.
        """
        if known.source_hash != content.digest or known.quarantined or known.damaged:
            return False
        if source.origin or known.origin or not known.version:
            return False
        if _shown_path(source, known) != known.shown_path:
            return False
        # The members of `known.declared`, which would take longer to build than to look up.
        key = (
            *(known.kind, known.declared_title, known.declared_language, known.version),
            *(known.chunking, known.tags, known.source_url, known.metadata),
            *(content.traits, content.line),
        )
        recipe = self._recorded_recipes.get(key)
        if recipe is None:
            recipe = self._recorded_recipes[key] = self._prepare(known.declared, content)[1]
        return recipe == known.recipe

    def _validators(self, source: Source, known: Document | None) -> Validators | None:
        """Return the validators of a stored page; None if the page must be fetched in any case."""
        if known is None or known.staged is not None or known.quarantined or known.damaged:
            return None
        declared = self._unchanged_page(source, known).declared
        recipe, counter = self._preparation.recipe, self._deps.counter
        recipes = {recipe(declared, counter, pictures=pictures) for pictures in (True, False)}
        if known.recipe not in recipes:
            return None
        return self._deps.store.validators(self._scope, known.number)

    def _unchanged_page(self, source: Source, known: Document | None) -> Source:
        """Return a page whose content is unchanged, with all its declared labels."""
        declared = source.declared
        if known is not None:
            if not source.origin or is_page(source.origin):
                declared = declared.or_else(known.declared)
            declared = replace(
                declared,
                kind=declared.kind or known.kind,
                source_url=declared.source_url or known.source_url,
            )
        return replace(source, declared=declared, shown_path=_shown_path(source, known))


def _complete(
    declared: DocumentOptions, source: Source, known: Document | None, content: _Content
) -> DocumentOptions:
    """Return the declared labels, completed by the address, the stored labels and the kind."""
    if content.page is not None and declared.source_url is None:
        declared = replace(declared, source_url=content.page.url)
    if known is not None and (not source.origin or is_page(source.origin)):
        # A manifest line is complete; a command states only what changes.
        declared = declared.or_else(known.declared)
    if declared.kind is not None:
        return declared
    # A plain text keeps its kind: its readers must not notice how the text goes on.
    kept = known.kind if known is not None and content.traits.plain else content.traits.kind
    return replace(declared, kind=kept)


def _is_current(known: Document, digest: str, recipe: str) -> bool:
    unchanged = known.source_hash == digest and known.recipe == recipe
    return unchanged and not known.quarantined and not known.damaged


def _with_remarks(draft: Draft, page: Page | None, likeness: Likeness) -> Draft:
    if page is not None:
        draft = replace(draft, validators=Validators(page.etag, page.last_modified))
    if remark := LIKENESS_REMARKS.get(likeness):
        draft = replace(draft, notes=(*draft.notes, remark), remarks=(*draft.remarks, remark))
    return draft


def _shown_path(source: Source, known: Document | None) -> str:
    """Return the path to show: the stored one, unless the file moved or a longer path is known."""
    path = source.recorded_path
    found = source.shown_path or short_path(path)
    if known is None or known.damaged or known.path != path:
        return found
    before = known.shown_path
    return found if found.endswith(f"/{before}") else before
