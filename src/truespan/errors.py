"""Every error Truespan raises, in one tree. The family says who must act.

    TruespanError
    ├── CallerError              the request must change
    │   ├── InvalidSettings        a number or flag is out of its range
    │   ├── BlankQuery             there is nothing to search for
    │   ├── QueryTooLong           more tokens than the embedding model reads
    │   ├── WorldNotFound          absent, or not yours: the same answer
    │   ├── WorldExists            that name is taken
    │   ├── DocumentNotFound
    │   ├── ChunkNotFound
    │   ├── ImageNotFound          absent, not yours, or not read yet: the same answer
    │   ├── NotAllowed             this caller may not do that here
    │   ├── Unauthorized           no valid token, for whatever reason
    │   ├── TokenNotFound
    │   ├── PositionNotFound       no reading position is recorded there
    │   ├── PassageNotFound        a passage that should stand in a document does not
    │   ├── PassageAmbiguous       it stands there more than once
    │   ├── ScopeViolation         nothing found is related to the selected text
    │   ├── ManifestInvalid        lines of a manifest cannot be used
    │   ├── DomainNotFound         absent, or of a world that is not yours
    │   ├── GenerationNotFound
    │   ├── GenerationInUse        an alias names it
    │   ├── GenerationIncomplete   documents or vectors are missing
    │   ├── PromotionRefused       it is worse, or could not be verified
    │   ├── GoldenInvalid          golden queries that cannot be used
    │   ├── WorldBusy              a job of the world runs
    │   ├── BackupInvalid          not a backup, or not as it was written
    │   ├── RecordNotFound         the usage log does not have it
    │   ├── RouteNotFound          nothing is at that address
    │   ├── MethodNotAllowed
    │   ├── MediaTypeUnsupported
    │   ├── RequestTooLarge
    │   ├── HostRefused            the server does not answer under that name
    │   ├── OriginRefused          a page of another site asks
    │   ├── TooManyRequests        of this caller; retryable
    │   ├── KeyReused              an idempotency key with another request
    │   ├── KeyBusy                the first request with it is not done; retryable
    │   ├── JobNotFound
    │   ├── JobNotResumable        it runs, or it is done
    │   └── SourceRefused          a file that cannot become a document
    │       ├── SourceMissing
    │       ├── SourceUnreadable
    │       ├── SourceUnsupported
    │       ├── SourceNotText
    │       ├── SourceEmpty
    │       ├── SourceTooLarge       more than a document may have
    │       ├── SourceEncrypted      a password is needed
    │       ├── SourceScanned        pictures of pages, and no text
    │       ├── SourceBroken         its parts do not hold together
    │       ├── SourceUnsafe         built to harm whoever opens it
    │       ├── SourceTooCostly      reading it took more time or memory than allowed
    │       ├── AssetsTaken          its folder for images is another's
    │       └── LoaderCrashed        the process that read it ended
    ├── OperatorError            settings or the installation must change
    │   ├── InvalidConfiguration
    │   ├── LibraryNotFound
    │   ├── LibraryTooNew
    │   ├── StoreOutdated          the tables of the store have to be brought up to date
    │   ├── StoreUnsafe            worlds would not be kept apart by the database
    │   ├── MigrationRefused       a move met something else, or did not arrive as it was sent
    │   ├── ModelUnavailable
    │   ├── ProfileMismatch        another model than the one the world was built with
    │   ├── IndexSchemaMismatch    the index holds vectors of another shape
    │   ├── IndexKeyRefused        the index server does not accept the key
    │   ├── CredentialsMissing     no enabled key for the configured model
    │   ├── ModelDrifted           the provider's model is not what it was
    │   └── StorageFull            free space fell below the reserve
    ├── ServiceError             something we depend on failed
    │   ├── ProviderUnavailable    the embedding provider did not answer; retryable
    │   │   └── ProviderCoolingDown  every key waits after too many requests
    │   ├── ProviderRefused        it answered no
    │   │   ├── BatchTooLarge        of several texts: fewer may do
    │   │   └── TextTooLong          of one text: the model reads less
    │   ├── ProviderBadReply       it answered with vectors that cannot be true
    │   ├── IndexUnavailable       the index did not answer; retryable
    │   ├── IndexRefused           the index answered no
    │   ├── StoreBusy              another process holds the store; retryable
    │   ├── DeadlineExceeded       a request took too long; retryable
    │   └── Overloaded             too many requests wait; retryable
    ├── DamageError              our own files are not what we wrote
    │   └── StoreDamaged
    ├── Interrupted              stopped on request; the same command goes on
    │   └── Cancelled              the same for a job that somebody cancelled
    └── InternalError            a bug of ours

Messages are built from typed arguments. They never hold document text, query text or keys.
They import nothing of the package.
"""

