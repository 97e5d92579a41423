"""Every error Truespan raises, in one tree. The family says who must act.

    TruespanError
    ├── CallerError              the request must change
    │   ├── InvalidArgument        an argument has a wrong type or is out of range
    │   ├── BlankQuery, QueryTooLong
    │   ├── WorldNotNamed          the request names no world, and there is not exactly one
    │   ├── NotFound               absent, or not visible to this caller: the same answer
    │   │   ├── WorldNotFound, DocumentNotFound, ChunkNotFound, ImageNotFound, TokenNotFound
    │   │   ├── JobNotFound, DomainNotFound, GenerationNotFound, RecordNotFound
    │   │   ├── ConversationNotFound
    │   │   └── PositionNotFound, PassageNotFound, RouteNotFound
    │   ├── DocumentAmbiguous      the name is that of several documents
    │   ├── PassageAmbiguous       the passage occurs more than once
    │   ├── ScopeViolation         no result is related to the selected text
    │   ├── NotAllowed, Unauthorized
    │   ├── ConversationsOff       the operator does not keep conversations
    │   ├── WorldExists, WorldBusy, JobNotResumable
    │   ├── GenerationInUse, GenerationIncomplete, PromotionRefused
    │   ├── ManifestInvalid, GoldenInvalid, BackupInvalid
    │   ├── MethodNotAllowed, MediaTypeUnsupported, RequestTooLarge, HostRefused, OriginRefused
    │   ├── TooManyRequests        of this caller; retryable
    │   ├── KeyReused, KeyBusy     idempotency keys; a busy one is retryable
    │   └── SourceRefused          a file that cannot become a document
    │       ├── SourceMissing, SourceOutside, SourceUnreadable, SourceUnsupported, SourceNotText
    │       ├── SourceEmpty, SourceCopied, SourceTooLarge, SourceEncrypted, SourceScanned
    │       ├── SourceBroken, SourceUnsafe, SourceTooCostly, AssetsTaken, LoaderCrashed, PageRefused
    │       ├── PageUnavailable    its server did not answer as it should; retryable
    │       └── LoaderNotStarted   nothing is wrong with the file; retryable
    ├── OperatorError            settings or the installation must change
    │   ├── InvalidConfiguration, CredentialsMissing, ModelUnavailable, ProfileMismatch
    │   ├── LibraryNotFound, LibraryTooNew, LibraryTooOld
    │   ├── StoreOutdated, StoreUnsafe, MigrationRefused
    │   ├── IndexSchemaMismatch, IndexKeyRefused
    │   ├── ModelDrifted           the provider changed the model under the same name
    │   ├── StorageFull            no room is left, or less than the reserve
    │   └── TooManyOpenFiles       no file descriptor is free; retryable
    ├── ServiceError             something Truespan depends on failed
    │   ├── ProviderUnavailable    retryable
    │   │   └── ProviderCoolingDown  every key is rate limited
    │   ├── ProviderRefused
    │   │   ├── BatchTooLarge        fewer texts in one request may work
    │   │   └── TextTooLong          one text exceeds the model's input limit
    │   ├── ProviderBadReply       vectors or JSON that cannot be right
    │   ├── IndexUnavailable       retryable
    │   │   └── IndexIncomplete      points are lost; they are written again
    │   ├── IndexRefused
    │   ├── StoreBusy              another process holds the store; retryable
    │   │   └── StoreUnavailable     its server does not answer
    │   ├── DeadlineExceeded       retryable
    │   └── Overloaded             too many requests are waiting; retryable
    ├── DamageError              Truespan's own files are not what it wrote
    │   └── StoreDamaged
    ├── Interrupted              stopped on request; the same command continues
    │   └── Cancelled              the same for a job
    └── InternalError            a bug in Truespan

Messages are built from typed arguments. They never contain document text, query text or keys.
This module imports nothing from the package.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence

_WORLDS_LISTED = 10
MAX_MATCHES = 10
"""So many documents of one name are listed."""


class TruespanError(Exception):
    """Root of all errors. `code` is stable; `advice` says what to do next."""

    code = "internal_error"
    retryable = False
    text = ""
    """The message of an error that needs no arguments."""
    advice = ""

    def __init__(self, message: str | None = None, *, advice: str | None = None) -> None:
        self.message = self.text if message is None else message
        super().__init__(self.message)
        if advice is not None:
            self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


class CallerError(TruespanError):
    """Family of errors that the caller solves by changing the request."""

    code = "invalid_request"


class OperatorError(TruespanError):
    """Family of errors that the operator solves in the settings or the installation."""

    code = "operator_error"


class ServiceError(TruespanError):
    """Family of failures of a service that Truespan depends on."""

    code = "service_error"


class DamageError(TruespanError):
    """Family of errors for damaged files of the library."""

    code = "damage"


class StoreDamaged(DamageError):
    """A database that cannot be read, or stored data that does not match its hash."""

    code = "store_damaged"
    advice = (
        "'truespan doctor' shows what is damaged, 'truespan doctor --apply' repairs what it can. "
        "Ingest the other documents again, or restore a backup."
    )


class Interrupted(TruespanError):
    """Work that was stopped on request; the same command continues it."""

    code = "interrupted"
    retryable = True
    text = "Stopped. Everything done so far is kept."
    advice = "Run the same command again to continue."


class Cancelled(Interrupted):
    """A cancelled job, which can be resumed."""

    code = "cancelled"


class InternalError(TruespanError):
    """An unexpected exception: a bug in Truespan."""

    code = "internal_error"
    advice = "Run again with TRUESPAN_DEBUG=1 to see the traceback."

    def __init__(self, kind: str) -> None:
        super().__init__(f"An unexpected {kind} occurred; this is a bug in Truespan.")


# Errors of a request


class InvalidArgument(CallerError):
    """An argument with a wrong type, or a value out of range."""

    code = "invalid_argument"


class BlankQuery(CallerError):
    """A query without text."""

    code = "blank_query"
    text = "The query is empty."
    advice = "Pass a question or some words."


class QueryTooLong(InvalidArgument):
    """A query with more tokens or characters than are accepted."""

    code = "query_too_long"
    advice = "Shorten the query."

    def __init__(self, count: int, limit: int, unit: str = "tokens") -> None:
        by = "the embedding model accepts" if unit == "tokens" else "the limit is"
        super().__init__(f"The query has {count} {unit}; {by} {limit}.")
        self.count, self.limit, self.unit = count, limit, unit


class NotFound(CallerError):
    """The answer is the same for what is absent and for what this caller may not see."""

    kind = ""
    """What was looked for, with where: "document in this world"."""

    def __init__(self, reference: str = "") -> None:
        thing, _, place = self.kind.partition(" in ")
        where = f" in {place}" if place else " here"
        super().__init__(f"There is no {thing} {reference!r}{where}." if thing else None)


class WorldNotFound(NotFound):
    """A world that does not exist, or that the caller may not see."""

    code = "world_not_found"
    kind = "world"
    advice = "'truespan status' lists the worlds; 'truespan init --world NAME' creates one."


class WorldNotNamed(InvalidArgument):
    """A request without a world, where there is not exactly one."""

    code = "world_not_named"
    advice = "Name one of them."

    def __init__(self, names: Sequence[str]) -> None:
        if not names:
            message = "There is no world here yet."
            self.advice = "Create one with 'truespan init --world NAME'."
        elif len(names) > _WORLDS_LISTED:
            message = f"There are {len(names)} worlds here."
        else:
            message = f"There are {len(names)} worlds here: {', '.join(names)}."
        super().__init__(message)
        self.names = tuple(names)


class DocumentNotFound(NotFound):
    """A reference that matches no document."""

    code = "document_not_found"
    kind = "document in this world"
    advice = "'truespan status --world NAME' lists its documents."


class ChunkNotFound(NotFound):
    """A chunk that the world does not have."""

    code = "chunk_not_found"
    kind = "chunk in this world"


class JobNotFound(NotFound):
    """A job that the world does not have."""

    code = "job_not_found"
    kind = "job in this world"
    advice = "'truespan jobs list' shows them."


class DomainNotFound(NotFound):
    """A domain that does not exist, or whose world the caller may not see."""

    code = "domain_not_found"
    kind = "domain"
    advice = "'truespan domains' lists them."


class GenerationNotFound(NotFound):
    """A generation that the world does not have."""

    code = "generation_not_found"
    advice = "'truespan generations' lists them."

    def __init__(self, number: int) -> None:
        TruespanError.__init__(self, f"This world has no generation {number}.")


class RecordNotFound(NotFound):
    """A record that the usage log does not have."""

    code = "record_not_found"
    kind = "record in the usage log of this world"
    advice = "'truespan usage' lists the records."


class ConversationNotFound(NotFound):
    """A conversation that does not exist, or that the caller may not see."""

    code = "conversation_not_found"
    kind = "conversation"
    advice = "Begin a new one: leave the id out."


class ImageNotFound(NotFound):
    """An image that does not exist, is of another world, or is not read yet."""

    code = "image_not_found"
    text = "There is no such image here."


class TokenNotFound(NotFound):
    """A token that does not exist."""

    code = "token_not_found"
    text = "There is no token with that id or name."
    advice = "'truespan token list' shows them."


class PositionNotFound(NotFound):
    """A book without a recorded reading position."""

    code = "no_reading_position"
    text = "No reading position is recorded, so nothing is readable."
    advice = "The owner records one with 'truespan reader set'."


class PassageNotFound(NotFound):
    """A passage that does not occur in the document."""

    code = "passage_not_found"
    text = "This document does not contain that passage."
    advice = "Pass a few more words, exactly as they appear in the text."


class RouteNotFound(NotFound):
    """An endpoint that the server does not have."""

    code = "route_not_found"
    text = "There is no such endpoint."
    advice = "/openapi.json lists all endpoints."


class DocumentAmbiguous(CallerError):
    """A name of several documents; `matches` has what to write instead."""

    code = "document_ambiguous"
    advice = "Use one of these paths, a longer one, or the number."

    def __init__(self, reference: str, matches: Sequence[tuple[int, str]]) -> None:
        self.matches = tuple(matches)
        listed = [f"{path} (number {number})" for number, path in self.matches[:MAX_MATCHES]]
        more = len(self.matches) - MAX_MATCHES
        listed += [f"{more} more"] if more > 0 else []
        super().__init__(f"{len(self.matches)} documents match {reference!r}: {', '.join(listed)}.")


class PassageAmbiguous(CallerError):
    """A passage that occurs more than once."""

    code = "passage_ambiguous"
    advice = "Pass a longer passage."

    def __init__(self, count: int) -> None:
        super().__init__(f"The document contains this passage {count} times.")


class ScopeViolation(CallerError):
    """A query whose results are unrelated to the selected text."""

    code = "scope_violation"
    text = "No result for the query is related to the selected text."
    advice = "Select another passage, or ask without a selection."


class NotAllowed(CallerError):
    """A request beyond the rights of the caller."""

    code = "not_allowed"

    advice = "Use a token with that permission; the owner creates tokens."

    def __init__(self, verb: str) -> None:
        super().__init__(f"This caller may not {verb} here.")


class ConversationsOff(CallerError):
    """Conversations, where the operator turned them off."""

    code = "conversations_off"
    text = "Conversations are turned off here."
    advice = "Ask without a conversation; the operator allows them with 'conversations = true'."


class Unauthorized(CallerError):
    """A missing, unknown, wrong, expired or revoked token; the reply is the same."""

    code = "unauthorized"
    text = "This needs a valid token."
    advice = "Send it as 'Authorization: Bearer TOKEN'; the owner creates tokens."


class WorldExists(CallerError):
    """The name of a world that exists already."""

    code = "world_exists"
    advice = "Choose another name."

    def __init__(self, name: str) -> None:
        super().__init__(f"A world named {name!r} already exists.")


class WorldBusy(CallerError):
    """A world that cannot be deleted while one of its jobs is running."""

    code = "world_busy"
    advice = "Wait for it, or stop it with 'truespan jobs cancel'."

    def __init__(self, world: str, job: str) -> None:
        super().__init__(f"The job {job} of world {world!r} is running.")


class JobNotResumable(CallerError):
    """A job that is running or done."""

    code = "job_not_resumable"

    def __init__(self, reference: str, state: str) -> None:
        super().__init__(f"The job {reference!r} is {state}, so there is nothing to resume.")


class GenerationInUse(CallerError):
    """A generation that cannot be removed while an alias names it."""

    code = "generation_in_use"
    advice = "Move it to another generation first."

    def __init__(self, number: int, names: str) -> None:
        super().__init__(f"Generation {number} is in use by {names}.")


class GenerationIncomplete(CallerError):
    """A generation without some documents or vectors, which cannot be put into use."""

    code = "generation_incomplete"

    def __init__(self, number: int, missing: int, pending: int) -> None:
        super().__init__(
            f"Generation {number} lacks {missing} documents and {pending} vectors.",
            advice=f"'truespan reindex --generation {number}' completes it.",
        )


class PromotionRefused(CallerError):
    """A generation that is worse than the current one, or could not be verified.

    `report` is that of the ingestion that it belongs to, if there is one.
    """

    code = "promotion_refused"

    def __init__(
        self, message: str, *, advice: str | None = None, report: object | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.report = report


class _InvalidLines(CallerError):
    """Lines of a file that cannot be used. `lines` are numbers with what is wrong there."""

    def __init__(self, name: str, lines: list[tuple[int, str]]) -> None:
        listed = "; ".join(f"line {number}: {reason}" for number, reason in lines[:10])
        more = f"; and {len(lines) - 10} more" if len(lines) > 10 else ""
        super().__init__(f"{name}: {listed}{more}.")
        self.lines = lines


class ManifestInvalid(_InvalidLines):
    """A manifest with wrong lines; `lines` has their numbers and reasons."""

    code = "manifest_invalid"
    advice = "Nothing of it was ingested."


class GoldenInvalid(_InvalidLines):
    """Wrong golden queries; `lines` has their numbers and reasons."""

    code = "golden_invalid"
    advice = "None of its queries was used."


class BackupInvalid(CallerError):
    """A file that is not a backup, or has changed since it was written."""

    code = "backup_invalid"
    advice = "Nothing of it was used. Take another copy of the backup, or an earlier one."


# Errors of requests over HTTP


class MethodNotAllowed(CallerError):
    """A method that the address does not take; `allowed` has those it takes."""

    code = "method_not_allowed"

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(
            "This endpoint does not accept that method.", advice=f"Use {', '.join(self.allowed)}."
        )


class MediaTypeUnsupported(CallerError):
    """An unsupported Content-Type."""

    code = "media_type_unsupported"

    def __init__(self, wanted: str) -> None:
        super().__init__("Unsupported Content-Type.", advice=f"Send {wanted}.")


class RequestTooLarge(CallerError):
    """A body, upload or query string above its limit."""

    code = "request_too_large"
    advice = "Send less at once."

    def __init__(self, limit: int, part: str = "body", *, setting: str = "") -> None:
        """`setting` is the one that sets the limit, if it can be changed."""
        raised = f"Send less at once, or raise {setting} in the server's settings."
        super().__init__(
            f"The {part} of the request has more than {limit} bytes.",
            advice=raised if setting else None,
        )
        self.limit = limit


class HostRefused(CallerError):
    """A Host header that is not a name of this server."""

    code = "host_refused"
    text = "This server does not answer under that host name."
    advice = "Use its address, or add the name to http_hosts in the server's settings."


class OriginRefused(CallerError):
    """A request from a page of another origin."""

    code = "origin_refused"
    text = "Pages of that origin may not call this server."
    advice = "Add the origin to http_origins in the server's settings."


class TooManyRequests(CallerError):
    """More requests than the rate limit of the token allows."""

    code = "too_many_requests"
    retryable = True

    def __init__(self, retry_after: float) -> None:
        super().__init__(
            "This caller exceeded its request rate.",
            advice=f"Wait {retry_after:.0f} s, and send requests more slowly.",
        )
        self.retry_after = retry_after


class KeyReused(CallerError):
    """An idempotency key that was used for a different request."""

    code = "idempotency_key_reused"
    text = "This idempotency key was used for another request."
    advice = "Create a new key for each new request."


class KeyBusy(CallerError):
    """An idempotency key whose first request is still running."""

    code = "idempotency_key_busy"
    retryable = True
    retry_after = 1.0
    text = "The first request with this idempotency key is still running."
    advice = "Try again in a moment."


# Errors of sources


class SourceRefused(CallerError):
    """Family of errors for a file that cannot be ingested."""

    code = "source_refused"
    reason = "cannot be read"

    def __init__(self, name: str, *, advice: str | None = None) -> None:
        super().__init__(f"{name}: {self.reason}.", advice=advice)
        self.name = name


class SourceMissing(SourceRefused):
    """A file or folder that does not exist."""

    code = "source_missing"
    reason = "no such file or folder"


class SourceOutside(SourceRefused):
    """A path outside of the folders that files may be read from."""

    code = "source_outside"
    reason = "not below a folder that files may be read from"


class SourceUnreadable(SourceRefused):
    """A file that cannot be opened."""

    code = "source_unreadable"
    reason = "cannot be opened"


class SourceUnsupported(SourceRefused):
    """A file of an unsupported format."""

    code = "source_unsupported"
    reason = "unsupported file type"
    advice = (
        "Text, Markdown, HTML, DOCX, ODT, RTF, PPTX, ODP, EPUB, PDF, spreadsheets, CSV, JSON, "
        "e-mail, notebooks, source code and ZIP can be ingested."
    )


class SourceNotText(SourceRefused):
    """A file that is named as text, but whose bytes are not text."""

    code = "source_not_text"
    reason = "named like a text file, but its bytes are not text"
    advice = "Save it as UTF-8 text."


class PageRefused(SourceRefused):
    """A web page whose address, robots.txt or server does not allow fetching it."""

    code = "page_refused"
    reason = "may not be fetched"


class PageUnavailable(SourceRefused):
    """A web page whose server did not answer as expected."""

    code = "page_unavailable"
    reason = "could not be fetched"
    retryable = True
    advice = "Try again later."


class SourceEmpty(SourceRefused):
    """A file without text."""

    code = "source_empty"
    reason = "contains no text"


class SourceCopied(SourceRefused):
    """A file with the content of another document, where copies are refused."""

    code = "source_copied"
    reason = "has the same content as another document"
    advice = "Remove it, or ingest it with copies='keep' (--copies keep)."

    def __init__(self, name: str, original: str = "", *, advice: str | None = None) -> None:
        if original:
            self.reason = f"has the same content as {original}"
        super().__init__(name, advice=advice)


class SourceTooLarge(SourceRefused):
    """A file above a limit on sizes or counts."""

    code = "source_too_large"
    reason = "larger than a document may be"
    advice = "Split it into smaller files."


class SourceEncrypted(SourceRefused):
    """A file with a password or DRM."""

    code = "source_encrypted"
    reason = "protected by a password"
    advice = "Save a copy without the password."


OCR_ADVICE = (
    'Text in pictures is recognised with the setting ocr = "auto", or with --ocr, and the extra '
    "that it needs: pip install 'truespan[ocr]'."
)


class SourceScanned(SourceRefused):
    """A file with page images and no text."""

    code = "source_scanned"
    reason = "contains pictures of pages and no text"
    advice = OCR_ADVICE


class SourceBroken(SourceRefused):
    """A damaged file."""

    code = "source_broken"
    reason = "damaged, or not the format it claims to be"
    advice = "Open it with the program that made it and save it again."


class SourceUnsafe(SourceRefused):
    """A file built in a way that could do harm."""

    code = "source_unsafe"
    reason = "built in a way that could do harm"
    advice = "Do not trust where it came from."


class SourceTooCostly(SourceRefused):
    """A file that exceeded the time or memory limit for reading."""

    code = "source_too_costly"
    reason = "reading it takes more time or memory than is allowed"
    advice = "Split it, or raise loader_cpu_seconds or loader_memory_mib."


class SidecarInvalid(SourceRefused):
    """A faulty description beside a document."""

    code = "sidecar_invalid"
    reason = "cannot be used"
    advice = "Correct it or remove it, and ingest the document again."

    def __init__(self, name: str, fault: str) -> None:
        self.reason = fault
        super().__init__(name)


class RecordInvalid(SourceRefused):
    """A record or member of a file with a label that cannot be used."""

    code = "record_invalid"
    reason = "the record cannot be used"
    advice = "Correct it in the file that it is in, and ingest that again."


class FieldsInvalid(SourceRefused):
    """Declared fields that the records of a file do not have."""

    code = "fields_invalid"
    reason = "the fields that are declared for it do not fit"
    advice = "Name fields that the records have."


class AssetsTaken(SourceRefused):
    """Images whose folder belongs to a document of another world."""

    code = "assets_taken"
    reason = "the folder for its images belongs to a document of the same id in another world"
    advice = "Give it another doc_id, or set RAG_ASSETS_DIR to another folder."


class LoaderCrashed(SourceRefused):
    """A file whose parser process died."""

    code = "loader_crashed"
    reason = "the process that parsed it ended without a result"
    advice = "Ingest it once more. If that fails too, please report the file as a bug."


class LoaderNotStarted(SourceRefused):
    """A parser process that could not start in time; nothing is wrong with the file."""

    code = "loader_not_started"
    retryable = True
    reason = "the process that parses it could not start in time"
    advice = "The machine is overloaded or short of memory; ingest it again."


def source_refusal(kind: str, name: str, advice: str | None = None) -> SourceRefused:
    """Return the refusal with this class name, which may come from a process that is not trusted;
    LoaderCrashed if there is none."""
    kinds = {known.__name__: known for known in (SourceRefused, *SourceRefused.__subclasses__())}
    kinds.pop(SidecarInvalid.__name__)
    return kinds.get(kind, LoaderCrashed)(name, advice=advice)


# Errors of settings and the installation


class InvalidConfiguration(OperatorError):
    """An unknown or wrong setting or chunking profile."""

    code = "invalid_configuration"


class LibraryNotFound(OperatorError):
    """A folder without a library, or where none can be created."""

    code = "library_not_found"
    advice = "Create one with 'truespan init'."

    def __init__(self, path: str) -> None:
        super().__init__(f"There is no library at {path}.")


class LibraryTooNew(OperatorError):
    """A library that a newer version of Truespan wrote."""

    code = "library_too_new"
    advice = "Update Truespan."

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"The library has schema {found}; this version supports schemas up to {known}."
        )


class LibraryTooOld(OperatorError):
    """A library from before the first release, which cannot be migrated."""

    code = "library_too_old"
    advice = "Create a new library, and ingest the sources again."

    def __init__(self, found: int, oldest: int) -> None:
        super().__init__(
            f"The library has schema {found}; this version supports schemas from {oldest} on."
        )


class StoreOutdated(OperatorError):
    """Tables in PostgreSQL from an earlier version."""

    code = "store_outdated"
    advice = "Run 'truespan prepare-store'."

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(f"The store has schema {found}; this version needs schema {needed}.")


class StoreUnsafe(OperatorError):
    """A database that would not isolate worlds: its version, role or policies."""

    code = "store_unsafe"


class MigrationRefused(OperatorError):
    """A migration target that holds something else, or differs from the source."""

    code = "migration_refused"


class ModelUnavailable(OperatorError):
    """A model whose files are missing or wrong."""

    code = "model_unavailable"


class ProfileMismatch(OperatorError):
    """A world that was built with another embedding model."""

    code = "profile_mismatch"
    advice = "Configure the world's embedder, or build a new generation with this one."

    def __init__(self, built_with: str, configured: str) -> None:
        super().__init__(
            f"The world was built with {built_with}; the configured embedder is {configured}."
        )


class IndexSchemaMismatch(OperatorError):
    """An index with vectors of another shape."""

    code = "index_schema_mismatch"
    advice = "'truespan doctor --apply' rebuilds the index from the store."

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(
            f"The index holds vectors of {found}; the world's profile needs {expected}."
        )
        self.expected, self.found = expected, found


class IndexKeyRefused(OperatorError):
    """A key that the Qdrant server does not accept, or no key."""

    code = "index_key_refused"
    advice = "Set QDRANT_API_KEY, or add [[keys]] for qdrant; see docs/several-machines.md."

    def __init__(self, status: str, forbidden: str | None = None) -> None:
        """`forbidden` is what a key that the server knows does not allow."""
        if forbidden is None:
            super().__init__(f"The index server refused the API key, or needs one ({status}).")
            return
        super().__init__(
            f"The key of the index server is read-only: it may not {forbidden} ({status}).",
            advice="Use a key that may write to the collections of this library.",
        )


class IndexNotOwned(OperatorError):
    """A collection on the Qdrant server that belongs to another library."""

    code = "index_not_owned"
    advice = (
        "Set another qdrant_prefix for this library. If the other library is gone, or this one is "
        "a copy that replaces it, run 'truespan doctor --claim-index'."
    )

    def __init__(self) -> None:
        super().__init__("The collection on the index server belongs to another library.")


class CredentialsMissing(OperatorError):
    """A configured model without an enabled key."""

    code = "credentials_missing"
    advice = "Set one in the environment or in a key file; see docs/providers.md."

    def __init__(self, provider: str, model: str) -> None:
        super().__init__(f"No enabled key for {provider} may use the model {model!r}.")


class ModelDrifted(OperatorError):
    """A provider's model that changed since the world was built."""

    code = "model_drifted"
    advice = "The provider changed the model. Build a new generation, or go back to the old model."

    def __init__(self, profile: str) -> None:
        super().__init__(
            f"{profile} embeds known texts differently than when this world was built."
        )


