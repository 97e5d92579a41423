"""Errors of what Truespan depends on."""

from __future__ import annotations

from truespan.errors.families import ServiceError


class ProviderUnavailable(ServiceError):
    """A provider did not answer, or asked for a pause of `retry_after` seconds."""

    code = "provider_unavailable"
    retryable = True
    advice = "Try again in a moment."

    def __init__(
        self, message: str, *, retry_after: float | None = None, advice: str | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.retry_after = retry_after


class ProviderCoolingDown(ProviderUnavailable):
    """Every key that may be used waits, because the provider had too many requests."""

    code = "provider_cooldown"


class ProviderRefused(ServiceError):
    code = "provider_refused"


class BatchTooLarge(ProviderRefused):
    """The provider takes fewer texts, or fewer bytes, in one request."""

    code = "provider_batch_too_large"


class TextTooLong(ProviderRefused):
    """The model reads less than one of the texts holds."""

    code = "provider_text_too_long"


class ProviderBadReply(ServiceError):
    code = "provider_bad_reply"


class IndexUnavailable(ServiceError):
    """The index did not answer, or asked for a pause of `retry_after` seconds."""

    code = "index_unavailable"
    retryable = True
    advice = "Try again; the index process is restarted on demand."

    def __init__(
        self, message: str, *, retry_after: float | None = None, advice: str | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.retry_after = retry_after


class IndexRefused(ServiceError):
    code = "index_refused"


class StoreBusy(ServiceError):
    code = "store_busy"
    retryable = True

    def __init__(self, message: str = "Another process holds the store for writing.") -> None:
        super().__init__(message, advice="Try again in a moment.")
