"""The root of all errors, its families, errors of services, and errors without a better module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Self


class ErrorCode(NamedTuple):
    """Texts of an error code."""

    about: str
    text: str = ""
    """The usual message; names in braces stand for values."""
    advice: str = ""
    retryable: bool = False


class TruespanError(Exception):
    """Root of all errors. `code` is stable; `advice` says what to do next."""

    code = "internal_error"
    codes: ClassVar[Mapping[str, ErrorCode]] = {}
    """The codes of a class that has several."""
    retryable = False
    text = ""
    """The usual message; names in braces stand for values."""
    advice = ""
    own_advice: str | None = None
    """Advice that differs from the usual advice of the code."""
    retry_after: float | None = None
    """Seconds to wait before retrying, if known."""

    def __init__(
        self,
        message: str | None = None,
        *,
        code: str = "",
        advice: str | None = None,
        retry_after: float | None = None,
        **values: object,
    ) -> None:
        """`values` are those that the usual message and advice of the code name in braces."""
        if code not in ("", self.code):
            _, self.text, self.advice, self.retryable = self.codes[code]
            self.code = code
        if values:
            self.text, self.advice = self.text.format_map(values), self.advice.format_map(values)
        self.values = values
        self.message = self.text if message is None else message
        super().__init__(self.message)
        if retry_after is not None:
            self.retry_after = retry_after
        if advice is not None:
            self.advice = self.own_advice = advice

    @classmethod
    def of(
        cls, code: str, message: str | None = None, *, advice: str | None = None, **values: object
    ) -> Self:
        """Return an error by its message, without the arguments that its class takes."""
        error = cls.__new__(cls)
        TruespanError.__init__(error, message, code=code, advice=advice, retry_after=None, **values)
        return error

    def raise_unless(self, *codes: str) -> None:
        """Raise this error again unless its code is one of these."""
        if self.code not in codes:
            raise self

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


class ProviderUnavailable(ServiceError):
    """A provider that did not respond."""

    code = "provider_unavailable"
    retryable = True
    advice = "Try again in a moment."
    codes: ClassVar = {
        "provider_cooldown": ErrorCode(
            "A provider whose keys are all cooling down after too many requests.",
            advice=advice,
            retryable=True,
        )
    }


class ProviderRefused(ServiceError):
    """A request that the provider refused."""

    code = "provider_refused"
    advice = "Check the base URL, the model and the key in the settings of the provider."
    codes: ClassVar = {
        "provider_batch_too_large": ErrorCode(
            "A text that is too large even for a separate request.",
            advice="Lower embedding_max_tokens_per_batch.",
        )
    }


class TextTooLong(ProviderRefused):
    """A text that is longer than the model reads."""

    code = "provider_text_too_long"
    advice = "Shorten the query, or choose smaller chunks."


class ProviderBadReply(ServiceError):
    """Invalid vectors or an incomplete reply of a provider."""

    code = "provider_bad_reply"
    advice = "Check that the base URL leads to a server of the configured kind, and check its log."


class IndexUnavailable(ServiceError):
    """An index that did not respond."""

    code = "index_unavailable"
    retryable = True
    advice = "Try again; the index process is restarted on demand."
    codes: ClassVar = {
        "index_incomplete": ErrorCode(
            "An empty result of an index that lost points; they are being written again.",
            "The index lacks {missing} of {stored} chunks that are embedded.",
            "They are written again from the store in the background, without a provider: try "
            "again in a moment, or run 'truespan repair'.",
            retryable=True,
        )
    }


class IndexRefused(ServiceError):
    """A request that the index refused."""

    code = "index_refused"


class StoreBusy(ServiceError):
    """A store that another process is writing to, or whose connection was lost."""

    code = "store_busy"
    retryable = True
    text = "Another process is writing to the store."
    advice = "Try again in a moment."
    codes: ClassVar = {
        "store_unavailable": ErrorCode(
            "A PostgreSQL server that does not answer.",
            "The server of the store does not answer.",
            "Check host and port, and that the server runs; then try again.",
            retryable=True,
        )
    }


class DeadlineExceeded(ServiceError):
    """A request or body that took too long."""

    code = "deadline_exceeded"
    retryable = True
    advice = "Try again, or ask for less; http_timeout_seconds sets the limit."

    def __init__(self, seconds: float, part: str = "") -> None:
        """`part` is the part of the request that did not arrive in time, if any."""
        if part:
            text = f"The {part} of the request did not arrive within {seconds:g} s."
            super().__init__(text, advice="Send it again, faster or in smaller parts.")
        else:
            super().__init__(f"The request took longer than {seconds:g} s.")


class Overloaded(ServiceError):
    """No capacity for another request or job, or a server that is stopping."""

    code = "overloaded"
    retryable = True
    text = "The server cannot accept another request right now."
    advice = "Try again in a moment."
    retry_after = 1.0