from __future__ import annotations

from collections.abc import Iterable


class TruespanError(Exception):
    """Root of all errors. `code` is stable; `advice` says what to do next."""

    code = "internal_error"
    retryable = False
    advice = ""

    def __init__(self, message: str, *, advice: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if advice is not None:
            self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


class CallerError(TruespanError):
    """The request must change."""

    code = "invalid_request"


class OperatorError(TruespanError):
    """Settings or the installation must change."""

    code = "operator_error"


class ServiceError(TruespanError):
    """Something Truespan depends on failed."""

    code = "service_error"


class DamageError(TruespanError):
    """Our own files are not what we wrote."""

    code = "damage"


class StoreDamaged(DamageError):
    code = "store_damaged"
    advice = "Restore the library from a backup."


class Interrupted(TruespanError):
    code = "interrupted"
    retryable = True

    def __init__(
        self,
        message: str = "Stopped. What was done is kept.",
        *,
        advice: str = "The same command goes on from here.",
    ) -> None:
        super().__init__(message, advice=advice)


class Cancelled(Interrupted):
    """A job was stopped by somebody who asked for that."""

    code = "cancelled"


class InternalError(TruespanError):
    """An exception nobody foresaw; counted as a bug."""

    code = "internal_error"

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"An unexpected {kind} occurred; this is a bug in Truespan.",
            advice="Run again with TRUESPAN_DEBUG=1 to see where.",
        )


class InvalidSettings(CallerError):
    """A retrieval setting has a wrong type or lies outside its range."""

    code = "invalid_settings"


class BlankQuery(CallerError):
    code = "blank_query"

    def __init__(self) -> None:
        super().__init__("The query is empty.", advice="Ask for something in words.")


class QueryTooLong(CallerError):
    code = "query_too_long"

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            f"The query has {tokens} tokens; the embedding model reads {limit}.",
            advice="Shorten the query.",
        )
        self.tokens, self.limit = tokens, limit


class WorldNotFound(CallerError):
    code = "world_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"There is no world {reference!r} here.",
            advice="'truespan status' lists the worlds; 'truespan init --world NAME' makes one.",
        )


class WorldExists(CallerError):
    code = "world_exists"

    def __init__(self, name: str) -> None:
        super().__init__(f"A world named {name!r} exists already.", advice="Choose another name.")


class DocumentNotFound(CallerError):
    code = "document_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"There is no document {reference!r} in this world.",
            advice="'truespan status --world NAME' lists its documents.",
        )


class ChunkNotFound(CallerError):
    code = "chunk_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(f"There is no chunk {reference!r} in this world.")


class ImageNotFound(CallerError):
    """Absent, of another world, or not read yet: the same answer."""

    code = "image_not_found"

    def __init__(self) -> None:
        super().__init__("There is no such image here.")


class NotAllowed(CallerError):
    code = "not_allowed"

    def __init__(self, verb: str) -> None:
        super().__init__(f"This caller may not {verb} here.")


class Unauthorized(CallerError):
    """No valid token. It never says why: unknown, wrong, expired and revoked are one answer."""

    code = "unauthorized"

    def __init__(self) -> None:
        super().__init__(
            "This needs a valid token.",
            advice="Send it as 'Authorization: Bearer TOKEN'; the owner makes them.",
        )


