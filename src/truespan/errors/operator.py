"""Errors of settings or of the installation."""

from __future__ import annotations

from truespan.errors.families import OperatorError


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
