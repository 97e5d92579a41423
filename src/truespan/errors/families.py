"""The root of all errors, the families that say who must act, and the errors of our own making."""

from __future__ import annotations


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