class TokenNotFound(CallerError):
    """There is no token of that id. What was given is not repeated: it may be a secret."""

    code = "token_not_found"

    def __init__(self) -> None:
        super().__init__(
            "There is no token of that id.", advice="'truespan token list' shows them."
        )


class PositionNotFound(CallerError):
    code = "no_reading_position"

    def __init__(self) -> None:
        super().__init__(
            "No reading position is recorded there, so nothing is readable.",
            advice="The owner records one with 'truespan reader set'.",
        )


class PassageNotFound(CallerError):
    code = "passage_not_found"

    def __init__(self) -> None:
        super().__init__(
            "No such passage stands in this document.",
            advice="Give a few more words, exactly as they stand in the text.",
        )


class PassageAmbiguous(CallerError):
    code = "passage_ambiguous"

    def __init__(self, count: int) -> None:
        super().__init__(
            f"This passage stands in the document {count} times.",
            advice="Give a longer passage.",
        )


class ScopeViolation(CallerError):
    code = "scope_violation"

    def __init__(self) -> None:
        super().__init__(
            "Nothing that answers the query is related to the selected text.",
            advice="Select another passage, or ask without a selection.",
        )


class JobNotFound(CallerError):
    code = "job_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"There is no job {reference!r} in this world.",
            advice="'truespan jobs list' shows them.",
        )


class JobNotResumable(CallerError):
    code = "job_not_resumable"

    def __init__(self, reference: str, state: str) -> None:
        super().__init__(f"The job {reference!r} is {state}, so there is nothing to go on with.")


class DomainNotFound(CallerError):
    code = "domain_not_found"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"There is no domain {key!r} here.", advice="'truespan domains' lists them."
        )


class GenerationNotFound(CallerError):
    code = "generation_not_found"

    def __init__(self, number: int) -> None:
        super().__init__(
            f"This world has no generation {number}.",
            advice="'truespan generations' lists them.",
        )


class GenerationInUse(CallerError):
    code = "generation_in_use"

    def __init__(self, number: int, names: str) -> None:
        super().__init__(
            f"Generation {number} is what {names} names.", advice="Move that to another one first."
        )


class GenerationIncomplete(CallerError):
    """A generation lacks documents or vectors, so that nobody may be sent to it."""

    code = "generation_incomplete"

    def __init__(self, number: int, missing: int, pending: int) -> None:
        super().__init__(
            f"Generation {number} lacks {missing} documents and {pending} vectors.",
            advice=f"'truespan reindex --generation {number}' completes it.",
        )


class PromotionRefused(CallerError):
    """A generation is not as good as the one it would replace, or could not be verified."""

    code = "promotion_refused"


class GoldenInvalid(CallerError):
    """Golden queries that cannot be used. `lines` are numbers with what is wrong there."""

    code = "golden_invalid"

    def __init__(self, name: str, lines: list[tuple[int, str]]) -> None:
        shown = "; ".join(f"line {number}: {reason}" for number, reason in lines[:10])
        more = f"; and {len(lines) - 10} more" if len(lines) > 10 else ""
        super().__init__(f"{name}: {shown}{more}.", advice="None of its queries was used.")
        self.lines = lines


class WorldBusy(CallerError):
    code = "world_busy"

    def __init__(self, world: str, job: str) -> None:
        super().__init__(
            f"The job {job} of world {world!r} is running.",
            advice="Wait for it, or stop it with 'truespan jobs cancel'.",
        )


class BackupInvalid(CallerError):
    """A file that is no backup, or not as it was written."""

    code = "backup_invalid"


class RecordNotFound(CallerError):
    code = "record_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"There is no record {reference!r} in the usage log of this world.",
            advice="'truespan usage' lists what is kept.",
        )


class RouteNotFound(CallerError):
    code = "route_not_found"

    def __init__(self) -> None:
        super().__init__("There is nothing at this address.", advice="/openapi.json lists what is.")


