"""Results and errors as data for all interfaces, and one table from errors to status codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from truespan import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msgspec import Struct

    from truespan.types.bundle import ContextBundle
    from truespan.types.chunk import ChunkRecord
    from truespan.types.document import Document
    from truespan.types.scope import Unlimited


TIMES = frozenset(
    {
        *("at", "created_at", "seen_at", "finished_at", "deleted_at", "expires_at", "revoked_at"),
        *("asked_at", "updated_at", "written_at"),
    }
)
"""Members of records that are times, in seconds since 1970."""


class Status(NamedTuple):
    """The HTTP status, exit code and MCP error code of a family of errors."""

    http: int
    exit_code: int
    mcp: int


EXIT_REFUSED = 2
"""No source could be ingested."""
EXIT_PARTIAL = 6
"""Some documents failed; the others were ingested."""
EXIT_UNHEALTHY = 5
"""The doctor found something that is not repaired."""

_INVALID_PARAMS, _INTERNAL, _SERVER = -32602, -32603, -32000

STATUS: dict[type[errors.TruespanError] | str, Status] = {
    errors.CallerError: Status(400, 2, _INVALID_PARAMS),
    errors.NotFound: Status(404, 2, _INVALID_PARAMS),
    errors.NotAllowed: Status(403, 2, _INVALID_PARAMS),
    "conversations_off": Status(403, 2, _INVALID_PARAMS),
    "unauthorized": Status(401, 2, _INVALID_PARAMS),
    "passage_not_found": Status(422, 2, _INVALID_PARAMS),
    errors.DocumentAmbiguous: Status(422, 2, _INVALID_PARAMS),
    "passage_ambiguous": Status(422, 2, _INVALID_PARAMS),
    errors.ScopeViolation: Status(422, 2, _INVALID_PARAMS),
    "world_busy": Status(409, 2, _INVALID_PARAMS),
    "world_exists": Status(409, 2, _INVALID_PARAMS),
    errors.SourceRefused: Status(422, 2, _INVALID_PARAMS),
    "loader_not_started": Status(503, 4, _SERVER),
    "page_unavailable": Status(502, 4, _SERVER),
    "generation_in_use": Status(409, 2, _INVALID_PARAMS),
    "generation_incomplete": Status(409, 2, _INVALID_PARAMS),
    errors.PromotionRefused: Status(409, 2, _INVALID_PARAMS),
    "method_not_allowed": Status(405, 2, _INVALID_PARAMS),
    "media_type_unsupported": Status(415, 2, _INVALID_PARAMS),
    "request_too_large": Status(413, 2, _INVALID_PARAMS),
    "host_refused": Status(421, 2, _INVALID_PARAMS),
    "origin_refused": Status(403, 2, _INVALID_PARAMS),
    errors.TooManyRequests: Status(429, 2, _SERVER),
    "idempotency_key_reused": Status(422, 2, _INVALID_PARAMS),
    "idempotency_key_busy": Status(409, 2, _SERVER),
    "job_not_resumable": Status(409, 2, _INVALID_PARAMS),
    errors.DeadlineExceeded: Status(504, 4, _SERVER),
    errors.Overloaded: Status(503, 4, _SERVER),
    errors.OperatorError: Status(500, 3, _SERVER),
    errors.ProfileMismatch: Status(409, 3, _SERVER),
    "signing_key_missing": Status(409, 3, _SERVER),
    errors.StorageFull: Status(507, 3, _SERVER),
    errors.TooManyOpenFiles: Status(503, 3, _SERVER),
    errors.ServiceError: Status(502, 4, _SERVER),
    errors.ProviderUnavailable: Status(503, 4, _SERVER),
    errors.IndexUnavailable: Status(503, 4, _SERVER),
    errors.StoreBusy: Status(503, 4, _SERVER),
    errors.DamageError: Status(500, 5, _SERVER),
    errors.Interrupted: Status(503, 130, _SERVER),
    errors.InternalError: Status(500, 1, _INTERNAL),
    errors.TruespanError: Status(500, 1, _INTERNAL),
}


def status_of(error: errors.TruespanError) -> Status:
    """Return the entry of the error's code, or of its type or nearest base class."""
    return next(STATUS[key] for key in (error.code, *type(error).__mro__) if key in STATUS)


def exit_code_of(code: str) -> int:
    """Return the exit code for an error code; an unknown code counts as a bug."""
    return status_of(errors.error_of(code)).exit_code


def advice_of(code: str) -> str:
    """Return the advice of an error code; empty if it depends on what happened."""
    return errors.error_of(code).advice


def failure_of(bundle: ContextBundle) -> errors.TruespanError | None:
    """Return the error of a failed bundle, for interfaces that raise; None if it did not fail.

    It has the type, code and message of the failure. Attributes that only some errors have are
    missing, because a bundle does not contain them.
    """
    if bundle.error is None:
        return None
    # The message already contains the advice.
    failure = errors.error_of(bundle.error.code, bundle.error.message, advice="")
    failure.retryable = bundle.error.retryable
    return failure


def problem(error: errors.TruespanError) -> dict[str, Any]:
    return members(error, "code", "message", "advice", "retryable")


def allowed_names(names: Iterable[str] | Unlimited) -> str | list[str]:
    """Return the names that an authority or token allows, sorted; or 'unlimited'."""
    from truespan.types.scope import Unlimited

    return names.value if isinstance(names, Unlimited) else sorted(names)


def members(value: object, *names: str) -> dict[str, Any]:
    """Return attributes of a value by name, as members of a JSON object."""
    return {name: getattr(value, name) for name in names}


def record_data(record: Struct, *names: str) -> dict[str, Any]:
    """Return the members of a record, or those named, with its times in ISO 8601."""
    from truespan.core.clock import format_time

    data = members(record, *(names or record.__struct_fields__))
    for name in TIMES & data.keys():
        if data[name] is not None:
            data[name] = format_time(data[name])
    return data


def chunk_data(record: ChunkRecord) -> dict[str, Any]:
    """Return a chunk as data; the text is null if the bytes do not match their hash."""
    chunk, intact = record.chunk, record.is_intact()
    shown = members(record, "state", "live", "document") | {"intact": intact}
    if chunk is not None:
        shown |= members(
            *(chunk, "chunk_id", "index", "start", "end", "first_sid", "last_sid", "page"),
            "location",
        )
        shown["chunk_type"] = chunk.kind
        shown |= members(chunk, "tokens", "text_hash", "dedupe_hash", "figure")
        shown["text"] = chunk.data.decode() if intact else None
        if record.space_id is not None:
            shown |= {"content": record.content, "space_id": record.space_id}
            shown |= {"startChar": record.start_char, "endChar": record.end_char}
    return shown


def document_data(document: Document) -> dict[str, Any]:
    """Return a document for JSON, with its metadata as an object."""
    from msgspec import to_builtins

    from truespan.types.metadata import read_metadata

    return to_builtins(document) | {"metadata": read_metadata(document.metadata)}


def to_json(value: Any) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
