"""Errors of a request over HTTP."""

from __future__ import annotations

from collections.abc import Iterable

from truespan.errors.base import CallerError


class MethodNotAllowed(CallerError):
    """A method that the address does not take; `allowed` has those it takes."""

    code = "method_not_allowed"

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(
            "This endpoint does not accept that method.", advice=f"Use {', '.join(self.allowed)}."
        )


class MediaTypeUnsupported(CallerError):
    """An unsupported Content-Type."""

    code = "media_type_unsupported"

    def __init__(self, wanted: str) -> None:
        super().__init__("Unsupported Content-Type.", advice=f"Send {wanted}.")


class RequestTooLarge(CallerError):
    """A body, upload or query string above its limit."""

    code = "request_too_large"
    advice = "Send less at once."

    def __init__(self, limit: int, part: str = "body", *, setting: str = "") -> None:
        """`setting` is the name of the setting with the limit, if there is one."""
        raised = f"Send less at once, or raise {setting} in the server's settings."
        super().__init__(
            f"The {part} of the request has more than {limit} bytes.",
            advice=raised if setting else None,
        )
        self.limit = limit


class HostRefused(CallerError):
    """A Host header that is not a name of this server."""

    code = "host_refused"
    text = "This server does not answer under that host name."
    advice = "Use its address, or add the name to http_hosts in the server's settings."


class OriginRefused(CallerError):
    """A request from a page of another origin."""

    code = "origin_refused"
    text = "Pages of that origin may not call this server."
    advice = "Add the origin to http_origins in the server's settings."


class TooManyRequests(CallerError):
    """More requests than the rate limit of the token allows."""

    code = "too_many_requests"
    retryable = True

    def __init__(self, retry_after: float) -> None:
        super().__init__(
            "This caller exceeded its request rate.",
            advice=f"Wait {retry_after:.0f} s, and send requests more slowly.",
        )
        self.retry_after = retry_after


class KeyReused(CallerError):
    """An idempotency key that was used for a different request."""

    code = "idempotency_key_reused"
    text = "This idempotency key was used for another request."
    advice = "Create a new key for each new request."


class KeyBusy(CallerError):
    """An idempotency key whose first request is still running."""

    code = "idempotency_key_busy"
    retryable = True
    retry_after = 1.0
    text = "The first request with this idempotency key is still running."
    advice = "Try again in a moment."