class StorageFull(OperatorError):
    """Free space below the reserve, or a write that met a full disk or a quota."""

    code = "storage_full"
    advice = "Free some space, then run the same command again."

    def __init__(self, free: int = 0, reserve: int = 0, *, place: str = "") -> None:
        """Without a reserve, a write was refused; `place` says where, if not on this machine."""
        if reserve:
            # Rounded up, so that less than 1 MiB is not 0.
            needed = -(-reserve >> 20)
            text = (
                f"Only {free >> 20} MiB are free on the disk; this needs {needed} MiB, "
                "with the reserve that disk_reserve_mib sets."
            )
        elif place:
            text = f"The disk of {place} is full."
        else:
            text = "A write was refused: the disk is full, or a quota or a file size limit reached."
        super().__init__(text)
        self.free, self.reserve = free, reserve


class TooManyOpenFiles(OperatorError):
    """All file descriptors of the process or the machine are in use."""

    code = "too_many_open_files"
    retryable = True
    retry_after = 1.0
    text = "No file or connection can be opened: all file descriptors are in use."
    advice = "Try again in a moment. If it lasts, raise the limit (ulimit -n, LimitNOFILE)."


# Errors of services


class _Unavailable(ServiceError):
    """A service did not answer, or asked for a pause of `retry_after` seconds."""

    retryable = True

    def __init__(
        self, message: str, *, retry_after: float | None = None, advice: str | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.retry_after = retry_after


class ProviderUnavailable(_Unavailable):
    """A provider that did not respond."""

    code = "provider_unavailable"
    advice = "Try again in a moment."


class ProviderCoolingDown(ProviderUnavailable):
    """A provider all of whose keys wait after too many requests."""

    code = "provider_cooldown"


class ProviderRefused(ServiceError):
    """A request that the provider refused."""

    code = "provider_refused"
    advice = "Check the base URL, the model and the key in the settings of the provider."


class BatchTooLarge(ProviderRefused):
    """A text that is too large for a request of its own."""

    code = "provider_batch_too_large"
    advice = "Lower embedding_batch_items or embedding_max_tokens_per_batch."


class TextTooLong(ProviderRefused):
    """A text that is longer than the model reads."""

    code = "provider_text_too_long"
    advice = "Shorten the query, or choose smaller chunks."


class ProviderBadReply(ServiceError):
    """Invalid vectors or an incomplete reply of a provider."""

    code = "provider_bad_reply"
    advice = "Check that the base URL leads to a server of the configured kind, and its log."


class IndexUnavailable(_Unavailable):
    """An index that did not respond."""

    code = "index_unavailable"
    advice = "Try again; the index process is restarted on demand."


class IndexIncomplete(IndexUnavailable):
    """An empty result of an index that lost points; they are being written again."""

    code = "index_incomplete"
    advice = (
        "They are written again from the store in the background, without a provider: try again in "
        "a moment, or run 'truespan repair'."
    )

    def __init__(self, missing: int, stored: int) -> None:
        super().__init__(f"The index lacks {missing} of {stored} chunks that are embedded.")


class IndexRefused(ServiceError):
    """A request that the index refused."""

    code = "index_refused"


class StoreBusy(ServiceError):
    """A store that another process is writing to, or whose connection was lost."""

    code = "store_busy"
    retryable = True
    text = "Another process is writing to the store."
    advice = "Try again in a moment."


class StoreUnavailable(StoreBusy):
    """A PostgreSQL server that does not answer."""

    code = "store_unavailable"
    text = "The server of the store does not answer."
    advice = "Check host and port, and that the server runs; then try again."


class DeadlineExceeded(ServiceError):
    """A request or body that took too long."""

    code = "deadline_exceeded"
    retryable = True
    advice = "Try again, or ask for less; http_timeout_seconds sets the limit."

    def __init__(self, seconds: float, part: str = "") -> None:
        """`part` is what of the request did not arrive in time, if that was the reason."""
        if part:
            text = f"The {part} of the request did not arrive within {seconds:g} s."
            super().__init__(text, advice="Send it again, faster or in smaller parts.")
        else:
            super().__init__(f"The request took longer than {seconds:g} s.")


class Overloaded(ServiceError):
    """No capacity for another request or job, or a server that is stopping."""

    code = "overloaded"
    retryable = True
    text = "The server cannot accept another request right now."
    advice = "Try again in a moment."

    def __init__(self, message: str | None = None, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


_FULL = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_MAX_CHAIN_LENGTH = 10


def resource_error_of(number: int | None) -> TruespanError | None:
    """Return what an error number of the system means if a resource ran out; else None."""
    if number in _FULL:
        return StorageFull()
    return TooManyOpenFiles() if number in _NO_DESCRIPTORS else None


def resource_error(error: BaseException) -> TruespanError | None:
    """Return what an exception means if it, or one that caused it, says that a resource ran out.

    Call this before an OSError is turned into an error of ours: a full disk is neither a missing
    permission nor a damaged file.
    """
    found: BaseException | None = error
    for _ in range(_MAX_CHAIN_LENGTH):
        if found is None:
            return None
        if isinstance(found, OSError) and (known := resource_error_of(found.errno)) is not None:
            return known
        found = found.__cause__ if found.__suppress_context__ else found.__context__
    return None


def error_types(family: type[TruespanError] = TruespanError) -> Iterator[type[TruespanError]]:
    """Yield `family` and every error below it that has a code of its own.

    Subclasses that users of the library define are left out: no call of ours raises them.
    """
    if "code" in vars(family):
        yield family
    for kind in family.__subclasses__():
        if kind.__module__ == __name__:
            yield from error_types(kind)