class MethodNotAllowed(CallerError):
    code = "method_not_allowed"

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(
            "This address does not take that method.",
            advice=f"It takes: {', '.join(self.allowed)}.",
        )


class MediaTypeUnsupported(CallerError):
    code = "media_type_unsupported"

    def __init__(self, wanted: str) -> None:
        super().__init__(
            "The body is of another kind than is taken here.", advice=f"Send {wanted}."
        )


class RequestTooLarge(CallerError):
    code = "request_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The request has more than {limit} bytes.",
            advice="Send less at once; the operator's settings have the limit.",
        )
        self.limit = limit


class HostRefused(CallerError):
    """The Host header names nobody that this server answers for."""

    code = "host_refused"

    def __init__(self) -> None:
        super().__init__(
            "This server does not answer under that host name.",
            advice="Ask it by its address, or let the operator add the name to http_hosts.",
        )


class OriginRefused(CallerError):
    """A page of another site asks."""

    code = "origin_refused"

    def __init__(self) -> None:
        super().__init__(
            "Pages of that origin may not ask this server.",
            advice="The operator may add the origin to http_origins.",
        )


class TooManyRequests(CallerError):
    code = "too_many_requests"
    retryable = True

    def __init__(self, retry_after: float) -> None:
        super().__init__(
            "More requests came than this caller may send.",
            advice=f"Wait {retry_after:.0f} s, and send them more slowly.",
        )
        self.retry_after = retry_after


class KeyReused(CallerError):
    """An idempotency key came with another request than before."""

    code = "idempotency_key_reused"

    def __init__(self) -> None:
        super().__init__(
            "This idempotency key was used for another request.",
            advice="Make a new key for each new request.",
        )


class KeyBusy(CallerError):
    """The request with this idempotency key is still at work."""

    code = "idempotency_key_busy"
    retryable = True
    retry_after = 1.0

    def __init__(self) -> None:
        super().__init__(
            "The first request with this idempotency key is not done yet.",
            advice="Ask again in a moment.",
        )


class DeadlineExceeded(ServiceError):
    code = "deadline_exceeded"
    retryable = True

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The request was not done within {seconds:g} s.",
            advice="Try again, or ask for less; http_timeout_seconds has the limit.",
        )


