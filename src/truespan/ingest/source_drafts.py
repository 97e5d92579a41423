"""From a source to the draft of a revision: read, compare with the store, parse, draft."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec.structs import replace

from truespan.errors import SourceRefused
from truespan.ingest.draft import Content, DraftTask, prepare, run_task
from truespan.ingest.members import MemberReader, declared_with_sidecar
from truespan.ingest.report import IngestDeps
from truespan.parsing import is_drawn
from truespan.parsing.detect import known_format
from truespan.tables import FileFormat
from truespan.types.audience import EVERYONE, Audience, find_rule
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
from truespan.types.text import Validators

if TYPE_CHECKING:
    from truespan.store import Store

OnContent: TypeAlias = Callable[[str], None]


class SourceDraft(NamedTuple):
    """A source, None if its labels are unchanged, and its draft unless the text is unchanged."""

    source: Source | None = None
    draft: Draft | None = None
    original: str | None = None
    """Path of another document with the same content; only for a new source."""
    kept: bytes | None = None
    """Content of an upload or a web page that can be shown as it looks: it has no other copy."""


class _CopyFinder:
    """Finds a stored or new document with the content of a new source."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store = store
        self._scope = scope
        self._paths: dict[tuple[str, Audience], str] = {}

    def add(self, source_hash: str, audience: Audience, path: str) -> None:
        self._paths.setdefault((source_hash, audience), path)

    def find(self, source_hash: str, audience: Audience) -> str | None:
        key = source_hash, audience
        if key in self._paths:
            return self._paths[key]
        if not (doc_ids := self._store.documents.content_owners(self._scope, source_hash)):
            return None
        # Only a document that matches its checksum may decide that a file is not ingested.
        for document in self._store.documents.all(self._scope, named=doc_ids):
            if (document.source_hash, document.audience) == key and not document.damaged:
                return self._paths.setdefault(key, document.shown_path)
        return None


