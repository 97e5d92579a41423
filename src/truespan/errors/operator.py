"""Errors of settings and of the installation: the operator must act."""

from __future__ import annotations

from typing import ClassVar

from truespan.errors.base import ErrorCode, OperatorError


class InvalidConfiguration(OperatorError):
    """An unknown or wrong setting or chunking profile."""

    code = "invalid_configuration"
    codes: ClassVar = {
        "extension_missing": ErrorCode(
            "A part of Truespan that is used or configured, and not installed.",
            "{what} needs the extension {extension!r}, which is not installed.",
            "Install Truespan with all its extensions.",
        ),
        "store_unsafe": ErrorCode(
            "A database that would not isolate worlds: its version, role or policies."
        ),
        "credentials_missing": ErrorCode(
            "A configured model without an enabled key.",
            "No enabled key for {provider} may use the model {model!r}.",
            "Set a key in the environment or in a key file; see docs/providers.md.",
        ),
        "signing_key_missing": ErrorCode(
            "A library that cannot sign a receipt.",
            "This library has no signing key.",
            "Create one with 'truespan keys create'.",
        ),
    }


class SchemaUnknown(OperatorError):
    """A library or store with the schema of another version of Truespan."""

    codes: ClassVar = {
        "library_too_new": ErrorCode(
            "A library that a newer version of Truespan wrote.",
            "The library has schema {found}; this version supports schemas up to {known}.",
            "Update Truespan.",
        ),
        "library_too_old": ErrorCode(
            "A library from before the first release, which cannot be migrated.",
            "The library has schema {found}; this version supports schemas from {known} on.",
            "Create a new library, and ingest the sources again.",
        ),
        "store_outdated": ErrorCode(
            "Tables in PostgreSQL from an earlier version.",
            "The store has schema {found}; this version needs schema {known}.",
            "Run 'truespan prepare-store'.",
        ),
    }

    def __init__(self, code: str, found: int, known: int) -> None:
        super().__init__(code=code, found=found, known=known)


class LibraryNotFound(OperatorError):
    """A folder without a library, or where none can be created."""

    code = "library_not_found"
    advice = "Create one with 'truespan init'."

    def __init__(self, path: str) -> None:
        super().__init__(f"There is no library at {path}.")


class CopyDiffers(OperatorError):
    """A copy of a store or a file that differs from its source; backups catch it."""

    code = "copy_differs"


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
    advice = "Set QDRANT_API_KEY, or add [[keys]] for qdrant; see docs/deployment.md."

    def __init__(self, status: str, forbidden: str | None = None) -> None:
        """`forbidden` is the action that a valid key does not permit."""
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
        """Without a `reserve`, a write was refused; `place` names a disk of another machine."""
        if reserve:
            # Rounded up, so that less than 1 MiB is not 0.
            needed = -(-reserve >> 20)
            text = (
                f"Only {free >> 20} MiB are free on the disk; this needs {needed} MiB, "
                "with a reserve for other programs."
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