class Overloaded(ServiceError):
    """More requests or jobs wait than there is room for, or a server is about to end."""

    code = "overloaded"
    retryable = True
    advice = "Try again in a moment."
    retry_after = 1.0

    def __init__(
        self,
        message: str = "The server has no room for another request just now.",
        *,
        retry_after: float = 1.0,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SourceRefused(CallerError):
    """A source that cannot become a document."""

    code = "source_refused"
    reason = "cannot be read"

    def __init__(self, name: str, *, advice: str | None = None) -> None:
        super().__init__(f"{name}: {self.reason}.", advice=advice)
        self.name = name


class SourceMissing(SourceRefused):
    code = "source_missing"
    reason = "no such file or folder"


class SourceUnreadable(SourceRefused):
    code = "source_unreadable"
    reason = "cannot be opened"


class SourceUnsupported(SourceRefused):
    code = "source_unsupported"
    reason = "not a kind of file that can be ingested"
    advice = "Text, Markdown, HTML, DOCX, EPUB and PDF can."


class SourceNotText(SourceRefused):
    code = "source_not_text"
    reason = "named like a text file, but its bytes are not text"
    advice = "Save it as UTF-8 text."


class SourceEmpty(SourceRefused):
    code = "source_empty"
    reason = "holds no text"


class SourceTooLarge(SourceRefused):
    code = "source_too_large"
    reason = "larger than a document may be"


class SourceEncrypted(SourceRefused):
    code = "source_encrypted"
    reason = "protected by a password"
    advice = "Save a copy without the password."


class SourceScanned(SourceRefused):
    code = "source_scanned"
    reason = "holds pictures of pages and no text"
    advice = "Run text recognition over it first."


class SourceBroken(SourceRefused):
    code = "source_broken"
    reason = "damaged, or not what its beginning says"
    advice = "Open it with the program that made it and save it again."


class SourceUnsafe(SourceRefused):
    """It is built in a way that no honest program builds documents."""

    code = "source_unsafe"
    reason = "built in a way that could do harm"
    advice = "Do not trust where it came from."


class SourceTooCostly(SourceRefused):
    code = "source_too_costly"
    reason = "reading it takes more time or memory than is allowed"
    advice = "Split it, or raise loader_cpu_seconds or loader_memory_mib."


class AssetsTaken(SourceRefused):
    code = "assets_taken"
    reason = "the folder for its images belongs to a document of the same id in another world"
    advice = "Give it another doc_id, or set RAG_ASSETS_DIR to another folder."


class LoaderCrashed(SourceRefused):
    code = "loader_crashed"
    reason = "the process that read it ended without an answer"


class ManifestInvalid(CallerError):
    """Lines of a manifest that cannot be used. `lines` are numbers with what is wrong there."""

    code = "manifest_invalid"

    def __init__(self, name: str, lines: list[tuple[int, str]]) -> None:
        shown = "; ".join(f"line {number}: {reason}" for number, reason in lines[:10])
        more = f"; and {len(lines) - 10} more" if len(lines) > 10 else ""
        super().__init__(f"{name}: {shown}{more}.", advice="Nothing of it was ingested.")
        self.lines = lines


class InvalidConfiguration(OperatorError):
    code = "invalid_configuration"


class LibraryNotFound(OperatorError):
    code = "library_not_found"

    def __init__(self, path: str) -> None:
        super().__init__(f"There is no library at {path}.", advice="Make one with 'truespan init'.")


class LibraryTooNew(OperatorError):
    code = "library_too_new"

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"The library has schema {found}; this version knows schemas up to {known}.",
            advice="Update Truespan.",
        )


class StoreOutdated(OperatorError):
    code = "store_outdated"

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(
            f"The store has schema {found}; this version needs schema {needed}.",
            advice="Run 'truespan prepare-store'.",
        )


class StoreUnsafe(OperatorError):
    """The store cannot be used because worlds would not be kept apart in it."""

    code = "store_unsafe"


class MigrationRefused(OperatorError):
    """What is in the target of a move is not, or would not be, this library and nothing else."""

    code = "migration_refused"


class ModelUnavailable(OperatorError):
    code = "model_unavailable"


class ProfileMismatch(OperatorError):
    code = "profile_mismatch"

    def __init__(self, built_with: str, configured: str) -> None:
        super().__init__(
            f"The world was built with {built_with}; the configured embedder is {configured}.",
            advice="Configure the world's embedder, or build a new generation with this one.",
        )


class IndexSchemaMismatch(OperatorError):
    code = "index_schema_mismatch"

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(
            f"The index holds vectors of {found}; the world's profile needs {expected}.",
            advice="'truespan doctor --apply' rebuilds the index from the store.",
        )


class IndexKeyRefused(OperatorError):
    code = "index_key_refused"

    def __init__(self, status: str) -> None:
        super().__init__(
            f"The index server does not accept the key it was given, or none was ({status}).",
            advice="Set QDRANT_API_KEY, or add [[keys]] for qdrant; see docs/qdrant.md.",
        )


class CredentialsMissing(OperatorError):
    code = "credentials_missing"

    def __init__(self, provider: str, model: str) -> None:
        super().__init__(
            f"There is no enabled key for {provider} that may use the model {model!r}.",
            advice="Give one in the environment or in a key file; see docs/providers.md.",
        )


class ModelDrifted(OperatorError):
    code = "model_drifted"

    def __init__(self, profile: str) -> None:
        super().__init__(
            f"{profile} embeds known texts in another way than when this world was built.",
            advice="The provider changed the model. Build a new generation, or go back to the old.",
        )


