"""The root of all errors, its families, and the errors of no other module."""

from __future__ import annotations


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
