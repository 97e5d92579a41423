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

from truespan.errors.caller import (
    BackupInvalid,
    BlankQuery,
    ChunkNotFound,
    DocumentNotFound,
    DomainNotFound,
    GenerationIncomplete,
    GenerationInUse,
    GenerationNotFound,
    GoldenInvalid,
    ImageNotFound,
    InvalidSettings,
    JobNotFound,
    JobNotResumable,
    NotAllowed,
    PassageAmbiguous,
    PassageNotFound,
    PositionNotFound,
    PromotionRefused,
    QueryTooLong,
    RecordNotFound,
    ScopeViolation,
    TokenNotFound,
    Unauthorized,
    WorldBusy,
    WorldExists,
    WorldNotFound,
)
from truespan.errors.families import (
    CallerError,
    Cancelled,
    DamageError,
    InternalError,
    Interrupted,
    OperatorError,
    ServiceError,
    StoreDamaged,
    TruespanError,
)
from truespan.errors.operator import (
    CredentialsMissing,
    IndexKeyRefused,
    IndexSchemaMismatch,
    InvalidConfiguration,
    LibraryNotFound,
    LibraryTooNew,
    MigrationRefused,
    ModelDrifted,
    ModelUnavailable,
    ProfileMismatch,
    StorageFull,
    StoreOutdated,
    StoreUnsafe,
)
from truespan.errors.requests import (
    DeadlineExceeded,
    HostRefused,
    KeyBusy,
    KeyReused,
    MediaTypeUnsupported,
    MethodNotAllowed,
    OriginRefused,
    Overloaded,
    RequestTooLarge,
    RouteNotFound,
    TooManyRequests,
)
from truespan.errors.services import (
    BatchTooLarge,
    IndexRefused,
    IndexUnavailable,
    ProviderBadReply,
    ProviderCoolingDown,
    ProviderRefused,
    ProviderUnavailable,
    StoreBusy,
    TextTooLong,
)
from truespan.errors.sources import (
    AssetsTaken,
    LoaderCrashed,
    ManifestInvalid,
    SourceBroken,
    SourceEmpty,
    SourceEncrypted,
    SourceMissing,
    SourceNotText,
    SourceRefused,
    SourceScanned,
    SourceTooCostly,
    SourceTooLarge,
    SourceUnreadable,
    SourceUnsafe,
    SourceUnsupported,
)

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
