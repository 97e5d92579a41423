"""Every error Truespan raises, in one tree. The family says who must act.

    TruespanError
    ├── CallerError              the request must change
    │   ├── InvalidArgument        an argument has a wrong type or is out of range
    │   │   ├── QueryTooLong
    │   │   └── WorldNotNamed        the request names no world, and there is not exactly one
    │   ├── NotFound               absent, or not visible to this caller: the same answer
    │   ├── DocumentAmbiguous      the name is that of several documents
    │   ├── ScopeViolation         no result is related to the selected text
    │   ├── NotAllowed
    │   ├── Conflict               the state of the library does not permit it
    │   ├── PromotionRefused
    │   ├── LinesInvalid           a manifest, or golden queries
    │   ├── BackupInvalid, ReceiptInvalid
    │   ├── RequestRefused         a request over HTTP that is not read
    │   ├── TooManyRequests        of this caller; retryable
    │   └── SourceRefused          a file or page that cannot become a document
    ├── OperatorError            settings or the installation must change
    │   ├── InvalidConfiguration, ModelUnavailable, ProfileMismatch
    │   ├── LibraryNotFound, SchemaUnknown, CopyDiffers
    │   ├── IndexSchemaMismatch, IndexKeyRefused, IndexNotOwned
    │   ├── ModelDrifted           the provider changed the model under the same name
    │   ├── StorageFull            no room is left, or less than the reserve
    │   └── TooManyOpenFiles       no file descriptor is free; retryable
    ├── ServiceError             something Truespan depends on failed
    │   ├── ProviderUnavailable    retryable
    │   ├── ProviderRefused
    │   │   └── TextTooLong          one text exceeds the model's input limit
    │   ├── ProviderBadReply       vectors or JSON that cannot be right
    │   ├── IndexUnavailable       retryable
    │   ├── IndexRefused
    │   ├── StoreBusy              another process holds the store; retryable
    │   ├── DeadlineExceeded       retryable
    │   └── Overloaded             too many requests are waiting; retryable
    ├── DamageError              Truespan's own files are not what it wrote
    │   └── StoreDamaged
    ├── Interrupted              stopped on request; the same command continues
    │   └── Cancelled              the same for a job
    └── InternalError            a bug in Truespan

Errors that differ only in code, message and advice are rows in the table `codes` of one class.
Messages are built from typed arguments. They never contain document text, query text or keys.
The package imports nothing else of Truespan.
"""

from __future__ import annotations

import errno

from truespan.errors.base import *  # noqa: F403 -- the package is one namespace  # noqa: F403
from truespan.errors.base import InternalError, TruespanError
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


def error_codes(family: type[TruespanError] = TruespanError) -> dict[str, type[TruespanError]]:
    """Return the class of every code of a family.

    Subclasses that users of the library define are left out: Truespan never raises them.
    """
    found = {family.code: family} if "code" in vars(family) else {}
    found |= dict.fromkeys(family.codes, family) if "codes" in vars(family) else {}
    for kind in family.__subclasses__():
        if kind.__module__.startswith(__name__):
            found |= error_codes(kind)
    return found


def error_of(code: str, message: str | None = None, *, advice: str | None = None) -> TruespanError:
    """Return the error of a code, without what its class takes; an unknown code is a bug."""
    known = error_codes()
    kind = known.get(code, InternalError)
    return kind.of(code if code in known else kind.code, message, advice=advice)
