"""What leaves through a door: JSON shapes, and one table from errors to status codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from truespan import errors

if TYPE_CHECKING:
    from truespan.model.bundle import ContextBundle


class Status(NamedTuple):
    """How one family of errors looks at each door."""

    http: int
    exit_code: int
    mcp: int


EXIT_REFUSED = 2
"""Nothing of what was given could be ingested."""
EXIT_PARTIAL = 6
"""Some documents failed and the others were ingested."""
EXIT_UNHEALTHY = 5
"""The doctor found something that is not mended."""

_INVALID_PARAMS, _INTERNAL, _SERVER = -32602, -32603, -32000

STATUS: dict[type[errors.TruespanError], Status] = {
    errors.CallerError: Status(400, 2, _INVALID_PARAMS),
    errors.WorldNotFound: Status(404, 2, _INVALID_PARAMS),
    errors.DocumentNotFound: Status(404, 2, _INVALID_PARAMS),
    errors.ChunkNotFound: Status(404, 2, _INVALID_PARAMS),
    errors.NotAllowed: Status(403, 2, _INVALID_PARAMS),
    errors.Unauthorized: Status(401, 2, _INVALID_PARAMS),
    errors.TokenNotFound: Status(404, 2, _INVALID_PARAMS),
    errors.PositionNotFound: Status(404, 2, _INVALID_PARAMS),
    errors.PassageNotFound: Status(422, 2, _INVALID_PARAMS),
    errors.PassageAmbiguous: Status(422, 2, _INVALID_PARAMS),
    errors.ScopeViolation: Status(422, 2, _INVALID_PARAMS),
    errors.WorldBusy: Status(409, 2, _INVALID_PARAMS),
    errors.WorldExists: Status(409, 2, _INVALID_PARAMS),
    errors.SourceRefused: Status(422, 2, _INVALID_PARAMS),
    errors.DomainNotFound: Status(404, 2, _INVALID_PARAMS),
    errors.GenerationNotFound: Status(404, 2, _INVALID_PARAMS),
    errors.GenerationInUse: Status(409, 2, _INVALID_PARAMS),
    errors.GenerationIncomplete: Status(409, 2, _INVALID_PARAMS),
    errors.PromotionRefused: Status(409, 2, _INVALID_PARAMS),
    errors.RecordNotFound: Status(404, 2, _INVALID_PARAMS),
    errors.OperatorError: Status(500, 3, _SERVER),
    errors.ProfileMismatch: Status(409, 3, _SERVER),
    errors.StorageFull: Status(507, 3, _SERVER),
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
    """Return the nearest entry of the table, going up the error's family."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    raise AssertionError("the root is in the table")


def exit_code_of_bundle(bundle: ContextBundle) -> int:
    """Return the exit code of a bundle: that of its error, or 0."""
    if bundle.error is None:
        return 0
    kind = _kind_of(bundle.error.code)
    return status_of(kind.__new__(kind)).exit_code


def failure_of(bundle: ContextBundle) -> errors.TruespanError | None:
    """Return the error that a bundle tells of, to be raised where there are no bundles.

    Its kind, code and words are those of the failure; members that only some kinds have are not
    told in a bundle, and are missing.
    """
    if bundle.error is None:
        return None
    kind = _kind_of(bundle.error.code)
    failure = kind.__new__(kind)
    # The constructors of some kinds take other arguments; the message has its advice in it already.
    errors.TruespanError.__init__(failure, bundle.error.message, advice="")
    failure.retryable = bundle.error.retryable
    return failure


def _kind_of(code: str) -> type[errors.TruespanError]:
    """Return the error that has this code."""
    kinds: list[type[errors.TruespanError]] = [errors.TruespanError]
    for kind in kinds:
        if kind.code == code and kind is not errors.TruespanError:
            return kind
        kinds.extend(kind.__subclasses__())
    return errors.TruespanError


def problem(error: errors.TruespanError) -> dict[str, Any]:
    """Return an error as data."""
    return {
        "code": error.code,
        "message": error.message,
        "advice": error.advice,
        "retryable": error.retryable,
    }


def to_json(value: Any) -> str:
    """Return a value of the model as JSON text."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