class StorageFull(OperatorError):
    code = "storage_full"

    def __init__(self, free: int, reserve: int) -> None:
        super().__init__(
            f"Only {free >> 20} MiB are free; {reserve >> 20} MiB are kept in reserve.",
            advice="Free some space, then run the same command again.",
        )
        self.free, self.reserve = free, reserve


class ProviderUnavailable(ServiceError):
    """A provider did not answer, or asked for a pause of `retry_after` seconds."""

    code = "provider_unavailable"
    retryable = True
    advice = "Try again in a moment."

    def __init__(
        self, message: str, *, retry_after: float | None = None, advice: str | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.retry_after = retry_after


class ProviderCoolingDown(ProviderUnavailable):
    """Every key that may be used waits, because the provider had too many requests."""

    code = "provider_cooldown"


class ProviderRefused(ServiceError):
    code = "provider_refused"


class BatchTooLarge(ProviderRefused):
    """The provider takes fewer texts, or fewer bytes, in one request."""

    code = "provider_batch_too_large"


class TextTooLong(ProviderRefused):
    """The model reads less than one of the texts holds."""

    code = "provider_text_too_long"


class ProviderBadReply(ServiceError):
    code = "provider_bad_reply"


class IndexUnavailable(ServiceError):
    """The index did not answer, or asked for a pause of `retry_after` seconds."""

    code = "index_unavailable"
    retryable = True
    advice = "Try again; the index process is restarted on demand."

    def __init__(
        self, message: str, *, retry_after: float | None = None, advice: str | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.retry_after = retry_after


class IndexRefused(ServiceError):
    code = "index_refused"


class StoreBusy(ServiceError):
    code = "store_busy"
    retryable = True

    def __init__(self, message: str = "Another process holds the store for writing.") -> None:
        super().__init__(message, advice="Try again in a moment.")


__all__ = [
    "AssetsTaken",
    "BackupInvalid",
    "BatchTooLarge",
    "BlankQuery",
    "CallerError",
    "Cancelled",
    "ChunkNotFound",
    "CredentialsMissing",
    "DamageError",
    "DeadlineExceeded",
    "DocumentNotFound",
    "DomainNotFound",
    "GenerationInUse",
    "GenerationIncomplete",
    "GenerationNotFound",
    "GoldenInvalid",
    "HostRefused",
    "ImageNotFound",
    "IndexKeyRefused",
    "IndexRefused",
    "IndexSchemaMismatch",
    "IndexUnavailable",
    "InternalError",
    "Interrupted",
    "InvalidConfiguration",
    "InvalidSettings",
    "JobNotFound",
    "JobNotResumable",
    "KeyBusy",
    "KeyReused",
    "LibraryNotFound",
    "LibraryTooNew",
    "LoaderCrashed",
    "ManifestInvalid",
    "MediaTypeUnsupported",
    "MethodNotAllowed",
    "MigrationRefused",
    "ModelDrifted",
    "ModelUnavailable",
    "NotAllowed",
    "OperatorError",
    "OriginRefused",
    "Overloaded",
    "PassageAmbiguous",
    "PassageNotFound",
    "PositionNotFound",
    "ProfileMismatch",
    "PromotionRefused",
    "ProviderBadReply",
    "ProviderCoolingDown",
    "ProviderRefused",
    "ProviderUnavailable",
    "QueryTooLong",
    "RecordNotFound",
    "RequestTooLarge",
    "RouteNotFound",
    "ScopeViolation",
    "ServiceError",
    "SourceBroken",
    "SourceEmpty",
    "SourceEncrypted",
    "SourceMissing",
    "SourceNotText",
    "SourceRefused",
    "SourceScanned",
    "SourceTooCostly",
    "SourceTooLarge",
    "SourceUnreadable",
    "SourceUnsafe",
    "SourceUnsupported",
    "StorageFull",
    "StoreBusy",
    "StoreDamaged",
    "StoreOutdated",
    "StoreUnsafe",
    "TextTooLong",
    "TokenNotFound",
    "TooManyRequests",
    "TruespanError",
    "Unauthorized",
    "WorldBusy",
    "WorldExists",
    "WorldNotFound",
]