class DraftMaker:
    """Makes drafts of sources. It writes nothing, so that a dry run can use it."""

    def __init__(self, deps: IngestDeps, scope: Scope) -> None:
        self._deps = deps
        self._scope = scope
        world = deps.store.worlds.find(scope.authority, scope.world)
        defaults = world.defaults if world else Defaults.CONTRACT
        self._world = world.name if world else ""
        self._default_audience = world.audience if world else None
        self._preparation = deps.preparation.for_world(defaults)
        self._reader = MemberReader(deps)
        # Looked up once: a run may read many files.
        self._read_file = deps.sources.read
        self._read_sidecar = deps.sources.read_sidecar
        self._copies = _CopyFinder(deps.store, scope)
        self._recipes: dict[tuple[DocumentOptions, FileFormat, int], tuple[ParseOptions, str]] = {}
        self._recorded_recipes: dict[tuple[object, ...], str] = {}

    def make(self, source: Source, known: Document | None) -> SourceDraft:
        """Return the draft of a source, of which `known` is the stored document."""
        prepared = self.prepare(source, known)
        if isinstance(prepared, SourceDraft):
            return prepared
        return self.complete(prepared, self.run(prepared))

    def run(self, task: DraftTask) -> Draft:
        deps = self._deps
        return run_task(task, deps.parser, deps.counter, deps.count_words, deps.trace)

    def prepare(
        self, source: Source, known: Document | None, on_content: OnContent = lambda _digest: None
    ) -> DraftTask | SourceDraft:
        """Return the task that makes the draft of a source, or the result if none is needed."""
        # `on_content` is called with the digest of the content before it is compared with others.
        if source.is_page and known is not None and not source.origin and is_page(known.origin):
            # A page that is now named directly still belongs to its sitemap.
            source = replace(source, origin=known.origin)
        with self._deps.trace.stage(Stage.SOURCE):
            page, content = self._read(source, known)
        if content is None:
            return SourceDraft(self._unchanged_page(source, known))
        stated = source.declared
        if page is None:
            stated = declared_with_sidecar(self._read_sidecar, source)
        declared = _complete(stated, source, known, content, page)
        audience = self._audience_of(stated.audience, source, known)
        declared = replace(declared, audience=audience)
        source = replace(source, declared=declared, shown_path=_shown_path(source, known))
        on_content(content.digest)
        original = self._find_original(source, content) if known is None else None
        if original is not None and self._copies_of(source) is Copies.LINK:
            return SourceDraft(source, original=original)
        options, recipe = self._prepare(declared, content)
        if (
            known is not None
            and (known.source_hash, known.recipe) == (content.digest, recipe)
            and not (known.quarantined or known.damaged)
        ):
            return SourceDraft(source)
        may_be_novel = known is None and stated.kind is None and content.format.may_be_novel
        return DraftTask(
            source=source,
            content=content,
            options=options,
            recipe=recipe,
            preparation=self._preparation,
            input_limit=self._scope.profile.input_limit,
            chunking=self._scope.generation.chunking,
            may_be_novel=may_be_novel and not self._preparation.plain,
            validators=Validators(page.etag, page.last_modified) if page else None,
            original=original,
            counts_words=self._deps.count_words is not None,
        )

    def is_recorded(self, source: Source, known: Document) -> bool:
        """Return whether a file without declared labels is stored unchanged."""
        # This is a shortcut for the many files of a folder that are unchanged: if it returns False,
        # `make` decides, with more work for each file. A sidecar that was added since the folder
        # was listed is noticed by the next run.
        if source.member or source.upload or source.refusal or source.declared != UNDECLARED:
            return False
        if source.origin or known.origin or not known.version:
            return False
        if known.quarantined or known.damaged:
            return False
        is_same_path = (source.shown_path, source.path) == (known.shown_path, known.path)
        if not is_same_path and _shown_path(source, known) != known.shown_path:
            return False
        if self._audience_by_rule(source, known) not in (None, known.audience):
            return False
        try:
            if not source.no_sidecar and (source.is_page or self._read_sidecar(source) is not None):
                return False
            data = self._read_file(source)
        except SourceRefused:
            return False
        if sha256(data).hexdigest() != known.source_hash:
            return False
        format = known_format(source.name, data)
        # The members of `known.declared`, which would take longer to build than to look up.
        key = (
            *(known.kind, known.declared_title, known.declared_language, known.version),
            *(known.chunking, known.tags, known.source_url, known.metadata, format),
        )
        recipe = self._recorded_recipes.get(key)
        if recipe is None:
            content = Content(source.name, data, known.source_hash, format)
            recipe = self._recorded_recipes[key] = self._prepare(known.declared, content)[1]
        return recipe == known.recipe

    def _audience_of(
        self, stated: Audience | None, source: Source, known: Document | None
    ) -> Audience:
        """Return the audience stated, by a rule, of the stored document, or by default."""
        # Even a manifest line without an audience must not show a document to more callers.
        if stated is not None:
            return stated
        by_rule = self._audience_by_rule(source, known)
        if by_rule is not None:
            return by_rule
        if known is not None:
            return known.audience
        default = self._default_audience
        if default is None or (self._preparation.require_audience and default == (EVERYONE,)):
            raise SourceRefused("audience_missing", source.name)
        return default

    def _audience_by_rule(self, source: Source, known: Document | None) -> Audience | None:
        rules = self._preparation.audiences
        return find_rule(rules, self._world, _shown_path(source, known)) if rules else None

    def complete(self, task: DraftTask, draft: Draft) -> SourceDraft:
        source, content = task.source, task.content
        self._copies.add(draft.source_hash, draft.audience, source.shown_path)
        kept = None
        if (source.upload or source.is_page) and is_drawn(content.name, content.data):
            kept = content.data
        return SourceDraft(source, draft, task.original, kept)

    def _read(self, source: Source, known: Document | None) -> tuple[Page | None, Content | None]:
        """Return a page, if it is one, and the content of a source."""
        # The content is None for a page that its server says is unchanged.
        page, line = None, 0
        if source.is_page:
            pages = self._deps.require_pages()
            page = pages.fetch(source.path, self._validators(source, known))
            if page.content is None:
                return page, None
            name, data = page.name, page.content
        else:
            name, data, line = self._reader.read(source)
        digest = sha256(data).hexdigest()
        return page, Content(name, data, digest, known_format(name, data), line)

    def _copies_of(self, source: Source) -> Copies:
        return source.declared.copies or self._preparation.copies

    def _find_original(self, source: Source, content: Content) -> str | None:
        """Return the path of a document with the same content, or None."""
        original = self._copies.find(content.digest, source.declared.audience or ())
        if original is not None and self._copies_of(source) is Copies.REFUSE:
            raise SourceRefused(
                "source_copied", source.name, reason=f"has the same content as {original}"
            )
        return original

    def _prepare(self, declared: DocumentOptions, content: Content) -> tuple[ParseOptions, str]:
        key = declared, content.format, content.line
        prepared = self._recipes.get(key)
        if prepared is None:
            prepared = prepare(self._preparation, declared, content, self._deps.counter)
            self._recipes[key] = prepared
        return prepared

    def _validators(self, source: Source, known: Document | None) -> Validators | None:
        """Return the validators of a stored page; None if the page must be fetched in any case."""
        if known is None or known.staged is not None or known.quarantined or known.damaged:
            return None
        declared = self._unchanged_page(source, known).declared
        recipe, counter = self._preparation.recipe, self._deps.counter
        recipes = {recipe(declared, counter, pictures=pictures) for pictures in (True, False)}
        if known.recipe not in recipes:
            return None
        return self._deps.store.revisions.validators(self._scope, known.number)

    def _unchanged_page(self, source: Source, known: Document | None) -> Source:
        """Return a page whose content is unchanged, with all its declared labels."""
        declared = source.declared
        if known is not None:
            if not source.origin or is_page(source.origin):
                declared = declared.or_else(known.declared)
            declared = replace(
                declared,
                kind=declared.kind or known.kind,
                audience=known.audience if declared.audience is None else declared.audience,
                source_url=declared.source_url or known.source_url,
            )
        return replace(source, declared=declared, shown_path=_shown_path(source, known))


def _complete(
    declared: DocumentOptions,
    source: Source,
    known: Document | None,
    content: Content,
    page: Page | None,
) -> DocumentOptions:
    """Return the declared labels, completed by the address, the stored labels and the kind."""
    if page is not None and declared.source_url is None:
        declared = replace(declared, source_url=page.url)
    if known is not None and (not source.origin or is_page(source.origin)):
        # A manifest line is complete; a command states only what changes.
        declared = declared.or_else(known.declared)
    if declared.kind is not None:
        return declared
    # A plain text keeps its kind: its readers must not notice changes further on.
    if known is not None and content.format.may_be_novel:
        return replace(declared, kind=known.kind)
    kind = DocumentKind.BOOK if content.format.is_book else DocumentKind.DOCUMENT
    return replace(declared, kind=kind)


def _shown_path(source: Source, known: Document | None) -> str:
    """Return the path to show: the stored one, unless the file moved or a longer path is known."""
    path = source.recorded_path
    found = source.shown_path or short_path(path)
    if known is None or known.damaged or known.path != path:
        return found
    before = known.shown_path
    return found if found.endswith(f"/{before}") else before
