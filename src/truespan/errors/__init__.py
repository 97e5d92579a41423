"""Every error Truespan raises, in one tree. The family says who must act.

    TruespanError
    ├── CallerError              the request must change
    │   ├── InvalidArgument        an argument has a wrong type or is out of range
    │   ├── BlankQuery, QueryTooLong
    │   ├── WorldNotNamed          the request names no world, and there is not exactly one
    │   ├── NotFound               absent, or not visible to this caller: the same answer
    │   │   ├── WorldNotFound, DocumentNotFound, ChunkNotFound, ImageNotFound, TokenNotFound
    │   │   ├── JobNotFound, DomainNotFound, GenerationNotFound
    │   │   ├── ConversationNotFound, NoteNotFound
    │   │   └── PositionNotFound, PassageNotFound, RouteNotFound
    │   ├── DocumentAmbiguous      the name is that of several documents
    │   ├── PassageAmbiguous       the passage occurs more than once
    │   ├── ScopeViolation         no result is related to the selected text
    │   ├── NotAllowed, Unauthorized
    │   ├── ConversationsOff       the operator does not keep conversations
    │   ├── WorldExists, WorldBusy, JobNotResumable
    │   ├── GenerationInUse, GenerationIncomplete, PromotionRefused
    │   ├── ManifestInvalid, GoldenInvalid, BackupInvalid, ReceiptInvalid
    │   ├── MethodNotAllowed, MediaTypeUnsupported, RequestTooLarge, HostRefused, OriginRefused
    │   ├── TooManyRequests        of this caller; retryable
    │   ├── KeyReused, KeyBusy     idempotency keys; a busy one is retryable
    │   └── SourceRefused          a file that cannot become a document
    │       ├── SourceMissing, SourceOutside, SourceUnreadable, SourceUnsupported, SourceNotText
    │       ├── SourceEmpty, SourceCopied, AudienceMissing, SourceTooLarge, SourceEncrypted
    │       ├── SourceScanned
    │       ├── SourceBroken, SourceUnsafe, SourceTooCostly, AssetsTaken, LoaderCrashed, PageRefused
    │       ├── PageUnavailable    its server did not answer as it should; retryable
    │       └── LoaderNotStarted   nothing is wrong with the file; retryable
    ├── OperatorError            settings or the installation must change
    │   ├── InvalidConfiguration, ExtensionMissing, CredentialsMissing, ModelUnavailable
    │   ├── ProfileMismatch
    │   ├── SigningKeyMissing      the library cannot sign receipts
    │   ├── LibraryNotFound, LibraryTooNew, LibraryTooOld
    │   ├── StoreOutdated, StoreUnsafe, CopyDiffers
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
The package imports nothing else of Truespan.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from truespan.errors.base import *  # noqa: F403 -- the package is one namespace  # noqa: F403
from truespan.errors.base import TruespanError
from truespan.errors.operator import *  # noqa: F403
from truespan.errors.operator import StorageFull, TooManyOpenFiles
from truespan.errors.request import *  # noqa: F403
from truespan.errors.source import *  # noqa: F403

_FULL = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_MAX_CHAIN_LENGTH = 10


def resource_error_of(number: int | None) -> TruespanError | None:
    """Return the error for a system error number that means an exhausted resource, or None."""
    if number in _FULL:
        return StorageFull()
    return TooManyOpenFiles() if number in _NO_DESCRIPTORS else None


def resource_error(error: BaseException) -> TruespanError | None:
    """Return the error for an exception that an exhausted resource caused, or None.

    Call this before turning an OSError into another error: a full disk is neither a missing
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
    """Yield `family` and every error below it that defines a code.

    Subclasses that users of the library define are left out: Truespan never raises them.
    """
    if "code" in vars(family):
        yield family
    for kind in family.__subclasses__():
        if kind.__module__.startswith(__name__):
            yield from error_types(kind)
